"""Trees in brackets as of the Penn Treebank (Marcus et al. 1993), and OntoNotes as of the CoNLL-2012 shared task."""

from __future__ import annotations

import re
from bertology.corpora._corpus import Corpus
from bertology.corpora._files import Oddities, at_least_one, corpus_name, files_in, first_line, one_in_ten, split_of, text_lines
from bertology.corpora._sentences import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora._words import Mention, coreference
from bertology.corpora._words import Span, penn_words
from bertology.errors import CorpusError, cut, quoted
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

TREE_SUFFIXES = (".mrg", ".ptb")
_PIECE = re.compile(r"[()]|[^\s()]+")
_TRACE = "-NONE-"
_FEWEST_DOCUMENTS = 20
_TOPS = frozenset(["", "TOP", "ROOT"])
SPACING = "sentences without spacing, words joined by the rules of Penn tokens"


@dataclass(slots=True)
class _Node:
    """A bracket as it stands in the file."""

    line: int
    label: str | None = None
    word: str | None = None
    children: list[_Node] = field(default_factory=list)


def read_trees(path: Path, oddities: Oddities | None = None) -> Iterator[Sentence]:
    """The sentences of a file of bracketed trees, as in the ``.mrg`` files of the Penn Treebank.

    Traces (``-NONE-``) and the phrases that hold nothing else are taken out. Words are written as people write them
    (``-LRB-`` is a bracket again) and spaced by the rules of Penn tokens; their tags are the layer ``xpos``.
    Targets ``constituents`` are all phrases, each before those inside it, labelled without function tags and
    indices (``NP-SBJ-1`` is ``NP``); as in Tenney et al. 2019 tags of single words are no phrases, and phrases over
    the same words all count. A phrase over just one phrase of its own label, as taking out a trace may leave it, is
    the same phrase. The bracket around a whole tree that has no label (or ``TOP``, ``ROOT``) says nothing and is
    left out; ``S`` below it is a phrase.

    Raises:
        CorpusError: brackets do not close, or hold neither a word nor brackets; the message names file and line.
    """
    for block in _blocks(path, oddities or Oddities()):
        yield from block


def _blocks(path: Path, oddities: Oddities) -> list[list[Sentence]]:
    """The sentences of a file by what stands between blank lines: in files put together of many, a document."""
    blocks: list[list[Sentence]] = []
    last = -1
    trees = at_least_one(_trees(path), f"{path}: no tree in it; give trees in brackets, as in ( (S (NP (NN ...")
    for number, (tree, block) in enumerate(trees, 1):
        sentence = _sentence(tree, number, path, oddities)
        if sentence is not None:
            if block != last:
                blocks.append([])
            blocks[-1].append(sentence)
            last = block
    return blocks


def _trees(path: Path) -> Iterator[tuple[_Node, int]]:
    """The trees of a file, each with the number of blank lines between trees before it."""
    open_nodes: list[_Node] = []
    blanks = 0
    for number, line in enumerate(text_lines(path), 1):
        blanks += not open_nodes and line.isspace()
        for piece in _PIECE.findall(line):
            if piece == "(":
                node = _Node(number)
                if open_nodes:
                    _fill(open_nodes[-1], node, path, number)
                open_nodes.append(node)
            elif piece == ")":
                if not open_nodes:
                    raise CorpusError(f"{path}:{number}: a bracket closes that was not opened; take it out")
                node = open_nodes.pop()
                if node.word is None and not node.children:
                    reason = f"a bracket ({cut(node.label or '')}) that holds nothing; fill it"
                    raise CorpusError(f"{path}:{number}: {reason}")
                if not open_nodes:
                    yield node, blanks
            elif not open_nodes:
                reason = f"{quoted(piece)} stands outside of any bracket; put trees in brackets"
                raise CorpusError(f"{path}:{number}: {reason}")
            else:
                _add(open_nodes[-1], piece, path, number)
    if open_nodes:
        first = open_nodes[0].line
        raise CorpusError(f"{path}:{first}: the tree that opens here does not close; add the missing bracket")


def _fill(node: _Node, child: _Node, path: Path, number: int) -> None:
    if node.word is not None:
        reason = f"a bracket opens after the word {quoted(node.word)}; close ({cut(node.label or '')} first"
        raise CorpusError(f"{path}:{number}: {reason}")
    node.label = node.label or ""
    node.children.append(child)


def _add(node: _Node, piece: str, path: Path, number: int) -> None:
    if node.label is None:
        node.label = piece
    elif node.word is None and not node.children:
        node.word = piece
    else:
        reason = f"{quoted(piece)} stands beside other parts of ({cut(node.label)}; give it a tag"
        raise CorpusError(f"{path}:{number}: {reason}")


class _Walk:
    """Walks a tree once, left to right, noting words and phrases."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.tags: list[str] = []
        self.phrases: list[tuple[int, int, str]] = []
        self.doubled = 0

    def walk(self, node: _Node, *, top: bool = False) -> None:
        label = node.label or ""
        if node.word is not None:
            if label != _TRACE:
                self.words.append(node.word)
                self.tags.append(label)
            return
        place, start = len(self.phrases), len(self.words)
        for child in node.children:
            self.walk(child)
        end = len(self.words)
        if start == end or (top and label in _TOPS):
            return
        phrase = (start, end, plain_label(label))
        if phrase in self.phrases[place:]:
            self.doubled += 1
        else:
            self.phrases.insert(place, phrase)


def plain_label(label: str) -> str:
    """The category of a phrase, without function tags and indices."""
    return re.split(r"[-=|]", label, maxsplit=1)[0] if label[:1] not in "-=|" else label


def _sentence(tree: _Node, number: int, path: Path, oddities: Oddities) -> Sentence | None:
    walk = _Walk()
    try:
        walk.walk(tree, top=True)
    except RecursionError:
        raise CorpusError(f"{path}:{tree.line}: brackets nested too deeply to be a tree; check them") from None
    where = f"{path.name}:{tree.line}"
    if not walk.words:
        oddities.skip("trees of traces only", where)
        return None
    if unlabelled := sum(not label for _, _, label in walk.phrases):
        oddities.note("brackets without a label inside a tree, no phrases", where, times=unlabelled)
    if walk.doubled:
        oddities.note("phrases over one phrase of the same label, counted once", where, times=walk.doubled)
    oddities.note(SPACING, where)
    words, spaced = penn_words(walk.words, walk.tags)
    targets = tuple(Target((start, end), label) for start, end, label in walk.phrases if label)
    return Sentence.from_words(
        words,
        id=f"{path.stem}-{number}",
        space_after=spaced,
        layers={"xpos": tuple(walk.tags)},
        targets={"constituents": targets} if targets else {},
    )


def load_trees(path: Path) -> Corpus:
    """The corpus in a file of bracketed trees, or in a folder of such files.

    Files whose names speak of train, dev or test are those splits. Others have no splits of their own: of ten
    documents in a row one is for dev and one for test. A document is a file of a folder, or what stands between blank
    lines in a file put together of many; where these are fewer than twenty, a sentence.

    Raises:
        CorpusError: no such file, one that is not as it should be, or too few sentences to make splits of.
    """
    oddities = Oddities()
    files = files_in(path, TREE_SUFFIXES) if path.is_dir() else [path]
    by_split = {split_of(file): file for file in files}
    splits: dict[str, Sentences]
    if None not in by_split and len(by_split) == len(files):
        splits = {
            split: Sentences(read_trees(by_split[split], oddities))
            for split in ("train", "dev", "test")
            if split in by_split
        }
        notes = oddities.notes()
    else:
        blocks = [_blocks(file, oddities) for file in files]
        documents = blocks[0] if len(files) == 1 else [list(chain.from_iterable(file)) for file in blocks]
        splits, note = made_splits(documents, path)
        notes = {"splits": note, **oddities.notes()}
    return Corpus(corpus_name(path), splits, notes=notes, skipped=oddities.skipped())


def made_splits(documents: Sequence[Sequence[Sentence]], path: Path) -> tuple[dict[str, Sentences], str]:
    """Train, dev and test of documents that have no splits, and a note that says how they came about.

    Raises:
        CorpusError: there are fewer than ten sentences.
    """
    numbered = enumerate(documents, 1)
    units = [[replace(one, group=one.group or f"document-{n}") for one in document] for n, document in numbered]
    what = "documents"
    if len(documents) < _FEWEST_DOCUMENTS:
        units, what = [[sentence] for sentence in chain.from_iterable(documents)], "sentences"
    if len(units) < 10:
        raise CorpusError(f"{path}: {len(units)} sentences, of which train, dev and test are made; give 10 or more")
    splits = {
        split: Sentences(sentence for place in places for sentence in units[place])
        for split, places in one_in_ten(len(units)).items()
    }
    return splits, f"made here: of ten {what} in a row eight are train, one is dev, one is test"


_BEGIN = re.compile(r"#begin document \(?(?P<name>\S+?)\)?;?(?: part (?P<part>\d+))?\s*")
_END = "#end document"
_DOCUMENT, _PART, _NUMBER, _WORD, _TAG, _PARSE, _LEMMA, _NAMES, _FIRST_ROLE = 0, 1, 2, 3, 4, 5, 6, 10, 11
_FEWEST = 12
_TAKEN_OUT = "[WORD]"
_BRACKET = re.compile(r"\(([^()*\s]+)|(\*)|(\))")
_COREF = re.compile(r"(\()?(\d+)(\))?")
_TOP = "TOP"


@dataclass(frozen=True, slots=True)
class _Rows:
    """The lines of one sentence."""

    path: Path
    first_line: int
    name: str
    cells: list[list[str]]

    def column(self, index: int) -> list[str]:
        return [row[index] for row in self.cells]

    def error(self, place: int, message: str) -> CorpusError:
        return CorpusError(f"{self.path}:{self.first_line + place}: {message}")


def looks_like_conll2012(path: Path) -> bool:
    """Whether a file begins as those of CoNLL-2012 do."""
    return _BEGIN.fullmatch(first_line(path)) is not None


def _read(path: Path, oddities: Oddities) -> Iterator[Sentence]:
    """The sentences of a file; those of a document are a group."""
    sentences = (replace(_of_rows(rows, oddities), group=document) for document, rows in _sentences(path))
    return at_least_one(sentences, f"{path}: no sentence in it; give a file of CoNLL-2012 with words")


def _sentences(path: Path) -> Iterator[tuple[str, _Rows]]:
    cells: list[list[str]] = []
    document, part, begun, count, number = "", "", 0, 0, 0
    for number, line in enumerate(text_lines(path), 1):
        if cells and (not line.strip() or line.startswith(_END)):
            count += 1
            yield document, _Rows(path, number - len(cells), f"{document}{part}-{count}", cells)
            cells = []
        if not line.strip():
            continue
        if match := _BEGIN.fullmatch(line):
            if begun:
                raise CorpusError(f"{path}:{number}: a document begins inside that of line {begun}; end it first")
            document, part = match["name"], f"/{match['part']}" if match["part"] else ""
            begun, count = number, 0
        elif line.startswith(_END):
            begun = 0
        elif not begun:
            raise CorpusError(f"{path}:{number}: a line outside of any document; #begin document should come before")
        else:
            cells.append(_cells(line, path, number, cells))
    if begun:
        raise CorpusError(f"{path}:{number}: the document of line {begun} has no #end document; it may be cut short")


def _cells(line: str, path: Path, number: int, before: Sequence[Sequence[str]]) -> list[str]:
    cells = line.split()
    if len(cells) < _FEWEST:
        raise CorpusError(f"{path}:{number}: {len(cells)} columns where CoNLL-2012 has {_FEWEST} or more")
    if before and len(cells) != len(before[0]):
        raise CorpusError(f"{path}:{number}: {len(cells)} columns where the sentence has {len(before[0])}")
    if cells[_NUMBER] != str(len(before)):
        reason = f"word number {cut(cells[_NUMBER])} where {len(before)} was due; count from 0"
        raise CorpusError(f"{path}:{number}: {reason}")
    if cells[_WORD] == _TAKEN_OUT:
        raise CorpusError(f"{path}:{number}: the words were taken out ({_TAKEN_OUT}); put them in from OntoNotes first")
    return cells


def _of_rows(rows: _Rows, oddities: Oddities) -> Sentence:
    tags = rows.column(_TAG)
    words, spaced = penn_words(rows.column(_WORD), tags)
    oddities.note(SPACING, f"{rows.path.name}:{rows.first_line}")
    entities = [Target(span, label) for span, label in _spans(rows, _NAMES, "name")]
    layers: dict[str, tuple[str | None, ...]] = {"xpos": tuple(tags), "lemma": tuple(rows.column(_LEMMA))}
    if set(rows.column(_NAMES)) != {"-"}:
        layers["ner"] = _iob(entities, len(words))
    plain = {name: tuple(None if value == "-" else value for value in values) for name, values in layers.items()}
    targets = {
        "constituents": tuple(
            Target(span, plain_label(label)) for span, label in _spans(rows, _PARSE, "parse") if label != _TOP
        ),
        "entities": tuple(entities),
        "srl": tuple(_roles(rows, oddities)),
        "coref": coreference(_mentions(rows)),
    }
    return Sentence.from_words(
        words,
        id=rows.name,
        space_after=spaced,
        layers={name: values for name, values in plain.items() if any(values)},
        targets={name: spans for name, spans in targets.items() if spans},
    )


def _spans(rows: _Rows, index: int, what: str) -> list[tuple[Span, str]]:
    """The labelled spans of a column of brackets, each before those inside it; ``(GPE)``, ``(NP*``, ``*))``."""
    spans: list[tuple[Span, str]] = []
    opened: list[tuple[int, int]] = []
    for place, cell in enumerate(rows.column(index)):
        if cell == "-":
            continue
        if _BRACKET.sub("", cell):
            raise rows.error(place, f"column {index + 1} ({what}) holds {quoted(cell)}, not brackets as in (NP* or *)")
        for label, _, closes in _BRACKET.findall(cell):
            if label:
                opened.append((len(spans), place))
                spans.append(((place, place), label))
            elif closes:
                if not opened:
                    raise rows.error(place, f"column {index + 1} ({what}): a bracket closes that was not opened")
                number, start = opened.pop()
                spans[number] = ((start, place + 1), spans[number][1])
    if opened:
        number, start = opened[-1]
        raise rows.error(start, f"column {index + 1} ({what}): ({cut(spans[number][1])} does not close in the sentence")
    return spans


def _roles(rows: _Rows, oddities: Oddities) -> Iterator[Target]:
    for index in range(_FIRST_ROLE, len(rows.cells[0]) - 1):
        spans = _spans(rows, index, "roles")
        predicate = next((span for span, label in spans if label == "V"), None)
        where = f"{rows.path.name}:{rows.first_line}"
        if predicate is None:
            oddities.skip("columns of roles without a predicate (V", where)
            continue
        arguments = [(span, label) for span, label in spans if label != "V"]
        if not arguments:
            oddities.skip("predicates without arguments", where)
        for span, label in arguments:
            yield Target(predicate, label, span)


def _mentions(rows: _Rows) -> list[Mention]:
    """The mentions of the last column: ``(12``, ``12)``, ``(12)``, parted by bars."""
    mentions: list[Mention] = []
    opened: dict[str, list[int]] = {}
    for place, cell in enumerate(rows.column(-1)):
        for part in cell.split("|") if cell not in ("-", "_") else ():
            match = _COREF.fullmatch(part)
            if match is None or not (match[1] or match[3]):
                reason = f"the last column (coreference) holds {quoted(cell)}, not brackets as in (12|(5)"
                raise rows.error(place, reason)
            if match[1]:
                opened.setdefault(match[2], []).append(place)
            if match[3]:
                if not opened.get(match[2]):
                    raise rows.error(place, f"coreference: {cut(match[2])}) closes, which is not open in this sentence")
                mentions.append(Mention((opened[match[2]].pop(), place + 1), match[2]))
    for name, places in opened.items():
        if places:
            raise rows.error(places[-1], f"coreference: ({cut(name)} does not close in the sentence")
    return mentions


def _iob(entities: Sequence[Target], length: int) -> tuple[str | None, ...]:
    tags = ["O"] * length
    for entity in entities:
        start, end = entity.span1
        tags[start:end] = [f"B-{entity.label}"] + [f"I-{entity.label}"] * (end - start - 1)
    return tuple(tags)


def conll2012_files(folder: Path) -> list[Path]:
    """The files of CoNLL-2012 in a folder or below it, in order of name."""
    return sorted(file for file in folder.rglob("*_conll") if file.is_file())


def load_conll2012(path: Path) -> Corpus:
    """The corpus in one file of CoNLL-2012 (Pradhan et al. 2012), or in all those of a folder and below it.

    Layers are ``xpos``, ``lemma`` and ``ner`` (IOB2); targets ``constituents`` (all phrases but ``TOP``),
    ``entities``, ``srl`` (predicate, argument, role) and ``coref`` (every pair of mentions in a sentence, label
    ``"1"`` or ``"0"``), as far as a file has them. Words are written and spaced as in
    :func:`~bertology.corpora.formats.penn.read_trees`.

    One file is the split its name speaks of, else ``test``. In a folder it is that of which its name or the first
    folder on the way to it speaks (``train/…``, ``development/…``). Where none speaks of any, splits are made: of ten
    documents in a row one is for dev and one for test; where documents are fewer than twenty, of ten sentences.

    Raises:
        CorpusError: no such file, or one that is not as it should be.
    """
    oddities = Oddities()
    files = conll2012_files(path) if path.is_dir() else [path]
    split_by_file = {file: _split(file, path) for file in files} if path.is_dir() else {path: split_of(path) or "test"}
    stated = {split for split in split_by_file.values() if split}
    if not stated:
        documents: dict[str, list[Sentence]] = {}
        for file in files:
            for sentence in _read(file, oddities):
                documents.setdefault(f"{file} {sentence.group}", []).append(sentence)
        made, note = made_splits(list(documents.values()), path)
        return Corpus(corpus_name(path), made, notes={"splits": note, **oddities.notes()}, skipped=oddities.skipped())
    for file, split in split_by_file.items():
        if split is None:
            oddities.skip("files whose names speak of no split", str(file))
    splits: Mapping[str, Sentences] = {
        split: Sentences(s for file in files if split_by_file[file] == split for s in _read(file, oddities))
        for split in ("train", "dev", "test")
        if split in stated
    }
    return Corpus(corpus_name(path), splits, notes=oddities.notes(), skipped=oddities.skipped())


def _split(file: Path, root: Path) -> str | None:
    """The split that a file's name speaks of, or else the first folder on the way to it that does."""
    folders = map(Path, file.relative_to(root).parts[:-1])
    return next((split for split in map(split_of, (file, *folders)) if split), None)
