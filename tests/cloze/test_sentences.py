"""Pseudo-log-likelihoods against plain loops, and against minicons where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bertology.cloze import Prompt, _prompts, ask, pseudo_log_likelihood
from bertology.cloze import _ask as questions
from bertology.encoders import Encoder
from bertology.errors import ClozeError, ModelError, NameNotFoundError
from tests.cloze.conftest import FAMILIES

Encoders = Callable[[str], Encoder]
ByHand = Callable[..., list[float]]
SENTENCES = (
    "The quick brown fox doesn't jump over the lazy dogs.",
    "Unbelievably naïve cafés!",
    "The quick brown foxes doesn't jump over the lazy dogs.",
)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", ["original", "within_word_l2r"])
def test_by_hand(encoder: Encoders, by_hand: ByHand, family: str, form: Any) -> None:
    ours = encoder(family)
    scores = pseudo_log_likelihood(ours, SENTENCES[1:], form=form)
    assert scores.form == form
    for number, text in enumerate(SENTENCES[1:]):
        encoded = ours.tokenizer.backend_tokenizer.encode(text)
        inside = (ours.n_prefix, len(encoded.ids) - ours.n_suffix)
        words = encoded.word_ids if form == "within_word_l2r" else []
        expected = by_hand(family, encoded.ids, *inside, ours.mask_id, words)
        pieces = slice(*scores.piece_starts[number : number + 2])
        np.testing.assert_allclose(scores.piece_log_probs[0, pieces], expected, atol=1e-4)
        assert scores.piece_ids[pieces].tolist() == encoded.ids[slice(*inside)]
        assert scores.totals[0, number] == pytest.approx(sum(expected), abs=1e-4)


def test_a_word_gives_itself_away_unless_its_later_pieces_are_masked(encoder: Encoders) -> None:
    ours = encoder("bert")
    found = [pseudo_log_likelihood(ours, SENTENCES, form=form) for form in ("original", "within_word_l2r")]
    encoded = ours.tokenizer.backend_tokenizer.encode(SENTENCES[1])
    words = encoded.word_ids[1:-1]
    pieces = slice(*found[0].piece_starts[1:3])
    same = np.isclose(*(scores.piece_log_probs[0, pieces] for scores in found), atol=1e-6)
    last = [place + 1 == len(words) or words[place + 1] != word for place, word in enumerate(words)]
    assert not all(last)
    assert same.tolist() == last


def test_copies_that_are_equal_are_read_once(encoder: Encoders) -> None:
    ours = encoder("bert")
    few = ("the quick brown fox", "the quick lazy fox", "the quick brown fox")
    lengths = [len(ours.tokenizer(text)["input_ids"]) - 2 for text in few]
    cut = [ours.tokenizer(text)["input_ids"] for text in few[:2]]
    scores = pseudo_log_likelihood(ours, few)
    assert scores.n_pieces.tolist() == lengths
    copies = {(*ids[:p], ours.mask_id, *ids[p + 1 :]) for ids in cut for p in range(1, len(ids) - 1)}
    assert scores.n_inputs == len(copies)
    assert scores.totals[0, 0] == scores.totals[0, 2]
    pair = pseudo_log_likelihood(ours, ["the fox", "day fox"])
    assert pair.n_inputs < pair.n_pieces.sum()


@pytest.mark.parametrize("form", ["original", "within_word_l2r"])
def test_batches_do_not_matter(encoder: Encoders, form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = encoder("roberta")
    together = pseudo_log_likelihood(ours, SENTENCES, form=form, layers=[1, 3])
    alone = [pseudo_log_likelihood(ours, [text], form=form, layers=[1, 3], pieces=1).totals for text in SENTENCES]
    np.testing.assert_allclose(together.totals, np.concatenate(alone, axis=1), atol=1e-4)
    monkeypatch.setattr(questions, "_INPUTS_AT_ONCE", 5)
    monkeypatch.setattr(_prompts, "_TEXTS_AT_ONCE", 2)
    parts = pseudo_log_likelihood(ours, SENTENCES, form=form, layers=[1, 3])
    np.testing.assert_allclose(parts.totals, together.totals, atol=1e-4)


def test_each_layer_is_what_a_prompt_finds_there(encoder: Encoders) -> None:
    ours = encoder("bert")
    scores = pseudo_log_likelihood(ours, ["the day"], layers=range(4))
    assert scores.layers == (0, 1, 2, 3)
    first = ask(ours, [Prompt("{mask} day", ("the",))], layers=range(4), form="original")
    second = ask(ours, [Prompt("the {mask}", ("day",))], layers=range(4), form="original")
    np.testing.assert_allclose(scores.totals, first.values + second.values, atol=1e-5)


def test_a_tokenizer_that_someone_made_pad_and_cut(encoder: Encoders) -> None:
    ours = encoder("bert")
    before = pseudo_log_likelihood(ours, SENTENCES)
    ours.tokenizer(list(SENTENCES), padding=True, truncation=True, max_length=9)
    after = pseudo_log_likelihood(ours, SENTENCES)
    np.testing.assert_array_equal(after.totals, before.totals)


def test_sentences_that_cannot_be_read(encoder: Encoders) -> None:
    ours = encoder("bert")
    texts = ["", "the day", "the [MASK] day", "the day " * 60, "ʘ day", "the day"]
    scores = pseudo_log_likelihood(ours, texts)
    assert np.isnan(scores.totals[0]).tolist() == [True, False, True, True, False, False]
    assert [(item.item, item.reason) for item in scores.excluded] == [
        (0, "the tokenizer maps it to nothing"),
        (2, "it spells a special token, [MASK]"),
        (3, "too long: 122 pieces, the model takes 80"),
    ]
    assert scores.n_unknown.tolist() == [0, 0, 0, 0, 1, 0]
    nothing = pseudo_log_likelihood(ours, ["", " "])
    assert np.isnan(nothing.totals).all()
    assert len(nothing.excluded) == 2


@pytest.mark.parametrize(
    ("texts", "form", "error", "message"),
    [
        ([], "original", ClozeError, "no sentence: give at least one"),
        (["a"], "one_piece", ClozeError, "scored as original or within_word_l2r"),
        (["a"], "l2r", NameNotFoundError, "unknown form of answers 'l2r'"),
        (["\ud800"], "original", ClozeError, "half of a surrogate pair"),
    ],
)
def test_mistakes(encoder: Encoders, texts: list[str], form: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pseudo_log_likelihood(encoder("bert"), texts, form=form)


def test_a_model_without_the_head(encoder: Encoders) -> None:
    with pytest.raises(ModelError, match="no masked-LM head"):
        pseudo_log_likelihood(encoder("bart"), ["a day"])
