"""Minimal pairs (BLiMP, Marvin & Linzen) and agreement with a mask at the form (Linzen, Gulordava, Goldberg)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from bertology._inputs import is_numeral
from bertology.corpora._files import corpus_name, suffix_of
from bertology.corpora._tables import JSON_SUFFIXES, Columns, Stated, read_table
from bertology.corpora.prompts._items import (
    ITEM_FORMS,
    ITEM_SUFFIXES,
    MASK,
    LeftOut,
    TableItem,
    columns_of,
    files_of,
    not_items,
    numbered_rows,
    read_item_table,
    records,
    table_items,
    words_field,
)
from bertology.errors import CorpusError, quoted

_FORM = ITEM_FORMS["sentences"]
_BLIMP = {"good": "sentence_good", "bad": "sentence_bad", "group": "UID", "id": "pairID"}


def read_minimal_pairs(source: Any, *, columns: Stated | None = None) -> Iterator[TableItem | LeftOut]:
    """Minimal pairs of a file, of the files of a folder, or of a table in memory, in the order in which they come.

    - BLiMP: tables, mostly JSON lines, with ``sentence_good`` and ``sentence_bad``, and ``UID`` and ``pairID`` if they
      are there. Each pair is drawn anew by its grammar: its cluster is the pair.
    - Any other table with the columns ``good`` and ``bad``, or ``columns`` that say which they are
      (:func:`read_item_table`).
    - Marvin & Linzen's JSON lines (``case``, ``condition``, ``sentences``) or table without names of columns (case,
      condition and, last, good and bad sentence). Negative polarity items have two ungrammatical sentences, hence two
      pairs: *most* or *many* for the licensor makes a group of its own, ``(most, many)``, and so does, in their
      relative clauses, the licensor where it does not reach the item, ``(intrusive)``. Clusters are the subject and
      the words that differ: the rest of each sentence is crossed with these. Sentences stay as they are, lower-case and
      without a period.

    A pair of twice the same sentence cannot be scored (BLiMP has seven).

    Raises:
        CorpusError: a file or line is not as it should be.
    """
    items = read_item_table(source, "sentences", columns=columns)
    if items is not None:
        yield from items
        return
    for file in files_of(source, ITEM_SUFFIXES, what="minimal pairs"):
        yield from _pairs(file)


def _pairs(path: Path) -> Iterator[TableItem | LeftOut]:
    names = columns_of(path)
    if is_stimuli(path, names):
        for stimulus in stimuli(path):
            yield from _of_stimulus(stimulus)
        return
    if not names:
        raise CorpusError(f"{path}: no item in it; name a file of minimal pairs")
    table = read_table(path)
    columns = _FORM.recognised(table.columns)
    if {_BLIMP["good"], _BLIMP["bad"]} <= set(table.columns):
        columns = Columns({key: (name,) for key, name in _BLIMP.items() if name in table.columns})
    if columns is None:
        raise not_items(path, names, "sentences", nor=f"sentence_good and sentence_bad of BLiMP, nor {STIMULI}")
    yield from table_items(table, columns, _FORM)


def _of_stimulus(stimulus: Stimulus) -> Iterator[TableItem | LeftOut]:
    good, bad, *further = stimulus.sentences
    construction = stimulus.construction
    intrusive = construction is not None and construction.polarity and construction.between
    group = f"{stimulus.case} (intrusive)" if intrusive else stimulus.case
    pairs = [(stimulus.id, group, bad, stimulus.frame())]
    pairs += [(f"{stimulus.id}-third", f"{stimulus.case} (most, many)", one, stimulus.frame(2)) for one in further]
    for name, group, other, frame in pairs:
        pair = TableItem(name, frame, group, good=good, bad=(other,), kind="marvin_linzen")
        yield LeftOut(name, group, _FORM.same) if good == other else pair


STARRED = "***mask***"
_FEWEST_COLUMNS = 4
_COMPOUNDS = frozenset(["security", "taxi", "television"])
"""First words of their nouns of two words: *security guard*, *taxi driver*, *television show*."""
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"(sing|plur)_(MS|IS|ES)(?=_|$)")


@dataclass(frozen=True, slots=True)
class Construction:
    """A construction of Marvin & Linzen."""

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


CONSTRUCTIONS: Mapping[str, Construction] = {
    "simple_agrmt": Construction("simple"),
    "sent_comp": Construction("in a sentential complement", "second"),
    "vp_coord": Construction("short VP coordination", agreeing=1),
    "long_vp_coord": Construction("long VP coordination", agreeing=1),
    "prep": Construction("across a prepositional phrase", between=True),
    "subj_rel": Construction("across a subject relative clause", agreeing=2, between=True),
    "obj_rel_across": Construction("across an object relative clause", between=True),
    "obj_rel_no_comp_across": Construction("across an object relative (no that)", between=True),
    "obj_rel_within": Construction("in an object relative clause", "second"),
    "obj_rel_no_comp_within": Construction("in an object relative (no that)", "second"),
    "simple_reflexives": Construction("simple reflexives"),
    "reflexive_sent_comp": Construction("reflexives in a sentential complement", "second"),
    "reflexives_across": Construction("reflexives across a relative clause", between=True),
    "simple_npi": Construction("simple NPI", polarity=True),
    "npi_across": Construction("NPI across a relative clause", between=True, polarity=True),
}
"""Constructions by case, animate and inanimate subjects together (``prep_anim`` and ``prep_inanim`` are ``prep``)."""


@dataclass(frozen=True, slots=True)
class Stimulus:
    """An item of Marvin & Linzen: a grammatical sentence and one or two ungrammatical ones."""

    id: str
    case: str
    condition: str
    sentences: tuple[str, ...]
    """The grammatical one first, then the ungrammatical one; of negative polarity items, another such one."""
    construction: Construction | None
    """The construction of the case; None for an unknown case."""

    @property
    def n_attractors(self) -> int | None:
        """Number of nouns of the other number between subject and form; None if unknown."""
        construction = self.construction
        if construction is None or construction.polarity:
            return None
        return _opposed(self.condition) if construction.between else 0

    def subject_place(self, words: Sequence[str]) -> int | None:
        """The position of the subject noun among the words of its sentence; None if unknown."""
        if self.construction is None:
            return None
        place = 1  # the first noun, after *the*, *no*, *most* or *few*
        if self.construction.subject == "second":
            if words.count("the") < 2:
                return None
            place = words.index("the", words.index("the") + 1) + 1
        place += place < len(words) and words[place] in _COMPOUNDS
        return place if place < len(words) else None

    def frame(self, other: int = 1) -> str:
        """The subject, whatever its number, and the words in which the good sentence and another one differ."""
        good, bad = (self.sentences[which].split() for which in (0, other))
        if len(good) == len(bad):
            differing = {word for pair in zip(good, bad, strict=True) if pair[0] != pair[1] for word in pair}
        else:
            differing = set(good) ^ set(bad)
        place = self.subject_place(good)
        subject = "" if place is None else good[place].removesuffix("s")
        return " ".join([subject, "/".join(sorted(differing))]).strip()

    def blind(self, masked: Sequence[str]) -> str:
        """A masked sentence with its subject masked too, and what agrees with it; empty if unknown."""
        construction, place = self.construction, self.subject_place(masked)
        if construction is None or place is None:
            return ""
        last = place + construction.agreeing
        if MASK in masked[: last + 1]:
            return ""
        hidden = list(masked)
        hidden[place] = hidden[last] = MASK
        return closed(hidden)


@lru_cache
def _construction(case: str) -> Construction | None:
    return CONSTRUCTIONS.get(case.removesuffix("_anim").removesuffix("_inanim"))


@lru_cache
def _opposed(condition: str) -> int | None:
    """1 if the main and the embedded subject that a condition names (``plur_MS_MV_sing_ES``) differ in number."""
    numbers = {noun[0]: number for number, noun in _NUMBER.findall(condition)}
    main = numbers.get("M", numbers.get("I"))
    return None if main is None or "E" not in numbers else int(main != numbers["E"])


def closed(words: Sequence[str]) -> str:
    """Words as a sentence that ends in a period."""
    text = " ".join(words)
    return f"{text.removesuffix(' .').removesuffix('.')}."


STIMULI = "case, condition and sentences of Marvin & Linzen"


def is_stimuli(path: Path, names: Collection[str]) -> bool:
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
    if _construction(columns[0]) is not None or STARRED in columns[-3].split():
        return True
    return len(columns) == _FEWEST_COLUMNS and _hardly_differ(*columns[2:]) and not _hardly_differ(*columns[:2])


def _hardly_differ(one: str, other: str) -> bool:
    """Whether two texts share more than half of their words."""
    words = [Counter(_WORD.findall(text.lower())) for text in (one, other)]
    return (words[0] & words[1]).total() > max(word.total() for word in words) / 2


def stimuli(path: Path) -> Iterator[Stimulus]:
    """The items of a file, JSON lines or a table.

    An object of JSON lines has ``case``, ``condition`` and ``sentences``. A table has tabs between case, condition,
    and, last, the good and the bad sentence, or, last, a sentence with ``***mask***``, the good and the bad form.
    """
    if suffix_of(path) in JSON_SUFFIXES:
        for number, where, plain in records(path):
            yield _stated_stimulus(plain, where, f"{corpus_name(path)}-{number}")
        return
    for number, where, columns in numbered_rows(path):
        yield _from_columns(columns, where, f"{corpus_name(path)}-{number}")


def _stated_stimulus(plain: Mapping[str, Any], where: str, name: str) -> Stimulus:
    sentences = plain.get("sentences")
    if sentences is None:
        raise CorpusError(f"{where}: sentences is missing; Marvin & Linzen's items have case, condition and sentences")
    if not isinstance(sentences, list) or not 2 <= len(sentences) <= 3:
        raise CorpusError(f"{where}: sentences should be a list: the grammatical one, the other one, one more for NPI")
    if not all(isinstance(sentence, str) and sentence.strip() for sentence in sentences):
        raise CorpusError(f"{where}: one of the sentences is empty or no text; write two or three sentences")
    case, condition = words_field(plain, "case", where), words_field(plain, "condition", where)
    stated = tuple(" ".join(sentence.split()) for sentence in sentences)
    return Stimulus(name, case, condition, stated, _construction(case))


def _from_columns(columns: list[str], where: str, name: str) -> Stimulus:
    if len(columns) < _FEWEST_COLUMNS or not all(column.strip() for column in (*columns[:2], *columns[-2:])):
        reason = f"{len(columns)} columns where case, condition, good and bad sentence were due, parted by tabs"
        raise CorpusError(f"{where}: {reason}")
    if not _is_stimulus(columns):
        reason = f"{quoted(columns[-2])} and {quoted(columns[-1])} are no two sentences that hardly differ"
        raise CorpusError(f"{where}: {reason}; name the columns, as in --columns good=3,bad=4,group=1")
    good, bad = columns[-2:]
    masked = columns[-3].split()
    if STARRED in masked:
        good, bad = (" ".join(form if word == STARRED else word for word in masked) for form in (good, bad))
    sentences = " ".join(good.split()), " ".join(bad.split())
    return Stimulus(name, columns[0], columns[1], sentences, _construction(columns[0]))


AgreementKind = Literal["gulordava", "linzen", "marvin_linzen", "table"]

_SUFFIXES = (*ITEM_SUFFIXES, ".tab")
_WHAT = "agreement items"
_FIELDS = ("pattern", "constr_id", "sent_id", "form", "class", "type", "n_attr", "len_prefix", "sent")
"""Columns of Gulordava's table that are read."""
_LINZEN_COLUMNS = 5
_LINZEN = "number of attractors, sentence, sentence with ***mask***, good form and bad form"


@dataclass(frozen=True, slots=True)
class AgreementPair:
    """A sentence with a mask at the form that agrees, and two forms of it."""

    id: str
    kind: AgreementKind
    """The set it is from."""
    text: str
    """The sentence, its form written ``{mask}``."""
    good: str
    """The form that agrees; ``bad`` is that of the other number."""
    bad: str
    frame: str
    """Identifier shared by items that are not independent."""
    structure: str = ""
    """The construction; empty if the source does not state it."""
    n_attractors: int | None = None
    """Number of nouns of the other number between subject and form; None if the source does not state it."""
    blind: str = ""
    """The text with the subject masked too, and what agrees with it before the form; empty if they are not known."""

    @property
    def attractors(self) -> str:
        """``0 attractors``, ``1 attractor`` …; empty if the source does not state it."""
        return "" if self.n_attractors is None else _attractors(self.n_attractors)


def _attractors(number: int) -> str:
    return f"{number} attractor{'' if number == 1 else 's'}"


def read_agreement(source: Any, *, columns: Stated | None = None) -> Iterator[AgreementPair | LeftOut]:
    """Agreement items of a file, a folder with files of one kind, or a table in memory, in their order.

    - Marvin & Linzen's stimuli: JSON lines with ``case``, ``condition`` and ``sentences``, or a table without names of
      columns, with tabs between case, condition and, last, the good and the bad sentence. The mask stands at the one
      word in which the two differ. Reflexives are among them: *himself* agrees with its antecedent, and Goldberg (2019)
      asks them too. Negative polarity items are not: there the licensor differs (*no*, *the*), which agrees with
      nothing. Sentences are lower-case as the authors wrote them. They have no final period: each is given one, as in
      Goldberg (2019), because an encoder expects that text without it goes on; that moves scores.
    - Gulordava's ``generated.tab``: each item two rows, ``correct`` and ``wrong``. The mask stands after as many words
      as ``len_prefix`` says. Words are joined by spaces and ``<eos>`` is taken off, as in Goldberg (2019); he made them
      lower-case, which an uncased encoder does by itself, and here they keep their case.
    - Linzen's natural sentences as Goldberg prepared them: a table with tabs between number of attractors, sentence,
      sentence with ``***mask***``, good form, bad form.
    - Any other table with the columns ``text``, ``good`` and ``bad``, or ``columns`` that say which they are
      (:func:`read_item_table`): its groups are structures.

    Raises:
        CorpusError: a file or line is not as it should be, or files of a folder are of several kinds.
    """
    if (items := read_item_table(source, "choices", columns=columns)) is not None:
        for item in items:
            if isinstance(item, TableItem):
                forms = item.good, item.bad[0], item.cluster
                yield AgreementPair(item.id, "table", item.text, *forms, structure=item.group, blind=item.blind)
            else:
                yield item
        return
    files = files_of(source, _SUFFIXES, what=_WHAT)
    kinds = {file: _kind_of(file) for file in files}
    if len(set(kinds.values())) > 1:
        names = ", ".join(file.name for file in files[:3])
        raise CorpusError(f"{source}: files of several kinds ({names} …); name one of them")
    readers = {"gulordava": _gulordava, "linzen": _linzen, "marvin_linzen": _marvin_linzen}
    for file, kind in kinds.items():
        yield from readers[kind](file)


def _kind_of(path: Path) -> AgreementKind:
    names = list(columns_of(path))
    if not names:
        raise CorpusError(f"{path}: no item in it; name a file of {_WHAT}")
    if names[0] == "pattern" or path.suffix.lower() == ".tab":
        return "gulordava"
    if is_numeral(names[0]) and (len(names) == _LINZEN_COLUMNS or any(STARRED in name for name in names)):
        return "linzen"
    if not is_stimuli(path, names):
        raise not_items(path, names, "choices", nor=f"{STIMULI}, nor those of Gulordava or Linzen")
    return "marvin_linzen"


def _marvin_linzen(path: Path) -> Iterator[AgreementPair | LeftOut]:
    for stimulus in stimuli(path):
        construction = stimulus.construction
        name = stimulus.case if construction is None else construction.name
        reason = _not_agreement(stimulus)
        yield LeftOut(stimulus.id, name, reason) if reason else _masked(stimulus, name)


def _not_agreement(stimulus: Stimulus) -> str:
    """Why a single mask cannot test the item; empty if it can."""
    construction = stimulus.construction
    if construction is not None and construction.polarity:
        return "negative polarity, which is no agreement"
    good, bad = (sentence.split() for sentence in stimulus.sentences[:2])
    if good == bad:
        return "the two sentences are the same"
    if len(good) != len(bad) or sum(one != other for one, other in zip(good, bad, strict=True)) > 1:
        return "the two sentences differ in more than one word"
    return ""


def _masked(stimulus: Stimulus, name: str) -> AgreementPair:
    good, bad = (sentence.split() for sentence in stimulus.sentences[:2])
    place = next(at for at, word in enumerate(good) if word != bad[at])
    words = [*good[:place], MASK, *good[place + 1 :]]
    right, wrong = (sentence[place].removesuffix(".") for sentence in (good, bad))
    frame, n_attractors, blind = stimulus.frame(), stimulus.n_attractors, stimulus.blind(words)
    text = closed(words)
    return AgreementPair(stimulus.id, "marvin_linzen", text, right, wrong, frame, name, n_attractors, blind)


def _gulordava(path: Path) -> Iterator[AgreementPair | LeftOut]:
    first: Mapping[str, str] | None = None
    where = str(path)
    missing = next((field for field in _FIELDS if field not in columns_of(path)), None)
    if missing is not None:
        raise CorpusError(f"{path}:1: no column {missing}; name a table with the columns {', '.join(_FIELDS)}")
    for _, where, cells in records(path):
        row = {field: str(cells.get(field, "")).strip() for field in _FIELDS}
        lacking = next((field for field in _FIELDS if not row[field]), None)
        if lacking is not None:
            raise CorpusError(f"{where}: nothing in column {lacking}; each row should have all columns")
        due = "correct" if first is None else "wrong"
        if row["class"] != due:
            reason = f"class is {quoted(row['class'])} where {due} was due; a correct row, then a wrong one"
            raise CorpusError(f"{where}: {reason}")
        if first is None:
            first = row
        elif any(row[field] != first[field] for field in ("pattern", "constr_id", "sent_id", "sent")):
            raise CorpusError(f"{where}: not the sentence of the row before; an item is two rows of one sentence")
        else:
            yield _gulordava_item(first, row, where)
            first = None
    if first is not None:
        raise CorpusError(f"{where}: the last item has no wrong row; an item is two rows")


def _gulordava_item(correct: Mapping[str, str], wrong: Mapping[str, str], where: str) -> AgreementPair | LeftOut:
    words = correct["sent"].split()
    words = words[:-1] if words[-1] == "<eos>" else words
    for field in ("n_attr", "len_prefix"):
        if not is_numeral(correct[field]):
            raise CorpusError(f"{where}: {field} is {quoted(correct[field])}; write a number")
    place = int(correct["len_prefix"])
    if place >= len(words):
        raise CorpusError(f"{where}: len_prefix is {place} in a sentence of {len(words)} words; it should be less")
    frame = f"{correct['pattern']}-{correct['constr_id']}"
    name = f"{frame}-{correct['sent_id']}"
    structure = f"{'original' if correct['type'] == 'original' else 'nonce'} {correct['pattern']}"
    good, bad = correct["form"], wrong["form"]
    if good == bad:
        return LeftOut(name, _attractors(int(correct["n_attr"])), "the two forms are the same")
    words[place] = MASK
    return AgreementPair(name, "gulordava", " ".join(words), good, bad, frame, structure, int(correct["n_attr"]))


def _linzen(path: Path) -> Iterator[AgreementPair | LeftOut]:
    for number, where, columns in numbered_rows(path):
        if len(columns) != _LINZEN_COLUMNS or not all(columns):
            raise CorpusError(f"{where}: {len(columns)} columns where {_LINZEN} were due, parted by tabs")
        n_attractors, _, masked, good, bad = columns
        if not is_numeral(n_attractors):
            reason = f"{quoted(n_attractors)} where a number of attractors was due; columns are {_LINZEN}"
            raise CorpusError(f"{where}: {reason}")
        if masked.split().count(STARRED) != 1:
            raise CorpusError(f"{where}: {masked.split().count(STARRED)} {STARRED} in the sentence; write one")
        name = f"{corpus_name(path)}-{number}"
        if good == bad:
            yield LeftOut(name, _attractors(int(n_attractors)), "the two forms are the same")
        else:
            text = " ".join(MASK if word == STARRED else word for word in masked.split())
            yield AgreementPair(name, "linzen", text, good, bad, name, n_attractors=int(n_attractors))
