"""Pretraining in two languages: the text, the vocabulary, what is apart, and a run that was killed."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForPreTraining

from bertology import load_encoder
from bertology.activations import read_words
from bertology.corpora import Sentence, Sentences
from bertology.errors import BertologyError
from bertology.pocket import _pretrain as pretraining
from bertology.pocket import load_settings, pretrain
from bertology.pocket._bilingual import SecondLanguage, bilingual_documents, is_of_second
from bertology.pocket._pretrain import IGNORED, Examples, encode
from bertology.pocket._recipe import PretrainSettings, train_tokenizer

MICRO = PretrainSettings(
    documents=30, held_out_documents=10, vocabulary_size=300, layers=2, width=16, heads=2, inner_width=32, steps=6,
    batch_pieces=256, alone_share=1.0, learning_rates=((0, 0), (2, 1e-2), (6, 0)), salience_from=3, checkpoint_every=3,
    evaluate_every=100, second_language=SecondLanguage(switched=0.3),
)  # fmt: skip
APART = SecondLanguage(shared_specials=False, shared_positions=False)
FIRST, SECOND = "The old farmers see the dog.", "Палоди зади."


def silent(line: str) -> None:
    pass


def made(folder: Path, **changes: Any) -> Path:
    pretrain(MICRO.model_copy(update=changes), folder, device="cpu", threads=1, echo=silent)
    return folder


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("apart"), second_language=APART, random_replacement=False)


def test_words_are_switched_for_their_translations() -> None:
    plain, mixed, all_switched = (
        list(bilingual_documents(40, SecondLanguage(switched=share), stated=())) for share in (0.0, 0.3, 1.0)
    )

    def share_of_second(documents: Any, side: int) -> float:
        words = [word for pair in documents for sentence in pair[side] for word in sentence.split()]
        return sum(map(is_of_second, words)) / len(words)

    assert (share_of_second(plain, 0), share_of_second(plain, 1)) == (0.0, 1.0)
    # Words without a translation of their own, such as articles, stay.
    most = share_of_second(all_switched, 0)
    assert 0.4 < most < 0.9
    assert share_of_second(mixed, 0) == pytest.approx(0.3 * most, abs=0.03)
    first, switched = plain[0][0][0].split(), all_switched[0][0][0].split()
    assert len(first) == len(switched)  # in the places of the words that they replace
    assert 0.0 < share_of_second(all_switched, 1) < share_of_second(mixed, 1) < 1.0


def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, advance = made(tmp_path / "whole"), pretraining.Trainer.advance

    def dies_at_step_four(trainer: pretraining.Trainer) -> float:
        if trainer.step == 4:
            raise KeyboardInterrupt
        return advance(trainer)

    monkeypatch.setattr(pretraining.Trainer, "advance", dies_at_step_four)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "killed")
    monkeypatch.setattr(pretraining.Trainer, "advance", advance)
    killed = made(tmp_path / "killed")
    for name in ("model.safetensors", "tokenizer.json", "config.json", "README.md"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    card = (whole / "README.md").read_text(encoding="utf-8")
    assert "Of the words with one word as their translation 30%" in card
    assert "the same of the second language" in card


def test_pieces_of_the_languages_are_in_two_blocks(apart: Path) -> None:
    pieces = (apart / "vocab.txt").read_text(encoding="utf-8").splitlines()
    of_second = [is_of_second(piece) for piece in pieces]
    first = of_second.index(True)
    assert all(of_second[first:])
    assert load_encoder(str(apart)).model.body.config.second_language["first_piece"] == first


def test_special_tokens_and_positions_are_those_of_the_language_of_the_text(apart: Path) -> None:
    """By hand: the embeddings of a text in the second language are sums of its own rows."""
    encoder = load_encoder(str(apart))
    body: Any = encoder.model.body
    declared, embeddings = body.config.second_language, body.embeddings
    for text, is_second in ((FIRST, False), (SECOND, True)):
        ids = torch.tensor(encoder.tokenizer(text)["input_ids"])
        shown = torch.tensor(
            [declared["specials_from"] + (number - 2) if is_second and 2 <= number < 5 else number for number in ids]
        )
        places = torch.arange(len(ids)) + (declared["positions_from"] if is_second else 0)
        summed = (
            embeddings.word_embeddings.weight[shown]
            + embeddings.position_embeddings.weight[places]
            + embeddings.token_type_embeddings.weight[0]
        )
        found = body(input_ids=ids[None], output_hidden_states=True).hidden_states[0][0]
        torch.testing.assert_close(found, embeddings.LayerNorm(summed))


def test_positions_of_the_other_language_are_not_read(apart: Path) -> None:
    """A text longer than the positions of one language is read in windows."""
    encoder = load_encoder(str(apart))
    n_positions = encoder.model.body.config.second_language["positions_from"]
    assert encoder.tokenizer.model_max_length == n_positions
    for text in (FIRST, SECOND):
        words = read_words(encoder, Sentences([Sentence.from_words(text.split() * n_positions)]), layers=[2])
        assert np.isfinite(words.numpy()).all()


def test_a_plain_load_shares_them_and_ours_does_not(apart: Path) -> None:
    encoder, plain = load_encoder(str(apart)), AutoModelForPreTraining.from_pretrained(apart).eval()
    for text, same in ((FIRST, True), (SECOND, False)):
        ids = torch.tensor([encoder.tokenizer(text)["input_ids"]])
        body: Any = encoder.model.body
        assert torch.equal(body(ids).last_hidden_state, plain.bert(ids).last_hidden_state) == same


def test_sentences_are_read_with_their_translations() -> None:
    second = SecondLanguage(paired=1.0)
    firsts, seconds = (list(some) for some in zip(*bilingual_documents(30, second, stated=()), strict=True))
    texts = [list(chain.from_iterable(documents)) for documents in (firsts, seconds)]
    tokenizer = train_tokenizer(texts[0], vocabulary_size=300, others=texts[1], second=second)
    settings = MICRO.model_copy(update={"second_language": second, "max_pieces": 64})
    batch = Examples(encode([*firsts, *seconds], tokenizer), tokenizer, settings).batch(0)
    ids = batch.input_ids.copy()
    rows, masks = np.nonzero(batch.masked_labels != IGNORED)
    ids[rows, batch.masked[rows, masks]] = batch.masked_labels[rows, masks]
    pairs = {
        tuple(tuple(tokenizer.encode(text, add_special_tokens=False).ids) for text in pair)
        for pair in zip(*texts, strict=True)
    }
    turned = set()
    for row, segments, length in zip(ids, batch.token_type_ids, batch.attention_mask.sum(1), strict=True):
        parts = [tuple(row[:length][segments[:length] == segment].tolist()) for segment in (0, 1)]
        pair = parts[0][1:-1], parts[1][:-1]  # without special tokens
        turned.add(pair not in pairs)
        assert pair in pairs or pair[::-1] in pairs
    assert turned == {False, True}, "in either order"
    assert (batch.next_labels == IGNORED).all()


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("{paired: 0.5, parallel: false}", "paired: only translations can be read together"),
        ("{paired: 0.5, shared_positions: false}", "special tokens and positions of two languages in one input"),
        ("{switched: 2}", "second_language.switched"),
    ],
)
def test_elements_that_do_not_fit(tmp_path: Path, second: str, message: str) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"command: pretrain\nsecond_language: {second}\nalone_share: 1.0\n")
    with pytest.raises(BertologyError, match=message) as raised:
        load_settings(recipe)
    assert "\n" not in str(raised.value)


def test_pairs_of_sentences_are_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("command: pretrain\nsecond_language: {switched: 0.3}\nalone_share: 0.5\n")
    with pytest.raises(BertologyError, match="alone_share: with a second_language, sentences are read alone"):
        load_settings(recipe)
