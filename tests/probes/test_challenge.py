"""Challenge sets: scores by group are those of a loop by hand, and labels of models stand for labels of sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bertology import BertologyError, Corpus, FineTuned, Results, finetune, probe
from bertology.corpora import Sentences, Target
from bertology_probes.challenge import Challenge
from tests.finetuning.conftest import numbered

THREE = ("contradiction", "entailment", "neutral")
CORPUS = numbered({"train": 160, "dev": 40, "test": 60})


def hans() -> pd.DataFrame:
    """Pairs of the published form, two thirds of them not entailed, of three templates."""
    rows, nouns = [], ("dog", "cat", "bird", "king", "queen", "boy")
    for one, other in ((one, other) for one in nouns for other in nouns if one != other):
        pair = f"the {one} sees the {other}", f"the {other} sees the {one}"
        rows.append(("non-entailment", *pair, "lexical_overlap", "ln_swap", "t1"))
        rows.append(("entailment", f"the {one} and the {other} sing", f"the {one} sings", "subsequence", "se", "t2"))
        rows.append(("non-entailment", f"the {one} sees", f"the {other} sees the {one}", "subsequence", "sn", "t3"))
    return pd.DataFrame(rows, columns=["gold_label", "sentence1", "sentence2", "heuristic", "subcase", "template"])


def turned(corpus: Corpus) -> Corpus:
    """The test sentences with their labels, and as often with the other label, in groups of their own."""
    texts = []
    for sentence in corpus["test"]:
        [target] = sentence.targets["number"]
        for kind, label in (("as is", target.label), ("turned", "Sing" if target.label == "Plur" else "Plur")):
            targets = {"label": (Target(target.span1, label),), "heuristic": (Target(target.span1, kind),)}
            texts.append(replace(sentence, id=f"{sentence.id} {kind}", targets=targets))
    return Corpus("turned", {"test": Sentences(texts)})


@pytest.fixture
def classifier(tiny_bert: Path, tmp_path: Path) -> Path:
    """A model folder with a random head that gives pairs one of the labels of NLI."""
    torch.manual_seed(1)
    names = dict(enumerate(THREE))
    model = AutoModelForSequenceClassification.from_pretrained(tiny_bert, num_labels=3, id2label=names)
    torch.nn.init.normal_(model.classifier.weight)
    model.save_pretrained(tmp_path / "nli")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "nli")
    return tmp_path / "nli"


def tune(model: str | Path, out: Path, **how: Any) -> FineTuned:
    return finetune(model, CORPUS, task="sentence_label:number", out=out, device="cpu", progress=False, **how)


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
            decided = THREE[int(model(**tokenizer(row.sentence1, row.sentence2, return_tensors="pt")).logits.argmax())]
        right.append((decided == "entailment") == (row.gold_label == "entailment"))
    frame["right"] = right
    assert 0.1 < frame["right"].mean() < 0.9
    expected = {"": frame}
    for column, name in (("gold_label", "label"), ("heuristic", "heuristic"), ("subcase", "subcase")):
        expected |= {f"{name} {group}": part for group, part in frame.groupby(column)}
    expected |= {" × ".join(group): part for group, part in frame.groupby(["heuristic", "gold_label"])}
    by_hand = {name: (pytest.approx(part["right"].mean()), len(part)) for name, part in expected.items()}
    path = tmp_path / "hans.tsv"
    hans().to_csv(path, sep="\t", index=False)
    for given, corpus in ((str(classifier), str(path)), ((model, tokenizer), hans())):
        results = ask(given, corpus)
        assert accuracies(results) == by_hand
        baseline = accuracies(results, "majority")
        assert (baseline[""], baseline["subsequence × entailment"]) == ((pytest.approx(2 / 3), 90), (0, 30))
        whole = next(row for row in results.rows if row.control == "none" and row.group is None)
        assert (whole.n_clusters, whole.param("clusters"), whole.layer) == (3, "templates", 3)
        assert whole.param("labels").endswith("neutral → non-entailment")


@pytest.mark.parametrize("layers", ["top:2", "none"])
def test_a_model_that_learned_a_label_is_right_where_it_is_kept(tmp_path: Path, layers: str) -> None:
    tuned = tune("pocket", tmp_path, layers=layers, lr=2e-3, epochs=4)
    score = tuned.table("test").set_index("metric")["value"]["accuracy"]
    assert score > 0.7
    found = accuracies(ask(str(tuned.folder()), turned(CORPUS), controls="none"))
    by_hand = {"as is": (pytest.approx(score), 60), "turned": (pytest.approx(1 - score), 60)}
    assert {name: found[f"heuristic {name}"] for name in by_hand} == by_hand


def test_labels_stand_for_those_of_the_set() -> None:
    gold, two = {"entailment", "non-entailment"}, ("ENTAILMENT", "not_entailment")
    assert Challenge().label_of(two, gold) == dict(zip(two, sorted(gold), strict=True))
    assert Challenge().label_of(THREE, set(THREE)) == {name: name for name in THREE}
    own = Challenge(labels={"a": "entailment", "b": "non-entailment"})
    for asked, labels, message in (
        (Challenge(labels="own"), THREE, r"no label of the model \(contradiction, entailment, neutral\) .*'non-ent"),
        (Challenge(), ("LABEL_0", "LABEL_1"), r"\(LABEL_0, LABEL_1\) stands for label 'entailment' of the set: set la"),
        (own, ("a", "b", "c"), "label 'c' of the model stands for none of entailment, non-entailment"),
    ):
        with pytest.raises(BertologyError, match=message):
            asked.label_of(labels, gold)


def test_adapters_and_what_cannot_be_scored(classifier: Path, tiny_bert: Path, tmp_path: Path) -> None:
    lora = tune(tiny_bert, tmp_path / "lora", layers="lora", epochs=1).folder()
    readout = {"settings": {"labels": {"LABEL_0": "Plur", "LABEL_1": "Sing"}}}
    whole = accuracies(ask(str(lora), turned(CORPUS)))
    assert accuracies(ask(str(lora / "adapter"), turned(CORPUS), readout=readout)) == whole
    for given, message in (
        ((str(tiny_bert), hans()), "it has no head that gives a text one of several labels"),
        ((str(lora), hans()), "fine-tuned for sentence_label:number: give one for labels of such"),
        ((str(classifier), CORPUS), "has splits, train, dev, test: give the file of one"),
        ((str(classifier), hans(), "challenge:labels"), "no span has a label in layer 'labels'"),
        ((str(classifier), hans(), "challenge:subcase"), "stands for label 'ln_swap' of the set"),
    ):
        with pytest.raises(BertologyError, match=f"^.*{message}.*$"):
            ask(*given)
    with pytest.raises(BertologyError, match="column of the set 'case'"):
        ask(str(classifier), hans(), readout={"settings": {"subcase": "case"}})
