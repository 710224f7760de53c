"""Corpora by name or path."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import Corpus, Sentence, Sentences, _named, corpus_is_available, known_corpora, load_corpus
from bertology.errors import CorpusError, NameNotFoundError

LINE = "1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def made_pocket(monkeypatch) -> Corpus:
    """A stand-in for the embedded corpus, so that these tests are about names alone."""
    corpus = Corpus("pocket", {"test": Sentences([Sentence.from_words(["a"])])})
    module = types.ModuleType("bertology.pocket")
    module.corpus_by_name = lambda name: corpus  # type: ignore[attr-defined]
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
    assert {"pocket", "bilingual", "ud:en_ewt", "ud:en_pud", "ud:fr_sequoia", "ud:de_gsd", "ud:es_gsd"} == set(known)
    assert all(line and "\n" not in line for line in known.values())
    assert "(train, dev, test; CC BY-SA 4.0)" in known["ud:en_ewt"]
    assert "(test; " in known["ud:en_pud"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pockte", r"unknown corpus 'pockte': did you mean pocket\?; or give the path of one"),
        ("ud:en_etw", r"unknown corpus 'ud:en_etw': did you mean ud:en_ewt .*; any other treebank can be given by"),
        ("qqqqq", r"unknown corpus 'qqqqq': there is bilingual, pocket, ud:de_gsd, .*; or give the path of one"),
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


TREE = "( (S (NN a)))\n"
BEE = "A bee saw a bug as it fell.\nit\nA bee,a bug\na bug\n\n"
RELATION = '1\t"A <e1>cup</e1> of <e2>tea</e2>"\nOther\n\n'
CONLL2012 = "#begin document (d); part 000\nd 0 0 a NN (TOP(NP*)) - - - - * -\n\n#end document\n"
ROLES = "1\ta\t_\tX\t_\t_\t0\troot\t_\t_\tact.01\tV\n2\tb\t_\tX\t_\t_\t1\tobj\t_\t_\t_\tARG1\n\n"
EDGE = '{"text": "a b", "targets": [{"span1": [0, 1], "label": "X"}]}\n'

KINDS = [
    ("test.mrg", TREE, "constituents"),
    ("test.c", BEE, "winograd"),
    ("test.c.txt", BEE, "winograd"),
    ("TEST_FILE_FULL.TXT", RELATION, "relations"),
    ("test.gold_conll", CONLL2012, "constituents"),
    ("xx_made-up-test.conllu", ROLES, "srl"),
    ("xx_made-ud-test.iob2", "1\ta\tB-X\t-\t-\n\n", "entities"),
    ("xx_made-ud-test.conllu", LINE.replace("_\n\n", "Entity=(e1-thing)\n\n"), "entities"),
]


@pytest.mark.parametrize(("name", "content", "layer"), KINDS)
@pytest.mark.parametrize("lies", ["alone", "in a folder", "in data/"])
def test_files_of_edges_are_told_by_name_and_content(tmp_path, name, content, layer, lies):
    folder = tmp_path / "made"
    inside = folder / "data" if lies == "in data/" else folder
    inside.mkdir(parents=True)
    (inside / name).write_text(content)
    (folder / "README.md").write_text("what it is")
    corpus = load_corpus(inside / name if lies == "alone" else folder)
    assert list(corpus.splits) == ["test"]
    assert set(corpus["test"][0].targets) == {layer}
    assert corpus.name == ("made" if lies != "alone" else (inside / name).stem)


def test_edge_jsonl_is_named_with_its_layer(tmp_path):
    (tmp_path / "train.jsonl").write_text(EDGE)
    (tmp_path / "test.jsonl").write_text(EDGE)
    corpus = load_corpus(f"{tmp_path}#proto_roles")
    assert list(corpus.splits) == ["train", "test"]
    assert set(corpus["train"][0].targets) == {"proto_roles"}
    assert set(load_corpus(f"{tmp_path}/test.jsonl#srl")["test"][0].targets) == {"srl"}
    message = rf"files of edge JSONL do not say what their targets are; write {tmp_path}#layer"
    with pytest.raises(CorpusError, match=message):
        load_corpus(tmp_path)
    with pytest.raises(CorpusError, match=r"write .*test.jsonl#layer"):
        load_corpus(tmp_path / "test.jsonl")
    with pytest.raises(CorpusError, match="layer 'Proto Roles' is no name for targets"):
        load_corpus(f"{tmp_path}#Proto Roles")
    (tmp_path / "more").mkdir()
    with pytest.raises(CorpusError, match=r"more: no edge JSONL file there \(.jsonl\)"):
        load_corpus(f"{tmp_path}/more#srl")


def test_what_a_folder_may_hold_is_listed(tmp_path):
    (tmp_path / "picture.png").write_bytes(b"")
    for kind in (
        "edge JSONL",
        "trees in brackets",
        "CoNLL-2012",
        "SemEval-2010 Task 8",
        "SentEval",
        "DPR and WSC273",
        "column files",
    ):
        with pytest.raises(CorpusError, match=kind):
            load_corpus(tmp_path)


def test_a_path_with_a_plus_or_a_hash_is_a_path(tmp_path):
    folder = tmp_path / "c+d#e"
    folder.mkdir()
    (folder / "test.conllu").write_text(LINE)
    assert load_corpus(folder).name == "c+d#e"
    assert corpus_is_available(folder)


def test_what_is_at_hand(tmp_path, made_pocket):
    (tmp_path / "test.jsonl").write_text(EDGE)
    assert corpus_is_available(f"{tmp_path}#srl")
    assert corpus_is_available(f"{tmp_path}+{tmp_path}/test.jsonl")
    assert corpus_is_available(f"{tmp_path}+pocket")
    assert not corpus_is_available(f"{tmp_path}+nowhere")
    assert not corpus_is_available("nowhere#srl")
    assert not corpus_is_available("+")
    assert not corpus_is_available("#")


def test_columns_and_joins_do_not_go_together(tmp_path):
    with pytest.raises(CorpusError, match=r"columns='form' is for column files; leave it out for a\+b"):
        load_corpus("a+b", columns="form")


def test_the_format_that_contributing_shows_is_read(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (source,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "(Format)" in block)
    names: dict[str, Any] = {}
    exec(source, names)
    monkeypatch.setattr(_named, "FORMATS", (names["Slashed"](), *_named.FORMATS))
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text("The/DT dog/NN\n\nIt/PRP barks/VBZ\n")
    corpus = load_corpus(tmp_path)
    assert list(corpus.splits) == ["train", "test"]
    assert corpus["test"][1].words == ("It", "barks")
    assert corpus["test"].layers["xpos"].values == ("DT", "NN", "PRP", "VBZ")
    (tmp_path / "test.txt").write_text("The/DT\ndog\n")
    with pytest.raises(CorpusError, match=r"test.txt:2: 'dog' where word/TAG was due"):
        load_corpus(tmp_path / "test.txt")
    (tmp_path / "test.txt").write_text("running text\n")
    assert load_corpus(tmp_path / "test.txt")["test"].layers == {}
