"""Landscapes of small encoders: masked pieces and tasks, lines, planes, trajectories, files and mistakes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from bertology import BertologyError, Landscape, landscape, load_encoder
from bertology.encoders import masked_lm_loss
from bertology.landscapes import LandscapeSettings
from bertology.landscapes._run import _hessian_times, loss_of_masked, point_of
from bertology.pocket import load_corpus
from tests.finetuning.conftest import Tune
from tests.finetuning.conftest import subjects as subjects
from tests.finetuning.conftest import tune as tune

QUICK = {"sentences": 6, "points": 3, "directions": 0, "iterations": 0, "device": "cpu", "progress": False}


def quick(*models: Any, **settings: Any) -> Landscape:
    return landscape(*models, **{**QUICK, **settings})


@pytest.fixture(scope="session")
def others(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models of the shape of the tiny BERT, by noise of two seeds on all its weights."""
    made = []
    for seed in (1, 2):
        folder = shutil.copytree(tiny_bert, tmp_path_factory.mktemp("models") / f"noisy-{seed}")
        generator = torch.Generator().manual_seed(seed)
        weights = load_file(tiny_bert / "model.safetensors")
        noisy = {name: value + 0.1 * torch.randn(value.shape, generator=generator) for name, value in weights.items()}
        save_file(noisy, folder / "model.safetensors", metadata={"format": "pt"})
        made.append(folder)
    return made


def losses(found: Landscape, kind: str) -> pd.DataFrame:
    return found.table[found.table["kind"] == kind].reset_index(drop=True)


def own_loss(model: Path) -> float:
    """Bits of a masked piece, by the function that probes use."""
    found = masked_lm_loss(load_encoder(str(model), device="cpu"), load_corpus()["dev"][:6])
    return float(found.sentence_bits.sum())


def test_ends_of_a_line_are_the_losses_of_the_models(tiny_bert: Path, others: list[Path]) -> None:
    found = quick(tiny_bert, others[0], points=5)
    grid, models = losses(found, "grid"), losses(found, "model")
    assert grid["x"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert grid["loss"].iloc[[0, -1]].to_numpy() == pytest.approx(models["loss"].to_numpy(), abs=1e-6)
    assert models["loss"].to_numpy() * found.n_items == pytest.approx(
        [own_loss(tiny_bert), own_loss(others[0])], rel=1e-4
    )
    assert found.unit == "bits"
    chord = (1 - grid["x"]) * models["loss"][0] + grid["x"] * models["loss"][1]
    assert found.barrier == pytest.approx(max(0.0, (grid["loss"] - chord).iloc[1:-1].max()))


def test_a_plane_meets_its_three_models_and_checkpoints(tiny_bert: Path, others: list[Path]) -> None:
    found = quick(tiny_bert, *others, extent=(0.0, 1.0), trajectory=[tiny_bert, others[1]])
    grid = losses(found, "grid").set_index(["x", "y"])["loss"]
    models = losses(found, "model")["loss"]
    at_models = [grid[0.0, 0.0], grid[1.0, 0.0], grid[0.0, 1.0]]
    assert at_models == pytest.approx(models.tolist(), abs=1e-6)
    checkpoints = losses(found, "checkpoint")
    assert checkpoints[["x", "y", "outside"]].to_numpy() == pytest.approx(np.array([[0, 0, 0], [0, 1, 0]]), abs=1e-5)
    assert checkpoints["loss"].tolist() == [models[0], models[2]]
    line = losses(found, "line")
    chord = line["x"] * models[1] + line["y"] * models[2]
    assert found.barrier == pytest.approx(max(0.0, (line["loss"] - chord).max()))
    assert line.loc[line["x"] == 0.5, "loss"].tolist() == pytest.approx([grid[0.5, 0.5]], abs=1e-6)
    assert abs(found.details["direction_cosine"]) < 0.1


def test_products_with_the_hessian_are_differences_of_gradients(tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert), device="cpu")
    loss = loss_of_masked(encoder, load_corpus()["dev"][:3], LandscapeSettings(dtype="float64"))
    at_rest, parameters = point_of(loss.module), list(loss.module.parameters())
    loss.module.requires_grad_(True)

    def gradient(weights: torch.Tensor) -> torch.Tensor:
        with loss.at(weights):
            total: Any = sum(loss.parts()) / loss.n_items
            slopes = torch.autograd.grad(total, parameters, materialize_grads=True)
        return torch.cat([slope.flatten() for slope in slopes])

    vector = torch.randn(at_rest.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    vector = vector / vector.norm()
    expected = (gradient(at_rest + 1e-4 * vector) - gradient(at_rest - 1e-4 * vector)) / 2e-4
    torch.testing.assert_close(_hessian_times(loss, vector), expected, rtol=1e-4, atol=1e-5)


def test_files(tiny_bert: Path, tmp_path: Path) -> None:
    found = quick(tiny_bert, directions=2, iterations=1, out=tmp_path / "out")
    assert pd.read_parquet(tmp_path / "out" / "landscape.parquet").equals(found.table)
    record = json.loads((tmp_path / "out" / "landscape.json").read_text(encoding="utf-8"))
    assert record["sharpness"][0]["value"] == found.sharpness[0].value
    assert record["settings"]["points"] == 3
    assert record["barrier"] is None
    assert "<svg" in (tmp_path / "out" / "landscape.svg").read_text(encoding="utf-8")
    assert "not converged after 1 products" in found.to_markdown()


def test_the_loss_of_a_task_with_its_trajectory(tune: Tune, tiny_bert: Path, subjects: Any) -> None:
    tuned = tune(epochs=1, checkpoint_every=4)
    head = tuned.folder()
    found = quick(
        tiny_bert, head, corpus=subjects, head=head, sentences=40, trajectory=head / "checkpoints", iterations=1
    )
    models, checkpoints = losses(found, "model")["loss"], losses(found, "checkpoint")
    assert checkpoints["name"].tolist() == ["checkpoint-4", "checkpoint-8"]
    assert checkpoints["x"].to_numpy()[-1] == pytest.approx(1, abs=1e-5)
    assert 0 < checkpoints["x"].to_numpy()[0] < 1
    assert checkpoints["outside"].to_numpy()[0] > 0.01
    assert checkpoints["loss"].to_numpy()[-1] == pytest.approx(models[1], abs=1e-6)
    frame = tuned.predictions()
    dev = frame[frame["split"] == "dev"]
    right = dev["score"].where(dev["gold"] == dev["pred"], np.log1p(-np.exp(dev["score"])))
    assert models[1] == pytest.approx(-right.mean() / np.log(2), rel=1e-4)
    # At the other end the encoder is the one before, under the head of the tuned one.
    mixed = AutoModelForSequenceClassification.from_pretrained(head).eval()
    body = load_encoder(str(tiny_bert), device="cpu").model.body.state_dict()
    mixed.base_model.load_state_dict(body, strict=False)
    encoder = load_encoder(str(head), device="cpu")
    bits = []
    for sentence in subjects["dev"]:
        output = mixed(**encoder.tokenizer(sentence.text, return_tensors="pt")).logits.log_softmax(-1)[0]
        gold = mixed.config.label2id[sentence.targets["number"][0].label]
        bits.append(-float(output[gold].detach()) / np.log(2))
    assert models[0] == pytest.approx(np.mean(bits), rel=1e-4)


def test_an_encoder_in_memory_stays_as_it_is(tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert), device="cpu")
    before = point_of(encoder.model.outermost)
    quick(encoder, directions=2, iterations=1)
    assert torch.equal(point_of(encoder.model.outermost), before)


@pytest.mark.parametrize(
    ("models", "settings", "message"),
    [
        (["tiny", "pocket"], {}, "vocabulary is not that of|give models of one shape"),
        (["tiny", "tiny", "tiny"], {}, "have the same weights"),
        (["tiny"] * 4, {}, "give one to three"),
        (["tiny"], {"trajectory": "pocket"}, "give a second model"),
        (["tiny"], {"extent": (1.0, -1.0)}, "a lower and a higher number"),
        (["tiny"], {"directions": 1}, "2 or more"),
        (["tiny"], {"raduis": 1.0}, "radius"),
        (["tiny"], {"head": "nowhere"}, "nowhere"),
    ],
)
def test_mistakes_are_one_line(tiny_bert: Path, models: list[str], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BertologyError, match=message) as caught:
        quick(*[tiny_bert if model == "tiny" else model for model in models], **settings)
    assert "\n" not in str(caught.value)


def test_models_of_other_shapes_are_one_line(tiny_bert: Path, tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    shutil.copytree(tiny_bert, tmp_path, dirs_exist_ok=True)
    for changes, message in (
        ({"intermediate_size": 40}, r"is \[40, 32\], and \[48, 32\] in"),
        ({"num_hidden_layers": 2}, "is not both in it"),
    ):
        config = BertConfig.from_pretrained(tiny_bert, **changes)
        BertForMaskedLM(config).save_pretrained(tmp_path)
        with pytest.raises(BertologyError, match=message):
            quick(tiny_bert, tmp_path)
