"""Agreement with a mask at the form: Linzen et al. (2016), Gulordava et al. (2018), Marvin & Linzen (2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertology._inputs import is_numeral
from bertology.corpora._files import corpus_name
from bertology.corpora.prompts._item_tables import ITEM_SUFFIXES, TableItem, columns_of, not_items, read_item_table
from bertology.corpora.prompts._items import MASK, LeftOut, files_of, numbered_rows, records
from bertology.corpora.prompts._minimal_pairs import STARRED, STIMULI, Stimulus, closed, is_stimuli, stimuli
from bertology.errors import CorpusError, quoted

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
    """Whose set it is from."""
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
    """How many nouns of the other number stand between subject and form; None if the source does not state it."""
    blind: str = ""
    """The text with the subject masked too, and what agrees with it before the form; empty if they are not known."""

    @property
    def attractors(self) -> str:
        """``0 attractors``, ``1 attractor`` …; empty if the source does not state it."""
        return "" if self.n_attractors is None else _attractors(self.n_attractors)


def _attractors(number: int) -> str:
    return f"{number} attractor{'' if number == 1 else 's'}"


def read_agreement(source: Any, *, columns: str | Sequence[str] | None = None) -> Iterator[AgreementPair | LeftOut]:
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
        yield from map(_of_item, items)
        return
    files = files_of(source, _SUFFIXES, what=_WHAT)
    kinds = {file: _kind_of(file) for file in files}
    if len(set(kinds.values())) > 1:
        names = ", ".join(file.name for file in files[:3])
        raise CorpusError(f"{source}: files of several kinds ({names} …); name one of them")
    readers = {"gulordava": _gulordava, "linzen": _linzen, "marvin_linzen": _marvin_linzen}
    for file, kind in kinds.items():
        yield from readers[kind](file)


def _of_item(item: TableItem | LeftOut) -> AgreementPair | LeftOut:
    if isinstance(item, LeftOut):
        return item
    return AgreementPair(
        item.id, "table", item.text, item.good, item.bad[0], item.cluster, structure=item.group, blind=item.blind
    )


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
            yield _of_rows(first, row, where)
            first = None
    if first is not None:
        raise CorpusError(f"{where}: the last item has no wrong row; an item is two rows")


def _of_rows(correct: Mapping[str, str], wrong: Mapping[str, str], where: str) -> AgreementPair | LeftOut:
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
