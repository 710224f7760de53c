"""``bertology tokenize``: pieces step by step, and measures of a corpus for several tokenizers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import load_corpus
from bertology.encoders import resolve_model
from bertology.encoders.loading import load_reader

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
    lines = [line.split() for line in found.out.splitlines()]
    assert ["measure", "pocket", tiny_bert.name] in lines
    (fertility,) = (line for line in lines if line[:1] == ["fertility"])
    assert sum(cell.startswith("[") for cell in fertility) == 2
    assert ["n", "words", "1", "1"] in lines


def test_corpora_are_compared_with_the_first(bertology: Command) -> None:
    found = bertology("tokenize", "--corpus", "pocket", "--corpus", "pseudowords:pocket")
    assert found.status == 0
    assert found.out.count("fertility") == 2
    parities = [line.split()[3] for line in found.out.splitlines() if line.startswith(" parity with pocket")]
    assert parities == ["1.000"]


def test_mistakes_are_one_line(bertology: Command, tmp_path: Path) -> None:
    for arguments, message in (
        ((), "nothing to cut"),
        (("--corpus", "pocket", "--split", "tests"), "did you mean test"),
        (("--morphs", tmp_path / "no.csv"), "no.csv"),
        (("--corpus", "pocket", "--out", tmp_path / "a.html"), "--out writes the steps of a text"),
    ):
        assert message in bertology("tokenize", *arguments).one_line()


def test_both_languages_have_a_table(bertology: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertology.pocket._bilingual.SIZES", {"train": 20, "dev": 20, "test": 250})
    found = bertology("tokenize", "--corpus", "bilingual:20", "--model", "bilingual")
    assert found.status == 0, found.err
    first, second = found.out.split("Tokenizers on ")[1:]
    assert " words of en of bilingual:20 test" in first
    assert " words of qpo of bilingual:20 test" in second
    assert "parity" not in first
    (parity,) = [line for line in second.splitlines() if line.startswith(" parity with en of bilingual:20")]
    # By hand: pieces of the translations over those of the originals; a few of these are counted with two words each.
    corpus = load_corpus("bilingual:20")["test"]
    reader = load_reader(resolve_model("bilingual"))
    encoded = [reader.backend.encode(one.text, add_special_tokens=False) for one in corpus]
    counts = [sum(len(one.ids) for one in encoded[side::2]) for side in (0, 1)]
    assert float(parity.split()[5]) == pytest.approx(counts[1] / counts[0], abs=0.01)
