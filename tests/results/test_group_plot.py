"""The figure of groups by layers shows the rows' numbers, whatever their names, and is saved beside the others."""

import dataclasses

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bertology.results import Results
from bertology.results.figures import plot_groups
from bertology.results.rows import Score
from bertology.results.table import Note, Table

NAMES = ("position played on team / speciality", "capital of", "official language", "country of citizenship")


def beside(figure):
    """What stands to the right of the groups."""
    (right,) = figure.axes[0].child_axes
    return [label.get_text() for label in right.get_yticklabels()]


def many(groups, *, n_groups=22, n_layers=12):
    """As many groups and layers as a real set has."""
    rng, rows = np.random.default_rng(0), {}
    for number in range(n_groups):
        scores = [Score(value, value - 0.05, value + 0.05) for value in rng.random(n_layers + 1).tolist()]
        rows[f"N-1 P{400 + number} {NAMES[number % 4]}"] = [12_345, *scores]
    headers, about = ["items", *map(str, range(n_layers + 1))], dataclasses.replace(groups.about, n_layers=n_layers)
    how = {"metric": groups.metric, "series": n_layers + 1, "about": about, "intervals": {n_layers + 1}}
    return Table.of(groups.title, headers, rows, [Note("interval", "")], **how)


def test_values_and_intervals_are_the_scores(facts):
    view = facts.view()
    (groups,) = view.groups
    figure = view.plot_groups()
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [line.label for line in groups.lines]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "2", "3", "4"]
    written = {text.get_position(): text.get_text() for text in ax.texts[:15]}
    for row, (line, text) in enumerate(zip(groups.lines, beside(figure), strict=True)):
        for layer, cell in enumerate(line.cells[3:]):
            assert written[layer + 0.5, row + 0.5] == cell.text
        last = line.cells[-1].score
        assert text.startswith(f"[{100 * last.low:.1f}, {100 * last.high:.1f}]  items {line.cells[0].text}  ")
    # The first group stands at the top.
    assert ax.get_ylim() == (3, 0)
    assert "4: the model's own answer" in figure.get_supxlabel()


def test_chance_is_a_column_where_it_differs_else_a_note(pairs, made_up_cloze):
    assert [text.partition("chance ")[2].partition(" ")[0] for text in beside(pairs.view().plot_groups())] == [
        "50.0",
        "25.0",
    ]
    same = made_up_cloze(tally="choices", groups=("a", "b"), chances={"a": 0.5, "b": 0.5}, controls=False)
    figure = same.view().plot_groups()
    assert not any("chance" in text for text in beside(figure))
    assert "By chance 50.0 %." in figure.get_supxlabel()


@pytest.mark.parametrize(("n_groups", "n_layers"), [(2, 1), (22, 12)])
def test_nothing_overlaps_or_sticks_out(facts, n_groups, n_layers):
    figure = plot_groups(many(facts.view().groups[0], n_groups=n_groups, n_layers=n_layers))
    FigureCanvasAgg(figure).draw()
    width, height = figure.canvas.get_width_height()
    (ax,) = figure.axes
    frame = ax.get_window_extent()
    (right,) = ax.child_axes
    drawn = (*ax.texts, *right.get_yticklabels(), *ax.get_yticklabels())
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn]
    for text, box in boxes:
        assert box.x0 >= -1, text
        assert box.x1 <= width + 1, text
        assert box.y0 >= -1, text
        assert box.y1 <= height + 1, text
    for _, name in boxes[-n_groups:]:
        assert name.x1 <= frame.x0 + 1
    # [text, edge]: left, right, lower, upper.
    edges = np.array([(box.x0, box.x1, box.y0, box.y1) for _, box in boxes])
    left, right, low, high = (edges[:, column, None] for column in range(4))
    overlap = (left < right.T) & (right > left.T) & (low < high.T) & (high > low.T)
    assert overlap.sum() == len(boxes)


def saved(results, folder, **options):
    results.save(folder, **options)
    return {path.name for path in folder.iterdir() if path.name.startswith("groups")}


def test_one_task_with_groups_is_saved_as_groups(facts, tmp_path, figures):
    assert saved(facts, tmp_path / "a") == {"groups.png", "groups.svg", "groups.pdf"}


def test_tasks_with_groups_are_saved_by_their_names(facts, pairs, made_up_cloze, tmp_path, figures):
    negated = made_up_cloze("lama:negated", tally="changes", controls=False)
    others = [dataclasses.replace(r, model="other", cell_id=f"o-{r.cell_id}") for r in negated.rows]
    everything = Results((*facts.rows, *pairs.rows, *negated.rows, *others))
    found = saved(everything, tmp_path, plots=("svg",), tables=())
    assert found == {f"groups-{name}.svg" for name in ("lama", "agreement", "lama-negated", "lama-negated-2")}
