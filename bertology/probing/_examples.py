"""What a probe asks about: spans of words with labels, and no tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.errors import CorpusError

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """Items of one split: where they are, what they are labelled, and which sentence each stands in."""

    spans: Integers
    """``[item, span, 2]`` words of each span, numbered through the split, end exclusive."""
    codes: Integers
    """``[item]`` place of each label in ``values``."""
    values: tuple[str, ...]
    """The labels there are in this split, in order of first appearance."""
    clusters: Integers
    """``[item]`` number of the sentence: what is resampled together."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """How many items could not be asked about, by reason."""

    def __post_init__(self) -> None:
        if self.spans.ndim != 3 or self.spans.shape[2] != 2:
            raise ValueError(f"spans have shape {list(self.spans.shape)}; it should be [item, span, 2]")
        lengths = {len(self.spans), len(self.codes), len(self.clusters)}
        if len(lengths) > 1:
            raise ValueError(f"spans, codes and clusters of different lengths {sorted(lengths)}; one of each an item")
        if len(self.codes) and not 0 <= self.codes.min() <= self.codes.max() < len(self.values):
            raise ValueError(f"codes from {self.codes.min()} to {self.codes.max()} for {len(self.values)} values")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def words(self) -> Integers:
        """``[item]`` the word of each item.

        Raises:
            ValueError: an item is more than one word.
        """
        if self.spans.shape[1] != 1 or not (self.spans[:, 0, 1] == self.spans[:, 0, 0] + 1).all():
            raise ValueError("an item is more than one word, which no readout of single words can take")
        return self.spans[:, 0, 0]

    def subset(self, keep: NDArray[np.bool_], *, reason: str) -> Examples:
        """The items to ``keep``; the others are counted as skipped for ``reason``."""
        n_left = int((~keep).sum())
        skipped = {**self.skipped, **({reason: n_left} if n_left else {})}
        return Examples(self.spans[keep], self.codes[keep], self.values, self.clusters[keep], skipped)


def word_examples(
    sentences: Sentences, labels: Sequence[str | None] | NDArray[np.int32], values: tuple[str, ...] | None = None
) -> Examples:
    """One item for each word that has a label.

    Args:
        sentences: the split.
        labels: ``[word]`` labels, ``None`` for words not asked about; or codes into ``values``, −1 for none.
        values: the labels' names, where ``labels`` are codes.
    """
    if values is None:
        code_of: dict[str, int] = {}
        labels = np.array([-1 if v is None else code_of.setdefault(v, len(code_of)) for v in labels], dtype=np.int32)
        values = tuple(code_of)
    codes = np.asarray(labels, dtype=np.int64)
    words = np.flatnonzero(codes >= 0)
    spans = np.stack([words, words + 1], axis=1)[:, None, :]
    return Examples(spans, codes[words], values, sentences.sentence_of_word[words].astype(np.int64))


def layer_examples(sentences: Sentences, layer: str) -> Examples:
    """One item for each word, labelled by an annotation layer; words without a label are counted as skipped.

    Raises:
        CorpusError: no word of the split has such a label; says which layers there are.
    """
    if layer not in sentences.layers or not sentences.layers[layer].values:
        there = ", ".join(sorted(sentences.layers)) or "none"
        raise CorpusError(f"no word has a label in layer {layer!r}: the annotation layers are {there}")
    found = sentences.layers[layer]
    examples = word_examples(sentences, found.codes, found.values)
    n_without = sentences.n_words - len(examples)
    skipped = {f"no {layer} label": n_without} if n_without else {}
    return Examples(examples.spans, examples.codes, examples.values, examples.clusters, skipped)


def mapped_examples(sentences: Sentences, layer: str, mapping: Mapping[str, str | None]) -> Examples:
    """One item for each word whose value in ``layer`` maps to a label; other words are not asked about."""
    found = sentences.layers[layer]
    code_of: dict[str, int] = {}
    table = np.full(len(found.values) + 1, -1, dtype=np.int32)
    for place, value in enumerate(found.values):
        label = mapping.get(value)
        if label is not None:
            table[place] = code_of.setdefault(label, len(code_of))
    # A code of −1 (no value) reads the last place of the table, which stays −1.
    return word_examples(sentences, table[found.codes], tuple(code_of))
