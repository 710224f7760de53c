"""Pages on sentences of tiny encoders."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from bertology.attention.viewer._pack import PackedLayer, unpack
from bertology.encoders import Encoder, load_encoder

SENTENCE = "The unhappy farmers near the river see the dog."
SECOND = "It sleeps under a tree."
HOSTILE = "</script><img src=x onerror=document.title='owned'>{{data}}"


@pytest.fixture(scope="session")
def encoder(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert), device="cpu")


def values_of(html: str) -> dict[str, Any]:
    """What the script of a page is given."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    values: dict[str, Any] = json.loads(found[1])
    return values


def maps_of(html: str, level: str, weights: str, layer: int) -> Any:
    """The maps of a layer as the script of a page unpacks them."""
    found = re.search(rf'<script type="text/plain" id="map-{level}-{weights}-{layer}">(.*?)</script>', html)
    assert found is not None
    values = values_of(html)
    heads = next(one["heads"] for one in values["layers"] if one["layer"] == layer)
    n_units = len(values["levels"][level]["labels"])
    kept = values["sets"][f"{level}-{weights}"]["kept"]
    return unpack(PackedLayer(base64.b64decode(found[1]), len(heads), n_units, kept, 1.0))
