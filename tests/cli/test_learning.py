"""Pieces that are learnt from a text: the published examples, every method, and what cannot be learnt from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology.encoders.learning import learn_pieces
from bertology.errors import ModelError

WORDS = "low low low low low lower lower newest newest newest newest newest newest widest widest widest"


def test_the_example_of_gage() -> None:
    steps = learn_pieces(["aaabdaaabac"], "bpe")
    assert [" ".join(step.pieces) for step in steps] == [
        "a a a b d a a a b a c",
        "aa a b d aa a b a c",
        "aa ab d aa ab a c",
        "aaab d aaab a c",
    ]
    assert [step.learnt for step in steps[1:]] == [("aa",), ("ab",), ("aaab",)]


def test_the_example_of_sennrich() -> None:
    """The first merges of the word list in Sennrich et al. 2016, algorithm 1, without its mark of the end of a word."""
    learnt = [step.learnt for step in learn_pieces([WORDS], "bpe")[1:5]]
    assert learnt == [("es",), ("est",), ("lo",), ("low",)]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_steps_of_every_method(kind: Any) -> None:
    steps = learn_pieces([WORDS], kind)
    for step in steps:
        assert "".join(step.pieces).replace("##", "") == WORDS.replace(" ", "")
    if kind != "unigram":  # each vocabulary holds the one before it, and cuts no finer
        assert not any(step.lost for step in steps)
        lengths = [len(step.pieces) for step in steps]
        assert lengths == sorted(lengths, reverse=True)
        assert lengths[-1] == len(WORDS.split())
    assert len(learn_pieces([WORDS], kind, most=4)) <= 4
    assert learn_pieces([WORDS], kind, size=20)[-1].size <= 20


def test_what_cannot_be_learnt(bertology: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the text is empty"):
        learn_pieces([" "], "bpe")
    with pytest.raises(ModelError, match="size 2: the characters of the text alone are 3 pieces"):
        learn_pieces(["abc"], "bpe", size=2)
    (tmp_path / "text.txt").write_text("the dogs\n\nthe dog\n", encoding="utf-8")
    outcome = bertology("tokenize", str(tmp_path / "text.txt"), "--learn", "bpe")
    assert outcome.out.splitlines()[0].split(maxsplit=2) == ["pieces", "learnt", "the first line"]
    assert outcome.out.splitlines()[-1].endswith("the dog s")
    assert bertology("tokenize", "--learn", "bpe").err.count("\n") == 1
