"""Fits in files: numbers as safetensors, next to a JSON that tells what they are and is written last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertology._files import write_atomically
from bertology.errors import ResultsError
from bertology.readouts._base import FittedReadout
from bertology.readouts._fitting import FittedScores
from bertology.readouts.linear._affine import Affine
from bertology.readouts.neural._perceptrons import Perceptrons

_FORMAT = 1


def save_fit(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write ``path.safetensors``, then ``path.json``, which makes the fit whole."""
    from safetensors.torch import save

    plain = {name: value.detach().float().cpu().contiguous() for name, value in tensors.items()}
    write_atomically(path.with_name(f"{path.name}.safetensors"), save(plain))
    content = json.dumps({"format": _FORMAT, **about}, indent=1, ensure_ascii=False)
    write_atomically(path.with_name(f"{path.name}.json"), content.encode())


def load_fit(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`save_fit` wrote: the numbers, and what they are.

    Raises:
        ResultsError: a file is missing, broken or of another format.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    about, weights = (path.with_name(f"{path.name}{ending}") for ending in (".json", ".safetensors"))
    try:
        plain = json.loads(about.read_bytes())
        if (version := plain.pop("format")) != _FORMAT:
            raise ResultsError(f"{about}: a probe of format {version}, this version reads {_FORMAT}; fit it anew")
        return load_file(weights), plain
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise ResultsError(f"{about}: no whole probe there ({error}); fit it anew") from error


def kept_tensors(fitted: FittedReadout, problem: int, layer: int) -> dict[str, Tensor]:
    """What applies one fit to raw vectors: ``coefficients [class, in]`` and ``intercepts [class]``.

    Of a perceptron they follow a hidden layer of ReLUs, ``hidden [unit, dim]`` and ``hidden_bias [unit]``. The
    standardisation of features is folded in. Empty for readouts that are not of this kind.
    """
    model = fitted.model if isinstance(fitted, FittedScores) else None
    if isinstance(model, Affine):
        coefficients, intercepts = (of[problem, layer, 0] for of in (model.coefficients, model.intercepts))
        return {"coefficients": coefficients, "intercepts": intercepts}
    if not isinstance(model, Perceptrons):
        return {}
    first, second = (of[problem, layer].double() for of in (model.first, model.second))
    mean, std = (of[problem, layer].double() for of in (model.mean, model.std))
    bias = model.second_bias[problem, layer].double() + model.absent[problem, 0].double()
    hidden = first / std
    if model.is_linear:
        coefficients = second @ hidden
        return {"coefficients": coefficients, "intercepts": bias - coefficients @ mean}
    offset = model.first_bias[problem, layer].double() - hidden @ mean
    return {"hidden": hidden, "hidden_bias": offset, "coefficients": second, "intercepts": bias}


def gives_probabilities(fitted: FittedReadout) -> bool:
    """Whether the softmax of the scores of :func:`kept_scores` is a probability."""
    return isinstance(fitted, FittedScores) and fitted.are_logits


def kept_scores(tensors: Mapping[str, Tensor], vectors: Tensor) -> Tensor:
    """``[item, class]`` scores of ``[item, dim]`` vectors by what :func:`kept_tensors` gives."""
    vectors = vectors.float()
    if "hidden" in tensors:
        vectors = torch.addmm(tensors["hidden_bias"], vectors, tensors["hidden"].T).relu_()
    return torch.addmm(tensors["intercepts"], vectors, tensors["coefficients"].T)
