"""What a probe asks about: spans of words with labels, and no tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences, Target
from bertology.errors import CorpusError, listed, quoted

Integers = NDArray[np.int64]
Labels = NDArray[np.int64] | NDArray[np.bool_]
"""``[item]`` one code each, or ``[item, value]`` whether an item has each of the labels."""


@dataclass(frozen=True)
class Examples:
    """Items of one split: where they are, what they are labelled, and which sentence each stands in."""

    spans: Integers
    """``[item, span, 2]`` words of each span, numbered through the split, end exclusive."""
    codes: Labels
    """``[item]`` place of each label in ``values``; where an item may have any number of labels ``[item, value]``,
    whether it has each."""
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
        if self.is_multi_label:
            if self.codes.dtype != np.bool_ or self.codes.shape[1] != len(self.values):
                raise ValueError(
                    f"codes of shape {list(self.codes.shape)} and type {self.codes.dtype}; "
                    f"of items with several labels they should be truth values [item, {len(self.values)}]"
                )
        elif len(self.codes) and not 0 <= self.codes.min() <= self.codes.max() < len(self.values):
            raise ValueError(f"codes from {self.codes.min()} to {self.codes.max()} for {len(self.values)} values")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_spans(self) -> int:
        """How many spans an item has."""
        return int(self.spans.shape[1])

    @property
    def is_multi_label(self) -> bool:
        """Whether an item may have any number of labels."""
        return self.codes.ndim == 2

    @property
    def are_words(self) -> bool:
        """Whether every item is one word."""
        return self.n_spans == 1 and bool((self.spans[:, 0, 1] == self.spans[:, 0, 0] + 1).all())

    @property
    def words(self) -> Integers:
        """``[item]`` the word of each item.

        Raises:
            ValueError: an item is more than one word.
        """
        if not self.are_words:
            raise ValueError("an item is more than one word, which no readout of single words can take")
        return self.spans[:, 0, 0]

    def subset(self, keep: NDArray[np.bool_], *, reason: str) -> Examples:
        """The items to ``keep``; the others are counted as skipped for ``reason``."""
        n_left = int((~keep).sum())
        skipped = {**self.skipped, **({reason: n_left} if n_left else {})}
        return replace(
            self, spans=self.spans[keep], codes=self.codes[keep], clusters=self.clusters[keep], skipped=skipped
        )


def word_examples(
    sentences: Sentences, labels: Sequence[str | None] | NDArray[np.int32], values: tuple[str, ...] | None = None
) -> Examples:
    """One item for each word that has a label.

    Args:
        sentences: the split.
        labels: ``[word]`` labels, ``None`` for words not asked about; or codes into ``values``, −1 for none.
        values: the labels' names, where ``labels`` are codes.

    Raises:
        CorpusError: there is not one label for each word, or one is no text.
    """
    if len(labels) != sentences.n_words:
        counts = f"{len(labels):,} labels for {sentences.n_words:,} words"
        raise CorpusError(f"{counts}: give one for each word, None for words that are not asked about")
    if values is None:
        other = next((label for label in labels if not isinstance(label, str | None)), None)
        if other is not None:
            raise CorpusError(f"label {other!r} is no text: give str, or None for words that are not asked about")
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
        there = listed(sorted(sentences.layers))
        raise CorpusError(f"no word has a label in layer {quoted(layer)}: the annotation layers are {there}")
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


def pair_examples(
    sentences: Sentences,
    first: Integers,
    second: Integers,
    labels: Sequence[str],
    *,
    skipped: Mapping[str, int] | None = None,
) -> Examples:
    """One item for each pair of words, such as a dependent and its head.

    Args:
        sentences: the split.
        first: ``[item]`` words of the first span.
        second: ``[item]`` words of the second span, in the same sentences.
        labels: ``[item]``
        skipped: how many pairs were left out, by reason.
    """
    code_of: dict[str, int] = {}
    codes = np.array([code_of.setdefault(label, len(code_of)) for label in labels], dtype=np.int64)
    words = np.stack([first, second], axis=1).astype(np.int64)
    spans = np.stack([words, words + 1], axis=2)
    clusters = sentences.sentence_of_word[first].astype(np.int64)
    return Examples(spans, codes, tuple(code_of), clusters, dict(skipped or {}))


def target_examples(
    sentences: Sentences,
    layer: str,
    *,
    spans: Literal[1, 2] | None = None,
    label: Callable[[str], str | None] = lambda label: label,
) -> Examples:
    """One item for each labelled span, or pair of spans, of the span-level annotation ``layer``.

    Targets with a tuple of labels make items that may have any number of them.

    Args:
        sentences: the split.
        layer: its name, such as ``srl``.
        spans: how many a target must have; one or two, but all alike, when left out.
        label: what to call a label; None leaves the targets out that have it, or the label itself out of several.

    Raises:
        CorpusError: the split has no such annotation, mixes single labels with sets of them or one span with two, or
            its targets have another number of spans.
    """
    found = [(number, target) for number, targets in sentences.targets(layer) for target in targets]
    if not found:
        there = listed(sentences.target_layers)
        raise CorpusError(f"no span has a label in layer {quoted(layer)}: the layers of spans are {there}")
    forms = {(isinstance(target.label, tuple), target.span2 is not None) for _, target in found}
    if len(forms) > 1:
        raise CorpusError(
            f"layer {quoted(layer)} mixes one label with several, or one span with two: give one kind of target"
        )
    several, pairs = forms.pop()
    if spans is not None and pairs != (spans == 2):
        given, remedy = ("one span", "span1 and span2") if spans == 2 else ("two spans", "span1 alone")
        asked = "two are" if spans == 2 else "one is"
        raise CorpusError(
            f"layer {quoted(layer)} has {given} a target where {asked} asked about: give targets with {remedy}"
        )
    inside, names, clusters = [], [], []
    skipped: Counter[str] = Counter()
    for number, target in found:
        kept = _renamed(target, label)
        if kept is None:
            skipped["label not asked about"] += 1
            continue
        start = int(sentences.starts[number])
        both = (target.span1, target.span2) if target.span2 is not None else (target.span1,)
        inside.append([[start + first, start + last] for first, last in both])
        names.append(kept)
        clusters.append(number)
    places = np.array(inside, dtype=np.int64).reshape(-1, 1 + pairs, 2)
    values = tuple(dict.fromkeys(name for labels in names for name in labels))
    code_of = {value: code for code, value in enumerate(values)}
    if several:
        codes: Labels = np.zeros((len(names), len(values)), dtype=np.bool_)
        for item, labels in enumerate(names):
            codes[item, [code_of[name] for name in labels]] = True
    else:
        codes = np.array([code_of[labels[0]] for labels in names], dtype=np.int64)
    return Examples(places, codes, values, np.array(clusters, dtype=np.int64), dict(skipped))


def _renamed(target: Target, label: Callable[[str], str | None]) -> tuple[str, ...] | None:
    """A target's labels as they are to be called; None where the target is left out."""
    if isinstance(target.label, tuple):
        return tuple(dict.fromkeys(name for name in map(label, target.label) if name is not None))
    name = label(target.label)
    return None if name is None else (name,)
