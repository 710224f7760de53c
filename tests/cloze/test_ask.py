"""Prompts read by masked language models, against the fill-mask pipeline and passes by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bertology.causal import patch
from bertology.cloze import MASK, Prompt, ask, read_cloze, write_text
from bertology.cloze import asking as questions
from bertology.cloze import prompts as _prompts
from bertology.cloze.prompts import spell_pieces, vocabulary_ids
from bertology.encoders import Encoder, load_encoder
from bertology.errors import ClozeError, ModelError, NameNotFoundError
from tests.cloze.conftest import FAMILIES, distribution

Encoders = Callable[[str], Encoder]
Own = Callable[[str], Any]
TEXTS = (
    "The quick {mask} fox.",
    "nobody knows why they'd {mask} over the lazy dogs, and that is all",
    "{mask} cafés",
    "She said: “{mask}”",
    "a {mask} in the day 3.5 million of them!",
)


@pytest.mark.parametrize("layer", [2, 3])
def test_gates_hold_whatever_threads_there_are(encoder: Encoders, monkeypatch: pytest.MonkeyPatch, layer: int) -> None:
    """In every batch, of the last block as of those before."""
    ours = encoder("bert")
    monkeypatch.setattr("bertology.encoders.batching.PIECES_IN_BATCH", 16)
    prompts = [Prompt(f"The {'quick ' * n}{{mask}} fox.") for n in range(12)]
    threads = torch.get_num_threads()
    free = ask(ours, prompts, top=3)
    torch.set_num_threads(4)
    try:
        with ours.gated_heads({(layer, 1): 0.0, (layer, 2): 3.0}):
            gated = ask(ours, prompts, top=3)
            for number, prompt in enumerate(prompts):
                expected = distribution(ours, prompt)[-1, 0]
                best = expected.argsort()[::-1][:3]
                ids, log_probs = gated.top_of(number)
                assert ids[0, 0].tolist() == best.tolist()
                np.testing.assert_allclose(log_probs[0, 0], expected[best], atol=1e-5)
                assert not np.allclose(log_probs[0, 0], free.top_of(number)[1][0, 0], atol=1e-5)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("family", FAMILIES)
def test_several_masks_and_every_layer(encoder: Encoders, own: Own, family: str) -> None:
    """The lens by hand: hidden states as Hugging Face gives them, through a model whose body returns them."""
    ours, prompt = encoder(family), Prompt("The {mask} fox doesn't {mask} over the dogs")
    ids = torch.tensor([ours.tokenizer(prompt.written(ours.mask_token))["input_ids"]])
    masks = [int(piece) for piece in (ids[0] == ours.mask_id).nonzero()]
    assert len(masks) == 2
    scores = ask(ours, [prompt], layers=range(ours.n_layers + 1), top=5)
    whole = distribution(ours, prompt, layers=range(ours.n_layers + 1))
    with torch.no_grad():
        expected = own(family)(ids).logits[0, masks].log_softmax(-1).numpy()
    assert scores.layers == (0, 1, 2, 3)
    np.testing.assert_allclose(whole[-1], expected, atol=1e-5)
    top = np.argsort(-whole, axis=-1, kind="stable")[..., :5]
    np.testing.assert_array_equal(scores.top_of(0)[0], top)
    np.testing.assert_allclose(scores.top_of(0)[1], np.take_along_axis(whole, top, -1), atol=1e-5)


def single(encoder: Encoder, n: int) -> tuple[str, ...]:
    """Words of one piece inside a text."""
    words = sorted({text for text in spell_pieces(encoder, range(len(encoder.tokenizer))) if text.isalpha()})
    kept = [word for word in words if len(vocabulary_ids(encoder, [word]))]
    assert len(kept) >= n
    return tuple(kept[:: len(kept) // n][:n])


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_candidates_ranks_and_logits(encoder: Encoders, family: str) -> None:
    ours = encoder(family)
    words = single(ours, 4)
    prompts = [Prompt(TEXTS[0], words), Prompt(TEXTS[4], words[::-1]), Prompt(TEXTS[0], words[1:2])]
    scores = ask(ours, prompts, layers=[1, 3], ranks=True)
    assert scores.candidate_starts.tolist() == [0, 4, 8, 9]
    assert not scores.excluded
    entries = [vocabulary_ids(ours, [word])[0] for word in words]
    for number, order in ((0, entries), (1, entries[::-1]), (2, entries[1:2])):
        whole = distribution(ours, prompts[number], layers=[1, 3])[:, 0]
        np.testing.assert_allclose(scores.of(number), whole[:, order], atol=1e-5)
        above = [[int((row > row[entry]).sum()) + 1 for entry in order] for row in whole]
        assert scores.ranks_of(number).tolist() == above


def test_a_vocabulary_of_ones_own(encoder: Encoders) -> None:
    ours = encoder("roberta")
    words = single(ours, 12)
    entries = vocabulary_ids(ours, words[:10])
    scores = ask(ours, [Prompt(TEXTS[0], (words[3], words[11]))], vocabulary=entries.tolist(), ranks=True, top=10)
    log_probs = distribution(ours, Prompt(TEXTS[0]))[0, 0].astype(float)
    inside = log_probs[entries] - np.log(np.exp(log_probs[entries]).sum())
    place = entries.tolist().index(int(vocabulary_ids(ours, [words[3]])[0]))
    assert scores.of(0)[0, 0] == pytest.approx(inside[place], abs=1e-5)
    assert scores.ranks_of(0).tolist() == [[int((inside > inside[place]).sum()) + 1, 0]]
    assert scores.top_ids[0, 0].tolist() == entries[np.argsort(-inside)].tolist()
    assert np.exp(scores.top_values).sum() == pytest.approx(1, abs=1e-5)
    assert scores.excluded[0].reason == "not in the vocabulary that was given"
    assert np.isnan(scores.of(0)[0, 1])


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
@pytest.mark.parametrize("form", ["original", "within_word_l2r"])
def test_answers_of_several_pieces_by_hand(
    encoder: Encoders, by_hand: Callable[..., list[float]], family: str, form: Any
) -> None:
    ours = encoder(family)
    word, answers = "day", ("day", "unbelievably", "lazy dogs", "L'été")
    cut = ours.tokenizer.backend_tokenizer.encode
    prompt = Prompt("nobody knows why {mask} over the dogs", (word, *answers[1:]))
    scores = ask(ours, [prompt], form=form)
    assert scores.form == form
    base = cut(prompt.written(ours.mask_token)).ids
    first = base.index(ours.mask_id)
    for number, answer in enumerate(answers):
        alone, anchored = cut("a", add_special_tokens=False), cut(f"a {answer}", add_special_tokens=False)
        n_before = len(alone.ids)
        pieces, words = anchored.ids[n_before:], anchored.word_ids[n_before:]
        whole = base[:first] + pieces + base[first + 1 :]
        last = first + len(pieces)
        of_word = [None] * first + words + [None] * len(base) if form == "within_word_l2r" else []
        expected = sum(by_hand(family, whole, first, last, ours.mask_id, of_word))
        assert scores.of(0)[0, number] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_batches_padding_and_order_do_not_matter(
    encoder: Encoders, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = encoder(family)
    words = single(ours, 3)
    prompts = [Prompt(text, words) for text in TEXTS]
    alone = np.concatenate([ask(ours, [prompt], top=3).values for prompt in prompts], axis=1)
    together = ask(ours, prompts, top=3)
    np.testing.assert_allclose(together.values, alone, atol=1e-5)
    backwards = ask(ours, prompts[::-1], top=3)
    for number in range(len(prompts)):
        np.testing.assert_allclose(backwards.of(len(prompts) - 1 - number), together.of(number), atol=1e-5)
    monkeypatch.setattr(questions, "_INPUTS_AT_ONCE", 2)
    monkeypatch.setattr(_prompts, "_TEXTS_AT_ONCE", 3)
    in_parts = ask(ours, prompts, top=3)
    np.testing.assert_allclose(in_parts.values, together.values, atol=1e-5)
    np.testing.assert_array_equal(in_parts.top_ids, together.top_ids)


def test_each_text_is_read_once(encoder: Encoders, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = encoder("bert")
    words = single(ours, 2)
    rows = []
    real = Encoder.masked_features

    def masked_features(self: Encoder, input_ids: torch.Tensor, *args: Any, **options: Any) -> Any:
        rows.append(len(input_ids))
        return real(self, input_ids, *args, **options)

    monkeypatch.setattr(Encoder, "masked_features", masked_features)
    prompts = [Prompt(TEXTS[0], words), Prompt(TEXTS[1], words[:1]), Prompt("The quick [MASK] fox.", words[::-1])]
    scores = ask(ours, prompts * 5, top=1)
    assert sum(rows) == 2
    np.testing.assert_array_equal(scores.of(0), scores.of(2)[:, ::-1])
    np.testing.assert_array_equal(scores.of(0), scores.of(12))


def test_what_cannot_be_scored_is_listed_in_its_place(encoder: Encoders) -> None:
    ours = encoder("bert")
    (word,) = single(ours, 1)
    long = Prompt("the day " * 60 + MASK, (word,))
    prompts = [Prompt(TEXTS[0], ("unbelievably", word, "")), long, Prompt(TEXTS[1], (word,))]
    scores = ask(ours, prompts, top=2, ranks=True)
    assert np.isnan(scores.values[0]).tolist() == [True, False, True, True, False]
    assert (scores.ranks == 0)[0].tolist() == [True, False, True, True, False]
    assert [(item.item, item.candidate) for item in scores.excluded] == [(0, "unbelievably"), (0, ""), (1, None)]
    assert scores.excluded[0].reason.startswith("not in the vocabulary: ")
    assert scores.excluded[2].reason == "too long: 123 pieces, the model takes 80"
    assert scores.top_of(1)[0].tolist() == [[[-1, -1]]]
    assert np.isnan(scores.top_of(1)[1]).all()
    fits = "the day " * 38 + MASK
    several = ask(ours, [Prompt(fits, ("unbelievably", word))], form="original")
    assert several.excluded[0].reason.startswith("too long: ")
    assert not np.isnan(several.of(0)[0, 1])


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([], {"top": 1}, "nothing is asked: give at least one prompt"),
        ([Prompt("no hole")], {"top": 1}, "prompt 0 'no hole': 0 masks in it; write {mask} once where"),
        ([Prompt("{mask} {mask}", ("a",))], {}, "2 masks in it; write {mask} once"),
        ([Prompt("{mask}")], {}, "or ask for the top few"),
        ([Prompt("{mask}", ("a",))], {"form": "original", "ranks": True}, "ask for one_piece"),
        ([Prompt("{mask}", ("a",))], {"form": "original", "vocabulary": [7]}, "ask for one_piece"),
        ([Prompt("{mask}", ("a",))], {"vocabulary": []}, "give numbers from 0 to"),
        ([Prompt("{mask}", ("a",))], {"vocabulary": [-1, 4]}, "give numbers from 0 to"),
        (
            [Prompt("{mask}")],
            {"top": 3, "vocabulary": [4, 5]},
            "2 vocabulary entries, of which the best 3",
        ),
        ([Prompt("half \udc80 {mask}")], {"top": 1}, "half of a surrogate pair"),
        ([Prompt("{mask}", ("\udc80",))], {}, "half of a surrogate pair"),
    ],
)
def test_what_cannot_be_asked(encoder: Encoders, prompts: list[Prompt], options: Any, message: str) -> None:
    with pytest.raises(ClozeError) as raised:
        ask(encoder("bert"), prompts, **options)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_other_mistakes(encoder: Encoders) -> None:
    prompt = Prompt("{mask}", ("a",))
    with pytest.raises(NameNotFoundError, match="unknown form of answers 'orginal': did you mean original"):
        ask(encoder("bert"), [prompt], form="orginal")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="layer 7: the model has 3"):
        ask(encoder("bert"), [prompt], layers=[7])
    with pytest.raises(ModelError, match="no masked-LM head"):
        ask(encoder("bart"), [prompt])
    with pytest.raises(ModelError, match="no masked-LM head"):
        ask(encoder("gpt2"), [prompt])


def test_context_is_seen_above_the_embeddings_alone() -> None:
    """Planted: the pocket model learnt agreement. No signal: at the embeddings a mask knows its place, nothing else."""
    pocket = load_encoder("pocket", device="cpu")
    verbs = ("see", "sees")
    subjects = (("The farmers", "The farmer"), ("The dogs", "The dog"), ("The cats", "The cat"))
    prompts = [Prompt(f"{subject} {MASK} the dog .", verbs) for pair in subjects for subject in pair]
    scores = ask(pocket, prompts, layers=[0, pocket.n_layers])
    assert not scores.excluded
    preference = scores.values.reshape(2, len(subjects), 2, 2)
    preference = preference[..., 0] - preference[..., 1]  # [layer, pair, number of the subject]: plural over singular
    np.testing.assert_allclose(preference[0], preference[0, 0, 0], atol=1e-5)
    assert (preference[1, :, 0] > preference[1, :, 1]).all()


def test_candidates_of_one_of_several_masks_stay_beside_the_others() -> None:
    encoder, text = load_encoder("pocket"), "The {mask} sees the {mask}."
    found = ask(encoder, [Prompt(text, ("dog", "king"), at=at) for at in (0, 1, -1)])
    whole = distribution(encoder, Prompt(text))
    ids = [encoder.tokenizer.convert_tokens_to_ids(word) for word in ("dog", "king")]
    for number, mask in enumerate((0, 1, 1)):
        np.testing.assert_allclose(found.of(number)[0], whole[-1, mask, ids], atol=1e-5)


PROMPT = Prompt("The quick {mask} fox.")


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_the_best_of_the_deepest_layer_are_followed(encoder: Encoders, family: str) -> None:
    own = encoder(family)
    reading = read_cloze(own, PROMPT, top=4)
    whole = distribution(own, PROMPT, layers=range(4))
    entries = np.argsort(-whole[-1, 0], kind="stable")[:4]
    assert reading.layers == (0, 1, 2, 3)
    assert reading.words == tuple(spell_pieces(own, entries.tolist()))
    np.testing.assert_allclose(reading.log_probs, whole[:, 0, entries], atol=1e-6)
    assert reading.ranks is not None
    assert reading.ranks[-1].tolist() == [1, 2, 3, 4]
    assert reading.first == tuple(spell_pieces(own, whole[:, 0].argmax(-1).tolist()))
    np.testing.assert_allclose(reading.first_log_probs, whole[:, 0].max(-1), atol=1e-6)
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
    expected = distribution(own, PROMPT, layers=[1, 3])[:, 0, entry]
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
        (Prompt("no hole"), 5, "0 masks in it; write {mask} once where"),
        (Prompt("{mask} and {mask}"), 5, "2 masks in '{mask} and {mask}': one is read at a time"),
        (PROMPT, 0, "nothing is asked: "),
        (PROMPT, 10**6, "of which the best 1000000 are asked for"),
        (Prompt("the day " * 60 + "{mask}"), 5, "too long: 123 pieces, the model takes 80; shorten it"),
        (Prompt(PROMPT.text, ("unbelievably", "ʘ")), 5, "no candidate is left: 'unbelievably' not in the vocabulary"),
        (Prompt("{mask}\udfff"), 5, "half of a surrogate pair"),
    ],
)
def test_mistakes(encoder: Encoders, prompt: Prompt, top: int, message: str) -> None:
    with pytest.raises(ClozeError) as raised:
        read_cloze(encoder("bert"), prompt, top=top)
    assert message in str(raised.value)


@pytest.mark.parametrize("family", ["bert", "modernbert", "xlm-roberta"])
def test_the_best_are_those_of_the_fill_mask_pipeline(
    encoder: Encoders, tiny: Callable[[str], Path], own: Own, family: str
) -> None:
    ours = encoder(family)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny(family))
    pipe = transformers.pipeline("fill-mask", model=own(family), tokenizer=tokenizer, top_k=7, device="cpu")
    scores = ask(ours, [Prompt(text) for text in TEXTS], top=7)
    for number, text in enumerate(TEXTS):
        expected = pipe(text.replace(MASK, tokenizer.mask_token))
        ids, log_probs = scores.top_of(number)
        np.testing.assert_allclose(np.exp(log_probs[0, 0]), [one["score"] for one in expected], atol=1e-5)
        assert ids[0, 0].tolist() == [one["token"] for one in expected]


@pytest.mark.parametrize(("function", "then"), [(read_cloze, "prompt"), (write_text, "text"), (patch, "pairs")])
def test_a_call_in_another_order_is_told_the_order(function: Callable[..., Any], then: str) -> None:
    with pytest.raises(ModelError, match=f"give the encoder first, then the {then}: {function.__name__}"):
        function("a {mask} b", "pocket")
