"""Patching: a map of layers by places of many pairs, beside one forward pass for each of its cells; and its memory.

    python -m benchmarks.causal [--pairs 100] [--repeats 3] [--few 40]

Pairs are of the agreement of a verb with its subject across a prepositional phrase, all words of equally many pieces.
The first line is :func:`bertology.causal.patch` on every layer and word, divided by one pass of the model of
transformers for each layer and place of each pair, with a hook that exchanges the state there. The peer of the second
line has one such pass over all pairs at once, which takes pairs of one length. The third line is the peak memory of a
process that patches ten times as many pairs, divided by that of one that patches a few.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks._common import MODEL, Line, show, side_by_side
from benchmarks.memory import peak
from bertology.causal import PatchPair, patch
from bertology.encoders import Encoder, load_encoder

_NOUNS = ("author", "pilot", "surgeon", "farmer", "manager", "customer", "officer", "teacher", "senator", "consultant")
_PATCH = """
import sys
from benchmarks.causal import made_pairs
from bertology.causal import patch
from bertology.encoders import load_encoder
print(len(patch(load_encoder(sys.argv[2], device="cpu"), made_pairs(int(sys.argv[1])), by_word=True).whole))
"""
_OTHERS = ("guard", "chef", "architect", "skater", "dancer", "minister", "assistant", "executive", "parent", "doctor")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--few", type=int, default=40, help="pairs, and ten times as many, whose memory is compared")
    args = parser.parse_args()
    show(run(pairs=args.pairs, repeats=args.repeats, few=args.few))


def run(*, pairs: int = 100, repeats: int = 3, few: int = 40) -> list[Line]:
    """All lines."""
    encoder = load_encoder(str(MODEL))
    some = made_pairs(pairs)
    return [
        side_by_side(
            f"map of {len(some)} pairs ÷ a pass for each cell",
            lambda: patch(encoder, some, by_word=True),
            lambda: [one_by_one(encoder, pair) for pair in some],
            repeats=repeats,
            aim="≤ 0.25",
        ),
        side_by_side(
            f"map of {len(some)} pairs ÷ a pass for each cell over all pairs",
            lambda: patch(encoder, some, by_word=True),
            lambda: loop(encoder, some),
            repeats=repeats,
            aim="",
        ),
        memory(few),
    ]


def memory(few: int, times: int = 10) -> Line:
    """Peak memory of patching many pairs, divided by that of a few."""
    with tempfile.TemporaryDirectory() as cache:
        small, large = (peak(_PATCH, Path(str(n)), Path(cache))[0] for n in (few, times * few))
    ratio, detail = large / small, f"{large / 1e6:.0f} MB ÷ {small / 1e6:.0f} MB"
    return Line(f"peak memory of {times * few} pairs ÷ {few}", ratio, (ratio, ratio), "≤ 1.2", detail)


def made_pairs(number: int) -> list[PatchPair]:
    """Pairs that differ in the number of the subject, again and again beyond a hundred."""
    made = itertools.cycle(itertools.product(_NOUNS, _OTHERS))
    texts = (
        ("The {}s near the {} [MASK] here today.".format(*two), "The {} near the {} [MASK] here today.".format(*two))
        for two in made
    )
    return [PatchPair(text, other, "are", "is") for text, other in itertools.islice(texts, number)]


def one_by_one(encoder: Encoder, pair: PatchPair) -> None:
    """Every cell of the map of one pair in a pass of its own."""
    loop(encoder, [pair])


def loop(encoder: Encoder, pairs: Sequence[PatchPair]) -> None:
    """Every cell of the map in a pass of its own, over pairs of equal length."""
    model, tokenizer = encoder.model.with_head, encoder.tokenizer
    assert model is not None
    texts = ([pair.text for pair in pairs], [pair.other for pair in pairs])
    clean, other = (tokenizer(some, return_tensors="pt") for some in texts)
    blocks = (model.base_model.embeddings, *model.base_model.encoder.layer)
    with torch.inference_mode():
        states = model(**clean, output_hidden_states=True).hidden_states
        model(**other)
        for layer, block in enumerate(blocks):
            for place in range(clean["input_ids"].shape[1]):

                def exchange(
                    module: object, args: object, output: torch.Tensor, layer: int = layer, place: int = place
                ) -> torch.Tensor:
                    output[:, place] = states[layer][:, place]
                    return output

                handle = block.register_forward_hook(exchange)
                model(**other)
                handle.remove()


if __name__ == "__main__":
    main()
