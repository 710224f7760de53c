"""The short version of ``tests.runner.kills``: what is left of jobs that are killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.commands import Commands, commands
from tests.runner.kills import Killer


@pytest.fixture(scope="module")
def forked() -> Iterator[Commands]:
    with commands() as found:
        yield found


@pytest.fixture(scope="module")
def killer(forked: Commands, tmp_path_factory: pytest.TempPathFactory) -> Killer:
    return Killer(forked, tmp_path_factory.mktemp("kills") / "below")


@pytest.mark.parametrize(
    ("job", "at", "by"),
    [
        ("pretrain", 0.7, signal.SIGTERM),
        ("joblib", 0.6, signal.SIGKILL),
    ],
)
def test_nothing_is_left_of_a_killed_job(killer: Killer, job: str, at: float, by: signal.Signals) -> None:
    for attempt in range(3):
        killed = killer.kill(job, at=at, by=by, name=f"{job}-{by.name}-{attempt}")
        assert not killed.wrong, killed
        if killed.status:
            return
    raise AssertionError(f"{job} keeps ending before it can be killed")
