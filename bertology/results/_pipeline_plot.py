"""Where tasks are solved, as a picture: the bars of Tenney et al. (2019b), figures 1 and 2, in one."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from bertology.errors import ResultsError
from bertology.results._intervals import covered
from bertology.results._names import brief
from bertology.results._pipeline import PipelineLine
from bertology.results._plot import LayerFigure
from bertology.results._view import Score

_BLUE, _VERMILION, _GREY, _TEXT = "#0072B2", "#D55E00", "#5A5A5A", "#222222"
_BAR = 0.36
_MOST_TICKS = 9
_WIDTH, _HEIGHT = 9.2, 0.52


def plot_pipeline(lines: Sequence[PipelineLine]) -> Figure:
    """Draw for each task expected layer and centre of gravity, and beside them weights and gains by layer.

    Raises:
        ResultsError: no task was read by a mixture of layers.
    """
    if not lines:
        raise ResultsError("no task was read by a mixture of layers: there is nothing to draw")
    figure = LayerFigure(figsize=(_WIDTH, 1.7 + _HEIGHT * len(lines)), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3, sharey=True, width_ratios=(1.25, 1, 1))
    _draw_depths(left, lines)
    _draw_profile(middle, [line.weights for line in lines], _BLUE, first=0)
    _draw_profile(right, [tuple(100 * gain for gain in line.gains) for line in lines], _VERMILION, first=1)
    for ax, title in ((left, "mean layer"), (middle, "weight of each layer"), (right, "gain of each layer, points")):
        ax.set_title(title, loc="left", fontsize=9.5, fontweight="bold", color=_TEXT)
        _style(ax)
        # The first is explained by its legend.
        ax.set_xlabel("" if ax is left else "layer", fontsize=8.5, color=_TEXT)
    several = len({line.about.model for line in lines}) > 1
    left.set_yticks(range(len(lines)), [_name(line, several=several) for line in lines], fontsize=8.5)
    left.set_ylim(len(lines) - 0.5, -0.6)
    sources = dict.fromkeys((line.about.model, line.about.corpus, line.about.split) for line in lines)
    source = "; ".join(f"{brief(model)}, {brief(corpus)} {split}" for model, corpus, split in sources)
    over = covered([line.n_seeds for line in lines])
    caption = f"{source}. Layer 0: embeddings. Bars of the expected layer: 95 % intervals {over}."
    figure.supxlabel(caption, fontsize=7.5, color=_GREY, x=0.01, ha="left", multialignment="left")
    return figure


def _draw_depths(ax: Axes, lines: Sequence[PipelineLine]) -> None:
    for place, line in enumerate(lines):
        for score, shift, color in (
            (line.expected_layer, -_BAR / 2, _VERMILION),
            (line.center_of_gravity, _BAR / 2, _BLUE),
        ):
            if score is None:
                ax.annotate(
                    "–", (0, place + shift), xytext=(3, 0), textcoords="offset points", va="center", color=_GREY
                )
                continue
            ax.barh(place + shift, score.value, height=_BAR * 0.9, color=color, zorder=2)
            end = _interval(ax, score, place + shift)
            ax.annotate(
                f"{score.value:.2f}", (end, place + shift), xytext=(3, 0), textcoords="offset points", va="center",
                fontsize=7.5, color=_TEXT,
            )  # fmt: skip
    depth = max((line.about.n_layers or 0) for line in lines)
    ax.set_xlim(0, depth * 1.12)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    ax.plot([], [], color=_VERMILION, linewidth=6, label="expected layer")
    ax.plot([], [], color=_BLUE, linewidth=6, label="centre of gravity")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=2, fontsize=7.5, frameon=False)


def _interval(ax: Axes, score: Score, y: float) -> float:
    """Draw an interval, and say where it ends."""
    if score.low is None or score.high is None:
        return score.value
    ax.hlines(y, score.low, score.high, color=_TEXT, linewidth=1.1, zorder=3)
    return max(score.value, score.high)


def _draw_profile(ax: Axes, profiles: Sequence[tuple[float, ...]], color: str, *, first: int) -> None:
    """A row of small bars for each task, one a layer, each row to its own scale."""
    longest = max((len(profile) for profile in profiles), default=0)
    for place, profile in enumerate(profiles):
        if not profile:
            ax.annotate("–", (first, place), ha="center", va="center", color=_GREY)
            continue
        # Room above the line for what is gained, and below it for what is lost.
        highest, lowest = max(0.0, *profile), min(0.0, *profile)
        scale = 0.74 / max(highest - lowest, 1e-12)
        line = place - 0.34 + highest * scale
        for layer, value in enumerate(profile, start=first):
            ax.bar(layer, -value * scale, bottom=line, width=0.8, color=color, alpha=1 if value >= 0 else 0.35)
        top = max(range(len(profile)), key=lambda at: abs(profile[at]))
        text, y = f"{profile[top]:.2g}".replace("-", "−"), line - profile[top] * scale
        side = "bottom" if profile[top] >= 0 else "top"
        ax.annotate(text, (top + first, y), ha="center", va=side, fontsize=6.5, color=_GREY)
    ax.set_xlim(first - 0.6, first + longest - 0.4)
    few = longest <= _MOST_TICKS
    ax.xaxis.set_major_locator(
        FixedLocator(range(first, first + longest)) if few else MaxNLocator(integer=True, nbins=_MOST_TICKS)
    )


def _style(ax: Axes) -> None:
    ax.tick_params(labelsize=8, color=_GREY, labelcolor=_TEXT)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(_GREY)


def _name(line: PipelineLine, *, several: bool) -> str:
    return f"{line.task}\n{brief(line.about.model)}" if several else line.task
