"""Ways of changing a model in memory: what runs is the changed model, or it is refused in one line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from torch.nn.utils import parametrizations, prune
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bertology import Encoder, Sentence
from bertology.activations import Recipe, extract
from bertology.corpora import Sentences
from bertology.encoders import load_encoder, model_name, resolve_model
from bertology.geometry import LayerVectors
from bertology.pocket import model_folder

TEXTS = ("The farmers see the dog.", "The guards near the dog open the door.", "She sleeps.")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(model_folder())


@pytest.fixture
def model() -> Any:
    return AutoModelForMaskedLM.from_pretrained(model_folder(), dtype=torch.float32)


class Halved(transformers.BertForMaskedLM):
    """Half the logits."""

    def forward(self, *args: Any, **settings: Any) -> Any:
        output = super().forward(*args, **settings)
        output.logits = output.logits / 2
        return output


class Scaled(nn.Module):
    """An activation of one's own."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return 0.3 * values


def weights(model: Any) -> Any:
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.weight.mul_(1.5)
    return model


def buffers(model: Any) -> Any:
    model.bert.embeddings.position_ids = model.bert.embeddings.position_ids.flip(-1).contiguous()
    return model


def activation(model: Any) -> Any:
    for layer in model.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = nn.Identity()
    return model


def own_activation(model: Any) -> Any:
    model.bert.encoder.layer[2].intermediate.intermediate_act_fn = Scaled()
    return model


def eps(model: Any) -> Any:
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 10.0
    return model


def forward_around(model: Any) -> Any:
    """A forward of one's own, which closes over the old one."""
    layer = model.bert.encoder.layer[1]
    old = layer.forward

    def forward(*args: Any, **settings: Any) -> Any:
        output = old(*args, **settings)
        return (output[0] * 0.5, *output[1:]) if isinstance(output, tuple) else output * 0.5

    layer.forward = forward
    return model


def forward_bound(model: Any) -> Any:
    def forward(self: Any, hidden: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.LayerNorm(2 * self.dense(hidden) + inputs)
        return made

    part = model.bert.encoder.layer[0].output
    part.forward = MethodType(forward, part)
    return model


def forward_partial(model: Any) -> Any:
    part = model.bert.encoder.layer[0].attention.output
    old = part.forward
    part.forward = partial(lambda before, scale, *args, **settings: scale * before(*args, **settings), old, 1.5)
    return model


def subclass(model: Any) -> Any:
    made = Halved(model.config)
    made.load_state_dict(model.state_dict())
    return made


def hooks(model: Any) -> Any:
    def zero(module: nn.Module, args: Any, output: Any) -> Any:
        first = output[0] if isinstance(output, tuple) else output
        first = torch.cat([torch.zeros_like(first[..., :40]), first[..., 40:]], dim=-1)
        return (first, *output[1:]) if isinstance(output, tuple) else first

    model.bert.encoder.layer[2].register_forward_hook(zero)
    return model


def hook_of_some_texts(model: Any) -> Any:
    """A hook that fires where a text has the word *guards* alone."""
    number = AutoTokenizer.from_pretrained(model_folder()).convert_tokens_to_ids("guards")
    seen: dict[str, Any] = {}

    def look(module: nn.Module, args: Any, settings: Any) -> None:
        seen["has"] = (settings["input_ids"] == number).any(1)

    def change(module: nn.Module, args: Any, output: Any) -> Any:
        return torch.where(seen["has"][:, None, None], -output, output)

    model.bert.embeddings.register_forward_pre_hook(look, with_kwargs=True)
    model.bert.embeddings.register_forward_hook(change)
    return model


def head_hook(model: Any) -> Any:
    model.cls.predictions.decoder.register_forward_hook(lambda module, args, output: output.flip(-1))
    return model


def parametrized(model: Any) -> Any:
    parametrizations.orthogonal(model.bert.encoder.layer[3].attention.output.dense)
    return model


def pruned(model: Any) -> Any:
    for layer in model.bert.encoder.layer:
        prune.l1_unstructured(layer.intermediate.dense, "weight", amount=0.6)
    return model


def half_precision(model: Any) -> Any:
    return model.to(torch.bfloat16)


def adapted(model: Any) -> Any:
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of transformers, about what peft calls
        return peft.get_peft_model(model, settings)


def adapted_and_compiled(model: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch, about what its compiler imports
        return torch.compile(nn.DataParallel(adapted(model)))


WAYS = (
    *(weights, buffers, activation, own_activation, eps, forward_around, forward_bound, forward_partial, subclass),
    *(hooks, hook_of_some_texts, head_hook, parametrized, pruned, half_precision, adapted, adapted_and_compiled),
)


def inner(model: Any) -> Any:
    """What runs, without what cannot run here: a compiler."""
    return inner(model._orig_mod) if hasattr(model, "_orig_mod") else model


def plain(model: Any, tokenizer: Any, text: str) -> tuple[list[torch.Tensor], torch.Tensor]:
    """``[piece, dim]`` by layer and ``[piece, entry]`` of a pass of the object alone."""
    model = inner(model).eval()
    with torch.no_grad():
        output = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
    return [state[0].float() for state in output.hidden_states], output.logits[0].float()


@pytest.mark.parametrize("way", WAYS)
def test_vectors_and_predictions_are_those_of_the_object(way: Callable[[Any], Any], model: Any, tokenizer: Any) -> None:
    changed = way(model)
    encoder = Encoder.from_model(changed, tokenizer)
    close = {"rtol": 0.05, "atol": 0.15} if way is half_precision else {"rtol": 1e-4, "atol": 1e-4}
    stock = load_encoder("pocket", device="cpu")
    moved = 0.0
    for text in TEXTS:
        states, logits = plain(changed, tokenizer, text)
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        for layer, state in encoder.hidden_states(ids, layers=range(5)).items():
            torch.testing.assert_close(state[0].float(), states[layer], **close)
        places = torch.tensor([[0, n] for n in range(ids.shape[1])])
        ours = encoder.masked_logits(ids, places)[4].float()
        torch.testing.assert_close(ours, logits, **close)
        moved = max(moved, float((stock.masked_logits(ids, places)[4] - logits).abs().max()))
    assert moved > 1e-2 or way is half_precision  # the way changes something


def words_by_plain_passes(model: Any, tokenizer: Any, words: list[str]) -> list[torch.Tensor]:
    """``[word, dim]`` by layer, the mean of a word's pieces."""
    encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        states = inner(model).eval()(**encoded, output_hidden_states=True).hidden_states
    owners = encoded.word_ids()
    pieces = [[place for place, owner in enumerate(owners) if owner == n] for n in range(len(words))]
    return [torch.stack([state[0, of_word].float().mean(0) for of_word in pieces]) for state in states]


@pytest.mark.parametrize("way", WAYS)
def test_stored_vectors_are_those_of_the_object(way: Callable[[Any], Any], model: Any, tokenizer: Any) -> None:
    changed = way(model)
    texts = [text.rstrip(".").split() for text in TEXTS]
    sentences = Sentences(Sentence.from_words(words) for words in texts)
    name = model_name((changed, tokenizer))
    vectors, prints = {}, {}
    for one in ("pocket", name):
        encoder = load_encoder(resolve_model(one), device="cpu")
        prints[one] = encoder.fingerprint
        recipe = Recipe(encoder.fingerprint, sentences.text_fingerprint, compute_dtype=encoder.dtype)
        entry = extract(lambda encoder=encoder: encoder, sentences, recipe=recipe, layers=range(5))
        vectors[one] = np.zeros((5, sentences.n_words, 128), dtype=np.float32)
        for places, chunk in LayerVectors.stored(entry, np.arange(sentences.n_words), range(5)).chunks():
            vectors[one][:, places] = chunk
    assert prints["pocket"] != prints[name]
    expected = [words_by_plain_passes(changed, tokenizer, words) for words in texts]
    close = {"rtol": 0.05, "atol": 0.15} if way is half_precision else {"rtol": 2e-3, "atol": 4e-3}
    for layer in range(5):
        ours = np.concatenate([states[layer].numpy() for states in expected])
        np.testing.assert_allclose(vectors[name][layer], ours, **close)
