"""What a model is before it is loaded: where its files are, and its shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertology._names import folder_name

Init = Literal["pretrained", "random", "random_blocks"]
"""Weights of a model: as they were trained; all drawn anew; or fresh blocks over the trained embeddings."""


@dataclass(frozen=True)
class ModelSource:
    """A model's files on this machine."""

    name: str
    """As the person wrote it."""
    folder: Path
    """A folder in Hugging Face layout: ``config.json``, tokenizer files, weights."""
    revision: str | None = None
    """The commit it was taken from, for a model of the hub."""

    @property
    def title(self) -> str:
        """What people read: a folder's own name."""
        return folder_name(self.name)


@dataclass(frozen=True)
class ModelShape:
    """The size of an encoder, as its configuration tells it."""

    n_layers: int
    """Blocks; hidden states are numbered 0 (embeddings) to ``n_layers``."""
    dim: int
    """Width of a hidden state."""
    n_heads: int
    """Attention heads in each block."""
    family: str
    """The architecture, as ``model_type`` in ``config.json`` names it."""
