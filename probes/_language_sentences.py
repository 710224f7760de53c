"""Sentences of several languages: their language, the centroids of languages, and retrieval of translations.

Vectors of sentences are means over the vectors of their words, or with ``pool: cls`` those of the special token before
them. Of a larger text so many sentences of each language, with their translations, are drawn at random.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import ParallelText, Sentences
from bertology.errors import CorpusError
from bertology.geometry import LayerSums, languages
from bertology.measures import share_metric, sum_metric
from bertology.probing import ControlNote, GeometryBaseline, GeometryCounts, GeometryProbe

if TYPE_CHECKING:
    from bertology.geometry import LayerVectors

FAMILIES = {
    language: family
    for family, codes in {
        "Germanic": "af da de en is nb nl nn no sv yi",
        "Romance": "ca es fr gl it la oc pt ro",
        "Slavic": "be bg bs cs hr mk pl ru sk sl sr uk",
        "Baltic": "lt lv",
        "Celtic": "br cy ga gd",
        "Indic": "bn gu hi mr ne pa ur",
        "Iranian": "fa ku ps tg",
        "Uralic": "et fi hu",
        "Turkic": "az kk ky tr tt uz",
        "Semitic": "am ar he mt",
        "Austronesian": "id jv ms su tl",
        "Dravidian": "kn ml ta te",
        "Sinitic": "yue zh",
    }.items()
    for language in codes.split()
}
"""Genera of languages by ISO 639 code, as in WALS (Dryer & Haspelmath 2013)."""


@dataclass(frozen=True)
class _OfSentences(GeometryProbe):
    most_sentences: int = 1000
    """Sentences of each language that are read at most."""
    version = 1
    subject = "languages"
    reference = "Libovický et al. 2019"
    reads = ("test",)
    pools = ("mean", "cls")
    _needs_translations = False

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """All words of the sentences that are read."""
        text = ParallelText.of(sentences["test"])
        chosen = _sample(text, self.most_sentences, only_translated=self._needs_translations)
        return {"test": np.flatnonzero(chosen[sentences["test"].sentence_of_word])}

    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]) -> GeometryCounts:
        """Sentences, and languages; what has no language is left out."""
        items, text = self._items(sentences["test"], words["test"]), ParallelText.of(sentences["test"])
        without = int((text.language < 0).sum())
        skipped = {"sentences whose language is not stated": without} if without else {}
        return GeometryCounts(len(items), n_classes=len(items.names), skipped=skipped)

    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """By layer."""
        of_words, cls = vectors["test"], vectors.get("cls:test")
        text = ParallelText.of(sentences["test"])
        items = self._items(sentences["test"], of_words.words)
        if cls is None:
            return self._statistics(of_words, items)
        chosen = np.isin(cls.words, np.unique(sentences["test"].sentence_of_word[of_words.words]))
        numbers = np.where(chosen, cls.words, -1)
        return self._statistics(_some(cls, numbers), languages.LanguageItems.of(text, cls.words[chosen]))

    @abstractmethod
    def _statistics(self, read: LayerVectors, items: languages.LanguageItems) -> Iterator[LayerSums]:
        """Of vectors of sentences or of their words."""

    def _items(self, sentences: Sentences, words: NDArray[np.int64]) -> languages.LanguageItems:
        return languages.LanguageItems.of(ParallelText.of(sentences), sentences.sentence_of_word[words])


def _some(vectors: LayerVectors, numbers: NDArray[np.int64]) -> LayerVectors:
    """The vectors whose number is not −1."""
    kept = np.flatnonzero(numbers >= 0)
    return vectors.of_arrays(np.stack([vectors.of(layer)[kept] for layer in vectors.layers]), layers=vectors.layers)


def _sample(text: ParallelText, most: int, *, only_translated: bool) -> NDArray[np.bool_]:
    """``[sentence]`` which are read: translations with one another."""
    dice, chosen = np.random.default_rng(0), np.zeros(len(text.language), dtype=bool)
    units, times = np.unique(text.unit[text.unit >= 0], return_counts=True)
    units = units[times > 1] if only_translated else units
    if only_translated and len(units) < 2:
        raise CorpusError(f"{len(units)} sentences have a translation, fewer than two: give parallel:en=PATH,de=PATH")
    chosen[np.isin(text.unit, dice.permutation(units)[:most])] = True
    if not only_translated:
        for number in range(len(text.languages)):
            lone = np.flatnonzero((text.language == number) & (text.unit < 0))
            chosen[dice.permutation(lone)[:most]] = True
    return chosen


@dataclass(frozen=True)
class Identity(_OfSentences):
    """Which language is a sentence of?"""

    folds: int = 5
    """Parts for cross-validation, in which translations stay together."""
    task = "languages:identity"
    question = "Does a linear classifier find the language of a sentence, before and after it is removed?"
    metrics = (
        share_metric("identity", "share of sentences whose language a linear classifier finds"),
        share_metric("identity_centred", "the same less the mean of each language", higher_is_better=False),
        share_metric("identity_erased", "the same after LEACE of language", higher_is_better=False),
        share_metric("same_language", "share of sentences whose nearest one, no translation, is of their language"),
        share_metric("same_language_centred", "the same less the mean of each language", higher_is_better=False),
        share_metric("same_language_erased", "the same after LEACE of language", higher_is_better=False),
    )
    fits = "a linear classifier of language, fitted and scored on different parts of the test split"
    baselines = (ControlNote("majority", "majority", "the most frequent language"),)

    def _statistics(self, read: LayerVectors, items: languages.LanguageItems) -> Iterator[LayerSums]:
        return languages.language_identity(read, items, folds=self.folds)

    def baseline(
        self, name: GeometryBaseline, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> Iterator[LayerSums]:
        """The most frequent language."""
        items = self._items(sentences["test"], words["test"])
        right = items.language == np.bincount(items.language).argmax()
        both = (np.bincount(items.clusters, some) for some in (right, np.ones(len(items))))
        over, under = (some[None].astype(np.float64) for some in both)
        yield LayerSums("identity", (None,), over, under, "sentences")


@dataclass(frozen=True)
class Centroids(_OfSentences):
    """How far apart do languages lie?"""

    task = "languages:centroids"
    question = "How far apart do languages lie, and do they cluster by family?"
    metrics = (
        sum_metric("between_languages", "share of the variance of sentences between languages", higher_is_better=False),
        sum_metric("merged_at", "height at which two languages are joined, of that of the last join"),
        sum_metric("family_v_measure", "agreement of clusters of centroids with families of languages"),
    )

    def _statistics(self, read: LayerVectors, items: languages.LanguageItems) -> Iterator[LayerSums]:
        return languages.language_centroids(read, items, families=FAMILIES)


@dataclass(frozen=True)
class Retrieval(_OfSentences):
    """Which sentence is the translation?"""

    folds: int = 5
    """Parts into which pairs are divided for the projection."""
    neighbours: int = 10
    """Of CSLS."""
    task = "languages:retrieval"
    question = "Is the nearest sentence of another language the translation?"
    metrics = (
        share_metric("retrieval", "share of sentences whose nearest one of the other language translates them (P@1)"),
        share_metric("retrieval_centred", "the same less the mean of each language"),
        share_metric("retrieval_erased", "the same after LEACE of language"),
        share_metric("retrieval_projected", "the same by the orthogonal map fitted to other sentences"),
        share_metric("retrieval_csls", "the same by cosines less those to nearest neighbours"),
        share_metric("retrieval_centred_csls", "the same of vectors less the mean of each language"),
    )
    fits = "none but the orthogonal map of `retrieval_projected`, fitted to other parts of the test split"
    baselines = (
        ControlNote("lexical", "spelling", "the nearest sentence by TF-IDF of two to four characters in a row"),
    )
    _needs_translations = True

    def _statistics(self, read: LayerVectors, items: languages.LanguageItems) -> Iterator[LayerSums]:
        return languages.retrieval(read, items, folds=self.folds, neighbours=self.neighbours)

    def baseline(
        self, name: GeometryBaseline, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> Iterator[LayerSums]:
        """The nearest sentence by TF-IDF of two to four characters in a row."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        test = sentences["test"]
        numbers = np.unique(test.sentence_of_word[words["test"]])
        weights = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit_transform(map(test.text, numbers))
        similar = np.asarray((weights @ weights.T).toarray(), dtype=np.float32)
        return languages.retrieval_of(similar, self._items(test, words["test"]))
