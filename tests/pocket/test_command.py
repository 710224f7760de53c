"""``bertology pretrain`` as a person calls it."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bertology.cli.change import pretrain
from bertology.errors import BertologyError

RECIPE = Path(__file__).parents[2] / "experiments" / "pretrain-pocket.yaml"
SMALL = (
    "documents=20", "held_out_documents=10", "layers=1", "width=16", "heads=2", "inner_width=16",
    "vocabulary_size=200", "batch_pieces=128",
)  # fmt: skip


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(pretrain)
    return app


def test_it_trains_and_says_where_the_model_is(app: typer.Typer, tmp_path: Path) -> None:
    arguments = [str(RECIPE), "--out", str(tmp_path / "model"), "--set", "steps=2", "--device", "cpu"]
    for change in SMALL:
        arguments += ["--set", change]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "model" in result.output.splitlines()[-1]
    assert "agreement by attractors" in result.output
    assert (tmp_path / "model" / "model.safetensors").exists()
    assert "2 steps" in (tmp_path / "model" / "README.md").read_text()


def test_a_wrong_setting_is_the_projects_own_error(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(RECIPE), "--out", str(tmp_path), "--set", "stepps=2"])
    assert isinstance(result.exception, BertologyError)
    assert "did you mean steps?" in str(result.exception)
