"""Rules on planted curves: verdicts at their margins, and the error rates of 2,000 simulated runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bertology.primer.claims import Claim, Measurement
from bertology.primer.rules import Finding, apply, best_layers, combined, written
from bertology.primer.scores import Curve, NotTestedError, Scores
from bertology.primer.trained import of_runs
from bertology.results import ResultRow

Data = Mapping[str, NDArray[np.float64]]  # `[cluster, layer]` by name of the group or control
N_RUNS = 2_000
N_RESAMPLES = 400
MOST = 0.025 + 3 * np.sqrt(0.025 * 0.975 / N_RUNS)  # 2.5 % and three Monte Carlo standard errors
ROW: dict[str, Any] = {
    **dict.fromkeys(("experiment", "cell_id", "task", "task_version", "corpus", "corpus_fingerprint", "split"), "x"),
    **dict.fromkeys(("n_train", "n_items", "n_clusters", "n_classes"), 1),
    "metric": "accuracy",
}
ROWS = {(layer, head): ResultRow(**ROW, layer=layer, head=head, n_layers=4) for layer in range(5)
        for head in (None, f"L{layer}H1")}  # fmt: skip
WHOLE = ResultRow(**ROW)


def claim(rule: Any, *, margin: float | None = 0.1, **measured: Any) -> Claim:
    about = {"id": "planted.v1", "section": "1", "statement": "s", "sources": ["s"], "how": "h", "caveat": "c"}
    measured_by = {"task": "pos", "on": "treebank", **measured}
    margins = {} if margin is None else {"margin": {"value": margin, "reason": "r"}}
    return Claim.model_validate({**about, "measured_by": measured_by, "rule": rule, **margins})


def weights(n: int) -> NDArray[np.float64]:
    return np.random.default_rng(n).multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES) / n


def curve_of(data: NDArray[np.float64], drawn: NDArray[np.float64], *, heads: bool = False) -> Curve:
    n, n_keys = data.shape
    layers = range(5 - n_keys, 5) if n_keys > 1 else ()
    keys = tuple(f"L{layer}H1" if heads else layer for layer in layers) or (None,)
    rows = tuple(ROWS[layer, f"L{layer}H1" if heads else None] for layer in layers) or (WHOLE,)
    depths = np.array([layer / 4 for layer in layers] or [np.nan])
    return Curve(keys, data.mean(axis=0), drawn @ data, n, depths, rows, None, np.zeros(n_keys))


def found(asked: Claim, data: Data, drawn: NDArray[np.float64] | None = None) -> list[Finding]:
    """The findings on data whose columns are layers 0 to 4, by group or control."""
    drawn = weights(len(next(iter(data.values())))) if drawn is None else drawn

    def curve(one: Measurement, *, split: str | None = None) -> Curve:
        name = one.control if one.control != "none" else one.group or "score"
        name = f"{name} {split}" if split else name
        if name not in data:
            raise NotTestedError(f"no {name}")
        return curve_of(data[name], drawn, heads=name.startswith("heads"))

    return [one for rule in asked.rule for one in apply(asked, rule, curve)]


def verdict(asked: Claim, data: Data, drawn: NDArray[np.float64] | None = None) -> str:
    findings = found(asked, data, drawn)
    return combined(findings, [asked.rule[0].name] * len(findings))


def planted(means: Mapping[str, list[float]], n: int, *, noise: float = 0.4) -> Callable[[np.random.Generator], Data]:
    """Scores of clusters with these means by layer; what clusters have in common makes all curves correlated."""

    def draw(rng: np.random.Generator) -> Data:
        shared = rng.normal(size=(n, 1)) * noise / 2
        return {name: np.array(of) + shared + rng.normal(size=(n, len(of))) * noise for name, of in means.items()}

    return draw


ABOVE = claim({"name": "above", "against": "majority"})
BELOW = claim({"name": "below", "against": 0.5})
EVERY = claim({"name": "above", "against": 0.0}, at="all")
DIFFERENCE = claim({"name": "difference", "a": {"group": "a"}, "b": {"group": "b"}})
EQUAL = claim({"name": "equal", "a": {"group": "a"}, "b": {"group": "b"}})
RISES = claim("rises", margin=None)
FALLS = claim("falls", margin=None)
EXISTS = claim({"name": "exists", "against": "offset"}, group="heads")
PEAK = claim({"name": "peak", "from": 0.4, "to": 0.6}, margin=None)
ORDER = claim({"name": "order", "over": ["a", "b", "c"], "measured_by": {"group": "{x}"}}, margin=None)
SHARE = claim({"name": "share", "against": 0.0, "least": 0.5}, group="heads")
LEVEL = [0.0] * 5


@pytest.mark.parametrize(
    ("asked", "means", "never"),
    [
        # At the margin neither verdict is right, so that each may come out in 2.5 % of runs alone.
        (ABOVE, {"score": [0.5, 0.5, 0.6, 0.6, 0.6], "majority": [0.5]}, "holds"),
        (ABOVE, {"score": [0.4, 0.4, 0.6, 0.4, 0.4], "majority": [0.5]}, "fails"),
        (BELOW, {"score": [0.1, 0.1, 0.4, 0.4, 0.4]}, "fails"),
        (BELOW, {"score": [0.4, 0.1, 0.1, 0.1, 0.1]}, "holds"),
        (EVERY, {"score": [0.1, 0.3, 0.3, 0.3, 0.3]}, "holds"),
        (EVERY, {"score": [0.1] * 5}, "fails"),
        (DIFFERENCE, {"a": [0.6], "b": [0.5]}, "holds"),
        (DIFFERENCE, {"a": [0.6], "b": [0.5]}, "fails"),
        (EQUAL, {"a": [0.6], "b": [0.5]}, "holds"),
        (EQUAL, {"a": [0.6], "b": [0.5]}, "fails"),
        (RISES, {"score": LEVEL}, "holds"),
        (RISES, {"score": LEVEL}, "fails"),
        (FALLS, {"score": LEVEL}, "holds"),
        (EXISTS, {"heads": [0.1] * 4, "heads dev": [0.1] * 4, "offset": [0.0]}, "holds"),
        (EXISTS, {"heads": [0.0, 0.1, 0.0, 0.0], "heads dev": [0.0, 0.1, 0.0, 0.0], "offset": [0.0]}, "fails"),
        # The best layer is 1, so that it is false that the middle one is; then it is 2.
        (PEAK, {"score": [0.0, 0.001, 0.0, 0.0, 0.0]}, "holds"),
        (PEAK, {"score": [0.0, 0.0, 0.001, 0.0, 0.0]}, "fails"),
        (ORDER, {"a": [0.0], "b": [0.0], "c": [1.0]}, "holds"),
        (ORDER, {"a": [0.0], "b": [0.001], "c": [0.002]}, "fails"),
        (SHARE, {"heads": [0.1, 0.1, 0.3, 0.3]}, "holds"),
        (SHARE, {"heads": [0.1, 0.1, 0.1, -0.3]}, "fails"),
    ],
)  # fmt: skip
def test_a_wrong_verdict_is_as_rare_as_is_promised(asked: Claim, means: Mapping[str, list[float]], never: str) -> None:
    rng, draw, drawn = np.random.default_rng(1), planted(means, 60), weights(60)
    counts = Counter(verdict(asked, draw(rng), drawn) for _ in range(N_RUNS))
    assert counts[never] / N_RUNS <= MOST, counts


@pytest.mark.parametrize(
    ("asked", "means", "right"),
    [
        (ABOVE, {"score": [0.5, 0.5, 0.8, 0.6, 0.6], "majority": [0.5]}, "holds"),
        (ABOVE, {"score": [0.4, 0.4, 0.4, 0.3, 0.3], "majority": [0.5]}, "fails"),
        (BELOW, {"score": [0.2] * 5}, "holds"),
        (BELOW, {"score": [0.2, 0.2, 0.2, 0.2, 0.9]}, "fails"),
        (EVERY, {"score": [0.4] * 5}, "holds"),
        (EVERY, {"score": [-0.4, 0.4, 0.4, 0.4, 0.4]}, "mixed"),
        (DIFFERENCE, {"a": [0.9], "b": [0.5]}, "holds"),
        (DIFFERENCE, {"a": [0.5], "b": [0.5]}, "fails"),
        (EQUAL, {"a": [0.5], "b": [0.5]}, "holds"),
        (EQUAL, {"a": [0.9], "b": [0.5]}, "fails"),
        (RISES, {"score": [0.0, 0.1, 0.2, 0.3, 0.4]}, "holds"),
        (RISES, {"score": [0.4, 0.3, 0.2, 0.1, 0.0]}, "fails"),
        (FALLS, {"score": [0.4, 0.3, 0.2, 0.1, 0.0]}, "holds"),
        (EXISTS, {"heads": [0.0, 0.5, 0.0, 0.0], "heads dev": [0.0, 0.5, 0.0, 0.0], "offset": [0.1]}, "holds"),
        (EXISTS, {"heads": LEVEL[1:], "heads dev": LEVEL[1:], "offset": [0.1]}, "fails"),
        (PEAK, {"score": [0.0, 0.2, 0.6, 0.2, 0.0]}, "holds"),
        (PEAK, {"score": [0.0, 0.6, 0.2, 0.2, 0.0]}, "fails"),
        (ORDER, {"a": [0.0], "b": [0.3], "c": [0.6]}, "holds"),
        (ORDER, {"a": [0.3], "b": [0.0], "c": [0.6]}, "fails"),
        (SHARE, {"heads": [0.5, 0.5, 0.5, 0.0]}, "holds"),
        (SHARE, {"heads": [0.5, -0.5, -0.5, -0.5]}, "fails"),
    ],
)
def test_a_planted_difference_is_found(asked: Claim, means: Mapping[str, list[float]], right: str) -> None:
    rng, draw = np.random.default_rng(2), planted(means, 400)
    counts = Counter(verdict(asked, draw(rng)) for _ in range(20))
    assert counts[right] >= 19, counts


@pytest.mark.parametrize("asked", [ABOVE, DIFFERENCE, RISES, ORDER])
def test_more_data_leave_less_undecided(asked: Claim) -> None:
    means = {"score": [0.0, 0.05, 0.1, 0.15, 0.2], "majority": [0.0], "a": [0.0], "b": [0.15], "c": [0.3]}
    means["a"] = [0.25] if asked is DIFFERENCE else means["a"]
    means["b"] = [0.05] if asked is DIFFERENCE else means["b"]
    shares = []
    for n in (20, 80, 320):
        rng, draw, drawn = np.random.default_rng(3), planted(means, n), weights(n)
        shares.append(sum(verdict(asked, draw(rng), drawn) == "undecided" for _ in range(200)))
    assert shares[0] > shares[1] > shares[2], shares


def test_the_number_of_clusters_that_would_decide_decides() -> None:
    data = planted({"a": [0.65], "b": [0.5]}, 50)(np.random.default_rng(5))
    (first,) = found(DIFFERENCE, data)
    assert first.verdict == "undecided"
    assert first.n_needed is not None
    times = -(-first.n_needed // 50)  # the same clusters so many times have the same estimate
    more = {name: np.tile(of, (times + 1, 1)) for name, of in data.items()}
    assert found(DIFFERENCE, more)[0].verdict != "undecided"


def test_the_interval_of_one_contrast_is_that_of_a_paired_t_test() -> None:
    data = planted({"a": [0.58], "b": [0.5]}, 300)(np.random.default_rng(4))
    (one,) = found(DIFFERENCE, data, np.random.default_rng(0).multinomial(300, [1 / 300] * 300, size=20_000) / 300)
    test = stats.ttest_1samp((data["a"] - data["b"])[:, 0], 0.0)
    assert (one.low, one.high) == pytest.approx(tuple(test.confidence_interval(0.95)), abs=2e-3)
    assert one.contrast.p_value == pytest.approx(test.pvalue, rel=0.05)


def whole_parts(of: Curve) -> tuple[Any, ...]:
    return of.keys, of.values, of.replicates, of.n, of.depths, of.rows, of.by_run


def test_a_figure_of_each_run_has_the_interval_of_the_runs() -> None:
    values = np.random.default_rng(5).normal(size=(6, 2))
    found = of_runs("kl_from_uniform_bits", values, 20_000, 0)
    assert found.values == pytest.approx(values.mean(axis=0))
    assert found.stderr * np.sqrt(6 / 5) == pytest.approx(stats.sem(values), rel=0.02)


def test_a_figure_of_pretraining_has_its_unit(tmp_path: Path) -> None:
    (tmp_path / "training.json").write_text(json.dumps({"held_out": [{"bits": 9.0}, {"bits": 3.0}]}))
    scores = Scores(cast("Any", None), tmp_path, {}, {"small": [str(tmp_path)] * 3})
    curve = scores.curve(Measurement(metric="held_out.1.bits", model="small"), "small")
    found = written(float(curve.values[0]), curve.rows[0].metric)
    assert (found, curve.rows[0].clusters) == ("3", "trainings")


def test_all_clusters_right_is_no_certainty() -> None:
    """Where no resample varies, the interval is that of Clopper and Pearson."""
    whole = curve_of(np.ones((10, 1)), weights(10))
    exact = Curve(*whole_parts(whole), np.array([0.3085]))
    (low,), (high,) = exact.bounds()
    assert (low, high) == pytest.approx((0.6915, 1.3085))


def test_a_flat_curve_has_every_layer_in_its_best_set() -> None:
    data = planted({"score": LEVEL}, 100)(np.random.default_rng(6))["score"]
    assert best_layers(curve_of(data, weights(100))) == [0, 1, 2, 3, 4]


def test_what_is_missing_is_not_tested() -> None:
    with pytest.raises(NotTestedError, match="no majority"):
        found(ABOVE, planted({"score": LEVEL}, 20)(np.random.default_rng(0)))
    with pytest.raises(NotTestedError, match="one layer alone"):
        found(claim({"name": "rises", "from": 0.9}, margin=None), {"score": np.zeros((20, 5))})
    with pytest.raises(NotTestedError, match="one cluster"):
        found(BELOW, {"score": np.zeros((1, 5))})
