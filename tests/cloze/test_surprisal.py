"""Surprisal by word, against transformers' own logits with the formula written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from bertology import load_encoder
from bertology.cloze import Prompt, ask, pseudo_log_likelihood, surprisal
from bertology.encoders import Encoder
from bertology.errors import ClozeError, CorpusError, ModelError, NameNotFoundError

TEXTS = ["The quick brown fox jumps over the lazy dog.", "Don't stop!", "A fox."]
Tiny = Callable[[str], Path]


@pytest.fixture(scope="module")
def by_hand(tiny: Tiny) -> Callable[..., tuple[list[str], list[float]]]:
    """Pieces of a text and −ln p of each given those before it, one forward pass each, by transformers."""
    tokenizer = AutoTokenizer.from_pretrained(tiny("gpt2"))
    model = AutoModelForCausalLM.from_pretrained(tiny("gpt2"), dtype=torch.float32).eval()

    @torch.no_grad()
    def nats(text: str, *, bos: bool) -> tuple[list[str], list[float]]:
        ids = tokenizer(text)["input_ids"]
        before = [tokenizer.bos_token_id] if bos else []
        values = []
        for place, entry in enumerate(ids):
            context = [*before, *ids[:place]]
            if not context:
                values.append(math.nan)
                continue
            logits = model(torch.tensor([context])).logits[0, -1].double()
            values.append(float(logits.exp().sum().log() - logits[entry]))
        return tokenizer.convert_ids_to_tokens(ids), values

    return nats


@pytest.mark.parametrize("first", ["bos", "exclude"])
def test_pieces_words_and_texts(tiny: Tiny, by_hand: Any, first: Any) -> None:
    found = surprisal(str(tiny("gpt2")), TEXTS, first=first)
    assert found.kind == "causal"
    pieces, words, texts = (found.to_pandas(by) for by in ("piece", "word", "text"))
    for number, text in enumerate(TEXTS):
        tokens, expected = by_hand(text, bos=first == "bos")
        mine = pieces[pieces["sentence"] == number]
        assert len(mine) == len(tokens)
        np.testing.assert_allclose(mine["surprisal_nats"], expected, atol=2e-4)
        assert texts["surprisal_nats"][number] == pytest.approx(np.nansum(expected), abs=1e-3)
        # A piece begins with the space before its word: words are where the text is not white.
        of_words: dict[str, float] = dict.fromkeys(words[words["sentence"] == number]["word"], 0.0)
        for word, value in zip(mine["word"], expected, strict=True):
            of_words[word] += value
        values = words[words["sentence"] == number].set_index("word")["surprisal_nats"]
        for word, value in of_words.items():
            assert values[word] == pytest.approx(value, abs=1e-3, nan_ok=True)
    np.testing.assert_allclose(words["surprisal_bits"], words["surprisal_nats"] / math.log(2))
    assert words["surprisal_nats"].isna().sum() == (0 if first == "bos" else len(TEXTS))
    assert set(words[words["surprisal_nats"].isna()]["reason"]) == (
        set() if first == "bos" else {"nothing comes before it"}
    )


def test_pieces_belong_to_the_words_that_they_spell(tiny: Tiny) -> None:
    found = surprisal(str(tiny("gpt2")), TEXTS)
    frame = found.to_pandas("piece")
    for (_, word), part in frame.groupby(["sentence", "word"], sort=False):
        spelt = "".join(part["piece"]).replace("Ġ", " ").strip()
        assert spelt == word
    assert list(found.to_pandas()["word"][:3]) == ["The", "quick", "brown"]


def test_words_may_be_given_and_batches_change_nothing(tiny: Tiny) -> None:
    encoder = load_encoder(str(tiny("gpt2")))
    given = surprisal(encoder, [["The", "fox", "jumps"], ["A", "dog"]])
    assert list(given.words) == ["The", "fox", "jumps", "A", "dog"]
    assert given.texts == ("The fox jumps", "A dog")
    alone = np.concatenate([surprisal(encoder, text).nats for text in TEXTS])
    np.testing.assert_allclose(surprisal(encoder, TEXTS).nats, alone, atol=1e-4)
    one = surprisal(encoder, "The fox jumps")
    np.testing.assert_allclose(one.nats, given.nats[:3], atol=1e-4)


def test_the_probabilities_of_all_continuations_sum_to_one(tiny: Tiny) -> None:
    encoder = load_encoder(str(tiny("gpt2")))
    assert encoder.causal_head is not None
    states = encoder.hidden_states(torch.tensor([[0, 5, 9]]), layers=[encoder.n_layers])[encoder.n_layers][0]
    n_entries = encoder.causal_head.head.n_entries
    every = encoder.causal_head.log_probs(states[-1:].repeat(n_entries, 1), torch.arange(n_entries))
    assert float(every.double().exp().sum()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("form", ["original", "within_word_l2r"])
def test_masked_models_give_their_share_of_the_pseudo_log_likelihood(tiny: Tiny, form: Any) -> None:
    encoder = load_encoder(str(tiny("bert")))
    found = surprisal(encoder, TEXTS, form=form)
    assert found.kind == "pseudo"
    reference = pseudo_log_likelihood(encoder, TEXTS, form=form)
    np.testing.assert_allclose(found.to_pandas("text")["surprisal_nats"], -reference.totals[-1], atol=1e-4)
    np.testing.assert_array_equal(found.piece_nats, -reference.piece_log_probs[-1])
    # Words add up to their texts.
    by_text = found.to_pandas().groupby("sentence")["surprisal_nats"].sum()
    np.testing.assert_allclose(by_text, -reference.totals[-1], atol=1e-4)


def test_a_model_in_memory(tiny: Tiny) -> None:
    """Its own weights count, not those of the files that it was loaded from."""
    model = AutoModelForCausalLM.from_pretrained(tiny("gpt2"), dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny("gpt2"))
    before = surprisal((model, tokenizer), TEXTS).nats
    np.testing.assert_allclose(before, surprisal(str(tiny("gpt2")), TEXTS).nats, atol=1e-5)
    with torch.no_grad():
        model.transformer.ln_f.weight.mul_(0)
        model.transformer.ln_f.bias.mul_(0)
    flat = surprisal((model, tokenizer), ["A fox."]).to_pandas("piece")
    np.testing.assert_allclose(flat["surprisal_nats"], math.log(len(tokenizer)), atol=1e-3)


def test_what_cannot_be_read_is_named(tiny: Tiny) -> None:
    long = "fox " * 200
    for family in ("gpt2", "bert"):
        special = "<|endoftext|>" if family == "gpt2" else "[MASK]"
        found = surprisal(str(tiny(family)), [long, f"A {special} fox.", "A fox."])
        assert [one.item for one in found.excluded] == [0, 1]
        words, texts = found.to_pandas(), found.to_pandas("text")
        assert words[words["sentence"] < 2]["surprisal_bits"].isna().all()
        assert words[words["sentence"] == 2]["surprisal_bits"].notna().all()
        assert texts["reason"][0].startswith("too long")
        assert texts["reason"][1].startswith("it spells a special token")
        assert np.isnan(texts["surprisal_nats"][0])


def test_mistakes(tiny: Tiny) -> None:
    gpt2 = load_encoder(str(tiny("gpt2")))
    with pytest.raises(ClozeError, match="no text: give at least one"):
        surprisal(gpt2, [])
    with pytest.raises(CorpusError):
        surprisal(gpt2, [""])
    with pytest.raises(NameNotFoundError, match="unknown way to treat the first piece 'boss': did you mean bos"):
        surprisal(gpt2, TEXTS, first="boss")  # type: ignore[arg-type]
    with pytest.raises(NameNotFoundError, match="unknown unit of surprisal 'words': did you mean word"):
        surprisal(gpt2, TEXTS).to_pandas("words")  # type: ignore[call-overload]
    with pytest.raises(ModelError, match="no masked-LM head in its weights"):
        surprisal(str(tiny("bart")), TEXTS)
    for wrong in (lambda: ask(gpt2, [Prompt("a {mask}", ("fox",))]), lambda: pseudo_log_likelihood(gpt2, TEXTS)):
        with pytest.raises(
            ModelError, match=r"choose a masked language model, or ask for surprisal \(`bertology cloze"
        ):
            wrong()


def test_a_tokenizer_without_a_beginning(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder: Encoder = load_encoder(str(tiny("gpt2")))
    encoder.tokenizer.bos_token = None
    with pytest.raises(ModelError, match="no token for the beginning of a text; leave the first piece out"):
        surprisal(encoder, TEXTS)
    assert surprisal(encoder, TEXTS, first="exclude").kind == "causal"
