"""Random weights are drawn as often as asked for, and scores are means over draws and over seeds."""

import json
from pathlib import Path
from typing import Any

import pytest

from bertology.errors import BertologyError
from bertology.families import labels
from bertology.families.model_corpus import Weights
from bertology.results import read_results
from bertology.runner import ProbeRequest, run_probes
from bertology.runner.plan import Shard, make_plan, places_of
from tests.runner.requests import but


@pytest.fixture
def request_of(tiny_bert: Path, tiny_corpus: Path) -> ProbeRequest:
    return ProbeRequest(model=str(tiny_bert), corpus=str(tiny_corpus), layers="0,1", controls=("random",))


def test_one_draw_is_the_default_and_none_where_chance_is_known() -> None:
    for task, controls, random_draws, expected in (
        ("pos", "all", "auto", True),
        ("lama", "all", "auto", True),
        ("minimal_pairs", "all", "auto", False),
        ("minimal_pairs", "random", "auto", True),  # named
        ("minimal_pairs", "all", 1, True),
        ("pos", "majority", 3, False),
    ):
        asked = ProbeRequest(tasks=(task,), controls=controls, random_draws=random_draws)
        assert ("random" in {place.init for place in places_of(asked, Shard())}) is expected
    assert ProbeRequest().n_draws == 1
    assert ProbeRequest(random_draws=4).n_draws == 4


def test_random_weights_are_drawn_three_times(request_of: ProbeRequest, tmp_path: Path) -> None:
    results = run_probes(but(request_of, random_draws=3), out=tmp_path / "out")
    frame = results.to_pandas()
    fresh = frame[(frame.init == "random") & (frame.metric == "accuracy")]
    assert sorted(set(fresh.init_seed)) == [0, 10_000, 20_000]
    assert fresh.model_fingerprint.nunique() == 3
    for layer, rows in fresh.groupby("layer"):
        assert len(rows) == 3
        assert rows.value.nunique() > 1
        assert set(rows.n_runs) == {3}
        assert set(rows["mean"]) == {rows["mean"].iloc[0]}
        first = rows.iloc[0]
        assert first["mean"] == pytest.approx(rows.value.mean())
        # Three draws that differ: wider than one draw's interval over sentences.
        assert first.mean_stderr**2 > rows.value.var(ddof=1) / 3
        assert first.mean_ci_low < first["mean"] < first.mean_ci_high
        assert first.mean_ci_method == "run-by-cluster-bootstrap-bca-10000"
        assert first.ci_method == "cluster-bootstrap-bca-10000"
        (line,) = [line for line in results.view().tables[0].lines if line.layer == layer]
        assert line.random_init is not None
        assert line.random_init.value == pytest.approx(rows.value.mean())
        assert (line.random_init.low, line.random_init.high) == (first.mean_ci_low, first.mean_ci_high)
    trained = frame[frame.init == "pretrained"]
    assert set(trained.n_runs) == {1}
    assert trained["mean"].isna().all()
    assert trained.init_seed.isna().all()
    text = results.view().to_text()
    assert "mean of 3 random initialisations, ±" in text
    assert "test sentences (BCa, 10,000 resamples); not over seeds of the fit" in " ".join(text.split())
    again = read_results(tmp_path / "out")
    assert again.view().to_text() == text
    # One cell is chosen where one is wanted: the first draw.
    assert len(again.per_label("pos", 1, init="random")) > 1


def test_more_draws_go_on_from_the_first(
    request_of: ProbeRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = but(request_of, random_draws=3)
    assert make_plan(three).run_id == make_plan(request_of).run_id
    before = run_probes(request_of, out=tmp_path / "out").to_pandas()
    assert "one random initialisation" in (tmp_path / "out" / "layers.md").read_text()
    fitted: list[Any] = []
    original = labels.fit

    def fit(cells: Any, job: Any) -> None:
        fitted.append(cells.weights)
        original(cells, job)

    monkeypatch.setattr(labels, "fit", fit)
    after = run_probes(three, out=tmp_path / "out").to_pandas()
    assert sorted(fitted, key=lambda weights: weights.seed) == [Weights("random", 10_000), Weights("random", 20_000)]
    assert set(before.cell_id) < set(after.cell_id)
    kept = after[after.cell_id.isin(set(before.cell_id))].reset_index(drop=True)
    assert kept.value.tolist() == before.value.tolist()


@pytest.mark.parametrize("number", [0, -3, "many", 1.5])
def test_an_impossible_number_of_draws_is_refused(number: Any) -> None:
    with pytest.raises(BertologyError, match=r"random_draws: should be "):
        ProbeRequest(random_draws=number)


def test_fits_of_controls_end_at_a_multiple_of_the_tolerance(request_of: ProbeRequest, tmp_path: Path) -> None:
    readout = {"name": "linear", "settings": {"tolerance": 1e-5, "control_slack": 100}}
    frame = run_probes(but(request_of, controls="random,control_task", readout=readout), out=tmp_path).to_pandas()
    fits = frame[frame.control.isin(["none", "control_task"])].groupby(["control", "init"])
    assert len(fits) == 3
    for (control, init), rows in fits:
        low, high = (0, 1e-5) if (control, init) == ("none", "pretrained") else (1e-5, 1e-3)
        norms = [json.loads(params)["gradient_norm"] for params in rows.params_json]
        assert low < min(norms) <= max(norms) <= high
