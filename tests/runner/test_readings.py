"""Several ways to read one task: what each is called, what it is fitted on, and what comes of mixtures of layers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bertology.corpora import Corpus
from bertology.errors import BertologyError, FitError, NameNotFoundError
from bertology.families.request import ReadoutConfig
from bertology.families.vectors import TaskData
from bertology.measures.baselines import fraction_mask
from bertology.measures.intervals import expected_layer
from bertology.readouts import LinearReadout, Targets
from bertology.readouts._sources import subset
from bertology.results import Results
from bertology.results.predictions import read_predictions
from bertology.results.views import layer_tables
from bertology.runner import ProbeRequest, run_probes
from bertology.runner.plan import make_plan
from tests.runner.conftest import Vectors, fits_of

SMALL = {"projection": 8, "hidden": 8, "max_epochs": 4}


def params_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [json.loads(params) for params in frame.params_json]


# Sweeps


@pytest.mark.parametrize(
    ("reading", "error", "message"),
    [
        (ReadoutConfig("linaer"), NameNotFoundError, "unknown readout 'linaer': did you mean linear"),
        (
            ReadoutConfig("mlp", {"hiden": 3}),
            NameNotFoundError,
            "unknown setting of readout mlp.v1 'hiden': did you mean hidden",
        ),
        (
            ReadoutConfig("mlp", {"hidden": "many"}),
            FitError,
            "setting hidden of readout mlp.v1 is 'many': input should be",
        ),
        (ReadoutConfig("linear", erase="poss"), NameNotFoundError, "unknown task 'poss': did you mean pos"),
    ],
    ids=["readout", "setting", "kind", "erased task"],
)
def test_what_is_not_there_is_found_before_anything_is_computed(
    asking: Callable[..., ProbeRequest],
    toy: Corpus,
    counted_forwards: list[int],
    reading: ReadoutConfig,
    error: type[BertologyError],
    message: str,
) -> None:
    with pytest.raises(error) as raised:
        run_probes(asking(reading, controls=("majority",)), corpus=toy)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
    assert counted_forwards == []


# A share of train


def test_a_share_is_as_if_the_rest_were_not_there(
    asking: Callable[..., ProbeRequest], noise: Corpus, tmp_path: Path, vectors: Vectors
) -> None:
    settings = {"strengths": [0.1]}
    request = asking(ReadoutConfig("linear", settings, 0.4))
    plan = make_plan(request, corpus=noise)
    frame = run_probes(request, corpus=noise, out=tmp_path / "run").to_pandas()
    data = TaskData.of(plan.probes[0], plan.pair.splits)
    keep = fraction_mask(data.train.clusters, 0.4, seed=0)
    assert set(frame.n_train) == {keep.sum()}
    # Sentences of six words, of which as many are taken as it takes to come to four tenths.
    assert keep.sum() == 120
    assert (keep.reshape(-1, 6).sum(axis=1) % 6 == 0).all()

    sources = vectors(plan, data)
    fitted = LinearReadout(strengths=(0.1,)).fit(
        subset(sources["train"], keep),
        Targets(data.targets("train")[None, keep], data.n_train_labels),
        dev=sources["dev"],
        dev_targets=Targets(data.targets("dev")[None], data.n_train_labels),
    )
    expected = fitted.predict(sources["test"])
    for layer in (0, 1):
        cell = frame[frame.layer == layer].cell_id.iloc[0]
        kept = read_predictions(tmp_path / "run", cell)
        labels = np.array(data.labels)[expected.labels[0, layer]]
        assert (np.array(kept.labels)[kept.pred] == labels).mean() > 0.99
        np.testing.assert_allclose(kept.score, expected.log_prob[0, layer], atol=2e-3)


# Mixtures of layers


@pytest.fixture
def mixed(asking: Callable[..., ProbeRequest], toy: Corpus, tmp_path: Path) -> Results:
    readings = (ReadoutConfig("edge_mix", SMALL), ReadoutConfig("edge_cumulative", SMALL))
    return run_probes(asking(*readings, layers="0,1,3"), corpus=toy, out=tmp_path / "mixed")


def of(results: Results, readout: str) -> pd.DataFrame:
    frame = results.to_pandas()
    return frame[frame.readout == readout]


def cells_of(request: ProbeRequest, corpus: Corpus) -> dict[int | None, dict[str, Any]]:
    (group,) = fits_of(make_plan(request, corpus=corpus))
    return {layer: dict(cell.identity) for (_, _, layer), cell in group.cells.items()}


def test_a_mix_is_one_cell_and_tells_how_it_mixes(
    asking: Callable[..., ProbeRequest], toy: Corpus, mixed: Results
) -> None:
    cells = cells_of(asking(ReadoutConfig("edge_mix", SMALL), layers="0,1,3"), toy)
    assert list(cells) == [None]
    assert cells[None]["mixed_layers"] == [0, 1, 3]
    assert cells[None]["layer"] is None
    frame = of(mixed, "edge_mix")
    assert frame.cell_id.nunique() == 1
    assert frame.layer.isna().all()
    assert set(frame.metric) == {"accuracy", "macro_f1", "center_of_gravity", "kl_from_uniform_bits"}
    frame = frame.set_index("metric")
    details = params_of(frame)[0]["details"]
    weights, layers = np.array(details["mix_weights"]), np.array([0, 1, 3])
    assert details["layers"] == [0, 1, 3]
    assert details["mix_pace"] == 20
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert frame.value["center_of_gravity"] == pytest.approx((weights * layers).sum(), abs=1e-4)
    bits = (weights * np.log2(weights)).sum() + np.log2(3)
    assert frame.value["kl_from_uniform_bits"] == pytest.approx(bits, abs=1e-4)
    depths = frame.loc[["center_of_gravity", "kl_from_uniform_bits"]]
    assert depths[["stderr", "ci_low", "ci_high"]].isna().all(axis=None)
    assert not depths.main_metric.any()


def test_the_expected_layer_is_that_of_the_gains(mixed: Results) -> None:
    frame = of(mixed, "edge_cumulative")
    scores = frame[(frame.metric == "accuracy")].sort_values("layer")
    assert scores.layer.tolist() == [0, 1, 3]
    (depth,) = frame[frame.metric == "expected_layer"].itertuples()
    assert pd.isna(depth.layer)
    assert not depth.main_metric
    # Tenney et al. 2019b, equation 4, by hand; undefined where nothing is gained over the embeddings.
    gains = np.diff(scores.value)
    by_hand = (gains * [1, 3]).sum() / gains.sum() if gains.sum() > 0 else np.nan
    if np.isnan(expected_layer(scores.value, [0, 1, 3])):
        assert pd.isna(depth.value)
    else:
        assert depth.value == pytest.approx(by_hand, abs=1e-9)
    # None of them is shown as a layer.
    (table,) = layer_tables(mixed.rows, mixed.comparisons)
    assert [line.layer for line in table.lines] == [0, 1, 3]
    assert table.about.reading.startswith("edge_cumulative")
