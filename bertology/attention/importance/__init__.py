"""What a model loses without a head: gates, gradients, and curves of heads taken out, on any scored task.

``_tasks.py`` has the contract of a task, and two tasks; ``_gradients.py`` and ``_leave_out.py`` measure heads on them.
Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.attention.importance._gradients import attention_gradients, head_importance
    from bertology.attention.importance._leave_out import leave_one_layer_out, leave_one_out, pruning_curves
    from bertology.attention.importance._tasks import MaskedWords, SequenceClassifier

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "MaskedWords",
    "SequenceClassifier",
    "attention_gradients",
    "head_importance",
    "leave_one_layer_out",
    "leave_one_out",
    "pruning_curves",
]
