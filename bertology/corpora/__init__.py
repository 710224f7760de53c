"""Annotated sentences in."""

from bertology.corpora._conllu import read_conllu
from bertology.corpora._corpus import Corpus
from bertology.corpora._sentence import MultiwordToken, Sentence, Target
from bertology.corpora._sentences import Sentences, WordLayer

__all__ = ["Corpus", "MultiwordToken", "Sentence", "Sentences", "Target", "WordLayer", "read_conllu"]
