"""The task dimensions: rows of a run, and errors that name the task and the remedy."""

from dataclasses import replace
from itertools import compress

import pytest

import bertology
from bertology.corpora import Sentences
from bertology.errors import BertologyError
from bertology.probing import get_probe

SETTINGS = {"most_words": 400, "ranking": "probeless", "k": 6, "others": [["deprel"]]}


def ask(task="dimensions:pos", corpus="pocket", folds=None, **settings):
    readout = {"name": "interventions", "settings": {**SETTINGS, **settings}}
    return bertology.probe(task, corpus=corpus, folds=folds, readout=readout, layers=[0, 2], controls="none")


def test_a_run_has_rows_by_layer_and_group():
    results = ask()
    rows = {(row.metric, row.layer, row.group or ""): row for row in results.rows}
    one = rows["accuracy", 2, ""]
    difference = one.value - rows["random_dimensions_accuracy", 2, ""].value
    assert rows["accuracy_beyond_random", 2, ""].value == pytest.approx(difference)
    assert rows["majority_accuracy", 2, ""].value < one.value <= 1
    assert one.ci_low < one.value < one.ci_high
    lost = rows["loss_increase_ablated_bits", 2, ""].value - rows["loss_increase_random_ablated_bits", 2, ""].value
    assert rows["loss_beyond_random_dimensions_bits", 2, ""].value == pytest.approx(lost)
    assert 0 <= rows["shared_with_task", 2, "deprel"].value <= 1
    assert ("readout_ablated_accuracy", 2, "deprel") in rows
    assert ("loss_increase_ablated_bits", 2, "NOUN") in rows
    assert "random dimensions accuracy" in str(results)


def test_folds_are_runs_on_their_parts_put_together():
    corpus = bertology.load_corpus("pocket")
    part = replace(corpus, splits={name: text[:20] for name, text in corpus.splits.items()})
    settings = {"predict": False, "most_words": 10_000}
    (whole,) = (row for row in ask(corpus=part, folds=2, **settings).rows if row.main_metric and row.layer == 2)
    joined, folds = part.in_folds(2)
    (text,) = joined.splits.values()
    runs = []
    for within in folds:
        splits = {name: Sentences(compress(text, chosen)) for name, chosen in within.items()}
        (row,) = (
            row
            for row in ask(corpus=replace(joined, splits=splits), **settings).rows
            if row.main_metric and row.layer == 2
        )
        runs.append(row)
    assert whole.n_items == sum(row.n_items for row in runs)
    assert whole.n_clusters == sum(row.n_clusters for row in runs) == len(text)
    assert whole.value == pytest.approx(sum(row.value * row.n_items for row in runs) / whole.n_items)


def test_neurons_have_no_embeddings():
    rows = ask(site="neurons", predict=False).rows
    assert {row.layer for row in rows} == {2}
    assert not any("bits" in row.metric for row in rows)


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        ("dimensions:pos", {"k": 1000}, "dimensions:pos.*the best 1000 dimensions: vectors have"),
        ("dimensions:pos", {"ranking": "probless"}, "ranking"),
        ("dimensions:edge_entities", {}, "items of .edge_entities. are not single words of one label"),
        ("dimensions:agreement", {}, "no labels of words"),
    ],
)
def test_mistakes_name_the_task_and_the_remedy(task, settings, words):
    with pytest.raises(BertologyError, match=words):
        ask(task, **settings)


def test_names():
    with pytest.raises(BertologyError, match="dimensions"):
        get_probe("dimensions")
    with pytest.raises(BertologyError, match="unknown task"):
        get_probe("dimensions:posse")
