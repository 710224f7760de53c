"""What an encoder shares between languages, layer by layer: sentences, words and their translations.

Sentences by language, and the spaces in which they are compared, are in ``_sentences.py``, to be read first. Language
identity and centroids (``_identity.py``), retrieval of translations (``_retrieval.py``), nearest words
(``_translation.py``), word alignment (``_alignment.py``) and readouts put to another language (``_transfer.py``) read
them. Links of two texts by themselves are in ``_aligned.py``.
"""

from bertology.geometry.languages._aligned import AlignedTexts, aligned_texts
from bertology.geometry.languages._alignment import (
    METHODS,
    AlignedPairs,
    LinkCounts,
    align_words,
    alignment_scores,
    count_links,
    scores_of_links,
    word_similarity,
)
from bertology.geometry.languages._identity import language_centroids, language_identity
from bertology.geometry.languages._retrieval import retrieval, retrieval_of, retrieved
from bertology.geometry.languages._sentences import LanguageItems
from bertology.geometry.languages._transfer import LabelledWords, TransferItems, transfer
from bertology.geometry.languages._translation import TranslatedWords, by_dictionary, translation, translation_scores

__all__ = [
    "METHODS",
    "AlignedPairs",
    "AlignedTexts",
    "LabelledWords",
    "LanguageItems",
    "LinkCounts",
    "TransferItems",
    "TranslatedWords",
    "align_words",
    "aligned_texts",
    "alignment_scores",
    "by_dictionary",
    "count_links",
    "language_centroids",
    "language_identity",
    "retrieval",
    "retrieval_of",
    "retrieved",
    "scores_of_links",
    "transfer",
    "translation",
    "translation_scores",
    "word_similarity",
]
