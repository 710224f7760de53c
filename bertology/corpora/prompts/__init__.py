"""Readers of prompts and minimal pairs, each with its answer, and what of their sources cannot be asked."""

from bertology.corpora.prompts._agreement import AgreementKind, AgreementPair, read_agreement
from bertology.corpora.prompts._minimal_pairs import MinimalPair, PairKind, read_minimal_pairs
from bertology.corpora.prompts._unasked import Unasked

__all__ = [
    "AgreementKind",
    "AgreementPair",
    "MinimalPair",
    "PairKind",
    "Unasked",
    "read_agreement",
    "read_minimal_pairs",
]
