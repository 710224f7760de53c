"""Questions about what differs between a model and its reference."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from numpy import float64
from numpy.typing import NDArray

from bertology import encoders
from bertology.activations.progress import Progress
from bertology.encoders.batching import OnLong
from bertology.geometry.probes import WordsProbe
from bertology.measures.sums import LayerSums
from bertology.probing import Probe, RepresentationProbe, Splits
from bertology.probing.items import SplitVectors
from bertology.probing.probes import SplitName, Subject


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
class VectorComparison(WordsProbe, ComparisonProbe):
    """A question about the vectors of the same words, those that can be read, in both models."""

    match: str = "depth"
    """``depth``: layers are matched as above; ``cka``: with the layer of the reference whose debiased linear CKA is
    largest on dev, or where there is no dev on test, among the layers that are read."""
    most_words: int = 10_000
    """Words of running text that are read at most: random sentences of a larger text."""

    @property
    def reads(self) -> tuple[SplitName, ...]:
        """The splits whose vectors are read: the test split; dev as well where layers are matched by content."""
        return ("test",) if self.match == "depth" else ("dev", "test")

    @abstractmethod
    def statistics(
        self, model: SplitVectors, reference: SplitVectors, sentences: Splits, *, layers: Sequence[tuple[int, int]]
    ) -> Iterator[LayerSums]:
        """The statistics of each layer of the model, or of those that they are defined for.

        Args:
            model: by split, vectors of the words of :meth:`items` that both models can read.
            reference: by split, vectors of the same words in the reference; depth and width may differ.
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

        Maps are ``[layer, head, word, column]`` at word level, see :func:`bertology.attention.paired_maps`.
        """


@dataclass(frozen=True, eq=False)
class EncoderPair:
    """Two models that are open at the same time and are to be left as they are found, and what they are compared on."""

    model: "encoders.Encoder"
    reference: "encoders.Encoder"
    sentences: Splits
    layers: Sequence[tuple[int, int]]
    """Every layer that is asked about with that of the reference; none where the columns of the task are ``model``."""
    on_long: OnLong  # treatment of sentences longer than a model takes
    progress: Progress


class EncoderComparison(ComparisonProbe):
    """A question put to the two models themselves: their weights, their heads, or what parts of one do in the other."""

    asked_by = "measure"

    @property
    @abstractmethod
    def columns(self) -> Literal["layers", "model", "both"]:
        """The unit that has a score: a layer of the model (0 the embeddings), the whole model, or either."""

    reads: tuple[SplitName, ...] = ("test",)
    """The splits that are read; none where only weights are."""

    @property
    def splits_needed(self) -> tuple[SplitName, ...]:
        """The splits that are read; test if none is read, since tables name it."""
        return self.reads or ("test",)

    @abstractmethod
    def measure(self, pair: EncoderPair) -> Iterator[LayerSums]:
        """The statistics of each layer of the model, and in layer ``None`` those of the whole model.

        What is measured by sentence has one cluster a sentence of test; what no sampling decides, such as a distance of
        weights, one cluster in all, and no interval.

        Raises:
            ModelError: the models cannot be compared so.
            CorpusError: there is nothing to measure on.
        """
