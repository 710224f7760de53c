"""What a person is shown of a long job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bertology.activations import BarProgress


def test_a_job_of_unknown_length_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    bar = BarProgress("pocket, pos")
    bar.say("pass 3, 2 of 10 have converged")
    bar.finish()
    shown = capsys.readouterr()
    assert "pocket, pos: pass 3, 2 of 10 have converged" in shown.err
    assert not shown.out


def test_many_threads_move_one_bar(capsys: pytest.CaptureFixture[str]) -> None:
    bar = BarProgress("pocket, train")
    bar.start(4000, unit="pieces")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bar.advance, [1] * 4000))
    assert bar._bar.n == 4000
    bar.finish()
    assert "pocket, train" in capsys.readouterr().err


def test_a_job_that_never_began_can_end() -> None:
    BarProgress("nothing").finish()
