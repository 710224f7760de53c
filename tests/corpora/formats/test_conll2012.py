"""Files of CoNLL-2012."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology.corpora import Corpus, Sentence, load_corpus
from bertology.corpora.formats.penn import OntoNotes
from bertology.errors import CorpusError

BEGIN, END = "#begin document (nw/made/00/made_0001); part 000\n", "#end document\n"
ROWS = [
    "Ann NNP (TOP(S(NP* - - - - (PERSON) (ARG0* (0",
    "'s POS *) - - - - * *) 0)",
    "son NN (NP*) - - - - * * (1)|(2",
    "said VBD (VP* say 01 1 - * (V*) 2)",
    "he PRP (SBAR(S(NP*) - - - - * (ARG1* (1)",
    "-LRB- -LRB- (VP* - - - - * * -",
    "won VBD * win 01 - - (DATE* * -",
    "/. . *)))))) - - - - *) *) -",
]


def _file(rows: list[str], *, begin: str = BEGIN, end: str = END) -> str:
    lines = [f"nw/made/00/made_0001 0 {number} {row}\n" for number, row in enumerate(rows)]
    return begin + "".join(lines) + "\n" + end


def _load(tmp_path: Path, text: str) -> Corpus:
    path = tmp_path / "made.v4_gold_conll"
    path.write_text(text)
    return OntoNotes().load(path)


def _read(tmp_path: Path, text: str) -> list[Sentence]:
    return list(_load(tmp_path, text)["test"])


def _said(sentence: Sentence, layer: str) -> list[tuple[str, object, str]]:
    words = sentence.words
    return [
        (" ".join(words[slice(*t.span1)]), t.label, " ".join(words[slice(*t.span2)]) if t.span2 else "")
        for t in sentence.targets.get(layer, ())
    ]


def test_a_sentence(tmp_path):
    (sentence,) = _read(tmp_path, _file(ROWS))
    assert sentence.words == ("Ann", "'s", "son", "said", "he", "(", "won", ".")
    assert sentence.text == "Ann's son said he (won."
    assert sentence.id == "nw/made/00/made_0001/000-1"
    assert sentence.layers["xpos"] == ("NNP", "POS", "NN", "VBD", "PRP", "-LRB-", "VBD", ".")
    assert sentence.layers["lemma"] == (None, None, None, "say", None, None, "win", None)
    assert sentence.layers["ner"] == ("B-PERSON", "O", "O", "O", "O", "O", "B-DATE", "I-DATE")
    assert _said(sentence, "constituents") == [
        ("Ann 's son said he ( won .", "S", ""),
        ("Ann 's", "NP", ""),
        ("son", "NP", ""),
        ("said he ( won .", "VP", ""),
        ("he ( won .", "SBAR", ""),
        ("he ( won .", "S", ""),
        ("he", "NP", ""),
        ("( won .", "VP", ""),
    ]
    assert _said(sentence, "entities") == [("Ann", "PERSON", ""), ("won .", "DATE", "")]
    assert _said(sentence, "srl") == [("said", "ARG0", "Ann 's"), ("said", "ARG1", "he ( won .")]
    assert _said(sentence, "coref") == [
        ("Ann 's", "0", "son"),
        ("Ann 's", "0", "son said"),
        ("Ann 's", "0", "he"),
        ("son", "0", "son said"),
        ("son", "1", "he"),
        ("son said", "0", "he"),
    ]


def test_columns_without_values_bring_no_layer(tmp_path):
    (sentence,) = _read(tmp_path, _file(["a NN * - - - - * -", "b NN * - - - - * -"]))
    assert sentence.layers == {"xpos": ("NN", "NN"), "ner": ("O", "O")}
    assert sentence.targets == {}


def test_mentions_of_one_name_may_nest(tmp_path):
    (sentence,) = _read(tmp_path, _file(["a NN * - - - - * (3|(3", "b NN * - - - - * 3)", "c NN * - - - - * 3)"]))
    assert _said(sentence, "coref") == [("a b", "1", "a b c")]


def test_a_column_of_roles_without_predicate_is_listed(tmp_path):
    corpus = _load(tmp_path, _file(["a NN * - - - - * (A0*) -", "b NN * - - - - * * -"]))
    assert corpus.skipped == {"columns of roles without a predicate (V": ("made.v4_gold_conll:2",)}
    corpus = _load(tmp_path, _file(["a NN * - - - - * (V*) -"]))
    assert corpus.notes["predicates without arguments"] == "1: made.v4_gold_conll:2"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a NN * - - - - * (3", "b NN * - - - - * -"], r"conll:2: coreference: \(3 does not close in the sentence"),
        (["a NN * - - - - * -", "b NN * - - - - * 3)"], r"conll:3: coreference: 3\) closes, which is not open"),
        (["a NN * - - - - * 3"], r"conll:2: the last column \(coreference\) holds '3', not brackets"),
        (["a NN (NP* - - - - * -"], r"conll:2: column 6 \(parse\): \(NP does not close in the sentence"),
        (["a NN *)) - - - - * -"], r"conll:2: column 6 \(parse\): a bracket closes that was not opened"),
        (["a NN NP - - - - * -"], r"conll:2: column 6 \(parse\) holds 'NP', not brackets"),
        (["a NN * - - - - (GPE* -"], r"conll:2: column 11 \(name\): \(GPE does not close"),
        (["a NN * - - - - * (V* -"], r"conll:2: column 12 \(roles\): \(V does not close"),
        (["a NN * - - -"], r"conll:2: 9 columns where CoNLL-2012 has 12 or more"),
        (["a NN * - - - - * -", "a NN * - - - - * * -"], r"conll:3: 13 columns where the sentence has 12"),
        (["[WORD] NN * - - - - * -"], r"conll:2: the words were taken out \(\[WORD\]\); put them in from OntoNotes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, rows, message):
    with pytest.raises(CorpusError, match=message) as caught:
        _read(tmp_path, _file(rows))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_file(ROWS, end=""), r"conll:10: the document of line 1 has no #end document; it may be cut short"),
        (_file(ROWS, begin=""), r"conll:1: a line outside of any document"),
        (BEGIN + BEGIN + END, r"conll:2: a document begins inside that of line 1; end it first"),
        (BEGIN + "x 0 1 a NN * - - - - * -\n\n" + END, r"conll:2: word number 1 where 0 was due; count from 0"),
        (BEGIN + END, r"no sentence in it; give a file of CoNLL-2012 with words"),
    ],
)
def test_documents_that_are_wrong(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        _read(tmp_path, text)


def test_a_folder_of_folders(tmp_path):
    for split in ("train", "development", "test"):
        inside = tmp_path / "conll" / split / "data" / "english"
        inside.mkdir(parents=True)
        (inside / "made_0001.v4_gold_conll").write_text(_file(ROWS))
    corpus = load_corpus(tmp_path / "conll")
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {"train": 1, "dev": 1, "test": 1}
    (tmp_path / "conll" / "more.gold_conll").write_text(_file(ROWS))
    corpus = load_corpus(tmp_path / "conll")
    assert len(corpus.skipped["files whose names speak of no split"]) == 1


def test_splits_are_made_of_documents(tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    for number in range(20):
        begin = BEGIN.replace("made_0001", f"made_{number:04}")
        second = begin.replace("part 000", "part 001")
        text = _file(ROWS, begin=begin) + _file(ROWS, begin=second)
        (folder / f"made_{number:04}.gold_conll").write_text(text)
    corpus = load_corpus(folder)
    assert [s.id for s in corpus["test"]] == [
        f"nw/made/00/made_{number:04}/{part}-1" for number in (9, 19) for part in ("000", "001")
    ]
    assert "ten documents" in corpus.notes["splits"]


def test_one_file_is_told_by_its_first_line(tmp_path):
    path = tmp_path / "dev.conll"
    path.write_text(_file(ROWS))
    assert set(load_corpus(path)["dev"][0].targets) == {"constituents", "entities", "srl", "coref"}
    path = path.rename(tmp_path / "wsj_0001.v4_gold_conll")
    assert list(load_corpus(path).splits) == ["test"]
