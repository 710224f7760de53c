"""Negative numbers of layers count from the last, wherever layers are taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bertology import BertologyError, align, compress, finetune, load_encoder, neighbours, probe
from bertology.activations import read_words
from bertology.attention import head_statistics
from bertology.corpora import Sentence
from bertology.encoders import Intervention, interventions
from bertology.families.request import parse_layers
from bertology.finetuning import FineTuneSettings

IDS = torch.tensor([[6, 9, 12, 30, 8]])
TEXT = "the dogs see a cat"


@pytest.mark.parametrize(
    ("spec", "layers"),
    [("-1", (4,)), ("-3--1", (2, 3, 4)), ("0--2", (0, 1, 2, 3)), ("0,-1", (0, 4)), ([-1, 0], (0, 4)), ("-5", (0,))],
)
def test_on_the_command_line_and_in_files(spec: Any, layers: tuple[int, ...]) -> None:
    assert parse_layers(spec, 4) == layers
    with pytest.raises(BertologyError, match="the model has layers 0"):
        parse_layers("-6", 4)


def test_signals_of_an_encoder(tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert), device="cpu")
    signals: list[Callable[[list[int]], dict[int, torch.Tensor]]] = [
        lambda layers: encoder.hidden_states(IDS, layers=layers),
        lambda layers: encoder.attentions(IDS, layers=layers),
        lambda layers: encoder.masked_logits(IDS, torch.tensor([[0, 2]]), layers=layers),
    ]
    for signal in signals:
        ours, plain = signal([-1, -2]), signal([3, 2])
        assert sorted(ours) == [2, 3]
        assert all(torch.equal(ours[layer], plain[layer]) for layer in plain)
        with pytest.raises(BertologyError, match="layer -9"):
            signal([-9])
    assert torch.equal(read_words(encoder, [TEXT], layers=[-1]), read_words(encoder, [TEXT], layers=[3]))
    sentences = [Sentence.from_words(TEXT.split())]
    assert head_statistics(encoder, sentences, layers=[-1]).layers == (3,)


@pytest.mark.parametrize("site", ["hidden_state", "attention_output"])
def test_interventions(site: Any, tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert), device="cpu")
    runs = [encoder.run(TEXT, interventions=[Intervention(layer, torch.zeros_like, site=site)]) for layer in (-2, 2)]
    assert (runs[0].vectors.values == runs[1].vectors.values).all()
    body, blocks = encoder.model.body, encoder.model.blocks
    with interventions.changing(body, blocks, -1, torch.zeros_like):
        assert not encoder.hidden_states(IDS, layers=[3])[3].any()


def test_results_texts_and_changed_models(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    found = probe("pos", model=tiny_bert, corpus=tiny_corpus, layers=[0, -1], controls="none", progress=False)
    assert found.predictions("pos", -1).equals(found.predictions("pos", 3))
    assert found.per_label("pos", -1).equals(found.per_label("pos", 3))
    assert found.fitted("pos", -1).origin.layer == 3
    with pytest.raises(BertologyError, match="layer -2"):
        found.per_label("pos", -2)  # that is layer 2, which was not read
    assert align("the dog", "a cat", layers=[-1, -2], layer=-2).layer == 3
    near = neighbours(TEXT, "cat", corpus=tiny_corpus, model=tiny_bert, layers=[-1], k=2, progress=False)
    assert near.layers == (3,)
    shorter = compress(tiny_bert, "layers", keep=[1, -1], out=tmp_path / "short", device="cpu", progress=False)
    assert shorter.steps[0]["outcome"]["kept"] == [1, 3]
    with pytest.raises(BertologyError, match="rising order"):
        compress(tiny_bert, "layers", keep=[-1, 1], out=tmp_path / "wrong", device="cpu", progress=False)


def test_what_is_tuned(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    assert FineTuneSettings(layers="frozen:-2", features="layer:-1").layers == "frozen:-2"
    plain: dict[str, Any] = {"task": "pos", "epochs": 1, "device": "cpu", "progress": False, "sentences": 20}
    trained = [
        finetune(tiny_bert, tiny_corpus, out=tmp_path / name, layers=f"frozen:{layer}", **plain).records[1].n_trained
        for name, layer in (("one", -2), ("other", 2))
    ]
    assert trained[0] == trained[1]
    settings = {"layers": "none", **plain}
    heads = [
        finetune(tiny_bert, tiny_corpus, out=tmp_path / f"head{layer}", features=f"layer:{layer}", **settings)
        for layer in (-1, 3)
    ]
    assert heads[0].predictions().equals(heads[1].predictions())
