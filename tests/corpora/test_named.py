"""Corpora by name or path."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from bertology.corpora import Corpus, Sentence, Sentences, known_corpora, load_corpus
from bertology.errors import CorpusError, NameNotFoundError

LINE = "1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def made_pocket(monkeypatch) -> Corpus:
    """A stand-in for the embedded corpus, so that these tests are about names alone."""
    corpus = Corpus("pocket", {"test": Sentences([Sentence.from_words(["a"])])})
    module = types.ModuleType("bertology.pocket")
    module.load_corpus = lambda: corpus  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bertology.pocket", module)
    return corpus


def test_pocket_is_a_name(made_pocket):
    assert load_corpus("pocket") is made_pocket


def test_a_folder_called_as_a_name_is_meant_by_its_path(made_pocket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pocket").mkdir()
    (tmp_path / "pocket" / "test.conllu").write_text(LINE)
    assert load_corpus("pocket") is made_pocket
    corpus = load_corpus("./pocket")
    assert corpus.name == "pocket"
    assert corpus["test"].layers["upos"].values == ("X",)


def test_every_name_has_one_line():
    known = known_corpora()
    assert {"pocket", "ud:en_ewt", "ud:en_pud", "ud:fr_sequoia", "ud:de_gsd", "ud:es_gsd"} == set(known)
    assert all(line and "\n" not in line for line in known.values())
    assert "(train, dev, test; CC BY-SA 4.0)" in known["ud:en_ewt"]
    assert "(test; " in known["ud:en_pud"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pockte", r"unknown corpus 'pockte': did you mean pocket\?; or give the path of one"),
        ("ud:en_etw", r"unknown corpus 'ud:en_etw': did you mean ud:en_ewt .*; any other treebank can be given by"),
        ("qqqqq", r"unknown corpus 'qqqqq': there is pocket, ud:de_gsd, .*; or give the path of one"),
    ],
)
def test_an_unknown_name_is_answered_by_the_nearest(name, message):
    with pytest.raises(NameNotFoundError, match=message):
        load_corpus(name)


def test_a_path_that_is_not_there_is_answered_by_what_lies_beside_it(tmp_path):
    (tmp_path / "ud_english_ewt").mkdir()
    near = tmp_path / "ud_english_ewt"
    with pytest.raises(CorpusError, match=rf"ud_english_etw: no such file or folder; did you mean {near}\?"):
        load_corpus(tmp_path / "ud_english_etw")
    with pytest.raises(CorpusError, match=rf"dev.conllu: no such file or folder; did you mean {near}\?"):
        load_corpus(str(tmp_path / "ud_englsh_ewt" / "dev.conllu"))
    with pytest.raises(CorpusError, match=r"zzz.conllu: no such file or folder; check the path"):
        load_corpus(str(tmp_path / "zzz.conllu"))


def test_a_folder_without_a_corpus(tmp_path):
    (tmp_path / "README.md").write_text("nothing")
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(
        CorpusError, match=r"no corpus in this folder; it should hold CoNLL-U \(.conllu\), spaCy \(.spacy\)"
    ):
        load_corpus(tmp_path)


def test_columns_are_for_column_files(tmp_path):
    with pytest.raises(CorpusError, match="columns='form' is for column files; leave it out for pocket"):
        load_corpus("pocket", columns="form")


def test_columns_make_any_file_a_column_file(tmp_path):
    (tmp_path / "words.txt").write_text("two words\nmore words\n")
    corpus = load_corpus(tmp_path / "words.txt", columns="form,second")
    assert corpus["test"][0].layers == {"second": ("words", "words")}


def test_a_path_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "test.conllu").write_text(LINE)
    assert len(load_corpus("~/test.conllu")["test"]) == 1


def test_a_dot_and_slash_mean_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError, match="no such file or folder"):
        load_corpus("./nowhere")
