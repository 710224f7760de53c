"""Benchmarks: ``python -m benchmarks`` lists them, ``python -m benchmarks NAME …`` runs one, ``… all [--quick]`` most.

Each is also a module of its own, ``python -m benchmarks.NAME --help``.
"""

from __future__ import annotations

import argparse
import ast
import runpy
import sys
from pathlib import Path


def main() -> None:
    """List the benchmarks, or run what is named."""
    found = known()
    parser = argparse.ArgumentParser(usage="python -m benchmarks [NAME | all] …", add_help=False)
    parser.add_argument("name", nargs="?", choices=[*found, "all"])
    name, rest = parser.parse_known_args(sys.argv[1:2])[0].name, sys.argv[2:]
    if name is None:
        width = max(map(len, found))
        print("\n".join(f"{one:{width}}  {about}" for one, about in found.items()))
        print(f"{'all':{width}}  those that need no accelerator, one after another; --quick takes small samples")
    elif name == "all":
        parser = argparse.ArgumentParser("python -m benchmarks all")
        parser.add_argument("--quick", action="store_true", help="small samples: minutes instead of half an hour")
        run_all(quick=parser.parse_args(rest).quick)
    else:
        sys.argv = [f"benchmarks.{name}", *rest]
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)


def known() -> dict[str, str]:
    """What there is by name, with the first line about each."""
    files = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("_"))
    about = {path.stem: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in files}
    return {name: text.splitlines()[0] for name, text in about.items() if text}


def run_all(*, quick: bool) -> None:
    """One table of all that need no accelerator, and no other package than those of the tests."""
    from benchmarks import (
        attention,
        causal,
        checkpoints,
        cloze,
        coverage,
        edge,
        explain,
        extraction,
        finetuning,
        fit,
        geometry,
        memory,
        neighbours,
        overhead,
        start_up,
        structural,
        viewer,
    )
    from benchmarks._common import show

    lines = start_up.run(repeats=3 if quick else 5)
    lines += extraction.run(1000 if quick else 4000, repeats=3, dtype="float32")
    lines += fit.run(quick=quick)
    lines += edge.run(quick=quick)
    lines += structural.run(quick=quick)
    lines += cloze.run(200 if quick else 600, n_pairs=46 if quick else 230, times=10, repeats=3)
    lines += attention.run(200 if quick else 600, times=10, repeats=3)
    lines += causal.run(pairs=20 if quick else 100, repeats=1 if quick else 3)
    lines += explain.run(texts=10 if quick else 100, pairs=20 if quick else 40, repeats=1 if quick else 3)
    lines += finetuning.run(items=64 if quick else 640, repeats=1 if quick else 3)
    lines += geometry.run(words=5000 if quick else 50_000, repeats=3)
    lines += neighbours.run(words=200_000 if quick else 1_000_000, points=50_000, repeats=1 if quick else 3)
    lines += viewer.run(pieces=512, repeats=1 if quick else 3)
    lines += memory.run(600 if quick else 0, times=10, job="extract")
    lines += overhead.run(400 if quick else 1000, repeats=3, engine="joblib")
    lines += checkpoints.run(300, n=3 if quick else 8, repeats=1 if quick else 3)
    lines += coverage.run(times=100 if quick else 1000)
    show(lines)


if __name__ == "__main__":
    main()
