"""Maps as bytes: eight bits a weight with a scale a row, of long sentences only the strongest weights of each row."""

from __future__ import annotations

import gzip
from dataclasses import dataclass

import numpy as np

from bertology.attention.viewer._read import Maps

MOST_CELLS = 4_000_000
"""Weights that one page holds: a few megabytes once they are packed."""
_LEVEL = 6


@dataclass(frozen=True)
class PackedLayer:
    """Maps of the heads of one layer, packed.

    The bytes, once unzipped, are: a scale a row (float32), the largest weight of it; where weights are left out, the
    sum of each row (float32), then the column of each kept weight as its distance from the one before (low bytes,
    then high bytes); and the weights (8 bits, 255 is the scale).
    """

    content: bytes
    n_heads: int
    n_units: int
    kept: int
    """Weights of each row; ``n_units`` where none is left out."""
    covered: float
    """Share of the rows' mass that the kept weights have, on average."""


def most_kept(n_maps: int, n_units: int, *, cells: int = MOST_CELLS) -> int:
    """How many weights of each row can be kept when ``n_maps`` maps share a page."""
    return n_units if n_maps * n_units**2 <= cells else min(n_units, max(1, cells // (n_maps * n_units)))


def pack(maps: Maps, *, kept: int) -> PackedLayer:
    """Pack ``[head, unit, unit]`` maps, keeping the ``kept`` largest weights of each row."""
    n_heads, n_units, _ = maps.shape
    rows = maps.reshape(-1, n_units)
    scale = rows.max(1)
    total = rows.sum(1, dtype=np.float64).astype(np.float32)
    parts: list[bytes] = [scale.astype("<f4").tobytes()]
    if kept < n_units:
        columns = np.sort(np.argpartition(-rows, kept - 1, axis=1)[:, :kept], axis=1)
        rows = np.take_along_axis(rows, columns, axis=1)
        gaps = np.diff(columns, axis=1, prepend=0).astype("<u2")
        parts += [total.astype("<f4").tobytes(), (gaps & 255).astype(np.uint8).tobytes()]
        parts.append((gaps >> 8).astype(np.uint8).tobytes())
    safe = np.where(scale > 0, scale, 1)[:, None]
    parts.append(np.rint(rows / safe * 255).astype(np.uint8).tobytes())
    covered = float(np.mean(rows.sum(1) / np.where(total > 0, total, 1)))
    # The same maps are the same bytes: no time is written into them.
    return PackedLayer(gzip.compress(b"".join(parts), _LEVEL, mtime=0), n_heads, n_units, kept, covered)


def unpack(packed: PackedLayer) -> Maps:
    """``[head, unit, unit]`` what the page's script reads; weights that were left out are 0."""
    content = gzip.decompress(packed.content)
    n_rows = packed.n_heads * packed.n_units
    n_cells = n_rows * packed.kept
    scale = np.frombuffer(content, "<f4", n_rows)
    values = np.frombuffer(content, np.uint8, n_cells, len(content) - n_cells).reshape(n_rows, packed.kept)
    weights: Maps = (values / np.float32(255) * scale[:, None]).astype(np.float32)
    shape = (packed.n_heads, packed.n_units, packed.n_units)
    if packed.kept == packed.n_units:
        return weights.reshape(shape)
    low = np.frombuffer(content, np.uint8, n_cells, 8 * n_rows).astype(np.int64)
    high = np.frombuffer(content, np.uint8, n_cells, 8 * n_rows + n_cells).astype(np.int64)
    columns = np.cumsum((low + 256 * high).reshape(n_rows, packed.kept), axis=1)
    rows: Maps = np.zeros((n_rows, packed.n_units), dtype=np.float32)
    np.put_along_axis(rows, columns, weights, axis=1)
    return rows.reshape(shape)
