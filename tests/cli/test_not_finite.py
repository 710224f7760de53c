"""Models whose weights hold NaN or infinity, on the command line."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.encoders.test_hidden_states import BIAS, QUERY, TEXT, damaged

CASES = [
    ("cloze", QUERY, math.nan),
    ("cloze", BIAS, math.inf),
    ("cloze", BIAS, math.nan),
    ("attention", QUERY, math.nan),
]


@pytest.mark.parametrize(("command", "weight", "value"), CASES)
def test_one_line(
    command: str, weight: str, value: float, bertology: Callable[..., Any], tiny_bert: Path, tmp_path: Path
) -> None:
    folder = damaged(tiny_bert, tmp_path / "model", weight, (20, 0)[: 1 if weight == BIAS else 2], value)
    page = ["--out", str(tmp_path / "view.html")] if command == "attention" else []
    line = bertology(command, TEXT, "--model", folder, *page).one_line()
    assert "its weights hold NaN or infinity" in line
    assert weight in line
