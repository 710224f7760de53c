"""Facts as texts with a mask: pairs that differ in the subject, and single ones whose subject is to be noised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bertology.causal._agreement import named_places
from bertology.causal._pairs import PatchPair
from bertology.cloze import Prompt
from bertology.corpora import as_sentences
from bertology.corpora.prompts import TableItem, read_item_table, read_lama, source_name, split_language
from bertology.errors import ClozeError

_MASK = "[MASK]"


@dataclass(frozen=True)
class Fact:
    """A fact as a text whose mask is its object."""

    text: str
    """The mask is written ``{mask}``."""
    subject: str
    answer: str
    relation: str
    language: str | None = None
    """Of the text, by whose rules words are found."""


def read_facts(source: Any = "pocket", *, columns: str | None = None) -> list[Fact]:
    """Facts with a subject that stands in the text.

    Args:
        source: ``pocket``, of whose facts those are taken that the training text states; a file or folder of facts as
            the task ``lama`` reads them; or any table with a text, an answer and a subject in each row.
        columns: which columns of a table hold what, as ``"text=prompt,answer=object,subject=name,group=relation"``; and
            the language of the texts of any source but ``pocket``, as ``"language=zh"``.

    Raises:
        ClozeError: there is none.
        BertologyError: the source cannot be read.
    """
    _, language = split_language(columns)
    if (items := read_item_table(source, "facts", columns=columns)) is not None:
        rows = [item for item in items if isinstance(item, TableItem)]
        return _with_subject(source, [Fact(item.text, item.subject, item.good, item.group, language) for item in rows])
    if source == "pocket":
        from bertology.pocket import facts

        return [
            Fact(
                fact.templates[0].replace("[X]", fact.subject).replace("[Y]", "{mask}"),
                fact.subject,
                fact.object,
                fact.relation,
            )
            for fact in facts()
            if fact.n_stated
        ]
    found, _ = read_lama(source)
    return _with_subject(source, [Fact(one.text, one.subject, one.answer, one.group, language) for one in found])


def _with_subject(source: Any, facts: Sequence[Fact]) -> list[Fact]:
    made = [fact for fact in facts if fact.subject and fact.subject in fact.text]
    if not made:
        raise ClozeError(f"{source_name(source)}: no fact with a subject in its text")
    return made


def fact_pairs(
    source: Any = "pocket", *, columns: str | None = None, most: int | None = None, seed: int = 0
) -> list[PatchPair]:
    """Pairs of facts of one relation whose subjects have equally many words and whose objects differ.

    Places are those of :func:`agreement_pairs`; clusters are first subjects, values the relation with the object.

    Args:
        source: as of :func:`read_facts`.
        columns: likewise.
        most: number of pairs drawn at random; all when left out.
        seed: of the draw.

    Raises:
        ClozeError: there is no such pair.
        BertologyError: the source cannot be read.
    """
    waiting: dict[tuple[str, int], list[Fact]] = defaultdict(list)
    pairs: list[tuple[Fact, Fact]] = []
    for fact in read_facts(source, columns=columns):
        of_kind = waiting[fact.relation, len(fact.subject.split())]
        if of_kind and of_kind[-1].answer != fact.answer and of_kind[-1].subject != fact.subject:
            pairs.append((of_kind.pop(), fact))
        else:
            of_kind.append(fact)
    if not pairs:
        raise ClozeError(f"{source_name(source)}: no two facts of one relation with subjects of equally many words")
    if most is not None and most < len(pairs):
        chosen = np.sort(np.random.default_rng(seed).choice(len(pairs), most, replace=False))
        pairs = [pairs[number] for number in chosen.tolist()]
    language = pairs[0][0].language  # of one source
    texts = [_words([pair[side].text for pair in pairs], language) for side in (0, 1)]
    return [
        PatchPair(
            one.text,
            other.text,
            one.answer,
            other.answer,
            one.subject,
            named_places(words, of_other),
            (f"{one.relation}: {one.answer}", f"{other.relation}: {other.answer}"),
            language,
        )
        for (one, other), words, of_other in zip(pairs, *texts, strict=True)
    ]


def subject_pairs(facts: Sequence[Fact]) -> list[PatchPair | None]:
    """Each fact with itself, words of its subject called ``subject``; None where the subject is part of a word."""
    made: list[PatchPair | None] = []
    language = next((fact.language for fact in facts), None)
    texts, subjects = _words([one.text for one in facts], language), _words([one.subject for one in facts], language)
    for fact, words, subject in zip(facts, texts, subjects, strict=True):
        starts = [start for start in range(len(words)) if words[start : start + len(subject)] == subject]
        if not starts or _MASK not in words:
            made.append(None)
            continue
        of_subject = range(starts[0], starts[0] + len(subject))
        changed = tuple("" if number in of_subject else word for number, word in enumerate(words))
        pair = PatchPair(fact.text, fact.text, fact.answer, fact.answer, fact.subject, language=fact.language)
        made.append(replace(pair, places=named_places(words, changed)))
    return made


def _words(texts: Sequence[str], language: str | None) -> list[tuple[str, ...]]:
    written = [Prompt(text).written(_MASK) for text in texts]
    return [tuple(one.words) for one in as_sentences(written, language=language)]
