"""What a model cannot read is left out of everything it is compared with: all rows of a task are of the same items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bertology.corpora import Corpus, Sentence, Sentences, load_corpus, write_conllu
from bertology.families.vectors import TaskData
from bertology.measures import majority
from bertology.results import read_results
from bertology.results.views import layer_tables
from bertology.runner import ProbeRequest, RunOptions, run_experiment, run_probes
from bertology.runner.experiment import Experiment
from bertology.runner.plan import make_plan, resolve_work
from tests.runner.tree_runs import TASKS, asking

NOTHING = "\u200b"
"""A word for which the tokenizer has no piece."""
FEW: dict[str, Any] = {"layers": "0,1"}


def with_word(sentence: Sentence, place: int) -> Sentence:
    """The sentence with the word at ``place`` written as one that no tokenizer of BERT's reads."""
    words = [NOTHING if number == place else word for number, word in enumerate(sentence.words)]
    made = Sentence.from_words(words, id=sentence.id)
    return replace(made, heads=sentence.heads, layers=sentence.layers)


@pytest.fixture(scope="module")
def damaged(tiny_corpus: Path) -> Corpus:
    """A treebank with an unreadable word in every fifth sentence of each split, in ever other places."""
    whole = load_corpus(str(tiny_corpus))
    splits = {
        name: Sentences(
            with_word(sentence, number % len(sentence)) if number % 5 == 0 else sentence
            for number, sentence in enumerate(sentences)
        )
        for name, sentences in whole.splits.items()
    }
    return Corpus("damaged", splits)


def frame_of(request: ProbeRequest, corpus: Corpus) -> pd.DataFrame:
    return run_probes(request, corpus=corpus).to_pandas()


@pytest.mark.parametrize(
    ("task", "reading"),
    [
        ("pos", {"on_long": "window"}),
        ("pos", {"on_long": "skip", "max_pieces": 14}),
        ("edge_dependencies", {"on_long": "window"}),
        ("structural_distance", {"on_long": "skip", "max_pieces": 14}),
        ("structural_parse", {"on_long": "window"}),
    ],
)
def test_all_rows_of_a_task_are_of_the_same_items(
    task: str, reading: dict[str, Any], tiny_bert: Path, damaged: Corpus
) -> None:
    controls = ("majority", "word_majority", "lexical", "linear_chain", "random", "control_task")
    if task in TASKS:
        request = asking(tiny_bert, "x", task, controls=controls, **reading)
    else:
        request = ProbeRequest(
            tasks=(task,), model=str(tiny_bert), corpus="x", readout="ridge", controls=controls, **FEW, **reading
        )
    frame = frame_of(request, damaged)
    # A tree stays without a word of it; what is asked of single words does not.
    assert (frame.n_skipped.min() > 0) == (task not in TASKS or reading["on_long"] == "skip")
    counts = frame.groupby("metric")[["n_items", "n_clusters", "n_train"]].nunique()
    assert (counts == 1).all(axis=None), frame.groupby(["metric", "control"]).n_items.unique()
    assert set(frame[frame.control.isin(["majority", "word_majority", "lexical", "linear_chain"])].model) == {
        str(tiny_bert)
    }


def test_models_that_read_other_words_have_baselines_of_their_own(
    tiny_bert: Path, damaged: Corpus, tmp_path: Path
) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir()
    for name, sentences in damaged.splits.items():
        write_conllu(folder / f"damaged-{name}.conllu", sentences)
    whole, narrow = ({"name": str(tiny_bert), "id": name, "on_long": "skip"} for name in ("whole", "narrow"))
    narrow["max_pieces"] = 14
    experiment = Experiment.model_validate(
        {
            "name": "two",
            "models": [whole, narrow],
            "corpora": [{"name": str(folder)}],
            "tasks": [{"name": "pos", "readout": {"name": "ridge"}}],
            "layers": "0,1",
            "controls": ["majority"],
        }
    )
    assert resolve_work(experiment).units_of_all
    run_experiment(experiment, tmp_path / "run", options=RunOptions(engine="serial"))
    results = read_results(tmp_path / "run")
    rows = [row for row in results.rows if row.metric == "accuracy"]
    counts = {row.model: {other.n_items for other in rows if other.model == row.model} for row in rows}
    assert set(counts) == {"whole", "narrow"}
    assert all(len(found) == 1 for found in counts.values())
    assert counts["whole"] != counts["narrow"]
    for table in layer_tables(results.rows, results.comparisons):
        (line,) = table.baselines
        assert {line.n_items} == counts[str(table.about.model)]


def test_baselines_are_fitted_to_what_is_read(tiny_bert: Path, damaged: Corpus) -> None:
    request = ProbeRequest(tasks=("pos",), model=str(tiny_bert), corpus="x", readout="ridge", **FEW)
    plan = make_plan(request, corpus=damaged)
    data = TaskData.of(plan.probes[0], plan.pair.splits)
    train, test = (
        data.items[split].codes[[damaged[split].word(int(word)) != NOTHING for word in data.items[split].words]]
        for split in ("train", "test")
    )
    results = run_probes(request, corpus=damaged)
    row = next(row for row in results.rows if row.control == "majority" and row.metric == "accuracy")
    assert row.value == pytest.approx(np.mean(test == majority(train)))
    assert (row.n_train, row.n_items) == (len(train), len(test))
    (table,) = layer_tables(results.rows, results.comparisons)
    assert {line.control for line in table.baselines} == {"majority", "word_majority"}
    # They stay whichever of the model's rows are asked for.
    for chosen in ({"init": "pretrained"}, {"readout": "ridge"}, {"model": str(tiny_bert)}):
        assert {row.control for row in results.only(**chosen).rows} >= {"majority", "word_majority"}
