"""CoNLL-U, read and written, CoNLL-U Plus, and Universal PropBank, which has further columns."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from bertology._files import write_atomically
from bertology._names import by_key
from bertology.corpora._corpus import Corpus, Format
from bertology.corpora._files import Oddities, line_blocks, split_files, stated_in, suffix_of, text_lines, wrong
from bertology.corpora._sentences import MultiwordToken, Sentence, Target
from bertology.corpora._words import MENTIONS, Mention, bracketed, coreference
from bertology.errors import CorpusError, quoted

_NAMES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_FORM, _FEATS, _HEAD, _MISC = 1, 5, 6, 9
_N_COLUMNS = len(_NAMES)
_LAYERS = {name.lower(): _NAMES.index(name) for name in _NAMES if name not in ("ID", "FORM", "HEAD")}
_UNSPACED = "SpaceAfter=No"
_ENTITY = "Entity="
_NUMBERS = {str(number): number for number in range(1000)}  # quicker than int, and stricter
_TOO_LARGE = 10**18
# More digits than a counter holds are no number of a word.
_ID = re.compile(r"(0|[1-9][0-9]{0,17})(?:([-.])([1-9][0-9]{0,17}))?", re.ASCII)
_MENTION = re.compile(r"\([^()]+\)?|[^()]+\)")
_DISCONTINUOUS = re.compile(r"\[(\d+)/(\d+)\]$")
_NEW_DOCUMENT = re.compile(r"\s*newdoc\b(\s+id\s*=\s*(?P<id>.+?)\s*$)?")
_Row = list[str]


@dataclass(slots=True)
class _Block:
    """The lines of a sentence, comments apart."""

    path: Path
    first_line: int
    """Number of its first line that is no comment, from 1."""
    comments: list[str]
    lines: list[str]
    stated: dict[str, str]
    """What its comments state, by key."""

    def where(self, place: int = 0) -> str:
        """Place of a line, 0-based, for notes."""
        return f"{self.path.name}:{self.first_line + place}"

    def error(self, place: int, found: object, due: str) -> CorpusError:
        """The error for the line at ``place``, 0-based, of this block, where something else is ``due``."""
        return wrong(f"{self.path}:{self.first_line + place}", found, due)

    def rows(self) -> list[_Row]:
        """The columns of each line, however many."""
        return [line.split("\t") for line in self.lines]


def read_conllu(path: str | Path, oddities: Oddities | None = None) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file, one at a time.

    The natural text is made from the words and their spacing (``SpaceAfter=No`` of the word, or of the multiword
    token that covers it), so that offsets hold whatever the ``# text`` comment states; where the two differ by more
    than the amount of white space, that is counted in ``oddities``. A lone ``_`` is no value, except for the form,
    and for the lemma of a form that is itself ``_``. Sentences without a ``sent_id`` are named by their number.

    Args:
        path: the file.
        oddities: collects what is unusual but no error: differing texts, several roots, a ``sent_id`` used twice; and
            the sentences that are left out, as their heads form a circle.

    Returns:
        Sentences with the layers ``lemma upos xpos feats deprel deps misc`` as far as a sentence has them, heads,
        multiword tokens, and comments and empty nodes verbatim. Documents (``# newdoc``) are groups.
        Where MISC holds ``Entity=`` (as in GUM), targets ``entities``, ``mentions``, each labelled by its entity, and
        ``coref``: every pair of mentions in a sentence.

    Raises:
        CorpusError: the file or a line of it is not as it should be, or the heads of every sentence form a circle; the
            message names file and line.
    """
    path, oddities = Path(path), oddities or Oddities()
    ids: set[str] = set()
    for block, sentence in _read_blocks(path, oddities):
        if sentence.id in ids:
            oddities.note("sent_id used twice", block.where())
        ids.add(sentence.id)
        yield sentence


def _read_blocks(path: Path, oddities: Oddities, *, wider: bool = False) -> Iterator[tuple[_Block, Sentence]]:
    """The sentences of a file, each with its lines; ``wider`` lines have columns after those of CoNLL-U."""
    # Places of name and type in Entity=(e1-person-…, which a comment # global.Entity may state.
    fields: tuple[int, int | None] = (0, 1)
    count, documents, group = 0, 0, ""
    names: tuple[str, ...] = ()
    circles: list[CorpusError] = []
    for count, block in enumerate(_blocks(path), 1):
        if begun := next(filter(None, map(_NEW_DOCUMENT.match, block.comments)), None):
            documents += 1 + (count > 1 and not documents)
            group = begun["id"] or f"document-{documents}"
        if (stated := block.stated.get("global.Entity")) is not None:
            parts = stated.split("-")
            known = (("eid", "GRP"), ("etype", "entity"))
            of_name, of_type = (next((parts.index(one) for one in some if one in parts), None) for some in known)
            fields = of_name or 0, of_type
        if (stated := block.stated.get("global.columns")) is not None and tuple(stated.split()) != _NAMES:
            names = tuple(stated.split())
            if len(set(names)) < len(names) or not {"ID", "FORM"} <= set(names):
                raise wrong(f"{path}:1: global.columns", stated, "ID FORM and the other columns, each once")
        rows, further = block.rows(), dict[str, tuple[str | None, ...]]()
        if wider:
            rows = [row[:_N_COLUMNS] for row in rows]
        elif names:  # CoNLL-U Plus: columns that CoNLL-U lacks are layers by their names in small letters
            for place, row in enumerate(rows):
                if len(row) != len(names):
                    raise block.error(place, f"{len(row)} columns", f"{len(names)}, parted by tabs, _ for no value")
            words = [row for row in rows if row[names.index("ID")].isdecimal()]
            for at, name in ((at, name.lower()) for at, name in enumerate(names) if name not in _NAMES):
                further[name] = tuple(None if row[at] in ("_", "*") else row[at] for row in words)
            places = [names.index(name) if name in names else None for name in _NAMES]
            rows = [["_" if place is None else row[place] for place in places] for row in rows]
            block.comments = [one for one in block.comments if one.partition("=")[0].strip() != "global.columns"]
        sentence = _sentence(block, rows, count, oddities, fields, group)
        if sentence.heads is not None and (circle := _circle(sentence.heads)):
            place = next(place for place, row in enumerate(rows) if row[0] == str(circle[0]))
            due = "one of these words to lead to a root"
            circles.append(block.error(place, f"heads in a circle: {' → '.join(map(str, circle))}", due))
            oddities.skip("sentences whose heads form a circle", block.where())
            continue
        if sentence.heads is not None and sentence.heads.count(0) > 1:
            oddities.note("sentences with several roots", block.where())
        text = block.stated.get("text")
        if text is not None and text != sentence.text and text.split() != sentence.text.split():
            oddities.note("sentences whose words do not spell their `# text`", block.where())
        further = {name: values for name, values in further.items() if any(values)}
        yield block, replace(sentence, layers={**sentence.layers, **further}) if further else sentence
    if circles and len(circles) == count:
        raise circles[0]
    if not count:
        raise CorpusError(f"{path}: no sentence in it; give a CoNLL-U file with words")


def _blocks(path: Path) -> Iterator[_Block]:
    comments, last = list[str](), 0
    for first, lines in line_blocks(path):
        is_comment = [line[0] == "#" for line in lines]
        n, last = (is_comment.index(False) if False in is_comment else len(lines)), first + len(lines) - 1
        if any(is_comment[n:]):
            place = first + is_comment.index(True, n)
            raise wrong(f"{path}:{place}", "a comment inside a sentence", "a blank line before it")
        comments += [line[1:] for line in lines[:n]]
        if n < len(lines):
            yield _Block(path, first + n, comments, lines[n:], stated_in(comments))
            comments = []
    if comments:
        raise wrong(f"{path}:{last}", "comments at the end", "words after them; the file may be cut short")


def _circle(heads: Sequence[int]) -> list[int]:
    """Words (from 1) on the first cycle of heads, the first word repeated at the end; empty if all lead to a root."""
    seen = [0] * (len(heads) + 1)
    seen[0] = -1
    for start in range(1, len(heads) + 1):
        word = start
        while not seen[word]:
            seen[word] = start
            word = heads[word - 1]
        if seen[word] == start:
            circle = [word]
            while len(circle) == 1 or circle[-1] != word:
                circle.append(heads[circle[-1] - 1])
            return circle
    return []


def _sentence(
    block: _Block, lines: list[_Row], count: int, oddities: Oddities, fields: tuple[int, int | None], group: str
) -> Sentence:
    for place, row in enumerate(lines):
        if (n := len(row)) != _N_COLUMNS:
            raise block.error(place, f"{n} columns", f"{_N_COLUMNS}, parted by tabs, _ for no value")
    by_column = list(zip(*lines, strict=True))
    places, multiword, empty_nodes = list(range(len(lines))), list[MultiwordToken](), list[str]()
    if by_column[0] != tuple(map(str, range(1, len(lines) + 1))):
        places, multiword, empty_nodes = _by_kind(block, lines)
        by_column = list(zip(*(lines[place] for place in places), strict=True))
    for column, name in zip(by_column, _NAMES, strict=True):
        if "" in column:
            raise block.error(places[column.index("")], f"nothing in column {name}", "_ for no value")
    forms, layers = by_column[_FORM], dict[str, tuple[str | None, ...]]()
    for name, index in _LAYERS.items():
        layers[name] = column = by_column[index]
        if "_" in column:
            layers[name] = tuple(None if value == "_" else value for value in column)
    if "_" in forms:
        cells = zip(forms, by_column[_LAYERS["lemma"]], layers["lemma"], strict=True)
        layers["lemma"] = tuple("_" if form == lemma == "_" else value for form, lemma, value in cells)
    spaced = [not (_UNSPACED in value and _UNSPACED in value.split("|")) for value in by_column[_MISC]]
    for token in multiword:
        spaced[token.last] = token.misc is None or _UNSPACED not in token.misc.split("|")
    heads: tuple[int, ...] | None = None
    try:
        heads = tuple(map(_NUMBERS.__getitem__, by_column[_HEAD]))
    except KeyError:
        if any(head != "_" for head in by_column[_HEAD]):
            matches = [(head, _ID.fullmatch(head)) for head in by_column[_HEAD]]
            heads = tuple(int(head) if match and not match[2] else _TOO_LARGE for head, match in matches)
    if heads is not None and max(heads) > len(heads):
        index = next(i for i, head in enumerate(heads) if head > len(heads))
        due = f"the number of one of the {len(heads)} words, 0 for the root"
        raise block.error(places[index], f"HEAD {by_column[_HEAD][index]}", due)
    targets = _mentions(block, lines, fields, oddities) if any(_ENTITY in line for line in block.lines) else {}
    return Sentence.from_words(
        forms,
        id=block.stated.get("sent_id") or str(count),
        space_after=spaced,
        multiword=multiword,
        layers=layers,
        heads=heads,
        targets=targets,
        comments=tuple(block.comments),
        empty_nodes=tuple(empty_nodes),
        derived=frozenset([MENTIONS] if targets else []),
        group=group,
    )


def _by_kind(block: _Block, rows: Sequence[_Row]) -> tuple[list[int], list[MultiwordToken], list[str]]:
    """The places of words among the lines of a sentence, its multiword tokens and its empty nodes."""
    places: list[int] = []
    multiword: list[MultiwordToken] = []
    empty_nodes: list[str] = []
    covered, minor, last_place = 0, 0, 0
    for place, row in enumerate(rows):
        due = len(places) + 1
        if row[0] == str(due):
            places.append(place)
            minor = 0
            continue
        match = _ID.fullmatch(row[0])
        first, last = (int(match[1]), int(match[3] or 0)) if match else (-1, 0)
        if match and match[2] == "-" and covered < first == due < last:
            if "" in row or {*row[2:_FEATS], *row[_HEAD:_MISC]} != {"_"}:
                what = "FORM, FEATS and MISC of a multiword token, _ in other columns"
                raise block.error(place, "\t".join(row), what)
            misc, feats = (None if row[index] == "_" else row[index] for index in (_MISC, _FEATS))
            multiword.append(MultiwordToken(first - 1, last - 1, row[1], misc, feats))
            covered, last_place = last, place
        elif match and match[2] == "." and first == due - 1 and minor < last:
            minor = last
            empty_nodes.append("\t".join(row))
        else:
            what = f"word {due}; a token 1-2 stands before, an empty node 1.1 after word 1"
            raise block.error(place, f"ID {row[0]}", f"{what}, a blank line after a sentence")
    if covered > len(places):
        what = f"a multiword token that ends by word {len(places)}, the last of the sentence"
        raise block.error(last_place, f"ID {rows[last_place][0]}", what)
    if not places:
        raise block.error(0, "no words", "a sentence with some")
    return places, multiword, empty_nodes


def _mentions(
    block: _Block, rows: Sequence[_Row], fields: tuple[int, int | None], oddities: Oddities
) -> dict[str, tuple[Target, ...]]:
    """Targets ``entities``, ``coref`` and ``mentions`` of a sentence whose MISC column holds ``Entity=``.

    ``rows`` are all its lines, those of tokens and empty nodes too. Mentions that are not spans of words, discontinuous
    ones and those of empty nodes alone, are counted in ``oddities``.
    """
    of_id, of_type = fields
    parts = ([one.removeprefix(_ENTITY) for one in row[_MISC].split("|") if one.startswith(_ENTITY)] for row in rows)
    n_before = [0, *accumulate(row[0].isdecimal() for row in rows)]

    def name_of(label: str, opens: bool) -> str:
        # Where it closes the name is alone, or in older releases of GUM after the type.
        cells = label.split("-")
        return cells[of_id] if len(cells) > (of_id if opens else max(of_id, 1)) else cells[0 if opens else -1]

    mentions: list[Mention] = []
    for (first, last), label in bracketed(list(map("".join, parts)), _MENTION, block.error, name=name_of):
        name, cells = name_of(label, True), label.split("-")
        kind = cells[of_type] if of_type is not None and of_type < len(cells) else ""
        if _DISCONTINUOUS.search(name):
            oddities.skip("discontinuous mentions", block.where(last - 1))
        elif n_before[first] == n_before[last]:
            oddities.skip("mentions of empty nodes alone", block.where(last - 1))
        else:
            mentions.append(Mention((n_before[first], n_before[last]), name, kind))
    entities = sorted({(mention.span, mention.type) for mention in mentions if mention.type})
    return {"entities": tuple(Target(span, kind) for span, kind in entities), **coreference(mentions)}


def write_conllu(path: str | Path, sentences: Iterable[Sentence]) -> None:
    """Write sentences as CoNLL-U; what :func:`read_conllu` has read is written byte for byte.

    A sentence without ``sent_id`` or ``text`` among its comments gets them; spacing is put into MISC where it is
    not there yet. Layers that CoNLL-U has no column for (``ner``, ``chunk`` …) are written into MISC as
    ``name=value``. Span-level annotation (``Sentence.targets``) has no place in CoNLL-U and is left out.

    Raises:
        CorpusError: a word is empty or holds a tab or a line break.
        StoreError: the file cannot be written; it is whole or absent, never half written.
    """
    path = Path(path)
    lines: list[str] = []
    for sentence in sentences:
        for line in _lines(sentence):
            cells = line.split("\t")
            if "\n" in line or "\r" in line or (line[0] != "#" and ("" in cells or len(cells) != _N_COLUMNS)):
                due = "values that are not empty, without tabs and line breaks"
                raise wrong(f"{path}: sentence {quoted(sentence.id)}", line, due)
            lines.append(line)
        lines.append("")
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode("utf-8"))


def _lines(sentence: Sentence) -> Iterator[str]:
    keys = {comment.partition("=")[0].strip() for comment in sentence.comments}
    if sentence.id and "sent_id" not in keys:
        yield f"# sent_id = {sentence.id}"
    yield from (f"#{comment}" for comment in sentence.comments)
    if "text" not in keys:
        yield f"# text = {sentence.text}"
    tokens = {token.first: token for token in sentence.multiword}
    nodes = by_key((int(line.partition(".")[0]), line) for line in sentence.empty_nodes)  # by the word before each

    def line_of(cells: list[str], misc: str | None, index: int, more: Iterable[str] = ()) -> str:
        """A line with its MISC, which states whether white space follows the word at ``index``."""
        values, end = [*(misc.split("|") if misc else ()), *more], sentence.spans[index][1]
        is_spaced = index < covered or end >= len(sentence.text) or sentence.text[end].isspace()
        values += [_UNSPACED] if not is_spaced and _UNSPACED not in values else []
        return "\t".join([*cells, "|".join(values) or "_"])

    layers, covered = sentence.layers, -1
    further = sorted(layers.keys() - _LAYERS.keys())
    yield from nodes.get(0, ())
    for index, word in enumerate(sentence.words):
        if token := tokens.get(index):
            cells = [f"{token.first + 1}-{token.last + 1}", token.form, *"___", token.feats or "_", *"___"]
            yield line_of(cells, token.misc, token.last)
            covered = token.last + 1  # the spacing of a word in a token is the token's
        values = {name: value for name, layer in layers.items() if (value := layer[index]) is not None}
        head = "_" if sentence.heads is None else str(sentence.heads[index])
        lemma, upos, xpos, feats, deprel, deps, _ = (values.get(name) or "_" for name in _LAYERS)
        cells = [str(index + 1), word, lemma, upos, xpos, feats, head, deprel, deps]
        more = [f"{name}={values[name]}" for name in further if name in values]
        yield line_of(cells, values.get("misc"), index, more)
        yield from nodes.get(index + 1, ())


class CoNLLU(Format):
    """CoNLL-U (https://universaldependencies.org/format.html), and CoNLL-U Plus, whose columns its first line names."""

    title, suffixes, names_language = "CoNLL-U", (".conllu", ".conllup"), True
    described = "CoNLL-U (.conllu)"

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """The sentences as :func:`read_conllu` reads them."""
        return read_conllu(file, oddities)


class PropBank(Format):
    """Universal PropBank 1.0, which is CoNLL-U with further columns (Akbik et al. 2015).

    The eleventh column holds the roleset of a predicate (``nominate.01``), here the layer ``roleset``; each column
    after it belongs to one predicate, in order, and holds the role of each argument at its head word. Targets ``srl``
    are predicate (``span1``, one word), argument (``span2``) and role, ``ARG0`` or ``ARGM-TMP``; those that refer
    (``R-``) or continue (``C-``) another are kept with their marks, the predicate's own ``V`` is none.

    Since Tenney et al. 2019 label spans, an argument is the subtree of its head word in the file's own tree, without
    the branch that holds the predicate (the relative clause of the noun it modifies). Where that leaves several
    stretches, as of *they are very old* without the copula *are*, it is the stretch around the head word, without
    punctuation at its ends (*very old*); these are counted, as are predicates without arguments and sentences that were
    not annotated.
    """

    title, suffixes, names_language = "CoNLL-U", (".conllu",), True
    _roleset, _most_wordless = _N_COLUMNS, 0.9

    def is_at(self, path: Path) -> bool:
        """Whether the first word of the first CoNLL-U file has more columns than CoNLL-U has."""
        file = next(iter(CoNLLU().files(path)), None)
        if file is None or suffix_of(file) not in self.suffixes:
            return False
        first = next((line for line in text_lines(file) if line[0].isdigit()), "")
        return first.count("\t") >= _N_COLUMNS

    def load(self, path: Path, *, joined: bool = False) -> Corpus:
        """The corpus in a folder of such files, one a split, or in one file.

        Treebanks under licence are without their words, unless they are ``joined`` to a corpus that has them.
        """
        corpus = super().load(path)
        for split, sentences in () if joined else corpus.splits.items():
            codes = [code for code, form in enumerate(sentences.forms.values) if form == "_"]
            if codes and float((sentences.forms.codes == codes[0]).mean()) > self._most_wordless:
                file = split_files(path, self.suffixes, what=self.title)[split][0]
                remedy = f"name the treebank that has them: {path}+path/to/treebank"
                raise CorpusError(f"{file}: its words are all _; {remedy}")
        return corpus

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """The sentences with their predicates and arguments."""
        for block, sentence in _read_blocks(file, oddities, wider=True):
            if any(comment.strip() == "propbank = no-up" for comment in block.comments):
                oddities.skip("sentences without PropBank annotation", sentence.id)
                yield sentence
            else:
                yield self._with_roles(sentence, block, oddities)

    def _with_roles(self, sentence: Sentence, block: _Block, oddities: Oddities) -> Sentence:
        rows, none = block.rows(), ("", "_")
        places = [place for place, row in enumerate(rows) if row[0].isdecimal()]
        n_columns = len(rows[places[0]])
        for place, row in ((place, rows[place]) for place in places):
            if len(row) <= self._roleset or len(row) != n_columns:
                due = f"{n_columns}: after MISC a roleset, or _, and the roles of each predicate of the sentence"
                raise block.error(place, f"{len(row)} columns", due)
        rolesets, *columns = zip(*(rows[place][self._roleset :] for place in places), strict=True)
        predicates = [index for index, roleset in enumerate(rolesets) if roleset not in none]
        while len(columns) > len(predicates) and set(columns[-1]) <= {""}:
            columns.pop()  # files end lines in a tab where a sentence has no predicate
        if len(columns) != len(predicates):
            due = f"one for each of {len(predicates)} rolesets"
            raise block.error(places[0], f"{len(columns)} columns of roles", due)
        targets: list[Target] = []
        for predicate, column in zip(predicates, columns, strict=True):
            roles = [(index, role) for index, role in enumerate(column) if role not in (*none, "V")]
            where = block.where(places[predicate])
            if not roles:
                oddities.skip("predicates without arguments", where)
            if roles and sentence.heads is None:
                raise block.error(places[predicate], "roles without heads", "the heads of words, by which roles reach")
            for argument, role in roles:
                inside = _below(sentence.heads or (), argument, predicate)
                start, end = min(inside), max(inside) + 1
                if end - start > len(inside):
                    oddities.note("arguments not in one piece, given by the piece around their head word", where)
                    relations = sentence.layers.get("deprel") or (None,) * len(sentence)
                    start = next(at for at in range(argument, -2, -1) if at - 1 not in inside)
                    end = next(at for at in range(argument + 1, len(sentence) + 1) if at not in inside)
                    start = next(at for at in range(start, argument + 1) if at == argument or relations[at] != "punct")
                    end = next(
                        at for at in range(end, argument, -1) if at - 1 == argument or relations[at - 1] != "punct"
                    )
                targets.append(Target((predicate, predicate + 1), role, (start, end)))
        layer = tuple(None if roleset in none else roleset for roleset in rolesets)
        layers = {**sentence.layers, **({"roleset": layer} if any(layer) else {})}
        srl = {"srl": tuple(targets)} if targets else {}
        return replace(sentence, layers=layers, targets={**sentence.targets, **srl})


def _below(heads: Sequence[int], argument: int, predicate: int) -> set[int]:
    """The words below ``argument`` in a tree, and itself, but for the branch of ``predicate``."""
    if argument == predicate:
        return {argument}
    branch, above = predicate, heads[predicate] - 1
    while above not in (argument, -1):
        branch, above = above, heads[above] - 1
    inside = more = {argument}
    while more:
        more = {i for i, head in enumerate(heads) if head - 1 in more and not (i == branch and above == argument)}
        inside = inside | more
    return inside
