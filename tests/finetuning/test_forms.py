"""Forms of fine-tuning that change what a model is: adapters, lottery tickets, gates on heads, students."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional
from transformers import AutoModelForSequenceClassification, Trainer

from bertology import BertologyError, Corpus, FineTuned, compress, finetune_grid, load_encoder, probe
from bertology._machine import quiet_loading
from bertology.encoders import model_fingerprint, resolve_model
from bertology.finetuning import FineTuneSettings
from bertology.finetuning._items import tuning_task
from bertology.finetuning._training import HeadGates, Trained, build
from tests.finetuning.conftest import Tune


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def check_saved_scores(tuned: FineTuned, corpus: Corpus) -> None:
    """The model in the folder has the scores that the record states."""
    scores: list[Any] = [tuned.evaluate(corpus, device="cpu"), tuned.table("test")]
    again, kept = (frame.set_index("metric")["value"] for frame in scores)
    assert again["accuracy"] == kept["accuracy"]


def test_adapters_are_trained_alone_and_read_with_their_model(tune: Tune, tiny_bert: Path, subjects: Corpus) -> None:
    tuned = tune(layers="adapters", adapter_size=5, lr=0.02, epochs=4)
    folder, before, after = tuned.folder(), weights(tiny_bert), weights(tuned.folder())
    own = {name: value for name, value in after.items() if ".bottleneck." in name}
    assert len(own) == 3 * 2 * 4
    changed = {name for name, value in after.items() if name in before and not torch.equal(value, before[name])}
    assert changed == {name for name in before.keys() & after.keys() if "LayerNorm" in name}
    n_new = sum(after[name].numel() for name in after if "classifier" in name or "pooler" in name)
    n_norms = sum(after[name].numel() for name in changed)
    assert tuned.record.n_trained == sum(value.numel() for value in own.values()) + n_norms + n_new
    assert f"{100 * tuned.record.n_trained / tuned.record.n_weights:.3g} %)" in (folder / "README.md").read_text()

    def adapt(path: str) -> Any:
        down, up = (f"{path}.bottleneck.{place}" for place in (0, 2))

        def hook(module: Any, args: Any, hidden: torch.Tensor) -> torch.Tensor:
            inner = functional.gelu(hidden @ own[f"{down}.weight"].T + own[f"{down}.bias"])
            return hidden + inner @ own[f"{up}.weight"].T + own[f"{up}.bias"]

        return hook

    kind: Any = AutoModelForSequenceClassification
    with quiet_loading():
        plain = kind.from_pretrained(folder).eval()
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        without = plain.bert(ids).last_hidden_state
        for path, module in plain.named_modules():
            if path.endswith("output.dense"):
                module.register_forward_hook(adapt(path))
        expected = plain.bert(ids, output_hidden_states=True).hidden_states
    encoder = tuned.encoder(device="cpu")
    for layer, states in encoder.hidden_states(ids, layers=range(4)).items():
        torch.testing.assert_close(states, expected[layer], rtol=1e-5, atol=1e-5)
    assert (expected[-1] - without).abs().max() > 1e-2
    check_saved_scores(tuned, subjects)
    fresh = load_encoder(str(folder), init="random", device="cpu")
    assert sum(".bottleneck." in name for name, _ in fresh.model.outermost.named_parameters()) == len(own)


def test_adapters_begin_near_the_identity(tune: Tune, tiny_bert: Path) -> None:
    tuned = tune(layers="adapters", lr=1e-9)
    ids = torch.arange(5, 25)[None]
    old, new = (
        load_encoder(str(one), device="cpu").hidden_states(ids, layers=[3])[3] for one in (tiny_bert, tuned.folder())
    )
    assert 0 < (old - new).abs().max() < 0.02 * old.abs().max()
    with pytest.raises(Exception, match="adapters of size 64: set adapter_size to this"):
        tune(model=tuned.folder(), layers="adapters", adapter_size=8, out=tuned.path / "more")


@pytest.mark.parametrize(
    "settings", [{"layers": "adapters"}, {"gate_penalty": 0.1}, {"sparsity": 0.5}, {"layers": "lstm"}], ids=str
)
def test_a_stopped_run_ends_with_the_same_weights(
    tune: Tune, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**settings, "lr": 0.01, "epochs": 2, "checkpoint_every": 3}
    whole, step, taken = tune(out=tmp_path / "whole", **settings), Trainer.training_step, itertools.count()

    def stop(self: Any, *args: Any, **kwargs: Any) -> Any:
        if next(taken) == (20 if settings.keys() & {"gate_penalty", "sparsity"} else 10):  # in the second training
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "training_step", stop)
        with pytest.raises(KeyboardInterrupt):
            tune(out=tmp_path / "halves", **settings)
    halves = tune(out=tmp_path / "halves", **settings)
    one, other = weights(whole.folder()), weights(halves.folder())
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("mask", ["magnitude", "random"])
def test_a_ticket_is_masked_rewound_and_kept_at_zero(tune: Tune, tiny_bert: Path, mask: str, tmp_path: Path) -> None:
    """The mask is that of the weights after fine-tuning by the same seed; all else begins as the model was."""
    settings: dict[str, Any] = {"lr": 1e-3, "epochs": 2}
    full = weights(tune(**settings, out=tmp_path / "full").folder())
    tuned = tune(**settings, sparsity=0.6, mask=mask)
    after, before = weights(tuned.folder()), weights(tiny_bert)
    names = [name for name in before if "encoder.layer" in name and before[name].ndim == 2]
    zero = torch.cat([(after[name] == 0).flatten() for name in names])
    n = round(0.6 * len(zero))
    assert int(zero.sum()) == n == tuned.record.n_zero
    smallest = torch.cat([full[name].flatten() for name in names]).abs().argsort()[:n]
    agreeing = float(zero[smallest].double().mean())
    assert agreeing == 1 if mask == "magnitude" else 0.5 < agreeing < 0.7
    near = torch.cat([(after[name] - before[name]).flatten() for name in names])[~zero]
    assert 0 < near.abs().max() < 0.05  # begun from the weights of the model
    assert tuned.record.n_trained == tuned.record.n_weights - n
    assert not (tuned.folder() / "before").exists()
    nearly = weights(tune(sparsity=0.6, mask=mask, lr=1e-12, out=tmp_path / "rewound").folder())
    kept = nearly[names[0]] != 0
    torch.testing.assert_close(nearly[names[0]][kept], before[names[0]][kept])


def test_gates_are_the_formula_by_hand_and_are_closed_for_good(tune: Tune, tiny_bert: Path, subjects: Corpus) -> None:
    tuned = tune(gate_penalty=0.003, gate_lr=0.3, epochs=6, lr=1e-3)
    gates = tuned.record.gates
    assert gates is not None
    assert list(gates) == [f"L{layer}H{head}" for layer in (1, 2, 3) for head in (1, 2, 3, 4)]
    closed = {name for name, gate in gates.items() if gate == 0}
    assert 0 < len(closed) < 12
    assert set(tuned.gates.query("gate == 0")["head"]) == closed
    assert not any("gates" in name for name in weights(tuned.folder()))
    encoder, ids = tuned.encoder(device="cpu"), torch.arange(5, 25)[None]
    with encoder.gated_heads({(int(name[1]), int(name[3])): 0.0 for name in closed}):
        again = encoder.hidden_states(ids, layers=[3])[3]
    torch.testing.assert_close(again, encoder.hidden_states(ids, layers=[3])[3])
    check_saved_scores(tuned, subjects)
    free = tune(gate_penalty=0.0, gate_lr=1e-6, out=tuned.path.parent / "free").record.gates
    assert free is not None
    assert list(free.values()) == pytest.approx([1.2 / (1 + math.exp(-2)) - 0.1] * 12, abs=1e-3)


def test_gates_have_the_distribution_of_the_paper(tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert), device="cpu")
    gates = HeadGates(encoder.model.blocks, encoder.family, 4)
    with torch.no_grad():
        gates.log_alpha.copy_(torch.linspace(-3, 3, 12).view(3, 4))
    torch.manual_seed(0)
    seen, linear = torch.zeros(4), torch.nn.Identity()
    for _ in range(2000):
        (scaled,) = gates._scale(1, linear, (torch.ones(1, 1, 32),))
        seen += (scaled[0, 0, ::8] > 0).float() / 2000
    expected = (gates.log_alpha.detach() - 2 / 3 * math.log(0.1 / 1.1)).sigmoid()
    torch.testing.assert_close(seen, expected[1], atol=0.04, rtol=0)
    torch.testing.assert_close(gates.n_open().detach(), expected.sum())


def test_an_lstm_learns_its_teacher_and_is_a_model_like_any_other(tune: Tune, subjects: Corpus, tmp_path: Path) -> None:
    teacher = tune(out=tmp_path / "teacher", epochs=2)
    settings: dict[str, Any] = {"layers": "lstm", "lr": 0.01, "epochs": 6}
    tuned = tune(**settings, teacher=str(teacher.path))
    wanted, learned = (one.predictions()["pred"].to_numpy() for one in (teacher, tuned))
    assert (wanted == learned).mean() > 0.8
    encoder = tuned.encoder(device="cpu")
    assert (encoder.n_layers, encoder.dim, encoder.has_masked_lm_head) == (2, 32, False)
    stored = weights(tuned.folder())
    assert tuned.record.n_weights == sum(value.numel() for value in stored.values())
    lstm = torch.nn.LSTM(32, 16, num_layers=2, bidirectional=True, batch_first=True)
    for number in range(2):
        for name, value in stored.items():
            if name.startswith(start := f"lstm.layers.{number}.lstm."):
                getattr(lstm, name.removeprefix(start).replace("_l0", f"_l{number}")).data.copy_(value)
    ids = torch.randint(5, 300, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    states = encoder.hidden_states(ids, mask, layers=[0, 1, 2])
    with torch.no_grad():
        for row, length in enumerate((9, 6)):
            vectors = stored["lstm.embeddings.weight"][ids[row, :length]][None]
            torch.testing.assert_close(states[0][row, :length], vectors[0])
            expected, (last, _) = lstm(vectors)
            torch.testing.assert_close(states[2][row, :length], expected[0], rtol=1e-5, atol=1e-6)
            inner = (
                torch.cat([last[2], last[3]], dim=-1) @ stored["classifier.0.weight"].T + stored["classifier.0.bias"]
            )
            logits = inner.relu() @ stored["classifier.2.weight"].T + stored["classifier.2.bias"]
            found = load_encoder(str(tuned.folder()), device="cpu").task_output(ids, attention_mask=mask).logits[row]
            torch.testing.assert_close(found, logits[0], rtol=1e-5, atol=1e-6)
    check_saved_scores(tuned, subjects)
    assert probe("pos", model=tuned.folder(), layers=[0, 2], sentences=40, controls="none", device="cpu").rows


def test_a_run_of_a_file_teaches_another(tiny_bert: Path, subjects: Corpus, tmp_path: Path) -> None:
    runs = [{"id": "full"}, {"id": "small", "layers": "lstm", "teacher": "full"}]
    asked = {"name": "x", "model": str(tiny_bert), "corpus": subjects, "tasks": ["sentence_label:number"], "runs": runs}
    grid = finetune_grid({**asked, "epochs": 1, "lr": 1e-3}, out=tmp_path, device="cpu", progress=False)
    folders = [grid.models[run]["sentence_label:number"].folder() for run in ("full", "small")]
    plans = [json.loads((folder / "plan.json").read_text()) for folder in folders]
    assert plans[1]["teacher"] == model_fingerprint(resolve_model(str(folders[0])))
    assert "teacher" not in plans[0]


def test_a_teacher_is_learned_by_the_formula(tune: Tune, tiny_bert: Path, subjects: Corpus) -> None:
    encoder = load_encoder(str(tiny_bert), device="cpu")
    task = tuning_task("sentence_label:number", subjects)
    model = build(encoder, task, FineTuneSettings(layers="all"), seed=2).model.eval()
    teacher = build(encoder, task, FineTuneSettings(layers="all"), seed=3).model.eval()
    settings = FineTuneSettings(teacher="x", teacher_weight=0.25)
    batch = {"input_ids": torch.arange(5, 35).view(3, 10), "labels": torch.tensor([0, 1, 1])}
    with torch.no_grad():
        found = Trained(model, encoder, settings, teacher=teacher).loss(batch)
        own, wanted = model(batch["input_ids"]).logits, teacher(batch["input_ids"]).logits
    expected = 0.25 * ((own - wanted) ** 2).mean() + 0.75 * functional.cross_entropy(own, batch["labels"])
    torch.testing.assert_close(found, expected)


def test_mistakes_are_one_line(tune: Tune, tmp_path: Path) -> None:
    other = tune(task="pos", corpus="pocket", sentences=30, out=tmp_path / "other")
    for changes, message in (
        ({"teacher": str(other.path)}, "it predicts pos, with other labels than sentence_label:number: give another"),
        ({"teacher": str(tmp_path)}, "no such file"),
        ({"sparsity": 0.5, "layers": "top:1"}, "which needs layers all, not top:1"),
        ({"sparsity": 0.5, "gate_penalty": 0.1}, "which goes without sparsity: give one of the two"),
        ({"gate_penalty": 0.1, "layers": "lora"}, "which needs layers all, not lora"),
    ):
        with pytest.raises(BertologyError, match=message):
            tune(**changes)
    teacher = tune(out=tmp_path / "teacher").path
    with pytest.raises(BertologyError, match="a head on a frozen encoder learns labels alone"):
        tune(layers="none", teacher=str(teacher))
    small = tune(layers="lstm", out=tmp_path / "small")
    with pytest.raises(BertologyError, match="LstmForSequenceClassification is no class of transformers"):
        compress(small.folder(), "magnitude", share=0.5, out=tmp_path / "pruned")
