"""Files of the CoNLL-2012 shared task: OntoNotes with parts of speech, trees, names, roles and coreference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertology.corpora._corpus import Corpus
from bertology.corpora._files import Oddities, at_least_one, corpus_name, first_line, split_of, text_lines
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora.formats._spans import Mention, coreference
from bertology.corpora.formats._words import Span, penn_words
from bertology.corpora.formats.brackets import SPACING, made_splits, plain_label
from bertology.errors import CorpusError, cut, quoted

_BEGIN = re.compile(r"#begin document \(?(?P<name>\S+?)\)?;?(?: part (?P<part>\d+))?\s*")
_END = "#end document"
_DOCUMENT, _PART, _NUMBER, _WORD, _TAG, _PARSE, _LEMMA, _NAMES, _FIRST_ROLE = 0, 1, 2, 3, 4, 5, 6, 10, 11
_FEWEST = 12
_TAKEN_OUT = "[WORD]"
_PIECE = re.compile(r"\(([^()*\s]+)|(\*)|(\))")
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
    sentences = (replace(_sentence(rows, oddities), group=document) for document, rows in _sentences(path))
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


def _sentence(rows: _Rows, oddities: Oddities) -> Sentence:
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
        if _PIECE.sub("", cell):
            raise rows.error(place, f"column {index + 1} ({what}) holds {quoted(cell)}, not brackets as in (NP* or *)")
        for label, _, closes in _PIECE.findall(cell):
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
    :func:`~bertology.corpora.formats.brackets.read_trees`.

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
