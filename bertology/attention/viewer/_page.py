"""The page: one HTML document with its style, script and maps inside it; maps are packed into bytes."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from bertology._page import full_page
from bertology.attention._ratios import Level
from bertology.attention.viewer._read import AttentionReading, Maps, ShownUnits, Weights

LEVELS: tuple[Level, ...] = ("word", "piece")
MOST_CELLS = 4_000_000
"""Weights that one page holds: a few megabytes once they are packed."""
_LEVEL = 6
_HERE = "attention/viewer/assets/"
# In this order, for each uses those before it.
_PARTS = "start maps pens pictures strokes tiles model heads matrix word panels stage search controls export outside"
_SCRIPTS = tuple(f"{_HERE}{name}.js" for name in _PARTS.split())


def render_page(values: dict[str, Any], maps: dict[str, str]) -> str:
    """The whole page of a :func:`payload`; it makes no request, and its content security policy allows none."""
    text = " ".join(values["panels"][0]["texts"])
    # Last in the page, after the script: what is seen first is drawn while they are still being read.
    parts = (f'<script type="text/plain" id="map-{name}">{content}</script>' for name, content in maps.items())
    return full_page(
        _HERE + "page.html",
        title=f"Attention: {text[:60]}{'…' if len(text) > 60 else ''}",
        styles=[_HERE + "viewer.css"],
        scripts=_SCRIPTS,
        values={
            "texts": _said(values["panels"]),
            "model": escape(" and ".join(dict.fromkeys(panel["model"] for panel in values["panels"]))),
            "maps": "\n".join(parts),
        },
        data=values,
    )


def _said(panels: Sequence[dict[str, Any]]) -> str:
    """The texts of the page as HTML, each once: of cross-attention a source and its target."""
    between = {"pair": " ", "target": " → "}
    texts = (between[panel["between"]].join(f"<q>{escape(one)}</q>" for one in panel["texts"]) for panel in panels)
    return " · ".join(dict.fromkeys(texts)) + " "


def payload(
    panels: Sequence[Sequence[AttentionReading]], *, level: Level, weights: Weights, threshold: float = 0.0
) -> tuple[dict[str, Any], dict[str, str]]:
    """Everything of a page but its looks, ``level``, ``weights`` and ``threshold`` as shown first: values, and base64
    of packed maps (:func:`pack`) by ``panel-kind-level-weights-layer``.

    Panels stand side by side; each has readings of one or several kinds, the first of which is shown first. A page
    holds both levels and all weights that were read where nothing has to be left out of them; for longer sentences only
    the given level and weights, with the strongest weights of every row.
    """
    readings = [reading for panel in panels for reading in panel]
    every: list[tuple[Level, Weights]] = [(one, other) for one in LEVELS for other in readings[0].weights]
    is_part = sum(_n_cells(reading, one) for reading in readings for one, _ in every) > MOST_CELLS
    sets = [(level, weights)] if is_part else every
    cells = MOST_CELLS // len(readings) if is_part else MOST_CELLS
    maps: dict[str, str] = {}
    sheets = []
    for number, panel in enumerate(panels):
        kinds = {}
        for reading in panel:
            kinds[reading.kind] = _sheet(reading)
            for of_level, of_weights in sets:
                name = f"{number}-{reading.kind}-{of_level}-{of_weights}"
                about, packed = _packed(reading, of_level, of_weights, cells=cells)
                kinds[reading.kind]["sets"][f"{of_level}-{of_weights}"] = about
                maps |= {f"{name}-{layer}": content for layer, content in packed.items()}
        sheets.append({**_about(panel), "kinds": kinds})
    start = {"level": level, "weights": weights, "threshold": threshold, "kind": readings[0].kind}
    return {"panels": sheets, "start": start, "isPart": is_part}, maps


def _n_cells(reading: AttentionReading, level: Level) -> int:
    n_maps = sum(map(len, reading.heads.values()))
    return n_maps * len(reading.units(level).labels) * len(reading.columns(level).labels)


def _about(panel: Sequence[AttentionReading]) -> dict[str, Any]:
    """What a panel shows: the texts of its first reading, which has all of them, and the model."""
    reading = panel[0]
    return {
        "texts": [sentence.text for sentence in reading.sentences],
        "between": "pair" if reading.kind == "encoder" else "target",
        # Of a folder the last part alone.
        "model": Path(reading.model).name if Path(reading.model).is_dir() else reading.model,
        "init": reading.init,
    }


def _sheet(reading: AttentionReading) -> dict[str, Any]:
    """The maps of one kind: which there are, and their rows and columns."""
    inputs = [reading.given, *([reading.source] if reading.source else [])]
    units = {one: _units(reading.units(one)) | {"arcs": _arcs(reading, one)} for one in LEVELS}
    return {
        "layers": [{"layer": layer, "heads": list(heads)} for layer, heads in reading.heads.items()],
        "levels": units,
        "columns": {one: _units(reading.columns(one)) for one in LEVELS} if reading.source else None,
        "leftOut": [form for one in inputs for form in one.left_out],
        "sets": {},
    }


def _units(units: ShownUnits) -> dict[str, Any]:
    special = list(map(int, units.special))
    return {"labels": list(units.labels), "special": special, "segment": list(units.segment), "word": list(units.word)}


def _packed(
    reading: AttentionReading, level: Level, weights: Weights, *, cells: int
) -> tuple[dict[str, Any], dict[int, str]]:
    """What a set of maps is of, and the maps of each layer in base64."""
    n_maps, n_units = sum(map(len, reading.heads.values())), len(reading.columns(level).labels)
    kept = most_kept(n_maps, n_units, cells=cells, n_rows=len(reading.units(level).labels))
    covered, maps = [], {}
    for layer in reading.layers:
        content, share = pack(reading.maps(layer, level=level, weights=weights), kept=kept)
        covered.append(share)
        maps[layer] = base64.b64encode(content).decode()
    return {"kept": kept, "covered": round(float(np.mean(covered)), 4)}, maps


def _arcs(reading: AttentionReading, level: Level) -> list[list[Any]]:
    """Gold dependencies as places of the dependent and its head, and the relation; a root has no arc."""
    if reading.source is not None:
        return []
    place = {word: number for number, word in reversed(list(enumerate(reading.units(level).word)))}
    arcs: list[list[Any]] = []
    before = 0
    for sentence in reading.sentences:
        relations = sentence.layers.get("deprel", (None,) * len(sentence))
        for word, head in enumerate(sentence.heads or ()):
            ends = place.get(before + word), place.get(before + head - 1)
            if head > 0 and None not in ends:
                arcs.append([*ends, relations[word] or ""])
        before += len(sentence)
    return arcs


def most_kept(n_maps: int, n_units: int, *, cells: int = MOST_CELLS, n_rows: int | None = None) -> int:
    """How many weights of each row can be kept when ``n_maps`` maps share so many ``cells`` of a page; of maps that
    are not square ``n_rows`` is the number of their rows."""
    rows = n_maps * (n_rows or n_units)
    return n_units if rows * n_units <= cells else min(n_units, max(1, cells // rows))


def pack(maps: Maps, *, kept: int) -> tuple[bytes, float]:
    """Pack the maps of the heads of one layer: eight bits a weight with a scale a row.

    The bytes, once unzipped, are: a scale a row (float32), the largest weight of it; where weights are left out, the
    sum of each row (float32), then the column of each kept weight as its distance from the one before (low bytes,
    then high bytes); and the weights (8 bits, 255 is the scale).

    Of ``[head, unit, unit]`` so many of the largest weights of each row are ``kept``. Returned with the bytes is the
    share of the rows' mass that these have, on average.
    """
    n_units = maps.shape[2]
    rows = maps.reshape(-1, n_units)
    scale = rows.max(1)
    total = rows.sum(1, dtype=np.float64).astype(np.float32)
    parts = [scale.astype("<f4").tobytes()]
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
    return gzip.compress(b"".join(parts), _LEVEL, mtime=0), covered
