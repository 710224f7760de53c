"""Pages on sentences of tiny encoders."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology.encoders import Encoder, load_encoder

SENTENCE = "The unhappy farmers near the river see the dog."
SECOND = "It sleeps under a tree."
HOSTILE = "</script><img src=x onerror=document.title='owned'>{{data}}"


@pytest.fixture(scope="session")
def encoder(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert), device="cpu")


def values_of(html: str) -> dict[str, Any]:
    """What the script of a page is given of its first panel's first kind of attention."""
    values = page_of(html)
    panel = values["panels"][0]
    return values["start"] | {"isPart": values["isPart"]} | panel | panel["kinds"][values["start"]["kind"]]


def page_of(html: str) -> dict[str, Any]:
    """What the script of a page is given."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    values: dict[str, Any] = json.loads(found[1])
    return values


def maps_of(html: str, level: str, weights: str, layer: int, *, panel: int = 0, kind: str = "encoder") -> Any:
    """The maps of a layer as the script of a page unpacks them."""
    name = f"{panel}-{kind}-{level}-{weights}-{layer}"
    found = re.search(rf'<script type="text/plain" id="map-{name}">(.*?)</script>', html)
    assert found is not None
    values = page_of(html)["panels"][panel]["kinds"][kind]
    heads = next(one["heads"] for one in values["layers"] if one["layer"] == layer)
    sizes = [len((values[side] or values["levels"])[level]["labels"]) for side in ("levels", "columns")]
    kept = values["sets"][f"{level}-{weights}"]["kept"]
    return unpack(base64.b64decode(found[1]), len(heads), *sizes, kept=kept)


def unpack(content: bytes, n_heads: int, n_units: int, n_columns: int, *, kept: int) -> Any:
    """``[head, unit, column]`` what the page's script reads; weights that were left out are 0."""
    content = gzip.decompress(content)
    n_rows = n_heads * n_units
    n_cells = n_rows * kept
    scale = np.frombuffer(content, "<f4", n_rows)
    values = np.frombuffer(content, np.uint8, n_cells, len(content) - n_cells).reshape(n_rows, kept)
    weights = (values / np.float32(255) * scale[:, None]).astype(np.float32)
    shape = (n_heads, n_units, n_columns)
    if kept == n_columns:
        return weights.reshape(shape)
    low = np.frombuffer(content, np.uint8, n_cells, 8 * n_rows).astype(np.int64)
    high = np.frombuffer(content, np.uint8, n_cells, 8 * n_rows + n_cells).astype(np.int64)
    columns = np.cumsum((low + 256 * high).reshape(n_rows, kept), axis=1)
    rows = np.zeros((n_rows, n_columns), dtype=np.float32)
    np.put_along_axis(rows, columns, weights, axis=1)
    return rows.reshape(shape)
