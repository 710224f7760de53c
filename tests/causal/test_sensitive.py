"""Minimal pairs as texts to patch: the masked word by brute force, exact identities, and pairs that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bertology.causal import PatchPair, patch, sensitive_pairs
from bertology.encoders import Encoder
from bertology.errors import ClozeError
from bertology.pocket import agreement_items

GOOD, BAD = "The guards near the dog are open.", "The guards near the dog is open."


def some_pairs(number: int) -> list[tuple[str, str]]:
    items = agreement_items()[:number]
    return [(item.text.replace("{mask}", item.answer), item.text.replace("{mask}", item.rivals[0])) for item in items]


def log_probability(encoder: Encoder, text: str, word: str) -> float:
    model, tokenizer = encoder.model.with_head, encoder.tokenizer
    assert model is not None
    inputs = tokenizer(text, return_tensors="pt")
    place = int((inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0])
    (piece,) = tokenizer(f"a {word}", add_special_tokens=False)["input_ids"][1:]
    with torch.inference_mode():
        return float(model(**inputs).logits[0, place].log_softmax(0)[piece])


def test_the_word_that_falls_most_is_masked(encoder: Encoder) -> None:
    found = sensitive_pairs(encoder, [(GOOD, BAD)])
    (pair,), (fall,) = found.pairs, found.falls
    falls = {}
    for word in ("The", "guards", "near", "the", "dog", "open"):
        masked = [
            text.replace(f"{word} ", "[MASK] ", 1).replace(" open.", f" {'[MASK]' if word == 'open' else 'open'}.")
            for text in (GOOD, BAD)
        ]
        falls[word] = log_probability(encoder, masked[0], word) - log_probability(encoder, masked[1], word)
    assert pair.good == max(falls, key=falls.__getitem__) == "guards"
    assert fall == pytest.approx(falls["guards"], abs=1e-4)
    assert found.rises == pytest.approx((max(0, -min(falls.values())),), abs=1e-4)
    assert (pair.text, pair.bad) == ("The {mask} near the dog are open.", "")
    assert pair.places == ("before", "mask", "between", "between", "between", "changed", "after", "after")


def test_exact_identities(encoder: Encoder) -> None:
    """At the embeddings the words that differ are all and others nothing; all places are the other text; the end."""
    found = sensitive_pairs(encoder, some_pairs(30))
    effects = patch(encoder, found.pairs, by_word=False)
    of_place = dict(zip(effects.places, effects.effects.T.tolist(), strict=True))
    assert of_place["all"] == pytest.approx([1] * (encoder.n_layers + 1), abs=1e-5)
    assert of_place["changed"][0] == pytest.approx(1, abs=1e-5)
    assert of_place["mask"][-1] == pytest.approx(1, abs=1e-5)
    assert all(abs(of_place[name][0]) < 1e-5 for name in of_place if name not in ("all", "changed"))
    np.testing.assert_allclose(effects.whole, found.falls, atol=1e-4)
    assert (effects.whole > 0).all()


def test_the_log_probability_of_one_word_is_that_of_a_plain_hook(encoder: Encoder) -> None:
    pair = PatchPair("The [MASK] near the dog are open.", "The [MASK] near the dog is open.", "guards")
    found = patch(encoder, pair, layers=[2])
    model = encoder.model.with_head
    assert model is not None
    kept: list[torch.Tensor] = []
    block = model.base_model.encoder.layer[1]

    def exchange(module: object, args: object, output: torch.Tensor) -> torch.Tensor:
        changed = output.clone()
        changed[:, 6] = kept[0][:, 6]
        return changed

    handle = block.register_forward_hook(lambda module, args, output: kept.append(output.clone()))
    source = log_probability(encoder, pair.text, "guards")
    handle.remove()
    base = log_probability(encoder, pair.other, "guards")
    handle = block.register_forward_hook(exchange)
    patched = log_probability(encoder, pair.other, "guards")
    handle.remove()
    assert found.changes[0, found.places.index("6 are/is"), 0] == pytest.approx(patched - base, abs=1e-5)
    assert found.whole[0] == pytest.approx(source - base, abs=1e-5)


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        (GOOD, "The guards near the dog open.", "different numbers of words"),
        (GOOD, GOOD, "the same"),
        (GOOD, "The guard near the dog is open.", "several places"),
        ("guard is", "guards is", "less probable in the ungrammatical"),
        ("bxqzw is", "bxqzw are", "single piece"),
    ],
)
def test_pairs_that_are_left_out_are_listed_with_the_reason(encoder: Encoder, good: str, bad: str, reason: str) -> None:
    if reason.startswith("less"):  # of a pair with one shared word one of both orders falls
        good, bad = (good, bad) if not sensitive_pairs(encoder, [(good, bad)]).pairs else (bad, good)
    found = sensitive_pairs(encoder, [(GOOD, BAD), (good, bad)])
    assert len(found.pairs) == 1
    ((number, why),) = found.excluded
    assert number == 1
    assert reason in why


def test_one_word_and_two_are_not_patched_together(encoder: Encoder) -> None:
    two = PatchPair("The guards [MASK] open.", "The guard [MASK] open.", "are", "is")
    one = PatchPair("The [MASK] are open.", "The [MASK] is open.", "guards")
    with pytest.raises(ClozeError, match="one word and with two"):
        patch(encoder, [one, two])
    with pytest.raises(ClozeError, match="no pair"):
        sensitive_pairs(encoder, [])
