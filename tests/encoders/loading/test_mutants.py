"""Damaged files of a model folder are read or refused in one line, before and after the weights are read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

from bertology.corpora import Sentence
from bertology.encoders import load_encoder, model_fingerprint, model_shape, resolve_model
from bertology.errors import ModelError
from tests.mutations import accepted, mutated_tree, times

COUNT = times(25)
FOLDERS = Callable[[str], Path]


def read(folder: Path) -> None:
    """All that the program asks of a model: what it is, its signals, and a fresh one of its shape."""
    source = resolve_model(str(folder))
    model_shape(source)
    model_fingerprint(source)
    load_encoder(source, device="cpu", init="random")
    own = load_encoder(source, device="cpu")
    pieces = own.tokenize([Sentence.from_words(["The", "quick", "dogs", "jump"])])
    ids = torch.from_numpy(pieces.window(0).astype(np.int64))[None]
    own.hidden_states(ids, torch.ones_like(ids), layers=range(own.n_layers + 1))
    own.attentions(ids, layers=range(1, own.n_layers + 1))
    if own.has_masked_lm_head:
        own.masked_logits(ids, torch.tensor([[0, 1]]), layers=[1, own.n_layers])


@pytest.fixture
def folder(tiny: FOLDERS, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a family's tiny model."""
    return lambda family: Path(shutil.copytree(tiny(family), tmp_path / family))


@pytest.mark.parametrize("family", ["bert", "t5"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json"])
def test_damaged_settings(name: str, family: str, folder: Callable[[str], Path]) -> None:
    own = folder(family)
    tree = json.loads((own / name).read_text())
    read(own)
    outcomes = []
    for mutant in mutated_tree(tree, seed=11, count=COUNT):
        (own / name).write_text(long_numbers(mutant), encoding="utf-8")
        outcomes.append(accepted(lambda: read(own)))
    assert not all(outcomes)


def long_numbers(value: Any) -> str:
    """JSON of numbers of any length, which Python's own refuses to write."""
    import sys

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(value)
    finally:
        sys.set_int_max_str_digits(before)


FIELDS: list[tuple[str, str, Any, str]] = [
    ("config.json", "architectures", [1], r"architectures is .\[1\]., which should be a list of names"),
    ("config.json", "architectures", "BertForMaskedLM", "which should be a list of names"),
    ("config.json", "is_encoder_decoder", 0.5, "is_encoder_decoder is '0.5', which should be true or false"),
    ("config.json", "is_decoder", "no", "which should be true or false"),
    ("config.json", "model_type", ["bert"], "model_type is .* which should be a name"),
    ("config.json", "num_hidden_layers", 2**31, "more than 1,000 layers"),
    ("config.json", "hidden_size", 2**31, "more than 1,000 layers, or than"),
    ("tokenizer_config.json", "model_max_length", 0.5, "model_max_length is '0.5', which should be a number of pieces"),
    ("tokenizer_config.json", "model_max_length", "long", "model_max_length is 'long'"),
    ("tokenizer_config.json", "model_max_length", float("nan"), "model_max_length is 'nan'"),
    ("tokenizer_config.json", "model_max_length", 2, "its windows hold 2 pieces, special tokens included"),
    ("tokenizer_config.json", "pad_token", "\ud800", "not readable as JSON"),
]


@pytest.mark.parametrize(("name", "field", "value", "message"), FIELDS)
def test_fields(name: str, field: str, value: Any, message: str, folder: Callable[[str], Path]) -> None:
    own = folder("bert")
    (own / name).write_text(json.dumps(json.loads((own / name).read_text()) | {field: value}))
    with pytest.raises(ModelError, match=message):
        read(own)


@pytest.fixture
def sharded(folder: Callable[[str], Path]) -> Path:
    """A model in shards, with their index."""
    own = folder("bert")
    model = AutoModelForMaskedLM.from_pretrained(own)
    (own / "model.safetensors").unlink()
    model.save_pretrained(own, max_shard_size="40kB")
    assert (own / "model.safetensors.index.json").is_file()
    return own


@pytest.mark.parametrize(
    "name", [None, 0.5, "", ".", "..", "../outside.safetensors", "/dev/zero", "x" * 100_000, "\x00", ["a"], "config"]
)
def test_an_index_names_files_of_its_folder(name: Any, sharded: Path) -> None:
    shutil.copy(next(sharded.glob("model-*.safetensors")), sharded.parent / "outside.safetensors")
    path = sharded / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"][min(index["weight_map"])] = name
    path.write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"index.json: it names ['\"].*['\"], which is no file of its folder"):
        read(sharded)


def test_damaged_indexes(sharded: Path) -> None:
    path = sharded / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    read(sharded)
    for mutant in mutated_tree(index, seed=12, count=COUNT):
        path.write_text(long_numbers(mutant))
        accepted(lambda: read(sharded))


def test_weights_that_are_read_are_those_that_were_saved(sharded: Path) -> None:
    """What the checks count is what the shards hold."""
    from bertology.encoders.sources import check_safetensors, weight_files

    for path in weight_files(sharded):
        assert check_safetensors(path) == sum(values.numel() for values in load_file(path).values())
