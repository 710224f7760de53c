"""Peak memory on a corpus and on ten times the corpus, and bytes a word on disk.

    python -m benchmarks.memory [--sentences 0] [--times 10] [--job extract] [--memory 256MB]

Each run is a process of its own that reads a CoNLL-U folder and extracts all layers (``--job extract``) or does the
whole main job without controls (``--job probe``) or with them (``--job controls``); its peak resident memory is what
the operating system reports of it. The larger corpus holds the sentences of the smaller one again and again. Every
run has the same memory to use.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._common import MODEL, Line, sample, show
from bertology._machine import MEMORY_VARIABLE
from bertology.corpora import Sentences, write_conllu

MEMORY = "256MB"
"""What every run may use: what it keeps of vectors is then the same for any corpus."""

_EXTRACT = """
import sys
from bertology.activations import Recipe, extract
from bertology.corpora import load_corpus
from bertology.encoders import load_encoder
text = load_corpus(sys.argv[1])["train"]
encoder = load_encoder(sys.argv[2], device="cpu")
entry = extract(lambda: encoder, text, recipe=Recipe(encoder.fingerprint, text.text_fingerprint), layers=range(7))
size = sum(path.stat().st_size for path in entry.folder.iterdir())
print(size / text.n_words)
"""
_PROBE = """
import sys
from bertology import probe
probe("pos", corpus=sys.argv[1], model=sys.argv[2], controls=(), progress=False)
print(0)
"""
_CONTROLS = _PROBE.replace("controls=(), ", "")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=0, help="0 for all of train")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--job", choices=["extract", "probe", "controls"], default="extract")
    parser.add_argument("--memory", default=MEMORY, help="what every run may use")
    args = parser.parse_args()
    show(run(args.sentences, args.times, args.job, args.memory))


def run(n_sentences: int, times: int, job: str, memory: str = MEMORY) -> list[Line]:
    """The lines of the table."""
    text = sample(n_sentences)
    held_out = text[: max(20, len(text) // 20)]
    with tempfile.TemporaryDirectory() as folder:
        found = {
            n: peak(
                {"extract": _EXTRACT, "probe": _PROBE, "controls": _CONTROLS}[job],
                write_corpus(Path(folder) / str(n), text, held_out, n),
                Path(folder) / f"c{n}",
                memory=memory,
            )
            for n in (1, times)
        }
    (small, _), (large, bytes_a_word) = found[1], found[times]
    ratio = large / small
    what = f"(d) peak memory of {job}, {times}× corpus ÷ corpus"
    lines = [
        Line(
            what,
            ratio,
            (ratio, ratio),
            "≤ 1.2" if job == "extract" else "≤ 1.3",
            f"{large / 1e6:.0f} MB ÷ {small / 1e6:.0f} MB",
        )
    ]
    if job == "extract":
        lines.append(
            Line("(e) bytes a word on disk", bytes_a_word, (bytes_a_word, bytes_a_word), "", "7 layers, float16")
        )
    return lines


def fit_peaks(code: str, what: str, n_sentences: int, times: int = 10) -> Line:
    """Peak memory of a process that only fits, on a larger corpus divided by that on the corpus.

    Args:
        code: what is run, once with ``extract`` after the corpus, so that vectors are there, then with ``fit``.
        what: it is called in the table.
        n_sentences: of the corpus.
        times: how much larger the larger one is.
    """
    text = sample(n_sentences)
    held_out = text[: max(20, len(text) // 20)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in (1, times):
            corpus, cache = write_corpus(Path(folder) / str(n), text, held_out, n), Path(folder) / f"c{n}"
            peak(code, corpus, cache, "extract")
            found[n], _ = peak(code, corpus, cache, "fit")
    ratio = found[times] / found[1]
    detail = f"{found[times] / 1e6:.0f} MB ÷ {found[1] / 1e6:.0f} MB"
    return Line(f"{what}, {times}× corpus ÷ corpus", ratio, (ratio, ratio), "≤ 1.2", detail)


def write_corpus(folder: Path, text: Sentences, held_out: Sentences, times: int) -> Path:
    """A CoNLL-U folder that holds ``text`` so many times, and what is held out."""
    folder.mkdir()
    write_conllu(folder / "x-ud-train.conllu", (sentence for _ in range(times) for sentence in text))
    write_conllu(folder / "x-ud-dev.conllu", held_out)
    write_conllu(folder / "x-ud-test.conllu", held_out)
    return folder


def peak(code: str, corpus: Path, cache: Path, *more: str, memory: str = MEMORY) -> tuple[int, float]:
    """Peak resident bytes of a process that runs ``code`` on a corpus and the encoder, and what it printed."""
    pipe_out, pipe_in = os.pipe()
    process = os.fork()
    if process == 0:
        # A child of its own, so that its children's peak is that of this one run.
        environment = {**os.environ, "BERTOLOGY_CACHE": str(cache), MEMORY_VARIABLE: memory}
        done = subprocess.run(
            [sys.executable, "-c", code, str(corpus), str(MODEL), *more],
            env=environment,
            capture_output=True,
            text=True,
        )
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        answer = f"{peak} {done.stdout.split()[-1]}" if done.returncode == 0 else f"failed: {done.stderr[-2000:]}"
        os.write(pipe_in, answer.encode())
        os._exit(0)
    os.waitpid(process, 0)
    answer = os.read(pipe_out, 1 << 16).decode()
    if answer.startswith("failed"):
        raise RuntimeError(answer)
    peak_text, printed = answer.split()
    return int(peak_text), float(printed)


if __name__ == "__main__":
    main()
