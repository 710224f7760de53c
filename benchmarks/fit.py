"""The fit of all layers beside a loop of scikit-learn's, and how far their accuracies are apart.

    python -m benchmarks.fit [--items 0] [--repeats 1] [--peer-layers 0,3,6] [--synthetic]
    python -m benchmarks.fit --vectors train.npy --labels train-labels.npy --test-vectors … --test-labels …
    python -m benchmarks.fit --stored CORPUS [--controls none]

(c) is ``linear.v1`` on all layers and the whole path of strengths, the choice on dev included, divided by
scikit-learn's ``LogisticRegression`` (lbfgs, its default ``tol``, as many iterations as it needs) layer by layer and
strength by strength on the same float32 vectors, standardised beforehand. Both stop when no component of the gradient
of the mean loss is above 1e-4. scikit-learn is slow: with ``--peer-layers`` it fits only these layers, and its time is
scaled up to all of them. ``--stored`` compares the whole command on a corpus whose vectors are stored with their
extraction: processor seconds of both, and the system time and page faults of the fit. Vectors are those of the
treebank's words in the encoder, or of a ``.npy`` file ``[layer, word, dim]``, or (``--synthetic``, and where there is
no encoder) drawn with spectra like an encoder's.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks._common import CORPUS, MODEL, Line, show
from benchmarks.extraction import own_cache
from bertology.readouts import ArrayFeatures, FittedReadout, LinearReadout, Targets

_MANY = 20_000


@dataclass(frozen=True)
class Words:
    """Vectors ``[layer, word, dim]`` and labels ``[word]``."""

    vectors: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]

    def some(self, n: int) -> Words:
        """About ``n`` of them, evenly spread; all for 0."""
        step = max(1, len(self.labels) // n) if n else 1
        return Words(self.vectors[:, ::step].astype(np.float32), self.labels[::step])

    @property
    def source(self) -> ArrayFeatures:
        return ArrayFeatures(self.vectors)


@dataclass(frozen=True)
class Data:
    """What is fitted on, chosen by, and scored on."""

    train: Words
    dev: Words
    test: Words

    @property
    def n_classes(self) -> int:
        return int(max(part.labels.max() for part in (self.train, self.dev, self.test))) + 1

    def targets(self, words: Words) -> Targets:
        return Targets(words.labels[None], self.n_classes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=0, help="training words, evenly spread; 0 for all")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--peer-layers", default="", help="layers that scikit-learn fits; empty for all")
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--stored", type=Path, help="folder of a treebank")
    parser.add_argument("--controls", default="none", help="controls of the command that is measured with --stored")
    for name in ("vectors", "labels", "test-vectors", "test-labels"):
        parser.add_argument(f"--{name}", type=Path)
    args = parser.parse_args()
    if args.stored:
        show(stored(args.stored, controls=args.controls, repeats=args.repeats))
        return
    if args.vectors:
        data = from_files(args.vectors, args.labels, args.test_vectors, args.test_labels)
    else:
        data = synthetic(args.items or 50_000) if args.synthetic or not MODEL.exists() else real()
    data = Data(data.train.some(args.items), data.dev.some(0), data.test.some(0))
    layers = [int(layer) for layer in args.peer_layers.split(",") if layer]
    show(compare(data, layers or range(len(data.train.vectors)), args.repeats))


def run(*, quick: bool) -> list[Line]:
    """The lines of the table."""
    data = real() if MODEL.exists() else synthetic(50_000)
    if quick:
        return compare(Data(data.train.some(20_000), data.dev.some(5000), data.test.some(0)), [0, 3, 6], 1)
    return compare(Data(data.train.some(0), data.dev.some(0), data.test.some(0)), [0, 3, 6], 1)


_EXTRACT = """
import sys
from bertology.activations import Recipe, extract
from bertology.corpora import load_corpus
from bertology.encoders import load_encoder
corpus, encoder = load_corpus(sys.argv[1]), load_encoder(sys.argv[2], device="cpu")
for split in ("train", "dev", "test"):
    recipe = Recipe(encoder.fingerprint, corpus[split].text_fingerprint)
    extract(lambda: encoder, corpus[split], recipe=recipe, layers=range(encoder.n_layers + 1))
"""
_PROBE = """
import sys
from bertology import probe
probe("pos", corpus=sys.argv[1], model=sys.argv[2], controls=sys.argv[3], out=sys.argv[4], progress=False)
"""


def stored(corpus: Path, *, controls: str, repeats: int) -> list[Line]:
    """The whole command with stored vectors beside the extraction of these vectors, each in processes of its own."""
    ratios, details = [], []
    with own_cache(), tempfile.TemporaryDirectory() as folder:
        extraction = _usage(_EXTRACT, str(corpus), str(MODEL))
        for number in range(repeats):
            fit = _usage(_PROBE, str(corpus), str(MODEL), controls, f"{folder}/{number}")
            ratios.append((fit.ru_utime + fit.ru_stime) / (extraction.ru_utime + extraction.ru_stime))
            details.append(f"{fit.ru_utime:.1f} s user, {fit.ru_stime:.1f} s system, {fit.ru_minflt:,} page faults")
    what = f"    probe with stored vectors, controls {controls} ÷ extraction, processor time"
    return [Line(what, *_middle(ratios), "", details[int(np.argsort(ratios)[len(ratios) // 2])])]


def _usage(code: str, *arguments: str) -> resource.struct_rusage:
    """What a process that runs ``code`` took."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the process ended with status {process.returncode}")
    return usage


def compare(data: Data, peer_layers: Sequence[int], repeats: int) -> list[Line]:
    """Fit both ways, in turn, and say how they compare."""
    readout = LinearReadout()
    n_layers = len(data.train.vectors)
    path, chosen, gaps, times = [], [], [], []
    for _ in range(repeats):
        fitted, mine = _ours(readout, data)
        times.append(mine)
        theirs, gap = _theirs(data, peer_layers, readout.strengths)  # seconds [layer, strength], points of accuracy
        scale = n_layers / len(peer_layers)
        path.append(mine / (theirs.sum() * scale))
        best = [readout.strengths.index(fitted.report.chosen[0, layer]) for layer in peer_layers]
        chosen.append(mine / (theirs[np.arange(len(best)), best].sum() * scale))
        gaps.append(gap)
    report = fitted.report
    what = f"{n_layers} layers × {len(readout.strengths)} strengths × {len(data.train.labels)} words"
    seconds = f"{np.median(times):.1f} s ÷ {np.median(times) / np.median(path):.0f} s"
    return [
        Line("(c) fit of all layers ÷ scikit-learn, same strengths", *_middle(path), "≤ 0.1", f"{what}: {seconds}"),
        Line("    … ÷ scikit-learn at the chosen strengths alone", *_middle(chosen), "", "no path to choose from"),
        Line(
            "    largest difference of test accuracy, points",
            *_middle(gaps),
            "≤ 0.3",
            f"{'all' if report.all_converged else 'not all'} fits converged, "
            f"{report.iterations.mean():.0f} passes on average, {report.iterations.max()} at most",
        ),
    ]


def _middle(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    return float(np.median(values)), (min(values), max(values))


def _ours(readout: LinearReadout, data: Data) -> tuple[FittedReadout, float]:
    source, dev = data.train.source, data.dev.source
    start = time.perf_counter()
    fitted = readout.fit(source, data.targets(data.train), dev=dev, dev_targets=data.targets(data.dev))
    return fitted, time.perf_counter() - start


def _theirs(data: Data, layers: Sequence[int], strengths: Sequence[float]) -> tuple[NDArray[np.float64], float]:
    """Seconds ``[layer, strength]`` of scikit-learn, and how far its accuracy is from ours at most, in points."""
    seconds = np.zeros((len(layers), len(strengths)))
    mine = np.stack([_accuracy(data, strength) for strength in strengths], axis=1)  # [layer, strength]
    gap = 0.0
    for place, layer in enumerate(layers):
        mean, std = data.train.vectors[layer].mean(0), data.train.vectors[layer].std(0)
        train, test = ((part.vectors[layer] - mean) / std for part in (data.train, data.test))
        for number, strength in enumerate(strengths):
            start = time.perf_counter()
            peer = LogisticRegression(C=strength, max_iter=_MANY).fit(train, data.train.labels)
            seconds[place, number] = time.perf_counter() - start
            theirs = 100 * peer.score(test, data.test.labels)
            gap = max(gap, abs(theirs - mine[layer, number]))
            print(
                f"layer {layer}, C = {strength:g}: {peer.n_iter_[0]} iterations, {seconds[place, number]:.1f} s, "
                f"test accuracy {theirs:.2f} (ours {mine[layer, number]:.2f})",
                flush=True,
            )
    return seconds, gap


def _accuracy(data: Data, strength: float) -> NDArray[np.float64]:
    """Test accuracy ``[layer]`` of ``linear.v1`` at one strength, in per cent."""
    fitted = LinearReadout(strengths=(strength,)).fit(
        data.train.source, data.targets(data.train), dev=data.dev.source, dev_targets=data.targets(data.dev)
    )
    accuracy: NDArray[np.float64] = 100 * (fitted.predict(data.test.source).labels[0] == data.test.labels).mean(1)
    return accuracy


def real() -> Data:
    """All layers of the treebank's words in the encoder, labelled with their parts of speech."""
    from bertology.activations import Recipe, WordVectors, extract
    from bertology.corpora import load_corpus
    from bertology.encoders import load_encoder

    corpus, encoder = load_corpus(CORPUS), load_encoder(str(MODEL), device="cpu")
    classes = {label: code for code, label in enumerate(corpus["train"].layers["upos"].values)}
    parts = {}
    with own_cache():
        for split in ("train", "dev", "test"):
            text = corpus[split]
            recipe = Recipe(encoder.fingerprint, text.text_fingerprint)
            entry = extract(lambda: encoder, text, recipe=recipe, layers=range(encoder.n_layers + 1))
            upos = text.layers["upos"]
            of_code = np.array([classes.get(label, -1) for label in upos.values] + [-1])
            labels = of_code[upos.codes]
            words = np.flatnonzero((labels >= 0) & (entry.place[:, 0] >= 0))
            parts[split] = Words(WordVectors(entry, words, memory=0).array(), labels[words])
    return Data(**parts)


def from_files(vectors: Path, labels: Path, test_vectors: Path | None, test_labels: Path | None) -> Data:
    """Vectors and labels from ``.npy`` files; without a test file every tenth word is held out."""
    whole = Words(np.load(vectors, mmap_mode="r"), np.load(labels))
    if test_vectors and test_labels:
        test = Words(np.load(test_vectors, mmap_mode="r"), np.load(test_labels))
        return Data(whole, test, test)
    held_out = np.arange(len(whole.labels)) % 10 == 9
    test = Words(whole.vectors[:, held_out], whole.labels[held_out])
    return Data(Words(whole.vectors[:, ~held_out], whole.labels[~held_out]), test, test)


def synthetic(n_words: int, n_layers: int = 7, dim: int = 384, n_classes: int = 17) -> Data:
    """Vectors with spectra that fall off as an encoder's do, a few features far from zero, and classes as rare."""
    random = np.random.default_rng(0)
    spectrum = np.geomspace(10, 0.03, dim)
    parts = [np.linalg.qr(random.normal(size=(dim, dim)))[0] * spectrum for _ in range(n_layers)]
    offsets = random.normal(size=(n_layers, dim)) * np.where(random.random(dim) < 0.02, 30, 0.5)
    centres = random.normal(size=(n_classes, dim)) * 0.35
    shares = random.dirichlet(np.full(n_classes, 1.0))

    def words(n: int) -> Words:
        labels = random.choice(n_classes, size=n, p=shares)
        causes = centres[labels] + random.normal(size=(n, dim))
        layers = [(causes @ part.T + offset).astype(np.float32) for part, offset in zip(parts, offsets, strict=True)]
        return Words(np.stack(layers), labels)

    return Data(words(n_words), words(n_words // 8), words(n_words // 8))


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
