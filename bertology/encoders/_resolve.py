"""From what a person writes (a short name, a folder, a hub id) to a model's files on this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from bertology._names import name_not_found
from bertology.encoders._source import ModelSource
from bertology.errors import ModelError, NameNotFoundError, quoted

POCKET = "pocket"

_KNOWN = MappingProxyType(
    {
        POCKET: "the embedded default: a small BERT trained on the pocket world",
        "bert-base-uncased": "BERT, 12 layers, English, lower case",
        "bert-base-cased": "BERT, 12 layers, English",
        "bert-large-uncased": "BERT, 24 layers, English, lower case",
        "bert-base-multilingual-cased": "mBERT, 12 layers, 104 languages",
        "roberta-base": "RoBERTa, 12 layers, English",
        "xlm-roberta-base": "XLM-R, 12 layers, 100 languages",
        "distilbert-base-uncased": "DistilBERT, 6 layers, English, lower case",
        "albert-base-v2": "ALBERT, 12 layers that share weights, English, lower case",
        "google/electra-base-discriminator": "ELECTRA, 12 layers, English, lower case; no masked-LM head",
        "microsoft/deberta-v3-base": "DeBERTa-v3, 12 layers, English",
        "microsoft/mpnet-base": "MPNet, 12 layers, English, lower case",
        "answerdotai/ModernBERT-base": "ModernBERT, 22 layers, English, 8,192 pieces",
        "google-t5/t5-small": "T5, the encoder's 6 layers, English; hidden states and attention only",
        "facebook/bart-base": "BART, the encoder's 6 layers, English; hidden states and attention only",
        "gpt2": "GPT-2, 12 layers, English, left to right; hidden states and attention only",
    }
)
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_LIST = "`bertology models` lists some"


def known_models() -> Mapping[str, str]:
    """Names that can be given as they are, each with one line; any other hub id or folder does as well."""
    return _KNOWN


def resolve_model(name: str, *, revision: str | None = None) -> ModelSource:
    """Find a model's files, downloading them where the hub has to be asked.

    Args:
        name: ``pocket``, a folder in Hugging Face layout, or a hub id (``bert-base-uncased``, ``org/name``).
        revision: branch, tag or commit of a hub id.

    Raises:
        NameNotFoundError: there is no such model; the nearest known names are told.
        ModelError: the folder is not a model's, or the hub cannot be reached and the model is not in its cache.
    """
    path = Path(name).expanduser()
    if name == POCKET or path.is_dir():
        if revision is not None:
            raise ModelError(
                f"model {name} has no revisions ({quoted(revision)} was asked for): only models of the hub do"
            )
        return ModelSource(name, _pocket_folder() if name == POCKET else path)
    if path.is_file():
        raise ModelError(f"{name} is a file: give the folder it lies in")
    if name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1:
        raise NameNotFoundError(f"no model folder {name}: check the path; {_LIST}")
    if not _HUB_ID.fullmatch(name):
        raise name_not_found("model", name, _KNOWN, remedy=_LIST)
    from bertology.encoders._hub import fetch

    folder, commit = fetch(name, revision=revision, known=name in _KNOWN, unknown=lambda why: _unknown(name, why))
    return ModelSource(name, folder, commit)


def _unknown(name: str, why: str) -> NameNotFoundError:
    return name_not_found("model", name, _KNOWN, remedy=f"{why}; {_LIST}")


def _pocket_folder() -> Path:
    # By name, since the pocket package is built on this one.
    return Path(import_module("bertology.pocket").model_folder())
