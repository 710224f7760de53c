"""Text without annotation."""

from __future__ import annotations

import pytest

from bertology.corpora import load_corpus
from bertology.errors import CorpusError


def test_one_sentence_a_line(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("  It  rains , again.\n\nThe end\n", encoding="utf-8")
    corpus = load_corpus(path)
    first, second = corpus["test"]
    assert first.text == "It  rains , again."
    assert first.words == ("It", "rains", ",", "again.")
    assert [first.text[a:b] for a, b in first.spans] == list(first.words)
    assert (first.id, second.id) == ("1", "3")
    assert corpus["test"].layers == {}
    assert "annotation" in corpus.notes


@pytest.mark.parametrize(
    ("content", "is_columns"),
    [
        ("two words\nmore words\n", False),
        ("three words here\nonly two\n", False),
        ("Hello\n", False),
        ("dog NOUN\nbarks VERB\n", True),
        ("dog\tx\nbarks\ty\n", True),
        ("dog x\n\nbarks y\n", True),
        ("dog NN B-NP\nbarks VBZ O\n", True),
    ],
)
def test_a_txt_file_is_columns_only_when_it_looks_so(tmp_path, content, is_columns):
    (tmp_path / "any.txt").write_text(content)
    assert bool(load_corpus(tmp_path / "any.txt")["test"].layers) == is_columns


def test_a_line_that_breaks_a_column_file_does_not_make_it_running_text(tmp_path):
    (tmp_path / "any.txt").write_text("dog NN B-NP\nbarks VBZ O\n\n" * 10 + "cat NN\n")
    with pytest.raises(CorpusError, match=r"any.txt:31: 2 columns where the file has 3"):
        load_corpus(tmp_path / "any.txt")


def test_no_words(tmp_path):
    (tmp_path / "any.txt").write_text(" \n\n")
    with pytest.raises(CorpusError, match=r"any.txt: no word in it; give one sentence a line"):
        load_corpus(tmp_path / "any.txt")
