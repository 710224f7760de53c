"""Sources of cloze items: published sets of prompts and minimal pairs, and items made by rule.

Each module reads one set, or sets of one form; what they share is in ``_items.py``. Tables of one's own, whose columns
a person names, are read by ``_items.py`` for every task.
"""

from bertology.corpora.prompts._items import (
    MADE,
    LeftOut,
    TableItem,
    names_items,
    read_item_table,
    source_name,
    split_language,
    with_masks,
)
from bertology.corpora.prompts._lama import PrimedFact, read_lama, read_pararel, read_primed
from bertology.corpora.prompts._pairs import AgreementPair, MinimalPair, read_agreement, read_minimal_pairs
from bertology.corpora.prompts._sets import (
    Diagnostics,
    Document,
    NegationItem,
    PragmaticItem,
    RoleItem,
    addition_items,
    affordance_items,
    check_made,
    comparison_items,
    decode_items,
    drawn_order,
    maximum_items,
    read_diagnostics,
    read_documents,
    shuffled_words,
    with_article,
)

__all__ = [
    "MADE",
    "AgreementPair",
    "Diagnostics",
    "Document",
    "LeftOut",
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
