"""All layers' structural probes fitted together, beside one after another, and beside the published algorithm.

    python -m benchmarks.structural [--sentences 600] [--epochs 3] [--repeats 3] [--rank 64] [--memory-sentences 800]

(i) is ``structural.v1`` on the distances of the treebank, fitted to all layers at once, divided by the same fit to each
layer in turn: the same batches, the same number of epochs, the vectors read from the store each time, dev included.
(j) is a plain loop over the sentences of a batch as the paper has it (Hewitt & Manning 2019, section 2.2: autograd,
PyTorch's Adam, one layer after another), on the same vectors held in memory, divided by the fit of all layers. The same
in processor time, summed over cores, is told beside both: what else runs on the machine changes it less. (k) is the
peak memory of the fit on ten times the text divided by that on the text, nothing of the vectors kept between passes.
Fewer sentences than the default do not fill a window, up to which memory grows with the text.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks._common import MODEL, Line, sample, show, side_by_side
from benchmarks.extraction import own_cache
from benchmarks.memory import fit_peaks
from bertology.activations import Entry, Recipe, SpanVectors, extract
from bertology.corpora import Sentences
from bertology.encoders import load_encoder
from bertology.measures import tree_distances
from bertology.probing import tree_examples
from bertology.readouts import StructuralReadout, TreeTargets, fit_ranks
from bertology.readouts.structural import FittedStructural

_FIT = """
import sys
from benchmarks.structural import Data
from bertology.corpora import load_corpus
from bertology.readouts import StructuralReadout
corpus = load_corpus(sys.argv[1])
data = Data.of(corpus["train"], corpus["dev"])
if sys.argv[3] == "fit":
    data.fit(StructuralReadout(max_epochs=2), *data.vectors(range(7), memory=0))
print(0)
"""
_PLAIN_BATCH = 20

_RANK = 64


@dataclass(frozen=True)
class Trees:
    """Sentences with their vectors and distances."""

    entry: Entry
    spans: NDArray[np.int64]
    """``[sentence, 1, 2]``"""
    distances: Sequence[NDArray[np.int64]]


@dataclass(frozen=True)
class Data:
    """What is fitted on and what tells when to stop."""

    train: Trees
    dev: Trees

    @classmethod
    def of(cls, train: Sentences, dev: Sentences) -> Data:
        """Extract the vectors of two texts."""
        return cls(_trees(train), _trees(dev))

    def vectors(self, layers: Sequence[int], *, memory: int = 2 << 30) -> tuple[SpanVectors, SpanVectors]:
        """Those of train and dev, to be read from the store in the first pass over them."""
        train, dev = (SpanVectors(t.entry, t.spans, layers=layers, memory=memory) for t in (self.train, self.dev))
        return train, dev

    def fit(self, readout: StructuralReadout, train: SpanVectors, dev: SpanVectors) -> FittedStructural:
        """Fit some layers side by side."""
        targets, dev_targets = (TreeTargets("distances", trees.distances) for trees in (self.train, self.dev))
        return fit_ranks([readout], train, targets, dev=dev, dev_targets=dev_targets)[0]


@dataclass
class Spent:
    """Processor time of jobs, by how they are done."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def timed(self, name: str, job: Callable[[], object]) -> Callable[[], None]:
        """The job, which notes what it takes."""

        def run() -> None:
            begun = time.process_time()
            job()
            self.seconds.setdefault(name, []).append(time.process_time() - begun)

        return run

    def line(self, over: str, under: str) -> Line:
        """One divided by another."""
        ratios = [a / b for a, b in zip(self.seconds[over], self.seconds[under], strict=True)]
        a, b = (statistics.median(self.seconds[name]) for name in (over, under))
        spread = (min(ratios), max(ratios))
        return Line("    … in processor time", statistics.median(ratios), spread, "", f"{a:.1f} s ÷ {b:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rank", type=int, default=_RANK)
    parser.add_argument("--memory-sentences", type=int, default=800, help="0 to leave memory out")
    args = parser.parse_args()
    lines = speed(args.sentences, args.epochs, args.repeats, args.rank)
    show(lines + (memory(args.memory_sentences) if args.memory_sentences else []))


def run(*, quick: bool) -> list[Line]:
    """The lines of the table."""
    return [*speed(300 if quick else 600, 3, 3, _RANK), *memory(800)]


def speed(n_sentences: int, epochs: int, repeats: int, rank: int) -> list[Line]:
    """All layers together, one after another, and by the plain loop, in turn."""
    with own_cache():
        text = sample(n_sentences * 5 // 4)
        data = Data.of(*(text[part] for part in (slice(n_sentences), slice(n_sentences, None))))
        layers = data.train.entry.manifest.layers
        # patience as long as the fit: no layer ends before the others, in no way
        readout = StructuralReadout(rank=rank, max_epochs=epochs, patience=epochs)
        in_memory = data.vectors(layers)
        data.fit(replace(readout, max_epochs=1), *in_memory)
        spent = Spent()
        together = spent.timed("together", lambda: data.fit(readout, *data.vectors(layers)))
        apart = spent.timed("apart", lambda: [data.fit(readout, *data.vectors((layer,))) for layer in layers])
        what = f"(i) structural fit of {len(layers)} layers together ÷ one after another"
        lines = [side_by_side(what, together, apart, repeats=repeats, aim="≤ 0.5"), spent.line("together", "apart")]
        split = [(_in_memory(data.train, layer), _in_memory(data.dev, layer)) for layer in layers]
        spent = Spent()
        plain = spent.timed("plain", lambda: [plain_fit(*vectors, data, readout) for vectors in split])
        together = spent.timed("together", lambda: data.fit(readout, *in_memory))
        what = f"(j) plain loop over sentences ÷ structural fit, {len(layers)} layers"
        lines += [side_by_side(what, plain, together, repeats=repeats, aim="≥ 10"), spent.line("plain", "together")]
    return lines


def plain_fit(
    train: Sequence[Tensor], dev: Sequence[Tensor], data: Data, readout: StructuralReadout, *, seed: int = 0
) -> Tensor:
    """One layer's map, sentence by sentence as the paper has it."""
    random = torch.Generator().manual_seed(seed)
    rank = readout.rank or _RANK
    by = torch.nn.Parameter(0.1 * torch.rand(train[0].shape[1], rank, generator=random) - 0.05)
    gold, dev_gold = ([torch.from_numpy(one).float() for one in t.distances] for t in (data.train, data.dev))
    rate, least, best = readout.learning_rate, float("inf"), by.detach().clone()
    adam = torch.optim.Adam([by], lr=rate)
    for _ in range(readout.max_epochs):
        order = torch.randperm(len(train), generator=random).tolist()
        for first in range(0, len(order), _PLAIN_BATCH):
            adam.zero_grad()
            batch = order[first : first + _PLAIN_BATCH]
            total = torch.stack([_plain_loss(train[number], gold[number], by) for number in batch]).mean()
            total.backward()  # type: ignore[no-untyped-call]
            adam.step()
        with torch.no_grad():
            loss = statistics.fmean(_plain_loss(one, true, by).item() for one, true in zip(dev, dev_gold, strict=True))
        if loss < least - 1e-4:
            least, best = loss, by.detach().clone()
        else:
            rate *= readout.slow_down
            adam = torch.optim.Adam([by], lr=rate)
    return best


def _plain_loss(vectors: Tensor, gold: Tensor, by: Tensor) -> Tensor:
    mapped = vectors @ by
    found = (mapped[:, None] - mapped[None]).square().sum(-1)
    return (gold - found).abs().sum() / len(gold) ** 2


def memory(n_sentences: int) -> list[Line]:
    """Peak memory of a process that only fits, on a text and on ten times the text."""
    return [fit_peaks(_FIT, "(k) peak memory of a structural fit", n_sentences)]


def _trees(text: Sentences) -> Trees:
    encoder = load_encoder(str(MODEL), device="cpu")
    recipe = Recipe(encoder.fingerprint, text.text_fingerprint)
    entry = extract(lambda: encoder, text, recipe=recipe, layers=range(encoder.n_layers + 1))
    found = tree_examples(text, "distances")
    return Trees(entry, found.spans, [tree_distances(found.heads[a:b].tolist()) for a, b in found.spans[:, 0].tolist()])


def _in_memory(trees: Trees, layer: int) -> list[Tensor]:
    """The vectors of each sentence."""
    found: dict[int, Tensor] = {}
    for chunk in SpanVectors(trees.entry, trees.spans, layers=(layer,)).chunks():
        for item, (first, last) in zip(chunk.items.tolist(), chunk.spans[:, 0].tolist(), strict=True):
            found[item] = chunk.words[0, first:last].clone()
    return [found[number] for number in range(len(trees.spans))]


if __name__ == "__main__":
    main()
