"""Statistics of vectors, beside plain loops over the same vectors and beside the extraction that they need.

    python -m benchmarks.geometry [--words 50000] [--repeats 3]

(p) is self-similarity of all word types and its baseline in all layers by sums of unit vectors, divided by the loop
over types that forms the cosines of all pairs (of 150 occurrences at most), as the published scripts do; the loop
runs on one layer, and its time is multiplied. (q) is debiased CKA of all pairs of layers with what each sentence
contributes and what words in random order give, divided by a loop over the pairs that forms Gram matrices, on the
same 5,000 words; the loop runs over three of the pairs, and its time is multiplied. On all of the words each of its
matrices would take 10 GB: the next line multiplies by the square of their number as well. (r) is the extraction of
the whole training split and all statistics of the task ``contextuality`` on it, divided by the extraction alone, both
on all threads; the same ratio by processor time, which other jobs on the machine disturb less, stands beside it. (s)
is the peak of memory of a process that computes these statistics of stored vectors, on four times the text divided by
the text; of 50,000 words at most one layer is held at a time, so that memory grows up to there.

Both sides of (p) and (q) compute on one thread, as the task does.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks._common import MODEL, Line, sample, seconds, show, side_by_side
from benchmarks.extraction import own_cache
from benchmarks.memory import fit_peaks
from bertology.activations import Entry, Recipe, extract
from bertology.activations.layers import LayerVectors, group_sums
from bertology.corpora import Sentences
from bertology.encoders import load_encoder
from bertology.geometry import GeometryProbe, layer_similarity
from bertology.geometry.text import WordSample
from bertology.probing import get_probe

_PEER_WORDS, _PEER_PAIRS = 5000, 3
_WORDS_A_SENTENCE = 16
_PEAK = """
import sys
from benchmarks.geometry import contextuality_of, extracted
from bertology.corpora import load_corpus
text = load_corpus(sys.argv[1])["train"]
entry = extracted(text)
if sys.argv[3] == "fit":
    contextuality_of(text, entry)
print(0)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    show(run(words=args.words, repeats=args.repeats))


def run(*, words: int, repeats: int) -> list[Line]:
    """The lines of the table."""
    whole = sample(0)
    text = whole[: int(np.searchsorted(whole.starts, words, side="right")) - 1]
    with own_cache():
        entry = extracted(text)
        vectors = LayerVectors.stored(entry, np.arange(text.n_words), entry.manifest.layers)
        arrays = [vectors.of(layer) for layer in vectors.layers]
    with threadpool_limits(1):
        lines = [_pairs_of_words(arrays, text, repeats), *_pairs_of_layers(arrays, text.sentence_of_word, repeats)]
    del arrays
    what = f"(s) peak memory of contextuality, {text.n_words:,} words"
    return [*lines, _with_extraction(whole, repeats), fit_peaks(_PEAK, what, words // _WORDS_A_SENTENCE, times=4)]


def extracted(text: Sentences) -> Entry:
    """All layers of a text in the store."""
    encoder = load_encoder(str(MODEL), device="cpu")
    recipe = Recipe(encoder.fingerprint, text.text_fingerprint)
    return extract(lambda: encoder, text, recipe=recipe, layers=range(encoder.n_layers + 1))


def contextuality_of(text: Sentences, entry: Entry) -> None:
    """All statistics of the task, as its family has them computed."""
    probe = get_probe("contextuality")
    assert isinstance(probe, GeometryProbe)
    items = probe.items({"test": text})
    vectors = LayerVectors.stored(entry, items.words["test"], entry.manifest.layers, n_threads=torch.get_num_threads())
    with threadpool_limits(1):
        list(probe.statistics({"test": vectors}, {"test": text}, items))


def _pairs_of_words(arrays: list[NDArray[np.float32]], text: Sentences, repeats: int) -> Line:
    chosen, _ = WordSample.of(text.forms.codes.astype(np.int64), text.sentence_of_word)
    middle = arrays[len(arrays) // 2]
    what = (
        f"(p) self-similarity and baseline, {len(arrays)} layers of {text.n_words:,} words ÷ all pairs (of one, scaled)"
    )
    return _scaled(
        what,
        lambda: [_by_sums(array, chosen) for array in arrays],
        lambda: _by_pairs(middle, chosen),
        times=len(arrays),
        repeats=repeats,
        aim="≤ 0.02",
    )


def _pairs_of_layers(arrays: list[NDArray[np.float32]], sentences: NDArray[np.integer], repeats: int) -> list[Line]:
    n_words, pairs = len(sentences), list(itertools.combinations(range(len(arrays)), 2))
    few = [array[:_PEER_WORDS] for array in arrays]
    lines = []
    for n in sorted({min(n_words, _PEER_WORDS), n_words}):
        held = LayerVectors.of_arrays(np.stack([array[:n] for array in arrays]))
        is_all = n <= _PEER_WORDS
        scaled = f"{_PEER_PAIRS} of the pairs{'' if is_all else f', {_PEER_WORDS:,} words'}, scaled"
        lines.append(
            _scaled(
                f"{'(q)' if is_all else '   '} CKA of all pairs of layers, {n:,} words ÷ Gram matrices ({scaled})",
                partial(_similarities, held, sentences[:n]),
                lambda: [_gram_cka(few[a], few[b]) for a, b in pairs[:_PEER_PAIRS]],
                times=len(pairs) / _PEER_PAIRS * (n / len(few[0])) ** 2,
                repeats=repeats,
                aim="≤ 0.2",
            )
        )
    return lines


def _similarities(vectors: LayerVectors, sentences: NDArray[np.integer]) -> None:
    list(layer_similarity(vectors, sentences))


def _scaled(
    what: str, ours: Callable[[], object], part: Callable[[], object], *, times: float, repeats: int, aim: str
) -> Line:
    """Like :func:`side_by_side`, with a peer that does a part of the job; the whole takes so many times as long."""
    pairs = [(seconds(ours), times * seconds(part)) for _ in range(repeats)]
    ratios = [a / b for a, b in pairs]
    a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
    return Line(what, statistics.median(ratios), (min(ratios), max(ratios)), aim, f"{a:.2f} s ÷ {b:.1f} s")


def _with_extraction(text: Sentences, repeats: int) -> Line:
    def both() -> None:
        with own_cache():
            contextuality_of(text, extracted(text))

    def alone() -> None:
        with own_cache():
            extracted(text)

    what = f"(r) contextuality of {text.n_words:,} words, extraction included ÷ extraction alone"
    line = side_by_side(what, both, alone, repeats=repeats, aim="≤ 1.15")
    began = time.process_time()
    both()
    between = time.process_time()
    alone()
    by_processor = (between - began) / (time.process_time() - between)
    return replace(line, detail=f"{line.detail}; by processor time {by_processor:.2f}")


def _by_sums(vectors: NDArray[np.float32], chosen: WordSample) -> tuple[NDArray[np.float64], ...]:
    weights, n = np.reciprocal(np.linalg.norm(vectors, axis=1)), chosen.counts
    both = (
        group_sums(vectors, chosen.starts, order=places, weights=weights).astype(np.float64)
        for places in (chosen.places, chosen.places[chosen.order])
    )
    return tuple((np.einsum("gd,gd->g", sums, sums) - n) / (n * (n - 1)) for sums in both)


def _by_pairs(vectors: NDArray[np.float32], chosen: WordSample) -> list[list[float]]:
    """Cosines of all pairs of the occurrences of each type, one by one."""
    found = []
    for places in (chosen.places, chosen.places[chosen.order]):
        means = []
        for first, last in itertools.pairwise(chosen.starts):
            group = vectors[places[first:last]]
            cosines = [
                float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
                for a, b in itertools.combinations(group[:150], 2)
            ]
            means.append(float(np.mean(cosines)))
        found.append(means)
    return found


def _gram_cka(x: NDArray[np.float32], y: NDArray[np.float32]) -> float:
    """Debiased CKA by Gram matrices."""

    def hsic(k: NDArray[np.float32], m: NDArray[np.float32]) -> float:
        n = len(k)
        ones = (k.sum() * m.sum()) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (k.sum(axis=0) @ m.sum(axis=0))
        return float(((k * m).sum() + ones) / (n * (n - 3)))

    grams = [part @ part.T for part in (x, y)]
    for gram in grams:
        np.fill_diagonal(gram, 0)
    cross, own_x, own_y = hsic(grams[0], grams[1]), hsic(grams[0], grams[0]), hsic(grams[1], grams[1])
    return cross / float(np.sqrt(own_x * own_y))


if __name__ == "__main__":
    main()
