"""Word vectors of a text by layer: extracted once from an encoder, kept in a store on disk, read chunk by chunk.

:func:`extract` (``_extract.py``, to be read first) fills an :class:`Entry` of the store (``_store.py``), found by its
:class:`Recipe`; :class:`WordVectors` and :class:`SpanVectors` are what readouts are fitted to. ``_neurox.py``
exchanges vectors with other tools, ``_progress.py`` shows how far a long job is.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.activations._neurox import export_neurox, import_neurox
from bertology.activations._progress import BarProgress, Progress, can_show, silent
from bertology.activations._store import Entry, Recipe, StoreStatus, prune_store, store_status

if TYPE_CHECKING:
    from bertology.activations._extract import Extraction, extract
    from bertology.activations._vectors import SpanVectors, WordVectors
    from bertology.encoders.encoder import read_words

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "BarProgress",
    "Entry",
    "Extraction",
    "Progress",
    "Recipe",
    "SpanVectors",
    "StoreStatus",
    "WordVectors",
    "can_show",
    "export_neurox",
    "extract",
    "import_neurox",
    "prune_store",
    "read_words",
    "silent",
    "store_status",
]
