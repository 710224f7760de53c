"""Probes and a model's own head in one run: what tables, figures and the report call things, and that it verifies."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology import read_results

Command = Callable[..., Any]


@pytest.fixture
def run(bertology: Command, tiny_bert: Path, tmp_path: Path, figures: None) -> Path:
    """Parts of speech and facts, of a model in a folder far down."""
    model = tmp_path / "far" / "down" / "my-model"
    shutil.copytree(tiny_bert, model)
    options = ["--controls", "majority", "--layers", "0,3", "--max-items", "3"]
    done = bertology(
        "probe", "--task", "pos,lama", "--model", model, "--sentences", "40", *options, "--out", tmp_path / "run"
    )
    assert done.status == 0, done.err
    return tmp_path / "run"


def test_names_in_a_run_of_probes_and_prompts(bertology: Command, run: Path) -> None:
    """Pooling is of vectors alone: what reads none has none, and one model is one, by the last part of its path."""
    assert bertology("report", run).status == 0
    verified = bertology("verify", run)
    assert (verified.status, verified.out) == (0, f"{run}: as it was written\n")
    view = read_results(run).view()
    page = (run / "report.html").read_text(encoding="utf-8")
    # Where the numbers come from says where the model is.
    page = re.sub(r"<script.*?</script>|<style.*?</style>", "", page.partition('id="provenance"')[0], flags=re.DOTALL)
    written = {
        **{path.name: path.read_text(encoding="utf-8") for path in run.iterdir() if path.suffix in (".md", ".svg")},
        "text": view.to_text(),
        "latex": view.to_latex(),
        "csv": view.to_csv(),
        "models": view.models().to_markdown(),
        "page": page,
    }
    assert {"layers.md", "layers.svg", "heatmap.svg"} < set(written)
    for name, text in written.items():
        assert "None" not in text, name
        assert "far/down" not in text, name
    for name in ("layers.md", "layers.svg", "text", "latex", "csv", "models", "page"):
        assert "my-model" in written[name], name
    header = re.findall(r"<tspan[^>]*>(.*?)</tspan>|<text[^>]*>(.*?)</text>", written["heatmap.svg"])
    assert {"pos", "lama"} <= {part.split("\n")[0].split(" ")[0] for pair in header for part in pair}
    # One model: a line for each question, and one card and chip of each.
    assert len(view.models().tables[0].lines) == 1 + 2
    assert page.count('data-of-model="my-model"') == 2
    assert 'id="models"' not in page
