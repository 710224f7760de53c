"""Figures of results: score by layer, heat maps, groups, attention heads, depth of tasks, scores over a training.

They are made for print and for colour-blind readers, without touching pyplot's state.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import EngFormatter, FixedLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from bertology import _figures as looks
from bertology._figures import BLUE, GREEN, GREY, PURPLE, TEXT, VERMILION, ShownFigure
from bertology._files import shortened
from bertology._names import by_key, evenly
from bertology.encoders import LabelledArray
from bertology.errors import ResultsError
from bertology.measures.metrics import DRAWN_COLUMNS, LAYER_COLUMNS, is_dotted, metric_form
from bertology.results.rows import INITS, Score
from bertology.results.table import INTERVAL, NOTHING, Table, axis_ends, brief, data_of, number, titled, without_folders
from bertology.results.views import LayerTable, StepTable, head_place, summary_headers

_PALETTE = {"green": GREEN, "vermilion": VERMILION, "purple": PURPLE}
_COLORS = (BLUE, VERMILION, GREEN, PURPLE, "#56B4E9", "#E69F00", "#000000")
_MARKERS, _STYLES = "os^Dvxp", ("-", "--", ":", "-.")
_LABEL_GAP = 0.062
_MOST_LAYER_TICKS, _MOST_PANELS, _MOST_STEP_TICKS = 13, 12, 6
_LAYER_AXIS = "layer (0: embeddings)"
_BRIEF = EngFormatter(sep="")
"""Numbers of updates: 1k, 1.5M."""
_TIED = "statistically tied with the best layer (paired bootstrap, Benjamini–Hochberg q < .05)."


def plot_tables(tables: Sequence[LayerTable], *, ax: Axes | None = None) -> Figure:
    """Draw each table in a panel of its own; among several, those without scores are left out."""
    # What failed is told in its table; there is nothing of it to draw.
    tables = [table for table in tables if any(line.main for line in table.lines)] or tables
    if not tables:
        raise ResultsError("there are no scores to draw")
    if ax is not None:
        if len(tables) > 1:
            raise ResultsError(f"{len(tables)} tables do not fit one plot: choose one by only(task=…), or leave ax out")
        _draw(ax, tables[0])
        figure = ax.figure
        while isinstance(figure, SubFigure):
            figure = figure.figure
        return figure
    columns, size = min(3, len(tables)) if len(tables) != 4 else 2, (6.4, 4.2) if len(tables) == 1 else (4.6, 3.5)
    figure, panels = looks.new_panels(len(tables), columns, *size)
    for panel, table in zip(panels, tables, strict=True):
        _draw(panel, table)
    over = dict.fromkeys(table.about.clusters for table in tables)
    caption = f"Bands: 95 % intervals over {' or '.join(over)}."
    looks.write_caption(figure, f"Filled: {_TIED}\n{caption}" if any(table.compared for table in tables) else caption)
    return figure


def _draw(ax: Axes, table: LayerTable) -> None:
    """Draw a table's lines, each with its name at the right end; baselines as dashed lines."""
    main = {line.layer: line.main for line in table.lines if line.main is not None}
    if not main:
        raise ResultsError(f"task {table.task}: there are no scores to draw")
    labels: list[tuple[float, str, str]] = []
    for name in DRAWN_COLUMNS:
        column = LAYER_COLUMNS[name]
        scores = {line.layer: score for line in table.lines if (score := line.scores[name]) is not None}
        if scores and column.look:
            color, marker = _PALETTE[column.look[0]], column.look[1]
            y = _draw_line(ax, scores, table.metric, color=color, marker=marker, linewidth=1.2, zorder=3)
            of = table.shown[name]
            labels.append((y[-1], column.title + f" ({of})" * (of != table.metric), color))
    y = _draw_line(ax, main, table.metric, color=BLUE, linewidth=1.8, zorder=4)
    filled = [BLUE if line.in_best_set else "white" for line in table.lines if line.main is not None]
    ax.scatter(list(main), y, s=34, c=filled, edgecolors=BLUE, linewidths=1.4, zorder=5)
    own = "own head" if table.about.answers_itself else "frozen" if table.is_frozen else "probe"
    labels.append((y[-1], own, BLUE))
    silver = ", silver labels" if table.about.annotation == "silver" else ""
    looks.write_title(ax, f"{table.task} · {titled(table.metric)}", size=11, pad=18)
    source = f"{brief(table.about.model)} · {brief(table.about.corpus)} {table.about.split}{silver}"
    above: dict[str, Any] = {"xytext": (0, 6), "xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate(source, (0, 1), **above, fontsize=8.5, color=GREY)
    ax.set_xlabel(_LAYER_AXIS, fontsize=9, color=TEXT)
    few = len(main) <= _MOST_LAYER_TICKS
    ax.xaxis.set_major_locator(FixedLocator(list(main)) if few else MaxNLocator(integer=True))
    ax.set_xlim(min(main) - 0.3, max(main) + 0.3)
    looks.style_axes(ax, size=8.5, grid=True)
    _end_axis(ax, table.metric)
    for baseline in sorted(table.baselines, key=lambda line: -line.main.value):
        y_of, (low, high) = baseline.main.value * _scale(table.metric), ax.get_ylim()
        text = f"{baseline.label} {number(baseline.main.value, metric=table.metric)}"
        if y_of < low - 0.35 * (high - low):  # far below all else: named at the lower edge, not drawn to scale
            labels.append((low, f"↓ {text}", GREY))
            continue
        dashes = (0, (1, 2)) if is_dotted(baseline.control) else (0, (5, 3))
        ax.axhline(y_of, color=GREY, linewidth=1.0, linestyle=dashes, zorder=1)
        labels.append((y_of, text, GREY))
        _end_axis(ax, table.metric)
    _place_labels(ax, labels)


def _scale(metric: str) -> float:
    return 100.0 if metric_form(metric).is_fraction else 1.0


def _draw_line(ax: Axes, scores: Mapping[int, Score], metric: str, *, color: str, **style: Any) -> list[float]:
    """Draw scores by place with a band of their intervals, a bar for a single one; returns the scores as drawn."""
    scale = _scale(metric)
    x, y = list(scores), [score.value * scale for score in scores.values()]
    bounds = [(score.low, score.high) for score in scores.values()]
    low, high = scale * np.array(bounds, dtype=np.float64).reshape(-1, 2).T
    if len(x) > 1:
        ax.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0, zorder=2)
    else:
        ax.vlines(x, low, high, color=color, linewidth=1.2, zorder=2)
    ax.plot(x, y, color=color, markersize=4, **style)
    return y


def _end_axis(ax: Axes, metric: str) -> None:
    """Set the limits of the vertical axis to the data of all panels that share it, within the bounds of the metric."""
    scale = _scale(metric)
    drawn = np.concatenate([one.dataLim.intervaly for one in ax.get_shared_y_axes().get_siblings(ax)]) / scale
    if np.isfinite(drawn).any():
        drawn = drawn[np.isfinite(drawn)]
        low, high = axis_ends(drawn.min(), drawn.max(), metric=metric, margin=0.08)
        ax.set_ylim(scale * low, scale * high)


def _place_labels(ax: Axes, labels: Sequence[tuple[float, str, str]]) -> None:
    """Write names to the right of the lines' ends, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    gap = _LABEL_GAP * (high - low)
    ordered = sorted(labels, key=lambda label: label[0])
    steps = gap * np.arange(len(ordered))
    places = np.maximum.accumulate([y for y, _, _ in ordered] - steps) + steps
    places[-1:] = min(places[-1], high)
    places = np.minimum.accumulate((places - steps)[::-1])[::-1] + steps
    at: dict[str, Any] = {"xytext": (6, 0), "xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    for (_, text, color), place in zip(ordered, places, strict=True):
        weight = "bold" if color == BLUE else "normal"
        ax.annotate(text, (1, place), **at, va="center", fontsize=8.5, color=color, fontweight=weight)


def plot_heatmap(tables: Sequence[LayerTable]) -> Figure:
    """Draw layers (rows, the embeddings at the bottom) by tasks (columns).

    The greatest score of each task, or the least if lower is better, has the deepest shade. How much paler the others
    are is measured alike in all tasks of fractions, so that layers that hardly differ look so; else by their own range.
    """
    layers = sorted({line.layer for table in tables for line in table.lines if line.main})
    if not layers:
        raise ResultsError("there are no scores to draw")
    values = np.full((len(layers), len(tables)), np.nan)
    texts, best = dict[tuple[int, int], str](), set[tuple[int, int]]()
    for column, table in enumerate(tables):
        for line in table.lines:
            if line.main:
                place = layers.index(line.layer), column
                values[place] = line.main.value if table.about.higher_is_better else -line.main.value
                texts[place] = number(line.main.value, metric=table.metric)
                best |= {place} if line.in_best_set else set()
    most = np.fmax.reduce(values)
    spans, alike = most - np.fmin.reduce(values), [metric_form(table.metric).is_fraction for table in tables]
    spans[alike] = np.fmax.reduce(spans[alike], initial=0)
    shades = 1 - (most - values) / np.where(spans > 0, spans, 1)
    text = "Deepest: the greatest score of each task, the least if lower is better; palest: as far off as any score is."
    text += f"\nFramed: {_TIED}" if any(table.compared for table in tables) else ""
    names: dict[str, Any] = {"rows": list(map(str, layers)), "columns": _headers(tables), "row_title": _LAYER_AXIS}
    how: dict[str, Any] = {"texts": texts, "framed": best, "origin": "lower", "width": 1.0, "title": "Layers by tasks"}
    return looks.draw_cells(shades, **names, **how, caption=text)


def _headers(tables: Sequence[LayerTable]) -> list[str]:
    """Names that tell columns apart, with folders only where nothing else does; the metric goes to the next line."""
    headers, texts = list(summary_headers(tables)), []
    for header, table in zip(headers, tables, strict=True):
        for name in filter(None, (table.about.model, table.about.corpus)):
            header = header.replace(name, brief(name))
        texts.append(without_folders(header))
    named = zip(texts if len(set(texts)) == len(set(headers)) else headers, tables, strict=True)
    return [
        text.replace(f"{table.task} {metric_form(table.metric).title}", table.task, 1) + f"\n{titled(table.metric)}"
        for text, table in named
    ]


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 for the least value, 1 for the greatest; 0.5 where all are alike."""
    if np.isnan(values).all():
        return values
    least, most = np.nanmin(values), np.nanmax(values)
    return (values - least) / (most - least) if most > least else np.where(np.isnan(values), np.nan, 0.5)


def _numbers(values: NDArray[np.float64], metric: str) -> dict[Any, str]:
    """``[row, column]`` values as texts by row and column."""
    cells = np.ndenumerate(values)
    return {at: NOTHING if np.isnan(value) else number(float(value), metric=metric) for at, value in cells}


def plot_groups(table: Table) -> Figure:
    """Draw groups (rows, the first at the top) by layers (columns).

    Shades run from the least to the greatest score of the picture: groups are scored alike, so that they may be
    compared. To the right stand the last layer's intervals, and the other columns of the table.
    """
    about, first = table.row, len(table.headers) - table.series
    layers, names = table.headers[first:], [shortened(line.label, 60) for line in table.lines]
    scores = [[cell.score.value if cell.score else np.nan for cell in line.cells[first:]] for line in table.lines]
    values = np.array(scores, dtype=np.float64)
    if np.isnan(values).all():
        raise ResultsError(f"task {table.task}: there are no scores of groups to draw")
    beside = []
    for line in table.lines:
        known = zip(table.headers[:first], line.cells, strict=False)
        texts = (f"{header} {cell.text}" for header, cell in known)
        beside.append("  ".join([line.cells[-1].interval or NOTHING, *texts]))
    weights = ", ".join(filter(None, [brief(about.model), INITS[about.init or "pretrained"]]))
    chances = set(about.chances.values())
    by_chance = f" By chance {number(min(chances))} %." if len(chances) == 1 else ""
    is_answer = about.answers_itself and layers[-1] == str(about.n_layers)
    answer = f"; {layers[-1]}: the model's own answer" if is_answer else ""
    caption = (
        f"{weights} · {brief(about.corpus)} {about.split}\nColumns: layers (0: embeddings{answer}); right: "
        f"95 % interval of layer {layers[-1]}.\nShades run from the least to the greatest score.{by_chance}"
    )
    how: dict[str, Any] = {"title": without_folders(table.title), "width": 0.46, "caption": caption}
    how["texts"] = _numbers(values, table.metric)
    figure = looks.draw_cells(_scaled(values), rows=names, columns=list(layers), **how)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width + 0.055 * max(map(len, beside)), height)
    right = figure.axes[0].secondary_yaxis("right")
    right.set_yticks(np.arange(len(names)) + 0.5, beside, fontsize=7.5, color=GREY)
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    return figure


_HEAD_CELL, _COLUMNS = 0.3, 3
_MOST_WRITTEN = 12
"""Most heads in a layer whose values are still legible in their cells."""
_LETTERS = 13
"""Letters of a title in an inch."""
_MOST_UNITS = 160
"""Rows or columns of a map that a page can hold with names beside them."""


def plot_head(
    maps: LabelledArray | Sequence[LabelledArray],
    *,
    title: str | Sequence[str] | None = None,
    label: str = "attention weight",
) -> ShownFigure:
    """Draw the attention map of a head as shades, from the words of rows to those of columns, which label them.

    Args:
        maps: ``[from, to]`` of one head, such as ``encoder.attention("…").at(layer=8, head=10)``; several are drawn
            side by side on one scale.
        title: above each map; the name of the head, such as ``L8H10``, when left out.
        label: of the colour bar.

    Returns:
        The figure: shows itself in a notebook, and has ``.save(path)``.

    Raises:
        ResultsError: an array is not one map, or has too many rows or columns for a figure.
    """
    maps = [maps] if isinstance(maps, LabelledArray) else list(maps)
    for one in maps:
        if list(one.labels) != ["from", "to"]:
            raise ResultsError(
                f"an array of {', '.join(one.labels)} is not the map of one head: choose one, such as "
                "encoder.attention(text).at(layer=2, head=1)"
            )
        if max(one.shape) > _MOST_UNITS:
            raise ResultsError(
                f"{max(one.shape)} units are too many for a figure with room for {_MOST_UNITS}: take a shorter text, "
                "or the page of bertology.attention.view"
            )
    letters = {"layer": "L", "head": "H"}
    titles = [title] if isinstance(title, str) else title
    titles = titles or [
        "".join(f"{letters[axis]}{one.chosen[axis]}" for axis in letters if axis in one.chosen) for one in maps
    ]
    names = [(list(one.labels["from"]), list(one.labels["to"])) for one in maps]
    breaks = [(one.breaks.get("from", ()), one.breaks.get("to", ())) for one in maps]
    values = [np.asarray(one.values, dtype=np.float64) for one in maps]
    most = max(float(np.nan_to_num(one).max()) for one in values) or 1.0
    axes = "from (rows)", "to (columns)"
    return looks.draw_matrices(values, names, titles, label=label, most=most, axes=axes, breaks=breaks)


def plot_heads(panels: Sequence[tuple[str, NDArray[np.float64]]], layers: Sequence[int]) -> ShownFigure:
    """Draw each statistic, its name and ``[layer, head]`` values, in a panel: layers from the bottom up, heads from
    left to right.

    Shades run from the least to the greatest head of each statistic, which is written in its caption; one statistic's
    cannot be compared with another's.

    Raises:
        ResultsError: there is nothing to draw.
    """
    if not panels:
        raise ResultsError("there are no statistics to draw")
    n_heads = panels[0][1].shape[1]
    width, height = 0.9 + _HEAD_CELL * n_heads, 0.85 + _HEAD_CELL * len(layers)
    figure, axes = looks.new_panels(len(panels), min(_COLUMNS, len(panels)), width, height, extra=0.3)
    for ax, (name, values) in zip(axes, panels, strict=True):
        finite, name = values[np.isfinite(values)], name.replace("_", " ")
        least, greatest = (float(finite.min()), float(finite.max())) if len(finite) else (math.nan, math.nan)
        # Where all heads are alike none stands out.
        spread = greatest - least
        shades = (values - least) / spread if spread > 0 else np.where(np.isfinite(values), 0.0, np.nan)
        names: dict[str, Any] = {"rows": list(map(str, layers)), "columns": list(map(str, range(1, n_heads + 1)))}
        texts = looks.brief_values(values) if n_heads <= _MOST_WRITTEN else {}
        looks.draw_shades(ax, shades, **names, texts=texts, size=6.5, text_size=5.5, linewidth=0.8)
        bounds = f"({least:.2f}…{greatest:.2f})" if len(finite) else "(nothing to count)"
        # Where there is no room for it in one line next to the next panel's, in two.
        is_long = len(f"{name} {bounds}") > _LETTERS * width
        ax.set_title(f"{name}\n{bounds}" if is_long else f"{name} {bounds}", fontsize=8.5, color=TEXT)
        ax.set_xlabel("head", fontsize=7.5, color=TEXT)
        ax.set_ylabel("layer", fontsize=7.5, color=TEXT)
    looks.write_caption(figure, "Shades run from the least to the greatest head of each statistic (in brackets).")
    return figure


def plot_head_table(table: Table) -> Figure:
    """Draw the first twelve columns of a table of all heads, which are those with most items."""
    places = {line.label: head_place(line.label) for line in table.lines if not line.baseline}
    layers, panels = sorted({layer for layer, _ in places.values()}), []
    for header in table.headers[:_MOST_PANELS]:
        scores = table.column(header)
        values = np.full((len(layers), max(place for _, place in places.values())), np.nan)
        for head, (layer, place) in places.items():
            values[layers.index(layer), place - 1] = scores[head].value if head in scores else np.nan
        panels.append((header, values))
    return plot_heads(panels, layers)


def plot_step_table(table: Table) -> Figure:
    """Draw the score of the model after each step of a change, a line for each order of steps, with 95 % intervals."""
    figure = looks.new_figure(6.4, 4.2)
    ax = figure.subplots()
    labels = [line.label for line in table.lines]
    for order, color, marker in zip(table.headers, _COLORS, _MARKERS, strict=False):
        scores = {labels.index(label): score for label, score in table.column(order).items()}
        _draw_line(ax, scores, table.metric, color=color, marker=marker, linewidth=1.5, label=order)
    _end_axis(ax, table.metric)
    ax.set_xticks(range(len(labels)), labels, fontsize=8)
    ax.set_xlabel("share of heads closed" if labels[-1].endswith("%") else "closed", fontsize=9)
    ax.set_ylabel(titled(table.metric), fontsize=9)
    ax.set_title(f"{table.task}: {table.row.model} on {data_of(table.row)}", fontsize=10, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    if len(table.headers) > 1:
        ax.legend(frameon=False, fontsize=8)
    return figure


_BAR = 0.36


def plot_pipeline(tables: Sequence[Table]) -> Figure:
    """Draw for each task expected layer and centre of gravity, and next to them weights and gains by layer."""
    if not tables:
        raise ResultsError("no task was read by a mixture of layers: there is nothing to draw")
    depths, *profiles = tables
    lines = depths.lines
    figure = looks.new_figure(9.2, 1.7 + 0.52 * len(lines))
    left, middle, right = figure.subplots(1, 3, sharey=True, width_ratios=(1.25, 1, 1))
    for name, shift, color in (("expected layer", -_BAR / 2, VERMILION), ("centre of gravity", _BAR / 2, BLUE)):
        scores = [score or Score(math.nan) for score in depths.scores(name)]
        bounds = [[s.value if bound is None else bound for bound in (s.low, s.value, s.high)] for s in scores]
        low, value, high = np.array(bounds, dtype=np.float64).T
        errors = {"xerr": np.abs([value - low, high - value]), "error_kw": {"elinewidth": 1.1, "ecolor": TEXT}}
        bars = left.barh(np.arange(len(lines)) + shift, value, height=_BAR * 0.9, color=color, label=name, **errors)
        left.bar_label(bars, fmt="%.2f", padding=3, fontsize=7.5, color=TEXT)
    left.set_xlim(0, 1.12 * max((line.row.n_layers or 0) for line in lines))
    left.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=2, fontsize=7.5, frameon=False)
    for ax, color, factor, table in zip((middle, right), (BLUE, VERMILION), (1, 100), profiles, strict=True):
        profile, layers = list[dict[int, float]](), list(map(int, table.headers))
        for line in table.lines:
            known = zip(layers, line.cells, strict=True)
            profile.append({layer: factor * cell.score.value for layer, cell in known if cell.score})
        _draw_profile(ax, profile, color)
    for ax, title in ((left, "mean layer"), (middle, "weight of each layer"), (right, "gain of each layer, points")):
        looks.write_title(ax, title, size=9.5)
        looks.style_axes(ax, size=8)
        # The first is explained by its legend.
        ax.set_xlabel("" if ax is left else "layer", fontsize=8.5, color=TEXT)
    several = len({line.row.model for line in lines}) > 1
    names = [f"{line.row.task}\n{brief(line.row.model)}" if several else line.row.task for line in lines]
    left.set_yticks(range(len(lines)), names, fontsize=8.5)
    left.set_ylim(len(lines) - 0.5, -0.6)
    sources = dict.fromkeys((line.row.model, line.row.corpus, line.row.split) for line in lines)
    source = "; ".join(f"{brief(model)}, {brief(corpus)} {split}" for model, corpus, split in sources)
    (over,) = (note.text.removeprefix("[ ] 95 %, ") for note in depths.notes if note.about == INTERVAL)
    looks.write_caption(figure, f"{source}. Layer 0: embeddings. Bars of the expected layer: 95 % intervals {over}.")
    return figure


def _draw_profile(ax: Axes, profiles: Sequence[Mapping[int, float]], color: str) -> None:
    """Draw a row of small bars for each task, one a layer, each row to its own scale."""
    layers = sorted(set[int]().union(*profiles)) or [0]
    for place, profile in enumerate(profiles):
        if not profile:
            ax.annotate(NOTHING, (layers[0], place), ha="center", va="center", color=GREY)
            continue
        # Room above the line for what is gained, and below it for what is lost; the axis runs down.
        values = np.array(list(profile.values()))
        highest, lowest = max(0.0, values.max()), min(0.0, values.min())
        heights = values * 0.74 / max(highest - lowest, 1e-12)
        line = place - 0.34 + max(0.0, heights.max())
        pale = np.where(values >= 0, 1.0, 0.35).tolist()
        for layer, height, alpha in zip(profile, heights, pale, strict=True):
            ax.bar(layer, -height, bottom=line, width=0.8, color=color, alpha=alpha)
        top = int(np.abs(values).argmax())
        text, side = f"{values[top]:.2g}".replace("-", "−"), "bottom" if values[top] >= 0 else "top"
        ax.annotate(text, (list(profile)[top], line - heights[top]), ha="center", va=side, fontsize=6.5, color=GREY)
    ax.set_xlim(layers[0] - 0.6, layers[-1] + 0.6)
    every = FixedLocator(layers)
    ax.xaxis.set_major_locator(every if len(layers) <= 9 else MaxNLocator(integer=True, nbins=9))


def plot_over_steps(tables: Sequence[StepTable]) -> Figure:
    """Draw score by step with intervals: a line for each task and training, a panel for each layer.

    All tables should be in one unit, such as fractions.

    Steps stand on a logarithmic scale, 0 before its beginning. Of more than twelve layers some are left out, never the
    first or the last.
    """
    curves = [table.by_layer() for table in tables]
    layers = sorted(set().union(*curves))
    layers = [layers[place] for place in evenly(len(layers), _MOST_PANELS)]
    n_columns = min(4, len(layers), max(3, math.ceil(len(layers) / 3)))
    figure, panels = looks.new_panels(len(layers), n_columns, 3.4, 2.9, extra=0.5, sharex=True, sharey=True)
    several = len({table.training for table in tables}) > 1
    for at, (layer, ax) in enumerate(zip(layers, panels, strict=True)):
        # Below the last panel of a column is none that would have its numbers.
        ax.tick_params(labelbottom=at + n_columns >= len(layers))
        for place, (table, curve) in enumerate(zip(tables, curves, strict=True)):
            training = f" · {brief(table.training)}" if several else ""
            look: dict[str, Any] = {"color": _COLORS[place % len(_COLORS)], "marker": _MARKERS[place % len(_MARKERS)]}
            look["linestyle"] = _STYLES[place // len(_COLORS) % len(_STYLES)]
            scores = {step: score for step, score in zip(table.steps, curve.get(layer, ()), strict=False) if score}
            name = f"{table.subject}, {titled(table.metric)}{training}"
            _draw_line(ax, scores, table.metric, **look, linewidth=1.4, label=name)
        ax.set_title("embeddings" if layer == 0 else f"layer {layer}", loc="left", fontsize=9.5, color=TEXT)
        looks.style_axes(ax, size=8, grid=True)
    _end_axis(panels[0], tables[0].metric)
    _scale_steps(panels[0], sorted({step for table in tables for step in table.steps}))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=min(4, len(labels)), frameon=False, fontsize=8.5)
    over = "pretraining seeds × test sentences" if any(table.n_seeds > 1 for table in tables) else "test sentences"
    data = "; ".join(dict.fromkeys(data_of(table.row) for table in tables))
    shown = f"{', '.join(dict.fromkeys(brief(table.training) for table in tables))} on {data}"
    looks.write_caption(figure, f"{shown}. Updates of training from left to right. Bands: 95 % over {over}.")
    return figure


def _scale_steps(ax: Axes, steps: Sequence[int]) -> None:
    positive = [step for step in steps if step > 0]
    if positive and max(positive) >= 10 * min(positive):
        ax.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
    ticks = [steps[place] for place in evenly(len(steps), _MOST_STEP_TICKS)]
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(ticks, map(_BRIEF, ticks))


def plot_layers_by_steps(table: StepTable) -> Figure:
    """Draw layers (rows, the embeddings at the bottom) by steps (columns); shades run over the whole picture."""
    shown = evenly(len(table.steps), 2 * _MOST_PANELS)
    curves = table.by_layer()
    values = np.array(
        [[score.value if score else np.nan for score in map(of.__getitem__, shown)] for of in curves.values()]
    )
    shades = _scaled(values if table.row.higher_is_better else -values)
    steps, layers = [_BRIEF(table.steps[place]) for place in shown], list(map(str, curves))
    how: dict[str, Any] = {"title": f"{table.subject} · {titled(table.metric)}", "row_title": _LAYER_AXIS}
    caption = f"{brief(table.training)} on {data_of(table.row)}. Columns: updates of training."
    texts = _numbers(values, table.metric)
    return looks.draw_cells(shades, rows=layers, columns=steps, texts=texts, caption=caption, origin="lower", **how)


def figures_over_steps(tables: Sequence[StepTable]) -> Mapping[str, Figure]:
    """The lines of all tables, and a heat map of each, by the names of their files."""
    if not tables:
        raise ResultsError("there are no scores over steps to draw")
    units = ("" if metric_form(table.metric).is_fraction else f"-{table.metric}" for table in tables)
    by_unit = by_key(zip(units, tables, strict=True))
    figures = {f"over-steps{name}": plot_over_steps(same) for name, same in by_unit.items()}
    several = len({table.training for table in tables}) > 1
    for table in tables:
        name = named_after("over-steps", table.subject, brief(table.training) if several else "")
        figures.setdefault(name, plot_layers_by_steps(table))
    return figures


def named_after(*parts: str) -> str:
    """The name of a file."""
    return re.sub(r"[^\w.-]+", "-", "-".join(filter(None, parts)))
