"""What a person reads is what the rows say."""

import csv
import dataclasses
import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from bertology.errors import NameNotFoundError, ResultsError
from bertology.results import Results
from bertology.results.views import layer_tables

LEGEND = "statistically tied for best layer (paired bootstrap, Benjamini–Hochberg q < .05)"


def changed(results, chosen, **values):
    """The results with ``values`` in the rows that ``chosen`` picks."""
    rows = [dataclasses.replace(row, **values) if chosen(row) else row for row in results.rows]
    return dataclasses.replace(results, rows=tuple(rows))


def value_of(results, **wanted):
    found = [r.value for r in results.rows if all(getattr(r, name) == value for name, value in wanted.items())]
    return float(np.mean(found))


def test_a_table_holds_the_scores_of_its_rows(pos):
    (table,) = pos.view().tables
    assert [line.layer for line in table.lines] == [0, 1, 2, 3, 4, 5]
    assert (table.metric, table.shown["second"]) == ("accuracy", "macro_f1")
    own = {"layer": 3, "init": "pretrained", "control": "none"}
    line = table.lines[3]
    assert line.main.value == value_of(pos, metric="accuracy", **own)
    assert line.second.value == value_of(pos, metric="macro_f1", **own)
    assert line.random_init.value == value_of(pos, metric="accuracy", layer=3, init="random")
    assert line.control_task.value == value_of(pos, metric="accuracy", layer=3, control="control_task")
    assert line.selectivity.value == value_of(pos, metric="selectivity", layer=3)
    assert line.selectivity.value == pytest.approx(line.main.value - line.control_task.value)
    assert line.seed_spread is None
    majority, word_majority = table.baselines
    assert majority.main.value == value_of(pos, metric="accuracy", control="majority")
    assert word_majority.second.value == value_of(pos, metric="macro_f1", control="word_majority")


def test_the_best_set_is_the_best_layer_and_those_not_told_apart_from_it(pos):
    (table,) = pos.view().tables
    best = max(table.lines, key=lambda line: line.main.value).layer
    apart = {frozenset((c.layer_a, c.layer_b)) for c in pos.comparisons if c.p_adj < 0.05}
    expected = {line.layer for line in table.lines if frozenset((line.layer, best)) not in apart}
    assert {line.layer for line in table.lines if line.in_best_set} == expected
    assert 1 < len(expected) < 6


def test_layers_that_were_not_compared_are_not_ranked(pos):
    view = dataclasses.replace(pos, comparisons=()).view()
    assert all(line.in_best_set is None for line in view.tables[0].lines)
    for text in (view.to_text(), view.to_markdown(), view.to_latex(), view.to_html()):
        assert "★" not in text
        assert "**9" not in text
        assert "textbf" not in text
        assert "separable" not in text


def test_no_layer_is_the_best_by_likeness(pos):
    alike = changed(pos, lambda row: row.metric == "accuracy", metric="cka")
    alike = dataclasses.replace(alike, comparisons=[dataclasses.replace(one, metric="cka") for one in pos.comparisons])
    view = alike.view(metric="cka")
    assert "★" not in view.to_text()
    score, layer = view.models().tables[0].lines[0].cells
    assert (layer.text, score.score) == ("5", view.tables[0].lines[-1].main)
    assert "of CKA, by which no layer is the best, of the last layer" in view.models().to_markdown()


def test_seeds_are_averaged_and_their_spread_shown(two_tasks):
    (table, _) = two_tasks.view().tables
    of_layer = [
        row
        for row in two_tasks.rows
        if (row.task, row.layer, row.init, row.control, row.metric) == (table.task, 2, "pretrained", "none", "accuracy")
    ]
    assert len(of_layer) == table.n_seeds == 2
    line = table.lines[2]
    assert line.main.value == pytest.approx(np.mean([row.value for row in of_layer]))
    assert line.main.low == pytest.approx(np.mean([row.ci_low for row in of_layer]))
    assert line.seed_spread.value == pytest.approx(np.std([row.value for row in of_layer], ddof=1))
    assert "mean of 2 seeds" in two_tasks.to_markdown()


def test_a_task_is_ranked_by_its_own_metric_or_the_one_asked_for(pos):
    own = changed(pos, lambda row: True, main_metric=False)
    own = changed(own, lambda row: row.metric == "macro_f1", main_metric=True)
    (table,) = own.view().tables
    assert (table.metric, table.shown["second"]) == ("macro_f1", "accuracy")
    assert not table.compared  # the comparisons are of accuracy
    assert own.view("accuracy").tables[0].compared
    with pytest.raises(NameNotFoundError, match="unknown metric of task pos 'acuracy': did you mean accuracy"):
        pos.view("acuracy")


@pytest.mark.parametrize(
    ("field", "value"),
    [("corpus_fingerprint", "0ther"), ("task_version", "v2"), ("model_fingerprint", "other weights")],
)
def test_a_view_refuses_to_mix(pos, field, value):
    def layer_four(row):
        return row.layer == 4 and row.init == "pretrained"

    mixed = changed(pos, layer_four, **{field: value})
    with pytest.raises(ResultsError, match=f"{field} .*cannot stand in one view") as caught:
        mixed.view()
    assert "\n" not in str(caught.value)
    assert "only(" in str(caught.value)
    assert mixed.only(**{field: value}).view().tables[0].lines[0].layer == 4


def test_a_view_refuses_two_scores_for_one_thing(pos):
    twice = [dataclasses.replace(row, experiment="again", cell_id=f"{row.cell_id}-again") for row in pos.rows]
    both = dataclasses.replace(pos, rows=(*pos.rows, *twice))
    with pytest.raises(ResultsError, match=r"layer 0, seed 0: cells pos-0-0 and pos-0-0-again give two scores"):
        both.view()
    assert (
        both.only(experiment="again").view().tables[0].lines
        == dataclasses.replace(pos, comparisons=()).view().tables[0].lines
    )


def test_a_failed_cell_is_seen(pos):
    def failing(row):
        return row.layer == 3 and row.init == "pretrained" and row.control == "none"

    failed = changed(pos, failing, status="failed", value=None, ci_low=None, ci_high=None)
    (table,) = failed.view().tables
    assert table.lines[3].main is None
    assert re.search(r"failed\s+1 cells without a score", failed.view().to_text())


def test_only_keeps_baselines_and_names_what_is_not_there(pos):
    assert {row.control for row in pos.only(model="pocket").rows} >= {"majority", "word_majority", "none"}
    assert {row.layer for row in pos.only(layer=2, control="none").rows} == {2}
    with pytest.raises(NameNotFoundError, match="did you mean corpus"):
        pos.only(corpora="pocket")
    with pytest.raises(ResultsError, match="no results with task 'xpos'"):
        pos.only(task="xpos")


def test_nothing_to_show_is_said(pos):
    with pytest.raises(ResultsError, match="no scores of any layer"):
        Results(()).view()
    assert layer_tables((), ()) == ()
    with pytest.raises(ResultsError, match="no scores of any layer"):
        pos.only(control="majority").view()


def numbers_of(line):
    return re.findall(r"\d+\.\d", line)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_terminal_table_fits_and_says_all(pos, width):
    text = pos.view().to_text(width=width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text
    assert LEGEND in re.sub(r"\s+", " ", text)
    (table,) = pos.view().tables
    for line in table.lines:
        (shown,) = (s for s in lines if s.startswith(f" {'0 · embeddings' if line.layer == 0 else line.layer} "))
        expected = (line.main.value, line.main.low, line.main.high, line.second.value, line.random_init.value)
        assert numbers_of(shown)[:5] == [f"{100 * value:.1f}" for value in expected]
        assert ("★" in shown) == line.in_best_set
    flat = re.sub(r"\s+", " ", text)
    assert "3 skipped (no piece 2, too long 1)" in flat
    assert "2 with a label unseen in training" in flat
    assert f"{table.about.n_items:,} items in 300 sentences" in flat


def test_latex_is_booktabs_and_balanced(pos):
    text = changed(pos, lambda row: True, corpus="ud_english_ewt & more", n_train=12_345).to_latex()
    for rule in (
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"\begin{tabular}{lr@{\,}lrr",
        r"\caption{",
        r"\label{tab:pos}",
    ):
        assert rule in text
    plain = text.replace(r"\{", "").replace(r"\}", "")
    assert plain.count("{") == plain.count("}")
    assert r"ud\_english\_ewt \& more" in text
    first, _, body = text.partition("\n")
    assert first == r"% needs \usepackage{booktabs}"
    assert not re.search(r"(?<!\\)[%#_]", body)
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    head, *rest = (len(re.findall(r"(?<!\\)&", row)) for row in rows)
    # Of accuracy and selectivity the interval has a column of its own.
    assert (head, set(rest)) == (5, {7})
    assert len(re.findall(r"\\textbf", text)) == sum(line.in_best_set for line in pos.view().tables[0].lines)
    assert r"\emph{Bold}: statistically tied for best layer" in text


def test_html_is_well_formed_and_escaped(pos):
    text = changed(pos, lambda row: True, corpus="<b>&").to_html()
    root = ElementTree.fromstring(text.replace("<br>", "<br/>"))
    assert len(root.findall("./tbody/tr")) == 8
    assert len(root.findall(".//td/b")) == sum(line.in_best_set for line in pos.view().tables[0].lines)
    assert "<b>&" not in text
    assert pos._repr_html_() == pos.to_html()


def test_csv_and_json_hold_the_numbers_themselves(pos):
    (table,) = pos.view().tables
    known = {(row["row"], row["column"]): row for row in csv.DictReader(io.StringIO(pos.to_csv()))}
    plain = json.loads(pos.to_json())[0]
    for line in table.lines:
        row = known["0 · embeddings" if line.layer == 0 else str(line.layer), "accuracy"]
        (number,) = (one for one in plain["numbers"] if (one["row"], one["column"]) == (row["row"], "accuracy"))
        assert float(row["value"]) == number["value"] == line.main.value
        assert float(row["ci_low"]) == number["ci_low"] == line.main.low
        assert row["in_best_set"] == str(number["in_best_set"]) == str(line.in_best_set)
        assert float(known[row["row"], "selectivity"]["ci_high"]) == line.selectivity.high
    assert known["word majority", "macro-F1"]["model"] == plain["about"]["model"] == "pocket"
    assert plain["notes"]["accuracy"] == "share of items whose label is predicted"


def test_a_negative_number_has_a_minus_and_zero_none(two_tasks):
    def lowest(row):
        return row.metric == "selectivity" and row.layer == 0

    text = changed(two_tasks, lowest, value=-0.0004, ci_low=-0.0123, ci_high=0.01).to_markdown()
    assert "0.0 [−1.2, 1.0]" in text
    assert "−0.0" not in text
