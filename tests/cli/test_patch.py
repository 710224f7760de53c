"""``bertology patch``: effects printed and drawn, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology import patch

Command = Callable[..., Any]
TEXTS = "The guards near the dog [MASK] open.", "The guard near the dog [MASK] open."


def test_effects_are_printed_and_drawn(bertology: Command, tmp_path: Path) -> None:
    text, other = TEXTS
    drawn = tmp_path / "effects.svg"
    done = bertology("patch", text, "--with", other, "--candidates", "are,is", "--out", drawn)
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("layer  1 The  2 guards/guard")
    assert lines[1].split()[:3] == ["0", "0.00", "1.00"]
    assert "one pair; 0 changes nothing, 1 changes all" in done.out
    found = patch(*TEXTS, candidates="are,is")
    base, source = (f"{score:.2f}".replace("-", "−") for score in (found.base[0], found.base[0] + found.whole[0]))
    both = f"{base} in the base text, which is patched (effect 0), {source} in the source text (effect 1)"
    assert f"logit of are − logit of is: {both}" in done.out
    assert "guards/guard" in drawn.read_text(encoding="utf-8")


def test_a_page_is_written(bertology: Command, tmp_path: Path) -> None:
    text, other = TEXTS
    page = tmp_path / "map.HTML"
    done = bertology("patch", text, "--with", other, "--candidates", "are,is", "--out", page)
    assert done.status == 0, done.err
    assert done.err == f"effects in {page}\n"
    assert "2 guards/guard" in page.read_text(encoding="utf-8")


def test_as_data(bertology: Command) -> None:
    text, other = TEXTS
    arguments = ("patch", text, "--with", other, "--candidates", "are,is", "--site", "head", "--layers", "1,-1")
    done = bertology(*arguments, "--format", "json")
    assert done.status == 0, done.err
    rows = json.loads(done.out)
    assert {row["layer"] for row in rows} == {1, 4}
    assert {row["place"] for row in rows} == {"H1", "H2", "H3", "H4", "all"}
    found = patch(*TEXTS, candidates=("are", "is"), site="head", layers=[1, 4])
    assert [row["effect"] for row in rows] == pytest.approx(found.effects.ravel().tolist(), abs=1e-6)
    csv = bertology(*arguments, "--format", "csv").out
    assert csv.startswith("layer,place,effect,base_score,source_score,measure\n1,H1,")
    for row in rows:
        assert (row["base_score"], row["source_score"]) == pytest.approx(
            (found.base[0], found.base[0] + found.whole[0]), abs=1e-5
        )
    assert {row["measure"] for row in rows} == {"logit of are − logit of is"}


def test_a_persons_mistakes_are_one_line(bertology: Command, tmp_path: Path) -> None:
    text, other = TEXTS
    pair = (text, "--with", other, "--candidates", "are,is")
    for arguments, problem in (
        ((text, "--with", "The old guard near the dog [MASK] open.", "--candidates", "are,is"), "8 and 9 words"),
        ((text, "--with", other, "--candidates", "are"), "1 candidates: give two"),
        ((*pair, "--layers", "9"), "layer '9'"),
        ((*pair, "--site", "head", "--layers", "0"), "layer 0"),
        ((*pair, "--out", tmp_path / "effects.txt"), "ends in .html, .svg, .pdf or .png"),
    ):
        assert problem in bertology("patch", *arguments).one_line()
