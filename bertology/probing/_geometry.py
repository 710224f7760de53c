"""What probes of geometry ask: statistics of the vectors of a text; what is fitted, the probe itself fits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences
from bertology.encoders import Encoding
from bertology.probing._contract import ControlNote, Probe

if TYPE_CHECKING:
    from bertology.geometry import LayerSums, LayerVectors

Splits = Mapping[str, Sentences]
"""Sentences by split."""
SplitWords = Mapping[str, NDArray[np.int64]]
"""By split ``[word]`` numbers of words, ascending."""
SplitVectors = Mapping[str, "LayerVectors"]
"""Vectors of words by split."""
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

    asked_by = "words"

    pools: ClassVar[tuple[str, ...]] = ("mean",)
    """Vectors of sentences that can be asked for. Where ``cls`` is, :meth:`statistics` gets the vectors of the special
    token before each sentence as well, under ``cls:train``, ``cls:test`` …; their words are numbers of sentences."""

    @property
    def compares_layers(self) -> bool:
        """Whether the statistics of a layer depend on which others are read."""
        return False

    @property
    def reads(self) -> tuple[GeometrySplit, ...]:
        """The splits whose vectors are read."""
        return ("test",)

    @property
    def fits(self) -> str:
        """What the task fits to items of train, or to parts of test, in words; empty where nothing is fitted."""
        return ""

    @property
    def baselines(self) -> tuple[ControlNote, ...]:
        """What the layers stand beside, and what tables say of it; :meth:`baseline` computes each."""
        return ()

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
        """By name the other encodings that are read."""
