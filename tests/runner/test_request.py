from __future__ import annotations

from typing import Any

import pytest

from bertology.errors import BertologyError, NameNotFoundError
from bertology.families.request import CONTROLS, parse_controls, parse_layers, parse_names
from bertology.runner import ProbeRequest


@pytest.mark.parametrize(
    ("spec", "layers"),
    [
        ("all", (0, 1, 2, 3, 4)),
        (" ALL ", (0, 1, 2, 3, 4)),
        ("0-4", (0, 1, 2, 3, 4)),
        ("2", (2,)),
        ("3,1", (1, 3)),
        ("3, 1 ,3", (1, 3)),
        ("-1", (4,)),
        ("0,-1,-2", (0, 3, 4)),
        ("-5", (0,)),
        ("1-2,4", (1, 2, 4)),
        ("2-2", (2,)),
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
    assert parse_controls("all") == parse_controls(CONTROLS) == CONTROLS
    assert parse_controls("none") == parse_controls(()) == ()
    assert parse_controls("word-majority,random") == ("word_majority", "random")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "men"}, "unknown pooling 'men': did you mean mean"),
        ({"dtype": "float23"}, "unknown dtype 'float23': did you mean float32"),
        ({"stored_dtype": "int8"}, "unknown stored dtype 'int8'"),
        ({"on_long": "crop"}, "unknown on long 'crop': there is error, skip, window"),
        ({"controls": ("majorty",)}, "unknown control 'majorty': did you mean majority"),
    ],
)
def test_unknown_choices_are_answered_with_the_nearest(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(NameNotFoundError, match=message):
        ProbeRequest(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": ()}, "no task is asked for"),
        ({"seeds": 0}, "seeds is 0; it should be at least 1"),
        ({"max_pieces": 2}, "max_pieces is 2; it should be at least 8"),
    ],
)
def test_numbers_out_of_bounds_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BertologyError, match=message):
        ProbeRequest(**settings)
