"""Hidden states read once, kept on disk, and given to readouts chunk by chunk."""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.activations._entry import Entry, Outline, Recipe, entry_folder, find_entry
from bertology.activations._neurox import export_neurox, import_neurox
from bertology.activations._progress import BarProgress, Progress, SilentProgress, silent
from bertology.activations._upkeep import StoreStatus, prune_store, store_status

if TYPE_CHECKING:
    from bertology.activations._extract import Extraction, extract, whole_entry
    from bertology.activations._span_vectors import SpanVectors
    from bertology.activations._vectors import WordVectors
    from bertology.activations._words import read_words

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "BarProgress",
    "Entry",
    "Extraction",
    "Outline",
    "Progress",
    "Recipe",
    "SilentProgress",
    "SpanVectors",
    "StoreStatus",
    "WordVectors",
    "entry_folder",
    "export_neurox",
    "extract",
    "find_entry",
    "import_neurox",
    "prune_store",
    "read_words",
    "silent",
    "store_status",
    "whole_entry",
]
