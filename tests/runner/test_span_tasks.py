"""Tasks of spans from corpus to rows: label sets, baselines, control tasks, and what was left out of a corpus."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, multilabel_confusion_matrix

from bertology.corpora import Corpus, Sentence
from bertology.families.request import ReadoutConfig
from bertology.results.predictions import read_predictions, split_sets
from bertology.runner import ProbeRequest, run_probes

SETS = (("awareness", "volition"), ("moved",), ())
NAMES = ["awareness", "moved", "volition"]
EDGE = ReadoutConfig("edge", {"projection": 8, "hidden": 8, "max_epochs": 3})
ROLES: dict[str, Any] = {"task": "edge_proto_roles", "layers": "0"}


@pytest.fixture
def roles(planted_spans: Callable[..., Corpus]) -> Corpus:
    """Pairs of spans that have any number of three properties, drawn at random."""
    return planted_spans("proto_roles", SETS, signal=False, pairs=True)


def as_truth(sets: list[tuple[str, ...]]) -> np.ndarray:
    return np.array([[name in found for name in NAMES] for found in sets])


def gold_of(corpus: Corpus, split: str) -> dict[str, tuple[str, ...]]:
    """By the name of an item its labels: the sentence, then the words of both spans, counted from 1."""

    def word(span: tuple[int, int]) -> str:
        return str(span[0] + 1) if span[1] == span[0] + 1 else f"{span[0] + 1}-{span[1]}"

    return {
        f"{sentence.id}:{word(target.span1)},{word(target.span2)}": target.label
        for sentence in corpus[split]
        for target in sentence.targets["proto_roles"]
    }


def kept_sets(run: Path, cell: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    found = read_predictions(run, cell)
    assert found.label_sets
    names, members = split_sets(found.labels)
    order = [names.index(name) for name in NAMES]
    return list(found.item_ids), members[found.gold][:, order], members[found.pred][:, order]


def test_sets_of_labels_are_scored_as_scikit_learn_scores_them(
    asking: Callable[..., ProbeRequest], roles: Corpus, tmp_path: Path
) -> None:
    results = run_probes(asking(EDGE, **ROLES, controls=("majority",)), corpus=roles, out=tmp_path / "run")
    frame = results.to_pandas()
    expected = gold_of(roles, "test")
    for cell, rows in frame.groupby("cell_id"):
        items, gold, pred = kept_sets(tmp_path / "run", str(cell))
        assert items == list(expected)
        assert (gold == as_truth(list(expected.values()))).all()
        value = dict(zip(rows.metric, rows.value, strict=True))
        assert value["micro_f1"] == pytest.approx(f1_score(gold, pred, average="micro", zero_division=0), abs=1e-12)
        macro = f1_score(gold, pred, average="macro", zero_division=0)
        assert value["macro_f1"] == pytest.approx(macro, abs=1e-12)
    scores = results.per_label("edge_proto_roles", 0)
    of_layer = frame[(frame.layer == 0) & (frame.control == "none")].cell_id.iloc[0]
    _, gold, pred = kept_sets(tmp_path / "run", of_layer)
    by_hand = multilabel_confusion_matrix(gold, pred)  # [label, gold, pred]
    for name, ((tn, fp), (fn, tp)) in zip(NAMES, by_hand, strict=True):
        row = scores.loc[name]
        assert (row.tp, row.fp, row.fn, row.tn) == (tp, fp, fn, tn)
        assert row.tp + row.fp + row.fn + row.tn == len(gold)
        assert row.support == tp + fn


def words_of(sentence: Sentence, spans: tuple[tuple[int, int], ...]) -> str:
    return "/".join(" ".join(word.lower() for word in sentence.words[first:last]) for first, last in spans)


def items_of(corpus: Corpus, split: str, layer: str) -> list[tuple[str, Any]]:
    """Each item's words and label."""
    return [
        (words_of(sentence, tuple(span for span in (target.span1, target.span2) if span)), target.label)
        for sentence in corpus[split]
        for target in sentence.targets[layer]
    ]


def test_baselines_of_sets_are_those_counted_by_hand(
    asking: Callable[..., ProbeRequest], planted_spans: Callable[..., Corpus], tmp_path: Path
) -> None:
    corpus = planted_spans("proto_roles", (*SETS, ("moved", "volition")), signal=True, pairs=True)
    request = asking(EDGE, **ROLES, controls=("majority", "word_majority"))
    frame = run_probes(request, corpus=corpus, out=tmp_path / "run").to_pandas()
    train = items_of(corpus, "train", "proto_roles")
    truth = as_truth([labels for _, labels in train])
    majority = truth.mean(axis=0) > 0.5
    predicted = {"majority": [majority] * 120, "word_majority": []}
    forms = [form for form, _ in train]
    for form, _ in items_of(corpus, "test", "proto_roles"):
        same = [place for place, other in enumerate(forms) if other == form]
        predicted["word_majority"].append(truth[same].mean(axis=0) > 0.5 if same else majority)
    for control, expected in predicted.items():
        (cell,) = frame[frame.control == control].cell_id.unique()
        _, gold, pred = kept_sets(tmp_path / "run", cell)
        assert (pred == np.array(expected)).all(), control
        (row,) = frame[(frame.control == control) & (frame.metric == "micro_f1")].itertuples()
        assert row.value == pytest.approx(f1_score(gold, np.array(expected), average="micro", zero_division=0))
