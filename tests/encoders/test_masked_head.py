"""The masked-LM head in two steps against the head as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from bertology.encoders import Encoder
from bertology.encoders._heads import MaskedHead, head_logits

Encoders = Callable[[str], Encoder]


def test_features_and_projection_make_the_logits(masked_family: str, encoder: Encoders) -> None:
    own = encoder(masked_family)
    hidden = torch.randn(5, own.dim, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        whole = head_logits(own.model.with_head, hidden)
        head = own.masked_head
        features = head.features(hidden)
    assert whole.shape == (5, head.n_entries)
    last: Any = own.model.with_head.get_output_embeddings()  # type: ignore[union-attr]
    assert features.shape == (5, last.in_features)
    torch.testing.assert_close(head.logits(features), whole, rtol=1e-5, atol=1e-5)
    some = torch.tensor([9, 6, 9])
    torch.testing.assert_close(head.logits(features, some), whole[:, some], rtol=1e-5, atol=1e-5)
    assert "forward" not in last.__dict__


class Added(nn.Module):
    """A model whose logits are more than its output embedding's."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.base_model, self.config = model, model.base_model, model.config

    def get_output_embeddings(self) -> Any:
        return self.model.get_output_embeddings()

    def forward(self, **inputs: Any) -> Any:
        output = self.model(**inputs)
        output.logits = output.logits * 2
        return output


class Unused(Added):
    """A model that names an output embedding it does not run."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.spare = nn.Linear(model.config.hidden_size, model.config.vocab_size)

    def get_output_embeddings(self) -> Any:
        return self.spare


@pytest.mark.parametrize("kind", [Added, Unused])
def test_a_head_that_does_not_come_apart_stays_whole(kind: type[Added], encoder: Encoders) -> None:
    own = encoder("bert")
    model = kind(own.model.with_head)
    hidden = torch.randn(4, own.dim, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        head = MaskedHead(model)
        features = head.features(hidden)
        torch.testing.assert_close(features, hidden)
        whole = head_logits(own.model.with_head, hidden) * 2
        torch.testing.assert_close(head.logits(features), whole)
        torch.testing.assert_close(head.logits(features, torch.tensor([7, 8])), whole[:, 7:9])
    assert head.n_entries == whole.shape[1]


def test_a_twin_has_a_head_of_its_own(encoder: Encoders) -> None:
    own = encoder("bert")
    assert own.masked_head is own.masked_head
    assert own.twin().masked_head is not own.masked_head
