"""The Python code that comes with a model and runs where a person trusts it. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bertology.encoders.loading.folder import read_config, read_model_json
from bertology.encoders.loading.hub import download, is_offline, reason_of
from bertology.errors import ModelError

_ELSEWHERE = "--"
"""Stands between a repository and a class in it, where code lies in another repository than the model."""


def code_files(folder: Path) -> list[Path]:
    """The Python files of a model whose configuration or tokenizer names classes in them; none for others.

    Raises:
        ModelError: the code lies in another repository of the hub that cannot be had.
    """
    names = list(_names(folder))
    files = sorted(folder.glob("*.py")) if names else []
    for repository in sorted({name.partition(_ELSEWHERE)[0] for name in names if _ELSEWHERE in name}):
        try:
            files += sorted(download(repository, None, ("*.py",), offline=is_offline()).glob("*.py"))
        except Exception as error:
            # Errors of the connection and of the hub itself, and names that are no hub ids: each becomes one line.
            raise ModelError(
                f"{folder}: cannot get its code from {repository} ({reason_of(error)}): check the connection"
            ) from None
    return files


def _names(folder: Path) -> Iterator[str]:
    """Classes in code of the model that its files name, such as ``modeling.MyModel``."""
    tokenizer = folder / "tokenizer_config.json"
    for settings in (read_config(folder), read_model_json(tokenizer) if tokenizer.is_file() else {}):
        classes = settings.get("auto_map") if isinstance(settings, dict) else None
        for value in classes.values() if isinstance(classes, dict) else [classes]:
            yield from (name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str))
