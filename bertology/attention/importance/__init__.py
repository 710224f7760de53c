"""What a model loses without a head: gates, gradients, and curves of heads taken out, on any scored task.

``_task.py`` is the contract of a task and ``_tasks.py`` has two; ``_gradients.py`` and ``_leave_out.py`` measure heads
on them. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.attention.importance._gradients import attention_gradients, head_importance
    from bertology.attention.importance._leave_out import leave_one_layer_out, leave_one_out, pruning_curves
    from bertology.attention.importance._task import Answers, ScoredTask, TaskBatch
    from bertology.attention.importance._tasks import MaskedWords, SequenceClassifier

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "Answers",
    "MaskedWords",
    "ScoredTask",
    "SequenceClassifier",
    "TaskBatch",
    "attention_gradients",
    "head_importance",
    "leave_one_layer_out",
    "leave_one_out",
    "pruning_curves",
]
