"""Landscapes written down in files: mistakes by line, changes, and results that are not overwritten."""

import json
import re
from pathlib import Path

import pytest

from bertology import BertologyError
from bertology.cli import main
from bertology.landscapes import load_landscape

TEXT = """\
command: landscape
name: trial
models: [MODEL]
sentences: 4
points: 3
directions: 2
iterations: 1
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("points: 3", "points: 2", r"5: points: should be at least 3"),
        ("points: 3", "point: 3", r"5: unknown key 'point': did you mean points\?"),
        ("points: 3", "extent: [1, -1]", r"5: extent: 1…-1 is none: give a lower and a higher number"),
        ("directions: 2", "directions: 1", r"6: directions: is 1: give 0, or 2 or more"),
        ("models: [MODEL]", "models: [a, b, c, d]", r"3: models: .*at most 3 items"),
        ("models: [MODEL]\n", "", r"1: key 'models' is missing"),
        ("command: landscape", "command: finetune", r"1: this is a file for `bertology finetune`"),
    ],
)
def test_a_mistake_names_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "trial.yaml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(BertologyError, match=f"^{re.escape(str(path))}:{message}"):
        load_landscape(path)


def test_a_file_holds_the_options_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "trial.yaml"
    path.write_text(TEXT)
    found = load_landscape(path, changes=["points=5", "models[0]=pocket", "head=tuned", "trajectory=[a, b]"])
    assert found.models == ("pocket",)
    assert {"points": 5, "head": "tuned", "trajectory": ("a", "b"), "corpus": "pocket"}.items() <= found.options.items()
    with pytest.raises(BertologyError, match=r"^--set radius=0: radius: "):
        load_landscape(path, changes=["radius=0"])


def test_the_command_overwrites_only_when_asked(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trial.yaml").write_text(TEXT.replace("MODEL", str(tiny_bert)))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["bertology", "landscape", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    record = tmp_path / "runs" / "trial" / "landscape.json"
    status, printed, _ = run("trial.yaml", "--set", "iterations=0", "--device", "cpu")
    assert status == 0
    assert "sharpness" in printed
    assert "eigenvalue" not in printed
    before = record.read_bytes()
    held = "bertology: runs/trial holds a landscape already: choose another --out, or give --overwrite\n"
    assert run("trial.yaml")[::2] == (2, held)
    assert run(str(tiny_bert), "--out", "runs/trial")[::2] == (2, held)
    assert record.read_bytes() == before
    assert run("trial.yaml", "--overwrite", "--set", "iterations=0", "--set", "seed=3", "--device", "cpu")[0] == 0
    assert json.loads(record.read_text())["settings"]["seed"] == 3
    assert "--split does not go with trial.yaml" in run("trial.yaml", "--split", "test")[2]
    assert "give models, or one FILE" in run("pocket", "trial.yaml")[2]
    assert "give --out, or a FILE" in run("pocket")[2]
