"""Every command that takes a text takes its language, or its words as spaces part them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology import neighbours
from bertology.attention import view
from bertology.encoders import Encoder, load_encoder

Command = Callable[..., Any]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ["The", "dog's", "guards", "[MASK]", "open", "."]),
        (("--language", "en"), ["The", "dog", "'s", "guards", "[MASK]", "open", "."]),
        (("--split-at-spaces",), ["The", "dog's", "guards", "[MASK]", "open."]),
    ],
)
def test_attribute_and_patch(bertology: Command, options: tuple[str, ...], words: list[str]) -> None:
    text, choice = "The dog's guards [MASK] open.", ("--candidates", "are,is", "--format", "json", *options)
    rows = json.loads(bertology("attribute", text, "--methods", "leave_one_out", *choice).out)
    assert [row["word"] for row in rows] == words
    other = text.replace("guards", "guard")
    rows = json.loads(bertology("patch", text, "--with", other, "--layers", "1", *choice).out)
    places = [row["place"].split(" ", 1)[1] for row in rows if row["place"][0].isdigit()]
    assert places == ["guards/guard" if word == "guards" else word for word in words]


def test_neighbours_and_attention(bertology: Command, tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    plain = ("--model", tiny_bert, "--corpus", tiny_corpus, "--word", "dog's")
    assert bertology("neighbours", "the dog's cat", *plain, "--split-at-spaces").status == 0
    assert "dog's" in bertology("neighbours", "the dog's cat", *plain, "--language", "en").one_line()
    page = tmp_path / "view.html"
    assert bertology("attention", "我们 看 狗狗", "--model", tiny_bert, "--out", page, "--split-at-spaces").status == 0
    assert '"狗狗"' in page.read_text(encoding="utf-8")
    line = bertology("attention", "我们看狗狗", "--model", tiny_bert, "--out", page).one_line()
    assert "'我们看狗狗' has no spaces between its words: name the language" in line


def test_lists_of_words_are_texts(tiny_bert: Path, tiny_corpus: Path) -> None:
    encoder: Encoder = load_encoder(str(tiny_bert))
    words = ["we", "don't", "see ."]
    found = neighbours(words, "don't", corpus=str(tiny_corpus), model=encoder, k=1)
    assert found.sentence.words == tuple(words)
    shown = view([words], model=encoder).reading.sentences[0]
    assert shown.words == tuple(words)
    assert [label[2] for label in encoder.vectors([words]).labels["word"]] == words
