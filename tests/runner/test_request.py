from typing import Any

import pytest

from bertology.errors import BertologyError, NameNotFoundError
from bertology.families.request import ALL_CONTROLS, parse_layers, parse_names
from bertology.runner import ProbeRequest
from bertology.runner.experiment import Experiment


@pytest.mark.parametrize(
    ("spec", "layers"),
    [
        ("all", (0, 1, 2, 3, 4)),
        (" ALL ", (0, 1, 2, 3, 4)),
        ("0-4", (0, 1, 2, 3, 4)),
        ("2", (2,)),
        ("3, 1 ,3", (1, 3)),
        ("-1", (4,)),
        ("0,-1,-2", (0, 3, 4)),
        ("-3--1", (2, 3, 4)),
        ("0--2", (0, 1, 2, 3)),
        ("-5", (0,)),
        ("1-2,4", (1, 2, 4)),
        ([0, -1], (0, 4)),
    ],
)
def test_layers_are_numbers_ranges_or_all(spec: Any, layers: tuple[int, ...]) -> None:
    assert parse_layers(spec, 4) == layers


@pytest.mark.parametrize(
    "spec", ["5", "0-5", "-6", "3-1", "", " ", ",", "1,,2", "x", "1-x", "-", "1-", "1.5", "--1", "0-1-2", "first", []]
)
def test_layers_that_are_not_there_are_refused_with_those_that_are(spec: Any) -> None:
    with pytest.raises(NameNotFoundError, match=r"the model has layers 0 \(embeddings\) to 4; write all, numbers or"):
        parse_layers(spec, 4)


def test_names_and_controls_come_with_commas_or_in_a_sequence() -> None:
    assert parse_names(" pos, ner,,") == parse_names(["pos", "ner"]) == ("pos", "ner")
    for controls, names in (("all", ALL_CONTROLS), ("none", ()), ((), ()), ([], ())):
        assert ProbeRequest(controls=controls).controls == names
    assert ProbeRequest(controls="word-majority,random").controls == ("word_majority", "random")


def test_a_request_is_an_experiment_with_one_model_and_one_corpus() -> None:
    asked = ProbeRequest(tasks="pos,ner", model="pocket", readout="linear,mlp", pool="mean,cls", max_items=3)
    assert (asked.models[0].name, asked.corpora[0].items, asked.layer_spec) == (asked.model, asked.max_items, "all")
    assert [(one.readout, one.pool) for one in asked.configs_of("ner")] == [
        ("linear", "mean"), ("linear", "cls"), ("mlp", "mean"), ("mlp", "cls")
    ]  # fmt: skip
    again = Experiment.model_validate(asked.plain())
    assert (again.models, again.corpora, again.tasks) == (asked.models, asked.corpora, asked.tasks)
    assert again.of_one(again.models[0], again.corpora[0], again.tasks) == asked


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "men"}, "pooling: should be mean, first or last, not 'men'"),
        ({"on_long": "crop"}, "on_long: should be window, error or skip, not 'crop'"),
        ({"controls": 3}, "controls: should be a list"),
        ({"tasks": ()}, "no task is asked for"),
        ({"seeds": 0}, "seeds: should be at least 1, not 0"),
        ({"max_pieces": 2}, "max_pieces: should be at least 8, not 2"),
    ],
)
def test_numbers_out_of_bounds_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BertologyError, match=message):
        ProbeRequest(**settings)
