"""``edge`` and its mixes: which layers a probe of spans reads, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bertology.errors import FitError
from bertology.readouts.edge._fit import SpanReadout
from bertology.readouts.edge._model import Reads

Columns = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class EdgeReadout(SpanReadout):
    """``edge.v2``: one probe a layer (Tenney et al. 2019a, section 3.1)."""

    stem: ClassVar[str] = "edge"
    reads: ClassVar[Reads] = "one"

    def columns(self, layers: Sequence[int]) -> Columns:
        """Each layer on its own."""
        return tuple((layer,) for layer in layers)


@dataclass(frozen=True)
class EdgeMixReadout(SpanReadout):
    """``edge_mix.v2``: one probe of all layers, mixed as γ Σ s_ℓ h_ℓ (Tenney et al. 2019b, section 3.1).

    The weights s are the softmax of what is learned; they and γ are among the ``details`` of a fit, with their centre
    of gravity and how far they are from equal.
    """

    stem: ClassVar[str] = "edge_mix"
    reads: ClassVar[Reads] = "mix"

    temperature: float = 1.0
    """What the learned numbers are divided by before the softmax: below 1, weights part sooner."""
    layer_dropout: float = 0.0
    """Part of the batches that each layer is left out of; a column of one layer keeps it."""

    def columns(self, layers: Sequence[int]) -> Columns:
        """One column of all layers."""
        return (tuple(layers),)


@dataclass(frozen=True)
class EdgeCumulativeReadout(SpanReadout):
    """``edge_cumulative.v2``: a mix of layers 0…ℓ for every ℓ (Tenney et al. 2019b, section 3.2).

    What the score gains from column to column says where a task is solved (``measures.differential_scores``,
    ``measures.expected_layer``).
    """

    stem: ClassVar[str] = "edge_cumulative"
    reads: ClassVar[Reads] = "mix"

    temperature: float = 1.0
    """As in ``edge_mix``."""
    layer_dropout: float = 0.0
    """As in ``edge_mix``."""

    def columns(self, layers: Sequence[int]) -> Columns:
        """For each layer a column of it and all before it."""
        return tuple(tuple(layers[: place + 1]) for place in range(len(layers)))


@dataclass(frozen=True)
class EdgeCatReadout(SpanReadout):
    """``edge_cat.v2``: the first and the last layer, one after the other (Tenney et al. 2019a, section 4: ``cat``)."""

    stem: ClassVar[str] = "edge_cat"
    reads: ClassVar[Reads] = "cat"

    def columns(self, layers: Sequence[int]) -> Columns:
        """One column of the first and the last layer."""
        if len(layers) < 2:
            raise FitError(f"{self.name} joins the first and the last layer, and only {len(layers)} is there: ask two")
        return ((layers[0], layers[-1]),)


@dataclass(frozen=True)
class FirstSettings(SpanReadout):
    """Version 1 of the settings: a fit ends after three rounds without a better score, with no cooling down."""

    version: ClassVar[int] = 1
    hidden: int = 256
    learning_rate: float = 1e-3
    batch_items: int = 64
    least_batch: int = 64
    max_steps: int = 0
    patience: int = 3
    cool_down: int = 0


@dataclass(frozen=True)
class FirstEdgeReadout(FirstSettings, EdgeReadout):
    """``edge.v1``."""


@dataclass(frozen=True)
class FirstEdgeMixReadout(FirstSettings, EdgeMixReadout):
    """``edge_mix.v1``."""


@dataclass(frozen=True)
class FirstEdgeCumulativeReadout(FirstSettings, EdgeCumulativeReadout):
    """``edge_cumulative.v1``."""


@dataclass(frozen=True)
class FirstEdgeCatReadout(FirstSettings, EdgeCatReadout):
    """``edge_cat.v1``."""
