"""Effects of patching by layer and place, with intervals over pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.measures import bootstrap_ratio

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
_LEAST_CLUSTERS = 2
_WHENCE = {
    "pair": "",
    "unrelated": ", states of unrelated texts of its value",
    "same_value": ", states of unrelated texts of the same value",
    "mean_difference": ", moved by the difference of means",
}


@dataclass(frozen=True, eq=False)
class PatchingMap:
    """What the prediction becomes when one place of one layer comes from another text; returned by :func:`patch`.

    The effect of a place is the change of the score (difference of the two logits, or log-probability of the one word)
    ÷ the change that the whole other text makes, both summed over pairs: 0 where patching changes nothing, 1 where it
    changes all.
    """

    model: str
    site: str
    direction: str
    source: str
    """Where states come from: ``pair``, ``unrelated``, ``same_value``, ``mean_difference``; or ``noise``, of a pass
    over the same text into one whose subject is noised (:func:`trace`)."""
    layers: tuple[int, ...]
    places: tuple[str, ...]
    """Names of places; of the site ``head`` the heads."""
    changes: Floats
    """``[layer, place, pair]`` change of the score; NaN where a pair has no such place."""
    whole: Floats
    """``[pair]`` the change that the whole other text makes."""
    base: Floats
    """``[pair]`` the score in the text that is patched, as it is."""
    clusters: tuple[str, ...]
    """``[pair]`` what is resampled together."""
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the pairs that could not be patched, and why; they are in no array."""

    @cached_property
    def effects(self) -> Floats:
        """``[layer, place]`` effect; NaN where the whole text changes nothing."""
        with np.errstate(invalid="ignore", divide="ignore"):
            effects = np.nansum(self.changes, axis=2) / self._denominators.sum(axis=2)
        return np.asarray(effects, dtype=np.float64)

    @property
    def _denominators(self) -> Floats:
        """``[layer, place, pair]`` the whole change of pairs that have the place."""
        return np.where(np.isnan(self.changes), 0.0, self.whole)

    @cached_property
    def right(self) -> Floats:
        """``[layer, place, pair]`` of two words, 1 where the one chosen is that which the source's value calls for; NaN
        where a pair has no such place. Its mean is interchange-intervention accuracy (Geiger et al. 2021, section 3.2).
        """
        wanted = (1 if self.direction == "denoise" else -1) * (-1 if self.source == "same_value" else 1)
        right = (np.sign(self.base + self.changes) == wanted).astype(np.float64)
        return np.where(np.isnan(self.changes), np.nan, right)

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """``[pair]`` whether the model chooses the first word in the text, and the second in the other one."""
        source = self.base + self.whole
        return np.asarray((np.sign(self.base) != np.sign(source)) & ((source > 0) == (self.direction == "denoise")))

    def to_pandas(self) -> pd.DataFrame:
        """A line for each layer and place: ``layer``, ``place``, ``effect``, ``ci_low``, ``ci_high``, ``n_pairs``.

        Intervals of 95 % are by bootstrap over clusters of pairs; NaN for fewer than two clusters.
        """
        import pandas as pd

        low, high = self._intervals
        n_pairs = np.isfinite(self.changes).sum(axis=2)
        rows = [
            {
                "layer": layer,
                "place": place,
                "effect": self.effects[i, j],
                "ci_low": low[i, j],
                "ci_high": high[i, j],
                "n_pairs": int(n_pairs[i, j]),
            }
            for i, layer in enumerate(self.layers)
            for j, place in enumerate(self.places)
        ]
        return pd.DataFrame(rows)

    @cached_property
    def _intervals(self) -> tuple[Floats, Floats]:
        names, of_pair = np.unique(np.array(self.clusters), return_inverse=True)
        unknown = np.full(self.effects.shape, np.nan)
        if len(names) < _LEAST_CLUSTERS:
            return unknown, unknown
        shape = (-1, len(self.whole))
        over, under = np.nan_to_num(self.changes).reshape(shape), self._denominators.reshape(shape)
        sums = [
            np.stack([np.bincount(of_pair, weights=row, minlength=len(names)) for row in part])
            for part in (over, under)
        ]
        scores = bootstrap_ratio(*sums, metric="effect")
        return scores.ci_low.reshape(self.effects.shape), scores.ci_high.reshape(self.effects.shape)

    def __str__(self) -> str:
        widest = [max(len(place), 5) for place in self.places]
        head = "layer  " + "  ".join(f"{place:>{width}}" for place, width in zip(self.places, widest, strict=True))
        lines = [
            f"{layer:>5}  " + "  ".join(f"{_written(value):>{width}}" for value, width in zip(row, widest, strict=True))
            for layer, row in zip(self.layers, self.effects.tolist(), strict=True)
        ]
        return "\n".join([head, *lines, "", self.about])

    @property
    def about(self) -> str:
        """What the numbers are, in one line."""
        n_pairs = len(self.whole)
        pairs = "one pair" if n_pairs == 1 else f"{n_pairs} pairs"
        left_out = f", {len(self.excluded)} left out" if self.excluded else ""
        if self.source == "noise":
            facts = pairs.replace("pair", "fact")
            what = f"{self.model}, {self.site.replace('_', ' ')} restored: {facts}"
            return f"{what}; 0 brings back nothing, 1 all that noise took"
        into = "other text into text" if self.direction == "noise" else "text into other text"
        what = f"{self.model}, {self.site.replace('_', ' ')}, {into}{_WHENCE[self.source]}"
        return f"{what}: {pairs}{left_out}; 0 changes nothing, 1 changes all"

    def plot(self) -> Figure:
        """The effects as a heatmap, layers from the bottom up; the figure has ``.save("patching.svg")``."""
        from bertology._figures import DARK_SHADE, SHADES, new_figure, write_caption

        n_layers, n_places = self.effects.shape
        figure = new_figure(1.6 + 0.62 * n_places, 1.7 + 0.34 * n_layers)
        axes: Any = figure.subplots()
        axes.imshow(np.clip(self.effects, 0, 1), cmap=SHADES, vmin=0, vmax=1, origin="lower", aspect="auto")
        axes.set_xticks(range(n_places), self.places, rotation=40, ha="right")
        axes.set_yticks(range(n_layers), [str(layer) for layer in self.layers])
        axes.set_ylabel("layer")
        for (i, j), value in np.ndenumerate(self.effects):
            if np.isfinite(value):
                color = "white" if value > DARK_SHADE else "black"
                axes.text(j, i, _written(float(value)), ha="center", va="center", fontsize=7, color=color)
        write_caption(figure, self.about)
        return figure

    def save(self, path: str | Path) -> Path:
        """Write the heatmap (``.svg``, ``.pdf`` or ``.png``).

        Raises:
            StoreError: the name ends otherwise, or the file cannot be written.
        """
        saved: Path = self.plot().save(path)  # type: ignore[attr-defined]
        return saved


def _written(effect: float) -> str:
    """With two decimals; what rounds to nothing has no sign."""
    return f"{round(effect, 2) + 0.0:.2f}"
