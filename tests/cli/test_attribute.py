"""``bertology attribute``: scores printed and drawn, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Command = Callable[..., Any]
TEXT = "The guards near the dog [MASK] open."


def test_scores_are_printed_and_drawn(bertology: Command, tmp_path: Path) -> None:
    drawn = tmp_path / "scores.svg"
    done = bertology("attribute", TEXT, "--candidates", "are,is", "--out", drawn)
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["The", "guards", "near", "the", "dog", "[MASK]", "open", "."]
    assert lines[1].startswith("integrated gradients ")
    # From the last layer the gradient reaches nothing but the mask.
    (gradients,) = (line for line in lines if line.startswith("gradient × input"))
    assert "layer 4" not in gradients
    assert sum(abs(float(score.replace("−", "-"))) > 0 for score in gradients.split()[-8:]) > 4
    assert "logit of are − logit of is" in done.out
    assert "integrated gradients miss" in done.out
    assert "guards" in drawn.read_text(encoding="utf-8")


def test_a_page_has_every_layer(bertology: Command, tmp_path: Path) -> None:
    arguments = ("attribute", TEXT, "--candidates", "are,is", "--methods", "attention")
    for layers, shown in (((), [1, 2, 3, 4]), (("--layers", "2"), [2])):
        done = bertology(*arguments, *layers, "--format", "json", "--out", tmp_path / "words.html")
        assert done.status == 0, done.err
        assert sorted({row["layer"] for row in json.loads(done.out)}) == shown
        page = (tmp_path / "words.html").read_text(encoding="utf-8")
        assert [f"attention, layer {layer}" in page for layer in (1, 2, 3, 4)] == [one in shown for one in (1, 2, 3, 4)]
    assert {row["layer"] for row in json.loads(bertology(*arguments, "--format", "json").out)} == {4}


def test_as_data(bertology: Command) -> None:
    given = ("--candidates", "are,is", "--methods", "attention,leave_one_out", "--layers", "1,-1")
    arguments = ("attribute", TEXT, *given)
    rows = json.loads(bertology(*arguments, "--format", "json").out)
    assert {(row["method"], row["layer"]) for row in rows} == {("attention", 1), ("attention", 4), ("leave_one_out", 0)}
    assert bertology(*arguments, "--format", "csv").out.startswith(
        "method,layer,place,word,score\nleave_one_out,0,1,The,"
    )


def test_a_persons_mistakes_are_one_line(bertology: Command, tmp_path: Path) -> None:
    for arguments, problem in (
        (("Nothing is left out.", "--candidates", "are,is"), "0 masks"),
        ((TEXT, "--candidates", "are"), "1 candidates: give two"),
        ((TEXT, "--candidates", "are,is", "--methods", "gradient"), "method of attribution 'gradient'"),
        ((TEXT, "--candidates", "are,is", "--layers", "9"), "layer '9'"),
        ((TEXT, "--candidates", "are,is", "--out", tmp_path / "scores.txt"), "ends in .html, .svg, .pdf or .png"),
    ):
        assert problem in bertology("attribute", *arguments).one_line()
