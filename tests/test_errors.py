"""What messages quote is cut, and stays on its line."""

from pathlib import Path

import pytest

import bertology
from bertology._names import name_not_found
from bertology.errors import BertologyError, cut, listed, quoted


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a b", "'a b'"),
        ("x" * 80, repr("x" * 80)),
        ("x" * 100_000, repr("x" * 80 + "…") + " (100,000 characters)"),
        ("a\nb\ud800", r"'a\nb\ud800'"),
        (3, "3"),
        (10**5000, "a number of over 80 digits"),
        (["x" * 200], "['" + "x" * 78 + "…"),
    ],
    ids=["short", "of 80", "long", "of several lines", "number", "long number", "list"],
)
def test_quoted(value: object, written: str) -> None:
    assert quoted(value) == written


@pytest.mark.parametrize(("text", "written"), [("a b", "a b"), ("a\nb\0", r"a\nb\x00"), ("x" * 81, "x" * 80 + "…")])
def test_cut(text: str, written: str) -> None:
    assert cut(text) == written


def test_listed() -> None:
    assert listed([]) == "none"
    assert listed(["a", 1]) == "a, 1"
    assert listed(map(str, range(23))) == ", ".join(map(str, range(20))) + ", and 3 more"
    assert len(listed(["x" * 100] * 100)) < 1000


def test_an_unknown_name_of_any_length_is_answered_shortly() -> None:
    message = str(name_not_found("task", "pos" * 50_000, ["pos", "ner" * 10_000], remedy="name one"))
    assert message.startswith("unknown task 'pospos")
    assert len(message) < 400


@pytest.mark.parametrize(
    ("name", "texts"), [("attribute", "text"), ("patch", "text, other"), ("circuit", "text, other")]
)
def test_a_model_before_the_texts(name: str, texts: str, tiny_bert: Path) -> None:
    for values in (["pocket", *texts.split(", ")], [tiny_bert]):
        with pytest.raises(BertologyError, match=rf"after the texts: write {name}\({texts}, model=…\)$"):
            getattr(bertology, name)(*values)
