"""Penn-bracketed trees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bertology.corpora import Sentence
from bertology.corpora._files import Oddities
from bertology.corpora.formats.penn import Trees
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


def test_labels_lose_function_tags_only(tmp_path):
    (sentence,) = _read(tmp_path, "( (S=2 (PP-LOC-CLR-1 (IN a)) (ADVP|PRT (RP b)) (WHNP-1 (WP c)) (NP (-RRB- -RRB-))))")
    assert [label for _, label in _phrases(sentence)] == ["S", "PP", "ADVP", "WHNP", "NP"]


def test_trees_of_traces_only_are_left_out_and_listed(tmp_path):
    oddities = Oddities()
    sentences = _read(tmp_path, "( (S (NP (-NONE- *)) ))\n( (S (NN a)))\n", oddities)
    assert [sentence.id for sentence in sentences] == ["made-2"]
    assert oddities.skipped() == {"trees of traces only": ("made.mrg:1",)}
    assert oddities.notes()["trees of traces only"] == "1: made.mrg:1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("( (S (NN a)))\n( (S\n  (NN b))\n( (S (NN c)))\n", r"made.mrg:2: the tree that opens here does not close"),
        ("( (S (NN a)))\n)\n", r"made.mrg:2: a bracket closes that was not opened"),
        ("( (S (NN a))))\n( (S (NN b)))", r"made.mrg:1: a bracket closes that was not opened"),
        ("( (S (NN a)\n(NP )))", r"made.mrg:2: a bracket \(NP\) that holds nothing"),
        ("( (S ()))", r"made.mrg:1: a bracket \(\) that holds nothing"),
        ("word\n", r"made.mrg:1: 'word' stands outside of any bracket"),
        ("( (S\n(NN a b)))", r"made.mrg:2: 'b' stands beside other parts of \(NN; give it a tag"),
        ("( (S (NN a) b))", r"made.mrg:1: 'b' stands beside other parts of \(S"),
        ("( (S (NN a (NN b))))", r"made.mrg:1: a bracket opens after the word 'a'; close \(NN first"),
        ("\n", r"made.mrg: no tree in it; give trees in brackets"),
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
