"""The pocket world: a small world whose truth is known, its annotated sentences, and a BERT trained on its text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.pocket._agreement import AgreementItem, agreement_items
from bertology.pocket._corpus import generate_corpus
from bertology.pocket._diagnostics import FactPrompt, RolePrompt, fact_prompts, role_prompts
from bertology.pocket._documents import pretraining_documents
from bertology.pocket._packed import load_corpus
from bertology.pocket._world import Fact, candidates, facts

if TYPE_CHECKING:
    from bertology.pocket._pretrain import Pretrained, pretrain, training_record
    from bertology.pocket._settings import PretrainSettings, load_settings

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "AgreementItem",
    "Fact",
    "FactPrompt",
    "PretrainSettings",
    "Pretrained",
    "RolePrompt",
    "agreement_items",
    "candidates",
    "fact_prompts",
    "facts",
    "generate_corpus",
    "load_corpus",
    "load_settings",
    "model_folder",
    "pretrain",
    "pretraining_documents",
    "role_prompts",
    "training_record",
]


def model_folder() -> Path:
    """The folder of Pocket BERT, in Hugging Face layout."""
    return Path(__file__).parent / "model"
