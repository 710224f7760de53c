"""What all benchmarks share: where the corpus and the encoder are, runs side by side, and a table of ratios."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from bertology.corpora import Sentences, load_corpus

_SHARED = Path(__file__).resolve().parents[2] / "shared"
MODEL = Path(os.environ.get("BERTOLOGY_REAL_MODEL", _SHARED / "models" / "minilm-mlm"))
CORPUS = Path(os.environ.get("BERTOLOGY_REAL_DATA", _SHARED / "data")) / "ud_english_ewt"


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    what: str
    ratio: float
    spread: tuple[float, float]
    aim: str
    detail: str


def sample(n_sentences: int) -> Sentences:
    """Every k-th training sentence of the corpus, about ``n_sentences`` of them; all of them for 0."""
    train = load_corpus(CORPUS)["train"]
    step = max(1, len(train) // n_sentences) if n_sentences else 1
    return Sentences(train[i] for i in range(0, len(train), step))


def seconds(job: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def side_by_side(what: str, ours: Callable[[], object], peer: Callable[[], object], *, repeats: int, aim: str) -> Line:
    """Run both in turn ``repeats`` times; the ratio is the median of the ratios of neighbours in time."""
    pairs = [(seconds(ours), seconds(peer)) for _ in range(repeats)]
    ratios = [a / b for a, b in pairs]
    a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
    return Line(what, statistics.median(ratios), (min(ratios), max(ratios)), aim, f"{a:.1f} s ÷ {b:.1f} s")


def product_rate(repeats: int = 5) -> float:
    """Float32 matrix products this process reaches now, in GFLOP/s: median of ``repeats`` at the shapes of MiniLM."""
    rows, dim, inner, calls = 2048, 384, 1536, 20
    x, up = torch.randn(rows, dim), torch.randn(dim, inner)

    def products() -> None:
        for _ in range(calls):
            x @ up

    products()
    return calls * 2 * rows * dim * inner / statistics.median(seconds(products) for _ in range(repeats)) / 1e9


def machine() -> str:
    """The processor, threads and rate of matrix products that the ratios below were measured with."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = dict(line.split(":", 1) for line in cpuinfo.read_text().splitlines() if ":" in line)
        named = {key.strip(): value.strip() for key, value in lines.items()}
        family = f"family {named.get('cpu family', '?')} model {named.get('model', '?')}"
        processor = f"{named.get('model name', processor)} ({family}, {torch.backends.cpu.get_cpu_capability()})"
    return (
        f"{processor}, {os.cpu_count()} processors, {torch.get_num_threads()} threads, "
        f"{product_rate():.0f} GFLOP/s in float32 products, torch {torch.__version__}"
    )


def show(lines: Sequence[Line]) -> None:
    """Print the machine and the table."""
    print(f"\n{machine()}")
    width = max(len(line.what) for line in lines)
    print(f"\n{'':<{width}}  ratio   range          aim      median times")
    for line in lines:
        low, high = line.spread
        print(f"{line.what:<{width}}  {line.ratio:5.2f}   {low:5.2f}–{high:<5.2f}    {line.aim:<7}  {line.detail}")
