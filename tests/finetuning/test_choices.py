"""Multiple choice: tables become items, items become inputs of a model, and a right continuation can be learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMultipleChoice, AutoTokenizer

from bertology import Encoder, load_corpus
from bertology.errors import BertologyError, CorpusError
from bertology.finetuning import _run
from bertology.finetuning._items import Collator, encode, output_of, tuning_task
from bertology.pocket import load_corpus as load_pocket
from tests.finetuning.conftest import Tune

SIZES = {"train": 160, "dev": 60}
TEXTS = ["sees", "a cat sees", "a"]
ROWS = [{"text": f"the dog {n}", "choices": TEXTS[: 2 + n % 2], "label": n % 2 * (1 + n // 2 % 2)} for n in range(12)]
PAIRS = [("a dog", "a cat", "yes"), ("a", "b", "no")] * 8


def continuations(split: str, n: int) -> list[dict[str, Any]]:
    """Beginnings of sentences of the pocket world with their end, and with its words in reverse, in random order."""
    dice, made = np.random.default_rng(5), []
    for sentence in load_pocket()[split]:
        half = len(sentence) // 2
        begin, end = sentence.words[:half], sentence.words[half:]
        if half > 1 and len(set(end)) > 2 and len(made) < n:
            texts, label = [" ".join(end[::-1])] * (2 + len(made) % 2), int(dice.integers(2))
            texts[label] = " ".join(end)
            made.append({"startphrase": " ".join(begin), "endings": texts, "label": label})
    return made


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def items(corpus: Any) -> list[tuple[str, list[str], str]]:
    """The first text, the others and the number of the right one of each item of train."""
    of_train = tuning_task("choice", load_corpus(corpus)).splits["train"]
    firsts, seconds, numbers = of_train.texts()
    pairs = list(zip(numbers, firsts, seconds or firsts, strict=True))
    of_items = [[pair for pair in pairs if pair[0] == item] for item in range(len(of_train))]
    return [(one[0][1], [text for *_, text in one], gold) for one, gold in zip(of_items, of_train.gold, strict=True)]


def test_the_published_form_of_swag_and_lists_are_recognised(tmp_path: Path) -> None:
    row = {"": 0, "startphrase": "She opens the door. Someone", "sent1": "x", "sent2": "y", "gold-source": "gold"}
    row |= {f"ending{number}": f"walks {number}" for number in range(4)}
    frame = pd.DataFrame([{**row, "label": label} for label in (2, 0, 3)] * 4)
    for split in ("train", "dev"):
        frame.to_csv(tmp_path / f"{split}.csv", index=False)
    found = items(str(tmp_path))
    assert found[0] == ("She opens the door. Someone", [f"walks {number}" for number in range(4)], "3")
    named = "text=startphrase,choice=ending3+ending1,label=label"
    with pytest.raises(CorpusError, match=r"train\.csv:2: column 'label': found '2'; expected .* 0 to 1"):
        load_corpus(str(tmp_path), columns=named)
    texts = [{**one, "label": one["choices"][one["label"]]} for one in ROWS]
    from_one = [{**one, "label": one["label"] + 1} for one in ROWS]
    for rows in (ROWS, texts, from_one):
        lists = items({"train": rows, "dev": rows})
        assert lists[:2] == [
            ("the dog 0", ["sees", "a cat sees"], "1"),
            ("the dog 1", ["sees", "a cat sees", "a"], "2"),
        ]
    note = tuning_task("choice", load_corpus({"train": texts, "dev": texts})).notes[-1]
    assert note.endswith("whose label in data in memory is 'sees', is 1")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"label": 3}, "row 2: column 'label': found 3; expected the number of a choice, 0 to 1"),
        ({"label": "runs"}, "row 2: column 'label': .*expected the number of a choice, or in all rows its text"),
        ({"choices": ["sees"]}, "row 2: column 'choices': .*expected a list of two choices or more"),
        ({"choices": ["sees", ""]}, "row 2: column 'choices': found nothing; expected a text"),
        ({"choices": ["sees", None]}, "row 2: column 'choices': .*expected a text"),
        ({"choices": "sees it"}, "row 2: column 'choices': .*expected a list of two choices"),
    ],
)
def test_a_mistake_names_the_row(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    texts = isinstance(changed.get("label"), str)
    rows = [{**row, "label": str(row["label"])} if texts else row for row in ROWS]
    path = write(tmp_path / "train.jsonl", [*rows[:2], {**rows[2], **changed}, *rows[3:]])
    with pytest.raises(CorpusError, match=message.replace("row 2", r"train\.jsonl:3")):
        load_corpus(path)


def test_numbers_that_may_count_from_0_or_1_are_refused() -> None:
    rows = [{"text": "a dog", "choices": ["a", "b", "c", "d"], "label": 1 + n % 2} for n in range(12)]
    with pytest.raises(CorpusError, match="could count choices from 0 or from 1"):
        load_corpus(rows)
    with pytest.raises(CorpusError, match="no text has choices, and the right one in column 'label'"):
        tuning_task("choice", load_corpus({"train": PAIRS, "dev": PAIRS}))


def test_the_loss_is_over_the_choices_that_an_item_has(encoder: Encoder, tiny_bert: Path) -> None:
    task = tuning_task("choice", load_corpus({"train": ROWS, "dev": ROWS}))
    inputs = encode(task, task.splits["train"], encoder, max_pieces=None, stride=0)
    torch.manual_seed(3)
    model = AutoModelForMultipleChoice.from_pretrained(tiny_bert).eval()
    batch = Collator(task, pad_id=encoder.pad_id, states=None)(inputs.rows[:4])
    assert batch["input_ids"].shape[:2] == (4, 3)
    output, losses = output_of(model, batch), []
    for row, logits in zip(ROWS[:4], output["logits"], strict=True):
        pairs = [encoder.tokenizer(row["text"], choice, return_tensors="pt") for choice in row["choices"]]
        alone = torch.cat([model(**{name: one[None] for name, one in pair.items()}).logits[0] for pair in pairs])
        assert torch.allclose(alone, logits[: len(alone)], atol=1e-5)
        losses.append(-alone.log_softmax(0)[row["label"]])
    assert output["loss"].item() == pytest.approx(torch.stack(losses).mean().item(), abs=1e-5)


def test_a_right_continuation_is_learned_and_transformers_reads_the_model(tune: Tune, tmp_path: Path) -> None:
    rows = {split: continuations(split, n) for split, n in SIZES.items()}
    for split, some in rows.items():
        write(tmp_path / f"{split}.jsonl", some)
    tuned = tune(corpus=str(tmp_path), task="choice", model="pocket", epochs=3)
    score = tuned.table("dev").set_index("metric").loc["accuracy"]
    assert score["ci_low"] > 0.6 > tuned.record.majority["dev"]["accuracy"]
    model = AutoModelForMultipleChoice.from_pretrained(tuned.folder()).eval()
    tokenizer, found = AutoTokenizer.from_pretrained(tuned.folder()), tuned.predictions()
    assert set(found["pred"]) >= {"1", "2"}
    for row, (gold, pred, log_prob) in zip(
        rows["dev"][:8], found[["gold", "pred", "score"]].itertuples(index=False), strict=False
    ):
        given = tokenizer([row["startphrase"]] * len(row["endings"]), row["endings"], padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = model(**{name: one[None] for name, one in given.items()}).logits[0]
        assert (gold, pred) == (str(row["label"] + 1), str(int(logits.argmax()) + 1))
        assert log_prob == pytest.approx(float(logits.log_softmax(0).max()), abs=1e-4)
    assert tuned.evaluate(str(tmp_path), split="dev", device="cpu")["value"][0] == score["value"]


@pytest.mark.parametrize("layers", ["frozen:1", "top:1", "lora", "adapters"])
def test_layers_are_trained_as_of_other_tasks(tune: Tune, layers: str) -> None:
    tuned = tune(corpus={"train": ROWS, "dev": ROWS}, task="choice:label", layers=layers)
    assert 0 < tuned.record.n_trained < tuned.record.n_weights
    found = tuned.evaluate({"dev": ROWS}, split="dev", device="cpu")
    assert found["value"][0] == tuned.record.scores["dev"]["accuracy"]["value"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"layers": "none"}, "layers none: "), ({"layers": "lstm"}, "no head for choices"), ({"teacher": ""}, "choices")],
)
def test_what_is_not_built_is_one_line(tune: Tune, tmp_path: Path, changes: dict[str, str], message: str) -> None:
    given: dict[str, Any] = {"corpus": {"train": ROWS, "dev": ROWS}, "task": "choice"}
    if "teacher" in changes:
        changes = {"teacher": str(tune(**given, out=tmp_path / "teacher").folder())}
    with pytest.raises(BertologyError, match=message):
        tune(**given, **changes)


def test_a_stopped_run_goes_on_to_the_same_weights(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"corpus": {"train": ROWS, "dev": ROWS}, "task": "choice", "epochs": 3, "batch_size": 4}
    whole, scored = tune(**given, out=tmp_path / "whole"), _run.values

    def stop(*_: Any) -> Any:
        if list((tmp_path / "stopped").glob("seed-1/checkpoints/checkpoint-*")):
            raise KeyboardInterrupt
        return scored(*_)

    monkeypatch.setattr(_run, "values", stop)
    with pytest.raises(KeyboardInterrupt):
        tune(**given, out=tmp_path / "stopped")
    monkeypatch.setattr(_run, "values", scored)
    resumed = tune(**given, out=tmp_path / "stopped")
    one, other = (load_file(tuned.folder() / "model.safetensors") for tuned in (resumed, whole))
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert resumed.record.history == whole.record.history
