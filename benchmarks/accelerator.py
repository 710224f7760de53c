"""Extraction and linear fits on a CUDA device, beside the device's own rate of matrix products.

    python -m benchmarks.accelerator [--sentences 0] [--dtype bfloat16] [--repeats 3]

The encoder has the shape of BERT-base and random weights. (a) is all layers of the treebank, computed and pooled,
(b) the same held in the memory of the device, and (c) written to the store, each divided by the time that the linear
maps of the blocks take for as many pieces, at the rate that PyTorch's ``@`` reaches on a full batch in the same type.
(d) is ``linear.v1`` on all layers, fitted to
parts of speech in float32, divided by the time of the two products of each evaluation of loss and gradient that it
made, at the rate of ``@`` on the vectors of all words. Where there is no CUDA device, nothing is measured.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np
import torch

from benchmarks._common import CORPUS, MODEL, Line, seconds, show
from benchmarks.extraction import own_cache
from bertology.activations import Entry, Extraction, Recipe, WordVectors, brief_store, extract
from bertology.corpora import Corpus, Sentences, load_corpus
from bertology.encoders import Encoder, load_encoder, resolve_model
from bertology.encoders.batching import pieces_in_batch
from bertology.readouts import LinearReadout, Targets


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=0, help="of the training split; 0 for all")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("no accelerator")
        return
    print(torch.cuda.get_device_name())
    lines = list[Line]()
    for line in run(args.sentences, args.dtype, args.repeats):
        print(f"{line.what}: {line.detail}", flush=True)  # as soon as it is known: time on a device may be short
        lines.append(line)
    show(lines)


def run(n_sentences: int, dtype: str, repeats: int) -> Iterator[Line]:
    """The lines of the table, each as soon as it is measured."""
    corpus = load_corpus(CORPUS if CORPUS.exists() else "pocket")
    train = corpus["train"][: n_sentences or len(corpus["train"])]
    encoder = random_base(dtype)
    for place in ("nowhere", "device", "store"):
        yield extraction(encoder, train, repeats=repeats, place=place)
    with own_cache(), brief_store(in_process=True):
        yield linear_fit(encoder, corpus, train, repeats=repeats)


def random_base(dtype: str) -> Encoder:
    """An encoder of the shape of BERT-base with random weights."""
    from transformers import AutoTokenizer, BertConfig

    with tempfile.TemporaryDirectory() as folder:
        tokenizer = AutoTokenizer.from_pretrained(MODEL if MODEL.exists() else resolve_model("pocket").folder)
        tokenizer.save_pretrained(folder)
        BertConfig(vocab_size=len(tokenizer)).save_pretrained(folder)
        encoder = load_encoder(folder, init="random", dtype=dtype, device="cuda")
        # Computed while the files are there.
        print(f"{encoder!r}, fingerprint {encoder.fingerprint[:8]}")
        return encoder


def recipe_of(encoder: Encoder, text: Sentences) -> Recipe:
    return Recipe(encoder.fingerprint, text.text_fingerprint, compute_dtype=encoder.dtype)


def extraction(encoder: Encoder, text: Sentences, *, repeats: int, place: str) -> Line:
    """All layers, only computed or also held on the device or stored, divided by the matrix products of the blocks."""
    layers = tuple(range(encoder.n_layers + 1))

    def read() -> None:
        Extraction(encoder, text, recipe=recipe_of(encoder, text), layers=layers)

    def compute() -> None:
        job = Extraction(encoder, text, recipe=recipe_of(encoder, text), layers=layers)
        with job.workers:
            for number in range(len(job.pieces)):
                job.read(number)

    def store() -> None:
        extract(lambda: encoder, text, recipe=recipe_of(encoder, text), layers=layers)

    inner: int = encoder.model.body.config.intermediate_size  # type: ignore[union-attr,assignment]
    n_pieces, dim = len(encoder.tokenize(text).ids), encoder.dim
    operations = 2 * encoder.n_layers * n_pieces * (4 * dim * dim + 2 * dim * inner)
    rate = product_rate(pieces_in_batch(encoder.device), dim, inner, dtype=getattr(torch, encoder.dtype))
    times = []
    for _ in range(repeats + 1):  # the first warms up
        with own_cache(), brief_store(in_process=True) if place == "device" else nullcontext():
            times.append(timed(compute if place == "nowhere" else store))
    tokenised = float(np.median([timed(read) for _ in range(repeats)]))
    what = {"nowhere": "(a) extraction of all layers", "device": "(b) … held on it", "store": "(c) … to the store"}[
        place
    ]
    detail = f"{n_pieces:,} pieces, {n_pieces / np.median(times[1:]):,.0f} a second; {tokenised:.2f} s of it tokenised"
    return line(f"{what} ÷ its matrix products", times[1:], operations / rate, detail)


def linear_fit(encoder: Encoder, corpus: Corpus, train: Sentences, *, repeats: int) -> Line:
    """A fit of all layers on the device, divided by the matrix products of its evaluations."""
    layers = range(encoder.n_layers + 1)
    classes = {label: code for code, label in enumerate(corpus["train"].layers["upos"].values)}

    def features(text: Sentences) -> tuple[WordVectors, Targets]:
        entry: Entry = extract(lambda: encoder, text, recipe=recipe_of(encoder, text), layers=layers)
        upos = text.layers["upos"]
        labels = np.array([classes.get(label, -1) for label in upos.values] + [-1])[upos.codes]
        words = np.flatnonzero((labels >= 0) & (entry.place[:, 0] >= 0))
        return WordVectors(entry, words, memory=1 << 40), Targets(labels[None, words], len(classes))

    (vectors, targets), (dev, dev_targets) = features(train), features(corpus["dev"])
    reports = []

    def fit() -> None:
        fitted = LinearReadout().fit(vectors, targets, dev=dev, dev_targets=dev_targets, device="cuda")
        reports.append(fitted.report)

    times = [timed(fit) for _ in range(repeats + 1)][1:]
    n_evaluations = int(reports[-1].iterations.sum())
    n_columns = len(classes) * len(reports[-1].strengths)
    rate = product_rate(vectors.n_items, vectors.dim, n_columns, dtype=torch.float32)
    operations = 2 * 2 * n_evaluations * vectors.n_items * vectors.dim * len(classes)
    detail = f"{vectors.n_items:,} words, {n_evaluations:,} evaluations of a layer and strength"
    return line("(d) linear fit of all layers ÷ its matrix products", times, operations / rate, detail)


def timed(job: Callable[[], object]) -> float:
    """Wall-clock seconds until the device has finished."""

    def whole() -> None:
        job()
        torch.cuda.synchronize()

    torch.cuda.synchronize()
    return seconds(whole)


def product_rate(rows: int, dim: int, columns: int, *, dtype: torch.dtype, calls: int = 50) -> float:
    """Operations a second of ``[rows, dim] @ [dim, columns]`` on the device."""
    left = torch.randn(rows, dim, dtype=dtype, device="cuda")
    right = torch.randn(dim, columns, dtype=dtype, device="cuda")

    def products() -> None:
        for _ in range(calls):
            left @ right

    timed(products)
    return 2 * rows * dim * columns * calls / timed(products)


def line(what: str, times: list[float], limit: float, detail: str) -> Line:
    ratios = sorted(time / limit for time in times)
    share = 100 * limit / float(np.median(times))
    detail = f"{float(np.median(times)):.2f} s ÷ {limit:.2f} s: {share:.1f} % of the card's rate of products; {detail}"
    return Line(what, float(np.median(ratios)), (ratios[0], ratios[-1]), "", detail)


if __name__ == "__main__":
    main()
