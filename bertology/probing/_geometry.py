"""What probes of geometry ask: statistics of the vectors of a text, with nothing fitted to labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from numpy import int64
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.probing._contract import Probe

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors


class GeometryProbe(Probe):
    """A question about the vectors of a text themselves, by layer.

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    """

    @property
    @abstractmethod
    def compares_layers(self) -> bool:
        """Whether the statistics of a layer depend on which others are read."""

    @abstractmethod
    def words(self, sentences: Sentences) -> NDArray[int64]:
        """``[word]`` numbers of the words whose vectors are read, ascending; a sample where the text is large.

        Raises:
            CorpusError: the text lacks what is asked about.
        """

    @abstractmethod
    def statistics(self, vectors: LayerVectors, sentences: Sentences) -> Iterator[LayerSums]:
        """The statistics of each layer; those of one name and group are in as many layers as they are defined for.

        Args:
            vectors: of :meth:`words`, without those that the model cannot read.
            sentences: the text.

        Raises:
            CorpusError: the text is too small.
            ModelError: vectors are zero, constant or not finite.
        """
