"""Fits in files: numbers as safetensors, next to a JSON that tells what they are and is written last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from bertology._files import FORMAT, write_atomically
from bertology._workers import Workers
from bertology.errors import ResultsError
from bertology.readouts._base import FittedReadout
from bertology.readouts._edge import Design, FittedEdge, FittedPooled, Group, log_probs, span_scores
from bertology.readouts._fitting import FittedScores
from bertology.readouts._linear import Affine, FittedRegression
from bertology.readouts._neural import Compressors, Perceptrons
from bertology.readouts._sources import AnySource, FeatureSource, as_spans, pooled

Kind = Literal["softmax", "sigmoid", "sets", "scores", "number"]
"""The meaning of scores: logits of one class an item, ``sigmoid`` each class judged on its own; of a set of classes;
scores that tell no probability; a number."""


def save_fit(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write ``path.safetensors``, then ``path.json``, which makes the fit whole."""
    from safetensors.torch import save

    plain = {name: value.detach().float().cpu().contiguous() for name, value in tensors.items()}
    write_atomically(path.with_name(f"{path.name}.safetensors"), save(plain))
    content = json.dumps({"format": FORMAT, **about}, indent=1, ensure_ascii=False)
    write_atomically(path.with_name(f"{path.name}.json"), content.encode())


def load_fit(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the description that :func:`save_fit` wrote.

    Raises:
        ResultsError: a file is missing, broken or of another format.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    about, weights = (path.with_name(f"{path.name}{ending}") for ending in (".json", ".safetensors"))
    if any(file.is_fifo() for file in (about, weights)):
        raise ResultsError(f"{about}: a pipe is no probe; fit it anew")
    try:
        plain = json.loads(about.read_bytes())
        if (version := plain.pop("format")) != FORMAT:
            raise ResultsError(f"{about}: a probe of format {version}, this version reads {FORMAT}; fit it anew")
        return load_file(weights), plain
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise ResultsError(f"{about}: no whole probe there ({error}); fit it anew") from error


@dataclass(frozen=True)
class KeptFit:
    """One fit of labels or numbers as it is kept: scores of the classes of new items."""

    tensors: Mapping[str, Tensor]
    """``coefficients [class, in]`` and ``intercepts [class]``, for raw vectors: standardisation is folded in. Of a
    perceptron they follow a hidden layer of ReLUs, ``hidden [unit, dim]`` and ``hidden_bias [unit]``. Of an edge probe
    its parameters, named as in :meth:`Design.shapes`, and ``absent [1, class]`` if a class is never predicted."""
    design: Mapping[str, Any] = field(default_factory=dict)
    """The ``pool`` of a readout of spans, or the shape of an edge probe; empty for readouts of single vectors."""
    kind: Kind = "softmax"

    @classmethod
    def of(cls, fitted: FittedReadout | FittedRegression, problem: int, column: int) -> KeptFit | None:
        """The fit of one problem and column of layers; None for readouts of other kinds."""
        if isinstance(fitted, FittedRegression):
            slope = fitted.slopes[problem, column]
            intercept = fitted.intercepts[problem, column] - slope @ fitted.origin[column]
            return cls({"coefficients": slope[None], "intercepts": intercept[None]}, kind="number")
        if isinstance(fitted, FittedEdge):
            return cls(_edge_tensors(fitted, problem, column), _edge_design(fitted, column), _kind_of(fitted))
        if isinstance(fitted, FittedPooled):
            below = cls.of(fitted.regressions, problem, column)
            return below and replace(below, design={"pool": fitted.pooling})
        if not isinstance(fitted, FittedScores) or not (tensors := _tensors(fitted.model, problem, column)):
            return None
        return cls(tensors, kind="softmax" if fitted.are_logits else "scores")

    def scores(self, source: AnySource) -> Tensor:
        """``[item, class]`` scores of the items of a source with the layers of the fit; of a number ``[item, 1]``."""
        n_classes = self.tensors["out_bias" if "parts" in self.design else "intercepts"].shape[-1]
        scores = torch.empty(source.n_items, n_classes)
        for items, of_items in self._chunks(source):
            scores[items] = of_items
        return scores

    def best(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """``[item]`` the class that is predicted, or ``[item, class]`` which are, and the probability of that."""
        chosen = scores > 0 if self.kind == "sets" else scores.argmax(1)
        if self.kind == "scores":
            return chosen, scores.new_full((len(scores),), torch.nan).double()
        known = log_probs(scores[None].double(), chosen[None], is_sigmoid=self.kind in ("sigmoid", "sets"))
        return chosen, known[0].exp()

    def probabilities(self, scores: Tensor) -> Tensor | None:
        """``[item, class]`` the probability of each class; None where the scores tell none."""
        if self.kind in ("sigmoid", "sets"):
            return scores.double().sigmoid()
        return scores.double().softmax(1) if self.kind == "softmax" else None

    def _chunks(self, source: AnySource) -> Iterator[tuple[Tensor, Tensor]]:
        if "parts" in self.design:
            plain = {name: _tuples(self.design[name]) for name in (one.name for one in fields(Design))}
            group = Group.of(Design(**plain), [0])
            fit = {name: value[None] for name, value in self.tensors.items() if name != "absent"}
            absent = self.tensors["absent"][None] if "absent" in self.tensors else None
            with Workers(torch.device("cpu")) as workers:
                for items, scores in span_scores(as_spans(source), [(group, fit)], absent, workers):
                    yield items, scores[0]
            return
        pool = self.design.get("pool")
        features = pooled(as_spans(source), pooling=pool) if pool else cast(FeatureSource, source)
        for items, vectors in features.chunks():
            hidden = vectors[0].float()
            if "hidden" in self.tensors:
                hidden = torch.addmm(self.tensors["hidden_bias"], hidden, self.tensors["hidden"].T).relu_()
            yield items, torch.addmm(self.tensors["intercepts"], hidden, self.tensors["coefficients"].T)


def _kind_of(fitted: FittedEdge) -> Kind:
    return "sets" if fitted.is_multi_label else "sigmoid" if fitted.is_sigmoid else "softmax"


def _edge_tensors(fitted: FittedEdge, problem: int, column: int) -> dict[str, Tensor]:
    tensors = {name: value[problem, column] for name, value in fitted.parameters.items()}
    if "mix" in tensors:
        tensors["mix"] = tensors["mix"][list(fitted.design.columns[column])]
    return tensors if fitted.absent is None else {**tensors, "absent": fitted.absent[problem]}


def _edge_design(fitted: FittedEdge, column: int) -> dict[str, Any]:
    """The shape of a probe of one column, which reads its layers and no others."""
    n_layers = len(fitted.design.columns[column])
    return asdict(replace(fitted.design, columns=(tuple(range(n_layers)),)))


def _tuples(value: Any) -> Any:
    """A value of JSON with its lists as tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _tensors(model: Any, problem: int, layer: int) -> dict[str, Tensor]:
    """One or two affine maps, with ReLUs between them; empty for models of another kind."""
    if isinstance(model, Affine):
        coefficients, intercepts = (of[problem, layer, 0] for of in (model.coefficients, model.intercepts))
        return {"coefficients": coefficients, "intercepts": intercepts}
    if not isinstance(model, Perceptrons | Compressors):
        return {}
    (first, offset), *rest = _maps(model, problem, layer)
    mean, std = (of[problem, layer].double() for of in (model.mean, model.std))
    first = first / std
    offset = offset - first @ mean
    if not rest:
        return {"coefficients": first, "intercepts": offset}
    return {"hidden": first, "hidden_bias": offset, "coefficients": rest[0][0], "intercepts": rest[0][1]}


def _maps(model: Perceptrons | Compressors, problem: int, layer: int) -> list[tuple[Tensor, Tensor]]:
    """Weights ``[out, in]`` and biases ``[out]`` of the maps of standardised features."""

    def at(parameter: Tensor) -> Tensor:
        return parameter.detach()[problem, layer].double()

    if isinstance(model, Compressors):  # under the means of their posteriors
        maps: Any = model.maps
        return [(at(one.mean) * at(one.log_scale).exp(), at(one.bias)) for one in maps]
    bias = at(model.second_bias) + model.absent[problem, 0].double()
    if model.is_linear:
        return [(at(model.second) @ at(model.first), bias)]
    return [(at(model.first), at(model.first_bias)), (at(model.second), bias)]
