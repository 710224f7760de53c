"""What a model cannot read is left out of everything it is compared with: all rows of a task are of the same items."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bertology.corpora import Corpus, Sentence, Sentences, load_corpus, write_conllu
from bertology.measures import majority
from bertology.probing import tree_examples
from bertology.results import layer_tables, read_results
from bertology.runner import ProbeRequest, make_plan, run_probes
from bertology.runner._task_data import TaskData
from bertology.runner.experiment import Experiment, RunOptions, resolve_work, run_experiment
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
        ("structural_distance", {"on_long": "window"}),
        ("structural_distance", {"on_long": "skip", "max_pieces": 14}),
        ("structural_depth", {"on_long": "window"}),
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


def test_baselines_are_fitted_to_what_is_read(tiny_bert: Path, damaged: Corpus) -> None:
    request = ProbeRequest(tasks=("pos",), model=str(tiny_bert), corpus="x", readout="ridge", **FEW)
    plan = make_plan(request, corpus=damaged)
    data = TaskData.of(plan.probes[0], plan.splits)
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


def test_cells_of_baselines_go_by_what_is_read(
    tiny_bert: Path, damaged: Corpus, toy: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ProbeRequest(tasks=("pos",), model=str(tiny_bert), corpus="x", **FEW)
    (readable,) = make_plan(request, corpus=toy).baselines
    assert readable.unreadable == {}
    assert all("unreadable_fingerprint" not in cell.identity for cell in readable.cells.values())
    plan = make_plan(request, corpus=damaged)
    (found,), (others,) = plan.baselines, make_plan(request, corpus=damaged).baselines_of_all
    assert set(found.unreadable) == {"train", "dev", "test"}
    assert {cell.id for cell in found.cells.values()}.isdisjoint(cell.id for cell in others.cells.values())
    # What is known from the tokenizer is what the store knows afterwards.
    run_probes(replace(request, readout="ridge"), corpus=damaged)
    monkeypatch.setattr("bertology.encoders._load.load_reader", None)
    assert make_plan(request, corpus=damaged).baselines == (found,)


def test_one_word_does_not_take_its_sentence_out_of_trees(tiny_bert: Path, damaged: Corpus) -> None:
    test = damaged["test"]
    frame = frame_of(asking(tiny_bert, "x", "structural_distance", controls=("linear_chain",)), damaged)
    uuas = frame[frame.metric == "uuas"]
    plan = make_plan(asking(tiny_bert, "x", "structural_distance"), corpus=damaged)
    whole = TaskData.of(plan.probes[0], plan.splits).test
    short = [
        number
        for number in whole.clusters.tolist()
        if NOTHING in test[number].words and sum(word != NOTHING for word in test[number].words) < 3
    ]
    assert set(uuas.n_items) <= set(range(len(whole) - len(short) - 3, len(whole) - len(short) + 1))
    assert uuas.n_items.iloc[0] > len(whole) - sum(NOTHING in sentence.words for sentence in test)
    reasons = json.loads(uuas.skip_reasons.iloc[0])
    assert all("its sentence" not in reason for reason in reasons)


def test_reasons_of_sentences_are_about_sentences(tiny_bert: Path, damaged: Corpus) -> None:
    request = asking(tiny_bert, "x", "structural_distance", on_long="skip", max_pieces=14)
    frame = frame_of(request, damaged)
    reasons = set(json.loads(frame[frame.metric == "uuas"].skip_reasons.iloc[0]))
    assert "sentence with too few words to read: it has … pieces, the model takes …" in reasons


def test_correlations_count_the_sentences_that_enter(tiny_bert: Path, tiny_corpus: Path) -> None:
    splits = dict(load_corpus(str(tiny_corpus)).splits)
    short = replace(
        Sentence.from_words(["the", "dog", "runs"]), heads=(2, 3, 0), layers={"upos": ("DET", "NOUN", "VERB")}
    )
    splits["test"] = Sentences([*splits["test"], *(replace(short, id=f"short-{n}") for n in range(4))])
    corpus = Corpus("some are short", splits)
    frame = frame_of(asking(tiny_bert, "x", "structural_distance", controls=("linear_chain",)), corpus)
    expected = sum(5 <= len(sentence) <= 50 for sentence in corpus["test"])
    assert set(frame[frame.metric == "dspr"].n_items) == {expected}
    assert set(frame[frame.metric == "uuas"].n_items) == {expected + 4}
    assert {json.loads(reasons)["no part of dspr"] for reasons in frame[frame.metric == "dspr"].skip_reasons} == {4}


@pytest.mark.parametrize(
    ("asks", "skipped", "marks"),
    [
        ("distances", [1], "2 _ 2 3 _"),
        ("depths", [1], "1 _ 1 2 _"),
        ("arcs", [1], "_ _ _ 3:x _"),
        ("arcs", [4], "2:x 0:x 2:x 3:x _"),
        ("distances", [0, 1], "_ _ 2 3 _"),
        ("distances", [0, 1, 2], None),
        ("distances", [0, 2, 3], None),
    ],
)
def test_trees_of_readable_words(asks: Any, skipped: list[int], marks: str | None) -> None:
    """The second word is the root, the last is punctuation."""
    layers = {"upos": ("X", "X", "X", "X", "PUNCT"), "deprel": ("x",) * 5}
    sentence = replace(Sentence.from_words(list("abcde")), heads=(2, 0, 2, 3, 4), layers=layers)
    whole = tree_examples(Sentences([sentence]), asks)
    found = whole.without_words(dict.fromkeys(skipped, "it is odd"))
    assert [found.values[code] for code in found.codes.tolist()] == ([] if marks is None else [marks])
    assert dict(found.skipped) == ({} if marks else {"sentence with too few words to read: it is odd": 1})
    assert np.flatnonzero(~found.read).tolist() == skipped
    assert whole.read.all()


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
