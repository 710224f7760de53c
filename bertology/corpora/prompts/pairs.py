"""Minimal pairs (BLiMP, Marvin & Linzen) and agreement with a mask at the form (Linzen, Gulordava, Goldberg)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from bertology._files import described, is_numeral
from bertology.corpora._files import corpus_name, suffix_of
from bertology.corpora._tables import JSON_SUFFIXES, Columns, Stated, read_table
from bertology.corpora.prompts._items import (
    ITEM_FORMS,
    ITEM_SUFFIXES,
    MASK,
    ClozeItem,
    LeftOut,
    columns_of,
    files_of,
    not_items,
    read_item_table,
    records,
    table_items,
)
from bertology.errors import CorpusError, quoted

_FORM = ITEM_FORMS["sentences"]
_BLIMP = {"good": "sentence_good", "bad": "sentence_bad", "group": "UID", "id": "pairID"}


def read_minimal_pairs(source: Any, *, columns: Stated | None = None) -> Iterator[ClozeItem | LeftOut]:
    """Minimal pairs of a file, of the files of a folder, or of a table in memory, in the order in which they come.

    - BLiMP: tables, mostly JSON lines, with ``sentence_good`` and ``sentence_bad``, and ``UID`` and ``pairID`` if they
      are there. Each pair is drawn anew by its grammar: its cluster is the pair.
    - Any other table with the columns ``good`` and ``bad``, or ``columns`` that say which they are
      (:func:`read_item_table`).
    - Marvin & Linzen's JSON lines (``case``, ``condition``, ``sentences``) or table without names of columns (case,
      condition and, last, good and bad sentence). Negative polarity items have two ungrammatical sentences, hence two
      pairs: *most* or *many* for the licensor makes a group of its own, ``(most, many)``, and so does, in their
      relative clauses, the licensor where it does not reach the item, ``(intrusive)``. Clusters are the subject and
      the words that differ: the rest of each sentence is crossed with these. Sentences stay lower-case, and are given a
      final period.

    A pair of twice the same sentence cannot be scored (BLiMP has seven).

    Raises:
        CorpusError: a file or line is not as it should be.
    """
    if (items := read_item_table(source, "sentences", columns=columns)) is not None:
        yield from items
        return
    for file in files_of(source, ITEM_SUFFIXES, what="minimal pairs"):
        names = columns_of(file)
        if _is_stimuli(file, names):
            yield from (pair for stimulus in _stimuli(file) for pair in stimulus.pairs())
            continue
        if not names:
            raise CorpusError(f"{file}: no item in it; name a file of minimal pairs")
        table = read_table(file)
        chosen = _FORM.recognised(table.columns)
        if {_BLIMP["good"], _BLIMP["bad"]} <= set(table.columns):
            chosen = Columns({key: (name,) for key, name in _BLIMP.items() if name in table.columns})
        if chosen is None:
            raise not_items(file, names, "sentences", nor=f"sentence_good and sentence_bad of BLiMP, nor {_STIMULI}")
        yield from table_items(table, chosen, _FORM)


_STARRED = "***mask***"
_FEWEST_COLUMNS = 4
_COMPOUNDS = frozenset(["security", "taxi", "television"])
"""First words of their nouns of two words: *security guard*, *taxi driver*, *television show*."""
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"(sing|plur)_(MS|IS|ES)(?=_|$)")
_STIMULI = "case, condition and sentences of Marvin & Linzen"


@dataclass(frozen=True, slots=True)
class _Construction:
    name: str
    """Its name in Goldberg (2019, Table 3)."""
    subject: Literal["first", "second"] = "first"
    """The noun after *the* that decides."""
    agreeing: int = 0
    """Distance in words of another word that agrees with the subject before the form; 0 if there is none."""
    between: bool = False
    """Whether another noun stands between the subject and the form, or before the item that needs a licensor."""
    polarity: bool = False
    """Whether it is about negative polarity items, whose licensor differs, and not about agreement."""


_CONSTRUCTIONS = {
    "simple_agrmt": _Construction("simple"),
    "sent_comp": _Construction("in a sentential complement", "second"),
    "vp_coord": _Construction("short VP coordination", agreeing=1),
    "long_vp_coord": _Construction("long VP coordination", agreeing=1),
    "prep": _Construction("across a prepositional phrase", between=True),
    "subj_rel": _Construction("across a subject relative clause", agreeing=2, between=True),
    "obj_rel_across": _Construction("across an object relative clause", between=True),
    "obj_rel_no_comp_across": _Construction("across an object relative (no that)", between=True),
    "obj_rel_within": _Construction("in an object relative clause", "second"),
    "obj_rel_no_comp_within": _Construction("in an object relative (no that)", "second"),
    "simple_reflexives": _Construction("simple reflexives"),
    "reflexive_sent_comp": _Construction("reflexives in a sentential complement", "second"),
    "reflexives_across": _Construction("reflexives across a relative clause", between=True),
    "simple_npi": _Construction("simple NPI", polarity=True),
    "npi_across": _Construction("NPI across a relative clause", between=True, polarity=True),
}
"""Constructions by case, animate and inanimate subjects together (``prep_anim`` and ``prep_inanim`` are ``prep``)."""


@lru_cache
def _construction(case: str) -> _Construction | None:
    return _CONSTRUCTIONS.get(case.removesuffix("_anim").removesuffix("_inanim"))


@dataclass(frozen=True, slots=True)
class _Stimulus:
    """An item of Marvin & Linzen: a grammatical sentence and one or two ungrammatical ones."""

    id: str
    case: str
    condition: str
    sentences: tuple[str, ...]
    """The grammatical one first, then the ungrammatical one; of negative polarity items, another such one."""

    def _subject_place(self, words: Sequence[str]) -> int | None:
        """The position of the subject noun among the words of its sentence; None if unknown."""
        if (construction := _construction(self.case)) is None:
            return None
        place = 1  # the first noun, after *the*, *no*, *most* or *few*
        if construction.subject == "second":
            if words.count("the") < 2:
                return None
            place = words.index("the", words.index("the") + 1) + 1
        place += place < len(words) and words[place] in _COMPOUNDS
        return place if place < len(words) else None

    def _frame(self, other: int = 1) -> str:
        """The subject, whatever its number, and the words in which the good sentence and another one differ."""
        good, bad = (self.sentences[which].split() for which in (0, other))
        differing = set(good) ^ set(bad)
        if len(good) == len(bad):
            differing = {word for pair in zip(good, bad, strict=True) if pair[0] != pair[1] for word in pair}
        place = self._subject_place(good)
        subject = "" if place is None else good[place].removesuffix("s")
        return " ".join([subject, "/".join(sorted(differing))]).strip()

    def pairs(self) -> Iterator[ClozeItem | LeftOut]:
        """The minimal pairs of the stimulus: one, or two for negative polarity items."""
        good, construction = self.sentences[0], _construction(self.case)
        intrusive = construction is not None and construction.polarity and construction.between
        kinds = [("", f"{self.case} (intrusive)" if intrusive else self.case), ("-third", f"{self.case} (most, many)")]
        for which, ((end, group), bad) in enumerate(zip(kinds, self.sentences[1:], strict=False), 1):
            if good == bad:
                yield LeftOut(self.id + end, group, _FORM.same)
            else:
                text, other = (_closed(sentence.split()) for sentence in (good, bad))
                yield ClozeItem(self.id + end, self._frame(which), group, text, other=other)

    def agreement(self) -> ClozeItem | LeftOut:
        """The item with a mask at the one word in which its first two sentences differ."""
        construction = _construction(self.case)
        group = self.case if construction is None else construction.name
        good, bad = (sentence.split() for sentence in self.sentences[:2])
        differ = [at for at, (one, other) in enumerate(zip(good, bad, strict=False)) if one != other]
        if construction is not None and construction.polarity:
            return LeftOut(self.id, group, "negative polarity, which is no agreement")
        if good == bad or len(good) != len(bad) or len(differ) > 1:
            reason = _FORM.same if good == bad else "the two sentences differ in more than one word"
            return LeftOut(self.id, group, reason)
        right, wrong = (sentence[differ[0]].removesuffix(".") for sentence in (good, bad))
        good[differ[0]] = MASK
        blind, place = "", self._subject_place(good)
        if construction is not None and place is not None and MASK not in good[: place + construction.agreeing + 1]:
            hidden = list(good)
            hidden[place] = hidden[place + construction.agreeing] = MASK
            blind = _closed(hidden)
        n_attractors = None if construction is None else 0
        if construction is not None and construction.between:
            # One if the main and the embedded subject that a condition names (plur_MS_MV_sing_ES) differ in number.
            numbers = {noun[0]: number for number, noun in _NUMBER.findall(self.condition)}
            main = numbers.get("M", numbers.get("I"))
            n_attractors = None if main is None or "E" not in numbers else int(main != numbers["E"])
        forms: dict[str, Any] = {"answer": right, "rivals": (wrong,), "blind": blind, "n_attractors": n_attractors}
        return ClozeItem(self.id, self._frame(), group, _closed(good), kind="marvin_linzen", **forms)


def _closed(words: Sequence[str]) -> str:
    return f"{' '.join(words).removesuffix(' .').removesuffix('.')}."


def _is_stimuli(path: Path, names: Collection[str]) -> bool:
    """Whether a table, given its first row, has Marvin & Linzen's items: JSON lines, or a known case in each row."""
    if suffix_of(path) in JSON_SUFFIXES:
        return not {"case", "sentences"}.isdisjoint(names)
    return _is_stimulus(list(names))


def _is_stimulus(columns: Sequence[str]) -> bool:
    """Whether columns are those of an item, not a row of names or of another table.

    The case is one of Marvin & Linzen's, or the mask is there; or, of a set of one's own, there are four columns, of
    which the last two are sentences that hardly differ, and the first two are not.
    """
    if len(columns) < _FEWEST_COLUMNS:
        return False
    if _construction(columns[0]) is not None or _STARRED in columns[-3].split():
        return True
    return len(columns) == _FEWEST_COLUMNS and _hardly_differ(*columns[2:]) and not _hardly_differ(*columns[:2])


def _hardly_differ(one: str, other: str) -> bool:
    words = [Counter(_WORD.findall(text.lower())) for text in (one, other)]
    return (words[0] & words[1]).total() > max(word.total() for word in words) / 2


def _stimuli(path: Path) -> Iterator[_Stimulus]:
    """The items of a file, JSON lines or a table.

    An object of JSON lines has ``case``, ``condition`` and ``sentences``. A table has tabs between case, condition,
    and, last, the good and the bad sentence, or, last, a sentence with ``***mask***``, the good and the bad form.
    """
    is_json = suffix_of(path) in JSON_SUFFIXES
    rows: Iterator[tuple[int, str, Any]] = records(path) if is_json else _numbered_rows(path)
    for number, where, row in rows:
        if is_json:
            case, condition, sentences = (row.get(field) for field in ("case", "condition", "sentences"))
            texts = sentences if isinstance(sentences, list) and 2 <= len(sentences) <= 3 else [None]
            for field, some in (("case", [case]), ("condition", [condition]), ("sentences", texts)):
                if not all(isinstance(text, str) and text.strip() for text in some):
                    due = "case, condition and a list of two or three sentences, the grammatical one first, are due"
                    raise CorpusError(f"{where}: {field} is {described(row.get(field))}; {due}")
        else:
            if not _is_stimulus(row) or not all((*row[:2], *row[-2:])):
                due = "case, condition, good and bad sentence, which hardly differ, were due with tabs between them"
                remedy = "or name the columns, as in --columns good=3,bad=4,group=1"
                raise CorpusError(f"{where}: {quoted(' '.join(row))} where {due}; {remedy}")
            case, condition, *_, masked, good, bad = row[:2] + row[-3:]
            if _STARRED in masked.split():
                good, bad = (masked.replace(_STARRED, form) for form in (good, bad))
            texts = [good, bad]
        case, condition, *stated = (" ".join(text.split()) for text in (case, condition, *texts))
        yield _Stimulus(f"{corpus_name(path)}-{number}", case, condition, tuple(stated))


def _numbered_rows(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Rows of a table without a header: row number from 1, place for messages, and values."""
    table = read_table(path, has_header=False)
    for row, values in enumerate(zip(*table.columns.values(), strict=True)):
        yield table.number(row), table.place(row), [value.strip() for value in values]


_WHAT = "agreement items"
_SENTENCE = ("pattern", "constr_id", "sent_id", "sent")
_FIELDS = (*_SENTENCE, "form", "class", "type", "n_attr", "len_prefix")
"""Columns of Gulordava's table that are read, first those that two rows of one item have in common."""
_LINZEN_COLUMNS = 5


def read_agreement(source: Any, *, columns: Stated | None = None) -> Iterator[ClozeItem | LeftOut]:
    """Agreement items of a file, a folder with files of one kind, or a table in memory, in their order.

    The text is the sentence with a mask at the form that agrees, ``good``; ``bad`` is the form of the other number, and
    ``group`` the construction, empty if the source does not state it. ``blind`` has the subject masked too, and what
    agrees with it before the form. ``kind`` is the set:

    - ``marvin_linzen``: as :func:`read_minimal_pairs` reads it, the mask at the one word in which two sentences differ.
      Reflexives are among them: *himself* agrees with its antecedent, and Goldberg (2019) asks them too. Negative
      polarity items are not: there the licensor differs (*no*, *the*), which agrees with nothing. Each sentence is
      given a final period, as in Goldberg (2019), because an encoder expects that text without it goes on; that moves
      scores.
    - ``gulordava``: ``generated.tab``, each item two rows, ``correct`` and ``wrong``. The mask stands after as many
      words as ``len_prefix`` says. Words are joined by spaces and ``<eos>`` is taken off, as in Goldberg (2019); he
      made them lower-case, which an uncased encoder does by itself, and here they keep their case.
    - ``linzen``: natural sentences as Goldberg prepared them, a table with tabs between number of attractors,
      sentence, sentence with ``***mask***``, good form, bad form.
    - ``table``: any other table with the columns ``text``, ``good`` and ``bad``, or ``columns`` that say which they are
      (:func:`read_item_table`).

    Raises:
        CorpusError: a file or line is not as it should be, or files of a folder are of several kinds.
    """
    if (items := read_item_table(source, "choices", columns=columns)) is not None:
        yield from items
        return
    files = files_of(source, (*ITEM_SUFFIXES, ".tab"), what=_WHAT)
    readers = {file: _reader_of(file) for file in files}
    if len(set(readers.values())) > 1:
        names = ", ".join(file.name for file in files[:3])
        raise CorpusError(f"{source}: files of several kinds ({names} …); name one of them")
    for file, read in readers.items():
        yield from read(file)


def _reader_of(path: Path) -> Any:
    if not (names := list(columns_of(path))):
        raise CorpusError(f"{path}: no item in it; name a file of {_WHAT}")
    if names[0] == "pattern" or path.suffix.lower() == ".tab":
        return _gulordava
    if is_numeral(names[0]) and (len(names) == _LINZEN_COLUMNS or any(_STARRED in name for name in names)):
        return _linzen
    if not _is_stimuli(path, names):
        raise not_items(path, names, "choices", nor=f"{_STIMULI}, nor those of Gulordava or Linzen")
    return _marvin_linzen


def _marvin_linzen(path: Path) -> Iterator[ClozeItem | LeftOut]:
    return (stimulus.agreement() for stimulus in _stimuli(path))


def _gulordava(path: Path) -> Iterator[ClozeItem | LeftOut]:
    names = columns_of(path)
    if lacking := next((field for field in _FIELDS if field not in names), None):
        raise CorpusError(f"{path}:1: no column {lacking}; name a table with the columns {', '.join(_FIELDS)}")
    first: dict[str, str] = {}
    where = str(path)
    for _, where, cells in records(path):
        row, due = {field: str(cells.get(field, "")).strip() for field in _FIELDS}, "wrong" if first else "correct"
        if empty := next((field for field in _FIELDS if not row[field]), ""):
            raise CorpusError(f"{where}: nothing in column {empty}; each row should have all columns")
        if row["class"] != due or (first and any(row[field] != first[field] for field in _SENTENCE)):
            raise CorpusError(f"{where}: no {due} row of an item, which is a correct and a wrong row of one sentence")
        if not first:
            first = row
            continue
        words, numbers = row["sent"].removesuffix("<eos>").split(), (first["n_attr"], first["len_prefix"])
        n_attractors, place = map(int, numbers) if all(map(is_numeral, numbers)) else (0, len(words))
        if place >= len(words):
            what = f"n_attr {quoted(first['n_attr'])} and len_prefix {quoted(first['len_prefix'])}"
            raise CorpusError(f"{where}: {what}; write numbers, the second one smaller than the {len(words)} words")
        words[place], frame = MASK, f"{row['pattern']}-{row['constr_id']}"
        name, group = f"{frame}-{row['sent_id']}", f"{'original' if first['type'] == 'original' else 'nonce'} "
        yield _item(name, frame, group + row["pattern"], words, first["form"], row["form"], "gulordava", n_attractors)
        first = {}
    if first:
        raise CorpusError(f"{where}: the last item has no wrong row; an item is two rows")


def _linzen(path: Path) -> Iterator[ClozeItem | LeftOut]:
    for number, where, columns in _numbered_rows(path):
        masked = columns[2].split() if len(columns) == _LINZEN_COLUMNS and all(columns) else []
        if masked.count(_STARRED) != 1 or not is_numeral(columns[0]):
            due = f"number of attractors, sentence, sentence with one {_STARRED}, good form and bad form"
            raise CorpusError(f"{where}: found {quoted(' '.join(columns))}; expected, with tabs between them: {due}")
        name, words = f"{corpus_name(path)}-{number}", [MASK if one == _STARRED else one for one in masked]
        yield _item(name, name, "", words, columns[3], columns[4], "linzen", int(columns[0]))


def _item(
    name: str, frame: str, group: str, words: Sequence[str], good: str, bad: str, kind: str, n_attractors: int
) -> ClozeItem | LeftOut:
    text = " ".join(words)
    item = ClozeItem(name, frame, group, text, good, rivals=(bad,), kind=kind, n_attractors=n_attractors)
    return LeftOut(name, item.attractors, ITEM_FORMS["choices"].same) if good == bad else item
