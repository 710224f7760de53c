"""Cross-validation: each item is scored once, by a fit that did not see its group, as ordinary runs of the folds do."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import Corpus, Results, load_corpus, probe
from bertology.corpora import Sentence, Sentences, Target
from bertology.errors import BertologyError, CorpusError
from bertology.families.model_corpus import choose_folds
from bertology.results import Predictions, ResultRow
from bertology.runner import verify_run

N, DOCUMENT = 72, 4


def in_documents(n: int = N, *, document: int = DOCUMENT) -> list[Sentence]:
    made = list(load_corpus("pocket")["dev"][:n])
    return [replace(one, group=f"d{place // document}" if document else "") for place, one in enumerate(made)]


def one_piece(sentences: list[Sentence], name: str = "mine") -> Corpus:
    return Corpus(name, {"test": Sentences(sentences)})


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return one_piece(in_documents())


# What the folds are


@pytest.mark.parametrize(("n_folds", "document"), [(2, 4), (3, 4), (5, 4), (10, 1), (6, 12), (5, 0)])
def test_each_sentence_is_tested_once_and_no_group_is_seen(n_folds: int, document: int) -> None:
    whole = one_piece(in_documents(document=document))
    read, splits = choose_folds(whole, n_folds, train="train", test="test")
    over = "documents" if document else "sentences"
    assert list(read.splits) == [f"{n_folds}-fold cross-validation over {over}"]
    assert len(splits.folds) == n_folds
    sentences = list(splits.test)
    keys = np.array([sentence.group or sentence.text for sentence in sentences])
    for fold in splits.folds:
        parts = [fold.within[name] for name in ("train", "dev", "test")]
        assert (np.sum(parts, axis=0) == 1).all()
        seen = [set(keys[part]) for part in parts]
        assert all(seen)
        assert sum(map(len, seen)) == len(set(keys))
        assert parts[1].sum() <= 0.1 * (~parts[2]).sum() + max(document, 1)
    assert (np.sum([fold.within["test"] for fold in splits.folds], axis=0) == 1).all()
    sizes = [int(fold.within["test"].sum()) for fold in splits.folds]
    assert max(sizes) - min(sizes) <= max(document, 1)


def test_too_few_for_so_many_folds() -> None:
    with pytest.raises(CorpusError, match="mine: found '6 documents'; expected more for 8 folds"):
        choose_folds(one_piece(in_documents(document=12)), 8, train="train", test="test")
    # two documents are none to speak of: sentences are divided, and tables say so
    read, _ = choose_folds(one_piece(in_documents(document=36)), 4, train="train", test="test")
    assert list(read.splits) == ["4-fold cross-validation over sentences"]


# What is fitted in them


def ask(model: Path, corpus: Any, *tasks: str, **settings: Any) -> Results:
    return probe(list(tasks), model=model, corpus=corpus, layers="0", **{"random_draws": 1, **settings})


def of_cell(row: ResultRow) -> tuple[Any, ...]:
    return row.task, row.readout, row.control, row.init, row.layer, row.seed


def cells(results: Results) -> dict[tuple[Any, ...], Predictions]:
    return {of_cell(row): results.kept[row.cell_id] for row in results.rows}


def written(kept: Predictions) -> dict[str, tuple[str, str]]:
    """By item what is right and what is predicted."""
    gold, pred = ([kept.labels[code] for code in codes.tolist()] for codes in (kept.gold, kept.pred))
    return dict(zip(kept.item_ids, zip(gold, pred, strict=True), strict=True))


TASKS = ("pos", "sentence_label:long", "structural_distance", "word_number:length")


def with_labels(sentences: list[Sentence]) -> list[Sentence]:
    """Sentences with a number for each word, and a label of their own."""
    made = []
    for one in sentences:
        lengths = tuple(str(len(word)) for word in one.words)
        whole = Target((0, len(one)), "yes" if len(one) > 9 else "no")
        made.append(replace(one, layers={**one.layers, "length": lengths}, targets={"long": (whole,)}))
    return made


def test_each_fold_is_an_ordinary_run_of_its_splits(tiny_bert: Path) -> None:
    whole = one_piece(with_labels(in_documents()))
    results = ask(tiny_bert, whole, *TASKS, folds=3)
    kept = cells(results)
    controls = {"majority", "word_majority", "length", "lexical", "linear_chain", "control_task", "mean", "word_mean"}
    assert {key[2] for key in kept} == {*controls, "none"}
    assert {key[3] for key in kept if key[2] == "none"} == {"pretrained", "random"}
    _, splits = choose_folds(whole, 3, train="train", test="test")
    found: dict[tuple[Any, ...], dict[str, tuple[str, str]]] = {}
    for number, fold in enumerate(splits.folds, 1):
        parts = {
            name: Sentences(one for one, chosen in zip(splits.test, fold.within[name], strict=True) if chosen)
            for name in ("train", "dev", "test")
        }
        for key, of_fold in cells(ask(tiny_bert, Corpus("fold", parts), *TASKS)).items():
            found.setdefault(key, {}).update(written(of_fold))
            of_whole = kept[key]
            assert of_whole.fold is not None
            items = [item for item, n in zip(of_whole.item_ids, of_whole.fold, strict=True) if n == number]
            assert sorted(items) == sorted(of_fold.item_ids), key
    for key, ordinary in found.items():
        folded = written(kept[key])
        assert folded.keys() == ordinary.keys()
        if key[0].startswith("word_number"):
            numbers = np.array([[[float(text) for text in of[item]] for item in ordinary] for of in (folded, ordinary)])
            np.testing.assert_allclose(numbers[0], numbers[1], rtol=1e-2, atol=1e-2)
        else:
            same = np.mean([folded[item] == ordinary[item] for item in ordinary])
            # Vectors of a text read beside other texts differ in their last bits.
            assert same > 0.98, (key, same)


def test_scores_are_over_all_items(tiny_bert: Path, corpus: Corpus) -> None:
    results = ask(tiny_bert, corpus, "pos", folds=3)
    n_words = sum(map(len, corpus["test"]))
    rows = [row for row in results.rows if row.metric == "accuracy"]
    for row in rows:
        kept = results.kept[row.cell_id]
        assert row.split == "3-fold cross-validation over documents"
        assert (row.n_items, row.n_clusters, len(kept.item_ids)) == (n_words, N, n_words)
        assert row.value == pytest.approx(float((kept.gold == kept.pred).mean()))
        assert row.ci_low is not None
        assert row.ci_low <= row.value <= row.ci_high
    task = next(row for row in rows if row.control == "none" and row.init == "pretrained")
    assert task.n_train == pytest.approx(n_words * 2 / 3 * 0.9, rel=0.1)
    text = str(results)
    assert "mine 3-fold cross-validation over documents" in text
    assert "in each fold" in text
    frame = results.predictions("pos", 0)
    assert set(frame["fold"]) == {1, 2, 3}
    assert frame["text"].notna().all()


# Stopped and gone on with


def test_a_run_goes_on_in_the_fold_where_it_was_stopped(
    tiny_bert: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bertology.families import labels

    fitted: list[int] = []
    real: Callable[..., None] = labels.fit

    def fit(cells: Any, job: Any) -> None:
        fitted.append(job.pair.splits.fold)
        if len(fitted) == 3:
            raise KeyboardInterrupt
        real(cells, job)

    monkeypatch.setattr(labels, "fit", fit)
    asked: dict[str, Any] = {"folds": 4, "controls": "majority", "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        ask(tiny_bert, corpus, "pos", **asked)
    stopped = list(fitted)
    assert stopped == [0, 1, 2]
    results = ask(tiny_bert, corpus, "pos", **asked)
    assert fitted[3:] == [2, 3]
    assert not (tmp_path / "run" / "folds").exists()
    assert verify_run(tmp_path / "run") == ()
    again = ask(tiny_bert, corpus, "pos", **{**asked, "out": tmp_path / "other"})
    assert [row.value for row in again.rows] == [row.value for row in results.rows]
    assert fitted[5:] == [0, 1, 2, 3]
    ask(tiny_bert, corpus, "pos", **asked)
    assert len(fitted) == 9


# Files and commands


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("head_syntax", {}, "task head_syntax: nothing is fitted to its labels, so it has no folds: leave folds out"),
        ("agreement", {}, "task agreement: nothing is fitted"),
        ("pos", {"readout": {"codelength": "online"}}, "a codelength is of the training split, and has no folds"),
        ("pos", {"folds": 1}, "folds: should be at least 2, not 1"),
        ("pos", {"folds": 40}, "found '18 documents'; expected more for 40 folds"),
    ],
)
def test_what_has_no_folds(tiny_bert: Path, corpus: Corpus, task: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BertologyError, match=message):
        ask(tiny_bert, corpus, task, **{"folds": 3, **settings})


def test_seeds_and_fractions_are_of_what_a_fold_is_fitted_on(tiny_bert: Path, corpus: Corpus) -> None:
    readout = {"name": "linear", "fraction": [0.5, 1.0]}
    results = ask(tiny_bert, corpus, "pos", folds=3, seeds=2, readout=readout, controls="none")
    n_train = {row.params_json.count("fraction"): row.n_train for row in results.rows}
    assert n_train[1] == pytest.approx(n_train[0] / 2, rel=0.1)
    assert {row.n_runs for row in results.rows} == {2}
