"""Restored layers: none matters where nothing was changed, the one with noise does, all of them are the reference."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from bertology import BertologyError, Corpus, FineTuned, compare, finetune
from bertology.comparison.models import restorable_task, restored_scores
from bertology.encoders import resolve_model
from bertology.finetuning import load_tuned
from tests.comparison.conftest import add_noise
from tests.finetuning.conftest import numbered


@pytest.fixture(scope="module")
def subjects() -> Corpus:
    return numbered({"train": 64, "dev": 40, "test": 10})


@pytest.fixture(scope="module")
def tuned(tiny_bert: Path, subjects: Corpus, tmp_path_factory: pytest.TempPathFactory) -> FineTuned:
    return finetune(
        tiny_bert,
        subjects,
        task="sentence_label:number",
        out=tmp_path_factory.mktemp("tuned"),
        device="cpu",
        progress=False,
        **{"lr": 1e-3, "epochs": 1, "batch_size": 16, "keep_checkpoints": "none"},
    )


def test_restoring_what_is_the_same_changes_nothing(tuned: FineTuned, subjects: Corpus) -> None:
    found = restored_scores(tuned.folder(), tuned, subjects, device="cpu")
    frame = found.table().set_index(["order", "layer"])
    assert (frame["difference"].dropna() == 0).all()
    assert len(found.scores) == 10
    assert len(frame) == 13
    assert frame["value"].iloc[0] == tuned.table("dev").set_index("metric").loc["accuracy", "value"]


def test_the_layer_with_noise_is_named(tuned: FineTuned, subjects: Corpus, tmp_path: Path) -> None:
    noisy = tmp_path / "noisy"
    shutil.copytree(tuned.folder(), noisy)
    model = AutoModelForSequenceClassification.from_pretrained(noisy)
    with torch.no_grad():
        add_noise(model, 2, 1.0)
    model.save_pretrained(noisy)
    found = restored_scores(tuned.folder(), noisy, subjects, device="cpu")
    clean = tuned.predictions().query("split == 'dev'")["score"].to_numpy()
    for layers, frame in found.predictions.items():
        assert np.allclose(frame["score"], clean, atol=1e-6) == (2 in layers), layers
    assert found.restored("up_to", 2) == (0, 1, 2)
    assert found.restored("from", 2) == (2, 3)


def test_all_layers_are_the_reference_under_the_head(tiny_bert: Path, tuned: FineTuned, subjects: Corpus) -> None:
    """And some of them what loading their weights gives, without anything being replayed."""
    found = restored_scores(tiny_bert, tuned, subjects, device="cpu", sentences=20)
    before = AutoModel.from_pretrained(tiny_bert).state_dict()
    for layers in ((0, 1, 2, 3), (0, 1), (2,), (2, 3)):
        by_hand = load_tuned(tuned.folder(), subjects["dev"][:20], device="cpu")
        prefixes = tuple("embeddings." if layer == 0 else f"encoder.layer.{layer - 1}." for layer in layers)
        restored = {name: value for name, value in before.items() if name.startswith(prefixes)}
        by_hand.model.base_model.load_state_dict(restored, strict=False)
        np.testing.assert_allclose(found.predictions[layers]["score"], by_hand.predictions()["score"], atol=1e-6)
    assert not np.allclose(found.predictions[()]["score"], found.predictions[0, 1, 2, 3]["score"], atol=1e-3)


def test_what_was_tuned_from_the_reference_is_known(
    tiny_bert: Path, noisy_bert: Path, tuned: FineTuned, subjects: Corpus, tmp_path: Path
) -> None:
    """So ``compare`` restores layers where nothing else is asked for, for the task of the model alone."""
    reference, model, other = (resolve_model(str(path)) for path in (tiny_bert, tuned.folder(), noisy_bert))
    assert restorable_task(reference, model) == "sentence_label:number"
    assert restorable_task(other, model) is None
    assert restorable_task(reference, other) is None
    settings = {"corpus": subjects, "layers": [3], "progress": False, "out": tmp_path / "run"}
    found = compare(tiny_bert, tuned.folder(), tasks="sentence_label:number", **settings)
    assert "restoring" not in {line.partition(":")[0] for line in found.left_out}
    restored = found.to_pandas().query("task == 'comparison:restoring'")
    assert {"restored_alone", "accuracy"} <= set(restored["metric"])
    assert found.failures == ()


def test_mistakes_are_one_line(tiny_bert: Path, tuned: FineTuned, subjects: Corpus) -> None:
    with pytest.raises(BertologyError, match="family, shape or vocabulary"):
        restored_scores("pocket", tuned, subjects, device="cpu")
    with pytest.raises(BertologyError, match=r"finetune\.json"):
        restored_scores(tiny_bert, tiny_bert, subjects, device="cpu")
