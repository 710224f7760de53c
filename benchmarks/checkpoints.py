"""The checkpoints of a training in one run, beside a process for each of them.

    python -m benchmarks.checkpoints [--sentences 300] [--checkpoints 8] [--repeats 3]

Checkpoints of the embedded model are made by adding noise to its weights. (t) is ``bertology probe --checkpoints all``
of so many of them on ``pos``, divided by as many processes of ``bertology probe``, one a checkpoint, each on the same
sentences with the same controls and a store of its own that is empty at first. (u) is the peak of memory of the one
process, divided by that of the same with two checkpoints: it should not grow with their number.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from benchmarks._common import Line, seconds, show
from bertology.pocket import model_folder

_CONTROLS = "majority,word_majority,control_task"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--checkpoints", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    show(run(args.sentences, n=args.checkpoints, repeats=args.repeats))


def run(n_sentences: int, *, n: int, repeats: int) -> list[Line]:
    """The lines of the table."""
    with tempfile.TemporaryDirectory() as folder:
        training = write_checkpoints(Path(folder) / "training", n)
        few = write_checkpoints(Path(folder) / "few", 2)
        asked = ["--sentences", str(n_sentences), "--controls", _CONTROLS, "--device", "cpu", "--quiet"]

        def probe(model: Path, *more: str) -> list[str]:
            return [sys.executable, "-m", "bertology", "probe", "--model", str(model), *more, *asked]

        pairs = []
        for _ in range(repeats):
            whole = seconds(partial(_peak, probe(training, "--checkpoints", "all")))
            each = sum(seconds(partial(_peak, probe(path))) for path in sorted((training / "checkpoints").iterdir()))
            pairs.append((whole, each))
        peaks = [_peak(probe(model, "--checkpoints", "all")) for model in (training, few)]
    ratios = [whole / each for whole, each in pairs]
    times = [statistics.median(column) for column in zip(*pairs, strict=True)]
    what = f"(t) {n} checkpoints in one run ÷ {n} processes"
    detail = f"{times[0]:.1f} s ÷ {times[1]:.1f} s"
    memory, of_memory = peaks[0] / peaks[1], f"(u) peak memory, {n} ÷ 2 checkpoints"
    return [
        Line(what, statistics.median(ratios), (min(ratios), max(ratios)), "≤ 0.6", detail),
        Line(of_memory, memory, (memory, memory), "≤ 1.1", f"{peaks[0] / 1e6:.0f} MB ÷ {peaks[1] / 1e6:.0f} MB"),
    ]


def write_checkpoints(training: Path, n: int) -> Path:
    """So many models with the shape and tokenizer of the embedded one, as the checkpoints of a training."""
    weights = load_file(model_folder() / "model.safetensors")
    for number in range(n):
        folder = training / "checkpoints" / f"step-{100 * number}"
        shutil.copytree(model_folder(), folder)
        torch.manual_seed(number)
        noise = {name: 0.02 * torch.randn(values.shape).to(values.dtype) for name, values in weights.items()}
        noisy = {name: values + noise[name] for name, values in weights.items()}
        save_file(noisy, folder / "model.safetensors", metadata={"format": "pt"})
    return training


def _peak(command: list[str]) -> int:
    """Run a command on an empty store; returns the most resident bytes it had."""
    with tempfile.TemporaryDirectory() as cache:
        process = subprocess.Popen(command, env={**os.environ, "BERTOLOGY_CACHE": cache}, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"exit status {process.returncode}: {' '.join(command)}")
    return usage.ru_maxrss * 1024


if __name__ == "__main__":
    main()
