"""Common parts of all figures: size, colours, fonts for words of any script, and how they become files.

Layers run from left to right where they stand on the horizontal axis, and from the bottom up where they stand on the
vertical one: in figures, in the heatmaps of the report, and in the attention viewer. Tables list them from 0 down.
"""

from __future__ import annotations

import io
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray

from bertology._files import write_derived
from bertology._names import decimals
from bertology.errors import ResultsError, StoreError, quoted

# Okabe & Ito's colours, told apart by colour-blind readers; markers and line styles tell them apart in grey.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GREY, PALE, TEXT = "#5A5A5A", "#8C8C8C", "#222222"
# One hue from pale to deep, which survives print in grey and every kind of colour blindness.
SHADES = LinearSegmentedColormap.from_list("layers", ["#f4f8fc", "#c6dbef", "#7fb8dc", "#2474b3"])
DARK_SHADE = 0.82
"""Text is white on shades above this one."""
_FORMATS = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
_MARGIN = 0.06
_LETTERS_AN_INCH = 17  # in a caption
_PRINTED_LETTERS, _PRINTED_SHAPE = 0.8, 0.72  # least size of letters, and least height of a width


class ShownFigure(Figure):
    """A figure that a notebook displays by itself, cropped to what is drawn."""

    def save(self, path: str | Path) -> Path:
        """Write the figure as ``.svg``, ``.pdf`` or ``.png``; text stays text, which can be searched and edited.

        Raises:
            StoreError: the name ends otherwise, or the file cannot be written.
        """
        path = Path(path)
        ending = path.suffix.lower().removeprefix(".")
        if ending not in _FORMATS:
            raise StoreError(f"cannot draw {quoted(path.name)}: name a file that ends in .svg, .pdf or .png")
        write_derived(path.parent, {path.name: figure_bytes(self, ending)}, remedy="name another file")
        return path

    def _repr_png_(self) -> bytes:
        return figure_bytes(self, "png")


def new_figure(width: float, height: float) -> ShownFigure:
    """An empty figure of so many inches, laid out by what stands in it."""
    figure = ShownFigure(figsize=(width, height), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def style_axes(ax: Axes, *, size: float | None = None, grid: bool = False) -> None:
    """Leave only the left and bottom axis, in grey, with numbers of a ``size``, and on a ``grid`` of pale lines across,
    behind all else."""
    ax.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
    if size is not None:
        ax.tick_params(labelsize=size, color=GREY, labelcolor=TEXT)
    if grid:
        ax.grid(axis="y", color="#E3E3E3", linewidth=0.7)
        ax.set_axisbelow(True)


def write_title(ax: Axes, text: str, *, size: float = 10.0, pad: float = 6.0) -> None:
    """Set the title of axes from their left end; a dollar sign begins no formula."""
    ax.set_title(text, loc="left", fontsize=size, fontweight="bold", color=TEXT, pad=pad, parse_math=False)


def new_panels(
    n: int, columns: int, width: float, height: float, *, extra: float = 0.0, **shared: Any
) -> tuple[ShownFigure, list[Axes]]:
    """A figure of so many axes in rows, each of so many inches; ``extra`` is for what stands around them."""
    rows = -(-n // columns)
    figure = new_figure(width * columns, height * rows + extra)
    panels = figure.subplots(rows, columns, squeeze=False, **shared).ravel().tolist()
    for ax in panels[n:]:
        ax.remove()
    return figure, panels[:n]


def write_caption(figure: Figure, text: str) -> None:
    """Set small text below all panels, from the left, in lines that fit the figure; nothing where it is empty."""
    if text:
        most = max(40, int(_LETTERS_AN_INCH * figure.get_figwidth()))
        text = "\n".join(textwrap.fill(line, most) for line in text.splitlines())
        figure.supxlabel(text, fontsize=7.5, color=GREY, x=0.01, ha="left", multialignment="left")


def at_width(figure: Figure, inches: float) -> Figure:
    """The same figure for print: of that width, letters smaller but legible, its caption left to the text below it."""
    width, height = figure.get_size_inches()
    factor = inches / width
    figure.supxlabel("")
    figure.set_size_inches(inches, max(height * factor, min(height, _PRINTED_SHAPE * inches)))
    for text in figure.findobj(Text):
        text.set_fontsize(text.get_fontsize() * max(factor, _PRINTED_LETTERS))
    return figure


def clipped(word: str, most: int) -> str:
    """A word that names a row or column; of a web address, say, its beginning."""
    return word if len(word) <= most else f"{word[: most - 1]}…"


def draw_shades(
    ax: Axes,
    shades: NDArray[np.float64],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    texts: Mapping[Any, str] | None = None,
    size: float = 8.5,
    text_size: float = 7.5,
    framed: Collection[Any] = (),
    most: float = 1.0,
    linewidth: float = 1.0,
) -> Any:
    """Draw ``[row, column]`` shades from 0 to ``most`` with texts in their cells; NaN is left empty.

    Rows are named on the left, from the bottom up, and columns below.
    """
    # A mesh stays sharp in vector formats, where an image would be resampled.
    masked = np.ma.masked_invalid(shades)
    mesh = ax.pcolormesh(masked, cmap=SHADES, vmin=0, vmax=most, edgecolors="white", linewidth=linewidth)
    for (row, column), text in (texts or {}).items():
        color = "white" if shades[row, column] > DARK_SHADE * most else TEXT
        style: dict[str, Any] = {"fontsize": text_size, "color": color, "ha": "center", "va": "center"}
        ax.text(column + 0.5, row + 0.5, text, fontweight="bold" if (row, column) in framed else "normal", **style)
    for row, column in framed:
        ax.add_patch(Rectangle((column + 0.04, row + 0.08), 0.92, 0.84, fill=False, edgecolor="#111111", linewidth=1.6))
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns, fontsize=size, color=TEXT)
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=size, color=TEXT)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return mesh


def draw_cells(
    values: NDArray[np.float64],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    caption: str,
    texts: Mapping[Any, str] | None = None,
    framed: Collection[Any] = (),
    title: str = "",
    row_title: str = "",
    origin: Literal["upper", "lower"] = "upper",
    width: float = 0.62,
) -> ShownFigure:
    """A figure of ``[row, column]`` values as shades from 0 to 1, with their numbers or other texts; NaN is left empty.

    Columns, each of so many inches, are named above where the title of the figure tells what they are, else below.
    """
    longest = max((len(part) for name in columns for part in name.split("\n")), default=0)
    slanted = longest > 14 * width
    size = max(4.2, 0.065 * max(map(len, rows), default=0) + 1.2 + width * len(columns)), 1.6 + 0.34 * len(rows)
    figure = new_figure(size[0], size[1] + 0.05 * longest * slanted)
    ax: Any = figure.subplots()
    if texts is None:
        texts = {place: decimals(float(value)) for place, value in np.ndenumerate(values) if np.isfinite(value)}
    draw_shades(ax, np.clip(values, 0, 1), rows=rows, columns=columns, texts=texts, framed=framed)
    ax.set_ylabel(row_title, fontsize=9, color=TEXT)
    if title:
        ax.xaxis.tick_top()
        ax.tick_params(length=0)
        write_title(ax, title, pad=10)
    for label in ax.get_xticklabels() if slanted else ():
        label.set(rotation=40, ha="left" if title else "right", rotation_mode="anchor")
    if origin == "upper":
        ax.invert_yaxis()
    write_caption(figure, caption)
    return figure


_FEW_UNITS, _MANY_UNITS = 16, 48
"""Most rows or columns whose numbers are written in cells, and whose cells are large."""
_NAME_SIZE, _MOST_LETTERS = 8.0, 24


def draw_matrices(
    matrices: Sequence[NDArray[np.float64]],
    names: Sequence[tuple[Sequence[Any], Sequence[Any]]],
    titles: Sequence[str],
    *,
    label: str,
    most: float,
    axes: tuple[str, str] = ("", ""),
    breaks: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> ShownFigure:
    """A figure of ``[row, column]`` matrices side by side in shades from 0 to ``most``, as they are read.

    ``names`` are the words of rows and columns of each, ``breaks`` those before which a line is drawn, ``axes`` what
    rows and columns are, and ``label`` the title of the bar of shades.
    """
    fonts = Fonts.of(str(unit) for both in names for units in both for unit in units)
    longest = max(fonts.width(clipped(str(unit), _MOST_LETTERS), _NAME_SIZE) for rows, _ in names for unit in rows) / 72
    cell = 0.3 if max(max(one.shape) for one in matrices) <= _MANY_UNITS else 0.16
    sides = [[max(1.6, cell * size) for size in one.shape] for one in matrices]
    size = sum(longest + width + 0.9 for _, width in sides) + 0.9, max(height for height, _ in sides) + longest + 1.0
    figure = new_figure(*size)
    widths = [longest + width for _, width in sides]
    panels = figure.subplots(1, len(matrices), squeeze=False, width_ratios=widths)[0]
    # A dollar sign begins no formula.
    text: dict[str, Any] = {"fontfamily": list(fonts.families), "parse_math": False}
    style: dict[str, Any] = {"size": _NAME_SIZE, "text_size": 5.5, "linewidth": 0.4, "most": most}
    for ax, values, both, title in zip(panels, matrices, names, titles, strict=True):
        rows, columns = ([fonts.drawable(clipped(str(unit), _MOST_LETTERS)) for unit in units] for units in both)
        texts = brief_values(values) if max(values.shape) <= _FEW_UNITS else {}
        mesh = draw_shades(ax, values, rows=rows, columns=columns, texts=texts, **style)
        ax.set(aspect="equal", anchor="N")
        ax.invert_yaxis()
        ax.xaxis.tick_top()
        ax.xaxis.set_label_position("top")
        ax.tick_params(length=0)
        for tick in ax.get_yticklabels():
            tick.set(**text)
        for tick in ax.get_xticklabels():
            tick.set(rotation=90, ha="center", va="bottom", **text)
        ax.set_ylabel(axes[0], fontsize=_NAME_SIZE, color=GREY)
        ax.set_xlabel(axes[1], fontsize=_NAME_SIZE, color=GREY)
        write_title(ax, fonts.drawable(title), size=9.5)
    for ax, places in zip(panels, breaks, strict=False):
        for draw, of_axis in zip((ax.axhline, ax.axvline), places, strict=True):
            for place in of_axis:
                draw(place, color=TEXT, linewidth=1)
    extend = "max" if max(float(one.max()) for one in matrices) > most else "neither"
    bar = figure.colorbar(mesh, ax=panels, fraction=0.3 / size[0], aspect=14 * max(1, size[1] / 3), extend=extend)
    bar.set_label(label, fontsize=7, color=TEXT)
    bar.ax.tick_params(labelsize=7.5, color=GREY, labelcolor=TEXT)
    bar.outline.set_visible(False)
    write_caption(figure, fonts.note())
    return figure


def brief_values(values: NDArray[np.float64]) -> dict[Any, str]:
    """Values as texts of their cells: hundredths of what is at most 1, else one decimal."""
    finite = values[np.isfinite(values)]
    fraction = len(finite) > 0 and float(np.abs(finite).max()) <= 1
    cells = ((place, value) for place, value in np.ndenumerate(values) if np.isfinite(value))
    return {place: f"{value:.2f}".removeprefix("0") if fraction else f"{value:.1f}" for place, value in cells}


def figure_bytes(figure: Figure, ending: str) -> bytes:
    """A figure as a file's content, cropped to what is drawn."""
    if ending not in _FORMATS:
        raise ResultsError(f"cannot draw a plot as {ending!r}: choose one of {', '.join(_FORMATS)}")
    # Laid out once: each time again everything moves by a fraction of a point.
    if not isinstance(figure.get_layout_engine(), PlaceHolderLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    out = io.BytesIO()
    # The same bytes for the same figure, and text that can be searched, selected and set in another font.
    with mpl.rc_context({"svg.hashsalt": "bertology", "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(out, format=ending, metadata=_FORMATS[ending], bbox_inches="tight", pad_inches=_MARGIN)
    return out.getvalue()


_HOLLOW = "□"
_NAMED = 6
_BOXES = "Last Resort"
"""A font that has a box for every character, which says nothing to a reader."""
_SELECTORS = range(0xFE00, 0xFE10)
"""They choose among forms of the character before them and have none of their own."""

_NON_JOINER = "\u200c"
"""Has no form, but shapes the letters beside it."""


@dataclass(frozen=True)
class Fonts:
    """Families that draw a sentence together, the first one's letters first."""

    families: tuple[str, ...]
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: Iterable[str]) -> Fonts:
        """The fonts that the words need."""
        fonts = [font for font in fontManager.ttflist if font.style == "normal" and not font.name.startswith(_BOXES)]
        fonts.sort(key=lambda font: (font.weight not in (400, "normal"), font.name, font.fname))
        usual = str(fontManager.findfont(FontProperties()))
        names = {usual: FT2Font(usual).family_name} | {font.fname: font.name for font in fonts}
        chosen: list[str] = [usual]
        missing: list[str] = []
        for letter in sorted({letter for word in words for letter in _visible(word)}):
            path = next((path for path in (*chosen, *names) if ord(letter) in _characters(path)), None)
            (missing if path is None else chosen).append(path or letter)
        return cls(tuple(dict.fromkeys(names[path] for path in chosen)), tuple(missing))

    def drawable(self, text: str) -> str:
        """The text with a hollow square for each character that no font has."""
        return "".join(_HOLLOW if letter in self.missing else letter for letter in _visible(text))

    def width(self, text: str, size: float, *, bold: bool = False) -> float:
        """Width of a text in points, drawn at the given font size."""
        font = FontProperties(family=list(self.families), size=size, weight="bold" if bold else "normal")
        width, _, _ = text_to_path.get_text_width_height_descent(self.drawable(text), font, ismath=False)
        return float(width)

    def write(self, ax: Axes, x: float, y: float, text: str, **style: Any) -> None:
        """Set text in a picture as it stands: a dollar sign begins no formula."""
        ax.text(x, y, self.drawable(text), family=list(self.families), parse_math=False, **style)

    def note(self) -> str:
        """A note on the characters that hollow squares stand for; empty where there are none."""
        if not self.missing:
            return ""
        codes = " ".join(f"U+{ord(letter):04X}" for letter in self.missing[:_NAMED])
        more = " …" if len(self.missing) > _NAMED else ""
        return f"{_HOLLOW}: no font of this machine has {codes}{more}; install one to see them."


def _visible(text: str) -> str:
    """The text in one line, without what has no form of its own."""
    line = (" " if unicodedata.category(letter) == "Cc" or letter.isspace() else letter for letter in text)
    return "".join(
        letter
        for letter in line
        if letter == _NON_JOINER or (unicodedata.category(letter) != "Cf" and ord(letter) not in _SELECTORS)
    )


@lru_cache(maxsize=512)
def _characters(path: str) -> frozenset[int]:
    return frozenset(FT2Font(path).get_charmap())
