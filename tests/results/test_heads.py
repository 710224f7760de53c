"""Tables of attention heads: which stands out, beside what, in every format."""

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology.errors import ResultsError
from bertology.results import ResultRow, Results
from bertology.results.report import write_report
from tests.results.conftest import as_noted

SHARED: dict[str, Any] = {
    "experiment": "made-up",
    "cell_id": "c",
    "task": "head_syntax",
    "task_version": "v1",
    "corpus": "pocket",
    "corpus_fingerprint": "c0ffee",
    "split": "test",
    "n_train": 0,
    "n_items": 100,
    "n_clusters": 50,
    "n_classes": 0,
}
OF_MODEL: dict[str, Any] = {
    "model": "pocket",
    "model_fingerprint": "f",
    "init": "pretrained",
    "n_layers": 2,
    "readout": "attention",
    "readout_version": "v1",
    "params_json": json.dumps({"chosen_on": "dev"}),
    "seed": 0,
}


def row(head: str | None, value: float, **more: Any) -> ResultRow:
    layer = int(head[1]) if head else None
    bounds = {"ci_low": value - 0.05, "ci_high": value + 0.05}
    given = {"metric": "relation_accuracy", "group": "obj", "head": head, "layer": layer, "value": value, **bounds}
    return ResultRow(**{**SHARED, **(OF_MODEL if "control" not in more else {}), **given, **more})


def results(**more: Any) -> Results:
    """L2H1 is the best on dev, L1H2 on test; the offset is right in half of all cases."""
    on_test = {"L1H1": 0.2, "L1H2": 0.9, "L2H1": 0.8, "L2H2": 0.1}
    on_dev = {**on_test, "L2H1": 0.95}
    rows = [row(head, value, **more) for head, value in on_test.items()]
    rows += [row(head, value, split="dev", **more) for head, value in on_dev.items()]
    rows += [row(head, value / 3, init="random", cell_id="r", **more) for head, value in on_test.items()]
    rows += [row(head, value / 3, init="random", cell_id="r", split="dev", **more) for head, value in on_dev.items()]
    rows.append(row(None, 0.5, control="offset", cell_id="o", **more))
    return Results(as_noted(rows))


def steps(metric: str = "loss_bits") -> tuple[ResultRow, ...]:
    gates = {"readout": "gates", "task": "head_importance", "metric": metric, "params_json": "{}"}
    curves = [
        row(None, 2 + step / 10 * pace, group=f"{order} {step} %", **gates)
        for order, pace in (("least important", 1), ("random", 2))
        for step in (0, 10, 100)
    ]
    layers = [replace(row(None, layer, group="all off", **gates), layer=layer) for layer in (1, 2)]
    return (*curves, *layers)


def test_the_head_is_chosen_on_dev_and_stands_beside_its_baselines() -> None:
    view = results().view()
    (table,), (every,) = view.head_tables, view.all_heads
    (line,) = table.lines
    assert (table.metric, line.label, line.best) == ("relation_accuracy", "obj", {2})
    assert [cell.text for cell in line.cells] == ["100", "L2H1", "80.0", "L1H2 90.0", "50.0", "50.0", "26.7"]
    assert table.headers == ("items", "head", "score", "next", "mean", "best offset", "random init")
    assert [one.label for one in every.lines] == ["L1H1", "L1H2", "L2H1", "L2H2", "best offset"]
    assert [one.label for one in every.lines if one.best] == ["L2H1"]
    assert {label: score.value for label, score in every.column("obj").items()} == {
        "L1H1": 0.2, "L1H2": 0.9, "L2H1": 0.8, "L2H2": 0.1, "best offset": 0.5
    }  # fmt: skip


@pytest.mark.parametrize(("offset", "stands_out"), [(0.69, True), (0.71, False), (0.9, False)])
def test_to_stand_out_is_to_be_better_with_intervals_apart(offset: float, *, stands_out: bool) -> None:
    rows = [one for one in results().rows if one.control == "none"]
    rows.append(row(None, offset, control="offset", cell_id="o"))
    (table,) = Results(tuple(rows)).view().head_tables
    assert bool(table.lines[0].best) is stands_out
    assert ("★" in Results(tuple(rows)).to_markdown()) is stands_out


def test_every_format_says_the_same() -> None:
    found = Results((*results().rows, *steps()))
    for text in (found.to_markdown(), found.to_latex(), found.to_html(), str(found)):
        for said in ("head", "L2H1", "80.0", "26.7", "chosen on dev, scored on test", "layer 2", "10 %", "12.00"):
            assert said in text.replace(r"\,", "").replace("\\%", "%"), said
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert {(line["row"], line["column"], line["value"]) for line in lines} >= {
        ("L2H1", "obj", "0.8"),
        ("best offset", "obj", "0.5"),
        ("100 %", "random", "22.0"),
        ("layer 2", "all off", "2.0"),
    }
    numbers = [(one["row"], one["column"], one["value"]) for of in json.loads(found.to_json()) for one in of["numbers"]]
    assert {("L1H2", "obj", 0.9), ("100 %", "least important", 12)} <= set(numbers)


def test_what_is_saved(tmp_path: Path, figures: None) -> None:
    Results((*results().rows, *steps())).save(tmp_path, tables=("md", "csv"), plots=("svg",))
    names = {path.name for path in tmp_path.iterdir()}
    assert {"layers.md", "layers.csv", "heads-head_syntax-relation_accuracy.svg"} <= names
    assert {"steps-head_importance-loss_bits.svg", "layers-head_importance-loss_bits.svg"} <= names
    assert "layers.svg" not in names
    for path in tmp_path.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_steps_are_drawn_with_their_intervals() -> None:
    view = Results((*steps(), *steps("delta_accuracy"))).view()
    (axes,) = view.plot_steps("loss_bits").axes
    assert axes.get_xlabel() == "share of heads closed"
    assert [line.get_label() for line in axes.lines] == ["least important", "random"]
    np.testing.assert_allclose(axes.lines[1].get_ydata(), [2, 4, 22])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0 %", "10 %", "100 %"]
    (axes,) = view.plot_steps("delta_accuracy").axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [200, 300, 1200])
    with pytest.raises(ResultsError, match="of metric accuracy; there are those of delta_accuracy, loss_bits"):
        view.plot_steps("accuracy")
    with pytest.raises(ResultsError, match=r"no scores of the whole model in steps$"):
        results().view().plot_steps()


def test_a_report_of_heads_alone(browser: Any, tmp_path: Path) -> None:
    Results((*results().rows, *steps())).save(tmp_path / "run", plots=())
    page = write_report([tmp_path / "run"], tmp_path / "report.html")
    context = browser.new_context(color_scheme="dark")
    shown = context.new_page()
    said: list[str] = []
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    shown.goto(page.as_uri())
    assert not shown.is_visible("#scores")
    assert "head L2H1; score 80.0 [75.0, 85.0]" in shown.inner_text("#summary")
    heatmap = shown.locator("figure.heads")
    assert heatmap.locator("[data-cell]").count() == 4
    assert heatmap.locator("text").all_text_contents() == ["L1", "L2", "obj", "L2H1 80.0 ★"]
    shown.locator("figure.heads .drawing").focus()
    for key in ("ArrowUp", "End", "ArrowLeft"):
        shown.keyboard.press(key)
    words = "obj · L2H1: relation accuracy 80.0 [75.0, 85.0], the head that was chosen"
    assert heatmap.locator(".tip").inner_text() == words
    shown.keyboard.press("Home")
    assert heatmap.locator(".tip").inner_text() == "obj · L1H1: relation accuracy 20.0 [15.0, 25.0]"
    assert "80.0" in shown.inner_text("#heads table >> nth=0")
    assert not said
    context.close()


def test_the_direction_of_an_arrow_is_given_in_words() -> None:
    shown = results(group="obj: dependent → head").view()
    (table,) = shown.head_tables
    assert "→: from the attending word to the attended word" in str(shown.to_markdown())
    assert "from the attending word" not in results().view().to_markdown()
    assert [line.label for line in table.lines] == ["obj: dependent → head"]
