"""Everything that can be wrong in a CoNLL-U file is one line that names file and line, and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology.corpora import load_corpus
from bertology.corpora.formats.conllu import read_conllu
from bertology.errors import CorpusError

GOOD = "1\tgood\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


def row(identifier: str = "1", form: str = "a", head: str = "0", misc: str = "_") -> str:
    return f"{identifier}\t{form}\t_\t_\t_\t_\t{head}\tdep\t_\t{misc}\n"


FAULTS = {
    "few columns": ("1\ta\t_\n", "3: 3 columns where CoNLL-U has 10, parted by tabs; write _ for no value"),
    "one column": ("word\n", "3: 1 column where CoNLL-U has 10"),
    "many columns": (row().rstrip("\n") + "\t_\n", "3: 11 columns where CoNLL-U has 10"),
    "spaces": (row().replace("\t", "   "), "3: 1 column, for some are parted by spaces; CoNLL-U wants a tab"),
    "a space": (row().replace("\tdep\t", "\tdep "), "3: 9 columns, for some are parted by spaces"),
    "empty cell": (row(form=""), r"3: column 2 \(FORM\) is empty; write _"),
    "empty misc": (row() + row("2", misc=""), r"4: column 10 \(MISC\) is empty"),
    "empty token": ("1-2\t\t_\t_\t_\t_\t_\t_\t_\t_\n" + row("1") + row("2"), r"3: column 2 \(FORM\) is empty"),
    "head no number": (row(head="2") + row("2", head="x"), "4: HEAD 'x' is not a number; write that of the head word"),
    "head a real": (row(head="1.0"), "3: HEAD '1.0' is not a number"),
    "head a numeral of python": (row(head="0_0"), "3: HEAD '0_0' is not a number"),
    "head below": (row(head="-1"), "3: HEAD '-1' is not a number"),
    "head missing": (row() + row("2", head="_"), "4: HEAD '_' is not a number"),
    "head beyond": (row() + row("2", head="3"), "4: HEAD 3 in a sentence of 2 words; write 0 to 2"),
    "order": (row("2"), "3: ID 2 where 1 was due; number words from 1, in order"),
    "gap": (row("1") + row("3", head="1"), "4: ID 3 where 2 was due"),
    "two sentences": (row() + row("1"), "4: ID 1 where 2 was due; .*is the blank line between two sentences missing?"),
    "no id": (row("x"), "3: ID 'x' where word 1 was due; write a number"),
    "superscript": (row("²"), "3: ID '²' where word 1 was due"),
    "token late": (row("1") + row("1-2") + row("2", head="1"), "4: multiword token 1-2 where word 2 was due"),
    "token backwards": (row("2-1") + row("1"), "3: multiword token 2-1 where word 1 was due"),
    "tokens overlap": (
        "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + row("1") + row("2-3") + row("2", head="1") + row("3", head="1"),
        "5: multiword token 2-3 where word 2 was due",
    ),
    "token past the end": (
        "1-3\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + row("1"),
        "3: multiword token 1-3 reaches past word 1",
    ),
    "token annotated": (row("1-2") + row("1") + row("2", head="1"), "3: multiword token 1-2 with HEAD '0'; write _"),
    "node late": (row("1") + row("2.1"), "4: empty node 2.1 after word 1"),
    "nodes out of order": (row("1") + row("1.2") + row("1.1"), "5: empty node 1.1 after word 1"),
    "only a node": (row("0.1"), "3: a sentence without words"),
    "comment inside": (row("1") + "# sent_id = 2\n" + row("1"), "4: a comment inside a sentence; put a blank line"),
    "cut short": ("# sent_id = 2\n", "3: the file ends in comments with no words; it may be cut short"),
}


CIRCLES = {
    "circle": (row() + row("2", head="3") + row("3", head="2"), "2: heads in a circle: 2 → 3 → 2"),
    "own head": (row(head="1"), "1: heads in a circle: 1 → 1; let one of these words lead to a root"),
    "circle behind a token": (
        "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + row("1", head="2") + row("2", head="1"),
        "2: heads in a circle: 1 → 2 → 1",
    ),
}


@pytest.mark.parametrize("circle", CIRCLES)
def test_a_circle_is_left_out_and_named_where_there_is_nothing_else(tmp_path: Path, circle: str):
    lines, message = CIRCLES[circle]
    path = tmp_path / "bad.conllu"
    path.write_text(GOOD + lines, encoding="utf-8")
    corpus = load_corpus(path)
    assert len(corpus["test"]) == 1
    assert corpus.skipped == {"sentences whose heads form a circle": ("bad.conllu:3",)}
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(CorpusError, match=f"bad.conllu:{message}"):
        load_corpus(path)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_file_and_line(tmp_path: Path, fault: str):
    lines, message = FAULTS[fault]
    path = tmp_path / "bad.conllu"
    path.write_text(GOOD + lines, encoding="utf-8")
    with pytest.raises(CorpusError, match=f"bad.conllu:{message}") as caught:
        list(read_conllu(path))
    assert "\n" not in str(caught.value)
    with pytest.raises(CorpusError, match=f"bad.conllu:{message}"):
        load_corpus(path)


def test_the_first_fault_of_a_file_is_the_one_named(tmp_path: Path):
    path = tmp_path / "bad.conllu"
    path.write_text(row(head="9") + "\n" + "1\ta\n")
    with pytest.raises(CorpusError, match=r"bad.conllu:1: HEAD 9"):
        list(read_conllu(path))


def test_bytes_that_are_not_utf8(tmp_path: Path):
    path = tmp_path / "latin1.conllu"
    path.write_bytes(GOOD.encode() + row(form="café").encode("latin-1"))
    with pytest.raises(CorpusError, match=r"latin1.conllu:3: byte 0xe9 \(the line's 6\.\) is not UTF-8; save the file"):
        list(read_conllu(path))


@pytest.mark.parametrize("content", ["", "\n\n", "  \n"])
def test_an_empty_file(tmp_path: Path, content: str):
    path = tmp_path / "empty.conllu"
    path.write_text(content)
    with pytest.raises(CorpusError, match=r"empty.conllu: no sentence in it; give a CoNLL-U file with words"):
        load_corpus(path)


def test_no_such_file(tmp_path: Path):
    with pytest.raises(CorpusError, match="no such file; check the path"):
        list(read_conllu(tmp_path / "none.conllu"))


def test_a_folder_for_a_file(tmp_path: Path):
    with pytest.raises(CorpusError, match="a folder where a file was due"):
        list(read_conllu(tmp_path))


def test_two_files_for_one_split(tmp_path: Path):
    for name in ("train.conllu", "old-train.conllu"):
        (tmp_path / name).write_text(GOOD)
    assert list(load_corpus(tmp_path).splits) == ["train"]
    (tmp_path / "old-train.conllu").write_text(GOOD * 2)
    names = "old-train.conllu and train.conllu"
    with pytest.raises(CorpusError, match=f"{names} would both be the train split, and differ; give a folder with one"):
        load_corpus(tmp_path)


def test_two_treebanks_in_one_folder(tmp_path: Path):
    for number, name in enumerate(("en_ewt-ud-test.conllu", "fr_gsd-ud-test.conllu"), 1):
        (tmp_path / name).write_text(GOOD * number)
    with pytest.raises(CorpusError, match="would both be the test split"):
        load_corpus(tmp_path)


def test_files_that_name_no_split(tmp_path: Path):
    for name in ("one.conllu", "two.conllu"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(CorpusError, match=r"no CoNLL-U file there has train, dev or test in its name \(one"):
        load_corpus(tmp_path)
