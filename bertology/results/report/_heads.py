"""Attention heads in the page: of each thing asked the head that stands out, and all heads as a small map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from bertology.results._grid import Grid, metric_title, number
from bertology.results._head_grids import best_head_grid, step_grid
from bertology.results._head_tables import HeadLine, HeadTable, head_place
from bertology.results.report._runs import Run

_CELL = 14
"""Pixels of a head in a map."""
_FAINTEST = 0.06


def heads_section(runs: Sequence[Run]) -> str:
    """The section on heads; empty where no head was asked."""
    parts = []
    for run in runs:
        name = f"{run.name}: " if len(runs) > 1 else ""
        for table in run.head_tables:
            parts.append(_table(best_head_grid(table), name))
            parts.append(f'<div class="maps">{"".join(_maps(table))}</div>')
        parts += [_table(step_grid(table), name) for table in run.step_tables]
    if not parts:
        return ""
    return (
        '<section id="heads" aria-labelledby="heads-title"><h2 id="heads-title">Attention heads</h2>'
        '<p class="hint">In the maps a row is a layer, the lowest at the bottom, and a column a head; shades run '
        "from the least to the greatest head of each map, and a frame marks the head that was chosen.</p>"
        f"{''.join(parts)}</section>"
    )


def _table(grid: Grid, name: str) -> str:
    head = "".join(f'<th scope="col">{escape(header)}</th>' for header in (grid.corner, *grid.headers))
    rows = []
    for line in grid.lines:
        cells = []
        for column, cell in enumerate(line.cells):
            star = ' <span class="star">★</span>' if column in line.best else ""
            interval = f' <span class="ci">{escape(cell.interval)}</span>' if cell.interval else ""
            cells.append(f"<td>{escape(cell.text)}{interval}{star}</td>")
        rows.append(f'<tr><th scope="row" class="text">{escape(line.label)}</th>{"".join(cells)}</tr>')
    notes = "<br>".join(escape(str(note)) for note in grid.notes)
    return (
        f'<h3>{escape(name + grid.title)}</h3><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(grid.title)}"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div><p class="hint">{notes}</p>'
    )


def _maps(table: HeadTable) -> Iterator[str]:
    for line in table.lines:
        title = line.name if table.metric else metric_title(line.metric)
        yield f"<figure>{_map(line)}<figcaption>{escape(title)}</figcaption></figure>"


def _map(line: HeadLine) -> str:
    """Layers by heads of one line as a picture, a title in each cell."""
    places = {head: head_place(head) for head in line.heads}
    layers = sorted({layer for layer, _ in places.values()})
    n_heads = max(head for _, head in places.values())
    values = [score.value for score in line.heads.values()]
    least, spread = min(values), max(values) - min(values)
    cells, side = [], _CELL - 2
    for name, (layer, head) in places.items():
        value = line.heads[name].value
        shade = _FAINTEST + (1 - _FAINTEST) * ((value - least) / spread if spread > 0 else 0.0)
        x, y = (head - 1) * _CELL, (len(layers) - 1 - layers.index(layer)) * _CELL
        chosen = ' class="chosen"' if name == line.best.head else ""
        cells.append(
            f'<rect x="{x + 1}" y="{y + 1}" width="{side}" height="{side}" fill-opacity="{shade:.3f}"{chosen}>'
            f"<title>{name} {escape(number(value, metric=line.metric))}</title></rect>"
        )
    width, height = n_heads * _CELL, len(layers) * _CELL
    label = f"{line.name}: the best head is {line.best.head}"
    return (
        f'<svg class="map" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(label)}">{"".join(cells)}</svg>'
    )
