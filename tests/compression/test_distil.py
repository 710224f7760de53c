"""Distillation: the student learns, and a stopped run ends with the same weights."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

from bertology import BertologyError, Compressed, compress, load_corpus, load_encoder
from bertology._folder import own_folder
from bertology.compression import Distil, Theseus
from bertology.compression._methods import Examples

STEPS = 12


def distil(model: Any, out: Path, method: str = "distil", **changes: Any) -> Compressed:
    settings = {"layers": 2, "steps": STEPS, "batch_pieces": 256, "checkpoint_every": 5, "lr": 2e-3} | changes
    return compress(model, method, out=out, device="cpu", progress=False, **settings)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of raw text, of which every tenth sentence is held out."""
    path = tmp_path_factory.mktemp("text") / "some.txt"
    sentences = load_corpus("pocket")["train"]
    path.write_text("\n".join(sentences.text(i) for i in range(60)) + "\n")
    return path


@pytest.mark.parametrize(("kind", "layers", "share"), [(Distil, [1, 3], 0.9), (Theseus, [1, 2], 0.98)])
def test_the_student_comes_closer_to_its_teacher_also_after_a_stop(
    tiny_bert: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, layers: Any, share: float
) -> None:
    method, loss = kind.name, kind.loss
    whole = distil(tiny_bert, tmp_path / "whole", method, corpus=str(text))
    outcome = whole.steps[0]["outcome"]
    assert (outcome["started_from_layers"], outcome["sentences"]) == (layers, 54)
    assert outcome["loss_after"] < share * outcome["loss_before"]
    student = whole.encoder(device="cpu")
    assert (student.n_layers, student.has_masked_lm_head, whole.steps[0]["corpus"]) == (2, True, "some.txt")
    taken = itertools.count()

    def stop(*given: Any) -> Any:
        if torch.is_grad_enabled() and next(taken) == 7:
            raise KeyboardInterrupt
        return loss(*given)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "loss", stop)
        with pytest.raises(KeyboardInterrupt):
            distil(tiny_bert, tmp_path / "halves", method, corpus=str(text))
    assert [path.name for path in (tmp_path / "halves").iterdir()] == ["training"]
    with pytest.raises(BertologyError, match="a run with other seed"):
        distil(tiny_bert, tmp_path / "halves", method, corpus=str(text), seed=1)
    halves = distil(tiny_bert, tmp_path / "halves", method, corpus=str(text))
    one, other = (load_file(made.path / "model.safetensors") for made in (whole, halves))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert halves.record == whole.record
    assert not (halves.path / "training").exists()


def test_the_loss_is_the_formula_by_hand(tiny_bert: Path) -> None:
    teacher, student = (load_encoder(str(tiny_bert), device="cpu") for _ in range(2))
    with torch.no_grad():
        for weight in student.model.outermost.parameters():
            weight.mul_(1.1)
    method = Distil(layers=3, temperature=3.0, hidden_weight=0.5, attention_weight=0.7)
    rows = Examples(method, teacher, load_corpus("pocket")["train"][:6]).drawn(0)
    real = rows["attention_mask"].bool()
    both = real[:, None, :, None] & real[:, None, None, :]

    def read(encoder: Any) -> tuple[Any, ...]:
        """Probabilities of the masked pieces, hidden states, and scores of attention."""
        output = encoder.model.with_head(rows["input_ids"], rows["attention_mask"], output_hidden_states=True)
        scores = []
        for block, state in zip(encoder.model.blocks, output.hidden_states[:-1], strict=True):
            own = block.attention.self
            query, key = (part(state).view(*real.shape, 4, 8).transpose(1, 2) for part in (own.query, own.key))
            scores.append(query @ key.transpose(2, 3) / 8**0.5)
        return (output.logits[rows["places"]] / 3).softmax(-1), output.hidden_states[1:], scores

    with torch.no_grad():
        (wanted, *of_teacher), (got, *of_student) = read(teacher), read(student)
        states, scores = (
            list(zip(*both_models, strict=True)) for both_models in zip(of_teacher, of_student, strict=True)
        )
        expected = 9 * (wanted * (wanted / got).log()).sum(-1).mean()
        expected += 0.5 * torch.stack([functional.mse_loss(one[real], other[real]) for one, other in states]).mean()
        expected += (
            0.7 * torch.stack([(one - other).square()[both.expand_as(one)].mean() for one, other in scores]).mean()
        )
    assert float(method.loss(teacher, student, rows).detach()) == pytest.approx(float(expected), rel=1e-4)


def test_a_replacement_runs_through_both_models(tiny_bert: Path) -> None:
    """Layer 1 of the student for layers 1 and 2 of the teacher, then the teacher's layer 3; and all of its own."""
    teacher, student = load_encoder(str(tiny_bert), device="cpu"), load_encoder(str(tiny_bert), device="cpu")
    blocks = student.model.blocks
    with torch.no_grad():
        for weight in blocks[0].parameters():
            weight.mul_(1.3)
    body, head = student.model.body, student.masked_head
    del body.encoder.layer[2]  # type: ignore[union-attr, operator]
    del blocks[2]
    body.config.num_hidden_layers = 2  # type: ignore[union-attr]
    object.__setattr__(student, "n_layers", 2)
    method = Theseus(layers=2)
    rows = Examples(method, teacher, load_corpus("pocket")["train"][:6]).drawn(0)
    mask = rows["attention_mask"][:, None, None].bool()
    with torch.no_grad():
        for replaced, run in (
            ([True, False], [blocks[0], teacher.model.blocks[2]]),
            ([False, True], [*teacher.model.blocks[:2], blocks[1]]),
            (None, blocks),
        ):
            state = body.embeddings(rows["input_ids"])  # type: ignore[operator]
            for block in run:
                output = block(state, mask)
                state = output[0] if isinstance(output, tuple) else output
            logits = head.logits(head.features(state[rows["places"]]))
            expected = functional.cross_entropy(logits, rows["wanted"][rows["places"]])
            given = rows if replaced is None else {**rows, "replaced": torch.tensor(replaced)}
            assert float(method.loss(teacher, student, given)) == pytest.approx(float(expected), rel=1e-5)


def test_mistakes_are_one_line(tiny_bert: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(BertologyError, match=r"the loss is .* at step"):
        distil(tiny_bert, tmp_path / "nan", corpus=str(text), hidden_weight=1e39)
    with pytest.raises(BertologyError, match=r"setting lr of method distil is 2\.0"):
        distil(tiny_bert, tmp_path / "fast", lr=2.0)
    taken = tmp_path / "taken"
    with own_folder(taken, "trains here", {}), pytest.raises(BertologyError, match="another process trains here"):
        own_folder(taken, "trains here", {}).__enter__()
