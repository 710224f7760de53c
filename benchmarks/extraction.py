"""Extraction beside a bare forward pass, the machine's own limit, and NeuroX.

    python -m benchmarks.extraction [--sentences 3000] [--repeats 3] [--dtype float32]

(a) is tokenizing, aligning, pooling and storing the vectors of all layers, divided by Hugging Face's bare forward
of the same text in length-sorted batches of 32 padded to their longest (tokenized beforehand). (b) divides by the time
that the forward's own matrix products take at the rate PyTorch's ``@`` reaches on their shapes; where oneDNN is faster,
extraction multiplies by that. NeuroX joins in where it is installed (``pip install --no-deps neurox``), on fewer
sentences, since it reads them one by one.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks._common import MODEL, Line, sample, show, side_by_side
from bertology.activations import Recipe, extract
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder

_NEUROX_SENTENCES = 300


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=3000, help="0 for all of train")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    show(run(args.sentences, args.repeats, args.dtype))


def run(n_sentences: int, repeats: int, dtype: str) -> list[Line]:
    """The lines of the table."""
    text = sample(n_sentences)
    encoder = load_encoder(str(MODEL), dtype=dtype, device="cpu")
    ours = store(encoder, text)
    bare = bare_forward(encoder, text)
    for warm in (store(encoder, text[:200]), bare_forward(encoder, text[:200])):
        warm()
    aims = ("≤ 0.7", "≤ 0.35")
    lines = [
        side_by_side(
            f"(a) extraction to the store ÷ bare {dtype} forward",
            ours,
            bare,
            repeats=repeats,
            aim=aims[dtype != "float32"],
        ),
        side_by_side(
            "(b) extraction to the store ÷ its matrix products alone",
            ours,
            matrix_products(encoder, text),
            repeats=repeats,
            aim="≤ 1.2" if dtype == "float32" else "",
        ),
    ]
    if importlib.util.find_spec("neurox"):
        few = text[:_NEUROX_SENTENCES]
        lines.append(
            side_by_side("extraction to the store ÷ NeuroX", store(encoder, few), neurox(few), repeats=1, aim="")
        )
    return lines


def store(encoder: Encoder, text: Sentences) -> Callable[[], None]:
    """All layers of ``text`` into an empty store."""

    def job() -> None:
        with own_cache():
            recipe = Recipe(encoder.fingerprint, text.text_fingerprint, compute_dtype=encoder.dtype)
            extract(lambda: encoder, text, recipe=recipe, layers=range(encoder.n_layers + 1))

    return job


def bare_forward(encoder: Encoder, text: Sentences) -> Callable[[], None]:
    """Length-sorted batches of 32, padded to their longest, through the model and thrown away."""
    body: Any = encoder.model.body
    pieces = encoder.tokenizer([text.text(i) for i in range(len(text))])["input_ids"]
    pieces.sort(key=len)

    def job() -> None:
        with torch.inference_mode():
            for start in range(0, len(pieces), 32):
                batch = encoder.tokenizer.pad({"input_ids": pieces[start : start + 32]}, return_tensors="pt")
                body(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])

    return job


def matrix_products(encoder: Encoder, text: Sentences) -> Callable[[], None]:
    """As long as the linear maps of all blocks take for these pieces, at the rate of full batches."""
    inner = encoder.model.body.config.intermediate_size  # type: ignore[union-attr]
    dtype = getattr(torch, encoder.dtype)
    rows = 2048
    x, wide = torch.randn(rows, encoder.dim, dtype=dtype), torch.randn(rows, inner, dtype=dtype)
    square, up = torch.randn(encoder.dim, encoder.dim, dtype=dtype), torch.randn(encoder.dim, inner, dtype=dtype)
    n_pieces = len(encoder.tokenize(text).ids)

    def job() -> None:
        with torch.inference_mode():
            for _ in range(encoder.n_layers * n_pieces // rows):
                for _ in range(4):
                    x @ square
                x @ up
                wide @ up.T

    return job


def neurox(text: Sentences) -> Callable[[], None]:
    """NeuroX's own extraction of all layers into HDF5, loading its model included."""

    def job() -> None:
        from neurox.data.extraction.transformers_extractor import extract_representations

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            lines = "\n".join(" ".join(sentence.words) for sentence in text)
            source = Path(folder) / "text.txt"
            source.write_text(lines + "\n", encoding="utf-8")
            target = str(Path(folder) / "out.hdf5")
            extract_representations(str(MODEL), str(source), target, aggregation="average", output_type="hdf5")

    return job


@contextlib.contextmanager
def own_cache() -> Any:
    """An empty cache for one job."""
    before = os.environ.get("BERTOLOGY_CACHE")
    folder = tempfile.mkdtemp(prefix="bertology-benchmark-")
    os.environ["BERTOLOGY_CACHE"] = folder
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)
        os.environ.pop("BERTOLOGY_CACHE")
        if before is not None:
            os.environ["BERTOLOGY_CACHE"] = before


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"({time.perf_counter() - started:.0f} s in all)")
