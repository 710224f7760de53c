"""Load a model with all that was saved with it: the class that its configuration names, whatever heads it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bertology._languages_apart import read_languages_apart
from bertology._memory import explained_shortage
from bertology.encoders._modules import find_blocks, no_parameters_learn
from bertology.encoders.loading.configuration import load_config
from bertology.encoders.loading.description import MemorySource, ModelSource, model_shape
from bertology.encoders.loading.folder import AGAIN
from bertology.encoders.loading.load import check_files
from bertology.encoders.loading.quiet import one_line, quiet_loading
from bertology.errors import ModelError


@dataclass(frozen=True)
class WholeModel:
    """A model of transformers in float32 on the processor, with every head that it was saved with."""

    model: Any
    """Of the class that ``architectures`` in its configuration names; the bare encoder where that is empty."""
    blocks: list[nn.Module]
    """The blocks of its encoder in the order in which they run; ALBERT's shared block once for every time it runs."""
    family: str
    """The architecture, as ``model_type`` in ``config.json`` names it."""
    absent: frozenset[str]
    """Weights that the files lack and no signal depends on: a pooler under no head. They are random, and not saved."""

    @property
    def body(self) -> Any:
        """The encoder proper."""
        return self.model.base_model


def load_whole(source: ModelSource) -> WholeModel:
    """Load a model with all its heads, to change its weights or its shape and to save it.

    Raises:
        ModelError: it has no files, is an encoder-decoder, is of no class of transformers, or its files are damaged or
            lack weights.
    """
    from transformers import AutoModel

    if isinstance(source, MemorySource):
        raise ModelError(f"model {source.name} is in memory alone, as no files hold it: give a model that was saved")
    shape = model_shape(source)
    needed = check_files(source, "pretrained", torch.float32)
    with quiet_loading(), explained_shortage(f"loading model {source.name}", needed=needed):
        config = load_config(source, False)
        if config.is_encoder_decoder:
            raise ModelError(f"model {source.name} is an encoder-decoder ({shape.family}): give an encoder")
        kind = AutoModel if not config.architectures else _class(source, config.architectures[0])
        with one_line(f"{source.folder}: the weights cannot be loaded", remedy=AGAIN):
            model, report = kind.from_pretrained(
                source.folder, config=config, dtype=torch.float32, output_loading_info=True
            )
    absent = frozenset(report["missing_keys"])
    if lost := sorted(name for name in absent if "pooler." not in name):
        raise ModelError(f"{source.folder}: the weights lack {lost[0]}, which its class {kind.__name__} has; {AGAIN}")
    no_parameters_learn(model)
    read_languages_apart(model.base_model)
    return WholeModel(model, blocks_of(model, shape.n_layers, shape.family), shape.family, absent)


def blocks_of(model: Any, n_layers: int, family: str) -> list[nn.Module]:
    """The blocks of a model of transformers, with or without heads, in the order in which they run."""
    return find_blocks(model.base_model, n_layers=n_layers, family=family)


def _class(source: ModelSource, name: str) -> Any:
    import transformers

    kind = getattr(transformers, name, None)
    if kind is None or not hasattr(kind, "from_pretrained"):
        raise ModelError(
            f"{source.folder / 'config.json'}: {name} is no class of transformers, so it cannot be changed"
        )
    return kind
