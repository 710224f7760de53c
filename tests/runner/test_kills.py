"""The short version of ``tests.runner.kills``: what is left of jobs that are killed."""

import signal

import pytest

from tests.commands import Commands
from tests.runner.kills import Killer


@pytest.fixture(scope="module")
def killer(forked: Commands, tmp_path_factory: pytest.TempPathFactory) -> Killer:
    return Killer(forked, tmp_path_factory.mktemp("kills") / "below")


@pytest.mark.parametrize(
    ("job", "at", "by", "like"),
    [
        ("pretrain", 0.7, signal.SIGTERM, "pretrain"),
        ("joblib", None, signal.SIGKILL, "serial"),
        ("joblib", None, signal.SIGINT, "serial"),
        ("compare", 0.5, signal.SIGKILL, "compare"),
    ],
)
def test_nothing_is_left_of_a_killed_job(
    killer: Killer, job: str, at: float | None, by: signal.Signals, like: str
) -> None:
    for attempt in range(3):
        killed = killer.kill(job, at=at, by=by, name=f"{job}-{by.name}-{attempt}", like=like)
        assert not killed.wrong, killed
        if killed.status:
            return
    raise AssertionError(f"{job} keeps ending before it can be killed")
