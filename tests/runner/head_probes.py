"""Two probes of heads as anyone might write them, for tests of all that is around a probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bertology.attention import GateProbe
from bertology.attention.probes import BestHeadProbe, ReadText
from bertology.corpora import Sentences
from bertology.measures import Metric, share_metric, sum_metric
from bertology.measures.sums import HeadRatios
from bertology.probing import ControlNote, RunningModel

if TYPE_CHECKING:
    from bertology.attention.maps import MakeStatistic


@dataclass(frozen=True)
class LooksAt(BestHeadProbe):
    """How much heads look at special tokens, the word itself and its neighbours."""

    task: str = "looks_at"
    version: int = 1
    question: str = "At what does a head look?"
    reference: str = "Clark et al. (2019)"
    readout: str = "attention.v1"
    metrics: tuple[Metric, ...] = (share_metric("attention_mass", "attention"), sum_metric("distance", "in words"))
    level: Literal["word", "piece"] = "word"
    pairs: bool = False
    norms: bool = False
    baselines = (ControlNote("offset", "best offset", "the word before"),)

    def statistics(self, sentences: Sentences) -> Sequence[MakeStatistic]:
        from bertology.attention.measured import Masses

        return (Masses,)

    def baseline(self, name: str, text: ReadText, chosen_on: ReadText) -> Sequence[HeadRatios]:
        lengths = np.diff(text.sentences.starts).astype(np.float64)[None, None, None]
        return (HeadRatios(("previous",), (), lengths - 1, lengths, "attention_mass", "model"),)


@dataclass(frozen=True)
class Lost(GateProbe):
    """A loss that is known: head h of layer l is worth l + h / 10 on every sentence."""

    task: str = "lost"
    version: int = 1
    question: str = "What is lost?"
    reference: str = "Michel et al. (2019)"
    readout: str = "gates.v1"
    metrics: tuple[Metric, ...] = (sum_metric("lost_bits", "bits lost"),)
    times: float = 1.0
    steps: tuple[int, ...] = (10, 20)

    def measure(self, model: RunningModel) -> Sequence[HeadRatios]:
        layers, n = model.layers, len(model.sentences["test"])
        worth = np.array([[layer + head / 10 for head in range(1, model.encoder.n_heads + 1)] for layer in layers])
        each = np.broadcast_to(self.times * worth[None, :, :, None], (1, *worth.shape, n)).copy()
        curve = np.array(self.steps, dtype=np.float64)[:, None, None, None] * np.ones((1, 1, 1, n))
        return (
            HeadRatios(("lost_bits",), tuple(layers), each, np.ones((1, 1, 1, n))),
            HeadRatios(("layer_bits",), tuple(layers), each.sum(2, keepdims=True), np.ones((1, 1, 1, n)), unit="layer"),
            HeadRatios(
                tuple(f"{step} % off" for step in self.steps), (), curve, np.ones_like(curve), "lost_bits", "model"
            ),
        )
