"""Compare what this tree computes with what another commit computes: cells, scores, predictions and rendered tables.

    python -m tests.same                            # everything, against the commit where this branch left main
    python -m tests.same --only trees,commands      # some parts, by their names in same.yaml
    python -m tests.same --base 7613b9a

Each part is an experiment on the embedded model and a few sentences of the embedded corpus, run through the command
line; some tasks of it are then run through ``bertology.probe``, too. The part ``engines`` runs one experiment in one
process, in two processes, and in two shards that are merged. The part ``commands`` runs single commands (patching,
attribution, fine-tuning, compression, comparison of models …) and compares what they print and write. The file
``same.yaml`` lists them. Of each run these must agree: the names of cells and what was computed of them; all columns
of ``results.parquet`` and ``comparisons.parquet`` but versions and times; predictions and fitted probes byte for byte;
tables, plots and the report as they are rendered. The exit status is 1 where something differs, and the first
differences are printed.

``same-names.yaml`` maps names and wordings of the other commit to those of this tree; they are replaced in the texts
of the other commit before both are compared. It also lists differences that are fixes, each with its reason.

The other commit is checked out into a temporary worktree and recorded once: what it computed is kept, by commit and
part, in the folder that ``--kept`` or ``BERTOLOGY_SAME`` names. Recording uses only the command line, experiment
files and what ``bertology`` itself exports, so that commits before and after modules moved can be compared.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
PARTS: dict[str, dict[str, Any]] = SETTINGS["parts"]
PROBES: dict[str, list[str]] = SETTINGS["probe"]
NAMES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "same-names.yaml").read_text(encoding="utf-8"))

PROBE = """
import dataclasses, json, sys
import bertology
settings = json.loads(sys.argv[1])
if "sentences" in settings:
    most, pocket = settings.pop("sentences"), bertology.load_corpus("pocket")
    settings["corpus"] = dataclasses.replace(pocket, splits={name: pocket[name][:most] for name in pocket.splits})
bertology.probe(**settings, progress=False)
"""
RENDER = """
import sys
from pathlib import Path
import bertology
for folder in map(Path, sys.argv[1:]):
    results, out = bertology.read_results(folder), folder.with_name(folder.name + "-rendered")
    out.mkdir()
    for kind in ("markdown", "latex", "html", "csv", "json"):
        (out / f"table.{kind}").write_text(getattr(results, f"to_{kind}")(), encoding="utf-8", newline="")
    (out / "terminal.txt").write_text(str(results), encoding="utf-8", newline="")
"""

PREPARE = {
    "second": """
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer
from bertology.pocket import model_folder
torch.manual_seed(1)
model = AutoModelForMaskedLM.from_pretrained(model_folder())
for parameter in model.parameters():
    parameter.data += 0.02 * torch.randn_like(parameter)
model.save_pretrained("second")
AutoTokenizer.from_pretrained(model_folder()).save_pretrained("second")
""",
    "checkpoints": """
import subprocess, sys
for seed in (0, 1):
    settings = {"seed": seed, "steps": 4, "documents": 60, "held_out_documents": 5, "keep_checkpoints": "[0,4]"}
    options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    recipe = next(path for path in map(__import__("pathlib").Path, sys.path) if (path / "experiments").is_dir())
    command = [sys.executable, "-m", "bertology", "pretrain", recipe / "experiments/pretrain-over-time.yaml"]
    subprocess.run([*map(str, command), "--out", f"steps-{seed}", *options], check=True)
""",
}
"""Programs that make the models of some parts, in the folder where their commands run."""

IGNORED = {"run.json", "checksums.json", "experiment.yaml", "locks", "sizes.csv"}
"""Files and folders about how and when a run was made, and how fast a model is."""
NOT_SCORES = {"versions", "wall_s", "started_utc"}
_TIME = r"\d{4}-\d\d-\d\dT[\d:]+\+00:00"
_TIMES = re.compile(
    rf"{_TIME}( to {_TIME})?|[\d,]+\.\d+ s in [\d,]+ fits?|\"wall_s\": [\d.]+|[\d.]+ \[[\d., ]+\] times as fast"
    r"|'sha256-[\w+/=]+'|(?<=\")/[^\"]*/(?=(?:second|steps-\d)[/\"])|<dd>\d{4}-\d\d-\d\d</dd>"
)
"""Times, dates and speeds; hashes of a page's scripts; temporary folders of models that were made for a part."""


def experiment_of(part: str) -> dict[str, Any]:
    """The experiment of a part, as its file has it."""
    settings = {"name": part, **SETTINGS["common"], **PARTS[part]}
    settings.pop("prepare", None)
    return settings


def record(part: str, tree: Path, out: Path) -> None:
    """Run a part in the code of ``tree``, and render what comes of it; ``out`` is made."""
    with tempfile.TemporaryDirectory() as temporary:
        # Commands are given in this folder, and all their paths start there: they may be shown.
        scratch = Path(temporary)
        environment = _environment(tree, scratch / "metadata")

        def python(*arguments: object, cache: str = "cache") -> None:
            command = [sys.executable, *map(str, arguments)]
            variables = {**environment, "BERTOLOGY_CACHE": str(scratch / cache)}
            done = subprocess.run(command, cwd=scratch, env=variables, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{part} in {tree}: failed: {command}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")

        def written(*arguments: object) -> str:
            command = [sys.executable, "-m", "bertology", *map(str, arguments)]
            variables = {**environment, "BERTOLOGY_CACHE": str(scratch / "cache"), "COLUMNS": "100"}
            done = subprocess.run(command, cwd=scratch, env=variables, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{part} in {tree}: failed: {command}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
            return done.stdout

        if prepare := PARTS[part].get("prepare"):
            python("-c", PREPARE[prepare])
        if commands := PARTS[part].get("commands"):
            scratch.joinpath("out").mkdir()
            for number, command in enumerate(commands):
                text = f"bertology {command}\n{written(*shlex.split(command))}"
                scratch.joinpath("out", f"command-{number:02d}.txt").write_text(text, encoding="utf-8", newline="")
            shutil.copytree(scratch / "out", out)
            return
        scratch.joinpath("part.yaml").write_text(yaml.safe_dump(experiment_of(part), sort_keys=False), encoding="utf-8")
        scratch.joinpath("out").mkdir()
        run = ("-m", "bertology", "run", "part.yaml", "--quiet", "--yes", "--out")
        python(*run, "out/serial", "--engine", "serial", cache="serial")
        if part == "engines":
            python(*run, "out/joblib", "--engine", "joblib", "--jobs", 2, cache="joblib")
            for number in (1, 2):
                shard = ("--shard", f"{number}/2", "--engine", "serial")
                python(*run, f"shard-{number}", *shard, cache=f"shard-{number}-cache")
            python("-m", "bertology", "merge", "shard-1", "shard-2", "--out", "out/merged")
        elif part in PROBES:
            settings = {"task": PROBES[part], "layers": "0,2", "random_draws": 1, "device": "cpu", "out": "out/probe"}
            settings |= {"max_items": 4} if part == "cloze" else {"sentences": 48}
            python("-c", PROBE, json.dumps(settings))
        python("-c", RENDER, *sorted(scratch.glob("out/*")))
        python("-m", "bertology", "report", "out/serial", "--out", "out/report.html")
        shutil.copytree(scratch / "out", out)


def _environment(tree: Path, metadata: Path) -> dict[str, str]:
    """Variables with which Python imports the code of ``tree`` and sees its entry points, on one thread a process."""
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    about = metadata / f"bertology-{project['project']['version']}.dist-info"
    about.mkdir(parents=True)
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: bertology\nVersion: {project['project']['version']}\n", encoding="utf-8"
    )
    groups = project["project"]["entry-points"]
    lines = [line for group, names in groups.items() for line in (f"[{group}]", *map(" = ".join, names.items()))]
    about.joinpath("entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    for package, folder in project["tool"]["setuptools"].get("package-dir", {}).items():
        # Installed under another name than its folder has.
        if package and not (tree / package).exists():
            metadata.joinpath(package).symlink_to(tree / folder, target_is_directory=True)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    path = os.pathsep.join([str(metadata), str(tree)])
    return {**os.environ, **threads, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}


@contextlib.contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """A checkout of a commit, while in the ``with`` block."""
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / commit[:12]
        _git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def recorded(part: str, commit: str, kept: Path) -> Path:
    """What a commit computed of a part: recorded when first asked for."""
    settings = json.dumps([PARTS[part], experiment_of(part), PROBES.get(part), PROBE, RENDER, PREPARE])
    folder = kept / f"{commit[:12]}-{part}-{hashlib.sha256(settings.encode()).hexdigest()[:8]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            with worktree(commit) as tree:
                record(part, tree, unfinished)
            unfinished.rename(folder)
    return folder


def differences(base: Path, other: Path, *, ignored: str | None = None) -> tuple[list[str], dict[str, int]]:
    """What differs between two recordings, a line each, and how many files, rows and cells were compared.

    Files whose names hold ``ignored``, a regular expression, are left out.
    """
    counts = {"files": 0, "rows": 0, "cells": 0}
    lines = []
    here, there = (
        {name for name in _files(folder) if not (ignored and re.search(ignored, name))} for folder in (base, other)
    )
    for name in sorted(here | there):
        if name not in here or name not in there:
            lines.append(f"{name}: only in {base if name in here else other}")
            continue
        counts["files"] += 1
        first, second = base / name, other / name
        if Path(name).name in ("results.parquet", "comparisons.parquet"):
            counts["rows"] += pq.ParquetFile(first).metadata.num_rows
            lines += [f"{name}: {line}" for line in _differing_rows(first, second)]
        elif Path(name).parent.name == "cells":
            every = [
                {one["cell_id"]: one for one in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
                for path in (first, second)
            ]
            counts["cells"] += len(every[0])
            for cell in sorted(every[0] | every[1]):
                one, two = (of.get(cell, {}) for of in every)
                keys = (key for key in sorted(one | two) if key != "provenance" and one.get(key) != two.get(key))
                lines += [f"{name}: {cell}: {key}" for key in keys]
        elif first.read_bytes() != second.read_bytes():
            lines += _differing_text(name, first, second)
    return lines, counts


def _files(folder: Path) -> set[str]:
    names = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {name.as_posix() for name in names if not IGNORED & set(name.parts)}


def _differing_rows(first: Path, second: Path) -> list[str]:
    """Columns whose values differ, with the first row in which each does."""
    one, two = (pq.ParquetFile(path).read() for path in (first, second))
    if one.schema != two.schema:
        return [f"columns {one.column_names} → {two.column_names}"]
    if one.num_rows != two.num_rows:
        return [f"{one.num_rows} → {two.num_rows} rows"]
    lines = []
    keys = [
        name for name in ("task", "control", "layer", "head", "metric", "cell_id", "cell_a") if name in one.column_names
    ]
    for name in sorted(set(one.column_names) - NOT_SCORES):
        pairs = zip(one[name].to_pylist(), two[name].to_pylist(), strict=True)
        moved = [(row, old, new) for row, (old, new) in enumerate(pairs) if _reworded(repr(old)) != repr(new)]
        if moved:
            row, old, new = moved[0]
            where = ", ".join(str(one[key][row].as_py()) for key in keys)
            lines.append(f"{name} differs in {len(moved)} rows, first {where}: {old!r} → {new!r}")
    return lines


def _differing_text(name: str, first: Path, second: Path) -> list[str]:
    """The first line that differs, times apart; of what is no text, that it does."""
    if first.suffix in (".parquet", ".safetensors"):
        return [f"{name}: other bytes"]
    before, after = (_TIMES.sub("", path.read_text(encoding="utf-8", errors="replace")) for path in (first, second))
    reworded = _reworded(before)
    if reworded == before:
        one, two = before.splitlines(), after.splitlines()
    else:
        one, two = (_content(text, first.suffix) for text in (reworded, after))
    for number, (old, new) in enumerate(zip(one, two, strict=False), 1):
        if old != new:
            alike = next((at for at, pair in enumerate(zip(old, new, strict=False)) if len({*pair}) > 1), 0)
            start = max(alike - 40, 0)
            return [f"{name}: line {number}: {old[start : start + 120]!r} → {new[start : start + 120]!r}"]
    return [f"{name}: {len(one)} → {len(two)} lines"] if len(one) != len(two) else []


def _content(text: str, suffix: str) -> list[str]:
    """What a text holds but for its layout, since another wording may take more room: of a figure its texts."""
    if suffix == ".svg":
        return re.findall(r">([^<>]+)</text>", text)
    return re.sub(r"[─:-]{2,}", " ", text).split()


def _reworded(text: str) -> str:
    """A text of the other commit in the wordings of this tree."""
    for old, new in NAMES["wordings"].items():
        text = text.replace(old, new)
    return text


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the parts that are asked for; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="commit to compare with; where this branch left main, on main the one before")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas; all when left out")
    kept = os.environ.get("BERTOLOGY_SAME", Path(tempfile.gettempdir()) / "same")
    parser.add_argument("--kept", type=Path, default=Path(kept), help=f"folder of recordings of commits; now {kept}")
    parser.add_argument("--ignore", metavar="REGEX", help=r"files to leave out, such as 'fits/|report|\.(png|svg)$'")
    options = parser.parse_args(arguments)
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    if options.base is None:
        left = _git("merge-base", "main", "HEAD")
        options.base = left if left != _git("rev-parse", "HEAD") else "HEAD~1"
    commit = _git("rev-parse", f"{options.base}^{{commit}}")
    moved = False
    for part in parts:
        base = recorded(part, commit, options.kept)
        with tempfile.TemporaryDirectory() as temporary:
            began, now = time.monotonic(), Path(temporary) / "now"
            record(part, ROOT, now)
            lines, counts = differences(base, now, ignored=options.ignore)
        lines = [line for line in lines if not any(re.search(fix, f"{part}/{line}") for fix in NAMES["fixes"])]
        took = ", ".join(f"{number:,} {what}" for what, number in counts.items())
        print(f"{part}: {'differs' if lines else 'same'} ({took}; {time.monotonic() - began:.0f} s)", flush=True)
        for line in lines[:20]:
            print(f"  {line}")
        if len(lines) > 20:
            print(f"  … and {len(lines) - 20} more")
        moved |= bool(lines)
    print(f"{'differs from' if moved else 'same as'} {commit[:12]}")
    return int(moved)


if __name__ == "__main__":
    sys.exit(main())
