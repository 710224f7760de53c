from __future__ import annotations

import json

import pytest

from bertology.errors import BertologyError, CorpusError
from bertology.pocket import model_folder
from bertology_probes.numeracy import PROBE


@pytest.mark.parametrize(
    ("kind", "size", "clusters"), [("decode", 300, 100), ("maximum", 360, 180), ("addition", 272, 52)]
)
def test_items(kind, size, clusters):
    probe = PROBE.make(kind)
    items = probe.items("made")
    assert probe.task == f"numeracy:{kind}"
    assert probe.asks == "choices"
    assert (len(items), len({item.cluster for item in items.items})) == (size, clusters)
    assert all(item.text.count("{mask}") == 1 and item.blind.endswith("{mask}.") for item in items.items)
    assert not items.left_out


def test_the_pocket_world_cannot_count():
    with pytest.raises(CorpusError, match=r"the pocket world has no numbers but two, three, .*; give made"):
        PROBE.make("decode").items("pocket")
    vocabulary = json.loads((model_folder() / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    known = {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"} & vocabulary.keys()
    assert known == {"two", "three", "four", "five"}
    assert not any(piece.isdecimal() for piece in vocabulary)


def test_what_there_is_not():
    with pytest.raises(BertologyError, match="task numeracy:product: it should be one of decode, maximum, addition"):
        PROBE.make("product")
    with pytest.raises(CorpusError, match=r"items are made by rule and read from no file; give made"):
        PROBE.make("addition").items("some/file")
