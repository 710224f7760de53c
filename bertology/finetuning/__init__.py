"""Fine-tuning of encoders: labels and numbers of sentences and pairs, labels of words, answers, choices.

:func:`finetune` (``_run.py``, to be read first) trains one model a seed by the Trainer of transformers and writes model
folders; :func:`finetune_grid` does so by a file of runs and tasks. What is trained (``_training.py``) is a model of
transformers with its own head (:func:`bertology.encoders.loading.load_tunable`), or a small head on a frozen encoder.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.finetuning._items import output_of as output_of
    from bertology.finetuning._items import questions_of as questions_of
    from bertology.finetuning._run import FineTuned, FineTunedGrid, finetune, finetune_grid
    from bertology.finetuning._run import TunedModel as TunedModel
    from bertology.finetuning._run import load_tuned as load_tuned
    from bertology.finetuning._run import read_finetuned as read_finetuned
    from bertology.finetuning._run import read_record as read_record
    from bertology.finetuning._run import task_of as task_of
    from bertology.finetuning._settings import FineTuneSettings
    from bertology.finetuning._settings import grid_schema as grid_schema
    from bertology.finetuning.losses import HeadTask as HeadTask
    from bertology.finetuning.losses import check_task as check_task
    from bertology.finetuning.losses import head_files as head_files

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = ["FineTuneSettings", "FineTuned", "FineTunedGrid", "finetune", "finetune_grid"]
