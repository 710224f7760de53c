"""Quantities in words, in the unit in which they are read most easily."""

from __future__ import annotations


def size_in_words(n_bytes: float) -> str:
    """Bytes in the largest decimal unit of which there is at least one, to three digits: ``1.06 GB``, ``340 kB``."""
    units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
    unit, name = next((unit, name) for unit, name in units if n_bytes >= unit or unit == 1)
    amount = n_bytes / unit
    return f"{amount:.0f} {name}" if amount >= 99.5 else f"{amount:.3g} {name}"
