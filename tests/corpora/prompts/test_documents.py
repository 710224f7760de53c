"""Documents: where one ends and the next begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology.corpora.prompts import Document, read_documents
from bertology.errors import CorpusError, NameNotFoundError

ROW = "1\t{}\t_\tX\t_\t_\t0\troot\t_\t_\n\n"


def _treebank(path: Path, *sentences: tuple[str, str]) -> Path:
    path.write_text("".join(comments + ROW.format(word) for comments, word in sentences), encoding="utf-8")
    return path


def test_documents_told_by_a_comment(tmp_path):
    path = _treebank(
        tmp_path / "x.conllu",
        ("# sent_id = a-1\n", "one"),
        ("# sent_id = a-2\n", "two"),
        ("# newdoc id = story\n# sent_id = a-3\n", "three"),
        ("# newdoc\n# sent_id = a-4\n", "four"),
        ("# newdocument of sorts\n# sent_id = b-5\n", "five"),
    )
    assert read_documents(path) == (
        Document("document-1", ("one", "two")),
        Document("story", ("three",)),
        Document("document-3", ("four", "five")),
    )


def test_documents_told_by_the_names_of_sentences(tmp_path):
    names = ("a.b-0001", "a.b-0002", "c_s1", "c_s2")
    path = _treebank(tmp_path / "x.conllu", *((f"# sent_id = {name}\n", name) for name in names))
    assert [document.id for document in read_documents(path)] == ["a.b", "c"]
    assert [document.sentences for document in read_documents(path)] == [names[:2], names[2:]]


def test_test_comes_before_dev_and_train(tmp_path):
    for split in ("train", "dev", "test"):
        names = [f"{split}{document}-{number}" for document in "ab" for number in (1, 2)]
        _treebank(tmp_path / f"x-{split}.conllu", *((f"# sent_id = {name}\n", name) for name in names))
    assert read_documents(tmp_path)[0].id == "testa"
    (tmp_path / "x-test.conllu").unlink()
    assert read_documents(tmp_path)[0].id == "deva"


def test_a_blank_line_parts_documents_of_text(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("\nIt  rains.\nIt pours.\n\n\nThe end.\nIs near.")
    assert read_documents(path) == (
        Document("book-2", ("It rains.", "It pours.")),
        Document("book-6", ("The end.", "Is near.")),
    )


def test_one_document_is_too_few(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("It rains.\nIt pours.\n\nThe end.\n")
    with pytest.raises(CorpusError, match=r"book.txt: no two documents of several sentences in it; part .* blank line"):
        read_documents(path)
    treebank = _treebank(tmp_path / "x.conllu", ("# sent_id = a-1\n", "one"), ("# sent_id = a-2\n", "two"))
    with pytest.raises(CorpusError, match=r"no two documents of several sentences in it; mark .* # newdoc"):
        read_documents(treebank)
    with pytest.raises(NameNotFoundError):
        read_documents("nowhere")


def test_treebanks(real_data):
    documents = read_documents(real_data("ud_english_ewt"))
    assert (len(documents), sum(len(document.sentences) for document in documents)) == (316, 2_077)
    with pytest.raises(CorpusError, match="no two documents of several sentences"):
        read_documents(real_data("ud_german_gsd"))
