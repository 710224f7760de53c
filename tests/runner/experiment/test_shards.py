"""Parts of a run: each looks at its own models alone, and together they are the whole."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bertology.errors import BertologyError
from bertology.results import read_results
from bertology.runner import RunOptions, merge_runs, plan, run_experiment, verify_run
from bertology.runner._folder import _checksum_of
from bertology.runner.estimate import estimate
from bertology.runner.experiment import Experiment, load_experiment
from bertology.runner.plan import Shard, places_of, resolve_work
from bertology.runner.run import RunSummary

Scores = Callable[[Path], pa.Table]
Trial = tuple[Path, RunSummary]


def many(models: list[object], **settings: object) -> Experiment:
    corpora = [{"name": "pocket", "sentences": 30}]
    return Experiment.model_validate(
        {"name": "many", "models": models, "corpora": corpora, "tasks": ["pos", "chunk"], **settings}
    )


def fresh(model: Path, n: int) -> list[object]:
    """Models of one architecture under weights of their own."""
    return [{"name": str(model), "id": f"m{seed}", "init": "random", "init_seed": seed} for seed in range(n)]


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are looked for, and those whose content is hashed, from here on."""
    names: list[str] = []
    find, hash_ = plan.resolve_model, plan.model_fingerprint
    monkeypatch.setattr(plan, "resolve_model", lambda name, **rest: names.append(name) or find(name, **rest))
    monkeypatch.setattr(
        plan,
        "model_fingerprint",
        lambda source, **how: names.append(f"hash of {how['seed']}") or hash_(source, **how),
    )
    return names


def test_a_part_looks_at_its_own_model_alone(tiny_bert: Path, resolved: list[str]) -> None:
    work = resolve_work(many(fresh(tiny_bert, 8)), part=Shard(2, 8))
    assert resolved == [str(tiny_bert), "hash of 1"]
    assert set(work.content["models"]) == {"m1"}
    assert [unit.title for unit in work.units] == ["pos on pocket, m1", "chunk on pocket, m1"]
    assert work.n_cells == sum(len(unit.cells) for unit in work.units)
    with pytest.raises(BertologyError, match="this is part 2/8 of the experiment, not 3/8"):
        work.shard(Shard(3, 8))


def test_the_missing_model_of_another_part_stops_nothing(tiny_bert: Path, tmp_path: Path) -> None:
    experiment = many([*fresh(tiny_bert, 1), {"name": "./nowhere"}], layers="0", controls=["majority"])
    options = RunOptions(engine="serial", shard=Shard(1, 2))
    assert run_experiment(experiment, tmp_path / "run", options=options).failures == ()
    for part in (Shard(2, 2), None):
        with pytest.raises(BertologyError, match=r"no model folder ./nowhere"):
            resolve_work(experiment, part=part)


@pytest.mark.parametrize(("n_models", "n"), [(1, 2), (3, 7), (8, 8), (30, 7), (8, 30)])
def test_parts_are_even_and_of_few_models(n_models: int, n: int) -> None:
    settings = [{"name": f"m{number}", "init": ("pretrained", "random")[number % 2]} for number in range(n_models)]
    experiment = many(settings)
    whole = places_of(experiment, Shard())
    parts = [places_of(experiment, Shard(number, n)) for number in range(1, n + 1)]
    assert [place for part in parts for place in part] == list(whole)
    weights = [sum(place.weight for place in part) for part in parts]
    even = sum(weights) / n
    largest = max(place.weight for place in whole)
    assert all(abs(weight - even) <= max(0.2 * even, largest) for weight in weights)
    of_model = sum(place.weight for place in whole) / n_models
    assert all(
        len({place.model for place in part}) <= weight / of_model * 2 + 2
        for part, weight in zip(parts, weights, strict=True)
    )
    # The baselines of a corpus stand once, with the first model.
    assert [place.model for place in whole if place.init is None] == [0, 0]


def test_parts_in_one_folder_are_the_whole_run(
    trial: Trial, tmp_path: Path, scores: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = trial
    monkeypatch.setenv("BERTOLOGY_CACHE", str(path.parent / "cache"))
    run = tmp_path / "run"
    for number in (3, 1, 2):
        part = run_experiment(load_experiment(path), run, options=RunOptions(engine="serial", shard=Shard(number, 3)))
        assert part.n_computed == part.n_cells > 0
        assert verify_run(run) == ()
    assert scores(run).equals(scores(whole.folder))
    for name in ("comparisons.parquet", "layers.md"):
        assert (run / name).read_bytes() == (whole.folder / name).read_bytes()
    kept = {file.name: file.read_bytes() for file in (whole.folder / "predictions").iterdir()}
    assert {file.name: file.read_bytes() for file in (run / "predictions").iterdir()} == kept
    content = [json.loads((folder / "run.json").read_text())["content"] for folder in (run, whole.folder)]
    assert content[0] == content[1]
    # Neither a part nor the whole finds anything to do, and the tables stay.
    before = (run / "results.parquet").stat().st_mtime_ns
    for shard in (Shard(2, 3), Shard(3, 3)):
        run_experiment(load_experiment(path), run, options=RunOptions(engine="serial", shard=shard))
    assert (run / "results.parquet").stat().st_mtime_ns == before
    assert run_experiment(load_experiment(path), run, options=RunOptions(engine="serial")).n_computed == 0
    assert scores(run).equals(scores(whole.folder))


def test_another_experiment_in_the_folder_is_no_other_part(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = trial
    monkeypatch.setenv("BERTOLOGY_CACHE", str(path.parent / "cache"))
    for change, number in (("statistics.resamples=200", 1), ("statistics.resamples=300", 2)):
        experiment = load_experiment(path, changes=[change])
        part = RunOptions(engine="serial", shard=Shard(number, 2))
        run_experiment(experiment, tmp_path / "run", options=part)
    assert {row.model for row in read_results(tmp_path / "run").rows} == {"fresh"}
    assert set(json.loads((tmp_path / "run" / "run.json").read_text())["content"]["models"]) == {"fresh"}


def test_one_model_under_two_names_is_told_when_parts_meet(tiny_bert: Path, tmp_path: Path) -> None:
    models = [{"name": str(tiny_bert), "id": name} for name in ("one", "two")]
    experiment = many(models, layers="0", controls="none", outputs={"plots": []})
    runs = [tmp_path / "1", tmp_path / "2"]
    for number, run in enumerate(runs, 1):
        run_experiment(experiment, run, options=RunOptions(engine="serial", shard=Shard(number, 2)))
    with pytest.raises(BertologyError, match="'chunk on pocket, one' and 'chunk on pocket, two' are the same"):
        merge_runs(runs, tmp_path / "merged")


def test_models_of_one_architecture_share_their_random_control(tiny_bert: Path, tmp_path: Path, scores: Scores) -> None:
    import shutil

    from safetensors.numpy import load_file, save_file

    other = Path(shutil.copytree(tiny_bert, tmp_path / "other"))
    weights = load_file(other / "model.safetensors")
    save_file({name: 2 * values for name, values in weights.items()}, other / "model.safetensors", {"format": "pt"})
    models = [{"name": str(tiny_bert), "id": "one"}, {"name": str(other), "id": "two"}]
    experiment = many(models, layers="0", controls=["random"], outputs={"plots": []})
    whole = run_experiment(experiment, tmp_path / "run", options=RunOptions(engine="serial"))
    assert whole.failures == ()
    # Each has its pretrained weights, and both the same draw of random ones.
    assert whole.n_computed == 3 * 2 < whole.n_cells == 4 * 2
    rows = [row for row in read_results(whole.folder).rows if row.init == "random"]
    assert {(row.model, row.cell_id) for row in rows} == {(m, row.cell_id) for m in ("one", "two") for row in rows}
    runs = [tmp_path / "1", tmp_path / "2"]
    for number, run in enumerate(runs, 1):
        run_experiment(experiment, run, options=RunOptions(engine="serial", shard=Shard(number, 2)))
    merge_runs(runs, tmp_path / "merged")
    assert scores(tmp_path / "merged").equals(scores(whole.folder))


def test_a_plan_of_very_many_cells_names_none_of_them(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bertology.results.predictions import Cell

    work = resolve_work(many(fresh(tiny_bert, 10), seeds=100))
    named = []
    monkeypatch.setattr(Cell, "id", property(lambda cell: named.append(cell) or f"{id(cell)}"))
    found = estimate(work, tmp_path / "run")
    assert found.n_cells == work.n_cells == 10 * 2 * (4 * 100 * 2) + 4
    groups = sum(not unit.is_baseline for unit in work.units)
    assert len(named) <= 2 * (groups + 2)


def test_parts_that_contradict_each_other(trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = trial
    monkeypatch.setenv("BERTOLOGY_CACHE", str(path.parent / "cache"))
    runs = [tmp_path / "1", tmp_path / "2"]
    for number, run in enumerate(runs, 1):
        run_experiment(load_experiment(path), run, options=RunOptions(engine="serial", shard=Shard(number, 2)))
    record = json.loads((runs[1] / "run.json").read_text())
    record["content"]["corpora"]["small"] = "0" * 32
    record["sha256"] = _checksum_of(record)  # or it would tell that it was altered
    (runs[1] / "run.json").write_text(json.dumps(record))
    with pytest.raises(BertologyError, match="made of different models or corpora: run one again"):
        merge_runs(runs, tmp_path / "merged")
