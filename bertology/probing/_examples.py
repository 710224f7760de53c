"""What a probe asks about: spans of words with labels, and no tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import IGNORED, Sentences, Target
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
        n_values, codes = len(self.values), self.codes
        if self.is_multi_label:
            if codes.dtype != np.bool_ or codes.shape[1] != n_values:
                expected = f"of items with several labels they should be truth values [item, {n_values}]"
                raise ValueError(f"codes of shape {list(codes.shape)} and type {codes.dtype}; {expected}")
        elif len(codes) and not 0 <= codes.min() <= codes.max() < n_values:
            raise ValueError(f"codes from {codes.min()} to {codes.max()} for {n_values} values")

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

    def subset(self, keep: NDArray[np.bool_], *, reason: str) -> Self:
        """The items to ``keep``; the others are counted as skipped for ``reason``."""
        n = int((~keep).sum())
        skipped = {**self.skipped, reason: self.skipped.get(reason, 0) + n} if n else self.skipped
        arrays = {name: getattr(self, name)[keep] for name in ("spans", "codes", "clusters")}
        return replace(self, **arrays, skipped=skipped)

    def without_ignored(self) -> Self:
        """The items with labels that are none of :data:`bertology.corpora.IGNORED`; the others are counted."""
        ignored = [code for code, value in enumerate(self.values) if value in IGNORED]
        if not ignored:
            return self
        is_ignored = np.isin(np.arange(len(self.values)), ignored)
        has_ignored = (self.codes & is_ignored).any(axis=1) if self.is_multi_label else is_ignored[self.codes]
        return self.subset(~np.asarray(has_ignored, dtype=np.bool_), reason="label −100, which losses ignore")


def word_examples(
    sentences: Sentences, labels: Sequence[str | None] | NDArray[np.integer[Any]], values: tuple[str, ...] | None = None
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
        labels, values = coded(_texts(list(labels)))
    codes = np.asarray(labels, dtype=np.int64)
    words = np.flatnonzero(codes >= 0)
    spans = np.stack([words, words + 1], axis=1)[:, None, :]
    return Examples(spans, codes[words], values, sentences.sentence_of_word[words].astype(np.int64))


def sentence_examples(sentences: Sentences, labels: Sequence[str | None]) -> Examples:
    """One item for each sentence that has a label: all of its words.

    Args:
        sentences: the split.
        labels: ``[sentence]`` labels, ``None`` for sentences not asked about.

    Raises:
        CorpusError: there is not one label for each sentence, or one is no text.
    """
    if len(labels) != len(sentences):
        counts = f"{len(labels):,} labels for {len(sentences):,} sentences"
        raise CorpusError(f"{counts}: give one for each, None for sentences that are not asked about")
    codes, values = coded(_texts(list(labels)))
    places = np.flatnonzero((codes >= 0) & (np.diff(sentences.starts) > 0))
    spans = np.stack([sentences.starts[places], sentences.starts[places + 1]], axis=1)[:, None, :]
    n_empty = int((codes >= 0).sum()) - len(places)
    skipped = {"sentence without words": n_empty} if n_empty else {}
    return Examples(spans.astype(np.int64), codes[places].astype(np.int64), values, places, skipped)


def _texts(labels: list[Any]) -> list[str | None]:
    other = next((label for label in labels if not isinstance(label, str | None)), None)
    if other is not None:
        raise CorpusError(f"label {other!r} is no text: give str, or None for what is not asked about")
    return labels


def layer_examples(sentences: Sentences, layer: str) -> Examples:
    """One item for each word, labelled by an annotation layer; words without a label are counted as skipped.

    Raises:
        CorpusError: no word of the split has such a label; says which layers there are.
    """
    if layer not in sentences.layers or not sentences.layers[layer].values:
        layers = listed(sorted(sentences.layers))
        raise CorpusError(f"no word has a label in layer {quoted(layer)}: the annotation layers are {layers}")
    examples = word_examples(sentences, sentences.layers[layer].codes, sentences.layers[layer].values)
    n_without = sentences.n_words - len(examples)
    return replace(examples, skipped={f"no {layer} label": n_without} if n_without else {})


def mapped_examples(sentences: Sentences, layer: str, mapping: Mapping[str, str | None]) -> Examples:
    """One item for each word whose value in ``layer`` maps to a label; other words are not asked about."""
    annotation = sentences.layers[layer]
    codes, labels = coded([mapping.get(value) for value in annotation.values])
    # A code of −1 (no value) reads the last place of the table, which is −1.
    return word_examples(sentences, np.append(codes, -1)[annotation.codes], labels)


def coded(labels: Sequence[str | None]) -> tuple[Integers, tuple[str, ...]]:
    """The place of each label among the distinct ones, −1 for None; and the distinct ones, in order."""
    code_of = {label: code for code, label in enumerate(dict.fromkeys(label for label in labels if label is not None))}
    codes = np.array([-1 if label is None else code_of[label] for label in labels], dtype=np.int64)
    return codes, tuple(code_of)


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
    codes, values = coded(labels)
    words = np.stack([first, second], axis=1).astype(np.int64)
    spans = np.stack([words, words + 1], axis=2)
    clusters = sentences.sentence_of_word[first].astype(np.int64)
    return Examples(spans, codes, values, clusters, dict(skipped or {}))


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
    numbered = [(number, target) for number, targets in sentences.targets(layer) for target in targets]
    if not numbered:
        layers = listed(sentences.target_layers)
        raise CorpusError(f"no span has a label in layer {quoted(layer)}: the layers of spans are {layers}")
    forms = {(isinstance(target.label, tuple), target.span2 is not None) for _, target in numbered}
    if len(forms) > 1:
        problem = "mixes one label with several, or one span with two"
        raise CorpusError(f"layer {quoted(layer)} {problem}: give one kind of target")
    several, pairs = forms.pop()
    if spans is not None and pairs != (spans == 2):
        mistakes = {1: "two spans a target where one is", 2: "one span a target where two are"}
        remedy = {1: "span1 alone", 2: "span1 and span2"}[spans]
        raise CorpusError(f"layer {quoted(layer)} has {mistakes[spans]} asked about: give targets with {remedy}")
    renamed = [(number, target, _renamed(target, label)) for number, target in numbered]
    kept = [(number, target, labels) for number, target, labels in renamed if labels is not None]
    starts, clusters = sentences.starts, np.array([number for number, _, _ in kept], dtype=np.int64)
    inside = [[target.span1] if target.span2 is None else [target.span1, target.span2] for _, target, _ in kept]
    places = np.array(inside, dtype=np.int64).reshape(-1, 1 + pairs, 2) + starts[clusters][:, None, None]
    code_of = {name: code for code, name in enumerate(dict.fromkeys(name for _, _, names in kept for name in names))}
    if several:
        codes: Labels = np.zeros((len(kept), len(code_of)), dtype=np.bool_)
        for item, (_, _, names) in enumerate(kept):
            codes[item, [code_of[name] for name in names]] = True
    else:
        codes = np.array([code_of[name] for _, _, (name,) in kept], dtype=np.int64)
    n_left = len(numbered) - len(kept)
    return Examples(places, codes, tuple(code_of), clusters, {"label not asked about": n_left} if n_left else {})


def _renamed(target: Target, label: Callable[[str], str | None]) -> tuple[str, ...] | None:
    """A target's labels as they are to be called; None where the target is left out."""
    if isinstance(target.label, tuple):
        return tuple(dict.fromkeys(name for name in map(label, target.label) if name is not None))
    name = label(target.label)
    return None if name is None else (name,)
