"""Methods against known truth: the pocket world's causes, by construction, and what methods give to them."""

from typing import Any

import numpy as np
import pytest

from bertology import BertologyError, probe
from bertology.causal.truth import Importance, decided_rightly
from bertology.encoders import load_encoder
from bertology.pocket import truth_items


@pytest.mark.parametrize("of", ["agreement", "facts", "tense", "shortcut"])
def test_each_version_of_a_text_differs_in_one_property(of: str) -> None:
    items = truth_items(of, 40)
    assert len({item.text for item in items}) == 40
    for item in items:
        words = [text.split() for text in (item.text, item.cause, item.unused)]
        differ = [{n for n, (a, b) in enumerate(zip(words[0], one, strict=True)) if a != b} for one in words[1:]]
        assert len(differ[0]) == len(differ[1]) == 1
        assert not differ[0] & differ[1]
        assert item.good != item.bad
        assert item.values[0] != item.values[1]
        assert item.values[2] != item.values[3]
    if of != "facts":  # both values of the unused property with both decisions
        assert len({(item.values[0], item.values[2]) for item in items}) == 4


def test_importance_of_a_method_that_is_known() -> None:
    """The layer is chosen by the cause alone; shares are ratios of sums."""
    cause, unused = np.array([[1.0, 1], [2, 4]]), np.array([[5.0, 5], [1, 2]])
    one = Importance((1, 2), cause, unused, first=np.array([[0.0, 1], [1, 1]]))
    found = {sums.metric: sums for sums in one.sums("planted", ["a", "b"])}
    assert found["unused_share"].values.tolist() == pytest.approx([5, 0.5])
    assert found["unused_share_strongest"].layers == (2,)
    assert found["unused_share_strongest"].values.tolist() == pytest.approx([0.5])
    assert found["cause_first_strongest"].values.tolist() == pytest.approx([1])


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few points of paths and few rounds of the search for a direction, none of which is tested here."""
    for name, n in (("truth._STEPS", 20), ("truth._PATH", 2), ("directions._ROUNDS", 2)):
        monkeypatch.setattr(f"bertology.causal.{name}", n)


def test_the_model_knows_agreement_and_methods_differ() -> None:
    encoder = load_encoder("pocket", device="cpu")
    assert decided_rightly(encoder, truth_items("agreement", 60)).count(True) > 40
    frame = probe("truth:agreement", layers=[0, 3], controls="none", device="cpu", max_items=40).to_pandas()
    found = frame[frame["metric"] == "unused_share_strongest"].set_index("group")["value"]
    assert found["words exchanged (the truth)"] < 0.3
    assert found["patching"] < 0.3
    assert found["probe"] > 0.6
    assert found["integrated gradients"] < 0.6


def test_a_planted_shortcut_is_found() -> None:
    readout: Any = {"name": "interventions", "settings": {"n_train": 400, "lr": 1e-3}}
    asked: Any = {"readout": readout, "max_items": 24, "layers": [0, 4], "controls": "none", "device": "cpu"}
    frame = probe("truth:shortcut:2", **asked).to_pandas()
    of = frame.set_index(["metric", "group"])["value"]
    assert of["decision_accuracy"].max() > 0.95
    for method in ("leave one out", "integrated gradients"):
        assert of["cause_first_strongest", method] > 0.9
    assert of["unused_share_strongest", "words exchanged (the truth)"] < 0.2
    with pytest.raises(BertologyError, match=r"known cause .* such as agreement, facts, tense, shortcut"):
        probe("truth:shortcuts")
