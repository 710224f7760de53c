"""Usable information about labels: cells, rows, and the items that are hardest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology.corpora import Corpus
from bertology.errors import BertologyError
from bertology.families.request import ReadoutConfig
from bertology.runner import run_probes
from bertology.runner.explain import explain_cell
from tests.runner.conftest import Asking

LINEAR = {"strengths": [0.1, 1.0]}


def test_rows_are_means_of_what_is_kept_of_items(asking: Asking, toy: Corpus) -> None:
    results = run_probes(
        asking(ReadoutConfig("linear", LINEAR, given="nothing"), controls=("control_task",)), corpus=toy
    )
    frame = results.to_pandas()
    assert set(frame.control) == {"none"}
    assert set(frame[frame.main_metric].metric) == {"usable_information_bits"}
    items = results.predictions("pos", 0)
    row = frame[(frame.layer == 0) & frame.main_metric].iloc[0]
    assert row.value == pytest.approx(items["information_bits"].mean(), rel=1e-5)
    assert 0.9 < row.ci_low <= row.value <= row.ci_high <= np.log2(3) + 0.1
    assert "beyond the shares of labels in train" in results.to_markdown()
    assert items.nsmallest(1, "information_bits").iloc[0]["word"]


def test_noise_has_no_information(asking: Asking, noise: Corpus) -> None:
    frame = run_probes(asking(ReadoutConfig("linear", LINEAR, given="nothing")), corpus=noise).to_pandas()
    assert (frame[frame.main_metric].ci_low <= 0.01).all()


@pytest.mark.parametrize("given", ["embeddings", "form"])
def test_a_layer_adds_nothing_to_what_its_words_say(asking: Asking, toy: Corpus, given: Any) -> None:
    """In the toy corpus, a word's form has one label."""
    results = run_probes(asking(ReadoutConfig("linear", LINEAR, given=given, layers="1")), corpus=toy)
    frame = results.to_pandas()
    row = frame[frame.main_metric].iloc[0]
    assert list(frame[frame.main_metric].layer) == [1]
    assert abs(row.value) < 0.1
    assert row.ci_low <= 0.02


def test_an_explanation_lists_the_hardest_items(asking: Asking, toy: Corpus, tmp_path: Path) -> None:
    configs = ReadoutConfig("linear", LINEAR, given="nothing"), ReadoutConfig("linear", LINEAR, given="form")
    results = run_probes(asking(*configs, layers="0"), corpus=toy, out=tmp_path / "run")
    with pytest.raises(BertologyError, match=r"several cells are.*given nothing.*given form|given form.*given nothing"):
        explain_cell(tmp_path / "run", "pos@0")
    items = results.predictions("pos", 0)
    cell = next(row.cell_id for row in results.rows if row.main_metric and "given nothing" in row.reading)
    text = " ".join(explain_cell(tmp_path / "run", cell).split())
    hardest = items[items.readout.str.contains("given nothing")].nsmallest(1, "information_bits").iloc[0]
    assert f"the hardest are: item id {hardest.sentence}:{hardest.place} " in text


def test_folds_put_the_items_together(asking: Asking, toy: Corpus) -> None:
    whole = Corpus("whole", {"test": toy["test"]})
    results = run_probes(asking(ReadoutConfig("linear", LINEAR, given="nothing"), layers="0", folds=3), corpus=whole)
    (row,) = (row for row in results.rows if row.main_metric)
    items = results.predictions("pos", 0)
    assert len(items) == row.n_items
    assert row.value == pytest.approx(items["information_bits"].mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"given": "form", "fraction": 0.5}, "counted in all of train"),
        ({"given": "form", "codelength": "online"}, "leave codelength and erase out"),
        ({"given": "embeddings", "readout": "edge"}, "no single vector"),
    ],
)
def test_refuses_what_does_not_go_together(asking: Asking, toy: Corpus, config: dict[str, Any], problem: str) -> None:
    with pytest.raises(BertologyError, match=problem):
        run_probes(asking(ReadoutConfig(**{"readout": "linear", **config})), corpus=toy)
    with pytest.raises(BertologyError, match="name it in layers too"):
        run_probes(asking(ReadoutConfig("linear", given="embeddings"), layers="1"), corpus=toy)
