"""What is put to masked language models: published sets of prompts and minimal pairs, and items of our own making."""

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
from bertology.corpora.prompts._made import MADE, check_made
from bertology.corpora.prompts._numbers import (
    NumberItem,
    addition_items,
    decode_items,
    maximum_items,
    number_word,
)
from bertology.corpora.prompts._objects import ObjectItem, Thing, affordance_items, comparison_items, things
from bertology.corpora.prompts._unasked import Unasked

__all__ = [
    "MADE",
    "Diagnostics",
    "Document",
    "NegationItem",
    "NumberItem",
    "ObjectItem",
    "PragmaticItem",
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
    "read_diagnostics",
    "read_documents",
    "shuffled_words",
    "things",
    "with_article",
]
