"""Nearest occurrences of a word: how long an exact search takes, whether its memory grows, how fluid their map is.

    python -m benchmarks.neighbours [--words 1000000] [--points 50000] [--repeats 3]

(α) is the search among random vectors of seven layers of 384 dimensions, read block by block as from the store,
divided by the time that reading as many bytes of half precision from a disk of 200 MB/s takes; (β) the peak of
allocated memory on all of these words divided by that on a tenth; the line between is the search among 50,000 words
divided by scikit-learn's brute force, which holds a layer at a time, both from half precision and on one thread. (γ)
is the size of a page with many points in seven layers; (δ) what a frame of its map takes without a graphics card
while it is panned, zoomed, brought from layer to layer, searched and pointed at. Of every frame that is drawn the
processor time of the page's main thread is taken; the ratio is that of the median to the sixtieth of a second that a
frame has. A map on its way draws as many points as six milliseconds allow, a sample of them on a busy machine, and
all when it rests. (ε) are senses by nearest neighbours, divided by scikit-learn's. Where Chromium is missing one line
says so.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from threadpoolctl import threadpool_limits

from benchmarks._common import Line, seconds, show, side_by_side
from benchmarks.viewer import FRAME, chromium, frames
from bertology.activations.layers import LayerVectors, unit_vectors
from bertology.corpora import Sentence, Sentences
from bertology.geometry.neighbours import SearchedText, find_neighbours, nearest_occurrences
from bertology.geometry.senses import nearest_neighbours

_LAYERS, _DIM, _BLOCK = 7, 384, 2048
_PEER_WORDS = 50_000
_DISK = 200e6
"""Bytes a second."""
_STEPS = 40
_MOVES = {
    "panned": """(number) => {
        const way = Math.floor(number / 10) % 2 ? -1 : 1;
        atlas.view.pan(9 * way, 5 * way);
        atlas.words.showTip();
        atlas.paint.redraw();
    }""",
    "zoomed": """(number) => {
        atlas.view.zoomBy(Math.floor(number / 10) % 2 ? 1 / 1.2 : 1.2);
        atlas.words.showTip();
        atlas.paint.redraw();
    }""",
    "brought from layer to layer": "(number) => { if (number % 8 === 0) atlas.change({ layer: (number / 8) % 7 }); }",
    "searched": """(number) => atlas.change({ search: `w${number % 10}` })""",
    "pointed at": """(number) => atlas.change({ hovered: (number * 7919) % 40000 })""",
}
_STEP = "async (number) => { (%s)(number); await new Promise(requestAnimationFrame); }"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    show(run(words=args.words, points=args.points, repeats=args.repeats))


def run(*, words: int, points: int, repeats: int) -> list[Line]:
    """The lines of the table; those of the map are left out where there is no browser."""
    with threadpool_limits(1):
        lines = [*_search(words, repeats), *_senses(repeats)]
    return [*lines, *_map(points, repeats)]


def _search(words: int, repeats: int) -> list[Line]:
    block = np.random.default_rng(0).normal(size=(_LAYERS, _BLOCK, _DIM)).astype(np.float16)
    query = block[:, 0].astype(np.float32)
    disk = words * _LAYERS * _DIM * block.itemsize / _DISK

    def blocks(n_words: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        for first in range(0, n_words, _BLOCK):
            size = min(_BLOCK, n_words - first)
            # Brought to single precision by PyTorch, as what is stored is: NumPy takes five times as long.
            yield np.arange(first, first + size), torch.from_numpy(block[:, :size]).float().numpy()

    took = [seconds(lambda: nearest_occurrences(blocks(words), query, k=10)) for _ in range(repeats)]
    middle = statistics.median(took)
    peaks = []
    for n_words in (words // 10, words):
        tracemalloc.start()
        nearest_occurrences(blocks(n_words), query, k=10)
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
    growth = peaks[1] / peaks[0]
    return [
        Line(
            f"(α) search of {words:,} words, {_LAYERS} layers ÷ reading them at 200 MB/s",
            middle / disk,
            (min(took) / disk, max(took) / disk),
            "≤ 1.0",
            f"{middle:.1f} s ÷ {disk:.1f} s",
        ),
        side_by_side(
            f"    … of {_PEER_WORDS:,} words ÷ scikit-learn's brute force, layer by layer",
            lambda: nearest_occurrences(blocks(_PEER_WORDS), query, k=10),
            lambda: _brute_force(block, query),
            repeats=repeats,
            aim="≤ 1.0",
        ),
        Line("(β) its memory ÷ that of a tenth", growth, (growth, growth), "≤ 1.1", f"{peaks[1]:.0f} MB"),
    ]


def _senses(repeats: int) -> list[Line]:
    rng, lines = np.random.default_rng(0), []
    for n_train, n_test in ((600, 300), (3000, 2000)):
        train, test = (unit_vectors(rng.normal(size=(n, _DIM)).astype(np.float32)) for n in (n_train, n_test))
        senses = rng.integers(0, 4, n_train)
        peer = KNeighborsClassifier(10, metric="cosine", algorithm="brute", n_jobs=1)
        what = f"senses of {n_test:,} words by 1 to 10 of {n_train:,} neighbours ÷ scikit-learn by 10"
        lines.append(
            side_by_side(
                f"(ε) {what}",
                lambda test=test, train=train, senses=senses: nearest_neighbours(train, senses, test),
                lambda test=test, train=train, senses=senses, peer=peer: peer.fit(train, senses).predict(test),
                repeats=5 * repeats,
                aim="≤ 0.7",
            )
        )
    return lines


def _brute_force(block: NDArray[np.float16], query: NDArray[np.float32]) -> None:
    for layer, of_query in zip(block, query, strict=True):
        times = -(-_PEER_WORDS // len(layer))
        vectors = torch.from_numpy(np.concatenate([layer] * times)[:_PEER_WORDS]).float().numpy()
        NearestNeighbors(n_neighbors=10, metric="cosine", algorithm="brute").fit(vectors).kneighbors(of_query[None])


def _map(points: int, repeats: int) -> list[Line]:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if browser is None:
            print("the map is skipped: it needs playwright (pip install 'bertology[dev]') and Chromium")
            return []
        path = write_map(Path(folder) / "map.html", points)
        size = path.stat().st_size / 1e6
        found = [look(browser, path) for _ in range(repeats)]
    lines = [Line(f"(γ) page of {points:,} points ÷ 10 MB", size / 10, (size / 10,) * 2, "≤ 1.0", f"{size:.1f} MB")]
    for name in _MOVES:
        runs = [one[name] for one in found]
        middles = [statistics.median(each) for each in runs]
        late = statistics.median(statistics.quantiles(each, n=20)[-1] for each in runs)
        detail = f"median {statistics.median(middles):.1f} ms, 95th percentile {late:.1f} ms"
        ratio = statistics.median(middles) / FRAME
        spread = (min(middles) / FRAME, max(middles) / FRAME)
        lines.append(Line(f"(δ) map {name}, a frame ÷ 16.7 ms", ratio, spread, "≤ 0.96", detail))
    return lines


def write_map(path: Path, points: int) -> Path:
    """The map of a word among so many with random vectors in clusters, one of 17 tags each."""
    dice = np.random.default_rng(0)
    names = [f"w{number}" for number in dice.zipf(1.3, points) % 9000]
    tags = [f"T{number}" for number in dice.integers(17, size=points)]
    sentences = [
        Sentence.from_words(names[first : first + 20], id=str(first), layers={"upos": tuple(tags[first : first + 20])})
        for first in range(0, points, 20)
    ]
    centres = dice.normal(size=(7, 17, 32))
    vectors = np.empty((7, points, 32), dtype=np.float32)
    for layer in range(7):
        vectors[layer] = centres[layer, [int(tag[1:]) for tag in tags]] + dice.normal(size=(points, 32))
    whole = LayerVectors.of_arrays(vectors)

    def read(words: NDArray[np.int64]) -> LayerVectors:
        if len(words) == points:
            return whole
        return LayerVectors.of_arrays(vectors[:, words], words=words)

    text = SearchedText({"train": Sentences(sentences)}, {"train": read})
    query = Sentence.from_words([names[0], "here"])
    return find_neighbours(query, 0, vectors[:, 0], text, layers=tuple(range(7)), k=10).save(path)


def look(browser: Any, path: Path) -> dict[str, list[float]]:
    """Milliseconds of each frame by what is done to the map."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    page.locator("html[data-drawn]").wait_for(state="attached")
    found = {}
    for name, move in _MOVES.items():
        page.wait_for_timeout(300)
        browser.start_tracing(page=page, categories=["cc"])
        for number in range(_STEPS):
            page.evaluate(_STEP % move, number)
        found[name] = frames(browser.stop_tracing())
        page.evaluate("atlas.change({ search: '', hovered: null })")
    page.close()
    return found


if __name__ == "__main__":
    main()
