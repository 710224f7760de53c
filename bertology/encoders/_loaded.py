"""The modules of a loaded model."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from bertology.errors import ModelError


@dataclass(frozen=True)
class LoadedModel:
    """The modules of a loaded model."""

    body: nn.Module
    """The encoder proper: its forward pass runs every block once."""
    blocks: list[nn.Module]
    """Its blocks in the order they run."""
    with_head: Any | None
    """The model with its masked-LM head around the body; ``None`` for a model without one."""
    classifier: Any | None = None
    """The model with its classifier of texts around the body, where it was loaded with one."""

    @property
    def outermost(self) -> nn.Module:
        """The body with the head or classifier around it, where there is one."""
        outermost: nn.Module = self.with_head or self.classifier or self.body
        return outermost

    def twin(self) -> LoadedModel:
        """Modules of their own around the same weights, so that two threads can run them side by side.

        What runs is told by hooks, and a module's hooks are everyone's.
        """
        outermost = self.outermost
        shared = {id(tensor): tensor for tensor in (*outermost.parameters(), *outermost.buffers())}
        return copy.deepcopy(self, shared)

    @contextlib.contextmanager
    def plain_attention(self, name: str) -> Iterator[None]:
        """The plain ("eager") attention, which gives maps, for the length of the block.

        Args:
            name: what the model is called.

        Raises:
            ModelError: it has none.
        """
        body: Any = self.body
        before = body.config._attn_implementation
        try:
            body.set_attn_implementation("eager")
        except (ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[0][:120]
            raise ModelError(f"model {name} has no plain attention, so gives no maps ({reason})") from None
        try:
            yield
        finally:
            body.set_attn_implementation(before)


def no_parameters_learn(module: nn.Module) -> None:
    """Evaluation mode, and no gradients for the weights."""
    module.eval()
    for parameter in module.parameters():
        parameter.requires_grad_(False)
