"""Patching: a map of layers by places of many pairs, beside one forward pass for each of its cells.

    python -m benchmarks.causal [--pairs 100] [--repeats 3]

Pairs are of the agreement of a verb with its subject across a prepositional phrase, all words of equally many pieces.
The first line is :func:`bertology.causal.patch` on every layer and word, divided by one pass of the model of
transformers for each layer and place of each pair, with a hook that exchanges the state there. The peer of the second
line has one such pass over all pairs at once, which takes pairs of one length.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence

import torch

from benchmarks._common import MODEL, Line, show, side_by_side
from bertology.causal import PatchPair, patch
from bertology.encoders import Encoder, load_encoder

_NOUNS = ("author", "pilot", "surgeon", "farmer", "manager", "customer", "officer", "teacher", "senator", "consultant")
_OTHERS = ("guard", "chef", "architect", "skater", "dancer", "minister", "assistant", "executive", "parent", "doctor")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    show(run(pairs=args.pairs, repeats=args.repeats))


def run(*, pairs: int = 100, repeats: int = 3) -> list[Line]:
    """Both lines."""
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
    ]


def made_pairs(number: int) -> list[PatchPair]:
    """Pairs that differ in the number of the subject."""
    made = itertools.product(_NOUNS, _OTHERS)
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
