"""What is put to masked language models: published sets of prompts and sentences in pairs, and items made here."""

from bertology.corpora.prompts._agreement import AgreementKind, AgreementPair, read_agreement
from bertology.corpora.prompts._diagnostics import (
    Diagnostics,
    NegationItem,
    PragmaticItem,
    RoleItem,
    read_diagnostics,
    with_article,
)
from bertology.corpora.prompts._documents import Document, read_documents
from bertology.corpora.prompts._drawn import drawn_order, shuffled_words
from bertology.corpora.prompts._lama import LamaFact, LamaRelation, read_lama, read_relations
from bertology.corpora.prompts._made import MADE, check_made
from bertology.corpora.prompts._minimal_pairs import MinimalPair, PairKind, read_minimal_pairs
from bertology.corpora.prompts._numbers import (
    NumberItem,
    addition_items,
    decode_items,
    maximum_items,
    number_word,
)
from bertology.corpora.prompts._objects import ObjectItem, Thing, affordance_items, comparison_items, things
from bertology.corpora.prompts._pararel import ParaphrasedFact, read_pararel
from bertology.corpora.prompts._primed import PrimedFact, read_primed
from bertology.corpora.prompts._unasked import Unasked

__all__ = [
    "MADE",
    "AgreementKind",
    "AgreementPair",
    "Diagnostics",
    "Document",
    "LamaFact",
    "LamaRelation",
    "MinimalPair",
    "NegationItem",
    "NumberItem",
    "ObjectItem",
    "PairKind",
    "ParaphrasedFact",
    "PragmaticItem",
    "PrimedFact",
    "RoleItem",
    "Thing",
    "Unasked",
    "addition_items",
    "affordance_items",
    "check_made",
    "comparison_items",
    "decode_items",
    "drawn_order",
    "maximum_items",
    "number_word",
    "read_agreement",
    "read_diagnostics",
    "read_documents",
    "read_lama",
    "read_minimal_pairs",
    "read_pararel",
    "read_primed",
    "read_relations",
    "shuffled_words",
    "things",
    "with_article",
]
