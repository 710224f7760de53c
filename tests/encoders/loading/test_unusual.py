"""Models that are not read as encoders like BERT are: refused in one line, or read as they are."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bertology.encoders import load_encoder, load_reader, load_whole, resolve_model
from bertology.errors import ModelError
from tests.mutations import accepted

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
LOAD: dict[str, Callable[[str], object]] = {
    "encoder": lambda name: load_encoder(name, device="cpu"),
    "reader": lambda name: load_reader(resolve_model(name)),
    "whole": lambda name: load_whole(resolve_model(name)),
}


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path) -> Callable[[Any], Path]:
    """A folder of a model with the tokenizer of the tiny BERT."""

    def make(model: Any) -> Path:
        model.save_pretrained(tmp_path / "model")
        for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
            shutil.copy(tiny_bert / name, tmp_path / "model" / name)
        return tmp_path / "model"

    return make


@pytest.mark.parametrize("how", LOAD)
def test_families_without_a_table_of_subwords(how: str, folder: Callable[[Any], Path]) -> None:
    ibert = transformers.IBertConfig(vocab_size=478, pad_token_id=1, **SIZES)
    with pytest.raises(ModelError, match="ibert models have embeddings of another kind"):
        LOAD[how](str(folder(transformers.IBertForMaskedLM(ibert))))
    canine = transformers.CanineConfig(num_hash_buckets=64, local_transformer_stride=16, **SIZES)
    with pytest.raises(ModelError, match="canine models have no table of subword embeddings"):
        LOAD[how](str(folder(transformers.CanineModel(canine))))


def test_luke_is_read_without_its_head_of_entities(folder: Callable[[Any], Path]) -> None:
    config = transformers.LukeConfig(vocab_size=478, entity_vocab_size=20, entity_emb_size=16, **SIZES)
    encoder = load_encoder(str(folder(transformers.LukeForMaskedLM(config))), device="cpu")
    ids = torch.tensor([[6, 9, 12]])
    assert encoder.hidden_states(ids, layers=[2])[2].shape == (1, 3, 32)
    with pytest.raises(ModelError, match="no masked-LM head"):
        encoder.masked_logits(ids, torch.tensor([[0, 1]]))


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_an_implementation_of_attention_that_is_not_there(key: str, tiny_bert: Path, tmp_path: Path) -> None:
    """It is how a model was trained, and no part of what it computes."""
    model = shutil.copytree(tiny_bert, tmp_path / "flash")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {key: "flash_attention_2"}))
    ids = torch.tensor([[6, 9, 12]])
    states, plain = (
        load_encoder(str(one), device="cpu").hidden_states(ids, layers=[3])[3] for one in (model, tiny_bert)
    )
    assert torch.equal(states, plain)
    load_whole(resolve_model(str(model)))


@pytest.fixture
def in_time() -> Iterator[None]:
    """What waits for a pipe for ever fails."""

    def late(*_: object) -> None:
        raise TimeoutError("waits for a pipe")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("in_time")
def test_no_file_of_a_model_is_a_pipe(tiny_bert: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        model = shutil.copytree(tiny_bert, tmp_path / name.replace(".", "-"))
        (model / name).unlink()
        os.mkfifo(model / name)
        found = accepted(partial(load_encoder, str(model), device="cpu"))
        assert found == (name in ("tokenizer.json", "tokenizer_config.json")), name  # as if they were not there
