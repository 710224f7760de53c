"""Models in memory and modules of one's own."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining

from bertology import Corpus, Encoder, load_corpus, load_encoder, probe
from bertology.encoders import ModuleAdapter, model_fingerprint, model_name, resolve_model
from bertology.encoders import sources as resolve
from bertology.errors import BertologyError, ModelError
from bertology.pocket import model_folder
from bertology.runner import rerun


@pytest.fixture
def model() -> Any:
    return AutoModelForMaskedLM.from_pretrained(model_folder())


@pytest.fixture
def changed(model: Any) -> Any:
    with torch.no_grad():
        model.get_input_embeddings().weight[7] += 1
    return model


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    pocket = load_corpus("pocket")
    return replace(pocket, splits={name: pocket[name][:40] for name in pocket.splits})


def test_a_model_as_it_was_loaded_is_its_folder(model: Any, tokenizer: Any) -> None:
    # Training mode and another implementation of attention change nothing of what it is.
    whole = AutoModelForPreTraining.from_pretrained(model_folder(), attn_implementation="eager").train()
    assert model_name(SimpleNamespace(model=whole, tokenizer=tokenizer)) == str(model_folder())
    assert all(module.training for module in whole.modules())
    # One that lacks a head of these files is another model, so that they do not answer for it.
    for part in (model, AutoModel.from_pretrained(model_folder())):
        assert Path(model_name((part, tokenizer))).name == "model (in memory)"


def test_a_changed_model_is_kept_by_its_content(changed: Any, tokenizer: Any, own_cache: Path, tmp_path: Path) -> None:
    name = model_name((changed, tokenizer))
    assert name == model_name((changed, tokenizer))
    assert Path(name).is_relative_to(own_cache / "models")
    assert not list((own_cache / "models").glob(".*"))
    assert Path(model_name((changed, tokenizer), name="my model")).name == "my-model"
    changed.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    prints = [model_fingerprint(resolve_model(folder)) for folder in (name, str(tmp_path / "saved"))]
    assert prints[0] == prints[1] != load_encoder("pocket").fingerprint


def test_a_pooler_that_is_drawn_anew_makes_no_other_model(tokenizer: Any, tmp_path: Path) -> None:
    folder = tmp_path / "without-pooler"
    model = AutoModel.from_pretrained(model_folder())
    model.save_pretrained(folder, state_dict={key: w for key, w in model.state_dict().items() if "pooler" not in key})
    tokenizer.save_pretrained(folder)
    names, changed = set(), set()
    for _ in range(2):
        loaded = AutoModel.from_pretrained(folder)
        names.add(model_name((loaded, tokenizer)))
        with torch.no_grad():
            loaded.get_input_embeddings().weight[7] += 1
        changed.add(model_name((loaded, tokenizer)))
    assert names == {str(folder)}
    assert len(changed) == 1


def test_a_probe_of_a_model_in_memory_is_that_of_its_files(changed: Any, tokenizer: Any, corpus: Corpus) -> None:
    settings: dict[str, Any] = {"corpus": corpus, "controls": (), "layers": "1", "progress": False}
    in_memory = probe("pos", model=(changed, tokenizer), **settings).to_pandas()
    by_name = probe("pos", model=model_name((changed, tokenizer)), **settings).to_pandas()
    assert list(in_memory.cell_id) == list(by_name.cell_id)
    assert list(in_memory.model) == list(by_name.model)
    encoder = load_encoder("pocket", device="cpu")
    with_encoder = probe("pos", model=encoder, **settings).to_pandas()
    assert list(with_encoder.cell_id) == list(probe("pos", **settings).to_pandas().cell_id) != list(by_name.cell_id)


def test_an_encoder_is_known_by_its_name_until_its_weights_are_changed() -> None:
    encoder = load_encoder("pocket", device="cpu")
    assert model_name(encoder) == "pocket"
    encoder.model.outermost.get_input_embeddings().weight[7] += 1
    assert Path(model_name(encoder)).is_dir()
    assert model_name(encoder) != str(model_folder())
    with pytest.raises(ModelError, match="init='random'"):
        model_name(load_encoder("pocket", init="random", device="cpu"))
    with encoder.gated_heads({(1, 1): 0.0}), pytest.raises(ModelError, match="gated"):
        model_name(encoder)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model, tokenizer: model, "a BertForMaskedLM is no name, and has no tokenizer; give the model and its"),
        (lambda model, tokenizer: (model, None), "gives no character offsets; give a fast one"),
        (lambda model, tokenizer: (nn.Linear(2, 2), tokenizer), "a Linear is no model of transformers"),
        (lambda model, tokenizer: (model.to("meta"), tokenizer), "meta device; load them first"),
        (lambda model, tokenizer: 3.5, "a float is no name"),
    ],
)
def test_what_is_no_model_is_named_in_one_line(make: Any, message: str, model: Any, tokenizer: Any) -> None:
    with pytest.raises(ModelError, match=message) as error:
        model_name(make(model, tokenizer))
    assert "\n" not in str(error.value)


def test_a_tokenizer_of_another_model_is_refused(model: Any, tokenizer: Any) -> None:
    larger = copy.deepcopy(tokenizer)
    larger.add_tokens([f"new{number}" for number in range(3)])
    with pytest.raises(ModelError, match=r"the tokenizer does not fit it \(its numbers go up to 1,202"):
        model_name((model, larger))


class Own(nn.Module):
    """An encoder of nobody else."""

    def __init__(self, n_pieces: int = 1200, dim: int = 32) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(n_pieces, dim), nn.Embedding(64, dim)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True) for _ in range(2))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        states: torch.Tensor = self.table(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=None if mask is None else mask == 0)
        return states


def drawn(seed: int) -> Own:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Own()


ADAPTER = ModuleAdapter(
    blocks=lambda module: module.layers, embeddings=lambda module: module.table, n_heads=4, max_pieces=64, fresh=drawn
)


def test_a_module_is_probed_layer_by_layer_with_a_random_baseline(tokenizer: Any, corpus: Corpus) -> None:
    module = drawn(3)
    encoder = Encoder.from_model(module, tokenizer, adapter=ADAPTER, name="own-module")
    ids = tokenizer("the farmers see the dog", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = [module.table(ids) + module.places(torch.arange(ids.shape[1]))]
        for layer in module.eval().layers:
            expected.append(layer(expected[-1]))
    for layer, states in encoder.hidden_states(ids, layers=range(3)).items():
        assert torch.allclose(states.cpu(), expected[layer].cpu(), atol=1e-6)
    rows = probe("pos", model=encoder, corpus=corpus, controls="random", random_draws=1, progress=False).to_pandas()
    assert set(rows.model) == {"own-module"}
    assert {(row.init, row.layer) for row in rows.itertuples()} >= {
        (i, n) for i in ("pretrained", "random") for n in range(3)
    }
    # The same weights are the same model: nothing is computed again; others are another one.
    again = Encoder.from_model(drawn(3), tokenizer, adapter=ADAPTER, name="own-module")
    other = Encoder.from_model(drawn(4), tokenizer, adapter=ADAPTER, name="own-other")
    assert encoder.fingerprint == again.fingerprint != other.fingerprint


def test_a_module_that_does_not_fit_is_named_in_one_line(tokenizer: Any) -> None:
    failing = replace(ADAPTER, forward=lambda module, ids, mask: module.nothing(ids))
    without_blocks = replace(ADAPTER, forward=lambda module, ids, mask: module.table(ids))
    for module, adapter, name, message in (
        (drawn(0), failing, "a", "does not run a few texts"),
        (drawn(0), without_blocks, "a", "no block ran"),
        (Own(64), ADAPTER, "a", "tokenizer does not fit"),
        (drawn(0), ADAPTER, "pocket", "cannot be called 'pocket'"),
    ):
        with pytest.raises(ModelError, match=message):
            Encoder.from_model(module, tokenizer, adapter=adapter, name=name)
    encoder = Encoder.from_model(drawn(0), tokenizer, adapter=replace(ADAPTER, fresh=None), name="no-fresh")
    with pytest.raises(ModelError, match="ModuleAdapter\\(fresh=…\\)"):
        probe("pos", model=encoder, controls="random", layers="0", progress=False)


def test_rerun_of_a_module_in_memory_says_what_to_give_again(tokenizer: Any, corpus: Corpus, tmp_path: Path) -> None:
    def encoder() -> Encoder:
        return Encoder.from_model(drawn(3), tokenizer, adapter=ADAPTER, name="own-module")

    probe("pos", model=encoder(), corpus=corpus, layers="1", controls="none", out=tmp_path / "run", progress=False)
    with patch.dict(resolve._KEPT, clear=True):
        remedy = r"unknown model 'own-module'.*call Encoder.from_model\(…, name=…\) before rerun"
        with pytest.raises(BertologyError, match=remedy):
            rerun(tmp_path / "run", tmp_path / "lost")
        encoder()
        assert not rerun(tmp_path / "run", tmp_path / "again").moved
