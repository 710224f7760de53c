"""The main job on data in memory, and on the same data on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bertology import probe
from bertology.runner import RunOptions, rerun, run_experiment
from bertology.runner.experiment import Experiment

COLUMNS = "words=words,tags=upos,group=document"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Sentences whose tags follow from their words."""
    dice = np.random.default_rng(3)
    tag_of = {"the": "DET", "dogs": "NOUN", "cats": "NOUN", "chased": "VERB", "saw": "VERB"}
    rows = []
    for number in range(120):
        words = ["the", str(dice.choice(["dogs", "cats"])), str(dice.choice(["chased", "saw"])), "the", "cats"]
        rows.append({"words": words, "upos": [tag_of[word] for word in words], "document": number // 3})
    return pd.DataFrame(rows)


def test_a_frame_and_its_file_are_one_run(
    tiny_bert: Path, frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"model": tiny_bert, "columns": COLUMNS, "layers": "0", "controls": "majority"}
    in_memory = probe("pos", corpus=frame, out=tmp_path / "run", **options).to_pandas()
    frame.to_json(tmp_path / "mine.jsonl", orient="records", lines=True)
    cells = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "cells").iterdir()}
    on_disk = probe("pos", corpus=tmp_path / "mine.jsonl", out=tmp_path / "run", **options).to_pandas()
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "cells").iterdir()} == cells
    assert (in_memory["corpus"] == "data in memory").all()
    assert (on_disk["corpus"] == "mine").all()
    same = ["cell_id", "corpus_fingerprint", "value", "n_items"]
    pd.testing.assert_frame_equal(in_memory[same], on_disk[same])
    assert in_memory["value"].max() > 0.95


PAIRS = pd.DataFrame(
    {"sen": ["the dogs chased", "the cats saw"], "wrong": ["the dogs chase", "the cats see"], "kind": [1, 2]}
)


def test_a_table_of_items_and_its_file_are_one_run(tiny_bert: Path, tmp_path: Path) -> None:
    options = {"model": tiny_bert, "layers": "0", "controls": "none", "columns": "good=sen,bad=wrong,group=kind"}
    PAIRS.to_csv(tmp_path / "pairs.csv", index=False)
    in_memory = probe("minimal_pairs", corpus=PAIRS, **options).to_pandas()
    on_disk = probe("minimal_pairs", corpus=tmp_path / "pairs.csv", **options).to_pandas()
    assert set(in_memory["corpus"]) == {"data in memory"}
    pd.testing.assert_frame_equal(in_memory[["value", "n_items"]], on_disk[["value", "n_items"]])
    table = {"name": PAIRS, "columns": options["columns"]}
    mine = Experiment(name="mine", models=[str(tiny_bert)], corpora=[table], tasks=["minimal_pairs"], controls="none")
    assert run_experiment(mine, tmp_path / "run", options=RunOptions(engine="serial")).n_cells
    assert set(probe("minimal_pairs", corpus=PAIRS, **options).per_group("minimal_pairs", 0).index) == {"1", "2"}


def test_a_run_on_a_table_of_items_is_run_again(tiny_bert: Path, tmp_path: Path) -> None:
    columns = ["good=sen", "bad=wrong"]
    probe("minimal_pairs", corpus=PAIRS, model=tiny_bert, columns=columns, controls="none", out=tmp_path / "run")
    again = rerun(tmp_path / "run", tmp_path / "again", corpora=[PAIRS], options=RunOptions(engine="serial"))
    assert again.n_scores
    assert not again.moved
