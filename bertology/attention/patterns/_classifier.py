"""How often each head makes each pattern, by one of two classifiers: measured features, or a small network."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from bertology.attention._ratios import Scope
from bertology.attention._statistic import ClusterSums, MapBatch, PerBatch, SumsStatistic
from bertology.attention.patterns._features import FEATURES, Layout, features
from bertology.attention.patterns._kinds import CLS, CONFIDENCE, KINDS, PATTERNS, SEP, ClassifierKind
from bertology.errors import BertologyError, ModelError

WEIGHTS: Final = Path(__file__).with_name("weights")
RECORD: Final = "training.json"
SIDE: Final = 32
"""Rows and columns of the pictures that the network sees."""
_CHANNELS = 5
_FAINTEST = 0.05
"""Of an even weight: what is fainter counts as this faint."""
_BLOCK = PATTERNS.index("block")
_CELLS_TOGETHER = 1 << 18
_PICTURES_TOGETHER = 256

SHORTEST_MAP: Final = 5
"""Least number of pieces, special ones counted, of a map that is classified."""

Logits = Callable[[Tensor, Layout], Tensor]


@dataclass(frozen=True, eq=False)
class PatternClassifier:
    """Puts attention maps between pieces into the classes of Kovaleva et al. (2019, section 4.1).

    Trained on synthetic maps; the model card (``benchmarks/head_patterns/README.md``) has its scores on real maps.
    """

    temperature: float
    """Divides the logits, so that probabilities are calibrated on real maps."""
    bias: tuple[float, ...]
    """``[class]`` added to the logits, since classes are not as frequent in real maps as in synthetic ones. Fitted
    together with the temperature."""
    confidence: float
    """A map whose likeliest class is less probable than this is ``heterogeneous``."""
    _logits: Logits

    def probabilities(self, maps: Tensor, layout: Layout) -> Tensor:
        """``[text, head, class]`` the probability of each class, in the order of :data:`PATTERNS`, of maps ``[text,
        head, piece, piece]`` from (rows) to (columns), 0 in columns of padding."""
        step = max(1, _CELLS_TOGETHER // (maps.shape[1] * maps.shape[2] ** 2))
        with torch.no_grad():
            parts = _in_parts(self._logits, maps, layout, step=step)
        logits = torch.cat(parts) / self.temperature + torch.tensor(self.bias, device=maps.device)
        # A single sentence has no squares of two sentences.
        impossible = ~layout.is_pair[:, None, None] & (torch.arange(len(PATTERNS), device=maps.device) == _BLOCK)
        return logits.masked_fill(impossible, -torch.inf).softmax(-1)

    def classes(self, maps: Tensor, layout: Layout) -> Tensor:
        """``[text, head]`` the class of each map, as a number in :data:`PATTERNS`."""
        return assigned(self.probabilities(maps, layout), confidence=self.confidence)


def _in_parts(compute: Logits, maps: Tensor, layout: Layout, *, step: int) -> list[Tensor]:
    parts = (slice(start, start + step) for start in range(0, len(maps), step))
    return [compute(maps[part], Layout(layout.kinds[part])) for part in parts]


def assigned(probabilities: Tensor, *, confidence: float = CONFIDENCE) -> Tensor:
    """The likeliest of ``[..., class]``; ``heterogeneous`` where even that is less probable than ``confidence``."""
    best, classes = probabilities.max(-1)
    return torch.where(best >= confidence, classes, PATTERNS.index("heterogeneous"))


@lru_cache(maxsize=4)
def load_classifier(kind: ClassifierKind = "features", *, folder: Path = WEIGHTS) -> PatternClassifier:
    """A trained classifier; a :class:`ModelError` where its files are missing or of another version."""
    if kind not in KINDS:
        raise ModelError(f"no classifier of maps {kind!r}: there are {', '.join(KINDS)}")
    from safetensors.torch import load_file

    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        weights = load_file(folder / f"{kind}.safetensors")
    except FileNotFoundError as error:
        raise ModelError(f"{error.filename or folder} is missing: train the classifiers, or install again") from None
    if record["features"] != list(FEATURES) or record["patterns"] != list(PATTERNS):
        raise ModelError(f"{folder / RECORD}: trained on other features than this version measures: train again")
    return PatternClassifier(
        temperature=float(record["temperature"][kind]),
        bias=tuple(record["bias"][kind]),
        confidence=float(record["confidence"]),
        _logits=_of_features(weights) if kind == "features" else _of_pictures(weights),
    )


def _of_features(weights: dict[str, Tensor]) -> Logits:
    def logits(maps: Tensor, layout: Layout) -> Tensor:
        moved = {name: values.to(maps.device) for name, values in weights.items()}
        scaled = (features(maps, layout) - moved["mean"]) / moved["scale"]
        return scaled @ moved["weight"].T + moved["bias"]

    return logits


def _of_pictures(weights: dict[str, Tensor]) -> Logits:
    network = PatternNetwork().eval()
    network.load_state_dict(weights)

    def logits(maps: Tensor, layout: Layout) -> Tensor:
        network.to(maps.device)
        n_heads = maps.shape[1]

        def compute(maps: Tensor, layout: Layout) -> Tensor:
            logits: Tensor = network(pictures(maps, layout).flatten(0, 1))
            return logits.view(len(maps), n_heads, -1)

        return torch.cat(_in_parts(compute, maps, layout, step=max(1, _PICTURES_TOGETHER // n_heads)))

    return logits


def pictures(maps: Tensor, layout: Layout) -> Tensor:
    """Maps ``[text, head, piece, piece]`` resampled by area to ``[text, head, channel, SIDE, SIDE]``.

    The channels: attention relative to a uniform map, as a logarithm of means; how far the logarithms of weights are
    above their row's, as means of logarithms, in which faint columns and lines are seen; whether row and column are of
    one sentence of a pair; special columns; the text's length.
    """
    n = maps.shape[-1]
    pool = _pool(layout, n)  # [text, side, piece]
    rows = torch.where(layout.rows[:, None, :, None], maps.float(), 0)
    pooled = pool[:, None] @ rows @ pool[:, None].transpose(-1, -2)
    lengths = layout.lengths
    relief = _relief(rows, pool, layout)
    density = torch.log1p(pooled * lengths[:, None, None, None]) / math.log(1 + SIDE)
    sentences = torch.einsum("tkp,tsp->tsk", pool, layout.in_sentence.float())
    same = torch.einsum("tsk,tsl->tkl", sentences, sentences) * layout.is_pair[:, None, None]
    special = ((layout.kinds == CLS) | (layout.kinds == SEP)).float()
    columns = torch.einsum("tkp,tp->tk", pool, special)[:, None].expand(-1, SIDE, -1)
    length = (lengths.log() / 5)[:, None, None].expand(-1, SIDE, SIDE)
    of_text = torch.stack([same, columns, length], dim=1)[:, None].expand(-1, maps.shape[1], -1, -1, -1)
    return torch.cat([torch.stack([density, relief], dim=2), of_text], dim=2)


def _relief(maps: Tensor, pool: Tensor, layout: Layout) -> Tensor:
    """Logarithms of weights over even ones, minus their row's mean, resampled; halved, to be of the size of others."""
    # Pieces that are not there, and rows that do not count, are zeros and stay so.
    logs = (maps * (layout.lengths / _FAINTEST)[:, None, None, None]).log1p_()
    mean = logs.sum(-1, keepdim=True) / layout.lengths[:, None, None, None]
    return (pool[:, None] @ logs @ pool[:, None].transpose(-1, -2) - pool[:, None] @ mean) / 2


def _pool(layout: Layout, n: int) -> Tensor:
    """``[text, side, piece]`` the share of each piece in each row of the picture; shares of a row sum to 1."""
    step = (layout.lengths / SIDE)[:, None, None]
    low = torch.arange(SIDE, device=layout.kinds.device)[:, None] * step
    piece = torch.arange(n, device=layout.kinds.device)
    overlap = torch.minimum(low + step, piece + 1.0) - torch.maximum(low, piece.float())
    return overlap.clamp_min(0) / step


class PatternNetwork(nn.Module):
    """Three convolutions and two linear layers: some 36,000 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(_CHANNELS, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(24, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * (SIDE // 8) ** 2, 48), nn.ReLU(), nn.Linear(48, len(PATTERNS))),
        )

    def forward(self, shown: Tensor) -> Tensor:
        """``[picture, class]`` logits of ``[picture, channel, SIDE, SIDE]``."""
        logits: Tensor = self.layers(shown)
        return logits


class PatternShares(SumsStatistic):
    """Shares of each head's maps that are of each class of Kovaleva et al. (2019, section 4.1).

    Each map between the pieces of a text (or of a window of one) is put into one class: the likeliest, or
    ``heterogeneous`` where none is likely enough. The shares of a head sum to 1. Maps of fewer than
    :data:`SHORTEST_MAP` pieces are not counted. Without sentence pairs no map is ``block``.

    Args:
        scope: what the pass reads, at piece level.
        classifier: ``features`` or ``cnn``.
        confidence: the least probability of a class; the classifier's own (0.5) when left out.

    Raises:
        BertologyError: the pass is at word level, or the confidence is no probability.
        ModelError: the classifier cannot be loaded.
    """

    names = PATTERNS

    def __init__(
        self, scope: Scope, *, classifier: ClassifierKind = "features", confidence: float | None = None
    ) -> None:
        if scope.level != "piece":
            raise BertologyError("patterns are of maps between pieces: read them at level 'piece'")
        trained = load_classifier(classifier)
        self._classifier = trained if confidence is None else replace(trained, confidence=confidence)
        if not 0 <= self._classifier.confidence <= 1:
            raise BertologyError(f"confidence {self._classifier.confidence:g}: give a probability, 0 to 1")
        super().__init__(ClusterSums(scope, self.names, shared=True, metric="pattern_share"))
        self._layout = PerBatch(Layout.of_units)

    def update(self, batch: MapBatch) -> None:
        units = batch.units
        layout = self._layout(units)
        counted = (layout.lengths >= SHORTEST_MAP) & layout.rows.any(-1)  # [text]
        classes = self._classifier.classes(batch.maps, layout)
        over = nn.functional.one_hot(classes, len(self.names)) * counted[:, None, None]
        self._sums[0].add(batch.layer, units, over, counted[:, None].expand(-1, len(self.names)))
