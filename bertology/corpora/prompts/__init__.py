"""Readers of prompts: facts to be completed, each with its answer, and what of their sources cannot be asked."""

from bertology.corpora.prompts._lama import LamaFact, LamaRelation, read_lama, read_relations
from bertology.corpora.prompts._pararel import ParaphrasedFact, read_pararel
from bertology.corpora.prompts._primed import PrimedFact, read_primed
from bertology.corpora.prompts._unasked import Unasked

__all__ = [
    "LamaFact",
    "LamaRelation",
    "ParaphrasedFact",
    "PrimedFact",
    "Unasked",
    "read_lama",
    "read_pararel",
    "read_primed",
    "read_relations",
]
