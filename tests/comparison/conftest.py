"""Copies of the tiny model in which something known was changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer


@pytest.fixture
def changed_copy(tiny_bert: Path, tmp_path: Path) -> Callable[[Callable[[Any], object]], Path]:
    """Writes a copy of the tiny model after a function of its weights in memory."""

    def copy(change: Callable[[Any], object], name: str = "changed") -> Path:
        model, folder = AutoModelForMaskedLM.from_pretrained(tiny_bert), tmp_path / name
        with torch.no_grad():
            change(model)
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder)
        return folder

    return copy


def add_noise(model: Any, layer: int, size: float) -> None:
    """Gaussian noise on the weights of one layer, of a known length relative to that of each tensor."""
    generator = torch.Generator().manual_seed(3)
    for value in model.bert.encoder.layer[layer - 1].parameters():
        noise = torch.randn(value.shape, generator=generator)
        value += size * noise * value.norm() / noise.norm()
