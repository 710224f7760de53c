"""The page: one HTML document with its style, script and maps inside it; maps are packed into bytes."""

from __future__ import annotations

import base64
import gzip
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from bertology import __version__
from bertology._page import asset, embedded_json, fill, policy
from bertology.attention._ratios import Level
from bertology.attention.viewer._read import AttentionReading, Maps, Weights
from bertology.corpora import Sentence

LEVELS: tuple[Level, ...] = ("word", "piece")
MOST_CELLS = 4_000_000
"""Weights that one page holds: a few megabytes once they are packed."""
_LEVEL = 6
_HERE = "attention/viewer/assets/"
# The report's looks, so that what the project writes looks alike.
_STYLES = ("results/report/assets/page.css", _HERE + "viewer.css")
_THEME = "results/report/assets/theme.js"
# In this order, for each uses those before it.
_PARTS = "start maps pens pictures strokes tiles model heads word stage controls export outside"
_SCRIPTS = tuple(f"{_HERE}{name}.js" for name in _PARTS.split())


def render_page(values: dict[str, Any], maps: dict[str, str]) -> str:
    """The whole page of a :func:`payload`; it makes no request, and its content security policy allows none."""
    style = "\n".join(asset(name) for name in _STYLES)
    script = "\n".join(asset(name) for name in _SCRIPTS)
    theme = asset(_THEME)
    text = " ".join(values["texts"])
    # Last in the page, after the script: what is seen first is drawn while they are still being read.
    parts = (f'<script type="text/plain" id="map-{name}">{content}</script>' for name, content in maps.items())
    return fill(
        asset(_HERE + "page.html"),
        {
            "policy": policy(style, theme, script),
            "title": escape(f"Attention: {text[:60]}{'…' if len(text) > 60 else ''}"),
            "texts": "".join(f"<q>{escape(one)}</q> " for one in values["texts"]),
            "model": escape(values["model"]),
            "version": escape(__version__),
            "style": style,
            "theme": theme,
            "data": embedded_json(values),
            "script": script,
            "maps": "\n".join(parts),
        },
    )


def payload(reading: AttentionReading, *, level: Level, weights: Weights) -> tuple[dict[str, Any], dict[str, str]]:
    """Everything of a page but its looks, ``level`` and ``weights`` shown first: values, and base64 of packed maps
    (:func:`pack`) by ``level-weights-layer``.

    A page holds both levels and all weights that were read where nothing has to be left out of them; for longer
    sentences only the given level and weights, with the strongest weights of every row.
    """
    n_maps = sum(len(heads) for heads in reading.heads.values())
    every: list[tuple[Level, Weights]] = [(one, other) for one in LEVELS for other in reading.weights]
    cells = n_maps * sum(len(reading.units(one).labels) ** 2 for one, _ in every)
    sets = every if cells <= MOST_CELLS else [(level, weights)]
    maps, about = {}, {}
    for of_level, of_weights in sets:
        kept = most_kept(n_maps, len(reading.units(of_level).labels))
        covered = []
        for layer in reading.layers:
            content, share = pack(reading.maps(layer, level=of_level, weights=of_weights), kept=kept)
            covered.append(share)
            maps[f"{of_level}-{of_weights}-{layer}"] = base64.b64encode(content).decode()
        about[f"{of_level}-{of_weights}"] = {"kept": kept, "covered": round(float(np.mean(covered)), 4)}
    values = {
        "texts": [sentence.text for sentence in reading.sentences],
        # Of a folder the last part alone.
        "model": Path(reading.model).name if Path(reading.model).is_dir() else reading.model,
        "init": reading.init,
        "layers": [{"layer": layer, "heads": list(heads)} for layer, heads in reading.heads.items()],
        "levels": {one: _units(reading, one) for one in LEVELS},
        "sets": about,
        "level": level,
        "weights": weights,
        "isPart": len(sets) < len(every),
        "leftOut": list(reading.given.left_out),
    }
    return values, maps


def _units(reading: AttentionReading, level: Level) -> dict[str, Any]:
    units = reading.units(level)
    place = {word: number for number, word in reversed(list(enumerate(units.word)))}
    shown = {"labels": list(units.labels), "special": list(map(int, units.special)), "segment": list(units.segment)}
    return {**shown, "arcs": _arcs(reading.sentences, place)}


def _arcs(sentences: tuple[Sentence, ...], place: dict[int, int]) -> list[list[Any]]:
    """Gold dependencies as places of the dependent and its head, and the relation; a root has no arc."""
    arcs: list[list[Any]] = []
    before = 0
    for sentence in sentences:
        relations = sentence.layers.get("deprel", (None,) * len(sentence))
        for word, head in enumerate(sentence.heads or ()):
            ends = place.get(before + word), place.get(before + head - 1)
            if head > 0 and None not in ends:
                arcs.append([*ends, relations[word] or ""])
        before += len(sentence)
    return arcs


def most_kept(n_maps: int, n_units: int, *, cells: int = MOST_CELLS) -> int:
    """How many weights of each row can be kept when ``n_maps`` maps share a page."""
    return n_units if n_maps * n_units**2 <= cells else min(n_units, max(1, cells // (n_maps * n_units)))


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
