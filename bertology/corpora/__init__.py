"""Annotated sentences from files, from treebanks by name, and from data in memory.

:func:`load_corpus` reads a corpus by name or path (``_named.py``, to be read first), or makes it of an object
(``_tables.py``); each format is a class of :mod:`bertology.corpora.formats`. A :class:`Corpus` has named splits, each
a :class:`Sentences`.
"""

from bertology.corpora._corpus import Corpus
from bertology.corpora._languages import Links, ParallelText, multilingual_corpus, parallel_corpus, translations
from bertology.corpora._named import corpus_is_available, kept_name, known_corpora, load_corpus
from bertology.corpora._sentences import IGNORED, MultiwordToken, Sentence, Sentences, Target, WordLayer
from bertology.corpora._tables import Text, Texts, as_sentence, as_sentences, kept_table, known_table, no_columns
from bertology.corpora._words import sentence_of_text
from bertology.corpora.formats.conllu import write_conllu
from bertology.corpora.formats.published import question_sentence
from bertology.corpora.formats.spacy_docs import annotate_text, from_docs, to_docs

__all__ = [
    "IGNORED",
    "Corpus",
    "Links",
    "MultiwordToken",
    "ParallelText",
    "Sentence",
    "Sentences",
    "Target",
    "Text",
    "Texts",
    "WordLayer",
    "annotate_text",
    "as_sentence",
    "as_sentences",
    "corpus_is_available",
    "from_docs",
    "kept_name",
    "kept_table",
    "known_corpora",
    "known_table",
    "load_corpus",
    "multilingual_corpus",
    "no_columns",
    "parallel_corpus",
    "question_sentence",
    "sentence_of_text",
    "to_docs",
    "translations",
    "write_conllu",
]
