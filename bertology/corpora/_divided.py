"""Sentences without splits, divided into train, dev and test or into folds: documents and texts stay whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bertology._files import digest
from bertology.corpora._sentence import Sentence
from bertology.errors import CorpusError

SPLITS = ("train", "dev", "test")
_FEWEST_SENTENCES, _FEWEST_KEYS = 10, 3


def divided(
    name: str, sentences: Sequence[Sentence], *, by: str | None = None
) -> tuple[dict[str, list[Sentence]], str]:
    """Train, dev and test of sentences that have no splits, 8 : 1 : 1, and a note on how they were made.

    Which split a sentence is in is drawn by a hash of its group, or else of its text. It depends on these alone, not
    on the order of the sentences, and no group and no text is in two splits.

    Args:
        name: what the corpus is called.
        sentences: all of them.
        by: what their groups are; documents when left out, which are divided where there are fewer than three.

    Raises:
        CorpusError: there are too few sentences, or too few groups of a kind that is named.
    """
    keys, by = keys_of(sentences, fewest=_FEWEST_KEYS, by=by)
    split_of = _drawn_splits(name, Counter(keys), by=by)
    parts: dict[str, list[Sentence]] = {split: [] for split in SPLITS}
    for key, sentence in zip(keys, sentences, strict=True):
        parts[split_of[key]].append(sentence)
    counts = ", ".join(f"{split} {len(part):,}" for split, part in parts.items())
    return parts, f"made by a hash of {by}, 8 : 1 : 1 ({counts})"


def in_folds(
    name: str, sentences: Sequence[Sentence], n_folds: int, *, groups: str
) -> tuple[tuple[Mapping[str, NDArray[np.bool_]], ...], str]:
    """By fold and split the sentences that are in it, ``bool [sentence]``, and what the folds are made over.

    Each sentence is in test of one fold, which has none of its group in train and dev; where there are no groups, a
    text has this place. About a tenth of the others, whole groups of them too, are dev. Folds depend on the sentences
    alone, not on their order.

    Args:
        name: what the corpus is called.
        sentences: all of them.
        n_folds: how many folds.
        groups: what their groups are, in the plural.

    Raises:
        CorpusError: there are too few groups, or texts.
    """
    keys, by = keys_of(sentences, fewest=_FEWEST_KEYS)
    what, sizes = "sentences" if by.startswith("text") else groups, Counter(keys)
    # Of what is not tested in a fold, one part is to choose by and one to fit on.
    if len(sizes) < max(n_folds, 4 if n_folds == 2 else _FEWEST_KEYS):
        remedy = "give more" if len(sizes) < _FEWEST_KEYS or n_folds == 2 else f"ask for at most {len(sizes)} folds"
        raise CorpusError(f"{name}: {len(sizes)} {what} are too few for {n_folds} folds; {remedy}")
    filled, fold_of = [0] * n_folds, dict[str, int]()
    place = {key: number for number, key in enumerate(in_hash_order(sizes))}
    for key in sorted(sizes, key=lambda key: (-sizes[key], place[key])):
        fold_of[key] = min(range(n_folds), key=filled.__getitem__)
        filled[fold_of[key]] += sizes[key]
    folds = []
    for fold in range(n_folds):
        others = {key: size for key, size in sizes.items() if fold_of[key] != fold}
        chosen = _tenth(others, salt=f"fold {fold}")
        test, dev = (np.array([key in part for key in keys]) for part in (sizes.keys() - others.keys(), chosen))
        folds.append({"train": ~test & ~dev, "dev": dev, "test": test})
    return tuple(folds), what


def _tenth(sizes: Mapping[str, int], *, salt: str) -> set[str]:
    """Keys of about a tenth of the sentences, in an order drawn by a hash: one at least, and not all."""
    ordered, n = in_hash_order(sizes, salt=salt), sum(sizes.values())
    chosen: set[str] = set()
    while sum(sizes[key] for key in chosen) < n / 10 and len(ordered) > 1:
        chosen.add(ordered.pop())
    return chosen


def keys_of(sentences: Sequence[Sentence], *, fewest: int, by: str | None = None) -> tuple[list[str], str]:
    """``[sentence]`` what keeps sentences together: their group, else their text; and what that is.

    Documents count where there are at least ``fewest``; groups of a kind that is named by ``by`` always do.
    """
    n_groups = len({sentence.group for sentence in sentences} - {""})
    if n_groups < fewest and by is None:
        few = f" ({n_groups} document{'s' * (n_groups > 1)}: too few to keep whole)" if n_groups else ""
        return [sentence.text for sentence in sentences], f"text{few}"
    return [sentence.group or sentence.text for sentence in sentences], by or "document"


def in_hash_order(keys: Iterable[str], *, salt: str = "") -> list[str]:
    """Keys in an order that depends on nothing but themselves."""
    return sorted(keys, key=lambda key: (digest([(salt + key).encode("utf-8", "surrogatepass")]), key))


def _drawn_splits(name: str, sizes: Mapping[str, int], *, by: str) -> dict[str, str]:
    """The split of each key, given the number of sentences of each."""
    n = sum(sizes.values())
    for number, least, what in ((n, _FEWEST_SENTENCES, "sentences"), (len(sizes), _FEWEST_KEYS, f"values of {by}")):
        if number < least:
            remedy = f"give {least} or more, or splits of your own"
            raise CorpusError(f"{name}: {number} {what}, of which train, dev and test are made; {remedy}")
    ordered = in_hash_order(sizes)
    split_of: dict[str, str] = {}
    for split, kept in (("test", 2), ("dev", 1)):
        size = 0
        while size < n / 10 and len(ordered) > kept:
            key = ordered.pop()
            split_of[key] = split
            size += sizes[key]
    return split_of | dict.fromkeys(ordered, "train")
