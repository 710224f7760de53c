"""Words of several languages with gold links: translations that are nearest, and links that vectors find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import ParallelText, Sentences
from bertology.errors import CorpusError, FitError, quoted
from bertology.geometry import LayerSums, languages
from bertology.measures import Metric, share_metric, sum_metric
from bertology.probing import ControlNote, GeometryBaseline, GeometryCounts, GeometryProbe

from ._text_sample import is_punctuation

if TYPE_CHECKING:
    from bertology.geometry import LayerVectors

_NO_LINKS = "no sentence has gold links of words: give parallel:en=PATH,fr=PATH,links=path/to/gold"


@dataclass(frozen=True)
class Translation(GeometryProbe):
    """What is a word translated by?

    Words are of one type if they are spelled alike, capitals aside, or with ``by: lemma`` have the same lemma;
    punctuation is left out. Asked is about words with one sure link, whose translation has no other one.
    """

    by: str = "form"
    """What words of one type have in common: ``form`` or ``lemma``."""
    folds: int = 5
    """Parts into which sentences are divided; candidates are in other parts than the word."""
    most_words: int = 2000
    """Words of each language that are asked about at most, drawn at random."""
    task = "languages:translation"
    version = 1
    subject = "languages"
    question = "Is the nearest word of another language what a word is translated by?"
    reference = "cf. Dufter & Schütze 2020"
    metrics = (
        share_metric("type", "share of words whose nearest type of the other language is their translation (P@1)"),
        share_metric("type_raw", "the same of vectors that hold the mean of their language"),
        share_metric(
            "occurrence", "share of words whose nearest occurrence in other sentences is of their translation"
        ),
    )
    reads = ("test",)
    baselines = (
        ControlNote("lexical", "same spelling", "the word of the other language that is spelled alike"),
        ControlNote("word_majority", "most linked", "what the word is most often linked with in other sentences"),
    )

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """All words of sentences with gold links."""
        directions = self._directions(sentences["test"])
        both = [part for one in directions for part in (one.source, one.candidates)]
        return {"test": np.unique(np.concatenate(both))}

    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]) -> GeometryCounts:
        """Words asked about, types of candidates; those whose translation is in no other sentence are left out."""
        whole = [one.readable(words["test"]) for one in self._directions(sentences["test"])]
        asked = [one.answerable(self.folds) for one in whole]
        rare = sum(map(len, whole)) - sum(map(len, asked))
        n_types = sum(len(np.unique(one.types)) for one in whole)
        skipped = {"words whose translation occurs in no other sentence": rare} if rare else {}
        return GeometryCounts(sum(map(len, asked)), n_classes=n_types, skipped=skipped)

    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """By nearest type and nearest occurrence."""
        read = vectors["test"]
        return languages.translation(read, self._asked(sentences["test"], read.words), folds=self.folds)

    def baseline(
        self, name: GeometryBaseline, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> Iterator[LayerSums]:
        """The same spelling; or the type that the word's own is most often linked with in other sentences."""
        asked = self._asked(sentences["test"], words["test"])
        if name == "lexical":
            right = [(one.forms == one.gold)[None].astype(np.float64) for one in asked]
        else:
            right = [languages.by_dictionary(one, self.folds)[None] for one in asked]
        return languages.translation_scores("type", (None,), right, asked)

    def _asked(self, sentences: Sentences, words: NDArray[np.int64]) -> list[languages.TranslatedWords]:
        found = [one.readable(words).answerable(self.folds) for one in self._directions(sentences)]
        dice = np.random.default_rng(0)
        return [one.queries(np.sort(dice.permutation(len(one))[: self.most_words])) for one in found]

    def _directions(self, sentences: Sentences) -> list[languages.TranslatedWords]:
        text, types = ParallelText.of(sentences), self._types(sentences)
        found = (languages.TranslatedWords.of(text, *pair, types) for pair in permutations(text.languages, 2))
        if not (known := [one for one in found if one is not None]):
            raise CorpusError(_NO_LINKS)
        return known

    def _types(self, sentences: Sentences) -> NDArray[np.int64]:
        if self.by not in ("form", "lemma"):
            raise FitError(f"by={quoted(self.by)}: give form or lemma")
        layer = sentences.forms if self.by == "form" else sentences.layers.get("lemma")
        if layer is None:
            raise CorpusError("words have no lemmas: leave by=lemma out, or give treebanks")
        _, codes = np.unique([value.casefold() for value in layer.values], return_inverse=True)
        types = np.append(codes, -1)[layer.codes]
        types[is_punctuation(sentences, np.arange(sentences.n_words))] = -1
        return np.asarray(types, dtype=np.int64)


@dataclass(frozen=True)
class Alignment(GeometryProbe):
    """Which words translate each other?

    Jalili Sabet et al. (2020), *SimAlign: High Quality Word Alignments without Parallel Training Data using Static and
    Contextualized Embeddings*, of word vectors; ``distortion`` is their κ. Baselines: words that share most pairs of
    characters (``lexical``), and those at the same relative place (``diagonal``).
    """

    distortion: float = 0.0
    """By how much similarity falls with the distance of relative places."""
    task = "languages:alignment"
    version = 1
    subject = "languages"
    question = "Do the vectors of words find which words translate each other?"
    reference = "Jalili Sabet et al. 2020"
    reads = ("test",)
    baselines = (
        ControlNote("lexical", "spelling", "the words that share most pairs of characters, of both (argmax)"),
        ControlNote("diagonal", "diagonal", "the words at the same relative place in both sentences (argmax)"),
    )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Four scores of each method, and F1 of centred vectors."""
        found = []
        for method in languages.METHODS:
            found += [
                sum_metric(f"{method}_f1", f"F1 of links by {method}: precision of possible, recall of sure ones"),
                share_metric(f"{method}_precision", "share of links that are possible ones"),
                share_metric(f"{method}_recall", "share of sure links that are found"),
                sum_metric(f"{method}_error", "alignment error rate (AER)", higher_is_better=False),
                sum_metric(f"{method}_centred_f1", "F1 of vectors less the mean of each language"),
            ]
        return tuple(found)

    def words(self, sentences: Mapping[str, Sentences]) -> Mapping[str, NDArray[np.int64]]:
        """All words of sentences with gold links."""
        pairs = languages.AlignedPairs.of(ParallelText.of(sentences["test"]), np.arange(sentences["test"].n_words))
        return {"test": np.unique(np.concatenate([side for pair in pairs.words for side in pair]))}

    def counts(self, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]) -> GeometryCounts:
        """Sure links."""
        pairs = self._pairs(sentences["test"], words["test"])
        return GeometryCounts(sum(len(gold.sure) for gold in pairs.gold))

    def statistics(
        self, vectors: Mapping[str, LayerVectors], sentences: Mapping[str, Sentences]
    ) -> Iterator[LayerSums]:
        """Of every method."""
        if not 0 <= self.distortion <= 1:
            raise FitError(f"distortion={self.distortion}: give a number from 0 to 1")
        pairs = self._pairs(sentences["test"], vectors["test"].words)
        return languages.alignment_scores(vectors["test"], pairs, distortion=self.distortion)

    def baseline(
        self, name: GeometryBaseline, sentences: Mapping[str, Sentences], words: Mapping[str, NDArray[np.int64]]
    ) -> Iterator[LayerSums]:
        """Links by spelling or by place."""
        test, counts = sentences["test"], []
        pairs = self._pairs(test, words["test"])
        for number, (own, other) in enumerate(pairs.words):
            if name == "diagonal":
                similar = -np.abs(np.subtract.outer(*(np.linspace(0, 1, len(some)) for some in (own, other))))
                linked = languages.align_words(similar, "argmax") if similar.size else similar > 0
            else:
                forms = [[test.word(int(words["test"][place])).casefold() for place in some] for some in (own, other)]
                similar = np.array([[_alike(one, two) for two in forms[1]] for one in forms[0]])
                linked = (languages.align_words(similar, "argmax") & (similar > 0)) if similar.size else similar > 0
            counts.append(pairs.counts(number, linked))
        return languages.scores_of_links("argmax", (None,), [counts], np.arange(len(pairs)))

    def _pairs(self, sentences: Sentences, words: NDArray[np.int64]) -> languages.AlignedPairs:
        return languages.AlignedPairs.of(ParallelText.of(sentences), words)


def _alike(one: str, other: str) -> float:
    """Share of pairs of characters that two words have in common (Dice)."""
    first, second = (set(zip(f" {word}", f"{word} ", strict=True)) for word in (one, other))
    return 2 * len(first & second) / (len(first) + len(second))
