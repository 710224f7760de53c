"""Compression of encoders: pruned, quantised, of low rank, of fewer layers, distilled; written as model folders.

:func:`compress` (``_run.py``, to be read first) applies methods to a model in memory (``_methods.py``).
Importing this package imports no torch.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.compression._methods import (
        Distil,
        Heads,
        Layers,
        LowRank,
        Magnitude,
        Method,
        Neurons,
        Quantise,
        Theseus,
    )
    from bertology.compression._methods import smallest_weights as smallest_weights
    from bertology.compression._run import Compressed, compress, dynamic_int8, pieces_per_second, read_compressed
    from bertology.compression._run import timed_passes as timed_passes
    from bertology.compression._run import weight_bytes as weight_bytes

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Compressed",
    "Distil",
    "Heads",
    "Layers",
    "LowRank",
    "Magnitude",
    "Method",
    "Neurons",
    "Quantise",
    "Theseus",
    "compress",
    "dynamic_int8",
    "pieces_per_second",
    "read_compressed",
]
