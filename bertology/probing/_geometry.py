"""What probes of geometry ask: statistics of the vectors of a text; what is fitted, the probe itself fits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from numpy import int64
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.encoders import Encoding
from bertology.probing._contract import ControlNote, Probe

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors

GeometrySplit = Literal["train", "dev", "test"]
GeometryBaseline = Literal["majority", "word_majority", "lexical", "first", "last", "diagonal"]
"""The most frequent answer, of all or of the same word; the same statistics of words, without any vector; the first or
last word of the kind that is asked for; the word at the same relative place of a translation."""


@dataclass(frozen=True)
class GeometryCounts:
    """How many items the statistics of a probe are about, and what is left out of them."""

    n_items: int
    n_train: int = 0
    n_classes: int = 0
    n_unseen_label: int = 0
    """Items that train has no example of; they are scored."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Items that are left out, by reason, but for words that the model cannot read."""
    unit: str = "items"
    """What the items are, in the plural, as tables call them: ``subwords``."""


class GeometryProbe(Probe):
    """A question about the vectors of a text themselves, by layer.

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    """

    pools: ClassVar[tuple[str, ...]] = ("mean",)
    """Vectors of sentences that can be asked for. Where ``cls`` is, :meth:`statistics` gets the vectors of the special
    token before each sentence as well, under ``cls:train``, ``cls:test`` …; their words are numbers of sentences."""

    @property
    @abstractmethod
    def compares_layers(self) -> bool:
        """Whether the statistics of a layer depend on which others are read."""

    @property
    @abstractmethod
    def reads(self) -> tuple[GeometrySplit, ...]:
        """The splits whose vectors are read."""

    @property
    def fits(self) -> str:
        """What the task fits to items of train, or to parts of test, in words; empty where nothing is fitted."""
        return ""

    @property
    def baselines(self) -> tuple[ControlNote, ...]:
        """What the layers stand beside, and what tables say of it; :meth:`baseline` computes each."""
        return ()

    @abstractmethod
    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[int64]]:
        """By split ``[word]`` numbers of the words whose vectors are read, ascending; a sample of a large text.

        Raises:
            CorpusError: the text lacks what is asked about.
        """

    @abstractmethod
    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[int64]]) -> GeometryCounts:
        """The items of which all words are among ``words``: those of :meth:`words` that the model can read."""

    @abstractmethod
    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """The statistics of each layer; those of one name and group are in as many layers as they are defined for.

        Args:
            vectors: by split, of :meth:`words` without those that the model cannot read; see also :attr:`pools`.
            sentences: by split.

        Raises:
            CorpusError: the text is too small.
            ModelError: vectors are zero, constant or not finite.
        """

    def baseline(
        self, name: GeometryBaseline, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[int64]]
    ) -> Iterator[LayerSums]:
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
        """By name the other encodings that are read."""
