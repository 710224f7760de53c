"""The two classifiers of attention maps, as they come with the package."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from bertology.attention.patterns._features import FEATURES, features
from bertology.attention.patterns._kinds import CONFIDENCE, KINDS, PATTERNS, ClassifierKind
from bertology.attention.patterns._layout import Layout
from bertology.attention.patterns._picture import PatternNetwork, pictures
from bertology.errors import ModelError

WEIGHTS: Final = Path(__file__).with_name("weights")
RECORD: Final = "training.json"
_BLOCK = PATTERNS.index("block")
_CELLS_TOGETHER = 1 << 18
_PICTURES_TOGETHER = 256

Logits = Callable[[Tensor, Layout], Tensor]


@dataclass(frozen=True, eq=False)
class PatternClassifier:
    """Puts attention maps between pieces into the classes of Kovaleva et al. (2019, section 4.1).

    Trained on synthetic maps; what it is worth on real ones stands in its model card, README.md of this package.
    """

    kind: ClassifierKind
    """``features``: logistic regression on measured features; ``cnn``: a small network that looks at pictures."""
    temperature: float
    """By which logits are divided, so that probabilities are calibrated (on the real maps of the part ``adjust``)."""
    bias: tuple[float, ...]
    """Of each class, added to its logit: real maps are not as many of each class as synthetic ones. Fitted with the
    temperature."""
    confidence: float
    """Below this probability of its likeliest class a map is ``heterogeneous``."""
    _logits: Logits
    _cells: int
    """Of maps that are looked at together."""

    def probabilities(self, maps: Tensor, layout: Layout) -> Tensor:
        """How likely each class is.

        Args:
            maps: ``[text, head, piece, piece]`` from (rows) to (columns), 0 in columns of padding.
            layout: of the same texts.

        Returns:
            ``[text, head, class]``, classes in the order of :data:`PATTERNS`.
        """
        step = max(1, self._cells // (maps.shape[1] * maps.shape[2] ** 2))
        found = []
        with torch.no_grad():
            for start in range(0, len(maps), step):
                part = slice(start, start + step)
                found.append(self._logits(maps[part], Layout(layout.kinds[part])))
        logits = torch.cat(found) / self.temperature + torch.tensor(self.bias, device=maps.device)
        # Squares of two sentences are not to be had of one.
        impossible = ~layout.is_pair[:, None, None] & (torch.arange(len(PATTERNS), device=maps.device) == _BLOCK)
        return logits.masked_fill(impossible, -torch.inf).softmax(-1)

    def classes(self, maps: Tensor, layout: Layout) -> Tensor:
        """``[text, head]`` the class of each map, as a number in :data:`PATTERNS`."""
        return assigned(self.probabilities(maps, layout), confidence=self.confidence)


def assigned(probabilities: Tensor, *, confidence: float = CONFIDENCE) -> Tensor:
    """Likeliest classes; ``heterogeneous`` where even that is less likely than ``confidence``.

    Args:
        probabilities: ``[..., class]``
        confidence: from 0 to 1.
    """
    best, found = probabilities.max(-1)
    return torch.where(best >= confidence, found, PATTERNS.index("heterogeneous"))


@lru_cache(maxsize=4)
def load_classifier(kind: ClassifierKind = "features", *, folder: Path = WEIGHTS) -> PatternClassifier:
    """A classifier as trained.

    Args:
        kind: ``features`` or ``cnn``.
        folder: of its weights; the package's own when left out.

    Raises:
        ModelError: there is no such classifier, or its files are missing or of another version.
    """
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
        kind=kind,
        temperature=float(record["temperature"][kind]),
        bias=tuple(record["bias"][kind]),
        confidence=float(record["confidence"]),
        _logits=_of_features(weights) if kind == "features" else _of_pictures(weights),
        _cells=_CELLS_TOGETHER,
    )


def _of_features(weights: dict[str, Tensor]) -> Logits:
    def logits(maps: Tensor, layout: Layout) -> Tensor:
        own = {name: values.to(maps.device) for name, values in weights.items()}
        scaled = (features(maps, layout) - own["mean"]) / own["scale"]
        return scaled @ own["weight"].T + own["bias"]

    return logits


def _of_pictures(weights: dict[str, Tensor]) -> Logits:
    network = PatternNetwork().eval()
    network.load_state_dict(weights)

    def logits(maps: Tensor, layout: Layout) -> Tensor:
        looking = network if maps.device.type == "cpu" else PatternNetwork().to(maps.device).eval()
        if looking is not network:
            looking.load_state_dict(weights)
        n_texts, n_heads = maps.shape[:2]
        step = max(1, _PICTURES_TOGETHER // n_heads)
        found = []
        for start in range(0, n_texts, step):
            part = slice(start, start + step)
            shown = pictures(maps[part], Layout(layout.kinds[part]))
            found.append(looking(shown.flatten(0, 1)).view(len(shown), n_heads, -1))
        return torch.cat(found)

    return logits
