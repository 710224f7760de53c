"""``bertology doctor``: what works on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from bertology._registry import Registered
from bertology.errors import BertologyError

_CORE = ("torch", "transformers", "tokenizers", "scikit-learn", "pandas", "pyarrow", "matplotlib", "spacy")
_OPTIONAL = {
    "h5py": "reads and writes NeuroX files (pip install 'bertology[hdf5]')",
    "distributed": "runs experiments on a cluster (pip install 'bertology[distributed]')",
    "accelerate": "fine-tunes models (pip install 'bertology[finetune]')",
    "peft": "fine-tunes adapters (pip install 'bertology[peft]')",
    "dask-jobqueue": "submits Slurm jobs for it (pip install 'bertology[distributed]')",
}


def doctor() -> None:
    """Say what works on this machine; exit status 1 if the main job does not."""
    from bertology.probing import registered_probes
    from bertology.readouts import registered_readouts

    checks: dict[str, Callable[[], str]] = {
        "versions": lambda: ", ".join(f"{name} {version(name)}" for name in ("bertology", *_CORE)),
        "optional": lambda: ", ".join(_optional(name, use) for name, use in _OPTIONAL.items()),
        "compute": _compute,
        "cache": _cache,
        "tasks": lambda: _loaded(registered_probes()),
        "readouts": lambda: _loaded(registered_readouts()),
        "model pocket": _pocket_model,
        "corpus pocket": _pocket_corpus,
        "hub": _hub,
        "spaCy pipelines": _spacy,
    }
    failed = False
    for name, check in checks.items():
        try:
            typer.echo(f"ok    {name}: {check()}")
        except (BertologyError, ImportError, PackageNotFoundError, OSError) as error:
            failed = True
            typer.echo(f"FAIL  {name}: {error}")
    raise typer.Exit(1 if failed else 0)


def _optional(name: str, use: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}, which {use}"


def _compute() -> str:
    import torch

    from bertology._workers import bfloat16_is_fast, choose_device

    device = choose_device("auto")
    speed = "fast" if bfloat16_is_fast(device) else "slow here, stay with float32"
    return f"device {device}, {torch.get_num_threads()} threads of {os.cpu_count()} processors; bfloat16 is {speed}"


def _cache() -> str:
    from bertology._files import cache_folder, explained_write_errors
    from bertology._memory import size_in_words

    folder = cache_folder()
    with explained_write_errors(folder, remedy="name another folder in BERTOLOGY_CACHE"):
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".doctor"
        probe.write_bytes(b"")
        probe.unlink()
    return f"{folder}, {size_in_words(shutil.disk_usage(folder).free)} free"


def _loaded(components: Mapping[str, Registered[Any]]) -> str:
    for component in components.values():
        component.load()
    return ", ".join(sorted(components))


def _pocket_model() -> str:
    from bertology.encoders import model_fingerprint, model_shape, resolve_model

    source = resolve_model("pocket")
    shape = model_shape(source)
    fingerprint = model_fingerprint(source)[:12]
    return f"{shape.n_layers} layers of {shape.dim}, {shape.n_heads} heads, fingerprint {fingerprint}"


def _pocket_corpus() -> str:
    from bertology.corpora import load_corpus

    splits = load_corpus("pocket").splits
    return ", ".join(f"{name} {len(sentences):,} sentences" for name, sentences in splits.items())


def _hub() -> str:
    from huggingface_hub.constants import HF_HUB_CACHE

    offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    state = "offline by HF_HUB_OFFLINE" if offline else "asked when a model is not in its cache"
    return f"{state}, cache {HF_HUB_CACHE}"


def _spacy() -> str:
    from spacy.util import get_installed_models

    return ", ".join(get_installed_models()) or "none (needed only to label raw text: python -m spacy download …)"
