"""Probes whose answers are statistics: of vectors, of attention heads, and of a model next to its reference."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy import float64, int64
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.encoders import Encoding
from bertology.probing._probes import ControlNote, Probe, RepresentationProbe, SplitName, Subject

if TYPE_CHECKING:
    from bertology.activations import Progress
    from bertology.attention import HeadRatios, MakeStatistic
    from bertology.encoders import Encoder
    from bertology.geometry import LayerSums, LayerVectors


Splits = Mapping[str, Sentences]
"""Sentences by split."""
SplitWords = Mapping[str, NDArray[np.int64]]
"""``[word]`` numbers of words by split, ascending."""
SplitVectors = Mapping[str, "LayerVectors"]
"""Vectors of words by split."""
GeometryBaseline = Literal["majority", "word_majority", "lexical", "first", "last", "diagonal"]
"""The most frequent answer, of all or of the same word; the same statistics of words, without any vector; the first or
last word of the kind that is asked for; the word at the same relative place of a translation."""


@dataclass(frozen=True)
class GeometryCounts:
    """Counts of the items of a probe's statistics, and of those left out."""

    n_items: int
    n_train: int = 0
    n_classes: int = 0
    n_unseen_label: int = 0
    """Items that train has no example of; they are scored."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Items that are left out, by reason, but for words that the model cannot read."""
    unit: str = "items"
    """Display name of the items, in the plural: ``subwords``."""


def sampled_words(sentences: Sentences, most: int) -> NDArray[np.int64]:
    """Numbers of the words of as many random sentences as have ``most`` words at most; of all of a smaller text."""
    lengths = np.diff(sentences.starts)
    if lengths.sum() <= most:
        return np.arange(sentences.n_words)
    order = np.random.default_rng(0).permutation(len(lengths))
    chosen = np.zeros(len(lengths), dtype=bool)
    chosen[order[: max(1, int(np.searchsorted(lengths[order].cumsum(), most, side="right")))]] = True
    return np.flatnonzero(np.repeat(chosen, lengths))


def sampled_sentences(sentences: Sentences, most_words: int) -> Sentences:
    """The sentences of :func:`sampled_words`, in their order."""
    words = sampled_words(sentences, most_words)
    return Sentences(sentences[number] for number in np.unique(sentences.sentence_of_word[words]).tolist())


def is_punctuation(sentences: Sentences, words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """``[word]`` whether words are tagged as punctuation, or without tags have no letter and no digit."""
    if "upos" in sentences.layers:
        tags = sentences.layers["upos"]
        kinds = np.array([*(tag in ("PUNCT", "SYM") for tag in tags.values), False])
        return np.asarray(kinds[tags.codes[words]])
    forms = sentences.forms
    kinds = np.array([not any(letter.isalnum() for letter in form) for form in (*forms.values, "a")])
    return np.asarray(kinds[forms.codes[words]])


class GeometryProbe(Probe):
    """A question about the vectors of a text themselves, by layer.

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    """

    subject: ClassVar[Subject] = "vectors"

    asked_by = "words"
    family = "geometry"

    pools: ClassVar[tuple[str, ...]] = ("mean",)
    """Vectors of sentences that can be asked for. Where ``cls`` is, :meth:`statistics` gets the vectors of the special
    token before each sentence as well, under ``cls:train``, ``cls:test`` …; their words are numbers of sentences."""

    @property
    def compares_layers(self) -> bool:
        """Whether the statistics of a layer depend on which others are read."""
        return False

    @property
    def reads(self) -> tuple[SplitName, ...]:
        """The splits whose vectors are read."""
        return ("test",)

    @property
    def fits(self) -> str:
        """Description of what is fitted to items of train, or to parts of test; empty where nothing is fitted."""
        return ""

    @property
    def controls(self) -> tuple[ControlNote, ...]:
        """A note on what the task itself fits, if anything; :meth:`baseline` computes each of :attr:`baselines`."""
        return (ControlNote("none", "readout", self.fits),) if self.fits else ()

    most_words: int = 50_000
    """Words of running text that are read at most: random sentences of a larger text. A field makes it a setting."""

    def words(self, sentences: Splits) -> SplitWords:
        """All words of random sentences."""
        return {split: sampled_words(sentences[split], self.most_words) for split in self.reads}

    def counts(self, sentences: Splits, words: SplitWords) -> GeometryCounts:
        """The items of which all words are among ``words``: those of :meth:`words` that the model can read."""
        return GeometryCounts(len(words["test"]))

    @abstractmethod
    def statistics(self, vectors: SplitVectors, sentences: Splits) -> Iterator[LayerSums]:
        """The statistics of each layer; those of one name and group are in as many layers as they are defined for.

        Args:
            vectors: by split, of :meth:`words` without those that the model cannot read; see also :attr:`pools`.
            sentences: by split.

        Raises:
            CorpusError: the text is too small.
            ModelError: vectors are zero, constant or not finite.
        """

    def baseline(self, name: GeometryBaseline, sentences: Splits, words: SplitWords) -> Iterator[LayerSums]:
        """The same statistics of one of :attr:`baselines`, in layer ``None``; ``words`` as of :meth:`counts`."""
        raise NotImplementedError(f"{type(self).__name__} has no baseline {name}")


class EncodingProbe(GeometryProbe):
    """A question about what happens to the vectors of a text when it is put to the model in another way.

    :meth:`statistics` has the vectors of the same words of the test split in every encoding, by the names of
    :attr:`encodings`, besides those by split, which are of each sentence by itself.
    """

    @property
    @abstractmethod
    def encodings(self) -> Mapping[str, Encoding]:
        """The other encodings that are read, by name."""


Windows = NDArray[int64] | None
"""``[word]`` the window that a model reads each word of a text from, −1 for words that it cannot read; None if it reads
every sentence whole in one window."""
HeadBaseline = Literal["offset", "nearest", "head_match", "rule"]
"""Scores that need no head: always the word at one place from here, the nearest candidate, the nearest candidate with
the same word in it, or what the probe's own rules choose."""


class HeadProbe(Probe):
    """A question put to attention heads. The answer is ratios of sums by cluster of sentences, of every head.

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    Heads of random weights are no replicates of one another, so that they have one initialisation.
    """

    subject: ClassVar[Subject] = "heads"

    family = "heads"
    most_draws = 1

    @property
    def reads(self) -> tuple[SplitName, ...]:
        """Test, and dev where heads are chosen."""
        return ("dev", "test") if self.chooses else ("test",)

    @property
    def chooses(self) -> bool:
        """Whether a table names the best head: then dev is read as well, heads are chosen on it and scored on test."""
        return False


class AttentionProbe(HeadProbe):
    """A question put to attention maps: sums over the maps of each head, in one pass that keeps no map."""

    asked_by = "statistics"

    @property
    def level(self) -> Literal["word", "piece"]:
        """Units of the maps."""
        return "word"

    @property
    def pairs(self) -> bool:
        """Whether each sentence is read with the one after it, as a pair."""
        return False

    @property
    def norms(self) -> bool:
        """Whether ‖αf(x)‖ is looked at as well (Kobayashi et al. 2020), which not every family of models tells."""
        return False

    @abstractmethod
    def statistics(self, sentences: Sentences) -> Sequence[MakeStatistic]:
        """Statistics summed over the maps of a text; each finishes to a :class:`HeadRatios`, or a tuple of them.

        Raises:
            CorpusError: the text lacks what is asked about.
        """

    def baseline(
        self,
        name: HeadBaseline,
        *,
        chosen_on: Sentences,
        sentences: Sentences,
        chosen_windows: Windows = None,
        windows: Windows = None,
    ) -> Sequence[HeadRatios]:
        """The same ratios without a head, of the whole text, named as those of heads are.

        Words that the model does not read are left out, as for heads.

        Args:
            name: one of :attr:`baselines`.
            chosen_on: where it may be fitted, such as which offset is best.
            sentences: what it is scored on.
            chosen_windows: how the model reads ``chosen_on``.
            windows: how it reads ``sentences``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no baseline {name}")


class GateProbe(HeadProbe):
    """A question about what a model loses without a head, measured by closing gates.

    There is nothing that a model of random weights could lose.
    """

    asked_by = "measure"
    asks_random_weights = False

    @abstractmethod
    def measure(
        self, encoder: Encoder, sentences: Sentences, *, layers: Sequence[int], on_long: str, progress: Progress
    ) -> Sequence[HeadRatios]:
        """Effects of the heads of some layers on the model's predictions.

        Args:
            encoder: the model.
            sentences: what it reads.
            layers: from 1.
            on_long: what to do with sentences longer than the model takes.
            progress: shows how far it is.

        Returns:
            Ratios of heads; of whole layers, or of the whole model with more and more heads off, where these are asked
            for too.

        Raises:
            ModelError: the model lacks what it takes.
            CorpusError: there is nothing to measure on.
        """


LayerPair = tuple[int, int]
"""A layer of the model, and the layer of the reference that it is compared with."""


class ComparisonProbe(Probe):
    """A question about what differs between a model and its reference.

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    A layer is compared with the layer of the same number of a reference of equal depth, else with that of the same
    relative depth.
    """

    subject: ClassVar[Subject] = "models compared"

    family = "comparison"
    needs_reference = True
    asks_random_weights = False
    most_draws = 1


@dataclass(frozen=True)
class VectorComparison(ComparisonProbe):
    """A question about the vectors of the same words in both models."""

    asked_by = "words"

    match: str = "depth"
    """``depth``: layers are matched as above; ``cka``: with the layer of the reference whose debiased linear CKA is
    largest on dev, or where there is no dev on test, among the layers that are read."""
    most_words: int = 10_000
    """Words of running text that are read at most: random sentences of a larger text."""

    @property
    def compares_layers(self) -> bool:
        """Whether the statistics of a layer depend on which others are read."""
        return False

    @property
    def reads(self) -> tuple[SplitName, ...]:
        """The splits whose vectors are read: the test split; dev as well where layers are matched by content."""
        return ("test",) if self.match == "depth" else ("dev", "test")

    def words(self, sentences: Splits) -> SplitWords:
        """All words of random sentences."""
        return {split: sampled_words(text, self.most_words) for split, text in sentences.items()}

    def counts(self, sentences: Splits, words: SplitWords) -> GeometryCounts:
        """The items of which all words are among ``words``: those of :meth:`words` that both models can read."""
        return GeometryCounts(len(words["test"]))

    @abstractmethod
    def statistics(
        self,
        model: SplitVectors,
        reference: SplitVectors,
        sentences: Splits,
        *,
        layers: Sequence[LayerPair],
    ) -> Iterator[LayerSums]:
        """The statistics of each layer of the model, or of those that they are defined for.

        Args:
            model: by split, vectors of :meth:`words` without those that one of the models cannot read.
            reference: by split, vectors of the same words in the reference, which may differ in number of layers and in
                width.
            sentences: by split.
            layers: every layer of the model that is read, and the one of the reference that it is compared with.

        Raises:
            CorpusError: the text is too small.
            ModelError: vectors are zero, constant, not finite, or of other widths than the statistic takes.
        """


class ReadoutComparison(ComparisonProbe):
    """A question that a readout fitted to the reference's vectors answers from those of the model.

    Four scores on the same items: of the readout fitted to the reference and put to the model, the same on vectors that
    are given mean and spread of the reference's in each dimension, of one fitted to the model, and of the first on the
    reference itself. What the first loses is split into scale, form and content by their differences.
    """

    asked_by = "of"
    family = "frozen"

    @property
    @abstractmethod
    def of(self) -> RepresentationProbe:
        """The task whose labels are predicted, with its readout and metrics."""


class AttentionComparison(ComparisonProbe):
    """A question about the attention maps of the same sentences in both models, head by head."""

    asked_by = "of_sentence"
    reads = ("test",)

    @abstractmethod
    def of_sentence(
        self, model: NDArray[float64], reference: NDArray[float64]
    ) -> Mapping[str, tuple[NDArray[float64], float]]:
        """Contributions of a sentence, by metric, to the numerator ``[layer, head]`` and the denominator of its ratio.

        Args:
            model: ``[layer, head, word, column]`` word-level maps, see :func:`bertology.attention.paired_maps`.
            reference: the same of the layers that they are compared with.
        """


class EncoderComparison(ComparisonProbe):
    """A question put to the two models themselves: to their weights, their heads, or to what parts of one do in the
    other."""

    asked_by = "check"

    @property
    @abstractmethod
    def columns(self) -> Literal["layers", "model", "both"]:
        """The unit that has a score: a layer of the model (0 the embeddings), the whole model, or either."""

    @property
    def reads(self) -> tuple[SplitName, ...]:
        """The splits that are read; none where only weights are."""
        return ("test",)

    @property
    def splits_needed(self) -> tuple[SplitName, ...]:
        """Those that are read; test where none is, whose name the tables show."""
        return self.reads or ("test",)

    def check(self, sentences: Splits) -> None:
        """Raise :class:`~bertology.errors.CorpusError` where the text lacks what is asked about."""

    @abstractmethod
    def measure(
        self,
        model: Encoder,
        reference: Encoder,
        sentences: Splits,
        *,
        layers: Sequence[LayerPair],
        on_long: str,
        progress: Progress,
    ) -> Iterator[LayerSums]:
        """The statistics of each layer of the model, and in layer ``None`` those of the whole model.

        What is measured by sentence has one cluster a sentence of test; what no sampling decides, such as a distance of
        weights, one cluster in all, and no interval.

        Args:
            model: the model.
            reference: its reference, which is open at the same time. Both are to be left as they are found.
            sentences: by split.
            layers: every layer that is asked about, and the one of the reference that it is compared with; none where
                :attr:`columns` is ``model``.
            on_long: what to do with sentences longer than a model takes.
            progress: shows how far it is.

        Raises:
            ModelError: the models cannot be compared so.
            CorpusError: there is nothing to measure on.
        """
