"""Edge JSONL, and everything that may be wrong with it."""

import json
from pathlib import Path

import pytest

from bertology.corpora import Sentence, Sentences, Target
from bertology.corpora.formats.edge_jsonl import EdgeJsonl
from bertology.errors import CorpusError

ONE = {"span1": [0, 1], "label": "X"}
PAIR = {"span1": [0, 1], "span2": [1, 3], "label": "1"}


def _line(*targets: object, text: object = "the cat sat", **more: object) -> str:
    return json.dumps({"text": text, "targets": list(targets), **more}) + "\n"


def _read(tmp_path: Path, *lines: str) -> list[Sentence]:
    path = tmp_path / "edges.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return list(EdgeJsonl("made").load(path)["test"])


def test_one_and_two_spans_and_many_labels(tmp_path):
    (one,) = _read(tmp_path, _line(ONE, {"span1": [1, 3], "label": "Y"}))
    assert one.words == ("the", "cat", "sat")
    assert one.text == "the cat sat"
    assert one.id == "1"
    assert one.targets == {"made": (Target((0, 1), "X"), Target((1, 3), "Y"))}
    (two,) = _read(tmp_path, _line(PAIR, info={"source": "x"}))
    assert two.targets["made"] == (Target((0, 1), "1", (1, 3)),)
    (many,) = _read(tmp_path, _line({**PAIR, "label": ["a", "b"]}, {**PAIR, "label": []}))
    assert [target.label for target in many.targets["made"]] == [("a", "b"), ()]
    assert [target.labels for target in many.targets["made"]] == [("a", "b"), ()]
    assert two.targets["made"][0].labels == ("1",)


def test_sentences_without_targets_and_blank_lines_are_no_error(tmp_path):
    bare, full = _read(tmp_path, _line(), "\n", _line(ONE))
    assert bare.targets == {}
    assert full.id == "3"


def test_words_without_stated_spacing_are_counted(tmp_path):
    path = tmp_path / "edges.jsonl"
    path.write_text(_line(ONE) + _line(ONE, text="It 's", info={"text": "It's"}), encoding="utf-8")
    corpus = EdgeJsonl("made").load(path)
    first, second = corpus["test"]
    assert first.text == "the cat sat"
    assert second.text == "It's"
    assert corpus.notes == {"sentences without spacing, words joined by single spaces": "1, first at edges.jsonl:1"}


def test_only_spaces_part_words(tmp_path):
    (sentence,) = _read(tmp_path, _line({"span1": [1, 2], "label": "X"}, text="some  1\u00a0000 words"))
    assert sentence.words == ("some", "1\u00a0000", "words")
    assert sentence.text == "some 1\u00a0000 words"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([_line(ONE), _line({"span1": [2, 4], "label": "X"})], r"edges.jsonl:2: targets\[0\].span1: found \[2, 4\]"),
        (
            [_line(ONE), _line(PAIR)],
            r"edges.jsonl:2: targets\[0\]: found 'two spans and a string'; expected one ",
        ),
        ([_line(ONE), _line({**ONE, "label": ["X"]})], r":2: targets\[0\]: found 'one span and a list'; expected one "),
        (["[" * 100_000], r"jsonl:1: not readable as edge JSONL .*recursion limit"),
        ([_line({"label": "X"})], r"jsonl:1: not readable as edge JSONL \(targets.0.span1: .*write an object with"),
        ([_line({"span1": [True, 1], "label": "X"})], r"targets.0.span1.0: Input should be a valid integer"),
        ([_line({"span1": [0, 1], "label": 3})], r"edges.jsonl:1: targets\[0\].label: found 3"),
        ([_line(ONE, text="  ")], "edges.jsonl:1: text: found '  '; expected words, parted by spaces"),
        (["\n"], r"edges.jsonl: no sentence in it; give a file of edge JSONL"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, lines, message):
    with pytest.raises(CorpusError, match=message) as caught:
        _read(tmp_path, *lines)
    assert "\n" not in str(caught.value)


def test_derived_targets_do_not_enter_the_fingerprint():
    bare = Sentences([Sentence.from_words(["a", "b"], layers={"ner": ("B-X", "O")}), Sentence.from_words(["c"])])
    more = bare.with_derived("entities", {0: (Target((0, 1), "X"),)})
    assert more[0].targets == {"entities": (Target((0, 1), "X"),)}
    assert more[0].derived == {"entities"}
    assert bare[0].targets == {}
    prints = {held.fingerprint for held in (bare, more, more[:], Sentences(more))}
    assert len(prints) == 1
    stated = Sentences([Sentence.from_words(["a", "b"], layers=bare[0].layers, targets=more[0].targets), bare[1]])
    assert stated.fingerprint != bare.fingerprint


def test_the_fingerprint_tells_many_labels_from_one():
    def held(label: str | tuple[str, ...]) -> str:
        return Sentences([Sentence.from_words(["a"], targets={"t": (Target((0, 1), label),)})]).fingerprint

    assert len({held("x"), held(("x",)), held(()), held(("x", "y"))}) == 4
    assert held("x") == "f2a2422ff0bc009d4947da3a2276833a"
