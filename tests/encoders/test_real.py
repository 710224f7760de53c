"""The real encoder on real treebanks: every word has pieces or is listed with its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from bertology.corpora import Sentence, Sentences, load_corpus
from bertology.encoders import Encoder, load_encoder

TREEBANKS = ("ud_english_ewt", "ud_english_pud", "ud_french_sequoia", "ud_german_gsd", "ud_spanish_gsd")


@pytest.fixture(scope="module")
def real(real_model: Path) -> Encoder:
    return load_encoder(str(real_model), device="cpu")


def check_nothing_is_lost(encoder: Encoder, sentences: Sentences) -> None:
    """No word without pieces goes unlisted, and words with pieces have those that spell them."""
    pieces = encoder.tokenize(sentences)
    assert pieces.n_words == sentences.n_words
    read = pieces.word_window >= 0
    listed = np.zeros(pieces.n_words, dtype=bool)
    listed[[word.word for word in pieces.skipped]] = True
    np.testing.assert_array_equal(listed, ~read)
    assert all(word.reason for word in pieces.skipped)
    assert (pieces.word_last[read] > pieces.word_first[read]).all()
    assert (pieces.word_first[read] >= 1).all()
    assert (pieces.word_last[read] < pieces.window_lengths[pieces.word_window[read]]).all()
    sentence_of_word = np.repeat(np.arange(len(sentences)), np.diff(sentences.starts))
    np.testing.assert_array_equal(pieces.window_sentence[pieces.word_window[read]], sentence_of_word[read])
    check_spelling(encoder, sentences, pieces.ids, pieces.window_starts[pieces.word_window], pieces.word_first, read)


def check_spelling(
    encoder: Encoder,
    sentences: Sentences,
    ids: np.ndarray,
    window_starts: np.ndarray,
    first: np.ndarray,
    read: np.ndarray,
) -> None:
    """Words that stand alone between spaces begin with their first piece."""
    spelled = encoder.tokenizer.convert_ids_to_tokens(list(range(len(encoder.tokenizer))))
    checked = 0
    for number in range(0, len(sentences), 7):
        text = sentences.text(number)
        for word in range(int(sentences.starts[number]), int(sentences.starts[number + 1])):
            start, end = sentences.char_spans[word].tolist()
            form = text[start:end].lower()
            alone = (start == 0 or text[start - 1] == " ") and (end == len(text) or text[end] == " ")
            if alone and form.isascii() and form.isalpha() and read[word]:
                piece = spelled[ids[window_starts[word] + first[word]]]
                assert form.startswith(piece), (sentences.id(number), form, piece)
                checked += 1
    assert checked > len(sentences)


@pytest.mark.parametrize("name", TREEBANKS)
def test_every_word_of_a_treebank(name: str, real: Encoder, real_data: Callable[[str], Path]) -> None:
    corpus = load_corpus(real_data(name))
    for split in corpus.splits:
        check_nothing_is_lost(real, corpus[split])


@pytest.fixture(scope="module")
def varied(real_data: Callable[[str], Path]) -> list[Sentence]:
    """Sentences of three languages."""
    files = ("ud_english_pud/en_pud-ud-test", "ud_french_sequoia/fr_sequoia-ud-test", "ud_german_gsd/de_gsd-ud-test")
    return [sentence for name in files for sentence in load_corpus(real_data(f"{name}.conllu"))["test"][:40]]


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "xlm-roberta", "t5"])
def test_ranges_equal_brute_force(
    name: str,
    encoder: Callable[[str], Encoder],
    overlaps: Callable[..., list[list[int]]],
    varied: list[Sentence],
) -> None:
    """Treebank sentences under each kind of tokenizer, against a search through all pairs of words and pieces."""
    own = encoder(name)
    pieces = own.tokenize(varied, max_pieces=10_000)
    assert pieces.window_sentence.tolist() == list(range(len(varied)))
    found = [places for sentence in varied for places in overlaps(own.tokenizer, sentence)]
    expected = [(places[0], places[-1] + 1) if places else (0, 0) for places in found]
    assert list(zip(pieces.word_first.tolist(), pieces.word_last.tolist(), strict=True)) == expected
    assert [word.word for word in pieces.skipped] == [number for number, places in enumerate(found) if not places]


def test_contractions_as_bert_reads_them(real: Encoder) -> None:
    words = ["I", "do", "n't", "think", "they", "'d", "care", "."]
    spaces = [True, False, True, True, False, True, False, False]
    pieces = real.tokenize([Sentence.from_words(words, space_after=spaces)])
    tokens = real.tokenizer.convert_ids_to_tokens(pieces.window(0).tolist())
    own = [tokens[a:b] for a, b in zip(pieces.word_first, pieces.word_last, strict=True)]
    assert own[:4] == [["i"], ["don"], ["don", "'", "t"], ["think"]]
    assert own[4:] == [["they"], ["'", "d"], ["care"], ["."]]


def test_hidden_states_and_logits_of_the_real_model(real: Encoder, real_model: Path) -> None:
    model = transformers.AutoModelForMaskedLM.from_pretrained(real_model, dtype=torch.float32).eval()
    encoded = real.tokenizer(["The capital of France is [MASK].", "It rained."], padding=True, return_tensors="pt")
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    with torch.no_grad():
        expected = model(ids, attention_mask=mask, output_hidden_states=True)
    states = real.hidden_states(ids, mask, layers=range(7))
    for layer, state in states.items():
        torch.testing.assert_close(state[mask == 1], expected.hidden_states[layer][mask == 1], rtol=1e-5, atol=1e-5)
    place = (ids == real.mask_id).nonzero()
    logits = real.masked_logits(ids, place, attention_mask=mask)[6]
    torch.testing.assert_close(logits, expected.logits[ids == real.mask_id], rtol=1e-5, atol=1e-4)
    best = real.tokenizer.convert_ids_to_tokens(logits[0].topk(20).indices.tolist())
    assert "paris" in best
