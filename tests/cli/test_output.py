import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertology import read_results
from tests.cell_files import records_in

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def two_layers(probe: Command, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A run of two layers with baselines, computed once and from then on read."""
    monkeypatch.setenv("BERTOLOGY_CACHE", str(shared_cache))
    return lambda *arguments: probe("--layers", "0,3", "--controls", "majority,word-majority", *arguments)


def test_a_table_where_no_terminal_reads_it(two_layers: Command) -> None:
    outcome = two_layers()
    assert outcome.status == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert " pos · accuracy by layer, %" in lines
    # No colour, no padding to the width of a terminal, nothing cut off.
    assert "\x1b" not in outcome.out
    assert not any(line != line.rstrip() for line in lines)
    assert not any("…" in line for line in lines)
    for label in ("0 · embeddings", "3", "majority", "word majority"):
        assert any(line.strip().startswith(label + " ") for line in lines), label


def test_markdown(two_layers: Command) -> None:
    out = two_layers("--format", "md").out
    table = [line for line in out.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 2 + 2
    assert len({line.count("|") for line in table}) == 1


def test_csv_and_json_hold_the_same_fractions(two_layers: Command) -> None:
    lines = list(csv.DictReader(io.StringIO(two_layers("--format", "csv").out)))
    (table,) = json.loads(two_layers("-f", "json").out)
    main = [line for line in lines if line["column"] == lines[0]["column"]]
    assert [line["row"] for line in main] == ["0 · embeddings", "3", "majority", "word majority"]
    assert [float(line["value"]) for line in lines] == [number["value"] for number in table["numbers"]]
    assert all(0 <= float(line["value"]) <= 1 for line in lines)


def test_latex(two_layers: Command) -> None:
    out = two_layers("--format", "latex").out
    assert out.count(r"\begin{table}") == out.count(r"\end{table}") == 1
    assert r"\toprule" in out


def test_what_a_folder_holds(two_layers: Command, tmp_path: Path, figures: None) -> None:
    outcome = two_layers("--out", tmp_path / "run", "--format", "csv")
    assert outcome.status == 0
    # What is printed may be read by a program: the word on the folder is not part of it.
    assert outcome.out == two_layers("--format", "csv").out
    assert outcome.err == f"tables and plots in {tmp_path / 'run'}\n"
    names = {path.name for path in (tmp_path / "run").iterdir()}
    files = {
        "results.parquet",
        "comparisons.parquet",
        *(f"layers.{form}" for form in ("md", "tex", "png", "svg", "pdf")),
    }
    about = {"experiment.yaml", "run.json", "checksums.json"}
    assert names == {*files, *about, "cells", "fits", "predictions", "locks"}
    results = read_results(tmp_path / "run")
    cells = {row.cell_id for row in results.rows}
    assert set(records_in(tmp_path / "run")) == set(results.kept) == cells
    names = [{path.stem for path in (tmp_path / "run" / folder).iterdir()} for folder in ("cells", "predictions")]
    assert names[0] == names[1]
    assert (tmp_path / "run" / "layers.pdf").read_bytes().startswith(b"%PDF")
    assert r"\begin{table}" in (tmp_path / "run" / "layers.tex").read_text()
    assert (tmp_path / "run" / "layers.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "run" / "layers.svg").read_text()


def test_several_tasks_come_with_a_summary(probe: Command) -> None:
    out = probe("--task", "pos,deprel").out
    assert "pos · accuracy by layer" in out
    assert "deprel · accuracy by layer" in out
    assert "layers by tasks" in out


def test_silver_labels_are_marked(probe: Command, tmp_path: Path) -> None:
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("attribute_ruler")
    kinds = {"DET": ["the", "a"], "VERB": ["sees", "likes"], "NOUN": ["cat", "cow", "dog"], "PUNCT": ["."]}
    for kind, words in kinds.items():
        ruler.add([[{"LOWER": {"IN": words}}]], {"POS": kind})
    nlp.to_disk(tmp_path / "rules")
    text = tmp_path / "raw.txt"
    text.write_text(" ".join(f"The {noun} {verb} a dog ." for noun in ["cat", "cow"] for verb in ["sees", "likes"] * 8))
    outcome = probe("--corpus", text, "--annotate", tmp_path / "rules", "--out", tmp_path / "out")
    assert outcome.status == 0, outcome.err
    assert "silver labels" in outcome.out
    assert {row.annotation for row in read_results(tmp_path / "out").rows} == {"silver"}


def test_dev_held_out_is_said_on_standard_error(probe: Command, tiny_corpus: Path, tmp_path: Path) -> None:
    for split in ("train", "test"):
        name = f"tiny-ud-{split}.conllu"
        (tmp_path / name).write_bytes((tiny_corpus / name).read_bytes())
    outcome = probe("--corpus", tmp_path)
    assert outcome.status == 0
    assert outcome.err.startswith("note: no dev split: every 10th sentence of train is held out")


def test_version(bertology: Command) -> None:
    from importlib.metadata import version

    outcome = bertology("--version")
    assert (outcome.status, outcome.out) == (0, f"bertology {version('bertology')}\n")


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = {"torch", "transformers", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "spacy", "matplotlib", "rich"}
    code = f"import sys, bertology; print(sorted({heavy!r} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["tasks"], ["models"], ["corpora"], ["cache", "list"]]
)
def test_small_commands_import_no_torch(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['bertology', *{arguments!r}]\n"
        "from bertology.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print(sorted({'torch', 'transformers', 'pandas', 'spacy', 'matplotlib'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
