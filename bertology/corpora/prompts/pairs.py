"""Minimal pairs (BLiMP, Marvin & Linzen) and agreement with a mask at the form (Linzen, Gulordava, Goldberg)."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertology._files import is_numeral
from bertology.corpora._files import corpus_name, suffix_of, wrong
from bertology.corpora._tables import JSON_SUFFIXES, Row, Stated, names_of_columns, read_table
from bertology.corpora.prompts._items import ITEM_FORMS, MASK, ClozeItem, LeftOut, files_of, items_in, read_item_table
from bertology.errors import CorpusError

_FORM = ITEM_FORMS["sentences"]


def read_minimal_pairs(source: Any, *, columns: Stated | None = None) -> Iterator[ClozeItem | LeftOut]:
    """Minimal pairs of a file, of the files of a folder, or of a table in memory, in the order in which they come.

    - BLiMP: tables, mostly JSON lines, with ``sentence_good`` and ``sentence_bad``, and ``UID`` and ``pairID`` if they
      are there. Each pair is drawn anew by its grammar: its cluster is the pair.
    - MultiBLiMP (Jumelet et al. 2025): tables with ``sen`` and ``wrong_sen``, ``phenomenon`` and ``lang``. A table of
      several languages has a group for each phenomenon of each.
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
    for file in files_of(source, what="minimal pairs"):
        names = list(names_of_columns(file))
        if _is_stimuli(file, names):
            yield from (pair for stimulus in _stimuli(file) for pair in stimulus.pairs())
            continue
        table = read_table(file)
        if (chosen := _FORM.recognised(table.columns)) is None:
            raise _FORM.unknown(file, names, nor=f"those of BLiMP or MultiBLiMP, nor {_STIMULI}")
        yield from items_in(table, chosen, _FORM)


_STARRED = "***mask***"
_COMPOUNDS = frozenset(["security", "taxi", "television"])
"""First words of their nouns of two words: *security guard*, *taxi driver*, *television show*."""
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
                yield ClozeItem(self.id + end, self._frame(which), group, _closed(good), other=_closed(bad))

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
        forms = [sentence[differ[0]].removesuffix(".") for sentence in (good, bad)]
        good[differ[0]] = MASK
        blind, place, n_attractors = "", self._subject_place(good), None if construction is None else 0
        if construction is not None and place is not None and MASK not in good[: place + construction.agreeing + 1]:
            hidden = (place, place + construction.agreeing)
            blind = _closed(" ".join(MASK if at in hidden else word for at, word in enumerate(good)))
        if construction is not None and construction.between:
            # One if the main and the embedded subject that a condition names (plur_MS_MV_sing_ES) differ in number.
            numbers = {noun[0]: number for number, noun in _NUMBER.findall(self.condition)}
            main = numbers.get("M", numbers.get("I"))
            n_attractors = None if main is None or "E" not in numbers else int(main != numbers["E"])
        text = _closed(" ".join(good))
        return _item(self.id, self._frame(), group, text, forms, "marvin_linzen", n_attractors, blind)


def _closed(sentence: str) -> str:
    return f"{sentence.removesuffix(' .').removesuffix('.')}."


def _is_stimuli(path: Path, names: Sequence[str]) -> bool:
    """Whether a table, by its first row, has Marvin & Linzen's items: in JSON lines, or with a known case or a mask.

    Of a set of one's own there are four columns, of which the last two are sentences that hardly differ.
    """
    if suffix_of(path) in JSON_SUFFIXES:
        return not {"case", "sentences"}.isdisjoint(names)
    if len(names) < 4 or _construction(names[0]) is not None or _STARRED in names[-3].split():
        return len(names) >= 4
    good, bad = (Counter(re.findall(r"\w+", name.lower())) for name in names[2:4])
    return len(names) == 4 and len(names[0].split()) == 1 and 2 * (good & bad).total() > max(good.total(), bad.total())


def _stimuli(path: Path) -> Iterator[_Stimulus]:
    """The items of a file, JSON lines or a table.

    An object of JSON lines has ``case``, ``condition`` and ``sentences``. A table has tabs between case, condition,
    and, last, the good and the bad sentence, or, last, a sentence with ``***mask***``, the good and the bad form.
    """
    is_json = suffix_of(path) in JSON_SUFFIXES
    for row in read_table(path, has_names=is_json).rows():
        if is_json:
            sentences = row.values.get("sentences")
            if not isinstance(sentences, list) or not 2 <= len(sentences) <= 3:
                raise row.error("sentences", "a list of two or three sentences, the grammatical one first")
            case, condition = (row.text(column) for column in ("case", "condition"))
            texts = [row.text("sentences", found=text) for text in sentences]
        else:
            cells = [" ".join(value.split()) for value in row.values.values()]
            if not _is_stimuli(path, cells) or not all((*cells[:2], *cells[-2:])):
                due = "case, condition, good and bad sentence, with tabs between them; or name the columns by --columns"
                raise wrong(row.where, " ".join(cells), due)
            case, condition, *_, masked, good, bad = cells[:2] + cells[-3:]
            is_masked = _STARRED in masked.split()
            texts = [masked.replace(_STARRED, form) if is_masked else form for form in (good, bad)]
        yield _Stimulus(f"{corpus_name(path)}-{row.number}", case, condition, tuple(texts))


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
    files = files_of(source, ".tab", what=_WHAT)
    readers = {file: _reader_of(file) for file in files}
    if len(set(readers.values())) > 1:
        names = ", ".join(file.name for file in files[:3])
        raise CorpusError(f"{source}: files of several kinds ({names} …); name one of them")
    for file, read in readers.items():
        yield from read(file)


def _reader_of(path: Path) -> Any:
    names = list(names_of_columns(path))
    if names[0] == "pattern" or path.suffix.lower() == ".tab":
        return _gulordava
    if is_numeral(names[0]) and (len(names) == _LINZEN_COLUMNS or any(_STARRED in name for name in names)):
        return _linzen
    if not _is_stimuli(path, names):
        raise ITEM_FORMS["choices"].unknown(path, names, nor=f"{_STIMULI}, nor those of Gulordava or Linzen")
    return _marvin_linzen


def _marvin_linzen(path: Path) -> Iterator[ClozeItem | LeftOut]:
    return (stimulus.agreement() for stimulus in _stimuli(path))


def _gulordava(path: Path) -> Iterator[ClozeItem | LeftOut]:
    names = names_of_columns(path)
    if lacking := next((field for field in _FIELDS if field not in names), None):
        raise wrong(f"{path}:1", ", ".join(names), f"a column {lacking}, and all of {', '.join(_FIELDS)}")
    first: Row | None = None
    for row in read_table(path).rows():
        cells, before = {field: row.text(field) for field in _FIELDS}, None if first is None else first.values
        due = "correct" if before is None else "wrong"
        if cells["class"] != due or any(before and row.values[field] != before[field] for field in _SENTENCE):
            raise row.error("class", f"{due}: an item is a correct and then a wrong row of one sentence")
        if before is None:
            first = row
            continue
        words, numbers = cells["sent"].removesuffix("<eos>").split(), [before["n_attr"], before["len_prefix"]]
        n_attractors, place = map(int, numbers) if all(map(is_numeral, numbers)) else (0, len(words))
        if place >= len(words):
            due = f"two numbers, the second one smaller than the {len(words)} words"
            raise wrong(f"{row.where}: columns n_attr and len_prefix", numbers, due)
        words[place], frame = MASK, f"{cells['pattern']}-{cells['constr_id']}"
        name, group = f"{frame}-{cells['sent_id']}", "original" if before["type"] == "original" else "nonce"
        forms = [before["form"].strip(), cells["form"]]
        yield _item(name, frame, f"{group} {cells['pattern']}", " ".join(words), forms, "gulordava", n_attractors)
        first = None
    if first is not None:
        raise first.error("class", "a wrong row after the correct one: an item is two rows")


def _linzen(path: Path) -> Iterator[ClozeItem | LeftOut]:
    for row in read_table(path, has_names=False).rows():
        cells = [value.strip() for value in row.values.values()]
        masked = cells[2].split() if len(cells) == _LINZEN_COLUMNS and all(cells) else []
        if masked.count(_STARRED) != 1 or not is_numeral(cells[0]):
            due = f"number of attractors, sentence, sentence with one {_STARRED}, good and bad form, parted by tabs"
            raise wrong(row.where, " ".join(cells), due)
        name, text = f"{corpus_name(path)}-{row.number}", " ".join(MASK if one == _STARRED else one for one in masked)
        yield _item(name, name, "", text, cells[3:], "linzen", int(cells[0]))


def _item(
    id: str, frame: str, group: str, text: str, forms: list[str], kind: str, n_attractors: int | None, blind: str = ""
) -> ClozeItem | LeftOut:
    good, bad = forms
    more: dict[str, Any] = {"blind": blind, "kind": kind, "n_attractors": n_attractors}
    item = ClozeItem(id, frame, group, text, good, rivals=(bad,), **more)
    return LeftOut(id, item.attractors, ITEM_FORMS["choices"].same) if good == bad else item
