"""Sources of cloze items: published sets of prompts and minimal pairs, and items made by rule.

Each module reads sets of one form; ``_items.py`` has what they share, and reads tables of one's own, whose columns a
person names, for every task. All names serve other packages.
"""

from bertology.corpora.prompts._items import MADE as MADE
from bertology.corpora.prompts._items import LeftOut as LeftOut
from bertology.corpora.prompts._items import TableItem as TableItem
from bertology.corpora.prompts._items import names_items as names_items
from bertology.corpora.prompts._items import read_item_table as read_item_table
from bertology.corpora.prompts._items import source_name as source_name
from bertology.corpora.prompts._items import split_language as split_language
from bertology.corpora.prompts._items import with_masks as with_masks
from bertology.corpora.prompts._lama import PrimedFact as PrimedFact
from bertology.corpora.prompts._lama import read_lama as read_lama
from bertology.corpora.prompts._lama import read_pararel as read_pararel
from bertology.corpora.prompts._lama import read_primed as read_primed
from bertology.corpora.prompts._pairs import AgreementPair as AgreementPair
from bertology.corpora.prompts._pairs import read_agreement as read_agreement
from bertology.corpora.prompts._pairs import read_minimal_pairs as read_minimal_pairs
from bertology.corpora.prompts._sets import Diagnostics as Diagnostics
from bertology.corpora.prompts._sets import Document as Document
from bertology.corpora.prompts._sets import NegationItem as NegationItem
from bertology.corpora.prompts._sets import PragmaticItem as PragmaticItem
from bertology.corpora.prompts._sets import RoleItem as RoleItem
from bertology.corpora.prompts._sets import addition_items as addition_items
from bertology.corpora.prompts._sets import affordance_items as affordance_items
from bertology.corpora.prompts._sets import check_made as check_made
from bertology.corpora.prompts._sets import comparison_items as comparison_items
from bertology.corpora.prompts._sets import decode_items as decode_items
from bertology.corpora.prompts._sets import drawn_order as drawn_order
from bertology.corpora.prompts._sets import maximum_items as maximum_items
from bertology.corpora.prompts._sets import read_diagnostics as read_diagnostics
from bertology.corpora.prompts._sets import read_documents as read_documents
from bertology.corpora.prompts._sets import shuffled_words as shuffled_words
from bertology.corpora.prompts._sets import with_article as with_article
