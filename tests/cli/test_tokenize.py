"""``bertology tokenize``: pieces step by step, and measures of a corpus for several tokenizers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Command = Callable[..., Any]


def test_steps_of_each_word_and_a_page(bertology: Command, tmp_path: Path) -> None:
    found = bertology("tokenize", "The <b> barks", "--out", tmp_path / "steps.html")
    assert found.status == 0
    lines = found.out.splitlines()
    assert lines[0].startswith("pocket · WordPiece · ")
    assert "  barks → ba ##r ##ks" in lines
    assert any("is the longest piece that the rest begins with" in line for line in lines)
    page = (tmp_path / "steps.html").read_text(encoding="utf-8")
    assert "<title>The &lt;b&gt; barks</title>" in page
    assert "<b>" not in page
    assert "{{" not in page


def test_tokenizers_side_by_side(bertology: Command, tiny_bert: Path, tmp_path: Path) -> None:
    morphs = tmp_path / "morphs.tsv"
    morphs.write_text("word\tfirst\tsecond\nbarks\tbark\ts\n", encoding="utf-8")
    found = bertology("tokenize", "-m", "pocket", "-m", tiny_bert, "--corpus", "pocket", "--morphs", morphs)
    assert found.status == 0
    head, _, fertility, *_ = found.out.splitlines()
    assert head.split() == ["measure", "pocket", tiny_bert.name]
    assert fertility.startswith("fertility")
    assert fertility.count("[") == 2
    assert "words of two morphs" in found.out


def test_corpora_are_compared_with_the_first(bertology: Command) -> None:
    found = bertology("tokenize", "--corpus", "pocket", "--corpus", "pseudowords:pocket")
    assert found.status == 0
    assert found.out.count("fertility") == 2
    parities = [line.split()[3] for line in found.out.splitlines() if line.startswith("parity with pocket")]
    assert parities == ["1.000"]


def test_mistakes_are_one_line(bertology: Command, tmp_path: Path) -> None:
    for arguments, message in (
        ((), "nothing to cut"),
        (("--corpus", "pocket", "--split", "tests"), "did you mean test"),
        (("--morphs", tmp_path / "no.csv"), "no.csv"),
        (("--corpus", "pocket", "--out", tmp_path / "a.html"), "--out writes the steps of a text"),
    ):
        found = bertology("tokenize", *arguments)
        assert found.status == 2
        assert message in found.err
        assert len(found.err.strip().splitlines()) == 1
