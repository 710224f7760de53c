"""Sentences without splits, divided into train, dev and test or into folds: documents and texts stay whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

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


def keys_of(sentences: Sequence[Sentence], *, fewest: int, by: str | None = None) -> tuple[list[str], str]:
    """``[sentence]`` what keeps sentences together: their group, else their text; and what that is.

    Documents count where there are at least ``fewest``; groups of a kind that is named by ``by`` always do.
    """
    n_groups = len({sentence.group for sentence in sentences} - {""})
    if n_groups < fewest and by is None:
        few = f" ({n_groups} document{'s' * (n_groups > 1)}: too few to keep whole)" if n_groups else ""
        return [sentence.text for sentence in sentences], f"text{few}"
    return [sentence.group or sentence.text for sentence in sentences], by or "document"


def in_hash_order(keys: Mapping[str, int]) -> list[str]:
    """Keys in an order that depends on nothing but themselves."""
    return sorted(keys, key=lambda key: (digest([key.encode("utf-8", "surrogatepass")]), key))


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
