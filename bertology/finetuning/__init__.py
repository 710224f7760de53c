"""Fine-tuning of encoders: labels and numbers of sentences and pairs, labels of words, answers in a text.

:func:`finetune` (``_run.py``, to be read first) trains one model a seed by the Trainer of transformers and writes model
folders. It trains a model of transformers with its own head (:func:`bertology.encoders.loading.load_tunable`), or a
small head on a frozen encoder (``_features.py``). :func:`finetune_grid` (``_grid.py``) does so by a file of runs and
tasks.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.finetuning._batches import TaskBatches, task_batches
    from bertology.finetuning._grid import FineTunedGrid, finetune_grid
    from bertology.finetuning._grid_settings import grid_schema
    from bertology.finetuning._record import read_record
    from bertology.finetuning._result import FineTuned, read_finetuned
    from bertology.finetuning._run import finetune
    from bertology.finetuning._settings import RECIPES, FineTuneSettings
    from bertology.finetuning._tuned import TunedModel, load_tuned

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "RECIPES",
    "FineTuneSettings",
    "FineTuned",
    "FineTunedGrid",
    "TaskBatches",
    "TunedModel",
    "finetune",
    "finetune_grid",
    "grid_schema",
    "load_tuned",
    "read_finetuned",
    "read_record",
    "task_batches",
]
