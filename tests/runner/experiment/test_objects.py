"""Experiments made in Python of models and data in memory, and their repetition."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest

from bertology import load_corpus, load_encoder, probe, register_probe
from bertology.corpora import Corpus
from bertology.corpora._named import _KEPT
from bertology.errors import BertologyError
from bertology.probing import RepresentationProbe, word_examples
from bertology.probing.probes import OF_PROCESS
from bertology.results import read_results
from bertology.runner import RunOptions, rerun, run_experiment
from bertology.runner.experiment import Experiment, load_experiment

SERIAL = RunOptions(engine="serial")
GRID: dict[str, Any] = {"layers": 0, "controls": "majority", "outputs": {"plots": []}}


@pytest.fixture
def frame() -> pd.DataFrame:
    rows = [["the", "dogs", "sleep"], ["we", "watch", "the", "watch"]] * 20
    tags = [["DET", "NOUN", "VERB"], ["PRON", "VERB", "DET", "NOUN"]] * 20
    return pd.DataFrame({"tokens": rows, "upos": tags, "part": (["train"] * 20 + ["dev"] * 10 + ["test"] * 10)})


COLUMNS = "words=tokens,tags=upos,split=part"


def forgotten() -> Any:
    """As in another process, which has no corpus in memory."""
    return patch.dict(_KEPT, clear=True)


def test_a_changed_model_and_a_frame(frame: pd.DataFrame, tiny_bert: Path, tmp_path: Path) -> None:
    encoder = load_encoder(str(tiny_bert))
    encoder.model.body.embeddings.word_embeddings.weight[5] += 1  # type: ignore[operator, union-attr, index]
    data = {"name": frame, "columns": COLUMNS, "id": "mine"}
    experiment = Experiment(name="mine", models=[encoder], corpora=[data], tasks=["pos"], **GRID)
    run_experiment(experiment, tmp_path / "run", options=SERIAL)
    results = read_results(tmp_path / "run")
    asked = load_experiment(tmp_path / "run" / "experiment.yaml")
    assert asked == experiment
    # The file names the copy of the model, and the data by their content.
    assert Path(asked.models[0].name).is_dir()
    assert asked.models[0].name != str(tiny_bert)
    assert asked.corpora[0].name == f"data in memory #{load_corpus(frame, columns=COLUMNS).fingerprint[:8]}"
    assert {row.corpus for row in results.rows} == {"mine"}
    # They are the cells of the same asked for in one call.
    same = probe("pos", model=encoder, corpus=frame, columns=COLUMNS, layers="0", controls="majority")
    assert {row.cell_id for row in same.rows} == {row.cell_id for row in results.rows}


def test_rerun_takes_the_data_again_or_says_so(frame: pd.DataFrame, tiny_bert: Path, tmp_path: Path) -> None:
    corpus = load_corpus(frame, columns=COLUMNS)
    chosen: dict[str, Any] = {"model": tiny_bert, "layers": "0", "controls": "majority"}
    probe("pos", corpus=frame, columns=COLUMNS, out=tmp_path / "run", **chosen)
    assert not rerun(tmp_path / "run", tmp_path / "here", options=SERIAL).moved
    with forgotten():
        with pytest.raises(BertologyError, match=r"it was in memory where it was named.*rerun\(run, out, corpora=\["):
            rerun(tmp_path / "run", tmp_path / "lost", options=SERIAL)
        other = Corpus("data in memory", {**corpus.splits, "test": corpus["test"][:5]})
        with pytest.raises(BertologyError, match="it was in memory"):
            rerun(tmp_path / "run", tmp_path / "lost", options=SERIAL, corpora=[other])
        assert not rerun(tmp_path / "run", tmp_path / "given", options=SERIAL, corpora=[corpus]).moved


def test_rerun_of_an_own_probe(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    class Long(RepresentationProbe):
        """Is a word long?"""

        task, version = "long_word", 1
        question, reference = "Is the word long?", "nobody"
        readout, metrics = "linear.v1", ("accuracy",)

        def examples(self, sentences: Any) -> Any:
            return word_examples(sentences, [str(len(word) > 3) for word in words_of(sentences)])

    def words_of(sentences: Any) -> list[str]:
        return [word for sentence in sentences for word in sentence.words]

    with patch.dict(OF_PROCESS, clear=True):
        probe(Long(), model=tiny_bert, corpus=tiny_corpus, layers="0", controls="majority", out=tmp_path / "run")
        assert not rerun(tmp_path / "run", tmp_path / "again", options=SERIAL).moved
        OF_PROCESS.clear()
        with pytest.raises(
            BertologyError, match=r"unknown task 'long_word'.*call bertology.register_probe before rerun"
        ):
            rerun(tmp_path / "run", tmp_path / "lost", options=SERIAL)
        register_probe(Long)
        assert not rerun(tmp_path / "run", tmp_path / "third", options=SERIAL).moved
