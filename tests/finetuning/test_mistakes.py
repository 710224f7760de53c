"""Folders that are in use or of another run, what goes wrong in training, the optimizer, and mistakes."""

from pathlib import Path

import pytest
import torch
from filelock import FileLock

from bertology import BertologyError
from bertology.finetuning._training import uncorrected_adamw
from tests.finetuning.conftest import Tune


def test_a_second_process_is_refused(tune: Tune, tmp_path: Path) -> None:
    folder = tmp_path / "tuned" / "seed-1"
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"), pytest.raises(BertologyError, match="another process fine-tunes into this folder"):
        tune()


def test_other_settings_are_refused(tune: Tune, tmp_path: Path) -> None:
    tune(epochs=1)
    with pytest.raises(BertologyError, match=r"seed-1: from a run with other lr, epochs; delete it"):
        tune(epochs=2, lr=2e-3)
    foreign = tmp_path / "model" / "seed-1"
    foreign.mkdir(parents=True)
    (foreign / "config.json").write_text("{}")
    with pytest.raises(BertologyError, match="holds a model that was not fine-tuned here"):
        tune(out=tmp_path / "model")


def test_a_loss_that_is_not_finite_stops_the_run(tune: Tune, tmp_path: Path) -> None:
    with pytest.raises(BertologyError, match=r"the loss is nan at step [23]: set lr or clip_norm lower"):
        tune(lr=1e38, warmup=0)
    assert not (tmp_path / "tuned" / "seed-1" / "finetune.json").exists()


def test_adamw_without_correction_is_as_written_down() -> None:
    weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0]]))
    optimizer = uncorrected_adamw([{"params": [weight], "weight_decay": 0.1}], lr=0.01)
    value, mean, square = torch.tensor([[1.0, -2.0]]), torch.zeros(1, 2), torch.zeros(1, 2)
    for gradient in (torch.tensor([[0.5, 1.0]]), torch.tensor([[-0.25, 2.0]])):
        weight.grad = gradient.clone()
        optimizer.step()
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        value = value * (1 - 0.01 * 0.1) - 0.01 * mean / (square.sqrt() + 1e-6)
    assert torch.allclose(weight, value, atol=1e-7)


LABELS = [("the dog", "a"), ("the cat", "b")] * 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": dict.fromkeys(("train", "dev"), LABELS[:1]), "task": "sentence_label:label"}, "the one label 'a'"),
        ({"task": "sentence_label:sentiment"}, "no sentence has a label in column 'sentiment'"),
        ({"task": "span"}, "unknown column of answers 'answer'"),
        ({"task": "agreement"}, "is none to fine-tune for"),
        ({"task": "pair_number"}, "pair_number:score"),
        ({"recipe": "devlin"}, "unknown recipe 'devlin': did you mean devlin-2019"),
        ({"leyers": "all"}, "unknown key 'leyers'"),
        ({"layers": "frozen:9"}, "layer 9: the model has 3"),
        ({"layers": "bottom:1"}, "write all, none, frozen:6"),
        ({"layers": "none", "features": "sum_last_four"}, "has 3 layers; choose another"),
        ({"features": "sum_all"}, "set layers to none"),
        ({"max_pieces": 1000}, "max_pieces 1000: model .* takes at most 64"),
        ({"positive": "yes"}, "'yes' is none of the labels"),
        ({"batch_size": 10, "accumulate": 3}, "does not divide batch_size 10"),
        ({"seeds": 0}, "seeds 0"),
        ({"train_split": "training"}, "did you mean train"),
        ({"device": "cuda:7"}, "not there on this machine"),
    ],
)
def test_a_mistake_is_one_line(tune: Tune, changes: dict[str, object], message: str) -> None:
    with pytest.raises(BertologyError, match=message) as raised:
        tune(**changes)
    assert "\n" not in str(raised.value)


def test_a_test_split_without_labels_is_noted(tune: Tune) -> None:
    rows = {"train": LABELS * 2, "dev": LABELS, "test": [("the dog", None), ("a cat", None)]}
    tuned = tune(corpus=rows, task="sentence_label:label", epochs=1)
    assert list(tuned.records[1].scores) == ["dev"]
    assert any(note.startswith("test is not scored") for note in tuned.records[1].notes)
