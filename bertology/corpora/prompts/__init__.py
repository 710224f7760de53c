"""Sources of cloze items: published sets of prompts and minimal pairs, and items made by rule.

Each module reads sets of one form. ``_items.py`` has what they share, re-exported here for other packages, and reads
tables of one's own, whose columns a person names, for every task.
"""

from bertology.corpora._tables import Form as Form
from bertology.corpora._tables import split_language as split_language
from bertology.corpora.prompts._items import BY_SHARE as BY_SHARE
from bertology.corpora.prompts._items import MADE as MADE
from bertology.corpora.prompts._items import ClozeItem as ClozeItem
from bertology.corpora.prompts._items import LeftOut as LeftOut
from bertology.corpora.prompts._items import names_items as names_items
from bertology.corpora.prompts._items import read_item_table as read_item_table
from bertology.corpora.prompts._items import required_tables as required_tables
from bertology.corpora.prompts._items import source_name as source_name
from bertology.corpora.prompts._items import with_masks as with_masks
