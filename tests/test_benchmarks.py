"""What benchmarks print beside their ratios, without which ratios of two machines cannot be compared."""

import os
import re
from pathlib import Path

import pytest

from benchmarks._common import Line, show

BENCHMARKS = sorted(path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("[!_]*.py"))


def test_processor_threads_and_rate_of_products(capsys: pytest.CaptureFixture[str]) -> None:
    show([Line("(a) ours ÷ theirs", 1.25, (1.1, 1.4), "≤ 1.3", "2.5 s ÷ 2.0 s")])
    machine, _, _, line = capsys.readouterr().out.strip().splitlines()
    found = re.search(r"^(.+), (\d+) processors, (\d+) threads, (\d+) GFLOP/s in float32 products, torch ", machine)
    assert found is not None
    assert int(found[2]) == os.cpu_count()
    assert int(found[4]) > 0
    assert line.split() == ["(a)", "ours", "÷", "theirs", "1.25", "1.10–1.40", "≤", "1.3", "2.5", "s", "÷", "2.0", "s"]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_prints_it(name: str) -> None:
    text = (Path(__file__).parents[1] / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    assert re.search(r"^ +show\(", text, re.MULTILINE)
