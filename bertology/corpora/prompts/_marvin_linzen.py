"""The constructions of Marvin & Linzen (2018): who agrees with whom, and what of a sentence tells it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from bertology.corpora._lines import text_lines
from bertology.corpora.prompts._json_lines import MASK, json_objects
from bertology.corpora.prompts._reading import words_field
from bertology.errors import CorpusError

STARRED = "***mask***"
_COMPOUNDS = frozenset(["security", "taxi", "television"])
"""First words of their nouns of two words: *security guard*, *taxi driver*, *television show*."""
_NUMBER = re.compile(r"(sing|plur)_(MS|IS|ES)(?=_|$)")


@dataclass(frozen=True, slots=True)
class Construction:
    """What a case of theirs is."""

    name: str
    """As Goldberg (2019, Table 3) calls it."""
    subject: Literal["first", "second"] = "first"
    """Which noun after *the* decides."""
    agreeing: int = 0
    """How many words after the subject another one stands that agrees with it; 0 if none does before the form."""
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
"""By case, animate and inanimate subjects together (``prep_anim`` and ``prep_inanim`` are ``prep``)."""


@dataclass(frozen=True, slots=True)
class Stimulus:
    """An item of theirs: a grammatical sentence and one or two that are not."""

    id: str
    case: str
    condition: str
    sentences: tuple[str, ...]
    """The grammatical one first, then the ungrammatical one; of negative polarity items, another such one."""
    construction: Construction | None
    """What the case is; None if it is none of theirs."""

    @property
    def n_attractors(self) -> int | None:
        """How many nouns of the other number stand between subject and form; None if that is not said."""
        construction = self.construction
        if construction is None or construction.polarity:
            return None
        if not construction.between:
            return 0
        return _opposed(self.condition)

    def subject_place(self, words: Sequence[str]) -> int | None:
        """Where, in the words of a sentence of it, the noun stands that decides; None if that is not known."""
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
        """A masked sentence with its subject masked too, and what agrees with it; empty if that is not known."""
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


def stimuli(path: Path) -> Iterator[Stimulus]:
    """The items of a file, JSON lines or a table.

    An object of JSON lines has ``case``, ``condition`` and ``sentences``. A table has tabs between case, condition,
    and, last, the good and the bad sentence, or, last, a sentence with ``***mask***``, the good and the bad form.

    Raises:
        CorpusError: a line is not as it should be; the message names file, line and field.
    """
    if path.suffix.lower() == ".jsonl":
        for number, found in json_objects(path):
            yield stimulus_of(found, f"{path}:{number}", f"{path.stem}-{number}")
        return
    for number, line in enumerate(text_lines(path), 1):
        if line.strip():
            yield _from_columns(line.strip().split("\t"), f"{path}:{number}", f"{path.stem}-{number}")


def stimulus_of(found: Mapping[str, Any], where: str, name: str) -> Stimulus:
    """The item that an object states.

    Raises:
        CorpusError: a field is not as it should be.
    """
    sentences = found.get("sentences")
    if sentences is None:
        raise CorpusError(f"{where}: sentences is missing; Marvin & Linzen's items have case, condition and sentences")
    if not isinstance(sentences, list) or not 2 <= len(sentences) <= 3:
        raise CorpusError(f"{where}: sentences should be a list: the grammatical one, the other one, one more for NPI")
    if not all(isinstance(sentence, str) and sentence.strip() for sentence in sentences):
        raise CorpusError(f"{where}: one of the sentences is empty or no text; write two or three sentences")
    case, condition = words_field(found, "case", where), words_field(found, "condition", where)
    stated = tuple(" ".join(sentence.split()) for sentence in sentences)
    return Stimulus(name, case, condition, stated, _construction(case))


def _from_columns(columns: list[str], where: str, name: str) -> Stimulus:
    if len(columns) < 4 or not all(column.strip() for column in (*columns[:2], *columns[-2:])):
        raise CorpusError(
            f"{where}: {len(columns)} columns where case, condition, good and bad sentence were due, parted by tabs"
        )
    good, bad = columns[-2:]
    masked = columns[-3].split()
    if STARRED in masked:
        good, bad = (" ".join(form if word == STARRED else word for word in masked) for form in (good, bad))
    sentences = " ".join(good.split()), " ".join(bad.split())
    return Stimulus(name, columns[0], columns[1], sentences, _construction(columns[0]))
