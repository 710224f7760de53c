"""``bertology finetune`` and ``compress``: the commands, a folder probed, and mistakes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "moods.tsv"
    rows = [
        (f"the {who} {how}", how) for who in ("boy", "girl", "king", "queen", "dog") * 4 for how in ("sees", "hears")
    ]
    path.write_text("text\tmood\n" + "".join(f"{text}\t{mood}\n" for text, mood in rows), encoding="utf-8")
    return path


def test_a_model_for_each_seed_which_can_be_probed(
    bertology: Command, tiny_bert: Path, table: Path, tmp_path: Path
) -> None:
    columns = ("--columns", "text=text,label=mood")
    out = tmp_path / "tuned"
    done = bertology(
        *("finetune", "--model", tiny_bert, "--corpus", table, *columns, "--task", "sentence-label:mood", "--out", out),
        *("--seeds", "2", "--set", "lr=1e-3", "--set", "epochs=1", "--layers", "frozen:1", "--device", "cpu"),
    )
    assert done.status == 0, done.err
    assert done.out.startswith("**sentence_label:mood · ")
    assert "| majority of train | accuracy, % |" in " ".join(done.out.split())
    assert f"models in {out}" in done.err
    assert sorted(path.name for path in out.iterdir()) == ["scores.parquet", "seed-1", "seed-2"]
    task = ("--task", "sentence-label:mood", "--layers", "3", "--controls", "random")
    probed = bertology("probe", "--model", out / "seed-2", "--corpus", table, *columns, *task)
    assert probed.status == 0, probed.err


def test_a_mistake_is_one_line(bertology: Command, tiny_bert: Path, table: Path, tmp_path: Path) -> None:
    given = ("--model", tiny_bert, "--corpus", table, "--task", "sentence_label:mood", "--out", tmp_path / "tuned")
    for change, message in (("lr=fast", "lr: should be a valid number"), ("rl=1", "unknown key 'rl'")):
        assert f"--set {change}: {message}" in bertology("finetune", *given, "--set", change).one_line()
    assert not (tmp_path / "tuned").exists()


def test_several_methods_and_speed(bertology: Command, tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    options = ["--method", "magnitude,quantise", "--set", "magnitude.share=0.5", "--set", "quantise.bits=4"]
    done = bertology("compress", tiny_bert, *options, "--out", out, "--speed", tiny_corpus)
    assert done.status == 0, done.err
    assert "| share 0.5, scope global" in done.out
    assert done.out.count("pieces/s") == 3
    assert (out / "model.safetensors").is_file()


def test_a_mistake_of_compressing_is_one_line(bertology: Command, tiny_bert: Path, tmp_path: Path) -> None:
    options = ("--method", "magnitude", "--set", "share", "--out", tmp_path / "small")
    assert "write key=value" in bertology("compress", tiny_bert, *options).one_line()
