"""Erasing a property from a running model: beside plain hooks, formulas by hand, and the pocket world."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bertology._machine import quiet_loading
from bertology.causal import agreement_pairs
from bertology.causal.erasing import (
    CONTROLS,
    Judged,
    MaskedReading,
    StateChange,
    States,
    WordLabels,
    choose_changed,
    judge,
    kept_decisions,
    reliability_sums,
    word_batches,
)
from bertology.corpora import Sentence, as_sentences
from bertology.encoders import Encoder, masked_lm_loss
from bertology.encoders.interventions import changing
from bertology.encoders.masked_loss import MaskedText
from bertology.pocket import model_folder
from bertology.readouts import ArrayFeatures, fit_erasure
from bertology.readouts.erasure import fit_nullspace, random_erasure

TEXTS = ["The dogs near the cat see the bird.", "A cat sees the dog.", "The birds sleep.", "The dog likes the cats."]


def reading(encoder, layers, share=0.3):
    return MaskedReading(encoder, layers, share, "window")


@pytest.fixture(scope="module")
def change(encoder):
    """An erasure of whether a word begins with a capital, by kind of piece."""
    sentences = as_sentences(TEXTS * 5)
    layers = tuple(range(encoder.n_layers + 1))
    states = reading(encoder, layers).states(sentences, n_maskings=2, seed=1)
    codes = np.array([word[0].isupper() for text in sentences for word in text.words], dtype=np.int64)
    return StateChange({kind: fit_erasure(one.vectors, codes[one.words], 2) for kind, one in states.items()})


def contracted(*words: str) -> Sentence:
    """A sentence in which *n't* follows its word without a space."""
    return Sentence.from_words(words, space_after=[not after.startswith("n't") for after in (*words[1:], "")])


SHARED = [
    contracted("The", "dogs", "do", "n't", "see", "the", "cat", "."),
    contracted("It", "wo", "n't", "sleep", "."),
    contracted("The", "bird", "ca", "n't", "see", "it", "."),
]
"""*don* is a subword of *do* and of *n't*."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_words_that_share_subwords_are_predicted_whole(encoder, share, seed):
    """Halves of *don't* had no subword of their own, and counted as predicted, with 0 bits."""
    sentences = as_sentences(SHARED)
    found = reading(encoder, (1,), share).predictions(sentences, {}, seed=seed)
    plain = masked_lm_loss(encoder, sentences, share=share, seed=seed)
    np.testing.assert_array_equal(found.words["masked"], plain.words)
    np.testing.assert_allclose(found.plain["masked"][0, 0], plain.word_bits, rtol=1e-4)
    np.testing.assert_array_equal(found.plain["masked"][1, 0], plain.word_right)
    # Nothing of what is predicted without a mask is masked; all of it is read, and costs something.
    pieces = encoder.tokenize(sentences)
    of_kind = [pieces.places_of(found.words[kind]) for kind in ("masked", "visible")]
    places = [set(zip(one.window, one.piece, strict=True)) for one in of_kind]
    assert not places[0] & places[1]
    assert (found.plain["visible"][0] > 0).all()


def test_nothing_changed_is_the_loss_of_the_model(encoder, change):
    sentences = as_sentences(TEXTS)
    found = reading(encoder, (1,)).predictions(sentences, {}, seed=0)
    plain = masked_lm_loss(encoder, sentences, share=0.3, seed=0)
    np.testing.assert_array_equal(found.words["masked"], plain.words)
    np.testing.assert_allclose(found.plain["masked"][0, 0], plain.word_bits, rtol=1e-4)
    np.testing.assert_array_equal(found.plain["masked"][1, 0], plain.word_right)
    assert not found.plain["masked"][2].any()
    assert not np.intersect1d(*found.words.values()).size


@pytest.mark.parametrize("direction", [None, 3])
def test_the_rest_of_the_model_runs_on_changed_states(encoder, change, direction):
    """As with a hook that changes the states in a whole pass."""
    sentences, layers = as_sentences(TEXTS), tuple(range(encoder.n_layers + 1))
    change = StateChange(change.erasures, in_random_direction=direction)
    found = reading(encoder, layers).predictions(sentences, {"erased": change}, seed=0)
    text = MaskedText(encoder, sentences, share=0.3, seed=0, on_long="window")
    (batch,) = word_batches(text)
    for place, layer in enumerate(layers):
        hook = changing(
            encoder.model.body,
            encoder.model.blocks,
            layer,
            lambda state, layer=layer: change(state, batch.kinds, layer=layer),
        )
        with hook:
            nats, _ = batch.input.ask(encoder)
        words = text.places.word[batch.input.places]
        bits = np.bincount(words, weights=nats.numpy() / np.log(2))[found.words["masked"]]
        np.testing.assert_allclose(found.changed["erased"]["masked"][0, place], bits, atol=1e-4)
        assert (found.changed["erased"]["masked"][2, place] > 0).any()


def test_special_tokens_stay_and_moves_are_as_long(encoder, change):
    text = MaskedText(encoder, as_sentences(TEXTS), share=0.3, seed=0, on_long="window")
    (batch,) = word_batches(text)
    state = encoder.hidden_states(batch.input.ids, batch.input.mask, layers=(2,))[2]
    erased = change(state, batch.kinds, layer=2)
    moved = StateChange(change.erasures, in_random_direction=0)(state, batch.kinds, layer=2)
    is_word = batch.kinds["masked"] | batch.kinds["visible"]
    assert torch.equal(erased[~is_word], state[~is_word])
    torch.testing.assert_close((moved - state).norm(dim=2), (erased - state).norm(dim=2), rtol=1e-4, atol=1e-4)
    again = StateChange(change.erasures, in_random_direction=0)(state, batch.kinds, layer=2)
    assert torch.equal(moved, again)


def _planted(n=4000, dim=12):
    """A label that stands in one direction in one group, and in another in the other; groups differ in a third."""
    random = np.random.default_rng(0)
    group, label = random.integers(0, 2, n), random.integers(0, 2, n)
    vectors = random.normal(size=(n, dim))
    vectors[:, 0] += 3 * label * (group == 0)
    vectors[:, 1] += 3 * label * (group == 1)
    vectors[:, 2] += 5 * group
    return ArrayFeatures(vectors[None].astype(np.float32)), vectors, label, group


@pytest.mark.parametrize("fit", [fit_erasure, fit_nullspace])
def test_a_property_is_erased_within_groups_which_stay_apart(fit):
    source, vectors, label, group = _planted()
    erasure = fit(source, label, 2, within=group)
    after = erasure.layer(0)(torch.from_numpy(vectors)).numpy()
    for one in (0, 1):
        means = [after[(group == one) & (label == value)].mean(0) for value in (0, 1)]
        np.testing.assert_allclose(*means, atol=1e-5 if fit is fit_erasure else 0.15)
    # INLP takes away what its classifiers lean on besides, here the groups themselves.
    if fit is fit_erasure:
        apart = after[group == 1].mean(0) - after[group == 0].mean(0)
        assert np.linalg.norm(apart) > 4
        assert erasure.ranks.tolist() == [2]


def test_null_spaces_are_orthogonal_and_leave_nothing_to_least_squares():
    random = np.random.default_rng(1)
    label = random.integers(0, 3, 3000)
    vectors = random.normal(size=(3000, 10)) * np.arange(1, 11)
    vectors[:, 3] += 4.0 * label
    vectors[:, 4] += vectors[:, 3] + (label == 1)
    erasure = fit_nullspace(ArrayFeatures(vectors[None].astype(np.float32)), label, 3)
    rows = erasure.right[0][erasure.right[0].any(1)]
    torch.testing.assert_close(rows @ rows.T, torch.eye(len(rows), dtype=rows.dtype), atol=1e-9, rtol=0)
    after = erasure.layer(0)(torch.from_numpy(vectors)).numpy()
    target = np.eye(3)[label] - np.eye(3)[label].mean(0)
    after = after - after.mean(0)
    left = after @ np.linalg.lstsq(after, target, rcond=1e-6)[0]
    assert (left**2).sum() / (target**2).sum() < 0.01


def test_an_oracle_finds_nothing_where_the_erasure_was_fitted():
    random = np.random.default_rng(2)
    codes = np.array([0, 0, 1] * 400)
    vectors = random.normal(size=(1, 1200, 6)).astype(np.float32)
    vectors[0, :, 0] += 2 * codes
    states = {split: States(ArrayFeatures(vectors), np.arange(1200)) for split in ("dev", "test")}
    labels = WordLabels(dict.fromkeys(("train", "dev", "test"), codes), ("a", "b"))
    sentence = np.repeat(np.arange(300), 4)
    erasure = fit_erasure(states["dev"].vectors, codes, 2)
    found = judge(labels, states, sentence, erasure, oracle="linear")
    assert found.guessed.sum() == 800
    assert found.before.sum() > 950
    assert abs(found.after.sum() - 800) <= 20
    kept = judge(labels, states, sentence, random_erasure(erasure, seed=4), oracle="linear")
    assert kept.after.sum() > found.after.sum() + 50


def test_reliability_is_the_harmonic_mean_with_its_slope():
    random = np.random.default_rng(3)
    before, after, guessed = random.uniform(6, 9, (1, 50)), random.uniform(2, 4, (1, 50)), np.full((1, 50), 1.0)
    own, other = Judged(before, after, guessed), Judged(before + 1, after + 2, guessed)
    sums = {one.metric: one for one in reliability_sums({"": own, "pos": other}, (2,), "") if not one.group}

    def by_hand(weights):
        complete = ((before - after) @ weights / ((before - guessed) @ weights)).item()
        kept = ((other.after - guessed) @ weights / ((other.before - guessed) @ weights)).item()
        return 2 * complete * kept / (complete + kept)

    every = np.ones(50)
    whole = by_hand(every)
    assert sums["reliability"].values[0] == pytest.approx(whole)
    heavier = every.copy()
    heavier[7] += 1e-6
    slope = (by_hand(heavier) - whole) / 1e-6
    over = sums["reliability"].over[0]
    assert over[7] - whole == pytest.approx(50 * slope, rel=1e-3)


def test_a_share_of_what_is_hardly_found_has_no_value():
    """In the first layer an oracle finds the property, in the second no more of it than guessing does."""
    random = np.random.default_rng(5)
    guessed = random.integers(0, 3, (1, 60)).astype(float)
    before = np.concatenate([guessed + 2, random.permuted(guessed, axis=1)])
    own = Judged(before, before - 1, guessed)
    found = {one.metric: one for one in reliability_sums({"": own, "pos": own}, (1, 2), "") if not one.group}
    assert found["completeness"].values.tolist() == pytest.approx([0.5, np.nan], nan_ok=True)
    assert found["others_kept"].values.tolist() == pytest.approx([0.5, np.nan], nan_ok=True)
    assert found["reliability"].layers == (1,)


def test_choices_of_the_plain_model_are_those_of_its_logits(encoder):
    pairs = agreement_pairs("pocket", most=12)
    found = choose_changed(encoder, pairs, {}, layers=(1,))
    right = 0
    for pair in pairs[:1]:
        for text, good, bad in ((pair.text, pair.good, pair.bad), (pair.other, pair.bad, pair.good)):
            ids = encoder.tokenizer(text.replace("{mask}", encoder.mask_token), return_tensors="pt")["input_ids"]
            place = (ids[0] == encoder.mask_id).nonzero()[0].item()
            words = [encoder.tokenizer.convert_tokens_to_ids(word) for word in (good, bad)]
            logits = encoder.masked_logits(ids, torch.tensor([[0, place]]))[encoder.n_layers][0]
            right += bool(logits[words[0]] > logits[words[1]])
    assert found.plain[0] == right


def test_decisions_of_a_tuned_model_are_those_with_a_plain_hook(change):
    with quiet_loading(), torch.random.fork_rng():
        torch.manual_seed(3)
        model = AutoModelForSequenceClassification.from_pretrained(model_folder("pocket"), num_labels=3).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(50)
    tuned = Encoder.from_model(model, AutoTokenizer.from_pretrained(model_folder("pocket")))
    sentences = as_sentences(TEXTS)
    changes = dict.fromkeys(CONTROLS, change)
    sums = {one.metric: one for one in kept_decisions(tuned, sentences, changes, (0, 2), "window")}
    erasure, same, moved = change.erasures["visible"], [], []
    for text in TEXTS:
        inputs = tuned.tokenizer(text, return_tensors="pt")

        def erase(module, args, kwargs):
            state = args[0].clone()
            state[:, 1:-1] = erasure.layer(2)(state[:, 1:-1])
            return (state, *args[1:]), kwargs

        with torch.inference_mode():
            before = model(**inputs).logits.log_softmax(-1)
            with model.bert.encoder.layer[2].register_forward_pre_hook(erase, with_kwargs=True):
                after = model(**inputs).logits.log_softmax(-1)
        same.append(float(before.argmax() == after.argmax()))
        moved.append(float((before.exp() * (before - after)).sum() / np.log(2)))
    assert max(moved) > 1e-4
    np.testing.assert_allclose(sums["decision_kept"].over[1], same)
    np.testing.assert_allclose(sums["decision_divergence_bits"].over[1], moved, rtol=1e-3, atol=1e-6)
