"""The vector of a sentence: what readouts of single vectors are fitted to, what cells are called, what is refused."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bertology import probe
from bertology.activations import WordVectors, read_words
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.families.request import ReadoutConfig
from bertology.results.predictions import read_predictions
from bertology.runner import (
    ProbeRequest,
    RunOptions,
    Shard,
    make_plan,
    merge_runs,
    resolve_work,
    run_experiment,
    run_probes,
)
from bertology.runner.experiment import Experiment, load_experiment
from tests.encoders.conftest import save_model
from tests.runner.conftest import fits_of

TASK = "edge_entities"
"""Its items are labelled spans: here whole sentences."""
Scores = Callable[[Path], pa.Table]


@pytest.fixture
def labelled(planted: Callable[..., Corpus]) -> Corpus:
    """Sentences labelled by what their first word is; every fourth has only five words."""
    corpus = planted("tag", ("good", "bad"), signal=True)

    def as_one(number: int, sentence: Sentence) -> Sentence:
        words, label = sentence.words[: 5 + (number % 4 > 0)], str(sentence.layers["tag"][0])
        made = Sentence.from_words(list(words))
        return replace(made, id=sentence.id, targets={"entities": (Target((0, len(words)), label),)})

    splits = {name: Sentences(as_one(*each) for each in enumerate(corpus[name])) for name in corpus.splits}
    return replace(corpus, splits=splits)


@pytest.fixture
def asking(tiny_bert: Path) -> Callable[..., ProbeRequest]:
    def request(*configs: ReadoutConfig, **chosen: Any) -> ProbeRequest:
        given = {"tasks": (TASK,), "layers": "1-3", "controls": (), "configs": {TASK: configs}, **chosen}
        return ProbeRequest(model=str(tiny_bert), **given)

    return request


@pytest.fixture
def written(labelled: Corpus, tiny_bert: Path, tmp_path: Path) -> Path:
    """The corpus as files of the edge-probing format, and an experiment on it."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split, sentences in labelled.splits.items():
        lines = (
            {"text": one.text, "targets": [{"span1": [0, len(one)], "label": one.targets["entities"][0].label}]}
            for one in sentences
        )
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = tmp_path / "pools.yaml"
    path.write_text(
        f"name: pools\nmodels: [{{name: {tiny_bert}, id: tiny}}]\ncorpora: [{{name: '{folder}#entities', id: made}}]\n"
        f"tasks: [{{name: {TASK}, readout: {{name: linear, pool: [mean, cls]}}}}]\nlayers: 0-1\n"
        "controls: [majority, control_task, random]\nrandom_draws: 2\n"
        "statistics: {resamples: 200}\noutputs: {plots: []}\n"
    )
    return path


def pooled_by_hand(encoder: Any, sentences: Sentences, pool: str) -> np.ndarray:
    """``[layer, sentence, dim]``"""
    if pool == "cls":
        return read_words(encoder, sentences, layers=(1, 2, 3), pooling="cls").numpy()
    words = read_words(encoder, sentences, layers=(1, 2, 3)).numpy()
    of = {"mean": lambda part: part.mean(1), "max": lambda part: part.max(1), "last": lambda part: part[:, -1]}[pool]
    starts = sentences.starts
    return np.stack([of(words[:, a:b]) for a, b in itertools.pairwise(starts.tolist())], axis=1)


@pytest.mark.parametrize("pool", ["mean", "max", "last", "cls"])
def test_fits_are_those_of_scikit_learn_on_the_same_vectors(
    asking: Callable[..., ProbeRequest], labelled: Corpus, tiny_bert: Path, tmp_path: Path, pool: str
) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    config = ReadoutConfig("linear", pool=pool)
    run_probes(asking(config, stored_dtype="float32"), corpus=labelled, out=tmp_path / "run")
    (cells,) = fits_of(make_plan(asking(config, stored_dtype="float32"), corpus=labelled))
    encoder = load_encoder(str(tiny_bert), device="cpu")
    train, test = (pooled_by_hand(encoder, labelled[split], pool) for split in ("train", "test"))
    gold = [one.targets["entities"][0].label for one in labelled["train"]]
    for place, layer in enumerate((1, 2, 3)):
        cell = cells.cells["none", 0, layer]
        record = json.loads((tmp_path / "run" / "cells" / f"{cell.id}.json").read_text())
        strength = re.search(r'"strength": ([0-9.e+-]+)', json.dumps(record).replace('\\"', '"'))
        assert strength is not None
        scaler = StandardScaler().fit(train[place])
        fitted = LogisticRegression(C=float(strength[1]), max_iter=5000, tol=1e-8)
        fitted.fit(scaler.transform(train[place]), gold)
        kept = read_predictions(tmp_path / "run", cell.id)
        found = [kept.labels[code] for code in kept.pred]
        agree = np.mean(np.array(found) == fitted.predict(scaler.transform(test[place])))
        assert agree >= 0.97


def test_several_make_a_sweep_and_the_mean_is_called_as_ever(
    asking: Callable[..., ProbeRequest], labelled: Corpus
) -> None:
    named = make_plan(asking(configs={}, readout="linear", pool="mean,max,cls"), corpus=labelled)
    pools = Experiment.readout_configs({"name": "linear", "pool": ["mean", "max", "cls"]})
    mapped = make_plan(asking(configs={}, readout=pools), corpus=labelled)
    assert [cells.config.pool for cells in fits_of(named)] == ["mean", "max", "cls"]
    for cells, same in zip(fits_of(named), fits_of(mapped), strict=True):
        assert [cell.id for cell in cells.cells.values()] == [cell.id for cell in same.cells.values()]
    mean, most, cls = (next(iter(cells.cells.values())).identity for cells in fits_of(named))
    assert "reading" not in mean
    assert (most["reading"], cls["reading"]) == ({"pool": "max"}, {"pool": "cls"})
    assert cls["reading"] == {"pool": "cls"}
    (plain,) = fits_of(make_plan(asking(ReadoutConfig("linear")), corpus=labelled))
    assert [cell.id for cell in plain.cells.values()] == [cell.id for cell in fits_of(named)[0].cells.values()]


def test_rows_and_tables_name_it(labelled: Corpus, tiny_bert: Path) -> None:
    asked: dict[str, Any] = {"model": str(tiny_bert), "corpus": labelled, "layers": "0-1", "progress": False}
    results = probe(TASK, readout={"name": "linear", "pool": ["mean", "cls"]}, controls=["majority"], **asked)
    fits = results.to_pandas().query("layer == layer")
    settings = [json.loads(params).get("settings", {}) for params in fits.params_json]
    assert {one.get("pool", "mean") for one in settings} == {"mean", "cls"}
    text = results.view().to_text()
    assert "linear.v1, pool cls" in text
    assert "the special token before the text" in text
    # In the embeddings nothing has reached the token yet: the label most frequent in training is all there is.
    values = fits[[one == {"pool": "cls"} for one in settings]].query("layer == 0 and main_metric").value
    majority = results.to_pandas().query("control == 'majority' and main_metric").value
    assert values.tolist() == majority.tolist()


@pytest.mark.parametrize("pool", ["max", "cls"])
def test_a_fit_reads_the_same_vector_of_new_text(labelled: Corpus, tiny_bert: Path, tmp_path: Path, pool: str) -> None:
    asked: dict[str, Any] = {"model": tiny_bert, "corpus": labelled, "layers": "2", "controls": "majority"}
    results = probe(TASK, readout="linear", pool=["mean", pool], out=tmp_path / "run", progress=False, **asked)
    texts = [sentence.text for sentence in labelled["test"]]
    with pytest.raises(BertologyError, match=r"2 cells fit; choose one by .* or pool="):
        results.fitted(TASK, 2)
    found = results.fitted(TASK, 2, pool=pool).predict(texts)
    assert found["label"].tolist() == results.predictions(TASK, 2, pool=pool)["predicted"].tolist()
    assert len(results.only(pool=pool).view().tables[0].baselines) == 1


def test_numbers_are_regressed_on_it(labelled: Corpus, tiny_bert: Path) -> None:
    def measured(sentence: Sentence) -> Sentence:
        return replace(sentence, targets={"words": (Target((0, len(sentence)), str(len(sentence))),)})

    corpus = replace(labelled, splits={name: Sentences(map(measured, labelled[name])) for name in labelled.splits})
    asked: dict[str, Any] = {"model": str(tiny_bert), "corpus": corpus, "layers": "0,3", "controls": "none"}
    rows = probe("sentence_number:words", pool=["mean", "cls"], progress=False, **asked).to_pandas()
    r2 = rows[rows.metric == "r2"].assign(cls=["pool" in params for params in rows[rows.metric == "r2"].params_json])
    assert set(r2[r2.cls & (r2.layer == 0)].value.round(2)) <= {0.0, -0.0, -0.01}  # as the mean of train is
    assert r2[r2.cls & (r2.layer == 3)].value.item() > r2[r2.cls & (r2.layer == 0)].value.item()


def test_what_is_not_a_sentence_has_no_cls(
    asking: Callable[..., ProbeRequest], labelled: Corpus, toy: Corpus, planted_spans: Callable[..., Corpus]
) -> None:
    spans = planted_spans("entities", ("x", "y"), signal=True, pairs=False)

    def refused(request: ProbeRequest, corpus: Corpus, problem: str) -> None:
        with pytest.raises(BertologyError, match=problem) as error:
            run_probes(request, corpus=corpus)
        assert "\n" not in str(error.value)

    cls, most = ReadoutConfig("linear", pool="cls"), ReadoutConfig("linear", pool="max")
    refused(asking(cls), spans, "items of the train split are not whole sentences, of which alone there is a cls")
    run_probes(asking(most), corpus=spans)
    for config in (cls, most):
        words = asking(tasks=("pos",), configs={"pos": (config,)})
        refused(words, toy, "task pos: its items are single words, which are not pooled: leave pool out")
    refused(asking(ReadoutConfig("edge", pool="cls")), labelled, r"edge\.v1 reads all words of a span: leave pool out")
    refused(asking(ReadoutConfig("linear", pool="cls", erase="pos")), labelled, "not in cls: pool mean, max or last")
    trees = asking(tasks=("structural_distance",), configs={"structural_distance": (ReadoutConfig(pool="max"),)})
    refused(trees, toy, "no words are pooled")
    heads = asking(tasks=("head_statistics",), configs={"head_statistics": (ReadoutConfig(pool="max"),)})
    refused(heads, toy, "nothing to erase or pool")
    with pytest.raises(BertologyError, match=r"pool .clss..*cls"):
        asking(pool="mean,clss")
    with pytest.raises(BertologyError, match="pool is given twice: leave it out next to"):
        asking(readout=Experiment.readout_configs({"pool": "max"}), pool="cls")
    with pytest.raises(BertologyError, match=r"readout: .*pool"):
        Experiment.readout_configs({"name": "linear", "pool": "clss"})


@pytest.mark.parametrize("family", ["gpt2"])
def test_a_model_without_the_token_refuses(labelled: Corpus, tmp_path: Path, family: str) -> None:
    folder = save_model(tmp_path / family, family)
    with pytest.raises(BertologyError, match="no special token before the text, so no cls: pool mean, max or last"):
        probe(TASK, model=folder, corpus=labelled, readout="linear", pool="cls", progress=False)


def test_two_spans_may_share_a_sentence(asking: Callable[..., ProbeRequest], labelled: Corpus) -> None:
    def halved(sentence: Sentence) -> Sentence:
        (target,) = sentence.targets["entities"]
        pair = Target((0, 2), target.label, (2, len(sentence)))
        return replace(sentence, targets={"relations": (pair,)})

    pairs = replace(labelled, splits={name: Sentences(map(halved, labelled[name])) for name in labelled.splits})
    task = "edge_relations"
    configs = tuple(ReadoutConfig("linear", pool=pool) for pool in ("max", "cls"))
    rows = run_probes(asking(tasks=(task,), configs={task: configs}), corpus=pairs).to_pandas()
    assert set(rows.n_params) == {2 * (2 * 32 + 1), 2 * (32 + 1)}


def test_words_that_are_not_read_leave_out_the_same_items(
    asking: Callable[..., ProbeRequest], labelled: Corpus
) -> None:
    first, *rest = labelled["test"]
    words = ["\u200b", *first.words]
    unread = replace(Sentence.from_words(words), id=first.id, targets={"entities": (Target((0, len(words)), "good"),)})
    corpus = replace(labelled, splits={**labelled.splits, "test": Sentences([unread, *rest])})
    for pools in ("cls", "mean,cls"):
        rows = run_probes(asking(configs={}, readout="linear", pool=pools), corpus=corpus).to_pandas()
        assert set(rows.n_items) == {len(rest)}
        assert set(rows.n_skipped) == {1}


def test_parts_give_the_same(written: Path, tmp_path: Path, scores: Scores, counted_forwards: list[int]) -> None:
    experiment, serial = load_experiment(written), tmp_path / "serial"
    assert run_experiment(experiment, serial, options=RunOptions(engine="serial")).failures == ()
    parts = [tmp_path / f"part{number}" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        run_experiment(experiment, part, options=RunOptions(engine="serial", shard=Shard(number, 2)))
    merge_runs(parts, out=tmp_path / "merged")
    assert scores(tmp_path / "merged").equals(scores(serial))
    counted_forwards.clear()
    again = run_experiment(experiment, serial, options=RunOptions(engine="serial"))
    assert (again.n_computed, counted_forwards) == (0, [])


def test_a_plan_counts_sentences(written: Path, tmp_path: Path, labelled: Corpus) -> None:
    from bertology.runner import estimate

    work = resolve_work(load_experiment(written, changes=["controls=none"]))
    (pair,) = estimate(work, tmp_path / "none").pairs
    n_vectors = sum(split.n_words + len(split) for split in labelled.splits.values())
    assert (pair.vectors, pair.vectors_missing, pair.problems) == (n_vectors * 2 * 32 * 2, n_vectors * 2 * 32 * 2, ())


def test_stored_vectors_are_those_of_the_plan(asking: Callable[..., ProbeRequest], labelled: Corpus) -> None:
    plan = make_plan(asking(ReadoutConfig("linear", pool="cls")), corpus=labelled)
    run_probes(asking(ReadoutConfig("linear", pool="cls")), corpus=labelled)
    (weights,) = plan.pair.fingerprints
    assert plan.pair.recipe(weights, labelled["test"]).find((1,)) is None
    entry = plan.pair.recipe(weights, labelled["test"], "cls").find((1, 2, 3))
    assert entry is not None
    assert WordVectors(entry, np.arange(len(labelled["test"]))).n_items == len(labelled["test"])
