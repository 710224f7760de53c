"""``bertology compress``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bertology.cli import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bertology", "compress", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_several_methods_and_speed(
    tiny_bert: Path,
    tiny_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "small"
    options = ["--method", "magnitude,quantise", "--set", "magnitude.share=0.5", "--set", "quantise.bits=4"]
    assert run(monkeypatch, str(tiny_bert), *options, "--out", str(out), "--speed", str(tiny_corpus)) == 0
    shown = capsys.readouterr().out
    assert "magnitude (share 0.5, scope global" in shown
    assert shown.count("pieces/s") == 3
    assert (out / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "magnitude", "--set", "share=2"], "share is 2"),
        (["--method", "quantize"], "did you mean quantise"),
        (["--method", "layers", "--set", "drop_top=9"], "the model has 3"),
        (["--method", "magnitude", "--set", "share"], "write key=value"),
    ],
)
def test_mistakes_are_one_line_and_status_2(
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    assert run(monkeypatch, str(tiny_bert), *options, "--out", str(tmp_path / "small")) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
