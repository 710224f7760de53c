"""``bertology attention``: a sentence in, a page out; a mistake is one line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import load_corpus
from tests.cli.conftest import Command, unless_given

SENTENCE = "The old farmers see the dog."


@pytest.fixture
def attention(bertology: Command, tiny_bert: Path, tmp_path: Path) -> Command:
    """``bertology attention`` of the tiny model into ``view.html``."""
    return unless_given(bertology, "attention", {"--model": tiny_bert, "--out": tmp_path / "view.html"})


def values(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(encoding="utf-8"))
    assert found is not None
    page = json.loads(found[1])
    panel = page["panels"][0]
    return page["start"] | panel | panel["kinds"]["encoder"]


def test_a_sentence(attention: Command, tiny_bert: Path, tmp_path: Path) -> None:
    found = attention(SENTENCE)
    assert found.status == 0, found
    assert found.out == f"{tmp_path / 'view.html'}: 12 heads, 3 layers of {tiny_bert}\n"
    page = values(tmp_path / "view.html")
    assert page["texts"] == [SENTENCE]
    assert page["model"] == "tiny-bert"
    assert (page["level"], page["weights"]) == ("word", "raw")


def test_options(attention: Command, tmp_path: Path) -> None:
    options = ["--second", "It sleeps.", "--heads", "L3H2", "--layers", "-1", "--level", "piece", "--weights", "norm"]
    found = attention(SENTENCE, *options)
    assert "1 heads, 1 layers of" in found.out
    page = values(tmp_path / "view.html")
    assert page["texts"] == [SENTENCE, "It sleeps."]
    assert page["layers"] == [{"layer": 3, "heads": [2]}]
    assert (page["level"], page["weights"]) == ("piece", "norm")


def test_a_treebanks_sentence_with_its_dependencies(attention: Command, tiny_corpus: Path, tmp_path: Path) -> None:
    sentence = load_corpus(str(tiny_corpus))["test"][3]
    assert attention("--gold", tiny_corpus, "--sentence", sentence.id).status == 0
    page = values(tmp_path / "view.html")
    assert page["texts"] == [sentence.text]
    assert len(page["levels"]["word"]["arcs"]) == sum(head > 0 for head in sentence.heads)


def test_one_head_as_a_figure(attention: Command, tiny_bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "head.svg"
    found = attention(SENTENCE, "--head", "l2h1", "--out", out)
    assert found.out == f"{out}: L2H1 of {tiny_bert}\n"
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", out.read_text(encoding="utf-8"))
    for word in ("farmers", "[CLS]", "dog"):
        assert drawn.count(word) == 2
    assert {"L2H1 of tiny-bert", "attention weight"} <= set(drawn)


def test_side_by_side(attention: Command, tiny_bert: Path, tmp_path: Path) -> None:
    found = attention(SENTENCE, "--model", tiny_bert, "--model", "pocket", "--threshold", "0.2")
    assert found.out.endswith(f"12 heads, 3 layers of {tiny_bert} and pocket\n")
    page = values(tmp_path / "view.html")
    assert page["threshold"] == 0.2
    text = (tmp_path / "view.html").read_text(encoding="utf-8")
    assert text.count('id="map-1-encoder-word-raw-') == 4
    assert attention(SENTENCE, "It sleeps.").status == 0
    assert attention(SENTENCE, "It sleeps.", "--head", "L1H1", "--out", tmp_path / "two.png").status == 0


def test_opening(attention: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    attention(SENTENCE)
    assert opened == []
    attention(SENTENCE, "--open")
    assert opened == [(tmp_path / "view.html").as_uri()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give a sentence, or"),
        ([SENTENCE, "--gold", "pocket"], "give both or neither"),
        ([SENTENCE, "--gold", "pocket", "--sentence", "test-1"], "give a sentence, or"),
        (["--gold", "pocket", "--sentence", "test-1x"], "unknown sentence of pocket test 'test-1x': did you mean"),
        ([SENTENCE, "--heads", "8-10"], "such as L8H10"),
        ([SENTENCE, "--layers", "1-7"], "layer '1-7'"),
        ([SENTENCE, "--level", "sentence"], "unknown level"),
        ([SENTENCE, "--head", "L1H1"], "a figure (.svg, .pdf or .png) goes with --head"),
        ([SENTENCE, "--head", "L1H1", "--heads", "L1H1", "--out", "head.svg"], "--head draws one head as a figure"),
        ([SENTENCE, "--out", "head.svg"], "goes with --head L2H1"),
    ],
)
def test_mistakes(
    attention: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in attention(*arguments).one_line()
    assert not (tmp_path / "head.svg").exists()
    assert not (tmp_path / "view.html").exists()


def test_a_folder_in_the_way(attention: Command, tmp_path: Path) -> None:
    (tmp_path / "a.html").mkdir()
    assert "is a folder" in attention(SENTENCE, "--out", tmp_path / "a.html").one_line()
