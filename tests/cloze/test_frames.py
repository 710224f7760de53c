"""Scores of prompts and sentences as data frames, against transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bertology import Encoder, load_encoder
from bertology.cloze import Prompt, ask, pseudo_log_likelihood
from bertology.errors import NameNotFoundError

SENTENCES = ["The dogs saw a cat.", "", "A cat."]


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert))


@pytest.fixture(scope="module")
def log_probs(tiny_bert: Path) -> Any:
    """The log-probabilities at the masks of a text, and the numbers of words, as transformers gives them."""
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_bert), AutoModelForMaskedLM.from_pretrained(tiny_bert).eval()

    @torch.no_grad()
    def at(ids: list[int], place: int) -> np.ndarray:
        ids = [tokenizer.mask_token_id if number == place else entry for number, entry in enumerate(ids)]
        return np.asarray(model(torch.tensor([ids])).logits[0, place].double().log_softmax(-1).numpy())

    return tokenizer, at


def test_candidates_of_prompts(encoder: Encoder, log_probs: Any) -> None:
    tokenizer, at = log_probs
    prompts = [Prompt("The {mask} saw a cat.", ("dogs", "cat", "zzzz")), Prompt("A {mask}.")]
    frame = ask(encoder, prompts, ranks=True, top=3, layers=[1, 3]).to_pandas()
    assert list(frame.columns) == ["prompt", "text", "mask", "layer", "candidate", "log_prob", "rank", "reason"]
    assert len(frame) == 2 * (3 + 3)
    last = frame[frame["layer"] == 3]
    for number, prompt in enumerate(prompts):
        ids = tokenizer(prompt.written("[MASK]"))["input_ids"]
        expected = at(ids, ids.index(tokenizer.mask_token_id))
        for row in last[(last["prompt"] == number) & last["reason"].isna()].itertuples():
            entry = tokenizer.convert_tokens_to_ids(row.candidate)
            assert row.log_prob == pytest.approx(expected[entry], abs=1e-4)
            assert row.rank == 1 + (expected > expected[entry]).sum()
    assert last[last["candidate"] == "zzzz"]["log_prob"].isna().all()
    assert last[last["candidate"] == "zzzz"]["reason"].notna().all()
    assert "logit" in ask(encoder, prompts[:1], normalized=False).to_pandas()


def test_sentences_and_their_pieces(encoder: Encoder, log_probs: Any) -> None:
    tokenizer, at = log_probs
    scores = pseudo_log_likelihood(encoder, SENTENCES)
    frame, pieces = scores.to_pandas(), scores.to_pandas("piece")
    assert list(frame["text"]) == SENTENCES
    assert frame["log_prob"].isna().tolist() == frame["reason"].notna().tolist() == [False, True, False]
    for number in (0, 2):
        ids = tokenizer(SENTENCES[number])["input_ids"]
        expected = [at(ids, place)[ids[place]] for place in range(1, len(ids) - 1)]
        of_sentence = pieces[pieces["sentence"] == number]
        np.testing.assert_allclose(of_sentence["log_prob"], expected, atol=1e-4)
        assert [tokenizer.convert_tokens_to_ids(piece) for piece in of_sentence["piece"]] == ids[1:-1]
        assert list(of_sentence["place"]) == list(range(1, len(expected) + 1))
        assert frame["log_prob"][number] == pytest.approx(sum(expected), abs=1e-3)
        assert frame["n_pieces"][number] == len(expected)
    with pytest.raises(NameNotFoundError, match="unknown unit of scores 'word'"):
        scores.to_pandas("word")  # type: ignore[arg-type]
