"""Weights, losses, clusters of labels and restored layers of a model and its reference, as tasks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertology import finetune, probe
from bertology.activations.layers import LayerVectors
from bertology.activations.progress import silent
from bertology.comparison import EncoderPair, restored_scores
from bertology.corpora import Corpus
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.pocket import load_corpus
from bertology.probing import get_probe
from tests.finetuning.conftest import numbered

SMALL = Corpus("small", {name: load_corpus()[name][:40] for name in ("dev", "test")})


def measured(task: str, model: Any, reference: Any, text: Any) -> dict[tuple[str, int | None, str], float]:
    """The statistics of a comparison of models, without a run."""
    asked: Any = get_probe(f"comparison:{task}")
    layers = [(layer, layer) for layer in range(model.n_layers + 1)]
    pair = EncoderPair(model, reference, {"test": text}, layers, "window", silent)
    found = asked.measure(pair)
    return {
        (sums.metric, layer, sums.group): value
        for sums in found
        for layer, value in zip(sums.layers, sums.values.tolist(), strict=True)
    }


def test_a_model_equals_itself(tiny_bert: Path) -> None:
    tasks = ["comparison:weights", "comparison:masked_loss"]
    frame = probe(tasks, model=tiny_bert, reference=tiny_bert, corpus=SMALL, controls="none", layers="1,3").to_pandas()
    values = frame.set_index(["metric", "layer", "group"]).sort_index().value
    assert (frame[frame.metric.isin(["relative_l2", "changed", "change_bits"])].value == 0).all()
    assert len(values["cosine"]) == 2 * 7 + 1
    assert {"NOUN", "VERB"} <= set(frame[frame.metric == "masked_loss_bits"].group.dropna())


def test_clusters_of_labels(tiny_bert: Path) -> None:
    asked: Any = replace(get_probe("comparison:label_clusters"), per_label=15, most_labels=4)
    words = asked.items({"test": SMALL["test"]}).words
    model = load_encoder(str(tiny_bert), device="cpu").vectors(SMALL["test"], layers=[1, 3])
    vectors = {"test": LayerVectors.of_arrays(model.to_numpy()[:, words["test"]], layers=[1, 3])}
    found = list(asked.statistics(vectors, vectors, {"test": SMALL["test"]}, layers=[(1, 1), (3, 1)]))
    by_name = {sums.metric: sums for sums in found}
    assert set(by_name) == {metric.name for metric in asked.scores}
    assert by_name["layout"].values[0] == pytest.approx(1)
    assert by_name["layout"].values[1] < 0.999
    assert by_name["centroids_change"].values[0] == 0
    with pytest.raises(BertologyError, match="no layer sense"):
        replace(asked, labels="sense").items({"test": SMALL["test"]})


def test_noise_in_a_layer_is_named(tiny_bert: Path) -> None:
    noisy, clean = (load_encoder(str(tiny_bert), device="cpu") for _ in range(2))
    with torch.no_grad():
        for value in noisy.model.blocks[1].parameters():
            value += torch.randn(value.shape, generator=torch.Generator().manual_seed(1))
    weights = measured("weights", noisy, clean, SMALL["test"])
    assert {layer for (metric, layer, _), value in weights.items() if metric == "changed" and value} == {2, None}
    losses = measured("masked_loss", noisy, clean, SMALL["test"])
    change = losses["masked_loss_bits", None, ""] - losses["reference_bits", None, ""]
    assert losses["change_bits", None, ""] == pytest.approx(change)
    with pytest.raises(BertologyError, match=r"finetune\.json"):
        measured("restoring", noisy, clean, SMALL["test"])


def test_restoring_gives_the_scores_of_the_python_call(tiny_bert: Path, tmp_path: Path) -> None:
    corpus = numbered({"train": 32, "dev": 30, "test": 30})
    settings: dict[str, Any] = {"lr": 1e-3, "epochs": 1, "batch_size": 16, "keep_checkpoints": "none"}
    tuned = finetune(
        tiny_bert, corpus, task="sentence_label:number", out=tmp_path, device="cpu", progress=False, **settings
    )
    found = measured("restoring", tuned.encoder(device="cpu"), load_encoder(str(tiny_bert)), corpus["test"])
    table = restored_scores(tiny_bert, tuned, corpus, split="test", device="cpu").table().set_index(["order", "layer"])
    for order, metric in (("each", "restored_alone"), ("up_to", "restored_up_to"), ("from", "restored_from")):
        for layer in range(4):
            assert found[metric, layer, ""] == pytest.approx(table.loc[(order, layer), "difference"])
    assert found["accuracy_reference", None, ""] == pytest.approx(table.loc[("from", 0), "value"])


def test_what_belongs_to_no_layer_is_shown(tiny_bert: Path) -> None:
    found = probe("comparison:masked_loss", model=tiny_bert, reference=tiny_bert, corpus=SMALL, controls="none")
    (grid,) = found.view().shown()
    assert grid.title == "comparison:masked_loss · the whole model"
    assert grid.lines[0].label == "all"
    assert grid.headers[1] == "change of the masked loss in bits"
    assert "reference  " in str(found)
