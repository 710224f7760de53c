"""All layers of an edge task fitted together, beside one after another by the same code.

    python -m benchmarks.edge [--sentences 600] [--epochs 3] [--repeats 3] [--batch-items 64] [--memory-sentences 400]

(g) is ``edge`` on the dependencies of the treebank (which relation joins a word to its head), fitted to all layers
at once, divided by the same fit to each layer in turn: the same batch size, the same number of epochs, the vectors read
from the store each time, the choice on dev included. The same in processor time, summed over cores, is told beside it:
it does not profit from layers being shared out among cores, nor suffer from what else runs on them. So is how much
faster all threads multiply matrices than one does: what layers can gain from being shared out. Where two processors are
two threads of one core, that is nothing. (h) is the peak memory of the fit on ten times the text divided by that on the
text, nothing of the vectors kept between passes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._common import MODEL, Line, sample, seconds, show, side_by_side
from benchmarks.extraction import own_cache
from benchmarks.memory import fit_peaks
from bertology.activations import Entry, Recipe, SpanVectors, extract
from bertology.corpora import Sentences
from bertology.encoders import load_encoder
from bertology.readouts import EdgeReadout, FittedReadout, Targets

_FIT = """
import sys
from benchmarks.edge import Data
from bertology.corpora import load_corpus
from bertology.readouts import EdgeReadout
corpus = load_corpus(sys.argv[1])
data = Data.of(corpus["train"], corpus["dev"])
if sys.argv[3] == "fit":
    data.fit(EdgeReadout(max_epochs=2), range(7), memory=0)
print(0)
"""


@dataclass(frozen=True)
class Arcs:
    """Words with their heads, and the relations that join them."""

    entry: Entry
    spans: NDArray[np.int64]
    """``[arc, 2, 2]``"""
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Data:
    """What is fitted on and what is chosen by."""

    train: Arcs
    dev: Arcs
    n_classes: int

    @classmethod
    def of(cls, train: Sentences, dev: Sentences) -> Data:
        """Extract the vectors of two texts and list their arcs."""
        classes = {label: code for code, label in enumerate(train.layers["deprel"].values)}
        return cls(_arcs(train, classes), _arcs(dev, classes), len(classes))

    def fit(self, readout: EdgeReadout, layers: Sequence[int], *, memory: int = 2 << 30) -> FittedReadout:
        """Fit some layers side by side."""
        train, dev = (
            SpanVectors(arcs.entry, arcs.spans, layers=layers, memory=memory) for arcs in (self.train, self.dev)
        )
        targets, dev_targets = (Targets(arcs.labels[None], self.n_classes) for arcs in (self.train, self.dev))
        return readout.fit(train, targets, dev=dev, dev_targets=dev_targets)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch-items", type=int, default=EdgeReadout().batch_items)
    parser.add_argument("--memory-sentences", type=int, default=400, help="0 to leave memory out")
    args = parser.parse_args()
    # memory first: what this process holds when it starts another counts as held by that one
    held = memory(args.memory_sentences) if args.memory_sentences else []
    show([*speed(args.sentences, args.epochs, args.repeats, args.batch_items), *held])


def run(*, quick: bool) -> list[Line]:
    """The lines of the table."""
    held = memory(200 if quick else 400)
    return [*speed(300 if quick else 600, 3, 3, EdgeReadout().batch_items), *held]


def speed(n_sentences: int, epochs: int, repeats: int, batch_items: int) -> list[Line]:
    """All layers together and one after another, in turn."""
    with own_cache():
        text = sample(n_sentences * 5 // 4)
        data = Data.of(*(text[part] for part in (slice(n_sentences), slice(n_sentences, None))))
        layers = data.train.entry.manifest.layers
        # patience as long as the fit: no layer ends before the others, in neither way
        readout = EdgeReadout(max_epochs=epochs, patience=epochs, batch_items=batch_items)
        data.fit(EdgeReadout(max_epochs=1), layers)
        spent: dict[str, list[float]] = {"together": [], "apart": []}

        def together() -> None:
            begun = time.process_time()
            data.fit(readout, layers)
            spent["together"].append(time.process_time() - begun)

        def apart() -> None:
            begun = time.process_time()
            for layer in layers:
                data.fit(readout, (layer,))
            spent["apart"].append(time.process_time() - begun)

        what = f"(g) edge fit of {len(layers)} layers together ÷ one after another"
        line = side_by_side(what, together, apart, repeats=repeats, aim="≤ 0.4")
    ratios = [mine / theirs for mine, theirs in zip(spent["together"], spent["apart"], strict=True)]
    ratio, spread = statistics.median(ratios), (min(ratios), max(ratios))
    detail = f"{statistics.median(spent['together']):.1f} s ÷ {statistics.median(spent['apart']):.1f} s"
    return [line, Line("    … in processor time", ratio, spread, "", detail), products()]


def products(size: int = 768, repeats: int = 5) -> Line:
    """How many more products of matrices all threads make in a second, each its own, than one thread alone."""
    values = torch.randn(size, size)

    def rate(n_threads: int) -> float:
        def multiply(_: int) -> None:
            for _ in range(40):
                values @ values

        with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return n_threads / seconds(lambda: list(pool.map(multiply, range(n_threads))))

    n_threads = torch.get_num_threads()
    rates = [(rate(n_threads), rate(1)) for _ in range(repeats)]
    torch.set_num_threads(n_threads)
    ratios = [several / one for several, one in rates]
    what = f"    … matrix products by {n_threads} threads ÷ by one"
    return Line(what, statistics.median(ratios), (min(ratios), max(ratios)), "", "products a second")


def memory(n_sentences: int) -> list[Line]:
    """Peak memory of a process that only fits, on a text and on ten times the text."""
    return [fit_peaks(_FIT, "(h) peak memory of an edge fit", n_sentences)]


def _arcs(text: Sentences, classes: dict[str, int]) -> Arcs:
    encoder = load_encoder(str(MODEL), device="cpu")
    recipe = Recipe(encoder.fingerprint, text.text_fingerprint)
    entry = extract(lambda: encoder, text, recipe=recipe, layers=range(encoder.n_layers + 1))
    spans, labels = [], []
    for start, sentence in zip(text.starts.tolist(), text, strict=False):
        for word, (head, label) in enumerate(zip(sentence.heads or (), sentence.layers["deprel"], strict=True)):
            if head:
                spans.append([[start + word, start + word + 1], [start + head - 1, start + head]])
                labels.append(classes.get(str(label), -1))
    return Arcs(entry, np.array(spans), np.array(labels))


if __name__ == "__main__":
    main()
