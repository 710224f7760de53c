"""Patching as a task: what the grammar of the pocket world says of its tables."""

from __future__ import annotations

import pytest

from bertology import probe
from bertology.errors import BertologyError

pytestmark = pytest.mark.filterwarnings("error")


def test_number_is_carried_by_the_subject_then_the_mask_and_by_nothing_else(tmp_path: object) -> None:
    found = probe("patching:agreement", layers=[0, 2, 4], controls="none", max_items=60, out=f"{tmp_path}/run")
    table = found.to_pandas()
    whole = table[table.group.isna()].set_index(["metric", "layer"]).value
    by_place = table[table.metric == "effect"].dropna(subset=["group"]).set_index(["group", "layer"]).value
    assert whole["effect", 0] == pytest.approx(1, abs=1e-5)
    assert by_place["mask", 4] == pytest.approx(1, abs=1e-5)
    assert by_place["all", 2] == pytest.approx(1, abs=1e-5)
    assert abs(whole["same_value_effect", 0]) < 0.05 < 0.9 < whole["unrelated_effect", 0]
    assert whole["moved_effect", 0] > 0.8
    assert whole["interchange_accuracy", 0] > 0.9
    # At the last layer the subject no longer matters: texts of the same value keep their word, others do too.
    assert whole["interchange_accuracy", 4] == pytest.approx(0.5, abs=0.05)


def test_heads_and_facts(tmp_path: object) -> None:
    found = probe("patching:facts", layers=[0, 4], controls="none", out=f"{tmp_path}/facts").to_pandas()
    whole = found[found.group.isna()].set_index(["metric", "layer"]).value
    assert whole["effect", 0] == pytest.approx(1, abs=1e-5)
    assert whole["effect", 4] == pytest.approx(0, abs=1e-5)
    assert (found.n_skipped >= 0).all()


def test_a_construction_that_is_not_there_is_named() -> None:
    with pytest.raises(BertologyError, match="no two items of structure nowhere"):
        probe("patching:agreement:nowhere")
    with pytest.raises(BertologyError, match="patching:verbs"):
        probe("patching:verbs")
