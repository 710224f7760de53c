"""``bertology neighbours``: shares by layer, neighbours in context, and what is not possible."""

import csv
import io
import json
from pathlib import Path

import pytest

from bertology.corpora import load_corpus
from tests.cli.conftest import Command, unless_given


@pytest.fixture
def neighbours(bertology: Command, tiny_bert: Path, tiny_corpus: Path) -> Command:
    """Three neighbours in the embeddings and the first layer of the tiny model, unless told otherwise."""
    return unless_given(
        bertology, "neighbours", {"--model": tiny_bert, "--corpus": tiny_corpus, "--layers": "0,1", "-k": "3"}
    )


def test_table_has_shares_and_the_words_in_context(neighbours: Command, tiny_corpus: Path) -> None:
    found = neighbours("The dogs see the <b>.", "--word", "Dogs")
    assert found.status == 0, found.err
    lines = found.out.splitlines()
    assert lines[0] == "The [dogs] see the <b>."
    assert lines[2].split() == ["layer", "same", "word", "(dogs)", "most", "frequent", "tag"]
    assert [line.split()[0] for line in lines[3:5]] == ["0", "1"]
    n_words = sum(len(one) for split in load_corpus(str(tiny_corpus)).splits.values() for one in split)
    assert f"shares: of the 3 nearest of {n_words:,} words of {tiny_corpus.name}" in found.out
    start = lines.index("layer 1")
    block = lines[start + 1 :]
    assert len(block) == 3
    # Words stand below each other, and cosines fall.
    cosines = [float(line.split()[0]) for line in block]
    assert cosines == sorted(cosines, reverse=True)
    assert all(len(line) <= 100 for line in lines)


def test_csv_and_json_hold_the_same(neighbours: Command) -> None:
    arguments = ("The dogs see the dogs.", "--word", "dogs", "--occurrence", "2", "--tag", "NOUN")
    rows = list(csv.DictReader(io.StringIO(neighbours(*arguments, "--format", "csv").out)))
    plain = json.loads(neighbours(*arguments, "--format", "json").out)
    assert plain["span"] == [17, 21]
    assert [line["layer"] for line in plain["shares"]] == [0, 1]
    assert len(rows) == len(plain["rows"]) == 6
    for row, one in zip(rows, plain["rows"], strict=True):
        assert int(row["layer"]) == one["layer"]
        assert one["text"][one["start"] : one["end"]] == one["word"] == row["word"]
        assert float(row["cosine"]) == pytest.approx(one["cosine"])
    for line in plain["shares"]:
        near = [one for one in plain["rows"] if one["layer"] == line["layer"]]
        assert line["same_tag"] == pytest.approx(sum(one["tag"] == "NOUN" for one in near) / 3)
        assert line["same_sense"] is None


def test_a_sentence_of_the_corpus_brings_its_tag_and_is_no_neighbour(neighbours: Command, tiny_corpus: Path) -> None:
    sentence = next(one for one in load_corpus(str(tiny_corpus))["test"] if len(one) > 4)
    word = next(word for word in sentence.words if sentence.words.count(word) == 1 and word.isalpha())
    found = json.loads(neighbours("--sentence", sentence.id, "--word", word, "--format", "json").out)
    assert found["tag"] == sentence.layers["upos"][sentence.words.index(word)]
    assert all(one["sentence"] != sentence.id for one in found["rows"] if one["rank"] == 1)


def test_a_page_is_written_beside_what_is_printed(neighbours: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = neighbours("The dogs see.", "--word", "dogs", "--out", page, "--points", "50", "--format", "json")
    assert len(json.loads(found.out)["shares"]) == 2
    assert found.err.strip() == f"{page}: 50 words in 2 layers"
    assert "<title>Neighbours of dogs: The dogs see.</title>" in page.read_text(encoding="utf-8")


def test_mistakes_are_one_line(neighbours: Command) -> None:
    for arguments, message in (
        (("--word", "dogs"), "give a text, or the id of a sentence of the corpus with --sentence"),
        (("--word", "dogs", "--sentence", "no"), "unknown sentence of tiny"),
        (("Dogs see.", "--word", "dogs", "-k", "0"), "k is 0"),
        (("Dogs see.", "--span", "0", "6"), "span 0 6 is 'Dogs s', which cuts a word or ends in a space: span 0 8 has"),
        (("Dogs see.", "--word", "dogs", "--tag", "NOON"), "no word of tiny has the tag 'NOON'; there is"),
        (("Dogs see.", "--word", "dogs", "--split", "tests"), "did you mean test"),
        (("Dogs see.", "--word", "dogs", "--points", "50"), "name its page with --out"),
        (("Dogs see.", "--word", "dogs", "--out", "page.html", "--points", "2"), "2 points: give from"),
    ):
        assert message in neighbours(*arguments).one_line()


def test_a_note_says_where_words_of_the_corpus_and_of_the_text_are_found_by_different_rules(
    neighbours: Command, tmp_path: Path
) -> None:
    raw = tmp_path / "raw.txt"
    raw.write_text("The dogs see the cat.\n", encoding="utf-8")
    found = neighbours("The cat.", "--word", "cat", "--corpus", raw)
    assert found.err.startswith("note: raw has words by white space")
    alike = neighbours("The cat.", "--word", "cat.", "--corpus", raw, "--split-at-spaces")
    assert (alike.status, alike.err) == (0, "")
    assert "0.33" in alike.out.splitlines()[3]
