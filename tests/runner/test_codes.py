"""How short training labels can be told: cells of codelength, and the rows that come of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bertology.corpora import Corpus
from bertology.errors import BertologyError, FitError
from bertology.families.request import ReadoutConfig
from bertology.families.vectors import TaskData
from bertology.readouts import LinearReadout, Targets, online_codelength, variational_codelength
from bertology.readouts._neural import BayesReadout
from bertology.runner import ProbeRequest, run_probes
from bertology.runner.plan import make_plan
from tests.runner.conftest import Vectors

LINEAR = {"strengths": [0.1]}
BAYES = {"steps": 150}


def by_metric(frame: pd.DataFrame, layer: int, control: str = "none") -> dict[str, Any]:
    rows = frame[(frame.layer == layer) & (frame.control == control)]
    return {row.metric: row for row in rows.itertuples()}


def codes_alone(
    request: ProbeRequest, corpus: Corpus, vectors: Vectors, code: Callable[..., Any], readout: Any, **chosen: Any
) -> Any:
    """The codelength of the task's own labels, as the readouts measure it of the stored vectors."""
    plan = make_plan(request, corpus=corpus)
    data = TaskData.of(plan.probes[0], plan.pair.splits)
    sources = vectors(plan, data)
    labels, dev = data.targets("train")[None], data.targets("dev")[None]
    return code(
        readout,
        sources["train"],
        Targets(labels, data.n_train_labels, chosen.pop("weights", None)),
        dev=sources["dev"],
        dev_targets=Targets(dev, data.n_train_labels),
        clusters=data.train.clusters,
        **chosen,
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_an_online_code_is_that_of_its_readout(
    asking: Callable[..., ProbeRequest], toy: Corpus, vectors: Vectors, seed: int
) -> None:
    request = asking(ReadoutConfig("linear", LINEAR, codelength="online"), seeds=2)
    frame = run_probes(request, corpus=toy).to_pandas()
    assert set(frame.split) == {"train"}
    assert set(frame.n_items) == {300}
    assert set(frame.n_train) == {300}
    assert set(frame.n_clusters) == {50}
    assert set(frame.metric) == {"compression", "codelength_bits"}
    code = codes_alone(request, toy, vectors, online_codelength, LinearReadout(strengths=(0.1,)), seed=seed)
    for place, layer in enumerate((0, 1)):
        rows = by_metric(frame[frame.seed == seed], layer)
        assert rows["codelength_bits"].value == pytest.approx(code.bits[0, place], rel=1e-4)
        assert rows["compression"].value == pytest.approx(300 * np.log2(3) / code.bits[0, place], rel=1e-4)
        assert rows["compression"].main_metric
        assert rows["compression"].higher_is_better
        assert not rows["codelength_bits"].higher_is_better
        details = json.loads(rows["compression"].params_json)["details"]
        assert details["method"] == "online"
        assert sum(details["block_bits"]) == pytest.approx(details["bits"], abs=0.01)
        assert sum(details["block_items"]) == 300


def test_a_variational_code_is_that_of_its_posterior(
    asking: Callable[..., ProbeRequest], toy: Corpus, vectors: Vectors
) -> None:
    request = asking(ReadoutConfig("bayes", BAYES, codelength="variational"))
    frame = run_probes(request, corpus=toy).to_pandas()
    code = codes_alone(request, toy, vectors, variational_codelength, BayesReadout(**BAYES))
    assert set(frame.split) == {"train"}
    assert set(frame.n_items) == {300}
    for place, layer in enumerate((0, 1)):
        rows = by_metric(frame, layer)
        assert rows["codelength_bits"].value == pytest.approx(code.bits[0, place], rel=1e-4)
        assert rows["compression"].value == pytest.approx(code.compression[0, place], rel=1e-4)
        details = json.loads(rows["compression"].params_json)["details"]
        assert details["method"] == "variational"
        assert details["model_bits"] == pytest.approx(code.model_bits[0, place], rel=1e-3)
        assert details["block_bits"][0] + details["model_bits"] == pytest.approx(details["bits"], abs=0.01)


@pytest.mark.parametrize(
    "reading",
    [ReadoutConfig("linear", LINEAR, codelength="online"), ReadoutConfig("bayes", BAYES, codelength="variational")],
    ids=["online", "variational"],
)
def test_what_is_planted_is_told_shortly_and_noise_is_not(
    asking: Callable[..., ProbeRequest], toy: Corpus, noise: Corpus, reading: ReadoutConfig
) -> None:
    request = asking(reading, layers="0", controls=("control_task",))
    told, random = (run_probes(request, corpus=corpus).to_pandas() for corpus in (toy, noise))
    planted = by_metric(told, 0)["compression"]
    drawn = by_metric(random, 0)["compression"]
    assert planted.value > 1.5 * drawn.value
    assert planted.ci_low > drawn.ci_high
    assert drawn.value < 1.15
    # The control task is one label a word form, which these words have anyway: it is as short to tell.
    assert by_metric(told, 0, "control_task")["compression"].value == pytest.approx(planted.value, rel=0.35)


SETS = (("awareness", "volition"), ("moved",), ())


def test_what_cannot_be_coded_is_said_in_a_line(
    asking: Callable[..., ProbeRequest], planted_spans: Callable[..., Corpus], toy: Corpus
) -> None:
    corpus = planted_spans("proto_roles", SETS, signal=True, pairs=True)
    with pytest.raises(FitError, match=r"^[^\n]*bayes\.v1[^\n]*$"):
        run_probes(
            asking(ReadoutConfig("bayes", BAYES, codelength="variational"), task="edge_proto_roles", layers="0"),
            corpus=corpus,
        )
    with pytest.raises(FitError, match=r"^readout ridge\.v1 gives no probabilities: choose one that does"):
        run_probes(asking(ReadoutConfig("ridge", codelength="online"), layers="0"), corpus=toy)
    for name in ("linear", "edge", "mlp"):
        with pytest.raises(BertologyError, match=r"^task pos: \w+\.v\d has no variational code: choose readout bayes"):
            run_probes(asking(ReadoutConfig(name, codelength="variational"), layers="0"), corpus=toy)
