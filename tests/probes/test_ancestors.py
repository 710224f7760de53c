"""Ancestor tagging: the labels of constituents and of relations above a word, against trees done by hand."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import Corpus, Sentence, Sentences, Target, load_corpus
from bertology.errors import BertologyError, CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow
from tests.probes.conftest import BRIEF, check_chance

NONE = "no ancestor"
# A unary chain (S over VP over the one word *Go*), a trace (its NP is taken out), function tags, an unlabelled top.
TREE = """( (S (NP-SBJ (-NONE- *)) (VP (VB Go) )))
( (S (NP-SBJ-1 (NP (NN tea)) (PP (IN from) (NP (NNP India)))) (VP (VBZ is) (VP (VBN sold) (NP (-NONE- *-1)))) (. .)))
"""
TREEBANK = """# sent_id = fr
1\tIl\t_\tPRON\t_\t_\t2\tnsubj:expl\t_\t_
2\tparle\t_\tVERB\t_\t_\t0\troot\t_\t_
3-4\tdu\t_\t_\t_\t_\t_\t_\t_\t_
3\tde\t_\tADP\t_\t_\t5\tcase\t_\t_
4\tle\t_\tDET\t_\t_\t5\tdet\t_\t_
5\ttemps\t_\tNOUN\t_\t_\t2\tobl:arg\t_\t_
5.1\tqui\t_\tPRON\t_\t_\t_\t_\t_\t_
6\tperdu\t_\tVERB\t_\t_\t5\tacl\t_\t_

"""


def labels(sentences: Sentences, n: int, **settings: Any) -> list[str]:
    found: Any = get_probe(f"ancestors:{n}").with_settings(settings)
    examples = found.examples(sentences)
    return [examples.values[code] for code in examples.codes.tolist()]


def read(path: Path, text: str) -> Sentences:
    """The sentences of a file as they stand in it, whatever their split."""
    times = 10 if path.suffix == ".mrg" else 1
    path.write_text(text * times)
    (only,) = load_corpus(path).as_one("all").splits.values()
    return only[: len(only) // times]


def test_constituents_above_each_word(tmp_path: Path) -> None:
    sentences = read(tmp_path / "some.mrg", TREE)
    assert sentences.text(0) == "Go"
    by_n = [labels(sentences, n) for n in (1, 2, 3, 4)]
    # Go: VP, S; tea: NP, NP, S; from: PP, NP, S; India: NP, PP, NP, S; is: VP, S; sold: VP, VP, S; the stop: S.
    assert by_n[0] == ["VP", "NP", "PP", "NP", "VP", "VP", "S"]
    assert by_n[1] == ["S", "NP", "NP", "PP", "S", "VP", NONE]
    assert by_n[2] == [NONE, "S", "S", "NP", NONE, "S", NONE]
    assert by_n[3] == [NONE, NONE, NONE, "S", NONE, NONE, NONE]


def of_heads(words: str, heads: tuple[int, ...], relations: str) -> Sentence:
    return Sentence.from_words(words.split(), heads=heads, layers={"deprel": relations.split()})


def test_relations_above_each_word(tmp_path: Path) -> None:
    # Two words of one token and an empty node; crossing arcs; two roots and a circle.
    french = read(tmp_path / "fr_x-ud-test.conllu", TREEBANK)
    crossing = of_heads("A hearing is set the issue", (2, 4, 4, 0, 6, 2), "det nsubj:pass aux root det nmod")
    roots, circle = of_heads("No tree", (0, 0), "root root"), of_heads("No tree here", (2, 1, 0), "dep dep root")
    sentences = Sentences([*french, crossing, roots, circle])
    by_n = [labels(sentences, n) for n in (1, 2, 3)]
    assert by_n[0] == ["root", NONE, "obl", "obl", "root", "obl", "nsubj", "root", "root", NONE, "nmod", "nsubj"]
    assert by_n[1] == [NONE, NONE, "root", "root", NONE, "root", "root", NONE, NONE, NONE, "nsubj", "root"]
    assert by_n[2] == [NONE] * 10 + ["root", NONE]
    found = get_probe("ancestors:1").examples(sentences)
    assert found.words.tolist() == list(range(12))
    assert found.skipped == {"word of a sentence whose heads make no tree": 5}


def test_constituents_are_preferred_where_there_are_both() -> None:
    test = load_corpus("pocket")["test"][:1]
    assert test.text(0) == "They're eating the oil from black markets with the irons."
    assert labels(test, 1) == ["NP", "VP", "VP", "NP", "NP", "PP", "NP", "NP", "PP", "NP", "NP", "S"]
    assert labels(test, 1, tree="dependencies")[:4] == ["root", "root", NONE, "obj"]


def of_phrases(*phrases: tuple[int, int, Any]) -> Sentences:
    targets = {"constituents": [Target((start, end), label) for start, end, label in phrases]}
    return Sentences([Sentence.from_words(["a", "b", "c", "d"], targets=targets), Sentence.from_words(["e"])])


def test_what_is_no_constituent_tree() -> None:
    # In whichever order phrases come, but for those over the same words.
    found = get_probe("ancestors:2").examples(of_phrases((0, 2, "NP"), (0, 4, "ROOT"), (0, 4, "S")))
    assert [found.values[code] for code in found.codes] == ["S", "S", "ROOT", "ROOT"]
    assert found.skipped == {"word of a sentence without constituents": 1}
    with pytest.raises(CorpusError, match=r"no tree \(sentence with constituents that cross, .*\): give a treebank"):
        labels(of_phrases((0, 3, "NP"), (1, 4, "VP")), 1)
    assert labels(of_phrases((0, 4, ("NP", "VP"))), 1) == ["NP+VP"] * 4


@pytest.mark.parametrize("number", ["0", "21", "-1", "x", "1.5", "²"])
def test_a_number_of_steps_is_needed(number: str) -> None:
    with pytest.raises(BertologyError, match=f"ancestors:{re.escape(number)}: it should be a number of steps from 1"):
        get_probe(f"ancestors:{number}")


def test_a_corpus_without_trees_is_refused(sentences_of: Callable[..., Sentences]) -> None:
    words = sentences_of("the dog", upos=["DET", "NOUN"])
    with pytest.raises(CorpusError, match=r"no tree \(sentence without heads and relations\): .* layers are upos"):
        labels(words, 1)
    with pytest.raises(CorpusError, match=r"no tree \(sentence without constituents\): give a treebank"):
        labels(words, 1, tree="constituents")


@pytest.mark.parametrize(("task", "settings"), [("ancestors:1", {}), ("edge_ancestors:1", BRIEF)])
def test_what_is_planted_is_found_and_nothing_else(
    task: str,
    settings: dict[str, Any],
    planted: Callable[..., Corpus],
    ask: Callable[..., dict[str, ResultRow]],
) -> None:
    def treebank(*, signal: bool) -> Corpus:
        """Each word in a phrase of its own, whose category follows from the word or from nothing."""
        whole = planted("tag", ("NP", "VP", "PP"), signal=signal)
        splits = {}
        for split, sentences in whole.splits.items():
            made = []
            for one in sentences:
                phrases = [Target((0, len(one)), "S")]
                phrases += [Target((place, place + 1), str(tag)) for place, tag in enumerate(one.layers["tag"])]
                made.append(Sentence.from_words(one.words, id=one.id, targets={"constituents": phrases}))
            splits[split] = Sentences(made)
        return Corpus("planted", splits)

    # Of one label a word, micro F1 of the edge probe is accuracy.
    metric = "micro_f1" if task.startswith("edge") else "accuracy"
    value = ask(task, treebank(signal=True), **settings)[metric].value
    assert value is not None
    assert value > 0.98
    check_chance(ask(task, treebank(signal=False), **settings)[metric], 1 / 3)
