"""The dask engine on real processes: the same bytes as in one process, whatever is killed on the way."""

import json
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from bertology._machine import VISIBLE_GPUS, visible_gpus
from bertology.errors import BertologyError
from bertology.runner import RunOptions, run_experiment
from bertology.runner._dask import open_pool
from bertology.runner.engines import ClusterChoice
from bertology.runner.experiment import load_experiment
from bertology.runner.run import RunSummary

Scores = Callable[[Path], pa.Table]
Trial = tuple[Path, RunSummary]
N_FITS = 4  # two tasks of two models


def on(cluster: Any, **options: Any) -> RunOptions:
    return RunOptions(engine="dask", cluster=ClusterChoice(cluster.address, patience_s=20), **options)


def assert_same(run: Path, other: Path, scores: Scores) -> None:
    """The same scores, comparisons and predictions to the byte."""
    assert scores(run).equals(scores(other))
    assert (run / "comparisons.parquet").read_bytes() == (other / "comparisons.parquet").read_bytes()
    kept = {path.name: path.read_bytes() for path in (other / "predictions").iterdir()}
    assert {path.name: path.read_bytes() for path in (run / "predictions").glob("*.parquet")} == kept


def stored(cache: Path) -> dict[str, bytes]:
    """Every file of the store."""
    found = {str(path.relative_to(cache)): path.read_bytes() for path in (cache / "activations").glob("*/*")}
    assert found
    return found


def in_background(run: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run something beside the test; what comes of it, or what it raises."""
    outcome: list[Any] = []

    def keep() -> None:
        try:
            outcome.append(run())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=keep)
    thread.start()
    return thread, outcome


def ended(thread: threading.Thread, outcome: list[Any]) -> Any:
    thread.join(240)
    assert not thread.is_alive()
    return outcome[0]


def test_processes_of_this_machine_give_the_same_bytes(trial: Trial, tmp_path: Path, scores: Scores) -> None:
    summary = run_experiment(load_experiment(trial[0]), tmp_path / "run", options=RunOptions(engine="dask", jobs=2))
    assert (summary.n_computed, summary.failures) == (summary.n_cells, ())
    assert_same(tmp_path / "run", trial[1].folder, scores)
    (session,) = json.loads((tmp_path / "run" / "run.json").read_text())["sessions"]
    assert session["engine"] == "dask"


def test_processes_of_this_machine_share_its_gpus_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setenv(VISIBLE_GPUS, "GPU-7,3,1")
    assert visible_gpus() == ["GPU-7", "3"]
    with open_pool(ClusterChoice(), jobs=2, gpus=visible_gpus(), run=tmp_path, echo=print) as pool:
        pool.client.wait_for_workers(2)
        seen = pool.client.run(os.getenv, VISIBLE_GPUS).values()
        pool.look()
        assert sorted(seen) == ["3", "GPU-7"]
        assert pool._has_gpus


def test_shards_of_vectors_are_written_by_all_workers(
    trial: Trial, tmp_path: Path, cluster: Any, own_cache: Path, scores: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bertology.activations import _extract

    experiment = load_experiment(trial[0])
    monkeypatch.setattr(_extract, "SHARD_BYTES", 8_000)
    monkeypatch.setattr(_extract, "PIECES_IN_BATCH", 128)
    monkeypatch.setattr("bertology.runner._dask.BYTES_A_WORKER", 8_000)
    monkeypatch.setenv("BERTOLOGY_CACHE", str(tmp_path / "serial"))
    run_experiment(experiment, tmp_path / "alone", options=RunOptions(engine="serial"))
    monkeypatch.setenv("BERTOLOGY_CACHE", str(own_cache))
    workers = [cluster.start_worker("small_shards", "slow_shards") for _ in range(2)]
    run_experiment(experiment, tmp_path / "run", options=on(cluster))
    assert stored(own_cache) == stored(tmp_path / "serial")
    n_shards = sum(".safetensors" in name for name in stored(own_cache))
    assert n_shards > 12
    written = cluster.logged("shards")
    assert len(written) == n_shards
    assert set(written) == set(workers)
    assert_same(tmp_path / "run", tmp_path / "alone", scores)


@pytest.mark.parametrize("hook", ["hang_in_fit", "hang_in_shard"])
def test_a_worker_killed_at_work_is_replaced(
    trial: Trial, tmp_path: Path, cluster: Any, scores: Scores, hook: str
) -> None:
    for _ in range(2):
        cluster.start_worker(hook)
    run = tmp_path / "run"
    thread, outcome = in_background(lambda: run_experiment(load_experiment(trial[0]), run, options=on(cluster)))
    cluster.kill(cluster.hanging())
    summary = ended(thread, outcome)
    assert (summary.n_computed, summary.failures) == (summary.n_cells, ())
    assert_same(run, trial[1].folder, scores)
    if hook == "hang_in_fit":
        # Its lock went with it, and no fit but the one it was at is done twice.
        assert len(cluster.logged("fits")) == N_FITS + 1


def test_without_workers_a_run_ends_and_goes_on_with_new_ones(
    trial: Trial, tmp_path: Path, cluster: Any, scores: Scores
) -> None:
    cluster.start_worker("hang_in_fit")
    experiment, run = load_experiment(trial[0]), tmp_path / "run"
    choice = ClusterChoice(cluster.address, patience_s=3)
    thread, outcome = in_background(
        lambda: run_experiment(experiment, run, options=RunOptions(engine="dask", cluster=choice))
    )
    cluster.kill(cluster.hanging())
    error = ended(thread, outcome)
    assert isinstance(error, BertologyError)
    assert f"no worker of {cluster.address} for 3 s: start some" in str(error)
    assert "what is finished is kept" in str(error)
    cluster.start_worker()
    summary = run_experiment(experiment, run, options=on(cluster))
    assert (summary.failures, summary.n_computed < summary.n_cells) == ((), True)
    assert_same(run, trial[1].folder, scores)


def test_a_scheduler_killed_and_started_again(trial: Trial, tmp_path: Path, cluster: Any, scores: Scores) -> None:
    scheduler = cluster.start_scheduler()
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": cluster.address}))
    options = RunOptions(engine="dask", cluster=ClusterChoice(str(file), patience_s=20))
    cluster.start_worker("hang_in_fit")
    experiment, run = load_experiment(trial[0]), tmp_path / "run"
    thread, outcome = in_background(lambda: run_experiment(experiment, run, options=options))
    hanging = cluster.hanging()
    cluster.kill(scheduler)
    error = ended(thread, outcome)
    assert isinstance(error, BertologyError)
    assert f"the dask scheduler at {cluster.address} is gone: start it again; what is finished is kept" in str(error)
    cluster.kill(hanging)
    cluster.start_scheduler(port=int(cluster.address.rpartition(":")[2]))
    cluster.start_worker()
    summary = run_experiment(experiment, run, options=options)
    assert (summary.failures, summary.n_computed < summary.n_cells) == ((), True)
    assert_same(run, trial[1].folder, scores)


def test_fits_go_to_workers_with_a_gpu(trial: Trial, tmp_path: Path, cluster: Any) -> None:
    # Whether it has one is what a worker says of itself, so that this can be seen where there is none.
    plain, with_gpu = (cluster.start_worker("fit_together", gpus=gpus) for gpus in (0, 1))
    experiment = load_experiment(trial[0])
    run_experiment(experiment, tmp_path / "run", options=on(cluster))
    assert set(cluster.logged("fits")) == set(cluster.logged("shards")) == {with_gpu}
    assert len(cluster.logged("fits")) == N_FITS
    # From here on a fit waits for one on the other worker, so that no quick worker takes all.
    (cluster.folder / "fits").unlink()
    (cluster.folder / "together").touch()
    run_experiment(load_experiment(trial[0], changes=["device=cpu"]), tmp_path / "cpu", options=on(cluster))
    assert set(cluster.logged("fits")) == {plain, with_gpu}


def test_a_worker_that_does_not_see_the_run_is_told(
    trial: Trial, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import contextlib

    from bertology.runner import _dask

    cluster.start_worker()
    monkeypatch.setattr(_dask, "_marked", lambda *_: contextlib.nullcontext("elsewhere"))
    with pytest.raises(
        BertologyError, match=r"the worker on \S+ does not see the run folder .*: name one by --out on a"
    ):
        run_experiment(load_experiment(trial[0]), tmp_path / "run", options=on(cluster))
    assert not list((tmp_path / "run").glob("cells/*"))


def test_a_worker_of_another_version_is_told(
    trial: Trial, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functools import partial

    from bertology.runner import _dask

    cluster.start_worker()
    monkeypatch.setattr(_dask, "WorkerContext", partial(_dask.WorkerContext, version="0.0.9"))
    with pytest.raises(BertologyError, match=r"has bertology \S+, this is 0.0.9: install one version everywhere"):
        run_experiment(load_experiment(trial[0]), tmp_path / "run", options=on(cluster))


def test_a_unit_travels_without_its_sentences(trial: Trial, tmp_path: Path) -> None:
    from bertology.runner.engines import Sender, received
    from bertology.runner.plan import resolve_work

    sender = Sender(tmp_path)
    for unit in resolve_work(load_experiment(trial[0])).units:
        sent, file = pickle.loads(pickle.dumps(sender.send(unit)))
        assert len(pickle.dumps(sent)) < 6_000 < file.stat().st_size
        back = received((sent, file))
        assert back.key == unit.key
        assert back.plan.pair.splits.test.fingerprint == unit.plan.pair.splits.test.fingerprint
    assert len(list(file.parent.iterdir())) == 1  # both models read the same corpus
