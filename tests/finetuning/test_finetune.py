"""Fine-tuning learns what can be learned and nothing else, changes the layers it should, and leaves whole folders."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import peft
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer, DebertaV2Config

from bertology import Corpus, load_encoder, probe
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.sources import quiet_loading
from bertology.finetuning import _training, read_finetuned
from tests.finetuning.conftest import SIZES, Tune, labelled, numbered


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_encoder(str(folder), device="cpu").model.body.state_dict()


def test_a_decidable_label_is_learned_and_a_random_one_is_not(tune: Tune, tmp_path: Path) -> None:
    corpus = numbered({"train": 240, "dev": 60, "test": 100})
    learned = tune(corpus=corpus, model="pocket", epochs=2, batch_size=32, seeds=2)
    table = learned.table("test").set_index("metric")
    assert table.loc["accuracy", "value"] > 0.9
    assert table.loc["accuracy", "ci_low"] < table.loc["accuracy", "value"] <= table.loc["accuracy", "ci_high"]
    assert (table["n_seeds"] == 2).all()
    by_seed = [learned.records[seed].scores["test"]["accuracy"]["value"] for seed in (1, 2)]
    assert table.loc["accuracy", "value"] == pytest.approx(np.mean(by_seed))

    dice = np.random.default_rng(3)

    def at_random(sentences: Sentences) -> Sentences:
        return Sentences(labelled(sentence, "number", str(dice.integers(2))) for sentence in sentences)

    noise = replace(corpus, splits={name: at_random(split) for name, split in corpus.splits.items()})
    unlearned = tune(corpus=noise, model="pocket", epochs=2, batch_size=32, out=tmp_path / "noise")
    table = unlearned.table("test").set_index("metric")
    assert table.loc["accuracy", "ci_low"] < 0.65
    low, high = table.loc["matthews", ["ci_low", "ci_high"]]
    assert low <= 0 <= high or table.loc["matthews", "value"] == 0  # one label for all: no interval

    # A probe of the label rises in the last layer by the tuning on it, and not by that on random labels.
    models = {"before": "pocket", "tuned": learned.folder(), "random": unlearned.folder()}
    asked = {"corpus": corpus, "layers": [4], "controls": "none", "seeds": 1, "progress": False}
    rows = {
        name: next(row for row in probe("sentence_label:number", model=model, **asked).rows if row.main_metric)
        for name, model in models.items()
    }
    assert rows["tuned"].ci_low > max(rows["before"].value, rows["random"].value)
    assert rows["random"].ci_low <= rows["before"].value


def test_the_folder_is_whole(tune: Tune) -> None:
    tuned = tune(epochs=2)
    folder = tuned.folder()
    record = json.loads((folder / "finetune.json").read_text(encoding="utf-8"))
    assert [entry["epoch"] for entry in record["history"]] == [1, 2]
    assert record["history"][0].keys() == {"epoch", "step", "train_loss", "dev"}
    assert record["settings"]["lr"] == 1e-3
    assert record["n_items"] == SIZES
    assert record["n_trained"] == record["n_weights"] > 0
    frame = tuned.predictions()
    assert frame["split"].value_counts().to_dict() == {"dev": 40, "test": 40}
    dev = frame[frame["split"] == "dev"]
    assert (dev["gold"] == dev["pred"]).mean() == record["scores"]["dev"]["accuracy"]["value"]
    assert (np.exp(dev["score"]) <= 1).all()
    assert record["history"][-1]["dev"]["accuracy"] == record["scores"]["dev"]["accuracy"]["value"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "sentence_label:number" in card
    [line] = [
        line for line in re.sub(" +", " ", card).splitlines() if "| accuracy, % |" in line and "majority" not in line
    ]
    assert f" {100 * record['scores']['dev']['accuracy']['value']:.1f} [" in line
    assert "lr: 0.001" in card
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert names == ["checkpoint-16", "checkpoint-8"]
    last = weights(folder / "checkpoints" / "checkpoint-16")
    assert all(torch.equal(value, last[name]) for name, value in weights(folder).items())
    kept = {path.suffix for path in (folder / "checkpoints").glob("*/*")}
    assert not kept & {".pt", ".pth", ".bin"}
    own = AutoModelForSequenceClassification.from_pretrained(folder)
    assert own.config.id2label == {0: "Plur", 1: "Sing"}
    again = read_finetuned(tuned.path)
    assert again.seeds == (1,)
    assert again.table().equals(tuned.table())


def test_the_majority_of_train_stands_beside_the_scores(tune: Tune, subjects: Corpus) -> None:
    tuned, train = tune(), [sentence.targets["number"][0].labels[0] for sentence in subjects["train"]]
    frame, label = tuned.predictions(), max(set(train), key=train.count)
    right = {split: (of_split["gold"] == label).mean() for split, of_split in frame.groupby("split")}
    shown = tuned.to_markdown()
    lines = re.sub(" +", " ", shown).splitlines()
    [line] = [line for line in lines if line.startswith("| majority of train | accuracy, %")]
    for split in ("dev", "test"):
        assert tuned.records[1].majority[split]["accuracy"] == pytest.approx(right[split])
        assert f" {100 * right[split]:.1f} |" in line
    # The tiny model learns nothing in one epoch, and the table and the model card say so.
    said = f"seed 1 predicts {label} for every item of test: it has learned nothing of the task"
    assert set(frame["pred"]) == {label}
    assert said in shown
    assert said in (tuned.folder() / "README.md").read_text(encoding="utf-8")


def test_a_saved_model_gives_the_scores_of_its_record(tune: Tune, subjects: Corpus) -> None:
    tuned = tune(layers="none", features="sum_all")
    found = tuned.evaluate(subjects, split="dev", device="cpu").set_index("metric")["value"].to_dict()
    assert found == pytest.approx({name: score["value"] for name, score in tuned.record.scores["dev"].items()})


def test_layers_up_to_k_stay_as_they_were(tune: Tune, tiny_bert: Path, tmp_path: Path) -> None:
    before, after = weights(tiny_bert), weights(tune(layers="frozen:2").folder())
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert changed
    assert all(name.startswith("encoder.layer.2.") for name in changed)
    top = weights(tune(layers="top:1", out=tmp_path / "top").folder())
    assert all(torch.equal(value, top[name]) for name, value in after.items())


def test_a_frozen_encoder_reads_each_text_once(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = Encoder.hidden_states

    def counted(self: Encoder, input_ids: Any, *args: Any, **options: Any) -> Any:
        read.append(len(input_ids))
        return real(self, input_ids, *args, **options)

    monkeypatch.setattr(Encoder, "hidden_states", counted)
    asked: dict[str, Any] = {"layers": "none", "features": "sum_all", "epochs": 3, "seeds": 2, "lr": 0.05}
    kept = tune(**asked, out=tmp_path / "kept")
    n_items = next(iter(kept.records.values())).n_items
    n_of_test = sum(number for name, number in n_items.items() if name not in ("train", "dev"))
    assert sum(read) == n_items["train"] + n_items["dev"] + 2 * n_of_test
    # Where they take too much memory, they are read in each epoch, to the same scores.
    read.clear()
    monkeypatch.setattr(_training, "_MOST_KEPT", 0)
    again = tune(**asked, out=tmp_path / "again")
    assert sum(read) == 2 * (3 * (n_items["train"] + n_items["dev"]) + n_items["dev"] + n_of_test)
    pd.testing.assert_frame_equal(kept.table(), again.table(), atol=0.01)


@pytest.mark.parametrize("features", ["embeddings", "layer:1"])
def test_a_frozen_encoder_stays_bit_for_bit(tune: Tune, tiny_bert: Path, features: str) -> None:
    tuned = tune(layers="none", features=features, epochs=1)
    before, after = weights(tiny_bert), weights(tuned.folder())
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    record = tuned.records[1]
    assert record.n_trained == 2 * (32 + 1)
    assert record.mix_weights is None


@pytest.mark.parametrize(("family", "layers"), [("bert", "lora"), ("deberta-v2", "ia3")])
def test_peft_loads_adapters_to_the_same_model(
    tune: Tune, tiny_bert: Path, layers: str, family: str, tmp_path: Path
) -> None:
    """All that was drawn anew is with them: a pooler that the model lacks, the head and what lies below it."""
    base = tiny_bert if family == "bert" else tiny_deberta(tiny_bert, tmp_path / family)
    tuned = tune(model=base, layers=layers, lr=0.05)
    adapter, text = tuned.folder() / "adapter", "the dogs see a cat"
    assert json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base.resolve())
    kind: Any = AutoModelForSequenceClassification
    torch.manual_seed(5)
    with quiet_loading():
        plain = peft.PeftModel.from_pretrained(kind.from_pretrained(base, num_labels=2), adapter).eval()
    read = AutoTokenizer.from_pretrained(tuned.folder())([text], return_tensors="pt")
    with torch.no_grad():
        expected = kind.from_pretrained(tuned.folder()).eval()(**read).logits
        torch.testing.assert_close(plain(**read).logits, expected, rtol=1e-5, atol=1e-5)
    ours = load_encoder(str(adapter), device="cpu").task_output(**read).logits
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def tiny_deberta(tiny_bert: Path, folder: Path) -> Path:
    """A tiny model of another family with the tokenizer of the tiny BERT."""
    plain = {"vocab_size": 478, "pad_token_id": 0}
    plain |= {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
    AutoModelForMaskedLM.from_config(DebertaV2Config(**plain)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copy(tiny_bert / name, folder / name)
    return folder


def test_a_finished_seed_is_left_as_it_is(tune: Tune) -> None:
    tuned = tune()
    before = {path: path.stat().st_mtime_ns for path in tuned.folder().rglob("*") if path.name != ".lock"}
    both = tune(seeds=2)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert both.seeds == (1, 2)
    assert not torch.equal(*(next(iter(weights(both.folder(seed)).values())) for seed in (1, 2)))
