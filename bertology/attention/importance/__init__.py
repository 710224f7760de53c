"""What a model loses without a head: gates, gradients, and curves of heads taken out, on any scored task.

Importing this package imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

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

__getattr__, __dir__ = lazy_attributes(__name__)

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
