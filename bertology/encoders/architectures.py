"""Architectures that transformers lacks, in model folders like its own: blocks with bottleneck adapters.

An entry of ``config.json`` names what a model has besides; its weights stand in the file of weights. Plain transformers
leaves them out when it reads such a folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from bertology.encoders._modules import find_blocks
from bertology.encoders.interventions import find_part
from bertology.errors import ModelError

ADAPTER_SIZE = "bertology_adapter_size"
"""The entry of ``config.json`` of a model with bottleneck adapters: their inner size."""
_MARK = ".bottleneck."
_INIT_SD = 1e-2


class AdaptedLinear(nn.Linear):
    """A linear layer followed by a bottleneck adapter (Houlsby et al. 2019, figure 2): h + U · GELU(D · h).

    The weights of the adapter are drawn from a normal distribution of standard deviation 0.01, cut at two of these, and
    its biases are 0, so that it is nearly the identity at first (section 3.6).
    """

    def __init__(self, linear: nn.Linear, size: int) -> None:
        with torch.device("meta"):
            super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None)
        self.weight, self.bias = linear.weight, linear.bias
        down, up = nn.Linear(self.out_features, size), nn.Linear(size, self.out_features)
        for part in (down, up):
            nn.init.trunc_normal_(part.weight, std=_INIT_SD, a=-2 * _INIT_SD, b=2 * _INIT_SD)
            nn.init.zeros_(part.bias)
        self.bottleneck = nn.Sequential(down, nn.GELU(), up)

    def forward(self, input: Tensor) -> Tensor:
        """What the layer and its adapter make of an input ``[…, in]``: ``[…, out]``."""
        hidden = super().forward(input)
        adapted: Tensor = hidden + self.bottleneck(hidden)
        return adapted


def add_adapters(model: Any, size: int) -> None:
    """Put two adapters into every block of a model of transformers, in place, and note their size in its configuration.

    They follow the output of attention and that of the feed-forward part, before it is added to what came in. The
    weights are drawn by the global generator. ModelError in families whose blocks are not known.
    """
    config = model.config
    blocks = find_blocks(model.base_model, n_layers=config.num_hidden_layers, family=config.model_type)
    for block in dict.fromkeys(blocks):
        for site in ("attention_output", "feed_forward_output"):
            linear = find_part(block, config.model_type, site)
            if not isinstance(linear, nn.Linear):
                raise ModelError(f"adapters: the blocks of {config.model_type} models have no linear layers: tune all")
            parent, _, name = next(path for path, one in block.named_modules() if one is linear).rpartition(".")
            adapted = AdaptedLinear(linear, size).to(linear.weight.dtype)
            setattr(block.get_submodule(parent), name, adapted)
    setattr(config, ADAPTER_SIZE, size)


def load_adapters(model: Any, files: Iterable[Path]) -> set[str]:
    """Copy the adapters' weights from safetensors files, of a model with any head; returns the names that they lack."""
    prefix = f"{model.base_model_prefix}."
    wanted = {name.removeprefix(prefix): name for name in model.state_dict() if _MARK in name}
    found = dict[str, Tensor]()
    for path in (path for path in files if path.suffix == ".safetensors"):
        with safe_open(path, "pt") as weights:
            bare = {name.removeprefix(prefix): name for name in weights.keys()}  # noqa: SIM118 - no mapping
            found |= {wanted[name]: weights.get_tensor(bare[name]) for name in wanted.keys() & bare.keys()}
    model.load_state_dict(found, strict=False)
    return set(wanted.values()) - found.keys()
