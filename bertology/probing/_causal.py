"""What probes of causality ask: what a model predicts once what it computes is changed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bertology.corpora import Sentences
from bertology.probing._contract import Probe
from bertology.probing._geometry import GeometryCounts, GeometrySplit

if TYPE_CHECKING:
    from bertology.encoders import Encoder
    from bertology.geometry import LayerSums


class CausalProbe(Probe):
    """A question put to a running model: what happens to its predictions when states of one layer are changed?

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    """

    @property
    @abstractmethod
    def reads(self) -> tuple[GeometrySplit, ...]:
        """The splits that are read; none where the probe has texts of its own."""

    @abstractmethod
    def sources(self) -> Mapping[str, str]:
        """Hashes of what is read besides the splits, such as pairs of texts, by name.

        Raises:
            BertologyError: it cannot be read.
        """

    @abstractmethod
    def counts(self, sentences: Mapping[str, Sentences]) -> GeometryCounts:
        """How many items are asked about.

        Raises:
            CorpusError: the text lacks what is asked about.
        """

    @abstractmethod
    def measure(
        self, encoder: Encoder, sentences: Mapping[str, Sentences], *, layers: Sequence[int], on_long: str
    ) -> Iterator[LayerSums]:
        """The statistics of each layer.

        Args:
            encoder: the model, to be left as it is found.
            sentences: by split.
            layers: those that are asked about; a statistic may be of fewer.
            on_long: what to do with sentences longer than the model takes.

        Raises:
            ModelError: the model has no masked-LM head, or not what is changed.
            FitError: there is nothing to change.
        """
