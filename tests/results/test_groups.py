"""Scores by group: tables, grids, frames and what is written of them."""

import dataclasses
import re
from dataclasses import replace

import numpy as np
import pytest

from bertology import load_corpus, probe
from bertology.corpora import Sentences
from bertology.encoders import resolve_model
from bertology.encoders.loading import load_reader
from bertology.errors import BertologyError, ResultsError
from bertology.results import read_results
from bertology.results.rows import Score

LONG = "N-1 P413 position played on team / speciality"


def rows_of(results, layer, metric="p_at_1", **more):
    found = [row for row in results.rows if row.layer == layer and row.metric == metric and row.group is not None]
    chosen = {"control": "none", "init": "pretrained", **more}
    return [row for row in found if all(getattr(row, name) == value for name, value in chosen.items())]


def columns(grid):
    """A grid's cells by header and row."""
    return {header: {line.label: line.cells[place] for line in grid.lines} for place, header in enumerate(grid.headers)}


def test_tables_hold_the_main_metric_of_every_group_and_layer(facts):
    (found,) = facts.view().groups
    assert found.headers == ("items", "skipped", "majority (oracle)", *map(str, range(5)))
    assert [line.label for line in found.lines] == ["stated 10 times", "stated 2 times", LONG]
    for line in found.lines:
        for layer, cell in enumerate(line.cells[3:]):
            (row,) = [row for row in rows_of(facts, layer) if row.group == line.label]
            assert cell.score == Score(row.value, row.ci_low, row.ci_high)
    assert [line.cells[0].text for line in found.lines] == ["40", "40", "37"]
    assert [line.cells[1].text for line in found.lines] == ["0", "0", "3"]


def test_rows_that_were_read_come_in_the_order_of_their_numbers(facts, tmp_path):
    facts.save(tmp_path, tables=(), plots=())
    (found,) = read_results(tmp_path).view().groups
    assert [line.label for line in found.lines] == [LONG, "stated 2 times", "stated 10 times"]
    assert list(read_results(tmp_path).per_group("lama", 4).index) == [LONG, "stated 2 times", "stated 10 times"]


def test_chance_has_a_column_where_groups_differ_in_it(pairs, made_up_cloze):
    shown = columns(pairs.view().groups[0])
    assert {name: cell.text for name, cell in shown["chance"].items()} == {"simple": "50.0", "three rivals": "25.0"}
    same = made_up_cloze(tally="choices", groups=("a", "b"), chances={"a": 0.5, "b": 0.5}, controls=False)
    assert "chance" not in same.view().groups[0].headers
    assert any("50.0 % of choices" in note.text for grid in same.view().shown() for note in grid.notes)


@pytest.mark.parametrize(
    ("most", "kept"), [(1, "12"), (2, "0 12"), (4, "0 4 8 12"), (13, " ".join(map(str, range(13))))]
)
def test_fewer_layers_run_from_the_first_to_the_last(made_up_cloze, most, kept):
    (groups,) = made_up_cloze(n_layers=12, controls=False).view().groups
    grid = groups.thinned(most)
    assert " ".join(grid.headers[2:]) == kept
    left_out = [note.text for note in grid.notes if note.about == "columns"]
    assert left_out == ([f"{13 - most} more in the CSV, for want of room"] if most < 13 else [])


@pytest.mark.parametrize("width", [72, 80, 100, 140, 260])
def test_a_terminal_shows_as_many_layers_as_it_has_room_for(made_up_cloze, width):
    text = made_up_cloze(n_layers=24, controls=False).view().to_text(width=width)
    table = text.partition("lama by group")[2]
    assert all(len(line) <= width for line in table.splitlines())
    header = next(line for line in table.splitlines() if line.startswith(" group"))
    layers = [int(found) for found in re.findall(r"\b\d+\b", header)]
    assert layers[-1] == 24
    assert ("for want of room" in table) == (len(layers) < 25)
    assert (len(layers) == 25) == (width == 260)
    # Only names are cut, in their middle; no number is.
    assert (LONG in table) == (width >= 140)
    assert len(re.findall("…", table)) == (width < 140)
    assert re.search(r"speciality .*\]$", table, re.MULTILINE)


def test_a_frame_of_one_layers_groups(facts):
    frame = facts.per_group("lama", 3)
    expected = {row.group: row for row in rows_of(facts, 3)}
    assert frame.index.name == "group"
    assert list(frame.columns) == ["items", "clusters", "skipped", "value", "ci_low", "ci_high"]
    assert list(frame.index) == list(expected)
    for name, row in expected.items():
        numbers = [row.n_items, row.n_clusters, row.n_skipped, row.value, row.ci_low, row.ci_high]
        assert frame.loc[name].tolist() == numbers
    assert frame.attrs["metric"] == "p_at_1"


def test_what_has_no_groups_is_refused_in_one_line(facts, pos, made_up_cloze):
    for results, task, layer, chosen, said in (
        (pos, "pos", 3, {}, "task pos, layer 3: its items stand in no groups"),
        (made_up_cloze(groups=("all",), controls=False), "lama", 3, {}, "stand in no groups"),
        (facts, "lama", 9, {}, "no results with task 'lama', layer 9"),
        (facts, "lama", 3, {"metric": "micro_p_at_1"}, "metric of the groups of task lama"),
        (facts, "lama", 3, {"metric": "p_at_2"}, "did you mean p_at_1"),
    ):
        with pytest.raises(BertologyError, match=re.escape(said)) as refused:
            results.per_group(task, layer, **chosen)
        assert "\n" not in str(refused.value)


def test_two_models_must_be_told_apart(facts):
    other = [dataclasses.replace(r, model="other", cell_id=f"o-{r.cell_id}") for r in facts.rows if r.model]
    both = dataclasses.replace(facts, rows=(*facts.rows, *other))
    with pytest.raises(ResultsError, match="2 cells fit; choose one by model"):
        both.per_group("lama", 1)
    assert both.per_group("lama", 1, model="other").equals(facts.per_group("lama", 1))
    with pytest.raises(ResultsError, match="2 tables of groups do not fit one figure: give task="):
        both.view().plot_groups()


@pytest.mark.parametrize("method", ["per_label", "confusion"])
def test_labels_of_a_cloze_task_are_refused_by_naming_its_groups(facts, method):
    with pytest.raises(ResultsError, match=re.escape("task lama has no labels: .per_group('lama', 3)")):
        getattr(facts, method)("lama", 3)


def test_words_are_grouped_by_their_pieces_or_as_one_likes(tiny_bert, tmp_path):
    whole = load_corpus("pocket")
    corpus = replace(whole, splits={name: whole[name][:60] for name in ("train", "dev", "test")})
    tasks = ["pos", "word_number:length"]
    results = probe(tasks, corpus=with_lengths(corpus), model=tiny_bert, layers="1", controls="majority", out=tmp_path)
    reader = load_reader(resolve_model(str(tiny_bert)))
    lines = results.predictions("pos", 1)
    pieces = [len(reader.backend.encode(word, add_special_tokens=False).ids) for word in lines["word"]]
    by_pieces = results.per_group("pos", 1, by="pieces")
    for n, name in ((1, "1 piece"), (2, "2 pieces"), (3, "3 pieces")):
        chosen = lines[np.array(pieces) == n]
        assert by_pieces.loc[name, "items"] == len(chosen) > 0
        assert by_pieces.loc[name, "clusters"] == chosen["sentence"].nunique()
        assert by_pieces.loc[name, "value"] == pytest.approx((chosen.gold == chosen.predicted).mean())
        assert by_pieces.loc[name, "ci_low"] <= by_pieces.loc[name, "value"] <= by_pieces.loc[name, "ci_high"]
    assert by_pieces["items"].sum() == len(lines)
    first = results.per_group("pos", 1, by=["" if place != "1" else "first" for place in lines["place"]])
    assert first.loc["first", "items"] == 60
    numbers, read = results.predictions("word_number:length", 1), read_results(tmp_path)
    errors = ((numbers.gold.astype(float) - numbers.predicted.astype(float)) ** 2).sum()
    spread = ((numbers.gold.astype(float) - numbers.gold.astype(float).mean()) ** 2).sum()
    whole = results.per_group("word_number:length", 1, by=["all"] * len(numbers)).loc["all", "value"]
    assert whole == pytest.approx(1 - errors / spread, abs=1e-4)
    for message, change in {
        "cannot be counted without its text: give it with texts=": lambda: read.per_group("pos", 1, by="pieces"),
        "2 names of groups for": lambda: results.per_group("pos", 1, by=["a", "b"]),
        "unknown grouping of words 'piece': did you mean pieces": lambda: results.per_group("pos", 1, by="piece"),
        "reads no pieces": lambda: results.per_group("pos", None, control="majority", by="pieces"),
    }.items():
        with pytest.raises(BertologyError, match=message):
            change()
    assert read.per_group("pos", 1, by="pieces", texts=with_lengths(corpus)).equals(by_pieces)


def with_lengths(corpus):
    """Words with their number of letters."""
    return replace(
        corpus,
        splits={
            name: Sentences(
                replace(one, layers={**one.layers, "length": tuple(str(len(word)) for word in one.words)})
                for one in split
            )
            for name, split in corpus.splits.items()
        },
    )
