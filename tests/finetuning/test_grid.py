"""Fine-tunings of a file: what a file may hold, its mistakes by line, and the table with paired differences."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bertology import BertologyError, Corpus, FineTunedGrid, finetune_grid
from bertology._settings import to_yaml
from bertology.cli import main
from bertology.finetuning._settings import FineTuneSettings, load_grid, settings_of

TEXT = """\
command: finetune
name: trial
corpus: data/ewt
columns: form,upos
sentences: 40
epochs: 2
tasks:
  - pos
  - {name: ner, corpus: pocket, sentences: 30}
runs:
  - {id: tuned, recipe: mosbach-2021}
  - id: frozen
    layers: none
    lr: 0.01
"""
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> Path:
        path = tmp_path / "trial.yaml"
        path.write_text(text)
        return path

    return to_file


def test_what_is_common_holds_where_nothing_else_is_written(write: Write) -> None:
    grid = load_grid(write(TEXT), changes=["seeds=3", "runs[0].batch_size=8", "model=other"])
    words, entities = grid.tasks
    assert (words.name, words.corpus, words.columns, words.sentences) == ("pos", "data/ewt", "form,upos", 40)
    # The columns are those of the common corpus.
    assert (entities.corpus, entities.columns, entities.sentences) == ("pocket", None, 30)
    given = [run.model_dump(include=set(FineTuneSettings.model_fields), exclude_unset=True) for run in grid.runs]
    tuned, frozen = (settings_of(run.recipe, settings) for run, settings in zip(grid.runs, given, strict=True))
    assert (tuned.epochs, tuned.lr, tuned.bias_correction, tuned.batch_size) == (2, 2e-5, True, 8)
    # What its layers make the default is the recipe frozen, under what the file has.
    assert (frozen.epochs, frozen.lr, frozen.bias_correction, frozen.batch_size) == (2, 0.01, True, 32)
    assert ([run.model for run in grid.runs], grid.seeds) == (["other"] * 2, 3)
    assert load_grid(write(to_yaml(grid.plain()))) == grid


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    lr: 0.01", "    lr: fast", r"14: runs\[1\].lr: .*valid number"),
        ("    lr: 0.01", "    learning: 1", r"14: unknown key 'learning' in runs\[1\]"),
        ("epochs: 2", "epochs: 0", r"6: runs\[0\].epochs: should be at least 1"),
        ("epochs: 2", "epoch: 2", r"6: unknown key 'epoch': did you mean epochs\?"),
        ("recipe: mosbach-2021", "recipe: mosbach", "11: unknown recipe 'mosbach': did you mean mosbach-2021"),
        ("  - pos", "  - poss", r"8: tasks\[0\].name: unknown task 'poss'"),
        ("  - pos", "  - agreement", r"8: tasks\[0\].name: task agreement is none to fine-tune for"),
        ("id: frozen", "id: tuned", r"10: runs: two are called 'tuned': give each an id of its own"),
        ("name: trial", "name: my trial", r"2: name: should be letters, digits"),
        ("command: finetune", "command: run", r"1: this is a file for `bertology run`"),
    ],
)
def test_a_mistake_names_file_and_line(write: Write, old: str, new: str, message: str) -> None:
    path = write(TEXT.replace(old, new, 1))
    with pytest.raises(BertologyError, match=f"^{re.escape(str(path))}:{message}") as raised:
        finetune_grid(path)
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def trained(tiny_bert: Path, subjects: Corpus, tmp_path_factory: pytest.TempPathFactory) -> FineTunedGrid:
    """Three runs of which two have the same settings, one epoch each."""
    settings = {
        "name": "trial",
        "model": tiny_bert,
        "corpus": subjects,
        "tasks": ["sentence_label:number"],
        "runs": [{"id": "tuned"}, {"id": "again"}, {"id": "frozen", "layers": "none", "lr": 0.1, "epochs": 4}],
        "epochs": 1,
        "batch_size": 16,
        "lr": 1e-3,
    }
    return finetune_grid(settings, out=tmp_path_factory.mktemp("grid"), device="cpu", progress=False)


def test_differences_from_the_first_run_are_paired(trained: FineTunedGrid) -> None:
    table = trained.table("test")
    assert table["run"].tolist() == ["tuned", "again", "frozen"] * table["metric"].nunique()
    rows = table[table["metric"] == "accuracy"].set_index("run")
    assert np.isnan(rows.loc["tuned", "difference"])
    assert rows.loc["again", ["difference", "difference_low", "difference_high"]].tolist() == [0, 0, 0]
    frozen = rows.loc["frozen"]
    assert frozen["difference"] == pytest.approx(frozen["value"] - rows.loc["tuned", "value"])
    right = []
    for run in ("frozen", "tuned"):
        predicted = trained.models[run]["sentence_label:number"].predictions().query("split == 'test'")
        right.append((predicted["gold"] == predicted["pred"]).to_numpy(dtype=float))
    difference = right[0] - right[1]
    assert difference.any()
    reach = 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
    interval = [frozen["difference"] - reach, frozen["difference"] + reach]
    assert frozen[["difference_low", "difference_high"]].tolist() == pytest.approx(interval, abs=0.04)


def test_the_folder_has_the_table_and_what_made_it(trained: FineTunedGrid) -> None:
    assert pd.read_parquet(trained.path / "scores.parquet").equals(trained.frame)
    assert len(pd.read_csv(trained.path / "scores.csv")) == len(trained.frame)
    text = (trained.path / "scores.md").read_text(encoding="utf-8")
    assert "difference: from tuned, on the same items" in text
    [line] = [line for line in text.splitlines() if line.startswith("| frozen") and "accuracy" in line]
    value = trained.table("test").query("metric == 'accuracy' and run == 'frozen'")["value"].item()
    assert f"{100 * value:.1f} [" in line
    assert load_grid(trained.path / "experiment.yaml").runs[2].lr == 0.1


def test_the_command(write: Write, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    path = write(f"name: trial\nmodel: {tiny_bert}\ntasks: [pos]\nruns: [id: tuned]\nlr: 1e-3\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["bertology", "finetune", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    monkeypatch.chdir(tmp_path)
    status, printed, _ = run(str(path), "--set", "sentences=20", "--set", "epochs=1", "--device", "cpu")
    assert status == 0
    assert "| tuned | accuracy, % |" in " ".join(printed.split())
    assert "| majority of train | accuracy, % |" in " ".join(printed.split())
    assert "difference" not in printed
    assert (tmp_path / "runs" / "trial" / "tuned" / "pos" / "seed-1" / "finetune.json").is_file()
    assert run(str(path), "--recipe", "frozen")[::2] == (
        2,
        f"bertology: --recipe does not go with {path}: change its settings with --set\n",
    )
    assert run("--task", "pos")[::2] == (2, "bertology: finetune: give --task and --out, or a FILE of fine-tunings\n")
