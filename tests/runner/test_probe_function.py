from pathlib import Path
from typing import Any

import pytest

import bertology
from bertology import BertologyError, load_corpus, read_results
from bertology.results import Results
from bertology.runner import rerun
from bertology.runner.experiment import Experiment
from bertology.runner.plan import resolve_work


@pytest.fixture(scope="module")
def table(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(tmp_path_factory.mktemp("cache")))
        return bertology.probe("pos", model=tiny_bert, corpus=tiny_corpus, layers=[0, -1], controls="majority")


def test_the_main_job_in_one_call(table: Results) -> None:
    frame = table.to_pandas()
    assert sorted(frame.layer.dropna().unique()) == [0, 3]
    assert set(frame.control) == {"none", "majority"}
    assert "pos · accuracy by layer" in str(table)
    assert "<table" in table._repr_html_()


def test_a_corpus_and_settings_can_be_given(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    found = bertology.probe(
        ["pos", "deprel"],
        model=tiny_bert,
        corpus=load_corpus(tiny_corpus),
        layers=0,
        controls="none",
        pooling="last",
        test_split="dev",
        out=tmp_path,
    )
    assert {(row.task, row.pooling, row.split) for row in found.rows} == {
        ("pos", "last", "dev"),
        ("deprel", "last", "dev"),
    }
    assert set(read_results(tmp_path).rows) == set(found.rows)


def test_a_setting_that_there_is_not() -> None:
    with pytest.raises(TypeError, match="modle"):
        bertology.probe("pos", modle="pocket")


def test_the_first_sentences_of_each_split(tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    """As ``sentences`` of an experiment: the same cells, which are not those of the whole corpus."""
    chosen: dict[str, Any] = {"model": tiny_bert, "layers": "0", "controls": "majority"}
    found = bertology.probe("pos", corpus=tiny_corpus, sentences=15, out=tmp_path / "run", **chosen)
    corpus = load_corpus(tiny_corpus)
    assert {row.n_clusters for row in found.rows} == {15}
    assert {row.n_train for row in found.rows} == {corpus["train"][:15].n_words}
    data = {"name": str(tiny_corpus), "sentences": 15}
    settings = {"models": [str(tiny_bert)], "tasks": ["pos"], "layers": 0, "controls": ["majority"]}
    experiment = Experiment.model_validate({"name": "trial", "corpora": [data], **settings})
    cells = {cell.id for unit in resolve_work(experiment).units for cell in unit.cells}
    assert {row.cell_id for row in found.rows} == cells
    whole = bertology.probe("pos", corpus=corpus, **chosen)
    assert not cells & {row.cell_id for row in whole.rows}
    assert {row.cell_id for row in bertology.probe("pos", corpus=corpus, sentences=15, **chosen).rows} == cells
    with pytest.raises(BertologyError, match="sentences: should be at least 2, not 1"):
        bertology.probe("pos", corpus=corpus, sentences=1, **chosen)
    repeated = rerun(tmp_path / "run", tmp_path / "again")
    assert not repeated.moved
