"""Exchanged directions as a task: what the grammar of the pocket world says of its tables."""

import pytest

from bertology import probe
from bertology.probing import get_probe

pytestmark = pytest.mark.filterwarnings("error")


def test_one_direction_of_the_subject_carries_its_number(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, n in (("_ROUNDS", 18), ("_TEXTS", 6)):  # a shorter search, which has found it by then
        monkeypatch.setattr(f"bertology.causal.directions.{name}", n)
    asked = {"layers": [0, 4], "controls": "none", "max_items": 16, "out": f"{tmp_path}/run"}
    table = probe("directions:agreement", **asked).to_pandas()
    whole = table[table.group.isna()].set_index(["metric", "layer"]).value
    assert whole["exchange_accuracy", 0] > 0.8
    assert whole["exchange_effect", 0] > 0.7
    assert whole["exchange_effect", 4] == pytest.approx(0, abs=1e-5)
    assert whole["selectivity_nats", 0] > 0.8 * whole["log_odds_ratio_nats", 0]
    assert 0 <= whole["search_converged", 0] <= 1
    by_group = table.dropna(subset=["group"]).set_index(["metric", "group", "layer"]).value
    assert by_group["exchange_accuracy", "mask: das", 4] > 0.6
    assert abs(by_group["exchange_effect", "subject: random", 0]) < 0.1
    assert len({group for _, group, _ in by_group.index}) == 6 * 6


def test_facts_are_their_own_task() -> None:
    assert get_probe("directions:facts").dims == 16  # type: ignore[attr-defined]
