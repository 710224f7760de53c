"""The viewer of attention maps in a browser: how large its page is, how soon it is seen, how long scrolling takes.

    python -m benchmarks.viewer [--pieces 512] [--repeats 3]

The page holds 12 layers of 12 heads with random weights. (v) is its size; (w) the time to its first paint; (x) what a
scroll step costs in each view, on a canvas drawn without a graphics card: (x1) thumbnails, (x2) lines from word to word
scrolled by 100 pixels, (x3) the same by jumps to anywhere, (x4) one word through the layers, (x5) the mean of a layer's
heads as a matrix; (y) what pointing from word to word costs on the fullest page there can be, in which all weights are
alike, so that every line of a word is drawn: (y1) with one dot a pixel, (y2) with two each way. Of every frame that is
drawn the processor time of the page's main thread is taken, in which script, layout and the painting of the canvas are
done; the ratio is that of the 95th percentile to the sixtieth of a second that a frame has. After a jump what cannot be
painted in one frame is painted in the next. Where Chromium is missing one line says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel

from benchmarks._common import Line, show
from bertology.attention import view
from bertology.corpora import load_corpus
from bertology.encoders import load_encoder

FRAME = 1000 / 60
_STEPS = 40
# A frame in which nothing is drawn takes less, in milliseconds.
_EMPTY = 1.0
_VIEWS = (
    ("(x1) thumbnails, a frame while scrolling ÷ 16.7 ms", "model", "scrollTop", False),
    ("(x2) lines, a frame while scrolling ÷ 16.7 ms", "heads", "scrollTop", False),
    ("(x3) lines, a frame after a jump ÷ 16.7 ms", "heads", "scrollTop", True),
    ("(x4) one word, a frame while scrolling ÷ 16.7 ms", "word", "scrollLeft", False),
    ("(x5) a matrix, a frame while scrolling ÷ 16.7 ms", "matrix", "scrollTop", False),
)
_HOVERS = (
    ("(y1) a word pointed at, a frame ÷ 16.7 ms", 1),
    ("(y2) a word pointed at, four dots a pixel ÷ 16.7 ms", 2),
)
# Where the words in sight are, down the left column and then down the right one.
_WORDS = """() => {
    const stage = document.getElementById("stage");
    const { left, top } = stage.getBoundingClientRect();
    const columns = {};
    const lines = [];
    for (let y = 0; y < stage.clientHeight - 24; y += 4) {
        for (let x = 0; x < stage.clientWidth; x += 4) {
            const found = viewer.views.heads.hit(x, y);
            if (!found) continue;
            columns[found.side] ??= left + x + 3;
            if (lines.at(-1)?.word !== found.word && found.word > 1) lines.push({ word: found.word, y: top + y + 3 });
        }
    }
    return Object.values(columns).flatMap((x) => lines.map(({ y }) => [x, y]));
}"""
_POINTED = """async () => {
    do await new Promise(requestAnimationFrame); while (!("drawn" in document.documentElement.dataset));
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
}"""
_STEP = """async ([side, number, isJump]) => {
    const stage = document.getElementById("stage");
    const most = side === "scrollTop" ? stage.scrollHeight - stage.clientHeight : stage.scrollWidth - stage.clientWidth;
    // There and back again, so that every step moves.
    stage[side] = isJump ? (number * 7919) % most : Math.abs(((number * 100 + most) % (2 * Math.max(1, most))) - most);
    for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
}"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pieces", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    lines = run(pieces=args.pieces, repeats=args.repeats)
    if lines:
        show(lines)


def run(*, pieces: int, repeats: int) -> list[Line]:
    """The lines of the table; none where there is no browser."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if browser is None:
            print("benchmarks.viewer is skipped: it needs playwright (pip install 'bertology[dev]') and Chromium")
            return []
        path = write_page(Path(folder), pieces)
        size = path.stat().st_size / 1e6
        found = [look(browser, path) for _ in range(repeats)]
        even = write_page(Path(folder) / "even", pieces, spread=0.0)
        pointed = {what: [point(browser, even, dots) for _ in range(repeats)] for what, dots in _HOVERS}
    paints = [one["paint"][0] for one in found]
    lines = [
        Line(f"(v) page of 12 × 12 × {pieces} ÷ 10 MB", size / 10, (size / 10, size / 10), "≤ 1.0", f"{size:.1f} MB"),
        Line(
            "(w) first paint ÷ 1 s",
            statistics.median(paints) / 1000,
            (min(paints) / 1000, max(paints) / 1000),
            "≤ 1.0",
            f"{statistics.median(paints):.0f} ms",
        ),
    ]
    lines += [_line(what, [one[what] for one in found]) for what, *_ in _VIEWS]
    return [*lines, *(_line(what, runs) for what, runs in pointed.items())]


def _line(what: str, runs: list[list[float]]) -> Line:
    late = [statistics.quantiles(each, n=20)[-1] for each in runs]
    middle = statistics.median(frame for each in runs for frame in each)
    detail = f"median {middle:.1f} ms, 95th percentile {statistics.median(late):.1f} ms"
    ratio = statistics.median(late) / FRAME
    return Line(what, ratio, (min(late) / FRAME, max(late) / FRAME), "≤ 1.0", detail)


@contextmanager
def chromium() -> Iterator[Any]:
    """Headless Chromium that draws without a graphics card; None where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield None
        return
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    named = os.environ.get("BERTOLOGY_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as driver:
        path = named or driver.chromium.executable_path
        if not Path(path).exists():
            yield None
            return
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def write_page(folder: Path, pieces: int, *, spread: float = 0.1) -> Path:
    """The page of an encoder of random weights, of some standard deviation, on text of so many pieces."""
    folder.mkdir(exist_ok=True)
    tokenizer = load_encoder("pocket", device="cpu").tokenizer
    tokenizer.model_max_length = pieces
    with torch.random.fork_rng():
        torch.manual_seed(2)
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=96,
            num_hidden_layers=12,
            num_attention_heads=12,
            intermediate_size=96,
            max_position_embeddings=pieces,
            initializer_range=spread,
        )
        BertModel(config).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    words: list[str] = []
    left = pieces - 2
    for word in (word for sentence in load_corpus("pocket")["train"] for word in sentence.text.split()):
        left -= len(tokenizer(word, add_special_tokens=False)["input_ids"])
        if left < 0:
            break
        words.append(word)
    shown = view(" ".join(words), model=load_encoder(str(folder / "model"), device="cpu"), level="piece")
    return shown.save(folder / "view.html")


def look(browser: Any, path: Path) -> dict[str, list[float]]:
    """Milliseconds: to the first paint, and of each frame in each view."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    page.locator("html[data-drawn]").wait_for(state="attached")
    found = {"paint": [page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")]}
    for what, name, side, is_jump in _VIEWS:
        page.locator(f'[data-view="{name}"]').click()
        page.locator("html[data-drawn]").wait_for(state="attached")
        page.wait_for_timeout(300)
        browser.start_tracing(page=page, categories=["cc"])
        for number in range(_STEPS):
            page.evaluate(_STEP, [side, number, is_jump])
        found[what] = frames(browser.stop_tracing())
    page.close()
    return found


def point(browser: Any, path: Path, dots: int) -> list[float]:
    """Milliseconds of each frame while the pointer goes down both columns of words, each word until it is all drawn."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=dots)
    page.goto(path.as_uri())
    page.locator('[data-view="heads"]').click()
    page.locator("html[data-drawn]").wait_for(state="attached")
    page.wait_for_timeout(300)
    words = page.evaluate(_WORDS)
    browser.start_tracing(page=page, categories=["cc"])
    for x, y in words:
        page.mouse.move(x, y)
        page.evaluate(_POINTED)
    found = frames(browser.stop_tracing())
    page.close()
    return found


def frames(trace: bytes) -> list[float]:
    """Milliseconds of the main thread's processor for each frame of a trace in which something was drawn."""
    events = json.loads(trace)["traceEvents"]
    took = [one["tdur"] / 1000 for one in events if one["name"] == "ProxyMain::BeginMainFrame" and "tdur" in one]
    drawn = [time for time in took if time > _EMPTY]
    if len(drawn) < _STEPS // 2:
        raise RuntimeError(f"Chromium told of {len(drawn)} frames only: it names them otherwise than version 150 does")
    return drawn


if __name__ == "__main__":
    main()
