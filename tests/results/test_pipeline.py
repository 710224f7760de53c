"""Where tasks are solved: mixtures of layers, their weights and gains, as a table and a picture."""

import json
from dataclasses import replace

import pytest

from bertology.errors import ResultsError
from bertology.results import ResultRow, Results
from tests.results.conftest import made_up_results

WEIGHTS = [0.1, 0.1, 0.2, 0.4, 0.1, 0.1]
SINGLE = ("center_of_gravity", 2.6), ("kl_from_uniform_bits", 0.25)


def mixed(task="pos"):
    """Results with single layers by ``edge``, mixtures 0…ℓ by ``edge_cumulative``, and one of all by ``edge_mix``."""
    made = made_up_results((task,), controls=False)
    own = [replace(row, readout="edge") for row in made.rows if row.control == "none"]
    grown = [replace(row, readout="edge_cumulative", cell_id=f"c{row.cell_id}") for row in own]
    top = next(row for row in own if row.layer == 3 and row.main_metric)
    details = json.dumps({"details": {"mix_weights": WEIGHTS}})
    mix = replace(top, readout="edge_mix", layer=None, cell_id="mix", params_json=details)
    rows: list[ResultRow] = [*own, *grown, mix]
    rows += [
        replace(mix, metric=name, value=value, main_metric=False, ci_low=None, ci_high=None) for name, value in SINGLE
    ]
    expected = {"metric": "expected_layer", "value": 1.5, "ci_low": 1.4, "ci_high": 1.75, "main_metric": False}
    rows.append(replace(grown[-1], layer=None, **expected))
    rows.append(replace(mix, readout="edge_cat", cell_id="cat", value=0.91))
    return Results(tuple(rows), made.comparisons, made.kept), top


def test_a_line_says_how_deep_a_task_is_solved():
    results, top = mixed()
    depths, weights, gains = results.view().pipelines
    scores = {header: depths.column(header).get("pos") for header in depths.headers}
    assert scores["mix of all"].value == top.value
    assert scores["first + last"].value == 0.91
    assert scores["centre of gravity"].value == 2.6
    assert scores["KL, bits"].value == 0.25
    assert (scores["expected layer"].low, scores["expected layer"].high) == (1.4, 1.75)
    assert [cell.score.value for cell in weights.lines[0].cells] == WEIGHTS
    assert weights.headers == ("0", *gains.headers) == tuple("012345")
    by_layer = {r.layer: r.value for r in results.rows if r.readout == "edge_cumulative" and r.main_metric}
    assert scores["layer 0"].value == by_layer[0]
    found = [cell.score.value for cell in gains.lines[0].cells]
    assert found == pytest.approx([by_layer[n + 1] - by_layer[n] for n in range(5)])
    table = next(table for table in results.view().tables if table.about.readout == "edge")
    which = depths.lines[0].cells[depths.headers.index("which")].text
    assert which == ", ".join(str(one.layer) for one in table.lines if one.in_best_set)
    assert scores["best layer"].value == max(one.main.value for one in table.lines)


def test_the_table_shows_it_in_every_format(tmp_path, figures):
    results, _ = mixed()
    view = results.view()
    for text in (view.to_text(width=160), view.to_markdown(), view.to_latex(), view.to_html()):
        assert "expected layer" in text
        assert "2.60" in text
        assert "[1.40, 1.75]" in text
    folder = results.save(tmp_path)
    assert (folder / "pipeline.png").read_bytes()[:4] == b"\x89PNG"
    assert "expected layer" in view.pipeline().to_csv()


def test_two_ways_of_reading_a_task_are_two_tables_told_apart():
    results, _ = mixed()
    titles = [grid.title for grid in results.view().shown()]
    assert "pos · accuracy by layer, % · edge.v1" in titles
    assert "pos · accuracy by layer, % · edge_cumulative.v1" in titles


def test_without_mixtures_there_is_nothing_to_show():
    view = made_up_results().view()
    assert view.pipelines == ()
    with pytest.raises(ResultsError, match="edge_mix and edge_cumulative"):
        view.pipeline()
    with pytest.raises(ResultsError, match="nothing to draw"):
        view.plot_pipeline()


def test_sweeps_are_told_apart_by_what_they_change():
    made = made_up_results(controls=False)
    rows = []
    for hidden in (16, 64):
        params = json.dumps({"settings": {"hidden": hidden, "fraction": 0.1}})
        rows += [replace(row, readout="mlp", params_json=params, cell_id=f"{hidden}{row.cell_id}") for row in made.rows]
    tables = Results(tuple(rows)).view().tables
    assert [table.about.reading for table in tables] == [f"mlp.v1, hidden {n}, 10 % of train" for n in (16, 64)]
