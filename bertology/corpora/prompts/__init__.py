"""Readers of prompts and of sentences in pairs, with what is right, and what of their sources cannot be asked."""

from bertology.corpora.prompts._agreement import AgreementKind, AgreementPair, read_agreement
from bertology.corpora.prompts._lama import LamaFact, LamaRelation, read_lama, read_relations
from bertology.corpora.prompts._minimal_pairs import MinimalPair, PairKind, read_minimal_pairs
from bertology.corpora.prompts._pararel import ParaphrasedFact, read_pararel
from bertology.corpora.prompts._primed import PrimedFact, read_primed
from bertology.corpora.prompts._unasked import Unasked

__all__ = [
    "AgreementKind",
    "AgreementPair",
    "LamaFact",
    "LamaRelation",
    "MinimalPair",
    "PairKind",
    "ParaphrasedFact",
    "PrimedFact",
    "Unasked",
    "read_agreement",
    "read_lama",
    "read_minimal_pairs",
    "read_pararel",
    "read_primed",
    "read_relations",
]
