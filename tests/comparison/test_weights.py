"""Distances of weights: nothing between a model and itself, noise where it was put, sums as done by hand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AlbertConfig, AutoModel, BertForSequenceClassification, DistilBertConfig, ModernBertConfig

from bertology import BertologyError, compress
from bertology.comparison import weight_changes
from bertology.encoders import ModelSource
from bertology.encoders.weights import StoredWeights
from tests.comparison.conftest import add_noise


def test_nothing_has_changed_in_the_same_model(tiny_bert: Path) -> None:
    found = weight_changes(tiny_bert, tiny_bert)
    frame = found.table("tensor")
    assert (frame["relative_l2"].dropna() == 0).all()
    assert (frame["changed"] == 0).all()
    assert frame["cosine"].dropna().to_numpy() == pytest.approx(1, abs=1e-12)
    assert found.only_in_model == found.only_in_reference == ()
    assert found.table("layer")["layer"].tolist() == [0, 1, 2, 3]


def test_noise_in_a_layer_is_found_there(
    tiny_bert: Path, changed_copy: Callable[[Callable[..., object]], Path]
) -> None:
    other = changed_copy(lambda model: add_noise(model, 2, 0.1))
    found = weight_changes(tiny_bert, other)
    by_layer = found.table("layer").set_index("layer")
    assert by_layer.loc[2, "relative_l2"] == pytest.approx(0.1, rel=1e-5)
    assert (by_layer.drop(index=2)["relative_l2"] == 0).all()
    one, two = (AutoModel.from_pretrained(path).encoder.layer[1].intermediate.dense for path in (tiny_bert, other))
    row = found.table("tensor").set_index("tensor").loc["encoder.layer.1.intermediate.dense.weight"]
    cosine = torch.nn.functional.cosine_similarity(one.weight.double().flatten(), two.weight.double().flatten(), dim=0)
    assert row["cosine"] == pytest.approx(float(cosine.detach()))
    assert set(found.table("layer and kind").query("relative_l2 > 0")["layer"]) == {2}


def test_what_one_lacks_is_listed_and_shapes_must_agree(tiny_bert: Path, tmp_path: Path) -> None:
    model = BertForSequenceClassification.from_pretrained(tiny_bert)
    model.save_pretrained(tmp_path / "classifier")
    (tmp_path / "classifier/tokenizer.json").write_bytes((tiny_bert / "tokenizer.json").read_bytes())
    found = weight_changes(tiny_bert, tmp_path / "classifier")
    assert {name.partition(".")[0] for name in found.only_in_reference} == {"cls"}
    assert {name.partition(".")[0] for name in found.only_in_model} == {"classifier", "pooler"}
    assert (found.table("layer")["relative_l2"] == 0).all()
    with pytest.raises(BertologyError, match="have one shape"):
        weight_changes(tiny_bert, "pocket")


@pytest.mark.parametrize("family", ["albert", "distilbert", "modernbert"])
def test_every_tensor_has_its_place(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "albert": AlbertConfig(
            vocab_size=9, embedding_size=4, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, num_labels=2
        ),
        "distilbert": DistilBertConfig(vocab_size=9, dim=8, n_layers=2, n_heads=2, hidden_dim=8),
        "modernbert": ModernBertConfig(
            **{"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2},
            **{f"{name}_token_id": 0 for name in ("pad", "cls", "sep", "bos", "eos")},
        ),
    }[family]
    model = AutoModel.from_config(config)
    model.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with StoredWeights(ModelSource(family, tmp_path)) as stored:
        places = stored.places
        assert sum(stored.read(name).numel() for name in places) == model.num_parameters()
    kinds = {place.kind for place in places.values()} - {"head", "embeddings"}
    fused = {"output", "feed_forward", "norm", "query_key_value"}
    assert kinds == (fused if family == "modernbert" else fused - {"query_key_value"} | {"query", "key", "value"})
    layers = {place.layers for place in places.values()} - {()}
    assert layers == ({(0,), (1, 2)} if family == "albert" else {(0,), (1,), (2,)})
    assert np.all([place.kind in ("embeddings", "norm") for place in places.values() if place.layers == (0,)])


def test_layers_of_a_student_are_those_that_it_was_made_of(tiny_bert: Path, tmp_path: Path) -> None:
    made = compress(tiny_bert, "layers", keep=(1, 3), out=tmp_path / "student")
    by_number = weight_changes(tiny_bert, made.path)
    assert by_number.table("layer")["relative_l2"].gt(0).tolist() == [False, False, True]
    found = weight_changes(tiny_bert, made.path, layers=[(1, 1), (2, 3)])
    assert (found.table("layer")["relative_l2"] == 0).all()
    assert all(name.startswith("encoder.layer.1.") for name in found.only_in_reference)
    assert found.only_in_model == ()
