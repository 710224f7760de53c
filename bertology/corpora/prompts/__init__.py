"""Sources of cloze items: published sets of prompts and minimal pairs, and items made by rule.

Each module reads one set, or sets of one form; what they share is in ``_items.py``.
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
from bertology.corpora.prompts._items import LeftOut, with_masks
from bertology.corpora.prompts._lama import PrimedFact, read_lama, read_pararel, read_primed
from bertology.corpora.prompts._made import (
    MADE,
    MadeItem,
    addition_items,
    affordance_items,
    check_made,
    comparison_items,
    decode_items,
    drawn_order,
    maximum_items,
    shuffled_words,
)
from bertology.corpora.prompts._minimal_pairs import MinimalPair, read_minimal_pairs

__all__ = [
    "MADE",
    "AgreementPair",
    "Diagnostics",
    "Document",
    "LeftOut",
    "MadeItem",
    "MinimalPair",
    "NegationItem",
    "PragmaticItem",
    "PrimedFact",
    "RoleItem",
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
    "with_masks",
]
