"""The items of probes of vectors: words, spans and sentences with labels, whole trees, and samples of a text."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bertology.activations.layers import LayerVectors
from bertology.corpora import IGNORED, Sentences, Target
from bertology.errors import CorpusError, listed, quoted
from bertology.measures.metrics import RELATION, UNSCORED
from bertology.measures.trees import check_tree, tree_depths

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
    """Numbers of items that could not be asked about, by reason."""

    def __post_init__(self) -> None:
        n_values, codes = len(self.values), self.codes
        if self.spans.ndim != 3 or self.spans.shape[2] != 2:
            raise ValueError(f"spans have shape {list(self.spans.shape)}; it should be [item, span, 2]")
        if len(lengths := {len(self.spans), len(codes), len(self.clusters)}) > 1:
            raise ValueError(f"spans, codes and clusters of different lengths {sorted(lengths)}; one of each an item")
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
        """Number of spans of an item."""
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
        """``[item]`` the word of each item; a ValueError where an item is more than one word."""
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
        is_ignored = np.isin(np.array(self.values, dtype=object), list(IGNORED))
        if not is_ignored.any():
            return self
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
        labels, values = coded(list(labels))
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
    (codes, values), starts = coded(list(labels)), sentences.starts
    places = np.flatnonzero((codes >= 0) & (np.diff(starts) > 0))
    spans = np.stack([starts[places], starts[places + 1]], axis=1)[:, None, :]
    n_empty = int((codes >= 0).sum()) - len(places)
    skipped = {"sentence without words": n_empty} if n_empty else {}
    return Examples(spans.astype(np.int64), codes[places].astype(np.int64), values, places, skipped)


def layer_examples(sentences: Sentences, layer: str) -> Examples:
    """One item for each word, labelled by an annotation layer; words without a label are counted as skipped."""
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
    if any(not isinstance(other := label, str | None) for label in labels):
        raise CorpusError(f"label {other!r} is no text: give str, or None for what is not asked about")
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
    kept: list[tuple[int, Target, tuple[str, ...]]] = []
    for number, target in numbered:
        names = tuple(dict.fromkeys(name for name in map(label, target.labels) if name is not None))
        if names or several:  # an item of several labels may have none that is asked about
            kept.append((number, target, names))
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


_SHORTEST = 3
# The tags that are punctuation, by layer: of the Penn treebank those that the authors leave out.
_PUNCTUATION = {
    "upos": frozenset({"PUNCT"}),
    "xpos": frozenset(("''", "``", ",", ".", ":", "-LRB-", "-RRB-", "(", ")", '"', "#", "$")),
}


@dataclass(frozen=True, kw_only=True)
class TreeExamples(Examples):
    """Items that are whole sentences, labelled by their trees written as text (see :mod:`bertology.measures`)."""

    asks: Literal["distances", "depths", "arcs"]
    """The quantity asked about: distances between words, depths of words; or both, with relations."""
    heads: Integers  # `[word]` heads of all words of the split, from 1 in their sentence, 0 for the root
    scored: NDArray[np.bool_]
    """``[word]`` which words count: all but punctuation, and of a model's text those that it can read."""
    read: NDArray[np.bool_]  # `[word]` which words have vectors: all, before a model is known

    def without_words(self, skipped: Mapping[int, str]) -> "TreeExamples":
        """The same trees of a text some of whose words have no vector.

        Such words, given with the reason, are treated as the authors treat punctuation when they score (Hewitt &
        Manning 2019, section 4.2): they are in no predicted tree, and edges or arcs to them are not asked about. The
        distances and depths of the other words are those of the whole tree. A sentence is left out where fewer than
        three of its words, or fewer than two that count, have vectors, as other sentences of that length are.
        """
        if not skipped:
            return self
        read = self.read.copy()
        read[list(skipped)] = False
        scored = self.scored & read
        first, last = self.spans[:, 0].T
        n_read, n_scored = (np.append(0, np.cumsum(which)) for which in (read, scored))
        long_enough = (n_read[last] - n_read[first] >= _SHORTEST) & (n_scored[last] - n_scored[first] >= 2)
        reasons = np.full(len(self), "", dtype=object)
        for item in np.flatnonzero(~long_enough).tolist():
            word = next(word for word in range(first[item], last[item]) if not read[word])
            # The reason of a word becomes that of its sentence.
            reasons[item] = f"sentence with too few words to read: {skipped[word].replace('its sentence', 'it')}"
        spans = self.spans[:, 0].tolist()
        counts = scored
        if self.asks == "arcs":
            words = np.concatenate([np.arange(start, end) for start, end in spans])
            heads = np.where(self.heads[words] > 0, np.repeat(first, last - first) + self.heads[words] - 1, words)
            counts = scored.copy()
            counts[words] &= read[heads]
        trees = [self.values[code].split(" ") for code in self.codes.tolist()]
        texts = [_written(marks, counts[start:end]) for marks, (start, end) in zip(trees, spans, strict=True)]
        values = {text: code for code, text in enumerate(dict.fromkeys((*self.values, *texts)))}
        codes = np.array([values[text] for text in texts], dtype=np.int64)
        kept = replace(self, codes=codes, values=tuple(values), scored=scored, read=read)
        for reason in dict.fromkeys(reasons[~long_enough].tolist()):
            keep = reasons != reason
            kept, reasons = kept.subset(keep, reason=reason), reasons[keep]
        return kept


def tree_examples(sentences: Sentences, asks: Literal["distances", "depths", "arcs"]) -> TreeExamples:
    """One item for each sentence of three words or more, its tree as gold has it, crossing arcs and all.

    Of shorter sentences there is no other tree to choose; they are counted as skipped, and so are sentences of several
    roots or none, and those whose heads form a circle. Words count that are not
    punctuation, by ``upos``, or else by the tags of the Penn treebank.

    Args:
        sentences: the split.
        asks: distances, depths, or arcs with their relations.

    Raises:
        CorpusError: the split has no heads, none make a tree, one is outside of its sentence, or (for arcs) a word has
            no relation.
    """
    if sentences.heads is None:
        layers = listed(sorted(sentences.layers))
        raise CorpusError(f"no word has a head: give a treebank; the annotation layers are {layers}")
    scored = scored_words(sentences)
    trees: list[str] = []
    kept: list[int] = []
    skipped: Counter[str] = Counter()
    no_tree: list[str] = []
    for number, (first, last) in enumerate(itertools.pairwise(sentences.starts.tolist())):
        heads, name = sentences.heads[first:last].tolist(), sentences.id(number) or number + 1
        if heads and heads[0] < 0:
            skipped["sentence without heads"] += 1
            continue
        try:
            check_tree(heads)
        except ValueError as error:
            no_tree.append(f"sentence {name}: {error}")
            if max(heads) > len(heads):
                raise CorpusError(no_tree[-1]) from error
            n_roots = heads.count(0)
            several = "with several roots" if n_roots else "without a root"
            skipped[f"sentence {'whose heads form a circle' if n_roots == 1 else several}"] += 1
            continue
        if len(heads) < _SHORTEST:
            skipped["sentence of one word" if len(heads) == 1 else "sentence of two words"] += 1
            continue
        if scored[first:last].sum() < 2:
            skipped["sentence of punctuation"] += 1
            continue
        marks = tree_depths(heads).tolist() if asks == "depths" else heads
        if asks == "arcs":
            layer = sentences.layers.get("deprel")
            labels = [None] * len(heads) if layer is None else layer.decoded(first, last)
            if None in labels:
                problem = f"word {labels.index(None) + 1} has no relation to its head"
                raise CorpusError(f"sentence {name}: {problem}: give a treebank with a deprel column")
            # Without what languages add to a relation after a colon.
            relations = (str(label).partition(RELATION)[0] for label in labels)
            marks = [f"{head}{RELATION}{relation}" for head, relation in zip(heads, relations, strict=True)]
        trees.append(_written(map(str, marks), scored[first:last]))
        kept.append(number)
    if no_tree and not kept:
        raise CorpusError(no_tree[0])
    places = np.array(kept, dtype=np.int64)
    codes, values = coded(trees)
    return TreeExamples(
        spans=np.stack([sentences.starts[places], sentences.starts[places + 1]], axis=1)[:, None, :].astype(np.int64),
        codes=codes,
        values=values,
        clusters=places,
        skipped=dict(skipped),
        asks=asks,
        heads=sentences.heads.astype(np.int64),
        scored=scored,
        read=np.ones(sentences.n_words, dtype=np.bool_),
    )


def _written(marks: Iterable[str], scored: NDArray[np.bool_]) -> str:
    """A tree as text, without the marks of words that do not count."""
    return " ".join(mark if counts else UNSCORED for mark, counts in zip(marks, scored.tolist(), strict=True))


def scored_words(sentences: Sentences) -> NDArray[np.bool_]:
    """``[word]`` which words are no punctuation, by ``upos`` or else by Penn tags; without either, all are taken."""
    for name, punctuation in _PUNCTUATION.items():
        if name in sentences.layers:
            layer = sentences.layers[name]
            return ~np.isin(layer.codes, [code for code, value in enumerate(layer.values) if value in punctuation])
    return np.ones(sentences.n_words, dtype=np.bool_)


Splits = Mapping[str, Sentences]  # sentences by split
SplitWords = Mapping[str, NDArray[np.int64]]  # `[word]` numbers of words by split, ascending
SplitVectors = Mapping[str, LayerVectors]  # vectors of words by split


@dataclass(frozen=True)
class GeometryCounts:
    """Counts of the items of a probe's statistics, and of those left out."""

    n_items: int
    n_train: int = 0
    n_classes: int = 0
    n_unseen_label: int = 0  # items that train has no example of; they are scored
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Items that are left out, by reason, but for words that the model cannot read."""
    unit: str = "items"  # display name of the items, in the plural: subwords


def sampled_words(sentences: Sentences, most: int) -> NDArray[np.int64]:
    """Numbers of the words of as many random sentences as have ``most`` words at most; of all of a smaller text."""
    lengths = np.diff(sentences.starts)
    if lengths.sum() <= most:
        return np.arange(sentences.n_words)
    order = np.random.default_rng(0).permutation(len(lengths))
    chosen = np.zeros(len(lengths), dtype=bool)
    chosen[order[: max(1, int(np.searchsorted(lengths[order].cumsum(), most, side="right")))]] = True
    return np.flatnonzero(np.repeat(chosen, lengths))


def sampled_splits(sentences: Splits, most_words: int) -> dict[str, Sentences]:
    """The sentences of :func:`sampled_words` by split, of dev and test half as many words as of train."""
    found = {}
    for split, text in sentences.items():
        words = sampled_words(text, most_words // (1 + (split != "train")))
        found[split] = Sentences(text[number] for number in np.unique(text.sentence_of_word[words]).tolist())
    return found


def is_punctuation(sentences: Sentences, words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """``[word]`` whether words are tagged as punctuation, or without tags have no letter and no digit."""
    if "upos" in sentences.layers:
        tags = sentences.layers["upos"]
        kinds = np.array([*(tag in ("PUNCT", "SYM") for tag in tags.values), False])
        return np.asarray(kinds[tags.codes[words]])
    forms = sentences.forms
    kinds = np.array([not any(letter.isalnum() for letter in form) for form in (*forms.values, "a")])
    return np.asarray(kinds[forms.codes[words]])
