"""Attribution as a task: what tables say of texts whose cause is known."""

import pytest

from bertology import probe


def test_methods_are_told_apart_by_whether_they_find_the_cause(tmp_path: object) -> None:
    asked = {"controls": "none", "max_items": 20, "layers": "0-3"}
    found = probe("attribution:agreement", out=f"{tmp_path}/run", **asked).to_pandas()
    by_method = found[found.metric == "top_is_cause"].dropna(subset=["group"]).set_index(["group", "layer"]).value
    assert by_method["leave one out", 0] > 0.6
    assert by_method["random", 0] < 0.35
    assert ("attention", 0) not in by_method.index
    assert by_method["attention", 3] > 0.5 > by_method["attention", 1]
    whole = found[found.group.isna()].set_index(["metric", "layer"]).value
    assert whole["top_is_cause", 2] == by_method["gradient × input", 2]
    assert whole["completeness_error", 0] < 0.01
    tau = found[(found.metric == "rank_correlation") & (found.group == "leave one out")].value
    assert tau.tolist() == pytest.approx([1.0])
