"""What a model loses without a head: gates, gradients, and curves of heads taken out, on any scored task.

Importing this package imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertology.attention.importance._attention_gradients import attention_gradients
    from bertology.attention.importance._classifier import SequenceClassifier
    from bertology.attention.importance._fitted import FittedTask
    from bertology.attention.importance._gradient import head_importance
    from bertology.attention.importance._leave_one_out import leave_one_layer_out, leave_one_out
    from bertology.attention.importance._masked_words import MaskedWords
    from bertology.attention.importance._names import Way, Without
    from bertology.attention.importance._pruning import pruning_curves
    from bertology.attention.importance._scores import TaskScores, scores_without
    from bertology.attention.importance._task import Answers, ScoredTask, TaskBatch
    from bertology.attention.importance._uniform import uniform_heads

__all__ = [
    "Answers",
    "FittedTask",
    "MaskedWords",
    "ScoredTask",
    "SequenceClassifier",
    "TaskBatch",
    "TaskScores",
    "Way",
    "Without",
    "attention_gradients",
    "head_importance",
    "leave_one_layer_out",
    "leave_one_out",
    "pruning_curves",
    "scores_without",
    "uniform_heads",
]

_HOME = {
    "_attention_gradients": ("attention_gradients",),
    "_classifier": ("SequenceClassifier",),
    "_fitted": ("FittedTask",),
    "_gradient": ("head_importance",),
    "_leave_one_out": ("leave_one_layer_out", "leave_one_out"),
    "_masked_words": ("MaskedWords",),
    "_names": ("Way", "Without"),
    "_pruning": ("pruning_curves",),
    "_scores": ("TaskScores", "scores_without"),
    "_task": ("Answers", "ScoredTask", "TaskBatch"),
    "_uniform": ("uniform_heads",),
}
_FOUND_IN = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _FOUND_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FOUND_IN[name]}"), name)
