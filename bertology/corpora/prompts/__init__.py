"""Sources of cloze items: published sets of prompts and minimal pairs, and items made by rule.

Each module reads one set; what they share is in ``_items.py``.
"""

from bertology.corpora.prompts._agreement import AgreementPair, read_agreement
from bertology.corpora.prompts._diagnostics import (
    Diagnostics,
    NegationItem,
    PragmaticItem,
    RoleItem,
    read_diagnostics,
    with_article,
)
from bertology.corpora.prompts._documents import Document, read_documents
from bertology.corpora.prompts._items import Unasked
from bertology.corpora.prompts._lama import (
    read_lama,
    read_pararel,
)
from bertology.corpora.prompts._minimal_pairs import MinimalPair, read_minimal_pairs
from bertology.corpora.prompts._numbers import (
    MADE,
    NumberItem,
    addition_items,
    check_made,
    decode_items,
    drawn_order,
    maximum_items,
    shuffled_words,
)
from bertology.corpora.prompts._objects import ObjectItem, affordance_items, comparison_items
from bertology.corpora.prompts._primed import PrimedFact, read_primed

__all__ = [
    "MADE",
    "AgreementPair",
    "Diagnostics",
    "Document",
    "MinimalPair",
    "NegationItem",
    "NumberItem",
    "ObjectItem",
    "PragmaticItem",
    "PrimedFact",
    "RoleItem",
    "Unasked",
    "addition_items",
    "affordance_items",
    "check_made",
    "comparison_items",
    "decode_items",
    "drawn_order",
    "maximum_items",
    "read_agreement",
    "read_diagnostics",
    "read_documents",
    "read_lama",
    "read_minimal_pairs",
    "read_pararel",
    "read_primed",
    "shuffled_words",
    "with_article",
]
