"""Model folders are written in one way, by all that makes models."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from bertology._files import explained_write_errors
from bertology.encoders.loading.folder import tokenizer_files
from bertology.encoders.loading.quiet import quiet_loading


def save_model(model: Any, folder: Path, *, tokenizer: Any, left_out: Collection[str] = ()) -> None:
    """Write a folder in Hugging Face layout: configuration, weights and tokenizer.

    The folder is complete only when this returns: callers write it below a temporary name, or a record after it.

    Args:
        model: a model of transformers, or of peft with adapters, of which the adapters alone are written.
        folder: that is written.
        tokenizer: of transformers; or the folder of another model, whose tokenizer files are copied as they are.
        left_out: names of weights that are not written.

    Raises:
        StoreError: the folder cannot be written, or the disk is full.
    """
    with explained_write_errors(folder), quiet_loading():
        weights = {name: value for name, value in model.state_dict().items() if name not in left_out}
        model.save_pretrained(folder, **({"state_dict": weights} if left_out else {}))
        if isinstance(tokenizer, Path):
            for path in tokenizer_files(tokenizer):
                shutil.copyfile(path, folder / path.name)
        else:
            tokenizer.save_pretrained(folder)
