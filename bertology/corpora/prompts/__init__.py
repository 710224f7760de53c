"""Sources of cloze items: published sets of prompts and minimal pairs, and items made by rule.

Each module reads one set, or sets of one form; what they share is in ``_items.py``. Tables of one's own, whose columns
a person names, are read by ``_item_tables.py`` for every task.
"""

from bertology.corpora.prompts._pairs import AgreementPair, read_agreement
from bertology.corpora.prompts._diagnostics import (
    Diagnostics,
    NegationItem,
    PragmaticItem,
    RoleItem,
    read_diagnostics,
    with_article,
)
from bertology.corpora.prompts._documents import Document, read_documents
from bertology.corpora.prompts._items import TableItem, names_items, read_item_table, source_name, split_language
from bertology.corpora.prompts._items import MADE, LeftOut, with_masks
from bertology.corpora.prompts._lama import PrimedFact, read_lama, read_pararel, read_primed
from bertology.corpora.prompts._made import (
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
from bertology.corpora.prompts._pairs import MinimalPair, read_minimal_pairs

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
    "TableItem",
    "addition_items",
    "affordance_items",
    "check_made",
    "comparison_items",
    "decode_items",
    "drawn_order",
    "maximum_items",
    "names_items",
    "read_agreement",
    "read_diagnostics",
    "read_documents",
    "read_item_table",
    "read_lama",
    "read_minimal_pairs",
    "read_pararel",
    "read_primed",
    "shuffled_words",
    "source_name",
    "split_language",
    "with_article",
    "with_masks",
]
