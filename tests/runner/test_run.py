from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import accuracy_score, f1_score

from bertology._machine import choose_device
from bertology.corpora import Corpus, Sentence, Sentences
from bertology.results.predictions import Stopwatch, read_predictions
from bertology.runner import ProbeRequest, run_probes
from bertology.runner.experiment import load_experiment
from tests.cell_files import file_of
from tests.runner.requests import but

Scores = Callable[[Path], pa.Table]

# Fits stop where their gradient is small, not at the same bits whatever is fitted beside them: one item in 269 may fall
# to the other side.


@pytest.fixture
def few(tiny_bert: Path, tiny_corpus: Path) -> ProbeRequest:
    """A run that takes little: one layer and no controls."""
    return ProbeRequest(model=str(tiny_bert), corpus=str(tiny_corpus), layers="0", controls=(), random_draws=1)


def frame_of(finished: Any) -> pd.DataFrame:
    return finished.results.to_pandas()


def test_every_score_of_every_cell_is_there(finished: Any) -> None:
    frame = frame_of(finished)
    layers = frame[frame.layer.notna()]
    for task in ("pos", "feats:Number"):
        of_task = layers[layers.task == task]
        kinds = of_task.groupby(["init", "control", "metric"]).size().to_dict()
        each = 4 * 2  # layers and seeds
        assert kinds == {
            ("pretrained", "control_task", "accuracy"): each,
            ("pretrained", "none", "accuracy"): each,
            ("pretrained", "none", "macro_f1"): each,
            ("pretrained", "none", "selectivity"): each,
            ("random", "none", "accuracy"): each,
            ("random", "none", "macro_f1"): each,
        }
    baselines = frame[frame.layer.isna()]
    assert set(baselines.control) == {"majority", "word_majority"}
    assert baselines.model.isna().all()
    assert (frame.status == "ok").all()
    assert ((frame.ci_low <= frame.value) & (frame.value <= frame.ci_high)).all()
    assert set(frame[frame.main_metric].metric) == {"accuracy"}


def test_scores_are_those_of_scikit_learn(finished: Any) -> None:
    frame = frame_of(finished)
    checked = 0
    for cell, rows in frame.groupby("cell_id"):
        found = read_predictions(finished.out, str(cell))
        gold, pred = np.asarray(found.labels)[found.gold], np.asarray(found.labels)[found.pred]
        value = dict(zip(rows.metric, rows.value, strict=True))
        assert value["accuracy"] == pytest.approx(accuracy_score(gold, pred), abs=1e-12)
        if "macro_f1" in value:
            expected = f1_score(gold, pred, labels=np.unique(gold), average="macro", zero_division=0)
            assert value["macro_f1"] == pytest.approx(expected, abs=1e-12)
        assert set(rows.n_items) == {len(gold)}
        assert set(rows.n_clusters) == {len(found.cluster_ids)}
        checked += 1
    assert checked == 2 * (2 + 3 * 2 * 4)


def test_selectivity_is_accuracy_less_that_on_the_control_task(finished: Any) -> None:
    frame = frame_of(finished).query("init == 'pretrained'")
    key = ["task", "layer", "seed"]

    def column(control: str, metric: str) -> pd.Series[float]:
        return frame[(frame.control == control) & (frame.metric == metric)].set_index(key).value.sort_index()

    difference = column("none", "accuracy") - column("control_task", "accuracy")
    assert column("none", "selectivity").to_numpy() == pytest.approx(difference.to_numpy(), abs=1e-12)
    assert len(difference) == 16


def test_provenance_says_with_what_and_where(finished: Any) -> None:
    frame = frame_of(finished)
    layers = frame[frame.layer.notna()]
    assert {"bertology", "torch", "transformers", "python"} <= set(json.loads(layers.versions.iloc[0]))
    assert set(layers.device) == {str(choose_device())}
    assert layers.wall_s.gt(0).all()
    assert layers.started_utc.str.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00").all()
    assert set(json.loads(layers.params_json.iloc[0])) >= {"strength", "dev_accuracy", "converged", "iterations"}
    experiment = load_experiment(finished.out / "experiment.yaml")
    assert [task.name for task in experiment.tasks] == ["pos", "feats:Number"]


@pytest.mark.parametrize(
    ("tasks", "given"),
    [
        (("pos", "deprel"), {"controls": ("random", "control_task", "majority", "lexical")}),
        (("structural_parse",), {}),
        (("head_statistics", "head_syntax"), {}),
        (("agreement",), {"corpus": "pocket", "model": "pocket", "controls": ("blind", "majority"), "max_items": 3}),
    ],
)
def test_times_of_rows_add_up_to_what_was_taken(
    few: ProbeRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: tuple[str, ...], given: dict[str, Any]
) -> None:
    taken: list[float] = []

    class Timed(Stopwatch):
        def provenance(self, *packages: str, device: str, **more: Any) -> dict[str, Any]:
            taken.append(1000.0 * 2 ** len(taken))
            clock = replace(self, clock=time.perf_counter() - taken[-1])
            return Stopwatch.provenance(clock, *packages, device=device, **more)

    for module in ("families.labels", "families.trees", "attention.family", "results.predictions"):
        monkeypatch.setattr(f"bertology.{module}.Stopwatch", Timed)
    found = run_probes(but(few, tasks=tasks, layers="1,2", **given), out=tmp_path / "run")
    assert taken
    assert found.to_pandas()["wall_s"].sum() == pytest.approx(sum(taken), rel=1e-3)


def test_a_second_run_loads_neither_encoder_nor_its_libraries(finished: Any, one_thread: dict[str, str]) -> None:
    command = ["bertology", "probe", "--task", "pos,feats:Number", "--seeds", "2", "--out", str(finished.out)]
    command += ["--random-draws", "1"]
    command += ["--model", finished.request.model, "--corpus", finished.request.corpus]
    code = (
        f"import sys; sys.argv = {command!r}\n"
        "from bertology.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print('exit', end.code)\n"
        "print('loaded', sorted({'torch', 'transformers', 'sklearn', 'spacy'} & set(sys.modules)))"
    )
    environment = {**one_thread, "BERTOLOGY_CACHE": str(finished.cache)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.splitlines()[-2:] == ["exit 0", "loaded []"], ran.stderr


def test_what_is_missing_or_damaged_is_computed_again_with_the_same_scores(
    finished: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scores: Scores
) -> None:
    mine = finished.copy(tmp_path, monkeypatch)
    frame = frame_of(finished)

    def cell(task: str, control: str, init: str = "pretrained") -> str:
        chosen = frame[(frame.task == task) & (frame.control == control) & (frame.init.fillna(init) == init)]
        return str(chosen.cell_id.iloc[0])

    def record(cell_id: str) -> Path:
        return file_of(mine.out, cell_id, "cells")

    record(cell("pos", "majority")).unlink()
    half = record(cell("pos", "control_task"))
    half.write_bytes(half.read_bytes()[:200])
    file_of(mine.out, cell("feats:Number", "none", "random")).unlink()
    altered = file_of(mine.out, cell("feats:Number", "none"))
    content = bytearray(altered.read_bytes())
    content[len(content) // 2] ^= 1  # as long as before
    altered.write_bytes(content)
    (mine.out / "results.parquet").unlink()
    run_probes(mine.request, out=mine.out)
    assert scores(mine.out).equals(scores(finished.out))


def test_no_layer_deeper_than_asked_is_run(few: ProbeRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.bert.modeling_bert import BertLayer

    ran: set[Any] = set()
    forward = BertLayer.forward

    def watched(self: Any, *args: Any, **more: Any) -> Any:
        ran.add(self.output.dense.weight)  # which threads share, and blocks do not
        return forward(self, *args, **more)

    monkeypatch.setattr(BertLayer, "forward", watched)
    run_probes(but(few, layers="0-1"))
    assert len(ran) == 1


def test_baselines_by_hand(few: ProbeRequest) -> None:
    def sentence(name: str, words: str, tags: str) -> Sentence:
        return Sentence.from_words(words.split(), id=name, layers={"upos": tuple(tags.split())})

    train = Sentences([sentence("t1", "dogs bark", "N V"), sentence("t2", "bark the bark bark", "N D V V")])
    test = Sentences([sentence("e1", "the bark", "D N"), sentence("e2", "cats bark The", "N V D")])
    corpus = Corpus("hand", {"train": train, "dev": train, "test": test})
    frame = run_probes(but(few, controls=("majority", "word_majority")), corpus=corpus).to_pandas()
    accuracy = frame[frame.metric == "accuracy"].set_index("control").value
    # V is the most frequent label (3 of 6): right once in 5 words.
    assert accuracy["majority"] == pytest.approx(1 / 5)
    # the → D (right), bark → V (wrong, right), cats and The were never seen → V (wrong, wrong).
    assert accuracy["word_majority"] == pytest.approx(2 / 5)


def test_fits_that_did_not_converge_are_one_note_a_group(
    few: ProbeRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bertology.families import labels

    real = labels.get_readout
    monkeypatch.setattr(labels, "get_readout", lambda name: real(name, max_iter=2))
    results = run_probes(but(few, layers="all", controls=("random", "control_task")))
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 2
    assert all("fits that did not converge: layers 0, 1, 2, 3 of the task itself, seed 0" in note for note in notes)
    assert [": random " in note or ", random " in note for note in notes] == [False, True]
    params = [json.loads(row.params_json) for row in results.rows]
    assert not any(found["converged"] for found in params)


def test_a_run_without_a_folder_is_kept_in_the_cache(few: ProbeRequest, own_cache: Path) -> None:
    results = run_probes(few)
    (run,) = (own_cache / "runs").iterdir()
    assert {path.name for path in run.iterdir()} == {"cells", "fits", "predictions", "locks"}
    cell = results.rows[0].cell_id
    assert results.kept[cell].item_ids == read_predictions(run, cell).item_ids


def test_random_weights_lack_what_the_pretrained_know(few: ProbeRequest, tmp_path: Path) -> None:
    """Test words that train does not have: only a model that was told their kind can know it."""
    import shutil

    from safetensors.numpy import load_file, save_file

    model = tmp_path / "model"
    shutil.copytree(few.model, model)
    vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    words = sorted(piece for piece in vocabulary if piece.isascii() and piece.isalpha() and len(piece) > 2)[:60]
    kind = dict(zip(words, np.random.default_rng(3).permutation(["NOUN", "VERB"] * 30).tolist(), strict=True))
    weights = load_file(model / "model.safetensors")
    for word in words:
        weights["bert.embeddings.word_embeddings.weight"][vocabulary[word], :8] += 2.0 if kind[word] == "NOUN" else -2.0
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})

    def split(name: str, own: list[str], size: int) -> Sentences:
        draw = np.random.default_rng(len(name))
        made = []
        for number in range(size):
            forms = tuple(str(word) for word in draw.choice(own, 5))
            tags = tuple(kind[form] for form in forms)
            made.append(Sentence.from_words(forms, id=f"{name}{number}", layers={"upos": tags}))
        return Sentences(made)

    splits = {"train": split("train", words[:40], 40), "dev": split("dev", words[40:45], 8)}
    corpus = Corpus("kinds", {**splits, "test": split("test", words[45:], 30)})
    request = but(few, model=str(model), layers="0-1", controls=("word_majority", "random"))
    frame = run_probes(request, corpus=corpus).to_pandas()
    score = frame[frame.metric == "accuracy"].set_index(["init", "layer"]).value
    assert score["pretrained", 0] > 0.95
    assert score["pretrained", 1] > 0.9
    assert score["random", 0] < 0.75
    assert score["random", 1] < 0.75
    # No word of test is in train, so that a word's own most frequent label says nothing.
    by_word = frame[(frame.control == "word_majority") & (frame.metric == "accuracy")]
    assert by_word.value.iloc[0] < 0.75


ONE_ITEM = 0.005


def test_some_layers_and_seeds_have_the_scores_that_they_have_among_others(finished: Any, few: ProbeRequest) -> None:
    some = run_probes(but(few, layers="1,3", controls=finished.request.controls)).to_pandas()
    every = frame_of(finished)
    both = some.merge(every, on=["cell_id", "metric"], suffixes=("", "_all"), how="left")
    assert len(both) == 2 * 6 + 4  # layers, scores of a layer; baselines
    assert both.value_all.notna().all()
    assert both.value.to_numpy() == pytest.approx(both.value_all.to_numpy(), abs=ONE_ITEM)
    assert both.ci_low.to_numpy() == pytest.approx(both.ci_low_all.to_numpy(), abs=ONE_ITEM)
    own = every.query("task == 'pos' and init == 'pretrained' and control == 'none'").sort_values(["layer", "metric"])
    first, second = (own[own.seed == seed].value.tolist() for seed in (0, 1))
    assert first != second
