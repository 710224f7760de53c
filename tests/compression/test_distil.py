"""Distillation: the student learns, and a stopped run ends with the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

from bertology import BertologyError, Compressed, compress, load_corpus, load_encoder
from bertology._folder import one_process
from bertology.compression import Distil, _distil

STEPS = 12


def distil(model: Any, out: Path, **changes: Any) -> Compressed:
    settings = {"layers": 2, "steps": STEPS, "batch_pieces": 256, "checkpoint_every": 5, "lr": 2e-3} | changes
    return compress(model, "distil", out=out, device="cpu", progress=False, **settings)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of raw text, of which every tenth sentence is held out."""
    path = tmp_path_factory.mktemp("text") / "some.txt"
    sentences = load_corpus("pocket")["train"]
    path.write_text("\n".join(sentences.text(i) for i in range(60)) + "\n")
    return path


def test_the_student_comes_closer_to_its_teacher(tiny_bert: Path, text: Path, tmp_path: Path) -> None:
    made = distil(tiny_bert, tmp_path / "student", corpus=str(text))
    outcome = made.steps[0]["outcome"]
    assert outcome["started_from_layers"] == [1, 3]
    assert outcome["sentences"] == 54
    assert outcome["loss_after"] < 0.9 * outcome["loss_before"]
    student = made.encoder(device="cpu")
    assert (student.n_layers, student.has_masked_lm_head) == (2, True)
    assert not (made.path / "training").exists()
    assert made.steps[0]["corpus"] == "some.txt"


def test_a_stopped_run_ends_with_the_same_weights(
    tiny_bert: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = distil(tiny_bert, tmp_path / "whole", corpus=str(text))
    advance = _distil._Trainer._advance

    def stop(trainer: Any) -> None:
        if trainer.step == 7:
            raise KeyboardInterrupt
        advance(trainer)

    with monkeypatch.context() as patched:
        patched.setattr(_distil._Trainer, "_advance", stop)
        with pytest.raises(KeyboardInterrupt):
            distil(tiny_bert, tmp_path / "halves", corpus=str(text))
    assert [path.name for path in (tmp_path / "halves").iterdir()] == ["training"]
    with pytest.raises(BertologyError, match="a run with other settings"):
        distil(tiny_bert, tmp_path / "halves", corpus=str(text), seed=1)
    halves = distil(tiny_bert, tmp_path / "halves", corpus=str(text))
    one, other = (load_file(made.path / "model.safetensors") for made in (whole, halves))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert halves.record == whole.record


def test_the_loss_is_the_formula_by_hand(tiny_bert: Path) -> None:
    teacher, student = (load_encoder(str(tiny_bert), device="cpu") for _ in range(2))
    with torch.no_grad():
        for weight in student.model.outermost.parameters():
            weight.mul_(1.1)
    method = Distil(layers=3, temperature=3.0, hidden_weight=0.5)
    examples = _distil.Examples(method, teacher, load_corpus("pocket")["train"][:6])
    trainer = _distil._Trainer(method, teacher, student, examples)
    rows = examples.drawn(0)
    with torch.no_grad():
        outputs = [
            encoder.model.with_head(**rows.inputs, output_hidden_states=True)  # type: ignore[misc]
            for encoder in (teacher, student)
        ]
        wanted, got = ((output.logits[rows.places] / 3).softmax(-1) for output in outputs)
        divergence = (wanted * (wanted / got).log()).sum(-1).mean()
        differences = [
            functional.mse_loss(one[rows.real], other[rows.real])
            for one, other in zip(*(output.hidden_states[1:] for output in outputs), strict=True)
        ]
        expected = 9 * divergence + 0.5 * torch.stack(differences).mean()
    assert float(trainer.batch_loss(rows).detach()) == pytest.approx(float(expected), rel=1e-4)


def test_masks_are_those_of_pretraining(tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert), device="cpu")
    plain = encoder.tokenize(sentences := load_corpus("pocket")["train"][:300])
    examples = _distil.Examples(Distil(layers=1), encoder, sentences)
    special = torch.tensor(sorted(set(encoder.tokenizer.all_special_ids) - {encoder.mask_id}))
    n_text = n_places = n_masked = n_changed = 0
    for batch, rows in zip(examples.batches, examples.each(), strict=True):
        before = torch.from_numpy(plain.batch_ids(batch.windows, batch.length))
        ids, places = rows.inputs["input_ids"], rows.places
        assert torch.equal(ids[~places], before[~places])
        assert not torch.isin(before[places], special).any()
        n_text += int(rows.real.sum()) - 2 * len(ids)
        n_places += int(places.sum())
        n_masked += int((ids[places] == encoder.mask_id).sum())
        n_changed += int((ids[places] != before[places]).sum())
    assert n_places / n_text == pytest.approx(0.15, abs=0.02)
    assert n_masked / n_places == pytest.approx(0.8, abs=0.05)
    assert n_changed / n_places == pytest.approx(0.9, abs=0.04)


def test_mistakes_are_one_line(tiny_bert: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(BertologyError, match=r"the loss is .* at step"):
        distil(tiny_bert, tmp_path / "nan", corpus=str(text), hidden_weight=1e39)
    with pytest.raises(BertologyError, match="lr lie between 0 and 1"):
        distil(tiny_bert, tmp_path / "fast", lr=2.0)
    (tmp_path / "broken" / "training").mkdir(parents=True)
    (tmp_path / "broken" / "training" / "state.pt").write_bytes(b"no state")
    with pytest.raises(BertologyError, match="not a whole training state"):
        distil(tiny_bert, tmp_path / "broken", corpus=str(text))
    taken = tmp_path / "taken"
    with one_process(taken, "trains here"), pytest.raises(BertologyError, match="another process trains here"):
        one_process(taken, "trains here").__enter__()
