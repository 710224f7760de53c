"""Annotated sentences in."""

from bertology.corpora._brackets import read_trees
from bertology.corpora._columns import read_columns
from bertology.corpora._conll2012 import read_conll2012
from bertology.corpora._conllu import read_conllu
from bertology.corpora._corpus import Corpus
from bertology.corpora._edges import read_edge_jsonl, write_edge_jsonl
from bertology.corpora._iob import entities_of
from bertology.corpora._join import join_corpora
from bertology.corpora._named import corpus_at_hand, known_corpora, load_corpus, no_columns
from bertology.corpora._oddities import Oddities
from bertology.corpora._propbank import read_propbank
from bertology.corpora._raw import read_text
from bertology.corpora._semeval import read_semeval
from bertology.corpora._sentence import MultiwordToken, Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora._spacy import annotate_text, from_docs, load_docbin, to_docs, write_docbin
from bertology.corpora._storage import WordLayer
from bertology.corpora._tokens import english_sentence
from bertology.corpora._winograd import read_winograd
from bertology.corpora._write_conllu import write_conllu

__all__ = [
    "Corpus",
    "MultiwordToken",
    "Oddities",
    "Sentence",
    "Sentences",
    "Target",
    "WordLayer",
    "annotate_text",
    "corpus_at_hand",
    "english_sentence",
    "entities_of",
    "from_docs",
    "join_corpora",
    "known_corpora",
    "load_corpus",
    "load_docbin",
    "no_columns",
    "read_columns",
    "read_conll2012",
    "read_conllu",
    "read_edge_jsonl",
    "read_propbank",
    "read_semeval",
    "read_text",
    "read_trees",
    "read_winograd",
    "to_docs",
    "write_conllu",
    "write_docbin",
    "write_edge_jsonl",
]
