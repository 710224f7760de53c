"""Challenge sets: scores by group are those of a loop by hand, and labels of models stand for labels of sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bertology import BertologyError, Corpus, FineTuned, Results, finetune, probe
from bertology.corpora import Sentences, Target
from bertology.errors import CorpusError
from bertology_probes.challenge import Challenge
from tests.finetuning.conftest import numbered

NOUNS = ("dog", "cat", "bird", "king", "queen", "boy")
Three = ("contradiction", "entailment", "neutral")
CORPUS = numbered({"train": 160, "dev": 40, "test": 60})


def hans() -> pd.DataFrame:
    """Pairs of the published form, two thirds of them not entailed, of three templates."""
    rows = []
    for one in NOUNS:
        for other in (noun for noun in NOUNS if noun != one):
            pair = f"the {one} sees the {other}", f"the {other} sees the {one}"
            rows.append(("non-entailment", *pair, "lexical_overlap", "ln_swap", "t1"))
            rows.append(
                ("entailment", f"the {one} and the {other} sing", f"the {one} sings", "subsequence", "se", "t2")
            )
            rows.append(("non-entailment", f"the {one} sees", f"the {other} sees the {one}", "subsequence", "sn", "t3"))
    return pd.DataFrame(rows, columns=["gold_label", "sentence1", "sentence2", "heuristic", "subcase", "template"])


@pytest.fixture
def classifier(tiny_bert: Path, tmp_path: Path) -> Path:
    """A model folder with a random head that gives pairs one of the labels of NLI."""
    torch.manual_seed(1)
    names = dict(enumerate(Three))
    model = AutoModelForSequenceClassification.from_pretrained(tiny_bert, num_labels=3, id2label=names)
    torch.nn.init.normal_(model.classifier.weight)
    model.save_pretrained(tmp_path / "nli")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "nli")
    return tmp_path / "nli"


def ask(model: Any, corpus: Any, task: str = "challenge", **options: Any) -> Results:
    return probe(task, model=model, corpus=corpus, device="cpu", progress=False, **options)


def accuracies(results: Results, control: str = "none") -> dict[str, tuple[float | None, int]]:
    """Accuracy and number of items by group, of all under an empty name."""
    return {row.group or "": (row.value, row.n_items) for row in results.rows if row.control == control}


def test_accuracies_by_group_are_those_of_a_loop_by_hand(classifier: Path, tmp_path: Path) -> None:
    frame, right = hans(), []
    model = AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    tokenizer = AutoTokenizer.from_pretrained(classifier)
    for row in frame.itertuples():
        with torch.no_grad():
            decided = Three[int(model(**tokenizer(row.sentence1, row.sentence2, return_tensors="pt")).logits.argmax())]
        right.append((decided == "entailment") == (row.gold_label == "entailment"))
    frame["right"] = right
    assert 0.1 < frame["right"].mean() < 0.9
    expected = {"": frame}
    expected |= {f"label {name}": part for name, part in frame.groupby("gold_label")}
    for column in ("heuristic", "subcase"):
        expected |= {f"{column} {name}": part for name, part in frame.groupby(column)}
    pairs = frame.groupby(["heuristic", "gold_label"])
    expected |= {f"{heuristic} × {label}": part for (heuristic, label), part in pairs}
    path = tmp_path / "hans.tsv"
    hans().to_csv(path, sep="\t", index=False)
    for model_given, corpus in ((str(classifier), str(path)), ((model, tokenizer), hans())):
        results = ask(model_given, corpus)
        assert accuracies(results) == {
            name: (pytest.approx(part["right"].mean()), len(part)) for name, part in expected.items()
        }
        baseline = accuracies(results, "majority")
        assert baseline[""] == (pytest.approx(2 / 3), 90)
        assert baseline["subsequence × entailment"] == (0, 30)
        [whole] = [row for row in results.rows if row.control == "none" and row.group is None]
        assert (whole.n_clusters, whole.param("clusters"), whole.layer) == (3, "templates", 3)
        assert whole.param("labels").endswith("neutral → non-entailment")
        text = results.view().to_text()
        assert "lexical_overlap × non-entailment" in text
        assert "majority (oracle)" in text


def grouped(corpus: Corpus) -> Corpus:
    """The test sentences with their labels, and as often with the other label, in groups of their own."""
    texts = []
    for sentence in corpus["test"]:
        [target] = sentence.targets["number"]
        for kind, label in (("as is", target.label), ("turned", "Sing" if target.label == "Plur" else "Plur")):
            targets = {"label": (Target(target.span1, label),), "heuristic": (Target(target.span1, kind),)}
            texts.append(replace(sentence, id=f"{sentence.id} {kind}", targets=targets))
    return Corpus("turned", {"test": Sentences(texts)})


@pytest.mark.parametrize("layers", ["top:2", "none"])
def test_a_model_that_learned_a_label_is_right_where_it_is_kept(tmp_path: Path, layers: str) -> None:
    how: dict[str, Any] = {"device": "cpu", "progress": False, "lr": 2e-3, "layers": layers}
    tuned = finetune("pocket", CORPUS, task="sentence_label:number", out=tmp_path, epochs=4, **how)
    score = tuned.table("test").set_index("metric")["value"]["accuracy"]
    assert score > 0.7
    found = accuracies(ask(str(tuned.folder()), grouped(CORPUS), controls="none"))
    assert found["heuristic as is"] == (pytest.approx(score), 60)
    assert found["heuristic turned"] == (pytest.approx(1 - score), 60)
    assert found[""] == (0.5, 120)


@pytest.fixture
def lora(tiny_bert: Path, tmp_path: Path) -> FineTuned:
    how: dict[str, Any] = {"layers": "lora", "epochs": 1, "device": "cpu", "progress": False}
    return finetune(tiny_bert, CORPUS, task="sentence_label:number", out=tmp_path / "lora", **how)


def test_an_adapter_decides_as_the_model_it_is_merged_into(lora: FineTuned) -> None:
    folder, readout = lora.folder(), {"settings": {"labels": {"LABEL_0": "Plur", "LABEL_1": "Sing"}}}
    whole = accuracies(ask(str(folder), grouped(CORPUS)))
    assert accuracies(ask(str(folder / "adapter"), grouped(CORPUS), readout=readout)) == whole


def test_labels_stand_for_those_of_the_set() -> None:
    gold = {"entailment", "non-entailment"}
    assert Challenge().label_of(("ENTAILMENT", "not_entailment"), gold) == {
        "ENTAILMENT": "entailment",
        "not_entailment": "non-entailment",
    }
    assert set(Challenge().label_of(Three, gold).values()) == gold
    assert Challenge().label_of(Three, set(Three)) == {name: name for name in Three}
    own = Challenge(labels={"a": "entailment", "b": "non-entailment"})
    assert own.label_of(("a", "b"), gold)["b"] == "non-entailment"
    for asked, labels, message in (
        (Challenge(labels="own"), Three, r"no label of the model \(contradiction, entailment, neutral\) .*'non-ent"),
        (Challenge(), ("LABEL_0", "LABEL_1"), r"\(LABEL_0, LABEL_1\) stands for label 'entailment' of the set: set la"),
        (own, ("a", "b", "c"), "label 'c' of the model stands for none of entailment, non-entailment"),
        (own, ("a", "c"), "unknown label of the model 'b'"),
    ):
        with pytest.raises(BertologyError, match=message):
            asked.label_of(labels, gold)


def test_what_cannot_be_scored_is_one_line(classifier: Path, tiny_bert: Path, tmp_path: Path, lora: FineTuned) -> None:
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: ask(str(tiny_bert), hans()), "it has no head that gives a text one of several labels"),
        (lambda: ask(str(lora.folder()), hans()), "fine-tuned for sentence_label:number: give one for labels of such"),
        (lambda: ask(str(classifier), {"train": hans(), "test": hans()}), "a table was due, not splits"),
        (lambda: ask(str(classifier), CORPUS), "has splits, train, dev, test: give the file of one"),
        (lambda: ask(str(classifier), hans(), "challenge:labels"), "no span has a label in layer 'labels'"),
        (lambda: ask(str(classifier), hans(), "challenge:subcase"), "stands for label 'ln_swap' of the set"),
        (lambda: ask(str(classifier), hans(), readout={"settings": {"subcase": "case"}}), "column of the set 'case'"),
    ]
    for asked, message in cases:
        with pytest.raises((BertologyError, CorpusError), match=message) as raised:
            asked()
        assert "\n" not in str(raised.value)
