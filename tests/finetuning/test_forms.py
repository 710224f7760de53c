"""Forms of fine-tuning that change what a model is: adapters, lottery tickets, gates on heads, students."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional
from transformers import AutoModelForSequenceClassification, Trainer

from bertology import Corpus, load_encoder
from bertology._machine import quiet_loading
from tests.finetuning.conftest import Tune


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


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
    frame = tuned.frame.set_index(["split", "metric"])
    score = tuned.evaluate(subjects, device="cpu").set_index("metric").loc["accuracy", "value"]
    assert score == frame.loc[("test", "accuracy"), "value"]
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


@pytest.mark.parametrize("settings", [{"layers": "adapters"}], ids=str)
def test_a_stopped_run_ends_with_the_same_weights(
    tune: Tune, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**settings, "lr": 0.01, "epochs": 2, "checkpoint_every": 3}
    whole, step, taken = tune(out=tmp_path / "whole", **settings), Trainer.training_step, itertools.count()

    def stop(self: Any, *args: Any, **kwargs: Any) -> Any:
        if next(taken) == 10:
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
