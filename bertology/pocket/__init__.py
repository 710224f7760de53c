"""The pocket world: a small world whose truth is known, its annotated sentences, and a BERT trained on its text.

The sentences are embedded (``_embedded.py``, to be read first); ``grammar`` makes them and the text for pretraining,
``training`` makes the model, ``bilingual`` a second language, and ``_items.py`` cloze items whose answers are known.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bertology._lazy import lazy_attributes
from bertology.pocket._embedded import corpus_by_name, load_corpus
from bertology.pocket._items import AgreementItem, agreement_items, fact_prompts, role_prompts
from bertology.pocket.grammar.texts import pretraining_documents
from bertology.pocket.grammar.world import Fact, candidates, facts

if TYPE_CHECKING:
    from bertology.pocket.training._model import load_settings, recipe_schema
    from bertology.pocket.training._pretrain import pretrain

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = [
    "AgreementItem",
    "Fact",
    "agreement_items",
    "candidates",
    "corpus_by_name",
    "fact_prompts",
    "facts",
    "load_corpus",
    "load_settings",
    "model_folder",
    "pretrain",
    "pretraining_documents",
    "recipe_schema",
    "role_prompts",
]


_MODELS = {"pocket": "model", "bilingual": "bilingual/model", "bilingual-apart": "bilingual/model_apart"}


def model_folder(name: str = "pocket") -> Path:
    """The folder of an embedded model, in Hugging Face layout.

    Args:
        name: ``pocket`` is Pocket BERT. ``bilingual`` has read the pocket world in two languages and represents them in
            one space; ``bilingual-apart``, its control, keeps them apart.

    Raises:
        KeyError: there is no such model.
    """
    return Path(__file__).parent / _MODELS[name]
