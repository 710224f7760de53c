"""Statistics of every head of an encoder in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from bertology._workers import Workers
from bertology.activations import Progress, silent
from bertology.attention._distances import Divergences, HeadDistances
from bertology.attention._measured import Masses, NormShares, Offsets, Sharpness
from bertology.attention._pass import stream_maps
from bertology.attention._ratios import Floats, Level
from bertology.attention._statistic import MakeStatistic
from bertology.corpora import Corpus, Sentences, load_corpus
from bertology.encoders import Encoder, OnLong, open_encoder
from bertology.errors import ResultsError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class HeadStatistics:
    """Statistics of every head with intervals, and distances between heads."""

    model: str
    level: Level
    names: tuple[str, ...]
    """Names of the statistics; see :class:`Masses`, :class:`Sharpness`, :class:`Offsets` and :class:`NormShares`."""
    layers: tuple[int, ...]
    values: Floats
    """``[statistic, layer, head]``; NaN where there was nothing to count."""
    ci_low: Floats
    """``[statistic, layer, head]`` lower ends of 95 % intervals, bootstrap over sentences; of more than a thousand
    sentences neighbours are drawn together."""
    ci_high: Floats
    """``[statistic, layer, head]`` upper ends."""
    distances: HeadDistances | None
    """None unless distances were requested."""
    n_sentences: int
    n_words: int
    n_skipped: int
    """Number of words that were not read."""
    skipped: dict[str, int]
    """The same by reason."""

    @property
    def n_heads(self) -> int:
        """Number of heads in each layer."""
        return int(self.values.shape[2])

    def of(self, name: str) -> Floats:
        """``[layer, head]`` values of one statistic.

        Raises:
            ResultsError: there is none of that name.
        """
        if name not in self.names:
            raise ResultsError(f"no statistic {name!r}: there are {', '.join(self.names)}")
        return np.asarray(self.values[self.names.index(name)])

    def top(self, name: str, n: int = 5) -> list[tuple[str, float]]:
        """The heads with the highest values of one statistic, the highest first; raises as :meth:`of`."""
        values = self.of(name)
        cells = [divmod(place, self.n_heads) for place in np.argsort(-values.ravel(), kind="stable")[:n].tolist()]
        return [(f"L{self.layers[layer]}H{head + 1}", float(values[layer, head])) for layer, head in cells]

    def to_pandas(self) -> pd.DataFrame:
        """One row a head: ``layer``, ``head`` (``L3H5``), and of each statistic its value, ``_low`` and ``_high``."""
        import pandas as pd

        columns: dict[str, Any] = {
            "layer": np.repeat(self.layers, self.n_heads),
            "head": [f"L{layer}H{head}" for layer in self.layers for head in range(1, self.n_heads + 1)],
        }
        for number, name in enumerate(self.names):
            columns[name] = self.values[number].ravel()
            columns[f"{name}_low"] = self.ci_low[number].ravel()
            columns[f"{name}_high"] = self.ci_high[number].ravel()
        return pd.DataFrame(columns)

    def plot(self, names: Sequence[str] | None = None) -> Figure:
        """Layers by heads as shades, a panel for each of ``names``, all that have values when left out."""
        from bertology.attention._plot import plot_heads

        if names is None:
            names = [name for name in self.names if np.isfinite(self.of(name)).any()]
        return plot_heads([(name, self.of(name)) for name in names], self.layers)


def head_statistics(
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    corpus: str | Path | Corpus | Sentences = "pocket",
    *,
    split: str = "test",
    layers: Sequence[int] | None = None,
    level: Level = "word",
    norms: bool = False,
    distances: bool = True,
    on_long: OnLong = "window",
    device: str = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> HeadStatistics:
    """Statistics of all heads in one pass over a text: what each attends to, how sharply, how far away, and distances.

    >>> from bertology.attention import head_statistics
    >>> table = head_statistics("pocket", "pocket")  # doctest: +SKIP
    >>> table.top("previous")  # doctest: +SKIP

    Args:
        model: an encoder, or the name or path of one.
        corpus: sentences, a corpus, or the name or path of one.
        split: which split of the corpus is read.
        layers: from 1; all when left out.
        level: units of the maps, words or pieces.
        norms: also the shares of what heads add by ‖αf(x)‖, for models built as BERT is.
        distances: also Jensen–Shannon divergences between heads, over eight words of each sentence.
        on_long: what to do with a sentence longer than the model takes.
        device: where a model given by name computes.
        seed: of the bootstrap and of the words drawn for distances.
        progress: counts the pieces that are read.

    Raises:
        BertologyError: the model or corpus cannot be read, the model gives no maps, or nothing can be read.
    """
    encoder = open_encoder(model, device=device, attention="eager")
    if not isinstance(corpus, Corpus | Sentences):
        corpus = load_corpus(corpus)
    sentences = corpus[split] if isinstance(corpus, Corpus) else corpus
    makers: list[MakeStatistic] = [Masses, Sharpness, Offsets, *([NormShares] if norms else [])]
    if distances:
        makers.append(lambda scope: Divergences(scope, seed=seed))
    read = stream_maps(
        encoder, sentences, makers, layers=layers, level=level, norms=norms, on_long=on_long, progress=progress
    )
    ratios = [part for result in read.results if isinstance(result, tuple) for part in result]
    names = [(part, name) for part in ratios for name in part.names]
    # Each on one core: products as small as these take twice as long on several.
    with threadpool_limits(1, user_api="blas"), Workers(torch.device("cpu")) as workers:
        intervals = workers.map(lambda number: names[number][0].intervals(names[number][1], seed=seed), len(names))
    shape = (len(read.scope.layers), read.scope.n_heads)
    values, low, high = (
        np.stack([getattr(part, side).reshape(shape) for part in intervals]) for side in ("values", "ci_low", "ci_high")
    )
    return HeadStatistics(
        model=encoder.name,
        level=level,
        names=tuple(name for _, name in names),
        layers=read.scope.layers,
        values=values,
        ci_low=low,
        ci_high=high,
        distances=read.results[-1] if distances else None,
        n_sentences=read.n_sentences,
        n_words=read.n_words,
        n_skipped=read.n_skipped,
        skipped=read.skipped,
    )
