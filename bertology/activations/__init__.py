"""Word vectors of a text by layer: extracted once from an encoder, kept in a store on disk, read chunk by chunk.

:func:`extract` (``_extract.py``, to be read first) fills an :class:`Entry` of the store (``store.py``), found by its
:class:`Recipe`; :class:`WordVectors` and :class:`SpanVectors` are what readouts are fitted to. ``_neurox.py``
exchanges vectors with other tools, ``progress.py`` shows how far a long job is.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.activations.store import Entry, Recipe, brief_store, empty_store, memory_of, use_store

if TYPE_CHECKING:
    from bertology.activations._extract import Extraction, extract
    from bertology.activations._neurox import export_neurox, import_neurox
    from bertology.activations._vectors import SpanChunk as SpanChunk
    from bertology.activations._vectors import SpanVectors, WordVectors
    from bertology.activations._vectors import check_spans as check_spans
    from bertology.encoders.encoder import read_words

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Entry",
    "Extraction",
    "Recipe",
    "SpanVectors",
    "WordVectors",
    "brief_store",
    "empty_store",
    "export_neurox",
    "extract",
    "import_neurox",
    "memory_of",
    "read_words",
    "use_store",
]
