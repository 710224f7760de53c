"""What a person is shown of a long job."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from bertology.activations.progress import BarProgress, can_show


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


def test_lines_stand_above_bars(capsys: pytest.CaptureFixture[str]) -> None:
    bar = BarProgress("trial")
    bar.start(40, unit="cells")
    bar.advance(18)
    bar.line("done    pos on pocket")
    bar.note("a note")
    bar.finish()
    shown = capsys.readouterr().err
    assert "trial:  45%" in shown
    assert "18/40 [" in shown
    assert {"done    pos on pocket", "note: a note"} <= {line.strip() for line in shown.replace("\r", "\n").split("\n")}


@pytest.mark.parametrize(
    ("terminal", "config", "expected"),
    [(True, None, True), (False, None, False), (False, {}, False), (False, {"IPKernelApp": {}}, True)],
)
def test_bars_are_drawn_on_terminals_and_in_notebooks(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, config: Any, expected: bool
) -> None:
    shell = None if config is None else SimpleNamespace(config=config)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: terminal))
    assert can_show() == expected
