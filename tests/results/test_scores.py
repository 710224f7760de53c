"""What a table says beside its numbers, and the rows that a person means."""

import dataclasses
import json

import pytest

from bertology.results import Results
from tests.results.conftest import made_up_cloze_results, made_up_results
from tests.results.test_pipeline import mixed


def with_params(results, chosen, **params):
    """The results with more in ``params_json`` of the rows that ``chosen`` picks; values may depend on the row."""
    rows = []
    for row in results.rows:
        if chosen(row):
            more = {name: value(row) if callable(value) else value for name, value in params.items()}
            row = dataclasses.replace(row, params_json=json.dumps({**json.loads(row.params_json), **more}))
        rows.append(row)
    return dataclasses.replace(results, rows=tuple(rows))


def notes_of(grid):
    return {note.about: note.text for note in grid.notes}


def test_scores_are_those_of_the_task_itself(two_tasks, facts):
    both = Results((*two_tasks.rows, *facts.rows), two_tasks.comparisons)
    frame = both.scores()
    assert not frame.duplicated(["task", "model", "layer", "metric"]).any()
    counts = frame.groupby(["task", "metric"]).size().to_dict()
    probed = {(task, metric): 6 for task in ("pos", "ner") for metric in ("accuracy", "macro_f1")}
    assert counts == {**probed, **{("lama", metric): 5 for metric in ("p_at_1", "mrr", "micro_p_at_1")}}
    assert dict(zip(frame["task"], frame["n_seeds"], strict=True)) == {"pos": 2, "ner": 2, "lama": 1}
    for table in both.view().tables:
        ours = frame[(frame["task"] == table.task) & (frame["metric"] == table.metric)].set_index("layer")
        for line in table.lines:
            row = ours.loc[line.layer]
            assert (row["value"], row["ci_low"], row["ci_high"]) == (line.main.value, line.main.low, line.main.high)


def test_random_weights_are_scores_where_they_alone_are_asked_about(pos):
    alone = Results(tuple(row for row in pos.rows if row.init == "random"))
    frame = alone.scores()
    assert len(frame) == 12
    assert sorted(frame["value"]) == sorted(row.value for row in alone.rows)
    assert len(Results(()).scores()) == 0


def test_scores_tell_readings_and_mixtures_apart():
    results, _ = mixed()
    frame = results.scores()
    assert not frame.duplicated(["task", "model", "readout", "layer", "metric"]).any()
    assert set(frame["readout"]) == {"edge.v1", "edge_cumulative.v1", "edge_mix.v1", "edge_cat.v1"}
    assert frame[frame["readout"] == "edge_mix.v1"]["layer"].isna().all()


def own(row):
    return row.readout == "linear" and row.control == "none" and row.init == "pretrained"


def test_different_strengths_are_named_below_the_table(pos, tmp_path):
    made = with_params(pos, own, strength=lambda row: 1.0 if row.layer in (1, 4) else 0.01)
    (table,) = made.view().tables
    assert [line.strength for line in table.lines] == ["0.01", "1", "0.01", "0.01", "1", "0.01"]
    said = notes_of(made.view().shown()[0])["C"]
    assert "chosen on dev" in said
    shown = made.view().shown()[0]
    assert [line.cells[shown.headers.index("C")].text for line in shown.lines[:3]] == ["0.01", "1", "0.01"]
    numbers = [line.split(",")[-4] for line in made.view().to_csv().splitlines() if ",C," in line]
    assert numbers == ["0.01", "1.0", "0.01", "0.01", "1.0", "0.01"]
    from tests.results.report.conftest import page_of, payload

    page = page_of(made.save(tmp_path, tables=(), plots=()))
    ((entry,),) = [question["entries"] for question in payload(page)["questions"]]
    assert [line["strength"] for line in entry["lines"]] == ["0.01", "1", "0.01", "0.01", "1", "0.01"]


def test_a_statistic_says_what_its_task_fits(pos):
    fitted = {"readout": "vectors", "params_json": json.dumps({"note": ["readout", "k-means of spans"]})}
    for more, n_train, said in (
        (fitted, 120, "k-means of spans; fitted to 120 items of train"),
        (fitted, 0, "k-means of spans"),
        ({"readout": "vectors"}, 0, "statistics of the vectors; nothing is fitted"),
    ):
        rows = [dataclasses.replace(row, n_train=n_train, **more) for row in pos.rows if row.control == "none"]
        grid = Results(tuple(rows), pos.comparisons).view().shown()[0]
        assert notes_of(grid)["readout"] == said


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (made_up_results(controls=False), "3,267 items in 300 sentences"),
        (made_up_cloze_results(controls=False), "117 items in 59 clusters"),
        (
            with_params(made_up_cloze_results(controls=False), lambda _: True, clusters="subjects"),
            "117 items in 59 subjects",
        ),
    ],
)
def test_clusters_are_named(results, said):
    notes = notes_of(results.view().shown()[0])
    assert said in notes["data"]
    noun = said.rpartition(" ")[2]
    assert f"over {noun}" in notes["interval"].replace("test sentences", "sentences")
    assert f"intervals over {noun}" in results.view().plot()._supxlabel.get_text()


def gravity(results, *values, pace=None):
    """Results whose mixture has these centres of gravity, one a seed."""
    rows = [row for row in results.rows if row.metric != "center_of_gravity"]
    (row,) = [row for row in results.rows if row.metric == "center_of_gravity"]
    rows += [dataclasses.replace(row, value=value, seed=seed, cell_id=f"m{seed}") for seed, value in enumerate(values)]
    made = Results(tuple(rows), results.comparisons)
    if pace is None:
        return made
    details = {"mix_weights": [0.5, 0.5], "mix_pace": pace}
    return with_params(made, lambda row: row.readout == "edge_mix", details=details)


def test_a_centre_of_gravity_has_an_interval_over_seeds_alone():
    results, _ = mixed()
    score = gravity(results, 2.6).view().pipelines[0].column("centre of gravity")["pos"]
    assert (score.value, score.low) == (2.6, None)
    said = notes_of(gravity(results, 2.6).view().pipeline().tables[0])["centre of gravity"]
    assert "no interval" in said
    assert "times" not in said
    made = gravity(results, 2.5, 2.6, 2.9, pace=20.0)
    score = made.view().pipelines[0].column("centre of gravity")["pos"]
    # The t of two degrees of freedom, by a table.
    half = 4.3027 * 0.20817
    assert score.value == pytest.approx(8 / 3)
    assert (score.low, score.high) == pytest.approx((8 / 3 - half, 8 / 3 + half), abs=1e-3)
    said = notes_of(made.view().pipeline().tables[0])["centre of gravity"]
    assert "over seeds" in said
    assert "20 times" in said
