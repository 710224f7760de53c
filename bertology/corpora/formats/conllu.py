"""CoNLL-U in: treebanks of Universal Dependencies (format: https://universaldependencies.org/format.html).

CoNLL-U Plus (``.conllup``) as well, whose columns its first line names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from bertology.corpora._corpus import Corpus, corpus_from_files
from bertology.corpora._files import Oddities, text_lines
from bertology.corpora._sentence import MultiwordToken, Sentence, Target
from bertology.corpora.formats._spans import Mention, coreference
from bertology.corpora.formats.conllu_lines import N_COLUMNS, UNSPACED, Block, CircleError, Numbers, PlusColumns, Row
from bertology.errors import CorpusError, cut, quoted

CONLLU_SUFFIXES = (".conllu", ".conllup")
_Column = tuple[str, ...]

_LAYERS = {"lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "deprel": 7, "deps": 8, "misc": 9}
_FORM, _LEMMA, _HEAD, _MISC = 1, 2, 6, 9
_ENTITY = "Entity="
_HEADER = "global.Entity"
_BRACKET = re.compile(r"\((?P<opened>[^()]+)(?P<closed_at_once>\))?|(?P<closed>[^()]+)\)")
_DISCONTINUOUS = re.compile(r"\[(\d+)/(\d+)\]$")
_NEW_DOCUMENT = re.compile(r"\s*newdoc\b(\s+id\s*=\s*(?P<id>.+?)\s*$)?")
_IDS, _TYPES = ("eid", "GRP"), ("etype", "entity")


def read_conllu(path: str | Path, oddities: Oddities | None = None) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file, one at a time.

    The natural text is made from the words and their spacing (``SpaceAfter=No`` of the word, or of the multiword
    token that covers it), so that offsets hold whatever the ``# text`` comment says; where the two differ by more
    than the amount of white space, that is counted in ``oddities``. A lone ``_`` is no value, except for the form,
    and for the lemma of a form that is itself ``_``. Sentences without a ``sent_id`` are named by their number.

    Args:
        path: the file.
        oddities: collects what is unusual but no error: differing texts, several roots, a ``sent_id`` used twice; and
            the sentences that are left out, as their heads form a circle.

    Returns:
        Sentences with the layers ``lemma upos xpos feats deprel deps misc`` as far as a sentence has them, heads,
        multiword tokens, and comments and empty nodes verbatim. Documents (``# newdoc``) are groups.
        Where MISC holds ``Entity=`` (as in GUM), targets ``entities`` and ``coref``: every pair of mentions in a
        sentence.

    Raises:
        CorpusError: the file or a line of it is not as it should be, or the heads of every sentence form a circle; the
            message names file and line.
    """
    path, oddities = Path(path), oddities or Oddities()
    ids: set[str] = set()
    for block, sentence in read_sentences(path, oddities):
        if sentence.id in ids:
            oddities.note("sent_id used twice", f"{path.name}:{block.first_line}")
        ids.add(sentence.id)
        yield sentence


def read_sentences(path: Path, oddities: Oddities, *, wider: bool = False) -> Iterator[tuple[Block, Sentence]]:
    """The sentences of a file, each with its lines; ``wider`` lines have columns after those of CoNLL-U."""
    numbers, fields, count, documents, group = Numbers(), _EntityFields(), 0, 0, ""
    circles: list[CircleError] = []
    plus: PlusColumns | None = None
    for block in _blocks(path):
        begun = next(filter(None, map(_NEW_DOCUMENT.match, block.comments)), None)
        if begun:
            documents += 1 + bool(count and not documents)
            group = begun["id"] or f"document-{documents}"
        count += 1
        plus = PlusColumns.of(block) or plus
        lines = (row[:N_COLUMNS] for row in block.split_lines()) if wider else ()
        plain = replace(block, lines=list(map("\t".join, lines))) if wider else plus.plain(block) if plus else block
        try:
            sentence = _sentence(plain, count, numbers, oddities, fields, group)
        except CircleError as error:
            circles.append(error)
            oddities.skip("sentences whose heads form a circle", f"{path.name}:{block.first_line}")
        else:
            layers = plus.layers(block) if plus else {}
            yield block, replace(sentence, layers={**sentence.layers, **layers}) if layers else sentence
    if circles and len(circles) == count:
        raise circles[0]
    if not count:
        raise CorpusError(f"{path}: no sentence in it; give a CoNLL-U file with words")


def _blocks(path: Path) -> Iterator[Block]:
    comments: list[str] = []
    rows: list[str] = []
    number = 0
    for number, line in enumerate(text_lines(path), 1):
        start = line[0]
        if start == "#":
            if rows:
                raise CorpusError(f"{path}:{number}: a comment inside a sentence; put a blank line before it")
            comments.append(line.rstrip("\n")[1:])
        elif start == "\n" or line.isspace():
            if rows:
                yield Block(path, number - len(rows), comments, rows)
                comments, rows = [], []
        else:
            rows.append(line)
    if rows:
        yield Block(path, number - len(rows) + 1, comments, rows)
    elif comments:
        raise CorpusError(f"{path}:{number}: the file ends in comments with no words; it may be cut short")


@lru_cache(maxsize=1024)
def _plain_ids(length: int) -> tuple[str, ...]:
    """The identifiers of a sentence that has words only."""
    return tuple(map(str, range(1, length + 1)))


def _sentence(
    block: Block, count: int, numbers: Numbers, oddities: Oddities, fields: _EntityFields, group: str
) -> Sentence:
    """Read one block; what most sentences are like is read by column, without a look at each word."""
    rows = lines = block.cells()
    columns: list[_Column] = list(zip(*rows, strict=True))
    multiword: tuple[MultiwordToken, ...] = ()
    empty_nodes: tuple[str, ...] = ()
    places: Sequence[int] = range(len(rows))
    if columns[0] != _plain_ids(len(rows)):
        rows, places, multiword, empty_nodes = block.parted(rows)
        columns = list(zip(*rows, strict=True)) if rows else [()] * N_COLUMNS
    if any("" in column for column in columns):
        raise block.empty_cell(rows, places)
    name, text = _name_and_text(block.comments)
    fields.read(block.comments)
    has_entities = any(_ENTITY in line for line in block.lines)
    sentence = Sentence.from_words(
        columns[_FORM],
        id=name or str(count),
        space_after=_spacing(columns[_MISC], multiword),
        multiword=multiword,
        layers=_layers(columns),
        heads=block.heads(columns[_HEAD], places, numbers),
        targets=_mention_targets(block, lines, fields, oddities) if has_entities else {},
        comments=tuple(block.comments),
        empty_nodes=empty_nodes,
        group=group,
    )
    where = f"{block.path.name}:{block.first_line}"
    if sentence.heads is not None and sentence.heads.count(0) > 1:
        oddities.note("sentences with several roots", where)
    if text is not None and text != sentence.text and text.split() != sentence.text.split():
        oddities.note("sentences whose words do not spell their `# text`", where)
    return sentence


def _name_and_text(comments: Sequence[str]) -> tuple[str, str | None]:
    """The ``sent_id`` ("" when there is none) and the ``text`` that comments state."""
    pairs = (comment.partition("=") for comment in comments)
    stated = {key.strip(): value.strip() for key, _, value in pairs}
    return stated.get("sent_id", ""), stated.get("text")


def _layers(columns: Sequence[_Column]) -> dict[str, tuple[str | None, ...]]:
    layers: dict[str, tuple[str | None, ...]] = {}
    for name, index in _LAYERS.items():
        column = columns[index]
        if "_" not in column:
            layers[name] = column
            continue
        values = tuple(None if value == "_" else value for value in column)
        if index == _LEMMA and "_" in columns[_FORM]:
            values = tuple(
                "_" if form == "_" and lemma == "_" else value
                for form, lemma, value in zip(columns[_FORM], column, values, strict=True)
            )
        if any(values):
            layers[name] = values
    return layers


def _spacing(misc: _Column, multiword: Sequence[MultiwordToken]) -> list[bool]:
    """Whether a space follows each word; for a multiword token, its own line says so."""
    spaced = [not (UNSPACED in value and UNSPACED in value.split("|")) for value in misc]
    for token in multiword:
        spaced[token.last] = token.misc is None or UNSPACED not in token.misc.split("|")
    return spaced


@dataclass
class _EntityFields:
    """Which field of ``Entity=(e1-person-…`` is what; a file's ``# global.Entity`` comment may say otherwise."""

    id: int = 0
    type: int | None = 1

    def read(self, comments: Iterable[str]) -> None:
        """Take the order of fields from a comment, if there is one."""
        for comment in comments:
            if comment.strip().startswith(_HEADER):
                _, _, value = comment.partition("=")
                names = value.strip().split("-")
                self.id = next((names.index(name) for name in _IDS if name in names), 0)
                self.type = next((names.index(name) for name in _TYPES if name in names), None)


def _mention_targets(
    block: Block, rows: Sequence[Row], fields: _EntityFields, oddities: Oddities
) -> Mapping[str, tuple[Target, ...]]:
    """Targets ``entities`` and ``coref`` of a sentence whose MISC column holds ``Entity=``.

    ``rows`` are all its lines, those of tokens and empty nodes too. Mentions that are not spans of words, discontinuous
    ones and those of empty nodes alone, are counted in ``oddities``.
    """
    mentions: list[Mention] = []
    opened: dict[str, list[tuple[int, int, str]]] = {}
    n_words = 0
    for place, row in enumerate(rows):
        n_words += row[0].isdecimal()
        first = n_words - 1 if row[0].isdecimal() else n_words
        for value in row[_MISC].split("|") if _ENTITY in row[_MISC] else ():
            if value.startswith(_ENTITY):
                for name, start, kind in _closed(value.removeprefix(_ENTITY), opened, fields, first, block, place):
                    where = f"{block.path.name}:{block.first_line + place}"
                    if _DISCONTINUOUS.search(name):
                        oddities.skip("discontinuous mentions", where)
                    elif start == n_words:
                        oddities.skip("mentions of empty nodes alone", where)
                    else:
                        mentions.append(Mention((start, n_words), name, kind))
    for name, stack in opened.items():
        if stack:
            reason = f"Entity opens ({cut(name)} here, which does not close in the sentence; close it"
            raise block.error(stack[-1][1], reason)
    entities = sorted({(mention.span, mention.type) for mention in mentions if mention.type})
    targets = {"entities": tuple(Target(span, kind) for span, kind in entities), "coref": coreference(mentions)}
    return {layer: spans for layer, spans in targets.items() if spans}


def _closed(
    value: str,
    opened: dict[str, list[tuple[int, int, str]]],
    fields: _EntityFields,
    first: int,
    block: Block,
    place: int,
) -> list[tuple[str, int, str]]:
    """The mentions that end in one MISC value: name, first word, type; those that begin are put into ``opened``."""
    ended: list[tuple[str, int, str]] = []
    reach = 0
    for match in _BRACKET.finditer(value):
        if match.start() != reach:
            break
        reach = match.end()
        if match["opened"]:
            cells = match["opened"].split("-")
            name = cells[fields.id] if fields.id < len(cells) else cells[0]
            kind = cells[fields.type] if fields.type is not None and fields.type < len(cells) else ""
            opened.setdefault(name, []).append((first, place, kind))
        else:
            cells = match["closed"].split("-")
            # A closing bracket names the entity alone, or in older releases of GUM type and number.
            name = cells[fields.id] if len(cells) > max(fields.id, 1) else cells[-1]
        if match["closed_at_once"] or match["closed"]:
            if not opened.get(name):
                raise block.error(place, f"Entity closes {cut(name)}), which is not open; open it in this sentence")
            start, _, kind = opened[name].pop()
            ended.append((name, start, kind))
    if reach != len(value):
        raise block.error(
            place, f"Entity={cut(value)} is not brackets as in (e1-person … e1); check it from {quoted(value[reach:])}"
        )
    return ended


def load_conllu(path: Path) -> Corpus:
    """The corpus in a folder of CoNLL-U files (``*-ud-{train,dev,test}.conllu`` or the like), or in one file."""
    return corpus_from_files(path, read_conllu, CONLLU_SUFFIXES, what="CoNLL-U")
