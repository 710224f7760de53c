"""Labels of words that a treebank has, and values of features."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bertology import load_corpus, probe, read_results
from bertology.corpora import Corpus, Sentences
from bertology.errors import CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow
from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import experiment_of
from tests.probes.conftest import check_chance, make_sentence

PLANTED = {
    "ccg": ("N", "NP/N", "(S\\NP)/NP"),
    "ner": ("O", "B-PER", "I-PER"),
    "deprel": ("nsubj", "obj", "nmod:poss"),
    "feats": ("Number=Sing|Person=3", "Number=Plur|Person=3"),
}
WORDS = "dogs bark , she barked"
FEATS = ["Number=Plur", "Number=Plur|Tense=Pres", None, "Case=Nom|Number=Sing", "Tense=Past"]


@pytest.mark.parametrize(
    ("task", "labels", "expected"),
    [
        ("xpos", ["DT", "NNS", ",", None], ["DT", "NNS", ","]),
        ("ner", ["B-PER", "I-PER", "O", None], ["B-PER", "I-PER", "O"]),
        ("chunk", ["B-NP", "I-NP", "O", None], ["B-NP", "I-NP", "O"]),
        ("deprel", ["nmod:poss", "nsubj:pass", "nmod", None], ["nmod", "nsubj", "nmod"]),
    ],
)
def test_every_word_with_a_label_is_asked_about(
    task: str, labels: list[str | None], expected: list[str], sentences_of: Callable[..., Sentences]
) -> None:
    found = get_probe(task).examples(sentences_of("the dogs , see", **{task: labels}))
    assert [found.values[code] for code in found.codes] == expected
    assert found.values == tuple(dict.fromkeys(expected))
    assert found.skipped == {f"no {task} label": 1}
    with pytest.raises(CorpusError, match=f"layer '{task}'"):
        get_probe(task).examples(sentences_of("the dog", upos=["DET", "NOUN"]))


@pytest.mark.parametrize("layer", ["ccg", "ner", "deprel", "feats"])
def test_what_is_planted_is_found_and_nothing_else(
    layer: str, planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    task, labels = "feats:Number" if layer == "feats" else layer, PLANTED[layer]
    scores = ask(task, planted(layer, labels, signal=True))
    assert scores["accuracy"].value == scores["macro_f1"].value == 1.0
    assert scores["micro_f1" if layer == "ner" else "accuracy"].main_metric
    assert scores["accuracy"].task == task
    check_chance(ask(task, planted(layer, labels, signal=False))["accuracy"], 1 / len(labels))


def test_nothing_is_earned_by_calling_every_word_outside(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    # Nearly all words are outside and nothing tells the others: accuracy is high, the main metric is not.
    scores = ask("ner", planted("ner", ("O",) * 19 + ("B-X",), signal=False))
    accuracy, f1 = scores["accuracy"].value, scores["micro_f1"].value
    assert accuracy is not None
    assert accuracy > 0.85
    assert f1 is not None
    assert f1 < 0.2


def test_words_that_have_the_feature_are_asked_about(sentences_of: Callable[..., Sentences]) -> None:
    sentences = sentences_of(WORDS, feats=FEATS)
    number, tense = (get_probe(f"feats:{name}").examples(sentences) for name in ("Number", "Tense"))
    assert [number.values[code] for code in number.codes] == ["Plur", "Plur", "Sing"]
    assert number.words.tolist() == [0, 1, 3]
    assert [tense.values[code] for code in tense.codes] == ["Pres", "Past"]
    assert tense.words.tolist() == [1, 4]
    # Words without the feature are no skipped items.
    assert get_probe("feats:Case").examples(sentences).skipped == {}


def test_an_unknown_feature_is_answered_with_those_there_are(sentences_of: Callable[..., Sentences]) -> None:
    with pytest.raises(CorpusError, match="no word has the feature 'Nummer': the features are Case, Number, Tense"):
        get_probe("feats:Nummer").examples(sentences_of(WORDS, feats=FEATS))
    with pytest.raises(CorpusError, match="layer 'feats'"):
        get_probe("feats:Number").examples(sentences_of("a dog", upos=["DET", "NOUN"]))


def test_the_words_of_one_part_of_speech(sentences_of: Callable[..., Sentences]) -> None:
    upos = ["NOUN", "VERB", "PUNCT", "PRON", "VERB"]
    sentences = sentences_of(WORDS, feats=FEATS, upos=upos)
    verbs = get_probe("feats:Number:verb")
    assert verbs.task == "feats:Number:VERB"
    assert verbs.examples(sentences).words.tolist() == [1]
    with pytest.raises(CorpusError, match="no ADJ has the feature 'Number': it is found in NOUN, PRON, VERB"):
        get_probe("feats:Number:ADJ").examples(sentences)


def test_every_feature_is_a_line_of_one_table(tiny_bert: Path, tmp_path: Path) -> None:
    asked = {"name": "all", "models": [str(tiny_bert)], "tasks": ["feats:all"], "layers": "0,2"}
    asked |= {"controls": "majority,random", "random_draws": 1, "corpora": [{"name": "pocket", "sentences": 60}]}
    options = RunOptions(engine="serial")
    assert not run_experiment(experiment_of(asked, where="here"), tmp_path / "run", options=options).failures
    results = read_results(tmp_path / "run")
    (table,) = results.view().shown()
    assert table.title == "feats by layers, %"
    lines = {line.label: line for line in table.lines}
    of_task = results.only(task="feats:Tense:VERB").view().tables[0]
    assert of_task.chosen_line is not None
    cells = dict(zip(table.headers, lines["Tense:VERB"].cells, strict=True))
    assert cells["items"].text == str(of_task.about.n_items)
    assert cells["best"].score == of_task.chosen_line.main
    assert cells["random init"].score == of_task.chosen_line.random_init
    assert cells["majority"].score == of_task.baselines[0].main
    assert [cells[str(line.layer)].score for line in of_task.lines] == [line.main for line in of_task.lines]
    # What is not asked about is named with the reason, once.
    left_out = {note.about: note.text for note in table.notes}["left out"]
    assert "Mood (in train the one value Ind); " in left_out
    assert "Case (in train its second value, Gen, 6 times; 10 are due)" in left_out
    assert "Case" not in lines
    # Each is as if it had been asked for by itself; the tables of single tasks are in the files.
    alone = probe("feats:Tense:VERB", model=tiny_bert, sentences=60, layers="0,2", controls="majority")
    assert {row.cell_id for row in alone.rows} < {row.cell_id for row in results.rows}
    assert "feats:Tense:VERB · accuracy by layer" in "".join(one.title for one in results.whole())


def test_every_feature_in_folds(tiny_bert: Path) -> None:
    settings = {"model": tiny_bert, "layers": "0", "controls": "none"}
    results = probe("feats:all", corpus=load_corpus("pocket").as_one("test"), sentences=60, folds=2, **settings)
    n_items = {row.task: row.n_items for row in results.rows}
    assert n_items["feats:Tense"] == n_items["feats:Tense:AUX"] + n_items["feats:Tense:VERB"]
    alike = Sentences(make_sentence(str(number), ["a"], feats=["Mood=Ind"]) for number in range(3))
    with pytest.raises(CorpusError, match="feats:all: nothing can be asked of few"):
        probe("feats:all", corpus=Corpus("few", dict.fromkeys(("train", "dev", "test"), alike)), **settings)
