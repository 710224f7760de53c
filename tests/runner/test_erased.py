"""A task read off vectors from which another, or itself, has been taken out."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError, FitError
from bertology.families.request import ReadoutConfig
from bertology.runner import ProbeRequest, run_probes

TAGS = ("NOUN", "VERB", "ADJ")
EDGE = {"projection": 0, "classifier": "linear", "pooling": "mean", "max_epochs": 4}


@pytest.fixture
def same_everywhere(toy: Corpus) -> Corpus:
    """A corpus scored on what it is fitted on: of that an erasure leaves exactly nothing to a linear readout."""
    return replace(toy, splits={"train": toy["train"], "dev": toy["train"], "test": toy["train"]})


def accuracies(request: ProbeRequest, corpus: Corpus) -> dict[str, float]:
    """By what is erased."""
    frame = run_probes(request, corpus=corpus).to_pandas()
    frame = frame[frame.metric == "accuracy"]
    settings = [json.loads(params).get("settings", {}) for params in frame.params_json]
    return {f"{one.get('erase')} {one.get('eraser')}": value for one, value in zip(settings, frame.value, strict=True)}


def majority(corpus: Corpus) -> float:
    tags = [tag for sentence in corpus["test"] for tag in sentence.layers["upos"]]
    return max(tags.count(tag) for tag in TAGS) / len(tags)


@pytest.mark.parametrize("readout", ["linear", "edge"])
def test_what_is_erased_is_gone_and_any_directions_are_not(
    asking: Callable[..., ProbeRequest], same_everywhere: Corpus, readout: str
) -> None:
    settings: dict[str, Any] = {"strengths": [0.1]} if readout == "linear" else {**EDGE, "learning_rate": 0.02}
    readings = [
        ReadoutConfig(readout, settings),
        ReadoutConfig(readout, settings, erase="pos"),
        ReadoutConfig(readout, settings, erase="pos", eraser="random"),
    ]
    found = accuracies(asking(*readings, layers="0"), same_everywhere)
    assert found["None None"] > 0.98
    assert found["pos random"] > 0.98
    # A linear readout is left with how frequent the tags are. Adam stops near its optimum, not at it.
    chance = majority(same_everywhere)
    assert found["pos leace"] == pytest.approx(chance, abs=0.001 if readout == "linear" else 0.07)


def test_another_task_is_left_alone(asking: Callable[..., ProbeRequest], same_everywhere: Corpus) -> None:
    # A second layer of labels, drawn without a look at the words: next to nothing of it is there to be taken out.
    draw = np.random.default_rng(3)
    splits = {
        name: Sentences(
            replace(one, layers={**one.layers, "xpos": tuple(draw.choice(["A", "B"], len(one.words)).tolist())})
            for one in sentences
        )
        for name, sentences in same_everywhere.splits.items()
    }
    corpus = replace(same_everywhere, splits=splits)
    found = accuracies(asking(ReadoutConfig("linear", {"strengths": [0.1]}, erase="xpos"), layers="0"), corpus)
    assert found["xpos leace"] > 0.9


@pytest.mark.parametrize("labels", [("A0", "A1"), (("moved",), ("moved", "aware"))])
def test_only_tasks_of_words_can_be_erased(
    asking: Callable[..., ProbeRequest],
    toy: Corpus,
    planted_spans: Callable[..., Corpus],
    counted_forwards: list[int],
    labels: tuple[Any, ...],
) -> None:
    task, layer = ("edge_srl", "srl") if isinstance(labels[0], str) else ("edge_proto_roles", "proto_roles")
    spans = planted_spans(layer, labels, signal=True, pairs=True)
    splits = {
        name: Sentences(replace(one, targets=other.targets) for one, other in zip(sentences, spans[name], strict=True))
        for name, sentences in toy.splits.items()
    }
    corpus = replace(toy, splits=splits)
    with pytest.raises(FitError, match=f"^task {task} cannot be erased: its items are not words of one label each$"):
        run_probes(asking(ReadoutConfig("linear", erase=task)), corpus=corpus)
    with pytest.raises(CorpusError, match=r"^task chunk, train split: no word has a label in layer 'chunk'[^\n]*$"):
        run_probes(asking(ReadoutConfig("linear", erase="chunk")), corpus=corpus)
    assert counted_forwards == []
