"""Statistics of all heads beside the bare forward pass that gives their maps, and their peak memory.

    python -m benchmarks.attention [--sentences 300] [--times 10] [--repeats 3]

(l) is all of ``head_statistics`` but loading: tokenising, the pass with every statistic and the distances between
heads, and intervals. The peer runs the same windows in the same batches, as many at once, with
``output_attentions=True``, and throws the maps away; its tensors are made beforehand. (m) adds the norms of transformed
values. (n) is the pass alone, without the bootstrap. Memory is that of a process of its own that reads so many
sentences, and the same ones so many times over.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks._common import MODEL, Line, sample, show, side_by_side
from benchmarks.memory import peak, write_corpus
from bertology._machine import Workers
from bertology.attention import head_statistics, stream_maps
from bertology.attention.maps import MapText
from bertology.attention.measured import Divergences, Masses, Offsets, Sharpness
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder

_READ = """
import sys
from bertology.attention import head_statistics
table = head_statistics(sys.argv[2], sys.argv[1], split="train", device="cpu")
print(table.read.n_words)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    show(run(args.sentences, times=args.times, repeats=args.repeats))


def run(n_sentences: int, *, times: int, repeats: int) -> list[Line]:
    """The lines of the table."""
    encoder = load_encoder(str(MODEL), device="cpu", attention="eager")
    text = sample(n_sentences)
    peer = bare(encoder, text)
    head_statistics(encoder, text[:20])
    peer()
    jobs: list[tuple[str, Callable[[], object], str]] = [
        ("(l) all of head_statistics", lambda: head_statistics(encoder, text), "≤ 1.5"),
        ("(m) … with norms", lambda: head_statistics(encoder, text, norms=True), ""),
        ("(n) the pass alone", lambda: stream_maps(encoder, text, [Masses, Sharpness, Offsets, Divergences]), ""),
    ]
    lines = [
        side_by_side(f"{what} ÷ bare forward pass", ours, peer, repeats=repeats, aim=aim) for what, ours, aim in jobs
    ]
    return [*lines, memory(text, times)]


def bare(encoder: Encoder, text: Sentences) -> Callable[[], object]:
    """Forward passes that give all maps, a batch a core, and do nothing with them."""
    read = MapText(encoder, text, level="word", on_long="window")
    inputs = [read.inputs(batch) for batch in read.batches()]

    def job() -> None:
        workers = Workers(torch.device(encoder.device))
        bodies: list[Any] = [encoder.model.body, *(encoder.twin().model.body for _ in range(workers.n - 1))]

        def run_some(number: int) -> None:
            with torch.inference_mode():
                for each in inputs[number :: workers.n]:
                    found = bodies[number](each.ids, each.mask, output_attentions=True, return_dict=True)
                    if len(found.attentions) != encoder.n_layers:
                        raise RuntimeError("the model gave no maps")

        with workers:
            workers.map(run_some, workers.n)

    return job


def memory(text: Sentences, times: int) -> Line:
    """Peak memory of the statistics of a text, and of one so many times as long."""
    with tempfile.TemporaryDirectory() as folder:
        places = {n: write_corpus(Path(folder) / str(n), text, text[:20], n) for n in (1, times)}
        small, large = (peak(_READ, place, Path(folder) / f"c{n}")[0] for n, place in places.items())
    ratio = large / small
    detail = f"{large / 1e6:.0f} MB ÷ {small / 1e6:.0f} MB"
    return Line(f"(o) peak memory of head_statistics, {times}× corpus ÷ corpus", ratio, (ratio, ratio), "≤ 1.2", detail)


if __name__ == "__main__":
    main()
