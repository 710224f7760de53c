"""The model that another one is compared with: which it is, which of its layers are read, what names its cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertology._names import checkpoint_name
from bertology.errors import BertologyError, quoted
from bertology.families.model_corpus import ModelCorpus, Weights
from bertology.families.request import AS_READ, ReferenceModel
from bertology.results.rows import counterpart
from bertology.runner._finder import Finder
from bertology.runner.experiment._settings import Experiment, ModelSettings


def find_reference(pair: ModelCorpus, finder: Finder) -> ModelCorpus | None:
    """The reference model of a pair on the same corpus, resolved; None where none is asked for.

    Layers that are read of it have the numbers of those of the model where both are of one depth. Where they are not,
    they are all, if all of the model are asked about, else those of the same relative depth.
    """
    request = pair.request.of_reference
    if request is None:
        return None
    source, shape = finder.model(request.model, request.revision)
    depth, layers = pair.shape.n_layers, pair.layers
    if depth != shape.n_layers and len(layers) == depth + 1:
        layers = tuple(range(shape.n_layers + 1))
    elif depth != shape.n_layers:
        layers = tuple(sorted({counterpart(layer, depth, shape.n_layers) for layer in layers}))
    weights = Weights(request.init, request.init_seed if request.init != "pretrained" else 0)
    fingerprint = finder.fingerprint(source, weights.init, weights.seed)
    own_name = checkpoint_name(source.name, pretraining_seed=request.pretraining_seed, step=request.step)
    source = replace(source, name=request.model_id or own_name)
    return ModelCorpus(request, source, shape, pair.corpus, pair.splits, layers, {weights: fingerprint})


def reference_identity(pair: ModelCorpus) -> dict[str, Any]:
    """What of the reference model decides the numbers of a task that compares with it."""
    reference = pair.reference
    assert reference is not None
    read = {name: getattr(reference.request, name) for name in AS_READ}
    return {"model_fingerprint": reference.fingerprints[reference.weights], **read}


def reference_of(experiment: Experiment, model: ModelSettings) -> ReferenceModel | None:
    """The reference that a model of an experiment names: another model of it by id or name, else one by itself.

    Raises:
        BertologyError: it is the model itself, or several models have the name.
    """
    asked = model.reference
    if asked is None:
        return None
    settings = asked if isinstance(asked, ModelSettings) else _named(experiment, model, asked)
    if settings.checkpoints is not None:
        raise BertologyError(f"reference {quoted(settings.title)} has checkpoints: name one of them")
    shared = {name: getattr(settings, name) for name in settings.shared_fields() - {"checkpoints"}}
    return ReferenceModel(model=settings.name, model_id=settings.title, **shared)


def _named(experiment: Experiment, model: ModelSettings, name: str) -> ModelSettings:
    if name == model.title and model.step is not None:
        return model  # one of the checkpoints that are compared with it
    if name == model.title:
        raise BertologyError(f"model {quoted(model.title)} is its own reference: name another model, or leave it out")
    others = [other for other in experiment.models if other is not model]
    called = [other for other in others if other.title == name] or [other for other in others if other.name == name]
    if len(called) > 1:
        titles = ", ".join(other.title for other in called)
        raise BertologyError(f"reference {quoted(name)} of model {quoted(model.title)}: name one of {titles} by its id")
    if called:
        return called[0]
    read = {field: getattr(model, field) for field in ("trust_remote_code", *AS_READ)}
    return ModelSettings(name=name, **read)


def check_references(experiment: Experiment, finder: Finder) -> None:
    """Raise where a task compares with a reference and no model has one."""
    if any(model.reference is not None for model in experiment.models):
        return
    for task in experiment.tasks:
        if needs_reference(task.name, finder):
            remedy = "give one with --reference, or in an experiment with reference: of a model"
            raise BertologyError(f"task {task.name} compares a model with its reference, which none has: {remedy}")


def needs_reference(task: str, finder: Finder) -> bool:
    """Whether a task compares a model with its reference."""
    probe = finder.probe(task)
    return probe.needs_reference
