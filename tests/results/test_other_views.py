"""Models by tasks, layers by seeds, and the heatmap: the numbers are those of the rows."""

import csv
import dataclasses
import io
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.patches import Rectangle
from rich.console import Console

from bertology.results import Results


def of_two_models(two_tasks):
    """Two models, the second of which is asked for one task only."""
    others = [
        dataclasses.replace(row, model="other & more", cell_id=f"other-{row.cell_id}", model_fingerprint="0ther")
        for row in two_tasks.rows
        if row.model and row.task == "pos" and row.init == "pretrained"
    ]
    return Results((*two_tasks.rows, *others), two_tasks.comparisons)


def lines_of(view):
    return list(csv.DictReader(io.StringIO(view.to_csv())))


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_table_too_wide_for_the_terminal_goes_on_below_and_no_cell_is_cut(two_tasks, width):
    view, text = of_two_models(two_tasks).view().models(), io.StringIO()
    Console(file=text, width=width).print(view)
    (grid,) = view.tables
    assert "…" not in text.getvalue()
    for line in grid.lines:
        assert line.label in text.getvalue()
        assert all(f"{cell.text} {cell.interval}".strip() in text.getvalue() for cell in line.cells)


def test_models_by_tasks(two_tasks):
    view = of_two_models(two_tasks).view()
    (grid,) = view.models().tables
    assert grid.corner == "Model"
    assert {*grid.headers[::2]} == {"ner accuracy", "pos accuracy"}
    assert {*grid.headers[1::2]} == {"layer"}
    labels = [line.label for line in grid.lines]
    assert labels == ["pocket", "other & more", "majority", "word majority"]
    for table in view.tables:
        best = max(table.lines, key=lambda line: line.main.value)
        column = grid.headers.index(f"{table.task} accuracy")
        score, layer = grid.lines[labels.index(table.about.model)].cells[column : column + 2]
        assert score.score == best.main
        assert layer.text == str(best.layer)
    missing = grid.lines[1].cells[grid.headers.index("ner accuracy")]
    assert missing.text == "–"
    assert "were not compared" in view.models().to_markdown()


def test_models_of_one_name_are_told_apart(pos):
    others = [dataclasses.replace(r, pooling="first", cell_id=f"f-{r.cell_id}") for r in pos.rows if r.model]
    (grid,) = Results((*pos.rows, *others), ()).view().models().tables
    assert [line.label for line in grid.lines[:2]] == ["pocket · mean", "pocket · first"]


def test_layers_by_seeds(two_tasks):
    view = two_tasks.view()
    for grid, table in zip(view.seeds().tables, view.tables, strict=True):
        assert grid.headers == ("seed 0", "seed 1", "mean", "s.d.")
        for line, found in zip(grid.lines, table.lines, strict=True):
            values = [
                row.value
                for seed in (0, 1)
                for row in two_tasks.rows
                if (row.task, row.layer, row.seed, row.init, row.control, row.metric)
                == (table.task, found.layer, seed, "pretrained", "none", "accuracy")
            ]
            assert [cell.score.value for cell in line.cells] == pytest.approx(
                [*values, np.mean(values), np.std(values, ddof=1)]
            )
    numbers = lines_of(view.seeds())
    assert len(numbers) == 2 * 6 * 4
    assert {line["in_best_set"] for line in numbers} == {"False"}


def test_heatmap_writes_values_and_shades_alike_in_all_tasks(two_tasks):
    view = two_tasks.view()
    figure = view.heatmap()
    FigureCanvasAgg(figure).draw()
    (ax,) = figure.axes
    (mesh,) = (c for c in ax.collections if isinstance(c, QuadMesh))
    shades = np.asarray(mesh.get_array()).reshape(6, 2)
    written = {tuple(np.floor(text.get_position()).astype(int)): text.get_text() for text in ax.texts}
    framed = {tuple(np.floor(p.get_xy()).astype(int)) for p in ax.patches if isinstance(p, Rectangle)}
    scores = np.array([[line.main.value for line in table.lines] for table in view.tables])
    widest = np.ptp(scores, axis=1).max()
    for column, (table, values) in enumerate(zip(view.tables, scores, strict=True)):
        np.testing.assert_allclose(shades[:, column], 1 - (values.max() - values) / widest)
        for row, line in enumerate(table.lines):
            assert written[column, row] == f"{100 * line.main.value:.1f}"
            assert ((column, row) in framed) == line.in_best_set
    assert "Framed: statistically tied" in figure.get_supxlabel()


def test_latex_is_set(two_tasks, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    if subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False).returncode:
        pytest.skip("booktabs is not installed")
    results = of_two_models(two_tasks)
    tables = results.only(model="pocket").view().to_latex() + results.view().models().to_latex()
    tables += results.view().seeds().to_latex()
    document = (
        r"\documentclass{article}\usepackage{booktabs}\begin{document}"
        f"\n{tables}\n" + r"\end{document}"
    )
    (tmp_path / "tables.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
