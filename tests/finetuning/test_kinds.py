"""Tags, numbers, pairs and answers: items become inputs and predictions become items again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertology import Corpus, Encoder, load_corpus, probe
from bertology.corpora import Sentences, question_sentence
from bertology.finetuning._items import Collator, Inputs, TuningTask, encode, predictions, tuning_task
from tests.finetuning.conftest import Tune

WORDS = ["the", "boy", "girl", "king", "queen", "sees", "hears", "a", "dog", "cat", "bird", "old"]


class Oracle(torch.nn.Module):
    """A model that gives the labels of its inputs as logits."""

    def __init__(self, inputs: Inputs, n_outputs: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.label_of = {tuple(row.ids.tolist()): row.label for row in inputs.rows}
        self.n_outputs = n_outputs

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any) -> dict[str, torch.Tensor]:
        logits = torch.zeros(*input_ids.shape, self.n_outputs)
        for line, ids, mask in zip(logits, input_ids, attention_mask, strict=True):
            label = self.label_of[tuple(ids[mask.bool()].tolist())]
            if isinstance(label, tuple):
                line[label[0], 0] = line[label[1], 1] = 5
            else:
                line[range(len(label)), np.maximum(label, 0)] = 5
        return {"logits": logits}


def ask(task: TuningTask, encoder: Encoder, split: str = "train", **options: Any) -> Any:
    options = {"max_pieces": None, "stride": 4, **options}
    inputs = encode(task, task.splits[split], encoder, **options)
    collator = Collator(task, pad_id=encoder.pad_id, states=None)
    oracle = Oracle(inputs, len(task.labels) or 2)
    return inputs, predictions(oracle, task, inputs, collator)[0]


@pytest.mark.parametrize("max_pieces", [None, 12])
def test_labels_of_words_come_back_from_their_windows(encoder: Encoder, tiny_corpus: Path, max_pieces: int) -> None:
    task = tuning_task("pos", load_corpus(tiny_corpus))
    inputs, found = ask(task, encoder, max_pieces=max_pieces)
    assert len(found) == load_corpus(tiny_corpus)["train"].n_words
    assert (found["gold"] == found["pred"]).all()
    assert (len(inputs.rows) > 80) == (max_pieces is not None)


def questions(dice: np.random.Generator, n: int, *, unanswered: bool = False) -> Sentences:
    made = []
    for number in range(n):
        words = dice.choice(WORDS, 14).tolist()
        place = int(dice.integers(len(words)))
        text = " ".join(words)
        start = len(" ".join(words[:place])) + (place > 0)
        answers = [] if unanswered and number % 3 == 0 else [(words[place], start)]
        made.append(question_sentence("the dog sees?", text, answers, name=f"q{number}"))
    return Sentences(made)


@pytest.mark.parametrize("unanswered", [False, True])
@pytest.mark.parametrize("max_pieces", [None, 30])
def test_answers_come_back_from_their_windows(encoder: Encoder, unanswered: bool, max_pieces: int | None) -> None:
    dice = np.random.default_rng(1)
    splits = {name: questions(dice, 24, unanswered=unanswered) for name in ("train", "dev")}
    task = tuning_task("span", Corpus("questions", splits))
    assert task.has_unanswered == unanswered
    inputs, found = ask(task, encoder, max_pieces=max_pieces)
    assert (len(inputs.rows) > 24) == (max_pieces is not None)
    gold = [answers[0].label if answers else "" for answers in task.splits["train"].table["answers"]]
    assert found["pred"].tolist() == gold
    assert found["gold"].iloc[1] == f'["{gold[1]}"]'


def test_an_answer_is_found_where_it_begins_within_a_word(encoder: Encoder) -> None:
    sentence = question_sentence("who?", "the boy sees 1990s dogs", [("990", 14)], name="q")
    task = tuning_task("span", Corpus("one", {"train": Sentences([sentence]), "dev": Sentences([sentence])}))
    inputs, found = ask(task, encoder)
    [row] = inputs.rows
    assert row.offsets is not None
    first, last = row.label
    assert row.offsets[first, 0] <= 14 <= row.offsets[last, 1] - 3
    assert "990" in found["pred"].iloc[0]


def test_tags_of_words_are_learned_and_the_folder_can_be_probed(tune: Tune, tiny_corpus: Path) -> None:
    tuned = tune(corpus=str(tiny_corpus), task="pos", model="pocket", epochs=2, lr=1e-3)
    scores = tuned.table("test").set_index("metric")["value"]
    assert scores["accuracy"] > 0.8
    probed = probe("pos", model=str(tuned.folder()), corpus=str(tiny_corpus), controls="none", layers=[4])
    assert probed.view().tables[0].lines[0].main.value > 0.7


def test_entities_are_scored_by_their_boundaries(tune: Tune) -> None:
    tagged = [(["the", "king", "sees", "a", "dog"], ["O", "B-PER", "O", "B-ANI", "I-ANI"])] * 12
    table = {"words": [words for words, _ in tagged], "ner": [tags for _, tags in tagged]}
    tuned = tune(corpus=dict.fromkeys(("train", "dev"), table), task="ner", model="pocket", epochs=8, lr=1e-3)
    assert tuned.table("dev").set_index("metric")["value"]["entity_f1"] == 1


def test_numbers_of_pairs_are_regressed(tune: Tune) -> None:
    dice = np.random.default_rng(2)
    drawn = [(dice.choice(WORDS, 4).tolist(), dice.choice(WORDS, 4).tolist()) for _ in range(120)]
    records = [
        {"text": " ".join(one), "text2": " ".join(two), "label": float(one.count("dog") + one.count("cat"))}
        for one, two in drawn
    ]
    corpus = load_corpus({"train": records[:80], "dev": records[80:]})
    tuned = tune(corpus=corpus, task="pair_number:label", model="pocket", epochs=4)
    scores = tuned.table("dev").set_index("metric")
    assert scores.index.tolist() == ["pearson", "spearman", "r2"]
    assert scores.loc["pearson", "ci_low"] > 0.3


def test_two_texts_are_two_segments(encoder: Encoder) -> None:
    records = [{"text": "the dog", "text2": "a cat sees", "label": name} for name in ("no", "yes")] * 6
    task = tuning_task("pair_label:label", load_corpus({"train": records, "dev": records}))
    row = encode(task, task.splits["train"], encoder, max_pieces=None, stride=0).rows[0]
    direct = encoder.tokenizer("the dog", "a cat sees")
    assert row.ids.tolist() == direct["input_ids"]
    assert row.types is not None
    assert row.types.tolist() == direct["token_type_ids"]
    parts = [encoder.tokenizer.decode(row.ids[row.segments == part]) for part in (0, 1)]
    assert parts == ["the dog", "a cat sees"]
    assert task.labels == ("no", "yes")


def test_a_long_text_is_cut_and_counted(encoder: Encoder) -> None:
    texts = [("the dog sees " * 30, "long"), ("the dog", "short")] * 6
    task = tuning_task("sentence_label:label", load_corpus({"train": texts, "dev": texts}))
    inputs = encode(task, task.splits["train"], encoder, max_pieces=16, stride=0)
    assert inputs.n_cut == 6
    assert max(map(len, inputs.rows)) == 16
    assert encoder.tokenizer.backend_tokenizer.truncation is None
