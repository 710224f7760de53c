"""The page of a map: one HTML document with its style, script, places and sentences inside it, packed into bytes."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._names import folder_name
from bertology._page import full_page
from bertology.geometry._occurrences import Codes, Integers, Occurrence, SearchedText
from bertology.geometry.map._projection import Planes

_HERE = "geometry/map/assets/"
_STYLES = "attention/assets/viewer.css", _HERE + "map.css"
# In this order, for each uses those before it.
_SCRIPTS = tuple(f"{_HERE}{name}.js" for name in ("start", "view", "paint", "words", "controls"))
_NONE = 65_535
_LEVELS = 65_535
_WIDTH = 300
"""Characters of a long sentence that are kept on each side of the word."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Some of the points and where they lie."""

    name: str
    """``all``, or ``form`` for the occurrences of the query's form."""
    points: Integers
    """``[place]`` numbers of points."""
    planes: Planes
    """Places of these."""

    @property
    def limit(self) -> float:
        """The largest absolute coordinate."""
        return max(float(np.abs(self.planes.places).max()), 1e-6)

    def packed(self) -> bytes:
        """``[place]`` 32-bit numbers of points, then their ``[layer, axis, place]`` coordinates in 16 bits."""
        levels = np.round((self.planes.places.astype(np.float64) / self.limit + 1) / 2 * _LEVELS).astype("<u2")
        return self.points.astype("<u4").tobytes() + np.ascontiguousarray(levels.transpose(0, 2, 1)).tobytes()


@dataclass(frozen=True, eq=False)
class MapContent:
    """What a page shows."""

    query: Occurrence
    words: Integers
    """``[point]`` numbers of words in the text; −1 for the first, which is the query."""
    text: SearchedText
    layers: tuple[int, ...]
    layouts: tuple[Layout, ...]
    """Of all points first."""
    near: Integers
    """``[layer, k]`` the nearest words."""
    cosines: NDArray[np.float64]
    projection: str
    n_of_form: int
    """Number of words of the query's form in the text."""
    names: Mapping[str, str]
    """Of the model and the corpus."""


def render_page(content: MapContent) -> str:
    """The whole page; it makes no request, and its content security policy allows none."""
    values, packed = payload(content)
    query = content.query
    before, after = query.context(_WIDTH)
    parts = (f'<script type="text/plain" id="packed-{name}">{text}</script>' for name, text in packed.items())
    return full_page(
        _HERE + "page.html",
        title=f"Neighbours of {query.word}: {query.text[:60]}{'…' if len(query.text) > 60 else ''}",
        styles=_STYLES,
        scripts=_SCRIPTS,
        values={
            "sentence": f"{escape(before)}<mark>{escape(query.word)}</mark>{escape(after)}",
            "model": escape(folder_name(content.names.get("model", "the model"))),
            "corpus": escape(content.names.get("corpus", "the text")),
            "packed": "\n".join(parts),
        },
        data=values,
    )


def payload(content: MapContent) -> tuple[dict[str, Any], dict[str, str]]:
    """Everything of a page but its looks: values, and base64 of what is packed by gzip, ``points`` and ``texts``.

    ``points`` is, without gaps and little-endian: each :meth:`Layout.packed`, coordinates from −``limit`` at 0 to
    ``limit`` at 65,535; then ``[point]`` 32-bit numbers of texts; then 16-bit begins and ends of words in their texts,
    in UTF-16 units as JavaScript counts; then 16-bit values of each kind, 65,535 for none.
    """
    kinds = {name: _coded(codes, own, content.words[1:]) for name, codes, own in _kinds(content)}
    texts, numbers, spans = _sentences(content)
    points = b"".join(
        [
            *(layout.packed() for layout in content.layouts),
            numbers.astype("<u4").tobytes(),
            np.ascontiguousarray(spans.T).astype("<u2").tobytes(),
            *(codes.astype("<u2").tobytes() for _, codes in kinds.values()),
        ]
    )
    point_of = np.searchsorted(content.words[1:], content.near) + 1
    layers = [
        {
            "layer": layer,
            "near": point_of[row].tolist(),
            "cosines": content.cosines[row].round(4).tolist(),
        }
        for row, layer in enumerate(content.layers)
    ]
    values = {
        "word": content.query.word,
        "nPoints": len(content.words),
        "nTexts": len(texts),
        "layouts": [_about(layout) for layout in content.layouts],
        "layers": layers,
        "kinds": {name: names for name, (names, _) in kinds.items()},
        "projection": content.projection,
        "nWords": len(content.text.words),
        "nOfForm": content.n_of_form,
    }
    packed_texts = json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()
    return values, {"points": _packed(points), "texts": _packed(packed_texts)}


def _about(layout: Layout) -> dict[str, Any]:
    shares = layout.planes.shares
    shown = None if shares is None else shares.round(6).tolist()
    return {"name": layout.name, "n": len(layout.points), "limit": layout.limit, "shares": shown}


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()


def _kinds(content: MapContent) -> list[tuple[str, Codes, str | None]]:
    """Kinds of values that the text has, with the query's own."""
    text, query = content.text, content.query
    every = [
        ("word", text.forms, query.word.lower()), ("tag", text.tags, query.tag), ("sense", text.senses, query.sense)
    ]  # fmt: skip
    return [one for one in every if one[1].values]


def _coded(codes: Codes, own: str | None, words: Integers) -> tuple[list[str], NDArray[np.int64]]:
    """The values that points have, the most frequent first, and ``[point]`` their numbers; the query comes first."""
    used, inverse, counts = np.unique(codes.codes[words], return_inverse=True, return_counts=True)
    names = [None if code < 0 else codes.values[code] for code in used.tolist()]
    if own is not None and own not in names:
        names.append(own)
        counts = np.append(counts, 0)
    ranked = [int(place) for place in np.argsort(-counts, kind="stable") if names[place] is not None]
    number = np.full(len(names), _NONE)
    number[ranked] = np.arange(len(ranked))
    first = _NONE if own is None else number[names.index(own)]
    return [str(names[place]) for place in ranked], np.concatenate([[first], number[inverse]])


def _sentences(content: MapContent) -> tuple[list[list[str]], Integers, Integers]:
    """Texts with where they are from, ``[point]`` the number of each point's text, and ``[point, 2]`` places there."""
    place: dict[tuple[str, str], int] = {}
    numbers, spans = [], []
    for word in content.words.tolist():
        one = content.query if word < 0 else content.text.occurrence(word)
        text, (start, end) = one.text, one.span
        if len(text) > 2 * _WIDTH:
            before, after = one.context(_WIDTH)
            text = f"{before}{text[start:end]}{after}"
            start, end = len(before), len(before) + end - start
        where = f"{one.split} · {one.sentence}" if one.split else ""
        numbers.append(place.setdefault((text, where), len(place)))
        spans.append((_units(text[:start]), _units(text[:end])))
    return [list(one) for one in place], np.array(numbers), np.array(spans)


def _units(text: str) -> int:
    """Length of a text in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text) if not text.isascii() else len(text)
