"""Trees in brackets, and OntoNotes as of CoNLL-2012."""

import re
from pathlib import Path

import pytest

from bertology.corpora import Corpus, Sentence, load_corpus
from bertology.corpora._files import Oddities
from bertology.corpora.formats.penn import OntoNotes, Trees
from bertology.errors import CorpusError

TREE = """
( (S (`` ``)
    (NP-SBJ-1 (PRP He) )
    (VP (VBZ does) (RB n't)
      (VP (VB want)
        (S
          (NP-SBJ (-NONE- *-1) )
          (VP (TO to)
            (VP (VB pay)
              (NP (NP ($ $) (CD 1\\/2) ) (-LRB- -LRB-) (NP (NNP U.S.) ) (-RRB- -RRB-)))))))
    ('' '') (. .) ))
"""


def _read(tmp_path: Path, text: str, oddities: Oddities | None = None) -> list[Sentence]:
    path = tmp_path / "made.mrg"
    path.write_text(text)
    return list(Trees().read(path, oddities or Oddities()))


def _phrases(sentence: Sentence) -> list[tuple[str, str]]:
    return [(" ".join(sentence.words[slice(*t.span1)]), t.label) for t in sentence.targets["constituents"]]


def test_a_tree(tmp_path):
    (sentence,) = _read(tmp_path, TREE)
    assert sentence.text == '"He doesn\'t want to pay $1/2 (U.S.)".'
    assert sentence.layers == {
        "xpos": ("``", "PRP", "VBZ", "RB", "VB", "TO", "VB", "$", "CD", "-LRB-", "NNP", "-RRB-", "''", ".")
    }
    assert sentence.id == "made-1"
    assert _phrases(sentence) == [
        ('" He does n\'t want to pay $ 1/2 ( U.S. ) " .', "S"),
        ("He", "NP"),
        ("does n't want to pay $ 1/2 ( U.S. )", "VP"),
        ("want to pay $ 1/2 ( U.S. )", "VP"),
        ("to pay $ 1/2 ( U.S. )", "S"),  # the trace is its only subject; the phrase over the same words follows
        ("to pay $ 1/2 ( U.S. )", "VP"),
        ("pay $ 1/2 ( U.S. )", "VP"),
        ("$ 1/2 ( U.S. )", "NP"),
        ("$ 1/2", "NP"),
        ("U.S.", "NP"),
    ]


@pytest.mark.parametrize(
    "text", ["(TOP (S (NP (NN a))))", "(ROOT (S (NP (NN a))))", "((S (NP (NN a))))", "(S (NP (NN a)))"]
)
def test_the_outermost_bracket_says_nothing_unless_it_is_a_phrase(tmp_path, text):
    (sentence,) = _read(tmp_path, text)
    assert _phrases(sentence) == [("a", "S"), ("a", "NP")]


def test_a_phrase_left_over_one_of_its_own_label_is_the_same(tmp_path):
    oddities = Oddities()
    (sentence,) = _read(tmp_path, "( (NP (NP (NN a) ) (SBAR (-NONE- *)) ))", oddities)
    assert _phrases(sentence) == [("a", "NP")]
    assert oddities.notes()["phrases over one phrase of the same label, counted once"] == "1, first at made.mrg:1"


def test_trees_of_traces_only_are_left_out_and_listed(tmp_path):
    oddities = Oddities()
    sentences = _read(tmp_path, "( (S (NP (-NONE- *)) ))\n( (S (NN a)))\n", oddities)
    assert [sentence.id for sentence in sentences] == ["made-2"]
    assert oddities.skipped() == {"trees of traces only": ("made.mrg:1",)}
    assert oddities.notes()["trees of traces only"] == "1: made.mrg:1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("( (S (NN a)))\n( (S\n  (NN b))\n( (S (NN c)))\n", "made.mrg:2: found 'a tree that does not close'"),
        ("word\n", r"made.mrg:1: found 'word\\n'; expected trees in brackets, as "),
        ("( (S\n(NN a b)))", r"made.mrg:2: found 'a b\)\)\)'; expected trees in brackets, as "),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message) as caught:
        _read(tmp_path, text)
    assert "\n" not in str(caught.value)


def _trees(count: int, *, blank_every: int = 0) -> str:
    lines = []
    for number in range(count):
        if blank_every and number % blank_every == 0:
            lines.append("\n")
        lines.append(f"( (S (NN w{number})))\n")
    return "".join(lines)


def test_splits_are_made_of_sentences(tmp_path):
    (tmp_path / "made.mrg").write_text(_trees(25))
    corpus = Trees().load(tmp_path / "made.mrg")
    ids = {
        split: [int(s.id.removeprefix("made-")) - 1 for s in sentences] for split, sentences in corpus.splits.items()
    }
    assert ids == {"train": [i for i in range(25) if i % 10 < 8], "dev": [8, 18], "test": [9, 19]}
    assert corpus.notes["splits"] == "made here: of ten sentences in a row eight are train, one is dev, one is test"
    (tmp_path / "made.mrg").write_text(_trees(9))
    with pytest.raises(CorpusError, match=r"9 sentences, of which train, dev and test are made; give 10 or more"):
        Trees().load(tmp_path / "made.mrg")


def test_splits_are_made_of_documents_where_blank_lines_part_them(tmp_path):
    (tmp_path / "made.mrg").write_text(_trees(60, blank_every=3))
    corpus = Trees().load(tmp_path / "made.mrg")
    assert [s.words[0] for s in corpus["dev"]] == ["w24", "w25", "w26", "w54", "w55", "w56"]
    assert [s.words[0] for s in corpus["test"]] == ["w27", "w28", "w29", "w57", "w58", "w59"]
    assert len(corpus["train"]) == 48
    assert "ten documents" in corpus.notes["splits"]


def test_files_are_documents_or_splits(tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for number in range(20):
        (many / f"wsj_{number:04}.mrg").write_text(_trees(2))
    corpus = Trees().load(many)
    assert [s.id for s in corpus["dev"]] == ["wsj_0008-1", "wsj_0008-2", "wsj_0018-1", "wsj_0018-2"]
    named = tmp_path / "named"
    named.mkdir()
    for split in ("train", "test"):
        (named / f"{split}.mrg").write_text(_trees(2))
    corpus = Trees().load(named)
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {"train": 2, "test": 2}
    assert "splits" not in corpus.notes


def test_the_treebank_sample(real_data):
    """Words and phrases against a count by substitution: traces out, then what that leaves empty, until nothing is."""
    path = real_data("treebank_sample") / "wsj_sample.mrg"
    corpus = Trees().load(path)
    text = re.sub(r"\(-NONE- [^()\s]+\)", "", path.read_text(encoding="utf-8"))
    while (shorter := re.sub(r"\([^()\s]+\s*\)", "", text)) != text:
        text = shorter
    words = re.findall(r"\([^()\s]+ ([^()\s]+)\)", text)
    assert sum(sentences.n_words for sentences in corpus.splits.values()) == len(words) == 94_084
    assert sum(map(len, corpus.splits.values())) == len(re.findall(r"^\( ?\(", text, re.MULTILINE)) == 3_914
    phrases = re.findall(r"\([^()\s]+\s+(?=\()", text)
    found = [target for sentences in corpus.splits.values() for s in sentences for target in s.targets["constituents"]]
    same = int(corpus.notes["phrases over one phrase of the same label, counted once"].partition(",")[0])
    assert len(found) + same == len(phrases)
    labels = {target.label for target in found}
    assert {"S", "NP", "VP", "PP", "SBAR", "ADVP", "ADJP", "QP", "WHNP", "PRT", "SINV"} < labels
    assert all(isinstance(label, str) and label.isalpha() for label in labels)
    assert corpus["train"][0].text == (
        "Pierre Vinken, 61 years old, will join the board as a nonexecutive director Nov. 29."
    )
    assert "ten documents" in corpus.notes["splits"]
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {
        "train": 3_076,
        "dev": 377,
        "test": 461,
    }


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


def _sentences(tmp_path: Path, text: str) -> list[Sentence]:
    return list(_load(tmp_path, text)["test"])


def _said(sentence: Sentence, layer: str) -> list[tuple[str, object, str]]:
    words = sentence.words
    return [
        (" ".join(words[slice(*t.span1)]), t.label, " ".join(words[slice(*t.span2)]) if t.span2 else "")
        for t in sentence.targets.get(layer, ())
    ]


def test_a_sentence(tmp_path):
    (sentence,) = _sentences(tmp_path, _file(ROWS))
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
    (sentence,) = _sentences(tmp_path, _file(["a NN * - - - - * -", "b NN * - - - - * -"]))
    assert sentence.layers == {"xpos": ("NN", "NN"), "ner": ("O", "O")}
    assert sentence.targets == {}


def test_mentions_of_one_name_may_nest(tmp_path):
    (sentence,) = _sentences(tmp_path, _file(["a NN * - - - - * (3|(3", "b NN * - - - - * 3)", "c NN * - - - - * 3)"]))
    assert _said(sentence, "coref") == [("a b", "1", "a b c")]
    # Entities of another part of the document are others.
    assert _said(sentence, "mentions") == [("a b c", "0/3", ""), ("a b", "0/3", "")]


def test_a_column_of_roles_without_predicate_is_listed(tmp_path):
    corpus = _load(tmp_path, _file(["a NN * - - - - * (A0*) -", "b NN * - - - - * * -"]))
    assert corpus.skipped == {"columns of roles without a predicate (V": ("made.v4_gold_conll:2",)}
    corpus = _load(tmp_path, _file(["a NN * - - - - * (V*) -"]))
    assert corpus.notes["predicates without arguments"] == "1: made.v4_gold_conll:2"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a NN * - - - - * (3", "b NN * - - - - * -"], r"made.v4_gold_conll:2: column 12 \(coreference\): found '3'"),
        (["a NN (NP* - - - - * -"], r"made.v4_gold_conll:2: column 6 \(parse\): found 'NP'"),
        (["a NN * - - -"], "made.v4_gold_conll:2: found .*; expected 12 columns"),
        (["[WORD] NN * - - - - * -"], "made.v4_gold_conll:2: found .*; expected words, put in from Ont"),
    ],
)
def test_what_is_wrong_in_ontonotes_is_named(tmp_path, rows, message):
    with pytest.raises(CorpusError, match=message) as caught:
        _sentences(tmp_path, _file(rows))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_file(ROWS, end=""), "made.v4_gold_conll:10: found 'the end of the file'; expected #end document of the d"),
        (_file(ROWS, begin=""), "made.v4_gold_conll:1: found .*; expected #begin document"),
        (BEGIN + "x 0 1 a NN * - - - - * -\n\n" + END, r"made.v4_gold_conll:2: found 'x 0 1 a NN \* - - - - \* -'"),
        (BEGIN + END, r"no sentence in it; give a file of CoNLL-2012 with some"),
    ],
)
def test_documents_that_are_wrong(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        _sentences(tmp_path, text)


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


def test_one_file_is_told_by_its_first_line(tmp_path):
    path = tmp_path / "dev.conll"
    path.write_text(_file(ROWS))
    assert set(load_corpus(path)["dev"][0].targets) == {"constituents", "entities", "srl", "coref", "mentions"}
    path = path.rename(tmp_path / "wsj_0001.v4_gold_conll")
    assert list(load_corpus(path).splits) == ["test"]
