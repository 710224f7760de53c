"""Sentences scored: pseudo-log-likelihood, next sentences, surprisal."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForNextSentencePrediction,
    AutoTokenizer,
    ElectraConfig,
    ElectraForPreTraining,
)

from bertology import probe
from bertology.cloze import (
    ClozeProbe,
    Prompt,
    ask,
    asking,
    continuations,
    left_to_right,
    next_sentence,
    originality,
    pseudo_log_likelihood,
    surprisal,
)
from bertology.cloze import prompts as _prompts
from bertology.cloze.reading import word_surprisal
from bertology.corpora import Sentence, Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.errors import BertologyError, ClozeError, CorpusError, ModelError, NameNotFoundError
from bertology.pocket import model_folder
from bertology.probing import get_probe
from tests.cloze.conftest import FAMILIES
from tests.encoders.conftest import LAYERS

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


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_appended_masks_show_what_comes_before_alone(encoder: Encoders, family: str) -> None:
    """Each piece by transformers' own head, from the pieces before it and three masks."""
    ours = encoder(family)
    scores = pseudo_log_likelihood(ours, SENTENCES, form="appended_masks")
    model = AutoModelForMaskedLM.from_pretrained(ours.source.folder, dtype=torch.float32).eval()
    ids = ours.tokenizer(SENTENCES[0])["input_ids"]
    end = len(ids) - ours.n_suffix
    for place, piece in enumerate(range(ours.n_prefix, end)):
        given = torch.tensor([[*ids[:piece], *[ours.mask_id] * 3, *ids[end:]]])
        with torch.inference_mode():
            expected = model(given).logits[0, piece].log_softmax(-1)[ids[piece]].item()
        assert scores.piece_log_probs[0, place] == pytest.approx(expected, abs=1e-4)
    # Sentences that begin alike score alike up to where they differ: fox and foxes.
    alike = next(
        n
        for n, (one, other) in enumerate(zip(ids, ours.tokenizer(SENTENCES[2])["input_ids"], strict=False))
        if one != other
    )
    start, same = int(scores.piece_starts[2]), alike - ours.n_prefix
    np.testing.assert_array_equal(scores.piece_log_probs[0, :same], scores.piece_log_probs[0, start : start + same])
    with pytest.raises(ClozeError, match="appended_masks scores whole sentences"):
        ask(ours, [Prompt("a {mask}", ("b",))], form="appended_masks")


def test_copies_that_are_equal_are_read_once(encoder: Encoders, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, rows, real = encoder("bert"), list[int](), Encoder.masked_features

    def masked_features(self: Encoder, input_ids: torch.Tensor, *args: Any, **options: Any) -> Any:
        rows.append(len(input_ids))
        return real(self, input_ids, *args, **options)

    monkeypatch.setattr(Encoder, "masked_features", masked_features)
    few = ("the quick brown fox", "the quick lazy fox", "the quick brown fox")
    lengths = [len(ours.tokenizer(text)["input_ids"]) - 2 for text in few]
    cut = [ours.tokenizer(text)["input_ids"] for text in few[:2]]
    scores = pseudo_log_likelihood(ours, few)
    assert scores.n_pieces.tolist() == lengths
    copies = {(*ids[:p], ours.mask_id, *ids[p + 1 :]) for ids in cut for p in range(1, len(ids) - 1)}
    assert sum(rows) == len(copies)
    assert scores.totals[0, 0] == scores.totals[0, 2]


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
    nothing = pseudo_log_likelihood(ours, ["", " "])
    assert np.isnan(nothing.totals).all()
    assert len(nothing.excluded) == 2


@pytest.mark.parametrize(
    ("texts", "form", "error", "message"),
    [
        ([], "original", ClozeError, "no sentence: give at least one"),
        (["a"], "one_piece", ClozeError, "scored as original, within_word_l2r or appended_masks"),
        (["a"], "l2r", NameNotFoundError, "unknown form of answers 'l2r'"),
        (["\ud800"], "original", ClozeError, "half of a surrogate pair"),
    ],
)
def test_mistakes(encoder: Encoders, texts: list[str], form: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pseudo_log_likelihood(encoder("bert"), texts, form=form)


PAIRS = [
    ("The dog sees the king.", "It runs to the house."),
    ("The king works.", "The old women near the river dance slowly, and the dog sleeps."),
    ("A cat is small.", "The town is old."),
]


def test_the_last_layer_says_what_the_models_own_head_says() -> None:
    model = AutoModelForNextSentencePrediction.from_pretrained(model_folder()).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    encoder = load_encoder("pocket")
    found = next_sentence(encoder, PAIRS, layers=(0, encoder.n_layers))
    assert found.layers == (0, encoder.n_layers)
    assert found.log_probs.shape == (2, 3, 2)
    for number, (first, second) in enumerate(PAIRS):
        with torch.inference_mode():
            own = model(**tokenizer(first, second, return_tensors="pt")).logits.log_softmax(-1)[0]
        np.testing.assert_allclose(found.log_probs[-1, number], own.numpy(), atol=1e-5)
    np.testing.assert_allclose(np.exp(found.log_probs).sum(-1), 1, atol=1e-6)


def test_a_pair_that_is_too_long_is_excluded_and_told() -> None:
    encoder = load_encoder("pocket")
    found = next_sentence(encoder, [PAIRS[0], ("the dog " * 60, "the cat")])
    assert np.isnan(found.log_probs[:, 1]).all()
    assert not np.isnan(found.log_probs[:, 0]).any()
    assert [(one.item, one.reason[:8]) for one in found.excluded] == [(1, "too long")]


def test_models_without_the_head_are_told(real_model: Path) -> None:
    encoder = load_encoder(str(real_model))
    with pytest.raises(ModelError, match="the weights lack"):
        next_sentence(encoder, PAIRS)


SENTENCES_frames = ["The dogs saw a cat.", "", "A cat."]


@pytest.fixture(scope="module")
def pocket(tiny_bert: Path) -> Encoder:
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


def test_candidates_of_prompts(pocket: Encoder, log_probs: Any) -> None:
    tokenizer, at = log_probs
    prompts = [Prompt("The {mask} saw a cat.", ("dogs", "cat", "zzzz")), Prompt("A {mask}.")]
    frame = ask(pocket, prompts, ranks=True, top=3, layers=[1, 3]).to_pandas()
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


def test_sentences_and_their_pieces(pocket: Encoder, log_probs: Any) -> None:
    tokenizer, at = log_probs
    scores = pseudo_log_likelihood(pocket, SENTENCES_frames)
    frame, pieces = scores.to_pandas(), scores.to_pandas("piece")
    assert list(frame["text"]) == SENTENCES_frames
    assert frame["log_prob"].isna().tolist() == frame["reason"].notna().tolist() == [False, True, False]
    for number in (0, 2):
        ids = tokenizer(SENTENCES_frames[number])["input_ids"]
        expected = [at(ids, place)[ids[place]] for place in range(1, len(ids) - 1)]
        of_sentence = pieces[pieces["sentence"] == number]
        np.testing.assert_allclose(of_sentence["log_prob"], expected, atol=1e-4)
        assert [tokenizer.convert_tokens_to_ids(piece) for piece in of_sentence["piece"]] == ids[1:-1]
        assert list(of_sentence["place"]) == list(range(1, len(expected) + 1))
        assert frame["log_prob"][number] == pytest.approx(sum(expected), abs=1e-3)
        assert frame["n_pieces"][number] == len(expected)
    with pytest.raises(NameNotFoundError, match="unknown unit of scores 'word'"):
        scores.to_pandas("word")  # type: ignore[arg-type]


TEXTS = ["The quick brown fox jumps over the lazy dog.", "Don't stop!", "A fox."]
Tiny = Callable[[str], Path]


@pytest.fixture(scope="module")
def surprisal_by_hand(tiny: Tiny) -> Callable[..., tuple[list[str], list[float]]]:
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
def test_pieces_words_and_texts(tiny: Tiny, surprisal_by_hand: Any, first: Any) -> None:
    found = surprisal(str(tiny("gpt2")), TEXTS, first=first)
    assert found.kind == "causal"
    pieces, words, texts = (found.to_pandas(by) for by in ("piece", "word", "text"))
    for number, text in enumerate(TEXTS):
        tokens, expected = surprisal_by_hand(text, bos=first == "bos")
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


def test_words_may_be_given_and_batches_change_nothing(tiny: Tiny) -> None:
    encoder = load_encoder(str(tiny("gpt2")))
    given = surprisal(encoder, [["The", "fox", "jumps"], ["A", "dog"]])
    assert list(given.words) == ["The", "fox", "jumps", "A", "dog"]
    assert given.sentences == ("The fox jumps", "A dog")
    alone = np.concatenate([surprisal(encoder, text).nats for text in TEXTS])
    np.testing.assert_allclose(surprisal(encoder, TEXTS).nats, alone, atol=1e-4)
    one = surprisal(encoder, "The fox jumps")
    np.testing.assert_allclose(one.nats, given.nats[:3], atol=1e-4)


def test_sentences_from_left_to_right(tiny: Tiny, surprisal_by_hand: Any) -> None:
    found = left_to_right(load_encoder(str(tiny("gpt2"))), [*TEXTS, "", "A <|endoftext|>"])
    expected = [-sum(surprisal_by_hand(text, bos=True)[1]) for text in TEXTS]
    np.testing.assert_allclose(found.totals[0, : len(TEXTS)], expected, atol=1e-3)
    assert np.isnan(found.totals[0, len(TEXTS) :]).all()
    assert [one.item for one in found.excluded] == [3, 4]
    with pytest.raises(ModelError, match="does not read left to right: choose such as gpt2, or masked_lm"):
        left_to_right(load_encoder(str(tiny("bert"))), TEXTS)


def test_pairs_are_put_to_a_decoder(tiny: Tiny) -> None:
    asked: Any = {"model": str(tiny("gpt2")), "max_items": 4, "controls": "none"}
    found = probe("minimal_pairs", readout="left_to_right", **asked)
    frame = found.to_pandas()
    assert set(frame["layer"]) == {load_encoder(str(tiny("gpt2"))).n_layers}
    assert set(frame["readout"]) == {"left_to_right"}
    kept = found.predictions("minimal_pairs", int(frame["layer"].max()))
    pairs = {item.id: item for item in cast(ClozeProbe, get_probe("minimal_pairs")).items("pocket").items}
    texts = [text for name in kept["sentence"] for text in (pairs[name].text, pairs[name].other)]
    good, bad = left_to_right(load_encoder(str(tiny("gpt2"))), texts).totals[0].reshape(-1, 2).T
    np.testing.assert_array_equal(kept["predicted"] == kept["gold"], good > bad)
    with pytest.raises(BertologyError, match="reads the last layer alone: give --layers -1"):
        probe("minimal_pairs", readout="left_to_right", layers=[1], **asked)
    with pytest.raises(ModelError, match=r"from left to right \(--readout left_to_right, cloze --surprisal\)"):
        probe("minimal_pairs", **asked)


def test_facts_are_put_to_a_decoder(tiny: Tiny) -> None:
    """The next word after the text before the mask, by the logits of transformers; other prompts are left out."""
    tokenizer = AutoTokenizer.from_pretrained(tiny("gpt2"))
    model = AutoModelForCausalLM.from_pretrained(tiny("gpt2"), dtype=torch.float32).eval()
    known = sorted(token for token in tokenizer.get_vocab() if token[:1] == "Ġ" and token[1:].isalpha())
    texts = [f"{subject} dogs know" for subject in ("The", "All the lazy", "Quick brown", "No")]
    rows = [(f"{text} {{mask}} .", token[1:]) for text, token in zip(texts, known[::3], strict=False)]
    rows += [("The {mask} jumps.", known[0][1:]), ("The fox is {mask}.", "unbelievable")]
    asked: Any = {"model": str(tiny("gpt2")), "corpus": pd.DataFrame(rows, columns=["text", "good"])}
    found = probe("lama", readout="left_to_right", **asked)
    kept = found.predictions("lama", LAYERS)
    for text, token, (_, row) in zip(texts, known[::3], kept.iterrows(), strict=False):
        with torch.inference_mode():
            logits = model(torch.tensor([[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]])).logits[0, -1]
        entry = tokenizer.get_vocab()[token]
        assert row["rank"] == 1 + int((logits > logits[entry]).sum())
        assert row["probability"] == pytest.approx(float(logits.softmax(-1)[entry]), abs=1e-5)
        assert row["predicted"] == _prompts.spell_pieces(load_encoder(str(tiny("gpt2"))), [int(logits.argmax())])[0]
    shown = " ".join(str(found).split())
    assert "words after the mask, which are hidden from a left-to-right model" in shown
    assert "not in the vocabulary" in shown
    with pytest.raises(BertologyError, match=r"the readout left_to_right\.v1 has no settings but a vocabulary"):
        probe("lama", readout={"name": "left_to_right", "settings": {"form": "original"}}, **asked)
    with pytest.raises(ModelError, match="does not read left to right"):
        probe("lama", readout="left_to_right", **asked | {"model": str(tiny("bert"))})


def test_pairs_are_put_to_a_discriminator(tiny: Tiny, tmp_path: Path) -> None:
    """ELECTRA's discriminator, by the logits of transformers: the sentence with the likelier pieces is chosen."""
    tokenizer = AutoTokenizer.from_pretrained(tiny("electra"))
    model = ElectraForPreTraining(ElectraConfig.from_pretrained(tiny("electra"))).eval()
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "discriminator")
    encoder = load_encoder(str(tmp_path / "discriminator"))
    scores = originality(encoder, TEXTS, layers=[0, encoder.n_layers])
    for number, text in enumerate(TEXTS):
        with torch.inference_mode():
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0, 1:-1]
        expected = torch.nn.functional.logsigmoid(-logits).numpy()
        pieces = slice(*scores.piece_starts[number : number + 2])
        np.testing.assert_allclose(scores.piece_log_probs[1, pieces], expected, atol=1e-5)
    asked: Any = {"model": str(tmp_path / "discriminator"), "max_items": 4, "controls": "none"}
    found = probe("minimal_pairs", readout="replaced_tokens", **asked)
    assert set(found.to_pandas()["layer"]) == set(range(encoder.n_layers + 1))
    kept = found.predictions("minimal_pairs", encoder.n_layers)
    pairs = {item.id: item for item in cast(ClozeProbe, get_probe("minimal_pairs")).items("pocket").items}
    texts = [text for name in kept["sentence"] for text in (pairs[name].text, pairs[name].other)]
    good, bad = originality(encoder, texts).totals[0].reshape(-1, 2).T
    np.testing.assert_array_equal(kept["predicted"] == kept["gold"], good > bad)
    with pytest.raises(ModelError, match="discriminator score sentences \\(--readout replaced_tokens"):
        probe("minimal_pairs", **asked)
    with pytest.raises(ModelError, match="choose an ELECTRA discriminator"):
        probe("minimal_pairs", readout="replaced_tokens", **{**asked, "model": str(tiny("bert"))})


def test_reading_times_are_put_to_a_decoder(tiny: Tiny) -> None:
    asked: Any = {"model": str(tiny("gpt2")), "controls": "none"}
    frame = probe("reading_times", layers=[-1], **asked).to_pandas()
    assert set(frame["metric"]) == {"delta_r2", "delta_log_likelihood_nats", "baseline_r2", "word_surprisal_bits"}
    sentences = Sentences(Sentence.from_words(text.split()) for text in TEXTS)
    encoder = load_encoder(str(tiny("gpt2")))
    bits, _ = word_surprisal(encoder, sentences, layers=[encoder.n_layers])
    np.testing.assert_allclose(bits[0], surprisal(encoder, sentences).bits)
    with pytest.raises(ModelError, match="its last layer alone is scored; give --layers -1"):
        probe("reading_times", layers=[0], **asked)


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


def test_mistakes_surprisal(tiny: Tiny) -> None:
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
        with pytest.raises(ModelError, match=r"choose a masked language model, or have sentences scored from left"):
            wrong()


def test_batches_do_not_matter(encoder: Encoders, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, form = encoder("roberta"), "within_word_l2r"
    together = pseudo_log_likelihood(ours, SENTENCES, form=form, layers=[1, 3])
    alone = [pseudo_log_likelihood(ours, [text], form=form, layers=[1, 3]).totals for text in SENTENCES]
    np.testing.assert_allclose(together.totals, np.concatenate(alone, axis=1), atol=1e-4)
    monkeypatch.setattr(asking, "_INPUTS_AT_ONCE", 5)
    monkeypatch.setattr(_prompts, "_TEXTS_AT_ONCE", 2)
    parts = pseudo_log_likelihood(ours, SENTENCES, form=form, layers=[1, 3])
    np.testing.assert_allclose(parts.totals, together.totals, atol=1e-4)


def test_the_probabilities_of_all_continuations_sum_to_one(tiny: Tiny) -> None:
    encoder = load_encoder(str(tiny("gpt2")), device="cpu")
    every = ask(encoder, [Prompt("A {mask}", tuple(range(len(encoder.tokenizer))))], left_alone=True).values
    assert float(np.exp(every).sum()) == pytest.approx(1, abs=1e-4)


def test_continuations_are_scored_after_their_contexts(encoder: Encoders, tiny: Tiny) -> None:
    pairs = [("The quick brown", "fox."), ("The dogs", "don't jump over it.")]
    texts = [" ".join(pair) for pair in pairs]
    decoder = load_encoder(str(tiny("gpt2")))
    for ours, whole in ((encoder("bert"), pseudo_log_likelihood), (decoder, left_to_right)):
        found, expected = continuations(ours, pairs), whole(ours, texts)
        for number, (context, _) in enumerate(pairs):
            n_before = len(ours.tokenizer(context, add_special_tokens=False)["input_ids"])
            start, stop = expected.piece_starts[number : number + 2].tolist()
            own = slice(start + n_before, stop)
            assert found.totals[0, number] == pytest.approx(expected.piece_log_probs[0, own].sum(), abs=1e-5)
    with pytest.raises(ClozeError, match="empty context or continuation"):
        continuations(encoder("bert"), [("The dogs", " ")])
    with pytest.raises(ClozeError, match="leave form and layers out"):
        continuations(decoder, pairs, form="within_word_l2r")
