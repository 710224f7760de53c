"""A tiny BERT that reads the pocket world, and its attention taken apart by hand."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bertology.attention.importance import Choice, MaskedWords, head_importance, single_heads
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.pocket import load_corpus as load_pocket

ChangeMaps = Callable[[int, Tensor, Tensor | None], Tensor]
"""From a layer (from 1), its maps and its additive mask to other maps."""


@pytest.fixture
def own(tiny_bert: Path) -> Encoder:
    """Loaded anew for every test, so that weights can be changed."""
    return load_encoder(str(tiny_bert), device="cpu")


@pytest.fixture(scope="session")
def sentences() -> Sentences:
    return load_pocket()["test"][:24]


@pytest.fixture
def task(own: Encoder, sentences: Sentences) -> MaskedWords:
    return MaskedWords(own, sentences, share=0.3, seed=2)


@pytest.fixture
def by(task: MaskedWords) -> Choice:
    return Choice(head_importance(task), single_heads(task)[0])


@pytest.fixture(scope="session")
def changed_maps() -> Callable[[Encoder, ChangeMaps], contextlib.AbstractContextManager[None]]:
    """Let a BERT compute with other attention maps than its own: written anew from softmax to weighted sum."""
    from transformers.models.bert import modeling_bert

    @contextlib.contextmanager
    def changing(encoder: Encoder, change: ChangeMaps) -> Iterator[None]:
        def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **_: Any) -> Any:
            scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
            maps = (scores if mask is None else scores + mask).softmax(-1)
            maps = change(module.layer_idx + 1, maps, mask)
            return (maps @ value).transpose(1, 2), maps

        body: Any = encoder.model.body
        before, own_way = body.config._attn_implementation, modeling_bert.eager_attention_forward
        body.set_attn_implementation("eager")
        modeling_bert.eager_attention_forward = attend  # type: ignore[assignment]
        # A block that is hooked runs as it is, and not only at the places that are read.
        hook = encoder.model.blocks[-1].register_forward_hook(lambda *_: None)
        try:
            yield
        finally:
            hook.remove()
            modeling_bert.eager_attention_forward = own_way
            body.set_attn_implementation(before)

    return changing


@pytest.fixture(scope="session")
def total_loss() -> Callable[[MaskedWords], float]:
    """The sum over texts of the mean loss of a text's items, in bits."""

    def measure(task: MaskedWords) -> float:
        total = 0.0
        for batch in task.batches:
            answers = task.ask(task.encoder, batch)
            nats, rows = answers.loss.double(), answers.texts
            total += sum(float(nats[rows == row].mean()) for row in set(rows.tolist()))
        return total / float(torch.tensor(2.0).log())

    return measure
