"""Causal tracing as a task: facts of the pocket world come from their subject."""

import pytest

from bertology import probe


def test_facts_come_from_the_subject(tmp_path: object) -> None:
    found = probe("tracing", layers=[0, 1, 4], max_items=15, random_draws=1, out=f"{tmp_path}/run").to_pandas()
    own = found[found.init == "pretrained"]
    whole = own[own.group.isna()].set_index(["metric", "layer"]).value
    by_place = own[own.metric == "effect"].dropna(subset=["group"]).set_index(["group", "layer"]).value
    assert whole["effect", 0] == pytest.approx(1, abs=1e-5)
    assert whole["effect", 4] == pytest.approx(0, abs=1e-5)
    assert by_place["mask", 4] == pytest.approx(1, abs=1e-5)
    assert by_place["all", 1] == pytest.approx(1, abs=1e-5)
    assert whole["probability_plain", 0] > 3 * whole["probability_noised", 0]
    assert whole["known", 0] > 0.8
    # Random weights know nothing, so that there is nothing to trace.
    random = found[found.init == "random"]
    assert set(random.metric) == {"known"}
    assert (random.value == 0).all()
