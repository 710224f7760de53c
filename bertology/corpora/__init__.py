"""Annotated sentences from files, from treebanks by name, and from data in memory.

:func:`load_corpus` reads a corpus by name or path (``_named.py``, to be read first), or makes it of an object
(``_tables.py``); each format is a class of :mod:`bertology.corpora.formats`. A :class:`Corpus` has named splits, each
a :class:`Sentences`. Names that are imported ``as`` themselves serve other packages.
"""

from bertology.corpora._corpus import TEXTS as TEXTS
from bertology.corpora._corpus import Corpus
from bertology.corpora._data import RELEASE as RELEASE
from bertology.corpora._data import data_read as data_read
from bertology.corpora._data import data_sets as data_sets
from bertology.corpora._data import treebanks as treebanks
from bertology.corpora._languages import Links as Links
from bertology.corpora._languages import ParallelText as ParallelText
from bertology.corpora._languages import multilingual_corpus as multilingual_corpus
from bertology.corpora._languages import parallel_corpus as parallel_corpus
from bertology.corpora._languages import translations as translations
from bertology.corpora._named import corpus_is_available as corpus_is_available
from bertology.corpora._named import kept_name as kept_name
from bertology.corpora._named import known_corpora as known_corpora
from bertology.corpora._named import load_corpus
from bertology.corpora._sentences import IGNORED as IGNORED
from bertology.corpora._sentences import MultiwordToken as MultiwordToken
from bertology.corpora._sentences import Sentence, Sentences
from bertology.corpora._sentences import Target as Target
from bertology.corpora._sentences import WordLayer as WordLayer
from bertology.corpora._sentences import as_one as as_one
from bertology.corpora._sentences import key_values as key_values
from bertology.corpora._sentences import part_of as part_of
from bertology.corpora._sentences import words_at as words_at
from bertology.corpora._shards import Shard as Shard
from bertology.corpora._shards import ShardedSentences as ShardedSentences
from bertology.corpora._shards import make_shards as make_shards
from bertology.corpora._tables import Text as Text
from bertology.corpora._tables import Texts as Texts
from bertology.corpora._tables import as_sentence as as_sentence
from bertology.corpora._tables import as_sentences
from bertology.corpora._tables import kept_table as kept_table
from bertology.corpora._tables import known_table as known_table
from bertology.corpora._tables import list_column as list_column
from bertology.corpora._tables import no_columns as no_columns
from bertology.corpora._words import sentence_of_text as sentence_of_text
from bertology.corpora.formats.conllu import write_conllu
from bertology.corpora.formats.published import question_sentence as question_sentence
from bertology.corpora.formats.spacy_docs import annotate_text as annotate_text
from bertology.corpora.formats.spacy_docs import from_docs as from_docs
from bertology.corpora.formats.spacy_docs import to_docs as to_docs

__all__ = ["Corpus", "Sentence", "Sentences", "as_sentences", "load_corpus", "write_conllu"]
