"""Single fits of labels or numbers as they are kept, whatever readout they are of, and their scores of new items."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast

import torch
from pydantic import TypeAdapter
from torch import Tensor

from bertology._machine import Workers
from bertology.readouts._edge import Design, FittedEdge, Probes, log_probs, span_scores
from bertology.readouts._fitting import FittedScores
from bertology.readouts._sources import AnySource, FeatureSource, as_spans, pooled
from bertology.readouts.linear import Affine, FittedRegression

Kind = Literal["softmax", "sigmoid", "sets", "scores", "number"]
"""The meaning of scores: logits of one class an item, ``sigmoid`` each class judged on its own; of a set of classes;
scores that tell no probability; a number."""


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
    def of(cls, fitted: Any, problem: int, column: int) -> "KeptFit | None":
        """The fit of one problem and column of layers; None for readouts of other kinds."""
        at = problem, column
        if isinstance(fitted, FittedRegression):
            slope = fitted.slopes[at]
            intercept = fitted.intercepts[at] - slope @ fitted.origin[column]
            return cls({"coefficients": slope[None], "intercepts": intercept[None]}, kind="number")
        if isinstance(fitted, FittedEdge):
            layers = fitted.design.columns[column]  # a probe of one column reads its layers and no others
            tensors = {name: value[at] for name, value in fitted.parameters.items()}
            if "mix" in tensors:
                tensors["mix"] = tensors["mix"][list(layers)]
            if fitted.absent is not None:
                tensors["absent"] = fitted.absent[problem]
            design = asdict(replace(fitted.design, columns=(tuple(range(len(layers))),)))
            own: Kind = "sigmoid" if fitted.is_sigmoid else "softmax"
            return cls(tensors, design, "sets" if fitted.is_multi_label else own)
        if not isinstance(fitted, FittedScores):
            return None
        model: Any = fitted.model
        kind: Kind = "softmax" if fitted.are_logits else "scores"
        if isinstance(model, Affine):
            maps = {"coefficients": model.coefficients[*at, 0], "intercepts": model.intercepts[*at, 0]}
            return cls(maps, {"pool": fitted.pooling} if fitted.pooling else {}, kind)
        (first, offset), *rest = model.maps_of(problem, column)
        mean, std = (of[at].double() for of in (model.mean, model.std))
        first = first / std
        offset = offset - first @ mean
        if not rest:
            return cls({"coefficients": first, "intercepts": offset}, kind=kind)
        last = {"coefficients": rest[0][0], "intercepts": rest[0][1]}
        return cls({"hidden": first, "hidden_bias": offset, **last}, kind=kind)

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
            fit = {name: value[None] for name, value in self.tensors.items()}
            absent = fit.pop("absent", None)
            probes = Probes(TypeAdapter(Design).validate_python(dict(self.design)), [0], fit)
            with Workers(torch.device("cpu")) as workers:
                for items, scores in span_scores(as_spans(source), [probes], absent, workers):
                    yield items, scores[0]
            return
        pool = self.design.get("pool")
        features = pooled(as_spans(source), pooling=pool) if pool else cast(FeatureSource, source)
        for items, vectors in features.chunks():
            yield items, self.of_vectors(vectors[0])

    def of_vectors(self, vectors: Tensor) -> Tensor:
        """``[item, class]`` scores of ``[item, dim]`` vectors, of a readout of single vectors; gradients pass."""
        held = {name: tensor.to(vectors.device) for name, tensor in self.tensors.items()}
        hidden = vectors.float()
        if "hidden" in held:
            hidden = torch.addmm(held["hidden_bias"], hidden, held["hidden"].T).relu()
        return torch.addmm(held["intercepts"], hidden, held["coefficients"].T)
