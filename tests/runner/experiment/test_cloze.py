"""Cloze tasks beside others in an experiment: the same bytes on every engine and in parts; a model without a head."""

from pathlib import Path

import pytest
import transformers

from bertology.results import read_results
from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import Experiment


def mixed(*models: object, **settings: object) -> Experiment:
    """A task of words and two of texts on one corpus."""
    plain = {
        "name": "mixed",
        "models": list(models),
        "corpora": [{"name": "pocket", "sentences": 30, "items": 3}],
        "tasks": ["pos", "lama", "agreement"],
        "layers": "0-1",
        "seeds": 2,
        "controls": ["majority", "random", "blind"],
        "outputs": {"plots": []},
    }
    return Experiment.model_validate({**plain, **settings})


@pytest.fixture(scope="module")
def serial(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed") / "serial"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder.parent / "cache"))
        summary = run_experiment(mixed(str(tiny_bert)), folder, options=RunOptions(engine="serial"))
    assert not summary.failures
    return folder


def test_there_is_one_cell_a_layer_whatever_the_seeds(serial: Path) -> None:
    found = read_results(serial)
    of_texts = [row for row in found.rows if row.task == "agreement"]
    assert {row.seed for row in of_texts} == {0}
    assert {(row.init, row.control) for row in of_texts} == {
        ("pretrained", "none"),
        ("pretrained", "blind"),
        ("random", "none"),
    }
    assert {row.pooling for row in of_texts} == {None}
    assert {row.seed for row in found.rows if row.task == "pos" and row.model} == {0, 1}
    # four numbers of attractors, three items each
    assert {row.n_items + row.n_skipped for row in of_texts if row.group is None} == {12}


def test_a_model_without_the_head_fails_in_its_own_cells(tiny_bert: Path, tmp_path: Path) -> None:
    headless = tmp_path / "headless"
    transformers.AutoModel.from_pretrained(tiny_bert).save_pretrained(headless)
    transformers.AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(headless)
    experiment = mixed(str(tiny_bert), {"name": str(headless), "id": "headless"}, tasks=["lama"], controls=[])
    summary = run_experiment(experiment, tmp_path / "run", options=RunOptions(engine="serial"))
    (failure,) = summary.failures
    assert "no masked-LM head in its weights" in failure
    found = read_results(tmp_path / "run")
    assert {row.model for row in found.rows if row.status == "ok"} == {str(tiny_bert)}
    assert {row.model for row in found.rows if row.status == "failed"} == {"headless"}
