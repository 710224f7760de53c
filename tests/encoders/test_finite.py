"""NaN or infinity in what leaves an encoder is one error that names the layer, the head and the weights."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertology import probe
from bertology.attention import head_statistics, stream_maps
from bertology.attention._measured import Sharpness, row_entropy
from bertology.attention._viewer import read_attention
from bertology.attention.importance import MaskedWords, head_importance
from bertology.cloze import Prompt, ask, distribution, next_sentence
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder, masked_lm_loss
from bertology.errors import SignalError
from bertology.pocket import load_corpus

QUERY = "bert.encoder.layer.1.attention.self.query.weight"
VALUE = "bert.encoder.layer.0.attention.self.value.bias"
BIAS = "cls.predictions.bias"
TEXT = "The farmer sees the [MASK]."


def damaged(folder: Path, into: Path, name: str, place: tuple[int, ...] | slice, value: float) -> Path:
    """A copy of a model's folder with one weight replaced."""
    shutil.copytree(folder, into)
    weights = load_file(into / "model.safetensors")
    weights[name][place] = value
    save_file(weights, into / "model.safetensors", metadata={"format": "pt"})
    return into


DAMAGE: dict[str, tuple[tuple[int, ...], float]] = {
    QUERY: ((2 * 8 + 5, 0), math.nan),  # of L2H3
    VALUE: ((1 * 8 + 3,), math.inf),  # of L1H2
    BIAS: ((40,), math.inf),
}


@pytest.fixture(scope="module")
def models(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By weight: a model in which it is damaged."""
    root = tmp_path_factory.mktemp("damaged")
    return {name: damaged(tiny_bert, root / name, name, *damage) for name, damage in DAMAGE.items()}


@pytest.fixture(scope="module")
def sentences() -> Sentences:
    return load_corpus()["test"][:12]


PROMPTS = (Prompt(TEXT, candidates=("dog", "cat")),)
# What reads a damaged model, where the damage first shows and which weights are named.
READERS: dict[str, tuple[Callable[[Encoder, Sentences], object], str, str]] = {
    "maps": (lambda own, text: stream_maps(own, text, [Sharpness]), "attention maps of L2H3", QUERY),
    "statistics": (lambda own, text: head_statistics(own, text), "attention maps of L2H3", QUERY),
    "view": (lambda own, text: read_attention(own, [text[0]]), "attention maps of L2H3", QUERY),
    "importance": (
        lambda own, text: head_importance(MaskedWords(own, text)),
        "hidden states of layer 3",
        QUERY,
    ),
    "loss": (lambda own, text: masked_lm_loss(own, text), "hidden states of layer 3", QUERY),
    "norms": (
        lambda own, text: stream_maps(own, text, [Sharpness], norms=True),
        "norms of transformed values of L1H2",
        VALUE,
    ),
    "ask": (lambda own, text: ask(own, PROMPTS), "masked-LM logits of layer 3", BIAS),
    "logits": (
        lambda own, text: ask(own, PROMPTS, normalized=False, top=3),
        "masked-LM logits of layer 3",
        BIAS,
    ),
    "lens": (lambda own, text: ask(own, PROMPTS, layers=[1, 2]), "hidden states of layer 2", QUERY),
    "distribution": (lambda own, text: distribution(own, PROMPTS[0]), "masked-LM logits of layer 3", BIAS),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_refuse_what_is_not_finite(name: str, tiny_bert: Path, sentences: Sentences) -> None:
    read, where, weight = READERS[name]
    own = load_encoder(str(tiny_bert), device="cpu", attention="eager")
    place, value = DAMAGE[weight]
    own.model.outermost.get_parameter(weight)[place] = value
    with pytest.raises(SignalError) as refused:
        read(own, sentences)
    message = str(refused.value)
    assert f"{tiny_bert}: the {where} are not finite" in message
    assert weight in message
    assert "--store-dtype" not in message


TASKS = {"pos": VALUE, "structural_depth": QUERY, "head_statistics": QUERY, "head_syntax": QUERY} | {
    "head_importance": QUERY,
    "lama": BIAS,
    "minimal_pairs": BIAS,
}


@pytest.mark.parametrize("task", TASKS)
def test_a_probe_of_each_family(task: str, models: dict[str, Path], tiny_corpus: Path) -> None:
    corpus = "pocket" if TASKS[task] == BIAS else str(tiny_corpus)
    more: dict[str, Any] = {"max_items": 5} if corpus == "pocket" else {}
    shown = r"(maps of L2H3|hidden states of layer 1|logits of layer 3) are not finite; its weights hold NaN or inf"
    with pytest.raises(SignalError, match=shown) as refused:
        probe(task, model=str(models[TASKS[task]]), corpus=corpus, controls="none", **more)
    # Vectors stored in another type would be NaN as well.
    assert "--store-dtype" not in str(refused.value)


def test_sentences_that_follow(tiny_bert: Path) -> None:
    own = load_encoder(str(tiny_bert), init="random", device="cpu")
    own.next_sentence_head.modules["classifier"].seq_relationship.bias.data[1] = math.nan
    with pytest.raises(SignalError, match="next-sentence logits of layer 3 are not finite"):
        next_sentence(own, [("The dog sleeps.", "The cat sees it.")])


def test_too_large_for_half_precision(tiny_bert: Path, tmp_path: Path) -> None:
    """Weights that are finite, and an output that half precision cannot hold: the remedy is another type."""
    name = "bert.encoder.layer.0.output.LayerNorm.weight"
    folder = damaged(tiny_bert, tmp_path / "large", name, slice(None), 60_000.0)
    ids = torch.tensor([[2, 9, 10, 3]])
    assert load_encoder(str(folder), device="cpu").hidden_states(ids, layers=[1])[1].max() > 60_000
    with pytest.raises(
        SignalError, match=r"layer \d are not finite; its weights are, so .* float16: .*--dtype float32"
    ):
        load_encoder(str(folder), device="cpu", dtype="float16").hidden_states(ids, layers=[0, 1, 2, 3])


def test_large_values_that_cancel_or_add_up_are_finite(tiny_bert: Path) -> None:
    own = load_encoder(str(tiny_bert), device="cpu")
    own.check_finite("hidden states", {1: torch.full((2, 3, 4), 3e38)})
    own.check_finite("hidden states", {1: torch.full((2, 3, 4), 60_000.0, dtype=torch.float16)})
    with pytest.raises(SignalError, match="layer 2"):
        own.check_finite("hidden states", {1: torch.zeros(2, 3, 4), 2: torch.tensor([[[math.inf, -math.inf]]])})


def test_padding_is_finite_in_every_family(family: str, encoder: Callable[[str], Encoder]) -> None:
    """Signals of a batch are checked as a whole, padding included."""
    own = encoder(family)
    ids = torch.full((2, 40), own.pad_id)
    ids[0], ids[1, :3] = torch.arange(5, 45), torch.tensor([5, 6, 7])
    mask = torch.zeros_like(ids)
    mask[0], mask[1, :3] = 1, 1
    for layer, states in own.hidden_states(ids, mask, layers=range(own.n_layers + 1)).items():
        assert states.isfinite().all(), layer
    for layer, maps in own.attentions(ids, mask, layers=range(1, own.n_layers + 1)).items():
        assert maps.isfinite().all(), layer


def test_entropy_of_nan_is_nan() -> None:
    rows = torch.tensor([[0.5, 0.5], [0.0, 0.0], [math.nan, 1.0]])
    found = row_entropy(rows)
    assert found[:2].tolist() == pytest.approx([math.log(2), 0])
    assert found[2].isnan()
