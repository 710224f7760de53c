"""All benchmarks, one after another: ``python -m benchmarks [--quick]``."""

from __future__ import annotations

import argparse

from benchmarks import (
    attention,
    causal,
    checkpoints,
    cloze,
    coverage,
    edge,
    extraction,
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small samples: minutes instead of half an hour")
    quick = parser.parse_args().quick
    lines = start_up.run(repeats=3 if quick else 5)
    lines += extraction.run(1000 if quick else 4000, repeats=3, dtype="float32")
    lines += fit.run(quick=quick)
    lines += edge.run(quick=quick)
    lines += structural.run(quick=quick)
    lines += cloze.run(200 if quick else 600, n_pairs=46 if quick else 230, times=10, repeats=3)
    lines += attention.run(200 if quick else 600, times=10, repeats=3)
    lines += causal.run(pairs=20 if quick else 100, repeats=1 if quick else 3)
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
