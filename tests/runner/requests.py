"""Requests that differ from another one in a few settings."""

from typing import Any

from bertology.families.request import _PLACES
from bertology.runner import ProbeRequest


def but(request: ProbeRequest, **changes: Any) -> ProbeRequest:
    """The same request with other settings, which are given as for a new one."""
    parts = {"": request, "models": request.models[0], "corpora": request.corpora[0]}
    kept = {
        name: getattr(parts[part], own_name)
        for name, (part, own_name) in _PLACES.items()
        if own_name in parts[part].model_fields_set
    }
    tasks = {"tasks": [task.name for task in request.tasks], "configs": {t.name: t.readout for t in request.tasks}}
    if {"readout", "configs"} & changes.keys():
        tasks.pop("configs")
    return ProbeRequest(**{**kept, **tasks, **changes})
