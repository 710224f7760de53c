"""Checkpoints of a training as models of an experiment, and of a request."""

import shutil
from pathlib import Path

import pytest

from bertology import probe
from bertology.errors import BertologyError
from bertology.results import Results, read_results
from bertology.runner import ProbeRequest, RunOptions, merge_runs, run_experiment
from bertology.runner.experiment import Experiment, experiment_of, load_experiment
from bertology.runner.plan import Shard, resolve_work


@pytest.fixture(scope="module")
def training(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three checkpoints of one shape, the second of which is the model ``tiny_bert`` itself."""
    from transformers import AutoModelForMaskedLM, set_seed

    folder = tmp_path_factory.mktemp("training") / "checkpoints"
    for step in (0, 5, 40):
        path = folder / f"step-{step}"
        shutil.copytree(tiny_bert, path)
        if step != 5:
            set_seed(step)
            model = AutoModelForMaskedLM.from_pretrained(tiny_bert)
            AutoModelForMaskedLM.from_config(model.config).save_pretrained(path)
    return folder.parent


ASKED = {"layers": [0, 2], "controls": ["majority", "random"], "random_draws": 1}


@pytest.fixture(scope="module")
def results(training: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    models = [{"name": str(training), "id": "tiny", "pretraining_seed": 3, "checkpoints": "all"}]
    corpora = [{"name": "pocket", "sentences": 40}]
    settings = {**ASKED, "statistics": {"resamples": 200}, "outputs": {"tables": [], "plots": []}}
    experiment = Experiment(name="time", models=models, corpora=corpora, tasks=["pos"], **settings)
    out = tmp_path_factory.mktemp("run")
    assert not run_experiment(experiment, out, options=RunOptions(engine="serial")).failures
    assert [model.step for model in load_experiment(out / "experiment.yaml").models] == [0, 5, 40]
    return read_results(out)


def test_each_checkpoint_is_a_model_with_its_step(results: Results) -> None:
    rows = [row for row in results.rows if row.control == "none" and row.init == "pretrained"]
    found = {(row.model, row.step, row.pretraining_seed) for row in rows}
    assert found == {(f"tiny seed 3 step {step}", step, 3) for step in (0, 5, 40)}
    assert len({row.model_fingerprint for row in rows}) == 3
    assert {row.step for row in results.rows if row.control == "majority"} == {None}


def test_scores_are_those_of_the_folder_probed_alone(results: Results, training: Path, tiny_bert: Path) -> None:
    for name, step in ((tiny_bert, 5), (training / "checkpoints/step-40", 40)):
        alone = probe("pos", model=name, sentences=40, layers=[0, 2], controls="none")
        cells = {row.cell_id: row.value for row in alone.rows if row.metric == "accuracy"}
        of_step = [row for row in results.rows if row.step == step and row.init == "pretrained"]
        assert cells == {row.cell_id: row.value for row in of_step if row.metric == "accuracy"}


def test_what_does_not_differ_is_computed_once(results: Results) -> None:
    """Baselines and random weights are the same for all checkpoints."""
    assert len({row.cell_id for row in results.rows if row.control == "majority"}) == 1
    of_random = [row for row in results.rows if row.init == "random" and row.layer == 2]
    assert len({row.step for row in of_random}) == 3
    assert len({row.cell_id for row in of_random}) == 1


def test_checkpoints_between_which_nothing_was_learned_are_both_kept(training: Path, tmp_path: Path) -> None:
    still = tmp_path / "still"
    for step, source in ((5, 5), (40, 40), (60, 40)):
        shutil.copytree(training / f"checkpoints/step-{source}", still / f"checkpoint-{step}")
    models = [{"name": str(still), "id": "still", "checkpoints": "all"}]
    settings = {**ASKED, "statistics": {"resamples": 200}, "outputs": {"tables": [], "plots": []}}
    corpora = [{"name": "pocket", "sentences": 20}]
    experiment = Experiment(name="time", models=models, corpora=corpora, tasks=["pos"], **settings)
    parts = [tmp_path / "1", tmp_path / "2"]
    for number, out in enumerate(parts, start=1):
        options = RunOptions(engine="serial", shard=Shard(number, 2))
        assert not run_experiment(experiment, out, options=options).failures
    results = merge_runs(parts, tmp_path / "merged")
    own = [row for row in results.rows if row.init == "pretrained" and row.metric == "accuracy"]
    values = {(row.step, row.layer): row.value for row in own}
    cells = {(row.step, row.layer): row.cell_id for row in own}
    assert len(values) == 3 * 2
    for layer in (0, 2):
        assert (values[40, layer], cells[40, layer]) == (values[60, layer], cells[60, layer])
        assert cells[5, layer] != cells[40, layer]
    (table,) = results.over_steps(n_resamples=100).tables
    assert table.steps == (5, 40, 60)
    again = probe("pos", model=still, checkpoints="all", sentences=20, progress=False, **ASKED)
    assert {row.step for row in again.rows if row.init == "pretrained" and row.step is not None} == {5, 40, 60}
    # Under other names than those of one training they stay a mistake.
    twice = [{"name": str(still / "checkpoint-40")}, {"name": str(still / "checkpoint-60")}]
    with pytest.raises(BertologyError, match="are the same but for their names"):
        resolve_work(experiment_of({**experiment.plain(), "models": twice}, where="test")).shard(Shard())


def test_checkpoints_on_the_command_line() -> None:
    for text, found in (("all", "all"), ("step*0", "step*0"), ("0, 500,step1000", (0, 500, "step1000"))):
        assert ProbeRequest(checkpoints=text).checkpoints == found


def test_mistakes_are_named(training: Path) -> None:
    models = [{"name": str(training), "id": "a", "checkpoints": [5]}, {"name": "pocket", "id": "a", "step": 5}]
    with pytest.raises(BertologyError, match="two models are called 'a step 5': give each an id of its own"):
        resolve_work(Experiment(name="time", models=models, corpora=["pocket"], tasks=["pos"]))
    with pytest.raises(BertologyError, match="random weights have no checkpoints: leave checkpoints out"):
        probe("pos", model=training, checkpoints="all", init="random")
