"""How far the weights of a model are from those of a reference, by tensor, layer and part of the encoder."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from torch import Tensor

from bertology._names import name_not_found
from bertology.encoders import Encoder, model_name, resolve_model
from bertology.encoders.weights import LoadedWeights, StoredWeights, WeightKind, WeightPlace
from bertology.errors import ModelError

if TYPE_CHECKING:
    import pandas as pd

By = Literal["tensor", "layer", "kind", "layer and kind"]
_ORDER = {kind: place for place, kind in enumerate(get_args(WeightKind))}
_AT_ONCE = 1 << 20
"""Values that are compared at once in float64."""


@dataclass(frozen=True)
class Sums:
    """Sums over values of A and B from which distances are computed; sums of several tensors add up."""

    n_weights: int
    n_changed: int
    """Values that differ."""
    squared_a: float
    squared_b: float
    product: float
    squared_difference: float

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    @property
    def changed(self) -> float:
        """Proportion of the values that differ."""
        return self.n_changed / max(1, self.n_weights)

    @property
    def relative_l2(self) -> float:
        """‖B − A‖ / ‖A‖; NaN where A is all 0."""
        return math.sqrt(self.squared_difference) / math.sqrt(self.squared_a) if self.squared_a else math.nan

    @property
    def cosine(self) -> float:
        """⟨A, B⟩ / (‖A‖ ‖B‖); NaN where one is all 0."""
        length = math.sqrt(self.squared_a * self.squared_b)
        return min(1.0, self.product / length) if length else math.nan


@dataclass(frozen=True)
class TensorChange:
    """A tensor that both models have."""

    name: str
    """Without the prefix of the class that saved it, such as ``encoder.layer.0.output.dense.weight``."""
    place: WeightPlace
    sums: Sums


@dataclass(frozen=True)
class WeightChanges:
    """The weights of a model B compared with those of a reference A; returned by :func:`weight_changes`."""

    reference: str
    model: str
    tensors: tuple[TensorChange, ...]
    """The tensors that both have, in the order of layers, heads last."""
    only_in_reference: tuple[str, ...]
    only_in_model: tuple[str, ...]

    @property
    def encoder_change(self) -> Sums:
        """Of all tensors that belong to a layer as of one vector."""
        sums = (tensor.sums for tensor in self.tensors if tensor.place.layers)
        return reduce(add, sums)

    def table(self, by: By = "layer") -> pd.DataFrame:
        """A row for each tensor, layer, kind of tensor, or both.

        Columns are those of ``by`` (``tensor``, ``layer``, ``kind``), ``relative_l2`` = ‖B − A‖ / ‖A‖, ``cosine``,
        ``changed`` (the proportion of values that differ) and ``n_weights``. Layer 0 is the embeddings, 1…L the blocks;
        heads have none and are left out by layer. A tensor that serves several layers counts in each.

        Raises:
            NameNotFoundError: ``by`` is none of these.
        """
        import pandas as pd

        if by not in _KEYS:
            raise name_not_found("unit of weights", by, _KEYS)
        names, keys = _KEYS[by]
        pooled: dict[tuple[Hashable, ...], Sums] = {}
        for tensor in self.tensors:
            for key in keys(tensor):
                pooled[key] = pooled[key] + tensor.sums if key in pooled else tensor.sums
        rows = [(*key, sums.relative_l2, sums.cosine, sums.changed, sums.n_weights) for key, sums in pooled.items()]
        frame = pd.DataFrame(rows, columns=[*names, "relative_l2", "cosine", "changed", "n_weights"])
        if by in ("kind", "layer and kind"):
            rank = {"kind": [_ORDER[kind] for kind in frame["kind"]]}
            order = frame.assign(**rank).sort_values(list(names), kind="stable").index
            frame = frame.loc[order].reset_index(drop=True)
        return frame


_KEYS: dict[str, tuple[tuple[str, ...], Callable[[TensorChange], list[tuple[Hashable, ...]]]]] = {
    "tensor": (("tensor",), lambda tensor: [(tensor.name,)]),
    "layer": (("layer",), lambda tensor: [(layer,) for layer in tensor.place.layers]),
    "kind": (("kind",), lambda tensor: [(tensor.place.kind,)]),
    "layer and kind": (
        ("layer", "kind"),
        lambda tensor: [(layer, tensor.place.kind) for layer in tensor.place.layers],
    ),
}


def weight_changes(reference: Any, model: Any, *, layers: Sequence[tuple[int, int]] | None = None) -> WeightChanges:
    """How far the weights of a model B are from those of a reference A that it was made from.

    Relative L2 and cosine of each tensor, and pooled over the tensors of a layer or of a kind as of one long vector
    (cf. Radiya-Dixit & Wang 2020, section 3, on the distances of fine-tuned models). Tensors are matched by name, read
    from the files one by one, and compared in float64.

    >>> weight_changes("pocket", "pocket").table("layer")["relative_l2"].max()
    np.float64(0.0)

    Args:
        reference: A, as of :func:`bertology.probe`: ``pocket``, a folder, a hub id, or a transformers model and its
            tokenizer; or an :class:`~bertology.Encoder`, whose weights in memory are compared.
        model: B, likewise. Heads may differ: what one of the two lacks is listed.
        layers: layers of B, each with the layer of A that it is compared with, such as those that a student was made
            of; each with that of the same number when left out. Other blocks are not compared.

    Raises:
        ModelError: the models have no tensor in common, or one has different shapes in the two.
    """
    with contextlib.ExitStack() as stack:
        of_a, of_b = (_opened(given, stack) for given in (reference, model))
        name_in_a = {name: _counterpart(name, place, layers) for name, place in of_b.places.items()}
        both = {name: other for name, other in name_in_a.items() if other in of_a.places}
        if not any(of_b.places[name].layers for name in both):
            raise ModelError(
                f"models {of_a.name} and {of_b.name} have no tensor of the encoder in common: give a model and one "
                "that was made from it"
            )
        return WeightChanges(
            of_a.name,
            of_b.name,
            tuple(
                TensorChange(name, of_b.places[name], _compared(name, other, of_a, of_b))
                for name, other in both.items()
            ),
            tuple(name for name in of_a.places if name not in both.values()),
            tuple(name for name in of_b.places if name not in both),
        )


def _opened(given: Any, stack: contextlib.ExitStack) -> StoredWeights | LoadedWeights:
    if isinstance(given, Encoder):
        return LoadedWeights(given.model, given.source.title)
    return stack.enter_context(StoredWeights(resolve_model(model_name(given))))


def _counterpart(name: str, place: WeightPlace, layers: Sequence[tuple[int, int]] | None) -> str:
    """The name in A of what a tensor of B is compared with; empty for one of a layer that is not compared."""
    if layers is None or len(place.layers) != 1 or place.layers == (0,):
        return name
    other = dict(layers).get(place.layers[0])
    # The number of a block, from 0, is the first in a name; what comes after the last block has none.
    return "" if other is None else re.sub(r"\.\d+\.", f".{other - 1}.", name, count=1)


def _compared(name: str, other: str, of_a: StoredWeights | LoadedWeights, of_b: StoredWeights | LoadedWeights) -> Sums:
    a, b = of_a.read(other), of_b.read(name)
    if a.shape != b.shape:
        shapes = f"{list(b.shape)}, and {list(a.shape)} in {of_a.name}"
        raise ModelError(f"model {of_b.name}: {name} is {shapes}: give models whose tensors have one shape")
    sums = Sums(0, 0, 0.0, 0.0, 0.0, 0.0)
    for one, two in _parts(a, b):
        sums += Sums(
            len(one),
            int(np.count_nonzero(one != two)),
            float(one @ one),
            float(two @ two),
            float(one @ two),
            float(np.square(two - one).sum()),
        )
    return sums


def _parts(*tensors: Tensor) -> Iterator[tuple[np.ndarray[Any, np.dtype[np.float64]], ...]]:
    flat = [tensor.flatten() for tensor in tensors]
    for start in range(0, len(flat[0]), _AT_ONCE):
        yield tuple(values[start : start + _AT_ONCE].double().numpy() for values in flat)
