"""Lines of CoNLL-U: every way in which those of a sentence can be wrong, and sentences written as such lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertology._files import write_atomically
from bertology.corpora._sentence import MultiwordToken, Sentence
from bertology.errors import CorpusError, cut, quoted

N_COLUMNS = 10
_NAMES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_GLOBAL_COLUMNS = "global.columns"
_HEAD, _FEATS, _MISC = 6, 5, 9

# More digits than a counter holds are no number of a word.
_NATURAL = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_RANGE = re.compile(r"([1-9][0-9]{0,17})-([1-9][0-9]{0,17})", re.ASCII)
_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,17})\.([1-9][0-9]{0,17})", re.ASCII)

_STANDARD = ("lemma", "upos", "xpos", "feats")
_KNOWN = {*_STANDARD, "deprel", "deps", "misc"}
UNSPACED = "SpaceAfter=No"

Row = list[str]


class Numbers(dict[str, int]):
    """Numerals and what they mean, learnt as they come: quicker than ``int``, and stricter."""

    def __missing__(self, numeral: str) -> int:
        if not _NATURAL.fullmatch(numeral):
            raise ValueError(numeral)
        number = self[numeral] = int(numeral)
        return number


class CircleError(CorpusError):
    """Following the heads of a sentence leads in a circle."""


@dataclass(frozen=True, slots=True)
class Block:
    """A sentence's lines as they stand in the file."""

    path: Path
    first_line: int
    """Number of its first line that is no comment, from 1."""
    comments: list[str]
    lines: list[str]

    def error(self, place: int, message: str) -> CorpusError:
        """The error for the line at ``place``, 0-based, of this block."""
        return CorpusError(f"{self.path}:{self.first_line + place}: {message}")

    def split_lines(self) -> list[Row]:
        """The columns of each line, however many."""
        return [line.rstrip("\n").split("\t") for line in self.lines]

    def cells(self) -> list[Row]:
        """The columns of each line.

        Raises:
            CorpusError: a line has more or fewer columns than CoNLL-U has.
        """
        rows = self.split_lines()
        for place, row in enumerate(rows):
            if len(row) != N_COLUMNS:
                columns = f"{len(row)} column{'s' if len(row) > 1 else ''}"
                if len(row) < N_COLUMNS <= len(self.lines[place].split()):
                    reason = f"{columns}, for some are parted by spaces; CoNLL-U wants a tab between all"
                    raise self.error(place, reason)
                raise self.error(
                    place, f"{columns} where CoNLL-U has {N_COLUMNS}, parted by tabs; write _ for no value"
                )
        return rows

    def empty_cell(self, rows: Sequence[Row], places: Sequence[int]) -> CorpusError:
        """The error for the first column of a word that holds nothing at all."""
        place, index = next((place, row.index("")) for place, row in zip(places, rows, strict=True) if "" in row)
        return self.error(place, f"column {index + 1} ({_NAMES[index]}) is empty; write _ for no value")

    def parted(self, rows: Sequence[Row]) -> tuple[list[Row], list[int], tuple[MultiwordToken, ...], tuple[str, ...]]:
        """The rows of words, the place of each in the block, the multiword tokens, the lines of empty nodes.

        Raises:
            CorpusError: an identifier is malformed or out of order.
        """
        words: list[Row] = []
        places: list[int] = []
        multiword: list[MultiwordToken] = []
        empty_nodes: list[str] = []
        covered, minor, last_place = 0, 0, 0
        for place, row in enumerate(rows):
            due = len(words) + 1
            if row[0] == str(due):
                words.append(row)
                places.append(place)
                minor = 0
            elif match := _RANGE.fullmatch(row[0]):
                first, last = int(match[1]), int(match[2])
                if first != due or last <= first or first <= covered:
                    raise self.error(place, f"multiword token {row[0]} where word {due} was due; put tokens in order")
                multiword.append(self._multiword(place, row, first, last))
                covered, last_place = last, place
            elif match := _DECIMAL.fullmatch(row[0]):
                if int(match[1]) != due - 1 or int(match[2]) <= minor:
                    raise self.error(place, f"empty node {row[0]} after word {due - 1}; put nodes in order")
                minor = int(match[2])
                empty_nodes.append("\t".join(row))
            else:
                raise self._wrong_id(place, row[0], due)
        if covered > len(words):
            token = rows[last_place][0]
            raise self.error(last_place, f"multiword token {token} reaches past word {len(words)}, the last")
        if not words:
            raise self.error(0, "a sentence without words; give it some, or take it out")
        return words, places, tuple(multiword), tuple(empty_nodes)

    def _wrong_id(self, place: int, identifier: str, due: int) -> CorpusError:
        if not _NATURAL.fullmatch(identifier):
            return self.error(place, f"ID {quoted(identifier)} where word {due} was due; write a number, 1-2 or 1.1")
        hint = "; is the blank line between two sentences missing?" if identifier == "1" else ", in order"
        return self.error(place, f"ID {identifier} where {due} was due; number words from 1{hint}")

    def _multiword(self, place: int, row: Row, first: int, last: int) -> MultiwordToken:
        for index, value in enumerate(row):
            if value == "":
                raise self.empty_cell([row], [place])
            if index > 1 and index not in (_FEATS, _MISC) and value != "_":
                raise self.error(place, f"multiword token {row[0]} with {_NAMES[index]} {quoted(value)}; write _ there")
        misc, feats = (None if row[index] == "_" else row[index] for index in (_MISC, _FEATS))
        return MultiwordToken(first - 1, last - 1, row[1], misc, feats)

    def heads(self, column: Sequence[str], places: Sequence[int], numbers: Numbers) -> tuple[int, ...] | None:
        """The heads of a sentence's words, or ``None`` where it has none.

        Raises:
            CorpusError: a head is no number or no word of the sentence.
            CircleError: following heads leads in a circle.
        """
        try:
            heads = tuple(map(numbers.__getitem__, column))
        except ValueError:
            if all(head == "_" for head in column):
                return None
            index = next(i for i, head in enumerate(column) if not _NATURAL.fullmatch(head))
            reason = f"HEAD {quoted(column[index])} is not a number; write that of the head word, 0 for the root"
            raise self.error(places[index], reason) from None
        if max(heads) > len(heads):
            index = next(i for i, head in enumerate(heads) if head > len(heads))
            reason = f"HEAD {heads[index]} in a sentence of {len(heads)} words; write 0 to {len(heads)}"
            raise self.error(places[index], reason)
        if circle := _circle(heads):
            path = cut(" → ".join(map(str, circle)))
            reason = f"heads in a circle: {path}; let one of these words lead to a root"
            raise CircleError(str(self.error(places[circle[0] - 1], reason)))
        return heads


@dataclass(frozen=True, slots=True)
class PlusColumns:
    """The columns of CoNLL-U Plus, as ``# global.columns = ID FORM UPOS PARSEME:MWE`` names them."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, block: Block) -> PlusColumns | None:
        """Those that a comment states, mostly the first line of a file; None where none does, or they are CoNLL-U's.

        Raises:
            CorpusError: a column has two of them, or ID or FORM has none.
        """
        stated = next((one for one in block.comments if one.strip().startswith(_GLOBAL_COLUMNS)), None)
        if stated is None:
            return None
        names = tuple(stated.partition("=")[2].split())
        if names == _NAMES:
            return None
        double = next((name for name in names if names.count(name) > 1), None)
        if double or not {"ID", "FORM"} <= set(names):
            what = f"names {cut(double)} twice" if double else "lacks ID or FORM"
            raise CorpusError(f"{block.path}:1: global.columns {what}; write ID FORM and the other columns, each once")
        return cls(names)

    def plain(self, block: Block) -> Block:
        """The sentence with the columns of CoNLL-U alone; those that the file lacks hold ``_``."""
        rows = self._rows(block)
        places = [self.names.index(name) if name in self.names else None for name in _NAMES]
        lines = ["\t".join("_" if place is None else row[place] for place in places) for row in rows]
        comments = [one for one in block.comments if not one.strip().startswith(_GLOBAL_COLUMNS)]
        return replace(block, lines=lines, comments=comments)

    def layers(self, block: Block) -> dict[str, tuple[str | None, ...]]:
        """The values of words in further columns, by their names in small letters (``parseme:mwe``)."""
        words = [row for row in self._rows(block) if row[self.names.index("ID")].isdecimal()]
        further = [(place, name.lower()) for place, name in enumerate(self.names) if name not in _NAMES]
        found = {name: tuple(None if row[at] in ("_", "*") else row[at] for row in words) for at, name in further}
        return {name: values for name, values in found.items() if any(values)}

    def _rows(self, block: Block) -> list[Row]:
        rows = block.split_lines()
        for place, row in enumerate(rows):
            if len(row) != len(self.names):
                due = f"global.columns names {len(self.names)}, parted by tabs"
                raise block.error(place, f"{len(row)} columns where {due}; write _ for no value")
        return rows


def _circle(heads: Sequence[int]) -> list[int]:
    """The words, from 1, that one meets on the first circle of heads, closed; empty when all lead to a root."""
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
            if "\n" in line or "\r" in line:
                reason = f"sentence {quoted(sentence.id)} holds a line break in {quoted(line)}; take it out"
                raise CorpusError(f"{path}: {reason}")
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
    nodes: dict[int, list[str]] = {}  # the empty nodes that stand after each word, by its number
    for line in sentence.empty_nodes:
        nodes.setdefault(int(line.partition(".")[0]), []).append(line)
    yield from nodes.get(0, ())
    covered = -1
    for index in range(len(sentence)):
        if token := tokens.get(index):
            covered = token.last
            yield _token_line(sentence, token)
        yield _word_line(sentence, index, inside=index <= covered)
        yield from nodes.get(index + 1, ())


def _token_line(sentence: Sentence, token: MultiwordToken) -> str:
    parts = token.misc.split("|") if token.misc else []
    if not _spaced(sentence, token.last) and UNSPACED not in parts:
        parts.append(UNSPACED)
    ids, feats = f"{token.first + 1}-{token.last + 1}", token.feats or "_"
    return _joined(sentence, [ids, token.form, *"___", feats, *"___", "|".join(parts) or "_"])


def _word_line(sentence: Sentence, index: int, *, inside: bool) -> str:
    """One word; ``inside`` a multiword token its spacing is the token's."""
    layers = sentence.layers
    misc = layers["misc"][index] if "misc" in layers else None
    parts = misc.split("|") if misc else []
    for name in sorted(layers.keys() - _KNOWN):
        if (value := layers[name][index]) is not None:
            parts.append(f"{name}={value}")
    if not inside and not _spaced(sentence, index) and UNSPACED not in parts:
        parts.append(UNSPACED)

    def cell(name: str) -> str:
        return (layers[name][index] if name in layers else None) or "_"

    head = "_" if sentence.heads is None else str(sentence.heads[index])
    cells = [str(index + 1), sentence.words[index], *map(cell, _STANDARD), head, cell("deprel"), cell("deps")]
    return _joined(sentence, [*cells, "|".join(parts) or "_"])


def _spaced(sentence: Sentence, index: int) -> bool:
    """Whether white space, or nothing at all, follows a word."""
    end = sentence.spans[index][1]
    return end >= len(sentence.text) or sentence.text[end].isspace()


def _joined(sentence: Sentence, cells: list[str]) -> str:
    for cell in cells:
        if cell == "" or "\t" in cell:
            raise CorpusError(
                f"sentence {quoted(sentence.id)}: {quoted(cell)} cannot stand in a column of CoNLL-U; take it out"
            )
    return "\t".join(cells)
