"""Questions put to attention heads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from numpy import int64
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.probing import GeometryCounts, Probe, RunningModel
from bertology.probing.probes import SplitName, Subject

if TYPE_CHECKING:
    from bertology.attention.arcs.questions import Arcs
    from bertology.attention.maps import MakeStatistic
    from bertology.encoders import ModelSource
    from bertology.families.model_corpus import ModelCorpus
    from bertology.measures.sums import HeadRatios


class ReadText(NamedTuple):
    """A text and how a model reads it."""

    sentences: Sentences
    windows: NDArray[int64] | None = None
    """``[word]`` the window that each word is read from, −1 for words that cannot be read; None where every sentence is
    read whole in one window."""


class HeadProbe(Probe):
    """A question put to attention heads. The answer is ratios of sums by cluster of sentences, of every head.

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    Heads of random weights are no replicates of one another, so that they have one initialisation.
    """

    subject: ClassVar[Subject] = "heads"

    family = "heads"
    most_draws = 1
    reads: tuple[SplitName, ...] = ("test",)


class AttentionProbe(HeadProbe):
    """A question put to attention maps: sums over the maps of each head, in one pass that keeps no map."""

    asked_by = "statistics"

    level: ClassVar[Literal["word", "piece"]] = "word"
    """Units of the maps."""

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
        """Statistics summed over the maps of a text; each finishes to a tuple of :class:`HeadRatios`.

        Raises:
            CorpusError: the text lacks the annotation that the task needs.
        """


class BestHeadProbe(AttentionProbe):
    """A question whose table names the best head: heads are chosen on dev and scored on test, next to baselines."""

    reads = ("dev", "test")

    @abstractmethod
    def baseline(self, name: str, text: ReadText, chosen_on: ReadText) -> Sequence[HeadRatios]:
        """The same ratios of one of :attr:`baselines`, without a head, of the whole text, named as those of heads are.

        What is chosen, such as which offset is best, is chosen on another text. Words that the model does not read are
        left out, as for heads.
        """


@dataclass(frozen=True)
class ArcProbe(BestHeadProbe):
    """A question about which words a head joins: the share of words that attend most to a correct answer."""

    farthest: int = 3
    """Offsets of the baseline, to either side."""
    self_competes = False

    @abstractmethod
    def arcs(self, sentences: Sentences, use: Literal["heads", "baseline", "choice"]) -> Sequence[Arcs]:
        """What is asked of a text: of heads, of baselines, or of that on which a baseline is chosen."""

    def statistics(self, sentences: Sentences) -> Sequence[MakeStatistic]:
        """Hits of each head."""
        # What computes needs torch, which listing the tasks should not wait for.
        from bertology.attention.arcs.heads import ArcHits

        how: dict[str, Any] = {"metric": self.scores[0].name, "self_competes": self.self_competes}
        return [partial(ArcHits, arcs=arcs, **how) for arcs in self.arcs(sentences, "heads")]

    def baseline(self, name: str, text: ReadText, chosen_on: ReadText) -> Sequence[HeadRatios]:
        """What place, form or rule answer: see :meth:`Arcs.baseline`."""
        own = [arcs.read_from(text.windows) for arcs in self.arcs(text.sentences, "baseline")]
        other = [arcs.read_from(chosen_on.windows) for arcs in self.arcs(chosen_on.sentences, "choice")]
        how: dict[str, Any] = {"metric": self.scores[0].name, "farthest": self.farthest}
        pairs = zip(own, other, strict=True)
        return [arcs.baseline(name, text.sentences, chosen_on=chosen, **how) for arcs, chosen in pairs]


class Measured(NamedTuple):
    """Ratios by the name of the split, counts of the items of test, and subject and text of notes under tables."""

    ratios: Mapping[str, Sequence[HeadRatios]]
    counts: GeometryCounts
    notes: Sequence[tuple[str, str]] = ()


class GateProbe(HeadProbe):
    """A question about what a model loses without a head, measured by closing gates.

    There is nothing that a model of random weights could lose.
    """

    asked_by = "measure"
    asks_random_weights = False

    @abstractmethod
    def measure(self, model: RunningModel) -> Sequence[HeadRatios] | Mapping[str, Sequence[HeadRatios]] | Measured:
        """Effects of heads on the model's predictions, in test and, if :attr:`reads` have it and it is not empty, dev.

        Returns:
            Ratios for each head and, if the probe measures them, for whole layers or for the model with a growing
            number of heads closed; by the name of the split where they are of several.

        Raises:
            ModelError: the model has no head or gate that the measurement needs.
            CorpusError: the sentences have no item to measure on.
        """

    def check(self, pair: ModelCorpus) -> None:
        """Raise what would keep the task from being measured, as far as it is known without the model's weights."""

    def model_identity(self, source: ModelSource) -> Mapping[str, str]:
        """The content of a model's files that decides the numbers and is not in its fingerprint."""
        return {}
