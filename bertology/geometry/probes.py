"""Questions about the vectors of a text themselves."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bertology.encoders.batching import Encoding
from bertology.measures.sums import LayerSums
from bertology.probing import ControlNote, GeometryCounts, Probe, Splits
from bertology.probing.items import Integers, SplitVectors, SplitWords, sampled_words
from bertology.probing.probes import SplitName, Subject


@dataclass(frozen=True)
class TextItems:
    """The items of a question in a text."""

    words: SplitWords
    """Numbers of all their words, by split."""
    counts: GeometryCounts
    data: Any = None
    """The items themselves, as statistics and baselines take them."""
    n_subwords: Mapping[str, Integers] = field(default_factory=dict)
    """``[word]`` numbers of subwords of all words by split, for statistics whose probe :attr:`counts_subwords`."""


class WordsProbe(Probe):
    """A question about the vectors of words, of one model or of two; its fields, but for those that say what it is, are
    settings."""

    asked_by = "items"
    most_words: int = 50_000
    """Words of running text that are read at most: random sentences of a larger text. A field makes it a setting."""

    @property
    def compares_layers(self) -> bool:
        """Whether the statistics of a layer depend on which others are read."""
        return False

    @property
    def reads(self) -> tuple[SplitName, ...]:
        """The splits whose vectors are read."""
        return ("test",)

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words of random sentences.

        These are the items of the question, or those of which all words are among ``words``.

        Raises:
            CorpusError: the text lacks the annotation that the task needs.
        """
        if words is None:
            words = {one: sampled_words(sentences[one], self.most_words) for one in self.reads if one in sentences}
        return TextItems(words, GeometryCounts(len(words["test"])))


class GeometryProbe(WordsProbe):
    """A question about the vectors of a text themselves, by layer.

    Subclasses are frozen dataclasses without state; their fields, but for those that say what they are, are settings.
    """

    subject: ClassVar[Subject] = "vectors"
    family = "geometry"

    pools: ClassVar[tuple[str, ...]] = ("mean",)
    """Vectors of sentences that can be asked for. Where ``cls`` is, :meth:`statistics` gets the vectors of the special
    token before each sentence as well, under ``cls:train``, ``cls:test`` …; their words are numbers of sentences."""

    counts_subwords: ClassVar[bool] = False
    """Whether :meth:`statistics` get the numbers of subwords of words."""

    fits: ClassVar[str] = ""
    """Description of what is fitted to items of train, or to parts of test; empty where nothing is fitted."""

    @property
    def controls(self) -> tuple[ControlNote, ...]:
        """A note on what the task itself fits, if anything; :meth:`baseline` computes each of :attr:`baselines`."""
        return (ControlNote("none", "readout", self.fits),) if self.fits else ()

    @property
    def encodings(self) -> Mapping[str, Encoding]:
        """Further encodings of the text by name, besides each sentence by itself.

        :meth:`statistics` has the vectors of the same words of the test split in each, by these names.
        """
        return {}

    @abstractmethod
    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The statistics of each layer; those of one name and group are in as many layers as they are defined for.

        Args:
            vectors: by split, of the words of :meth:`items` that the model can read; see also :attr:`pools`.
            sentences: by split.
            items: those of these words.

        Raises:
            CorpusError: the text is too small.
            ModelError: vectors are zero, constant or not finite.
        """

    def baseline(self, name: str, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """The statistics of one of :attr:`baselines`, which reads no layer; ``items`` as in :meth:`statistics`."""
        return iter(())
