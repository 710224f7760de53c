"""Models of the Hugging Face hub: from its cache, or downloaded into it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from bertology.encoders._folder import TOKENIZER_FILES
from bertology.encoders._quiet import quiet
from bertology.errors import BertologyError, ModelError

_DESCRIPTION = ("config.json", *TOKENIZER_FILES, "*.py")
_SAFE = ("model.safetensors", "model.safetensors.index.json", "model-*.safetensors")
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin")
_WAIT_SECONDS = 10.0


def fetch(
    name: str, *, revision: str | None, known: bool, unknown: Callable[[], BertologyError]
) -> tuple[Path, str | None]:
    """The folder of a hub model's files and the commit they are of.

    Weights in safetensors are taken where the model has them, pickled ones only where it has no others. With
    ``HF_HUB_OFFLINE`` set the cache alone is asked.

    Args:
        name: hub id.
        revision: branch, tag or commit; the main branch when left out.
        known: whether the name is one of those listed, so that its absence is a matter of the connection.
        unknown: makes the error for a name that the hub does not have.

    Raises:
        NameNotFoundError: the hub has no such model.
        ModelError: the hub cannot be reached, refuses, or has no such revision.
    """
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        folder = _download(name, revision, (*_DESCRIPTION, *_SAFE))
        if not any(folder.glob("*.safetensors")):
            folder = _download(name, revision, (*_DESCRIPTION, *_PICKLED))
    except GatedRepoError:
        raise ModelError(f"model {name} is gated: accept its terms on the hub and log in (`hf auth login`)") from None
    except RevisionNotFoundError:
        raise ModelError(f"model {name} has no revision {revision!r}: check the branch, tag or commit") from None
    except RepositoryNotFoundError:
        raise unknown() from None
    except Exception as error:
        # httpx, OSError and the hub's own errors alike: whatever kept the files away, the person sees one line.
        if not known and "/" not in name:
            raise unknown() from None
        raise ModelError(_unreachable(name, revision, error)) from None
    return folder, folder.name if folder.parent.name == "snapshots" else None


def _download(name: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    from huggingface_hub import snapshot_download

    with quiet():
        return Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=list(patterns),
                local_files_only=_offline(),
                cache_dir=_cache_folder(),
                endpoint=os.environ.get("HF_ENDPOINT") or None,
                etag_timeout=_WAIT_SECONDS,
            )
        )


def _offline() -> bool:
    # Read when asked, not when the hub's library was imported, so that setting it later still counts.
    return any(
        os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"}
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )


def _cache_folder() -> str | None:
    if cache := os.environ.get("HF_HUB_CACHE"):
        return cache
    home = os.environ.get("HF_HOME")
    return str(Path(home) / "hub") if home else None


def _unreachable(name: str, revision: str | None, error: Exception) -> str:
    at = f" at {revision}" if revision else ""
    if _offline():
        return f"model {name}{at} is not in the hub's cache and HF_HUB_OFFLINE is set: unset it, or give a folder"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
    where = os.environ.get("HF_ENDPOINT") or "the hub"
    return f"cannot get model {name}{at} from {where} ({reason}): check the connection, or give a folder"
