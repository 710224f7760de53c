"""Scores over steps: a task that is learned after a known step, planted in made-up predictions."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertology.measures import bootstrap, count_labels
from bertology.measures.intervals import mean_over_steps
from bertology.results import OverSteps, Predictions, ResultRow, Results, read_results
from bertology.results.report import write_report
from bertology.results.rows import score_of
from bertology.results.views import StepTable, beside_steps, has_steps

STEPS = (0, 10, 100, 1000, 2000)
RISES = {"pos": (0.3, 0.3, 0.3, 0.9, 0.91), "xpos": (0.3, 0.3, 0.3, 0.35, 0.9)}
"""Rates of right answers in layer 1; layer 0 stays as it begins."""
N_SENTENCES, N_LABELS = 150, 4


def training(
    *, seeds: tuple[int | None, ...] = (None,), spread: float = 0.0, steps: tuple[int, ...] = STEPS
) -> Results:
    rows, kept = [], {}
    cluster, sentences = np.repeat(np.arange(N_SENTENCES), 6), [f"s{number}" for number in range(N_SENTENCES)]
    items = [f"s{number}:{place}" for place, number in enumerate(cluster)]
    for task, rates in RISES.items():
        dice = np.random.default_rng(len(task))
        gold = dice.integers(0, N_LABELS, len(cluster))
        for seed in seeds:
            shift = spread * dice.standard_normal()
            for step in steps:
                rate = np.array([rates[0], rates[STEPS.index(step)]])[:, None] + shift
                right = dice.random((2, len(gold))) < rate
                pred = np.where(right, gold, (gold + 1) % N_LABELS)
                counts = count_labels(gold, pred, cluster, n_labels=N_LABELS, n_clusters=N_SENTENCES)
                score = bootstrap(counts, ["accuracy"], n_resamples=200)["accuracy"]
                for layer in range(2):
                    cell = f"{task}-{seed}-{step}-{layer}"
                    name = "small" + ("" if seed is None else f" seed {seed}") + f" step {step}"
                    rows.append(
                        ResultRow(
                            experiment="planted", cell_id=cell, model=name, model_fingerprint=name, init="pretrained",
                            pretraining_seed=seed, step=step, layer=layer, n_layers=1, pooling="mean", task=task,
                            task_version="v1", corpus="made up", corpus_fingerprint="c0ffee", split="test", n_train=9,
                            n_items=len(gold), n_clusters=N_SENTENCES, n_classes=N_LABELS, readout="linear",
                            readout_version="v2", seed=0, main_metric=True, **score_of(score, layer),
                        )
                    )  # fmt: skip
                    kept[cell] = Predictions(
                        items, cluster, sentences,
                        gold, pred[layer], np.zeros(len(gold)), [f"L{n}" for n in range(N_LABELS)],
                    )  # fmt: skip
    return Results(tuple(rows), kept=kept)


@pytest.fixture(scope="module")
def one_seed() -> Results:
    return training()


@pytest.fixture(scope="module")
def over_steps(one_seed: Results) -> OverSteps:
    return one_seed.over_steps(n_resamples=300)


def table(view: OverSteps, task: str) -> StepTable:
    return next(table for table in view.tables if table.task == task)


def test_steps_at_which_planted_gains_are_reached(over_steps: OverSteps, one_seed: Results) -> None:
    for task, step in (("pos", 1000), ("xpos", 2000)):
        found = table(over_steps, task)
        assert {line.row.layer: line.label for line in found.lines} == {0: "0 · embeddings", 1: "1"}
        reached = found.column("90% by")
        assert list(reached) == ["1"], "there is no gain in layer 0"
        assert (reached["1"].value, reached["1"].high) == (step, step)
        values = [row.value for row in one_seed.rows if (row.task, row.layer) == (task, 1)]
        assert [score.value for score in found.by_layer()[1] if score] == values
        assert found.column("mean")["1"].value == pytest.approx(float(mean_over_steps(np.array(values), STEPS)))
        assert found.column("gain")["1"].value == pytest.approx(values[-1] - values[0])
    most = table(over_steps, "pos").column("97% by")["1"]
    assert 1000 <= most.low <= most.high <= 2000


def test_tasks_stand_in_the_order_in_which_they_are_learned(over_steps: OverSteps) -> None:
    first = over_steps.orders[0]
    assert first.headers == ("pos, layer 1", "xpos, layer 1")
    cells = {line.label: [f"{cell.text} {cell.interval}" for cell in line.cells] for line in first.lines}
    assert cells == {"pos, layer 1": [" ", "100 (0)"], "xpos, layer 1": ["0 (0)", " "]}


def test_seeds_that_differ_widen_intervals_and_cause_the_variance(one_seed: Results) -> None:
    results = training(seeds=(0, 1, 2, 3, 4), spread=0.06)
    found = table(results.over_steps(n_resamples=300), "pos")
    assert found.n_seeds == 5
    last, lone = (of.by_layer()[1][-1] for of in (found, table(one_seed.over_steps(n_resamples=300), "pos")))
    values = [row.value for row in results.rows if (row.task, row.layer, row.step) == ("pos", 1, 2000)]
    assert last.value == pytest.approx(np.mean(values))
    assert last.high - last.low > 1.5 * (lone.high - lone.low)
    (variance,) = [note.text for note in found.notes if note.about == "variance"]
    assert variance.startswith("of the last score of layer 1: ")
    seeds, sentences, both = map(int, re.findall(r"(-?\d+)%", variance))
    assert seeds > 70
    assert seeds + sentences + both == pytest.approx(100, abs=2)
    assert found.column("90% by")["1"].value == 1000


def test_without_predictions_there_are_scores_but_no_intervals_of_steps(one_seed: Results) -> None:
    found = table(Results(one_seed.rows).over_steps(), "pos")
    assert "predictions of items are not kept" in str(found.notes)
    assert (found.column("90% by")["1"].value, found.column("90% by")["1"].low) == (1000, None)


def test_every_format_holds_the_steps_and_a_folder_gives_the_same(
    over_steps: OverSteps, one_seed: Results, tmp_path: Path
) -> None:
    one_seed.save(tmp_path, tables=["md", "csv", "tex"], plots=["svg"])
    again = read_results(tmp_path)
    assert again.over_steps(n_resamples=300).to_csv() == over_steps.to_csv()
    assert (tmp_path / "over-steps.md").read_text() == one_seed.over_steps().to_markdown()
    assert {"over-steps.svg", "over-steps-pos.svg", "over-steps-xpos.svg"} <= {path.name for path in tmp_path.iterdir()}
    for text in (over_steps.to_text(), over_steps.to_markdown(), over_steps.to_latex(), over_steps.to_html()):
        assert "2,000" in text
        assert "pos" in text
    lines = [line for line in over_steps.to_csv().splitlines() if ",1," in line and "updates" in line]
    assert len(lines) == 2 * (len(STEPS) + 4), "every step, the gain, when it is reached, and the mean"
    assert "step 2000" in (tmp_path / "layers.md").read_text()
    assert "step 1000" not in (tmp_path / "layers.md").read_text(), "tables by layer are of the last step"
    assert "step 1000" in (tmp_path / "layers.csv").read_text()
    page = write_report([tmp_path], tmp_path / "report.html", with_text=False).read_text()
    assert "Over the training" in page
    assert page.count("97% by") == 2, "in a table of each task"
    frame = over_steps.to_pandas()
    assert list(frame[(frame.task == "pos") & (frame.layer == 0)].step) == list(STEPS)


def test_results_show_as_curves_and_then_what_these_leave_out(one_seed: Results) -> None:
    shown = str(one_seed)
    assert shown.count("by updates of training, %") == len(RISES)
    assert "small step 10" not in shown, "no table for each checkpoint"
    assert shown == str(one_seed.over_steps())
    assert one_seed._repr_html_() == one_seed.over_steps().to_html()
    # A model without steps, and a statistic of heads, have tables of their own; of checkpoints the last one's.
    first = next(row for row in one_seed.rows if (row.task, row.step) == ("pos", 0))
    other = [replace(row, model="big", step=None) for row in one_seed.rows if (row.task, row.step) == ("xpos", 0)]
    of_heads = [
        replace(row, task="head_statistics", head="L1H1", layer=1, group="self", cell_id=f"heads-{row.step}")
        for row in one_seed.rows
        if (row.task, row.layer) == ("pos", 1)
    ]
    baseline = replace(first, model=None, layer=None, step=None, control="majority", cell_id="majority")
    rows = (*one_seed.rows, *other, *of_heads, baseline)
    left = beside_steps(rows)
    assert {(row.task, row.model) for row in left} == {("xpos", "big"), ("head_statistics", "small step 2000")}
    assert not beside_steps((*one_seed.rows, baseline))
    curves, tables = replace(one_seed, rows=(*one_seed.rows, *other)).overview()
    assert isinstance(curves, OverSteps)
    assert "xpos" in str(tables)
    assert "pos · " not in str(tables).replace("xpos", "")
    # Of heads alone there are no curves: each checkpoint has its table.
    assert not has_steps(of_heads)
    assert has_steps(rows)
