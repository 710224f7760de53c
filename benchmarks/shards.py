"""A corpus in shards of a given size: peak memory of each process beyond its imports, processor and wall time.

    python -m benchmarks.shards [--megabytes 300] [--engine serial] [--workers 2] [--limit 400]

Training sentences of the corpus are repeated, in another order in each shard, up to so many megabytes of CoNLL-U; a
one-layer encoder with random weights reads them. The manifest, and the task ``pos`` with its control task and
baselines, are made by processes that end at once where they hold more than ``--limit`` megabytes beyond what they
hold when everything is imported.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._common import MODEL, Line, sample, show
from bertology._machine import MEMORY_VARIABLE
from bertology.corpora import write_conllu
from bertology.results import read_results

_SENTENCES = 4000  # of a shard
_FEW_KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "8"}
"""Products of every new shape add a kernel to a cache of oneDNN, which else grows to 1,024 of them, some 100 MB."""

_LIMITED = """
import atexit, json, os, sys, threading, time
import matplotlib.pyplot, pandas, scipy.stats, pyarrow.parquet, sklearn.linear_model, torch, transformers
from transformers import BertModel, BertForMaskedLM, BertTokenizerFast
import bertology.corpora, bertology.activations._extract, bertology.families.labels, bertology.results._results
import bertology.encoders.loading, bertology.readouts.linear, bertology.runner, bertology.runner.estimate, bertology.cli
if sys.argv[3] == "worker":
    import distributed, bertology.runner._dask
torch.ones(64, 64) @ torch.ones(64, 64)

def held(name):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(name + ":"))

before, started = held("VmRSS"), time.process_time()
limit = int(sys.argv[2]) * 1_000_000

def watch():
    while held("VmRSS") - before <= limit:
        time.sleep(0.02)
    print(f"{sys.argv[3]} holds more than {sys.argv[2]} MB beyond its imports", file=sys.stderr, flush=True)
    os._exit(1)

threading.Thread(target=watch, daemon=True).start()

@atexit.register
def report():
    peak = held("VmHWM") - before
    with open(f"{sys.argv[1]}/{sys.argv[3]}-{os.getpid()}.json", "w") as file:
        json.dump({"peak": peak, "imports": before, "cpu": time.process_time() - started}, file)
"""
_RUNS = {
    "manifest": "bertology.corpora.make_shards(sys.argv[4])",
    "run": """
from pathlib import Path
from bertology.runner import RunOptions, run_experiment
from bertology.runner.experiment import load_experiment
from bertology.runner.engines import ClusterChoice
file, out, engine, *scheduler = sys.argv[4:]
options = RunOptions(engine=engine, jobs=1, cluster=ClusterChoice(*scheduler), echo=print)
failures = run_experiment(load_experiment(Path(file)), Path(out), options=options).failures
sys.exit("\\n".join(failures) or 0)
""",
    "worker": "from distributed.cli.dask_worker import main\n"
    "main(['--no-nanny', '--nthreads', '1', '--memory-limit', '0', '--no-dashboard', '--death-timeout', '60', "
    "'--scheduler-file', sys.argv[4], '--local-directory', sys.argv[1]])",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--engine", choices=["serial", "dask"], default="serial")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=400, help="megabytes of a process beyond its imports")
    args = parser.parse_args()
    show(run(args.megabytes, args.engine, args.workers, args.limit))


def run(megabytes: int, engine: str = "serial", n_workers: int = 2, limit: int = 400) -> list[Line]:
    """The lines of the table: a line for each process."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_shards(root / "corpus", megabytes)
        write_encoder(root / "model")
        reports, walls = root / "reports", dict[str, float]()
        reports.mkdir()
        started = time.perf_counter()
        finished(start(root, limit, "manifest", str(root / "corpus")))
        walls["manifest"] = time.perf_counter() - started
        experiment = root / "experiment.yaml"
        asked: dict[str, Any] = {"name": "shards", "tasks": ["pos"], "outputs": {"tables": [], "plots": []}}
        asked |= {"models": [str(root / "model")], "corpora": [str(root / "corpus")]}
        asked["controls"] = ["majority", "word_majority", "control_task"]
        experiment.write_text(json.dumps(asked))
        command = [str(experiment), str(root / "out"), engine]
        workers = list[subprocess.Popen[bytes]]()
        if engine == "dask":
            file = root / "scheduler.json"
            scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--scheduler-file", str(file)]
            workers.append(subprocess.Popen([*scheduler, "--no-dashboard", "--port", "0", "--host", "127.0.0.1"]))
            while not file.exists():
                time.sleep(0.1)
            workers += [start(root, limit, "worker", str(file)) for _ in range(n_workers)]
            command.append(str(file))
        started = time.perf_counter()
        try:
            finished(start(root, limit, "run", *command))
        finally:
            walls["run"] = walls["worker"] = time.perf_counter() - started
            for process in reversed(workers):
                process.terminate()
                process.wait()
        print(read_results(root / "out").view())
        lines = list[Line]()
        for path in sorted(reports.glob("*.json")):
            found, name = json.loads(path.read_text()), path.name.partition("-")[0]
            share = found["peak"] / (limit * 1e6)
            detail = f"{found['peak'] / 1e6:.0f} MB beyond {found['imports'] / 1e6:.0f} MB of imports; "
            detail += f"{found['cpu']:.0f} s of processor, {walls[name]:.0f} s"
            lines.append(Line(f"{name} ({engine}), peak ÷ {limit} MB", share, (share, share), "≤ 1", detail))
        return lines


def write_shards(folder: Path, megabytes: int) -> None:
    """Shards of sentences that differ in their order, and dev and test of a few hundred."""
    folder.mkdir()
    text = sample(0)
    held_out, train = text[: len(text) // 20], text[len(text) // 20 :]
    write_conllu(folder / "dev.conllu", (held_out[n] for n in range(0, len(held_out), 2)))
    write_conllu(folder / "test.conllu", (held_out[n] for n in range(1, len(held_out), 2)))
    size = number = 0
    while size < megabytes * 1_000_000:
        file = folder / f"train-{number:05d}.conllu"
        write_conllu(file, (train[(number * 997 + place) % len(train)] for place in range(_SENTENCES)))
        size, number = size + file.stat().st_size, number + 1


def write_encoder(folder: Path) -> None:
    """A one-layer encoder of width 64 with the vocabulary of the encoder of the other benchmarks."""
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    shape = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 128}
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def start(root: Path, limit: int, name: str, *args: str) -> subprocess.Popen[bytes]:
    """A process that is limited as soon as it has imported everything."""
    environment = {**os.environ, "BERTOLOGY_CACHE": str(root / "cache"), MEMORY_VARIABLE: "256MB", **_FEW_KERNELS}
    command = [sys.executable, "-c", _LIMITED + _RUNS[name], str(root / "reports"), str(limit), name, *args]
    return subprocess.Popen(command, env=environment)


def finished(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process, which has to end well."""
    if process.wait():
        raise RuntimeError(f"the process ended with status {process.returncode}")


if __name__ == "__main__":
    main()
