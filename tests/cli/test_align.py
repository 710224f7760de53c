"""``bertology align``: words of a text and of its translation, printed, drawn, and of a file."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import align, load_encoder
from bertology.errors import BertologyError, NameNotFoundError
from bertology.geometry.alignment import aligned_texts

Command = Callable[..., Any]
TEXT, OTHER = "the dog sees a cat", "a cat the dog sees"


@pytest.fixture
def run(bertology: Command, tiny_bert: Path) -> Command:
    """The output of the command, on the tiny model."""

    def output(*arguments: str | Path) -> str:
        done = bertology("align", *arguments, "--model", tiny_bert)
        assert done.status == 0, done.err
        return str(done.out)

    return output


def test_the_same_words_are_linked(run: Command) -> None:
    shown = run(TEXT, OTHER, "--layer", "0")
    assert re.search(r"2  dog +dog \d", shown)
    assert "layer 0 · embeddings, argmax" in shown
    assert "linked with none:" in shown


def test_links_are_those_of_the_cosines_by_hand(tiny_bert: Path) -> None:
    found = align(TEXT, OTHER, model=tiny_bert, method="match")
    encoder = load_encoder(str(tiny_bert))
    assert found.layers == tuple(range(encoder.n_layers + 1))
    for layer in found.layers:
        one, other = (np.asarray(encoder.vectors(text, layers=[layer]).values)[0] for text in (TEXT, OTHER))
        one, other = (some / np.linalg.norm(some, axis=1, keepdims=True) for some in (one, other))
        np.testing.assert_allclose(found.similarity[layer], (one @ other.T + 1) / 2, atol=1e-5)
        assert len(found.links(layer)) == 5
        assert found.links(layer) == found.links(layer - encoder.n_layers - 1)
    frame = found.to_pandas()
    assert len(frame) == 5 * len(found.layers)
    assert list(frame.columns) == ["layer", "first", "second", "first_word", "second_word", "similarity"]


def test_negative_layers_are_counted_from_the_last_of_the_model(tiny_bert: Path) -> None:
    found = align(TEXT, OTHER, model=tiny_bert, layer=1)
    some = aligned_texts(load_encoder(str(tiny_bert)), [found.first], [found.second], layers=[0, -2])[0]
    assert some.layers == (0, 2)
    assert some.pharaoh(-2) == found.pharaoh(2)
    with pytest.raises(NameNotFoundError, match="unknown layer among those that were read '-1'"):
        some.links(-1)


def test_a_file_of_pairs(run: Command, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.txt"
    pairs.write_text(f"{TEXT} ||| {OTHER}\nthe cat ||| the dog\n")
    lines = run("--file", pairs, "--layer", "1", "--split-at-spaces").splitlines()
    assert len(lines) == 2
    assert all("-" in link for line in lines for link in line.split())
    many = json.loads(run("--file", pairs, "--layer", "1", "--split-at-spaces", "-f", "json"))
    links = [[row for row in many["rows"] if row["pair"] == number] for number in (1, 2)]
    assert lines == [" ".join(f"{row['first']}-{row['second']}" for row in of_pair) for of_pair in links]
    assert many["layer"] == 1
    assert many["pairs"][1] == {"first": ["the", "cat"], "second": ["the", "dog"]}


def test_page_and_pictures(run: Command, tmp_path: Path) -> None:
    for ending in ("html", "svg", "png"):
        run(TEXT, OTHER, "--out", tmp_path / f"links.{ending}")
    page, picture = ((tmp_path / f"links.{ending}").read_text() for ending in ("html", "svg"))
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert ">dog<" in picture


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a text and its translation, or --file"),
        (["a", "b", "--file", "x.txt"], "give a text and its translation, or --file"),
        (["a", "b", "--layer", "9"], "layer"),
        (["--file", "none.txt"], "none.txt"),
        (["a", "b", "--out", "links.txt"], "ends in .html, .svg, .pdf or .png"),
    ],
)
def test_mistakes_are_one_line(bertology: Command, tiny_bert: Path, arguments: list[str], message: str) -> None:
    assert message in bertology("align", *arguments, "--model", tiny_bert).one_line()


def test_a_line_without_a_translation(bertology: Command, tiny_bert: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.txt"
    for text, problem in (("the dog ||| a dog\nthe cat\n", ", line 2: write"), ("", ": no line in it; write")):
        pairs.write_text(text)
        line = bertology("align", "--file", pairs, "--model", tiny_bert).one_line()
        assert f"pairs.txt{problem} a text and its translation" in line


def test_lists_of_words_are_one_text_each(tiny_bert: Path) -> None:
    (plain,) = align([TEXT], [OTHER], model=tiny_bert)
    for kind in (list, tuple):
        (found,) = align([kind(TEXT.split())], [kind(OTHER.split())], model=tiny_bert)
        np.testing.assert_array_equal(found.similarity[1], plain.similarity[1])
    (two,) = align([("the", "dog")], [("a", "cat")], model=tiny_bert)
    assert (two.first.words, two.second.words) == (("the", "dog"), ("a", "cat"))


def test_languages_of_both(tiny_bert: Path) -> None:
    found = align("the dog's a cat", "l'eau dont a", model=tiny_bert, language="en,fr")
    assert found.first.words == ("the", "dog", "'s", "a", "cat")
    assert found.second.words == ("l'", "eau", "dont", "a")
    plain = align("the dog's a cat", "l'eau dont a", model=tiny_bert)
    assert (plain.first.words[1], plain.second.words[0]) == ("dog's", "l'eau")
    with pytest.raises(BertologyError, match=r"language 'en': name that of the texts and that of their translations"):
        align("a", "b", model=tiny_bert, language="en")
    with pytest.raises(BertologyError, match="'今天天气' has no spaces between its words"):
        align("a", "今天天气", model=tiny_bert)


def test_lists_of_different_lengths(tiny_bert: Path) -> None:
    with pytest.raises(BertologyError, match="2 texts and 1 translations: give one translation of each text"):
        align(["a", "b"], ["c"], model=tiny_bert)
    with pytest.raises(BertologyError, match="unknown method of alignment 'best'"):
        align("a", "b", model=tiny_bert, method="best")
