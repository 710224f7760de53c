"""From a name (``pocket``, a folder, an id of the Hugging Face hub) to a model's files on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from bertology._names import name_not_found
from bertology.encoders.loading.description import ModelSource
from bertology.encoders.loading.folder import TOKENIZER_FILES
from bertology.encoders.loading.hub import WAIT_SECONDS, download, hub_cache, is_offline, reason_of
from bertology.encoders.loading.wrapped import ADAPTER, ADAPTER_WEIGHTS, unwrapped
from bertology.errors import ModelError, NameNotFoundError, quoted

POCKET = "pocket"
_EMBEDDED = (POCKET, "bilingual", "bilingual-apart")

_KNOWN = MappingProxyType(
    {
        POCKET: "the embedded default: a small BERT trained on the pocket world",
        "bilingual": "embedded: a small BERT that reads both languages of the pocket world in one space",
        "bilingual-apart": "embedded: its control, which reads both languages apart",
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
        "gpt2": "GPT-2, 12 layers, English, left to right; hidden states, attention and surprisal",
    }
)
_KEPT: dict[str, ModelSource] = {}
_IN_MEMORY = re.compile(r"[\w.-]+(/[\w.-]+)?( \(in memory( \d+)?\))?", re.ASCII)
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_LIST = "`bertology models` lists some"
_DESCRIPTION = ("config.json", ADAPTER, *TOKENIZER_FILES, "*.py")
_SAFE = ("model.safetensors", ADAPTER_WEIGHTS[0], "model.safetensors.index.json", "model-*.safetensors")
_PICKLED = ("pytorch_model.bin", ADAPTER_WEIGHTS[1], "pytorch_model.bin.index.json", "pytorch_model-*.bin")


def known_models() -> Mapping[str, str]:
    """Some names of models, each with one line; any other hub id or folder can be given as well."""
    return _KNOWN


def resolve_model(name: str, *, revision: str | None = None) -> ModelSource:
    """Find the files of a model, or download them from the hub.

    Args:
        name: an embedded model (``pocket``), a folder in Hugging Face layout, or a hub id (``bert-base-uncased``,
            ``org/name``).
        revision: branch, tag or commit of a hub id.

    Raises:
        NameNotFoundError: there is no such model; the message names the nearest known ones.
        ModelError: the folder is not that of a model, or the hub cannot be reached and the model is not in its cache.
    """
    if (kept := _KEPT.get(name)) is not None:
        return kept
    path = Path(name).expanduser()
    if name in _EMBEDDED or path.is_dir():
        if revision is not None:
            raise ModelError(
                f"model {name} has no revisions ({quoted(revision)} was asked for): only models of the hub do"
            )
        # By name, so that no model but the embedded ones needs that package.
        if name in _EMBEDDED:
            return ModelSource(name, import_module("bertology.pocket").model_folder(name))
        return ModelSource(name, unwrapped(path, _base))
    if path.is_file():
        raise ModelError(f"{name} is a file: give the folder it lies in")
    if name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1:
        raise NameNotFoundError(f"no model folder {name}: check the path; {_LIST}")
    if not _HUB_ID.fullmatch(name):
        raise name_not_found("model", name, _KNOWN, remedy=_LIST)
    folder = _fetch(name, revision)
    return ModelSource(name, unwrapped(folder, _base), folder.name if folder.parent.name == "snapshots" else None)


def _base(name: str, revision: str | None) -> ModelSource:
    """The model that adapters belong to."""
    return resolve_model(name, revision=None if Path(name).expanduser().is_dir() else revision)


def keep_source(source: ModelSource) -> None:
    """Let :func:`resolve_model` find a model in memory by its name, which must be no other's, in this process."""
    if source.name in _EMBEDDED or not _IN_MEMORY.fullmatch(source.name) or Path(source.name).is_dir():
        raise ModelError(f"a model in memory cannot be called {quoted(source.name)}: give letters, digits, - and _")
    _KEPT[source.name] = source


def held_dtype(name: str) -> str | None:
    """The type in which a model computes that is known by this name in memory; None for models of files."""
    return getattr(_KEPT.get(name), "dtype", None)


def _unknown(name: str, why: str) -> NameNotFoundError:
    return name_not_found("model", name, _KNOWN, remedy=f"{why}; {_LIST}")


def _fetch(name: str, revision: str | None) -> Path:
    """The folder of the files of a hub model: weights in safetensors, pickled ones where there are no others."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        offline = is_offline() or not _answers(name, revision)
        folder = download(name, revision, (*_DESCRIPTION, *_SAFE), offline=offline)
        if not any(folder.glob("*.safetensors")):
            folder = download(name, revision, (*_DESCRIPTION, *_PICKLED), offline=offline)
    except GatedRepoError:
        raise ModelError(f"model {name} is gated: accept its terms on the hub and log in (`hf auth login`)") from None
    except RevisionNotFoundError:
        raise ModelError(f"model {name} has no revision {revision!r}: check the branch, tag or commit") from None
    except RepositoryNotFoundError:
        raise _unknown(name, "the hub has none of that name that you may read") from None
    except Exception as error:
        # Errors of the connection, of files and of the hub itself: each becomes one line.
        if name not in _KNOWN and "/" not in name:
            raise _unknown(name, f"the hub cannot be asked for others ({reason_of(error)})") from None
        at = f" at {revision}" if revision else ""
        place = os.environ.get("HF_ENDPOINT") or "the hub"
        raise ModelError(
            f"cannot get model {name}{at} from {place} ({reason_of(error)}): check the connection, or give a folder"
        ) from None
    return folder


def _answers(name: str, revision: str | None) -> bool:
    """Whether the hub answers in time; false where it does not but the cache has the model.

    Tried first because the download itself would wait for a silent hub without end.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None).model_info(name, revision=revision, timeout=WAIT_SECONDS)
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise
    except Exception:
        # No answer, or an error of the hub: the cache will do; without it, this is the error to report.
        cached = (try_to_load_from_cache(name, file, hub_cache(), revision) for file in ("config.json", ADAPTER))
        if not any(isinstance(path, str) for path in cached):
            raise
        return False
    return True
