"""Statistics of vectors, beside plain loops over the same vectors and beside the extraction that they need.

    python -m benchmarks.geometry [--words 50000] [--repeats 3]

(p) is self-similarity of all word types and its baseline in all layers by sums of unit vectors, divided by the loop
over types that forms the cosines of all pairs (of 150 occurrences at most), as the published scripts do. (q) is
debiased CKA of all pairs of layers with what each sentence contributes, divided by a loop over the pairs that forms
Gram matrices of 5,000 of the words (on all of them each matrix would take 10 GB). (r) is the extraction of a corpus and
all statistics of the task ``contextuality`` on it, divided by the extraction alone.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from numpy.typing import NDArray

from benchmarks._common import MODEL, Line, sample, show, side_by_side
from benchmarks.extraction import own_cache
from bertology.activations import Entry, Recipe, extract
from bertology.corpora import Sentences
from bertology.encoders import load_encoder
from bertology.geometry import LayerVectors, WordSample, layer_similarity, self_similarity
from bertology.probing import GeometryProbe, get_probe

_PEER_WORDS = 5000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    show(run(words=args.words, repeats=args.repeats))


def run(*, words: int, repeats: int) -> list[Line]:
    """The lines of the table."""
    text = sample(0)
    text = text[: int(np.searchsorted(text.starts, words, side="right")) - 1]
    with own_cache():
        entry = _extracted(text)
        vectors = LayerVectors.stored(entry, np.arange(text.n_words), entry.manifest.layers)
        arrays = [vectors.of(layer) for layer in vectors.layers]
        chosen, _ = WordSample.of(text.forms.codes.astype(np.int64), text.sentence_of_word)
        what = f"(p) self-similarity and baseline, {len(arrays)} layers of {text.n_words:,} words ÷ all pairs"
        lines = [
            side_by_side(
                what,
                lambda: [_by_sums(array, chosen) for array in arrays],
                lambda: [_by_pairs(array, chosen) for array in arrays],
                repeats=repeats,
                aim="≤ 0.02",
            )
        ]
        held = LayerVectors.of_arrays(np.stack(arrays))
        few = [array[:_PEER_WORDS].astype(np.float32) for array in arrays]
        lines.append(
            side_by_side(
                f"(q) CKA of all pairs of layers, {text.n_words:,} words ÷ Gram matrices of {_PEER_WORDS:,}",
                lambda: list(layer_similarity(held, text.sentence_of_word)),
                lambda: [_gram_cka(a, b) for a, b in itertools.combinations(few, 2)],
                repeats=repeats,
                aim="≤ 0.2",
            )
        )
    lines.append(_with_extraction(text, repeats))
    return lines


def _extracted(text: Sentences) -> Entry:
    encoder = load_encoder(str(MODEL), device="cpu")
    recipe = Recipe(encoder.fingerprint, text.text_fingerprint)
    return extract(lambda: encoder, text, recipe=recipe, layers=range(encoder.n_layers + 1))


def _with_extraction(text: Sentences, repeats: int) -> Line:
    probe = get_probe("contextuality")
    assert isinstance(probe, GeometryProbe)

    def both() -> None:
        with own_cache():
            entry = _extracted(text)
            vectors = LayerVectors.stored(entry, probe.words({"test": text})["test"], entry.manifest.layers)
            list(probe.statistics({"test": vectors}, {"test": text}))

    def alone() -> None:
        with own_cache():
            _extracted(text)

    what = f"(r) contextuality of {text.n_words:,} words, extraction included ÷ extraction alone"
    return side_by_side(what, both, alone, repeats=repeats, aim="≤ 1.15")


def _by_sums(vectors: NDArray[np.float32], chosen: WordSample) -> tuple[NDArray[np.float64], ...]:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return tuple(self_similarity(unit[places], chosen.starts) for places in (chosen.places, chosen.shuffled))


def _by_pairs(vectors: NDArray[np.float32], chosen: WordSample) -> list[list[float]]:
    """Cosines of all pairs of the occurrences of each type, one by one."""
    found = []
    for places in (chosen.places, chosen.shuffled):
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
