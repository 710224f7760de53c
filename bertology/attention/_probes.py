"""Questions put to attention heads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from numpy import int64
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.probing import Probe, SplitName, Subject

if TYPE_CHECKING:
    from bertology.activations.progress import Progress
    from bertology.attention._pass import MakeStatistic
    from bertology.encoders import Encoder
    from bertology.measures.sums import HeadRatios


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
