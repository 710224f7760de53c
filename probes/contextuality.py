"""Contextuality: how much of a word's vector is the word, and how much its context?

Ethayarajh (2019), *How Contextual are Contextualized Word Representations?*: the mean cosine of a word's occurrences
(self-similarity), of a sentence's words to their mean, and the variance that one vector explains, each less what words
at random show, since all vectors of a layer may lie in a narrow cone. Types occur in five sentences or more, one
occurrence a sentence; punctuation is left out. A type and its baseline have the same number of occurrences and the same
estimator, which the paper's do not; the baseline is of these types alone, ``anisotropy`` of all pairs of words of the
text. Intervals over types leave out that other documents have other contexts: ``clusters: documents`` does not.

Besides: shares of the variance between types, between the tags of a type, and within; self-similarity in standardised
dimensions (Timkey & van Schijndel 2021), without the mean and the largest principal components (Mu & Viswanath 2018),
and around the means of clusters (Cai et al. 2021); IsoScore (Rudman et al. 2022), effective rank, matrix entropy, and
what three rogue dimensions add to the mean cosine. Words are read as they are pooled, not piece by piece as in the
paper.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bertology.geometry import GeometryProbe
from bertology.geometry.probes import TextItems
from bertology.geometry.text import TextStatistics, WordSample
from bertology.measures import sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import Splits
from bertology.probing.items import SplitVectors, is_punctuation

_BANDS = ((5, 9), (10, 49), (50, None))
_SECOND_TAG = 0.1
"""Share of its occurrences from which on another tag than the most frequent one counts."""


@dataclass(frozen=True)
class Contextuality(GeometryProbe):
    """How much of a word's vector is the word, and how much its context?"""

    most_words: int = 50_000
    """Words of running text that are read at most: random sentences of a larger text."""
    least_sentences: int = 5
    """Number of sentences in which a word has to occur."""
    clusters: Literal["types", "documents"] = "types"
    """Clusters of intervals: word types, sentences and blocks of sentences, or 20 blocks of whole documents, which
    tell what other documents would show; of explainable variance always word types."""
    task = "contextuality"
    reference = "Ethayarajh 2019"
    metrics = (
        sum_metric(
            "self_similarity_adjusted",
            "mean cosine of a word's occurrences minus that of random words; groups: word types by frequency and tags",
        ),
        sum_metric("self_similarity", "mean cosine of two occurrences of a word, mean over words"),
        sum_metric("self_similarity_baseline", "baseline: mean cosine of as many occurrences of random words"),
        sum_metric("anisotropy", "mean cosine of two words' vectors, over all pairs of words", higher_is_better=False),
        sum_metric("self_similarity_ratio", "(self-similarity − its baseline) / (1 − its baseline)"),
        sum_metric("self_similarity_by_token", "self-similarity minus baseline, words weighted by frequency"),
        sum_metric("self_similarity_standardised", "self-similarity minus baseline, every dimension standardised"),
        sum_metric("self_similarity_without_top", "self-similarity minus baseline, largest components removed"),
        sum_metric("self_similarity_cluster_centred", "self-similarity minus baseline, cluster means subtracted"),
        sum_metric("self_similarity_cluster_centred_baseline", "mean cosine of random words, cluster means subtracted"),
        sum_metric("intra_sentence_similarity", "mean cosine of a word's vector with the mean vector of its sentence"),
        sum_metric("intra_sentence_similarity_adjusted", "intra-sentence similarity minus that of random words"),
        sum_metric("explainable_variance", "share of variance of a word's vectors on their first principal component"),
        sum_metric("explainable_variance_adjusted", "explainable variance minus that of as many random words"),
        sum_metric("variance_between_types", "share of the variance of vectors that lies between word types"),
        sum_metric("variance_between_tags", "share of the variance that lies between the tags of one word type"),
        sum_metric("variance_within", "share of the variance that lies within one tag of a word type"),
        sum_metric("iso_score", "IsoScore: 0 if only one dimension varies, 1 (100 %) if all vary alike"),
        sum_metric("effective_rank_dimensions", "effective rank (Σλ)² / Σλ² of the eigenvalues λ of the covariance"),
        sum_metric("matrix_entropy_bits", "entropy in bits of the eigenvalues of the covariance, as shares"),
        sum_metric("rogue_share", "share of anisotropy from the top three dimensions", higher_is_better=False),
    )

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Statistics by word type, by sentence and of the whole text."""
        text, words = sentences["test"], vectors["test"].words
        of_sentence = text.sentence_of_word[words]
        types = np.where(is_punctuation(text, words), -1, text.forms.codes[words])
        sample, _ = WordSample.of(types, of_sentence, least=self.least_sentences)
        tags = text.layers["upos"].codes[words] if "upos" in text.layers else None
        names = text.layers["upos"].values if tags is not None else ()
        documents = text.document_of_sentence[of_sentence] if self.clusters == "documents" else None
        counts, groups = sample.counts, {}
        for least, most in _BANDS:
            name = f"{least}–{most} sentences" if most else f"{least} sentences or more"
            groups[name] = (counts >= least) & (counts <= (most or counts.max()))
        if tags is not None:
            shares = np.zeros((len(counts), len(names) + 1))
            np.add.at(shares, (np.repeat(np.arange(len(counts)), counts), tags[sample.places]), 1.0)
            shares = shares[:, :-1] / counts[:, None]  # the last is what has no tag
            groups["one tag"] = (shares >= _SECOND_TAG).sum(axis=1) == 1
            groups["several tags"] = (shares >= _SECOND_TAG).sum(axis=1) > 1
            groups |= {name: shares.argmax(axis=1) == code for code, name in enumerate(names)}
        sample = replace(sample, groups={name: which for name, which in groups.items() if which.sum() > 1})
        return TextStatistics(of_sentence, sample, tags, documents).measure(vectors["test"])


PROBE = Contextuality()
