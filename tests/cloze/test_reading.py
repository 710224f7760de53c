"""One prompt through the layers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bertology.cloze import Prompt, distribution, read_cloze, spell_pieces
from bertology.encoders import Encoder
from bertology.errors import ClozeError

Encoders = Callable[[str], Encoder]
PROMPT = Prompt("The quick {mask} fox.")


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_the_best_of_the_deepest_layer_are_followed(encoder: Encoders, family: str) -> None:
    own = encoder(family)
    reading = read_cloze(own, PROMPT, top=4)
    whole = distribution(own, PROMPT, layers=range(4))
    entries = np.argsort(-whole.log_probs[-1, 0], kind="stable")[:4]
    assert reading.layers == (0, 1, 2, 3)
    assert reading.words == tuple(spell_pieces(own, entries.tolist()))
    np.testing.assert_allclose(reading.log_probs, whole.log_probs[:, 0, entries], atol=1e-6)
    assert reading.ranks is not None
    assert reading.ranks[-1].tolist() == [1, 2, 3, 4]
    assert reading.first == tuple(spell_pieces(own, whole.log_probs[:, 0].argmax(-1).tolist()))
    np.testing.assert_allclose(reading.first_log_probs, whole.log_probs[:, 0].max(-1), atol=1e-6)
    earlier = read_cloze(own, PROMPT, layers=[2, 0], top=4)
    assert earlier.layers == (0, 2)
    assert earlier.ranks is not None
    assert earlier.ranks[-1].tolist() == [1, 2, 3, 4]


def test_candidates_are_followed_instead(encoder: Encoders) -> None:
    own = encoder("bert")
    asked = Prompt(PROMPT.text, ("a", "unbelievably", "a", " a "))
    reading = read_cloze(own, asked, layers=[1, 3])
    assert reading.words == ("a",)
    entry = own.tokenizer.get_vocab()["a"]
    expected = distribution(own, PROMPT, layers=[1, 3]).log_probs[:, 0, entry]
    np.testing.assert_allclose(reading.log_probs[:, 0], expected, atol=1e-5)
    assert [item.candidate for item in reading.excluded] == ["unbelievably"]
    several = read_cloze(own, asked, form="within_word_l2r")
    assert several.words == ("a", "unbelievably")
    assert several.ranks is None
    assert not several.excluded


def test_spelling(encoder: Encoders) -> None:
    """A word without the mark of its beginning, a piece inside a word as the model has it."""
    bert, roberta, albert = (encoder(family) for family in ("bert", "roberta", "albert"))
    inner = next(piece for piece in sorted(bert.tokenizer.get_vocab()) if piece.startswith("##"))
    assert spell_pieces(bert, [bert.tokenizer.get_vocab()[inner], bert.mask_id]) == [inner, "[MASK]"]
    begun = next(p for p in sorted(roberta.tokenizer.get_vocab()) if p[0] == "Ġ" and p[1:].isalpha())
    assert spell_pieces(roberta, [roberta.tokenizer.get_vocab()[begun]]) == [begun[1:]]
    begun = next(p for p in sorted(albert.tokenizer.get_vocab()) if p[0] == "▁" and p[1:].isalpha())
    assert spell_pieces(albert, [albert.tokenizer.get_vocab()[begun]]) == [begun[1:]]
    assert all(text for own in (bert, roberta, albert) for text in spell_pieces(own, range(own.masked_head.n_entries)))


@pytest.mark.parametrize(
    ("prompt", "top", "message"),
    [
        (Prompt("no hole"), 5, "no mask in it; write {mask} where"),
        (Prompt("{mask} and {mask}"), 5, "2 masks in '{mask} and {mask}': one is read at a time"),
        (PROMPT, 0, "the best 0 are asked for: give a number from 1 to"),
        (PROMPT, 10**6, "the best 1000000 are asked for: give a number from 1 to"),
        (Prompt("the day " * 60 + "{mask}"), 5, "too long: 123 pieces, the model takes 80; shorten it"),
        (Prompt(PROMPT.text, ("unbelievably", "ʘ")), 5, "no candidate is left: 'unbelievably' not in the vocabulary"),
        (Prompt("{mask}\udfff"), 5, "half of a surrogate pair"),
    ],
)
def test_mistakes(encoder: Encoders, prompt: Prompt, top: int, message: str) -> None:
    with pytest.raises(ClozeError) as raised:
        read_cloze(encoder("bert"), prompt, top=top)
    assert message in str(raised.value)
