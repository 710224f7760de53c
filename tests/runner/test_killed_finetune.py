"""Fine-tuning that is killed and started again ends with the same weights, scores and records."""

import signal
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

from bertology import finetune
from bertology._training import last_checkpoint
from tests.commands import Commands


def test_killed_in_the_second_epoch(forked: Commands, tiny_bert: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    """Five steps an epoch and a checkpoint every four: killed after the second."""
    arguments = ("--model", tiny_bert, "--corpus", tiny_corpus, "--task", "pos", "--device", "cpu", "--threads", 1)
    settings = {"lr": 1e-3, "epochs": 12, "batch_size": 16, "checkpoint_every": 4, "keep_checkpoints": "none"}
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    out = tmp_path / "killed"
    checkpoints = out / "seed-1" / "checkpoints"
    run = forked.start(tmp_path, "finetune", *arguments, *given, "--out", out)
    while not (checkpoints / "checkpoint-8" / "trainer_state.json").exists():
        time.sleep(0.01)
    assert run.wait(die_after=0) == -signal.SIGKILL, run.errors
    assert last_checkpoint(checkpoints) is not None
    assert not (out / "seed-1" / "finetune.json").exists()
    (checkpoints / "checkpoint-1000").mkdir()  # as of a process that was killed while it wrote
    resumed, whole = (
        finetune(tiny_bert, tiny_corpus, task="pos", out=folder, device="cpu", threads=1, progress=False, **settings)
        for folder in (out, tmp_path / "whole")
    )
    assert not checkpoints.exists()
    one, other = (load_file(tuned.folder() / "model.safetensors") for tuned in (resumed, whole))
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert resumed.records[1].history == whole.records[1].history
    assert len(resumed.records[1].history) == 12
    assert resumed.predictions().equals(whole.predictions())
