"""Multiple choice: tables become items, items become inputs of a model, and a right continuation can be learned."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMultipleChoice, AutoTokenizer

from bertology import BertologyError, Encoder, load_corpus
from bertology.errors import CorpusError
from bertology.finetuning import _items
from bertology.finetuning._items import Collator, encode, output_of, tuning_task
from bertology.pocket import load_corpus as load_pocket
from tests.finetuning.conftest import Tune

TEXTS = ["sees", "a cat sees", "a"]
ROWS = [{"text": f"the dog {n}", "choices": TEXTS[: 2 + n % 2], "label": n % 2 * (1 + n // 2 % 2)} for n in range(12)]


def task_of(rows: list[Any]) -> Any:
    return tuning_task("choice", load_corpus({"train": rows, "dev": rows}))


def test_the_published_form_of_swag_and_lists_are_recognised(tmp_path: Path) -> None:
    head = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    rows = [f"{n},v,1,She sits. He,She sits.,He,gold,goes,walks,runs,sings,{n % 4}\n" for n in range(8)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.csv").write_text(head + "".join(rows), encoding="utf-8")
    train = tuning_task("choice", load_corpus(tmp_path)).splits["train"]
    assert train.gold == ["1", "2", "3", "4"] * 2
    firsts, seconds, numbers = train.texts()
    assert seconds == ["goes", "walks", "runs", "sings"] * 8
    assert (firsts[:4], numbers[:5]) == (["She sits. He"] * 4, [0, 0, 0, 0, 1])
    with pytest.raises(CorpusError, match=r"\.csv:4: column 'label': found '2'; expected the number .* 0 to 1"):
        load_corpus(tmp_path, columns="text=startphrase,choice=ending3+ending1,label=label")
    for label in (lambda row: row["label"], lambda row: row["label"] + 1, lambda row: row["choices"][row["label"]]):
        task = task_of([{**row, "label": label(row)} for row in ROWS])
        assert task.splits["train"].gold == [str(row["label"] + 1) for row in ROWS]
        assert task.splits["train"].texts()[1] == [text for row in ROWS for text in row["choices"]]
    assert task.notes[-1].endswith("whose label in data in memory is 'sees', is 1")


def test_a_mistake_names_the_row_and_what_labels_mean_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    for changed, message in (
        ({"label": 3}, "jsonl:3: column 'label': found 3; expected the number of a choice, 0 to 1"),
        ({"choices": ["sees", None]}, "jsonl:3: column 'choices': .*expected a text"),
        ({"choices": ["sees"]}, "jsonl:3: column 'choices': .*expected a list of two choices or more"),
    ):
        rows = [*ROWS[:2], {**ROWS[2], **changed}, *ROWS[3:]]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        with pytest.raises(CorpusError, match=message):
            load_corpus(path)
    for choices, message in (("abcd", "could count choices from 0 or from 1"), ("21", "could be texts of choices")):
        with pytest.raises(CorpusError, match=f"'label' {message}: give texts"):
            load_corpus([{"text": "a dog", "choices": [*choices], "label": 1 + n % 2} for n in range(12)])
    with pytest.raises(CorpusError, match="no text has choices, and the right one in column 'label'"):
        task_of([("a dog", "a cat", "yes"), ("a", "b", "no")] * 8)


def test_the_loss_is_over_the_choices_that_an_item_has(encoder: Encoder, tiny_bert: Path) -> None:
    task = task_of(ROWS)
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


def test_a_right_continuation_is_learned_and_transformers_reads_the_model(tune: Tune) -> None:
    rows: dict[str, list[dict[str, Any]]] = {"train": [], "dev": []}
    for split, some in rows.items():
        found = [one.words for one in load_pocket()[split] if len(one) > 5]
        for n, words in enumerate(found[:120]):
            end = words[len(words) // 2 :]
            texts = [" ".join(end), " ".join(end[::-1])][:: -1 if n % 2 else 1]
            some.append({"startphrase": " ".join(words[: len(words) // 2]), "endings": texts, "label": n % 2})
    tuned = tune(corpus=rows, task="choice", model="pocket", epochs=3)
    score = tuned.table("dev").set_index("metric").loc["accuracy"]
    assert score["ci_low"] > 0.6 > tuned.record.majority["dev"]["accuracy"]
    model = AutoModelForMultipleChoice.from_pretrained(tuned.folder()).eval()
    tokenizer = AutoTokenizer.from_pretrained(tuned.folder())
    for row, found in zip(rows["dev"][:8], tuned.predictions().itertuples(), strict=False):
        given = tokenizer([row["startphrase"]] * len(row["endings"]), row["endings"], padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = model(**{name: one[None] for name, one in given.items()}).logits[0]
        assert (found.gold, found.pred) == (str(row["label"] + 1), str(int(logits.argmax()) + 1))
        assert found.score == pytest.approx(float(logits.log_softmax(0).max()), abs=1e-4)
    assert tuned.evaluate(rows, split="dev", device="cpu")["value"][0] == score["value"]


@pytest.mark.parametrize("layers", ["frozen:1", "top:1", "lora", "adapters"])
def test_layers_are_trained_as_of_other_tasks(tune: Tune, layers: str) -> None:
    tuned = tune(corpus={"train": ROWS, "dev": ROWS}, task="choice:label", layers=layers)
    assert 0 < tuned.record.n_trained < tuned.record.n_weights
    again = tuned.evaluate({"dev": ROWS}, split="dev", device="cpu")["value"]
    assert again[0] == tuned.record.scores["dev"]["accuracy"]["value"]


def test_a_stopped_run_goes_on_and_what_is_not_built_is_one_line(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"corpus": {"train": ROWS, "dev": ROWS}, "task": "choice", "epochs": 2, "batch_size": 4}
    whole, scored = tune(**given, out=tmp_path / "whole"), _items.values

    def stop(*_: Any) -> Any:
        if list((tmp_path / "stopped").glob("seed-1/checkpoints/checkpoint-*")):
            raise KeyboardInterrupt
        return scored(*_)

    monkeypatch.setattr(_items, "values", stop)
    with pytest.raises(KeyboardInterrupt):
        tune(**given, out=tmp_path / "stopped")
    monkeypatch.setattr(_items, "values", scored)
    resumed = tune(**given, out=tmp_path / "stopped")
    one, other = (load_file(tuned.folder() / "model.safetensors") for tuned in (resumed, whole))
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert resumed.record.history == whole.record.history
    reasons = r"layers none: |no head for choices|nothing is learned from choices"
    for changes in ({"layers": "none"}, {"layers": "lstm"}, {"teacher": str(whole.folder())}):
        with pytest.raises(BertologyError, match=reasons):
            tune(**given, **changes, out=tmp_path / changes.get("layers", "taught"))
