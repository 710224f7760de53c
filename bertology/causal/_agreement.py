"""Pairs of texts whose subjects differ in number alone, made of agreement items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bertology.causal._pairs import PatchPair
from bertology.cloze import Prompt
from bertology.corpora import as_sentences
from bertology.corpora.prompts import AgreementPair, read_agreement, source_name
from bertology.errors import ClozeError

_MASK = "[MASK]"
_LONGEST_ENDING = 2


def agreement_pairs(
    source: Any = "pocket",
    *,
    columns: str | None = None,
    structure: str | None = None,
    most: int | None = None,
    seed: int = 0,
) -> list[PatchPair]:
    """Pairs of texts that differ in the number of the subject, for :func:`patch`.

    Places are ``before`` the subject, ``subject``, ``between``, ``mask`` and ``after``. Clusters are those of the
    items: in Marvin & Linzen's set the frame of noun and verb, in the pocket world each sentence.

    Args:
        source: ``pocket``, or a file or folder of agreement items as the task ``agreement`` reads them. Of a set, two
            items of one construction make a pair where they differ in one noun alone, singular in one and plural in
            the other, and call for opposite forms. Its numbers are told apart by their ending, as English has them:
            the plural is the singular with one or two letters more.
        columns: which columns of a table of agreement items hold what, as ``"text=prompt,good=is,bad=are"``.
        structure: of items of this construction alone, as the task ``agreement:structure`` names it.
        most: number of pairs drawn at random; all when left out.
        seed: of the draw.

    Raises:
        ClozeError: there is no such pair.
        BertologyError: the source cannot be read.
    """
    is_pocket = isinstance(source, str) and source == "pocket" and columns is None
    made = list(_of_pocket(structure) if is_pocket else _of_items(source, structure, columns))
    if not made:
        of = "" if structure is None else f" of structure {structure}"
        raise ClozeError(f"{source_name(source)}: no two items{of} differ in the number of one noun alone")
    if most is not None and most < len(made):
        chosen = np.sort(np.random.default_rng(seed).choice(len(made), most, replace=False))
        made = [made[number] for number in chosen.tolist()]
    words = [tuple(one.words) for one in as_sentences([pair.text.replace("{mask}", _MASK) for pair in made])]
    others = [tuple(one.words) for one in as_sentences([pair.other.replace("{mask}", _MASK) for pair in made])]
    named = (named_places(one, other) for one, other in zip(words, others, strict=True))
    return [replace(pair, places=places) for pair, places in zip(made, named, strict=True)]


def _of_pocket(structure: str | None) -> Iterator[PatchPair]:
    from bertology.pocket import agreement_items

    for item in agreement_items():
        if item.other and structure in (None, item.structure):
            values = ("plural", "singular") if item.plural else ("singular", "plural")
            yield PatchPair(item.text, item.other, item.good, item.bad, values=values)


def _of_items(source: Any, structure: str | None, columns: str | None) -> Iterator[PatchPair]:
    """In the order of the source; each two items once, the text that comes first in it first."""
    waiting: dict[tuple[object, ...], list[AgreementPair]] = defaultdict(list)
    for item in read_agreement(source, columns=columns):
        if not isinstance(item, AgreementPair) or structure not in (None, item.structure):
            continue
        words = Prompt(item.text).written(_MASK).split()
        mask = next(number for number, word in enumerate(words) if _MASK in word)
        forms = tuple(sorted((item.good, item.bad)))
        for place in range(mask):
            key = (item.structure, forms, place, *words[:place], "", *words[place + 1 :])
            for earlier in waiting[key]:
                before = Prompt(earlier.text).written(_MASK).split()[place]
                if earlier.good == item.bad and _are_numbers_of_one_noun(before, words[place]):
                    values = ("singular", "plural") if len(before) < len(words[place]) else ("plural", "singular")
                    yield PatchPair(earlier.text, item.text, earlier.good, item.good, earlier.frame, values=values)
            waiting[key].append(item)


def _are_numbers_of_one_noun(one: str, other: str) -> bool:
    singular, plural = sorted((one, other), key=len)
    return plural.startswith(singular) and plural.endswith("s") and 0 < len(plural) - len(singular) <= _LONGEST_ENDING


def named_places(words: Sequence[str], others: Sequence[str], changed: str = "subject") -> tuple[str, ...]:
    """``[word]`` names; none where the texts have not as many words, which is found when they are patched."""
    if len(words) != len(others) or _MASK not in words:
        return ()
    differ = [number for number, (a, b) in enumerate(zip(words, others, strict=True)) if a != b]
    if not differ:
        return ()
    mask = words.index(_MASK)
    named = dict.fromkeys(differ, changed) | {mask: "mask"}
    first, last = sorted((differ[0], mask))
    rest = ("before" if n < first else "between" if n < last else "after" for n in range(len(words)))
    return tuple(named.get(number, name) for number, name in enumerate(rest))
