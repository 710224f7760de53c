"""Fine-tuning of encoders: labels and numbers of sentences and pairs, labels of words, answers in a text.

:func:`finetune` (``_run.py``, to be read first) trains one model a seed by the Trainer of transformers and writes model
folders; :func:`finetune_grid` does so by a file of runs and tasks. What is trained (``_training.py``) is a model of
transformers with its own head (:func:`bertology.encoders.load_tunable`), or a small head on a frozen encoder.
"""

from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes

if TYPE_CHECKING:
    from bertology.finetuning._result import (
        FineTuned,
        TunedModel,
        load_tuned,
        read_finetuned,
        read_record,
    )
    from bertology.finetuning._run import FineTunedGrid, finetune, finetune_grid
    from bertology.finetuning._settings import FineTuneSettings, grid_schema

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "FineTuneSettings",
    "FineTuned",
    "FineTunedGrid",
    "TunedModel",
    "finetune",
    "finetune_grid",
    "grid_schema",
    "load_tuned",
    "read_finetuned",
    "read_record",
]
