"""Checkpoints of a training: each becomes a model of its own before anything else is resolved."""

from __future__ import annotations

from dataclasses import replace

from bertology.encoders.resolving import find_checkpoints
from bertology.errors import BertologyError, quoted
from bertology.families.request import ProbeRequest
from bertology.runner.experiment._settings import Experiment, ModelSettings


def with_checkpoints(experiment: Experiment) -> Experiment:
    """The experiment with one model for each checkpoint that its models ask for, in the order of their steps.

    Raises:
        BertologyError: there are no such checkpoints, or two models would be called the same.
    """
    if all(model.checkpoints is None for model in experiment.models):
        return experiment
    models = tuple(one for model in experiment.models for one in _models_of(model))
    titles = [model.title for model in models]
    doubled = next((title for title in titles if titles.count(title) > 1), None)
    if doubled is not None:
        raise BertologyError(f"two models are called {quoted(doubled)}: give each an id of its own")
    return experiment.model_copy(update={"models": models})


def _models_of(model: ModelSettings) -> tuple[ModelSettings, ...]:
    if model.checkpoints is None:
        return (model,)
    shared = {"id": model.training, "checkpoints": None}
    return tuple(
        model.model_copy(update={**shared, "name": one.name, "revision": one.revision, "step": one.step})
        for one in find_checkpoints(model.name, model.checkpoints)
    )


def requests_of(request: ProbeRequest) -> tuple[ProbeRequest, ...]:
    """A request for each checkpoint that one asks for; of a request that asks for none itself."""
    if request.checkpoints is None:
        return (request,)
    settings = ModelSettings.of(request, title=request.model_id or request.model)
    return tuple(
        replace(request, model=one.name, revision=one.revision, step=one.step, checkpoints=None, model_id=one.title)
        for one in _models_of(settings)
    )
