"""Dimensions in the running model: beside plain hooks; planted labels; the words of a dimension by hand."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from bertology.causal.dimension_words import find_dimensions
from bertology.causal.dimensions import (
    LabelledStates,
    MaskedChanges,
    measure_dimensions,
    random_sets,
    shift_targets,
    values_of_entries,
    word_states,
)
from bertology.causal.erasing import MaskedReading, WordLabels, word_batches
from bertology.corpora import Sentence, Sentences, as_sentences
from bertology.encoders import masked_lm_loss
from bertology.encoders.encoder import read_words
from bertology.encoders.masked_loss import SHARE, MaskedText
from bertology.errors import CorpusError, FitError, ModelError

TEXTS = ["The dogs near the cat see the bird.", "A cat sees the dog.", "The birds sleep.", "The dog likes the cats."]
SENTENCES = as_sentences(TEXTS * 3)
CAPITAL = np.array([int(word[0].isupper()) for text in SENTENCES for word in text.words])
SITES = ("hidden_state", "neurons")


def neurons(encoder, sentences):
    """``[layer, word, unit]`` outputs of the activation functions, by hooks, one text at a time."""
    found = [[] for _ in range(encoder.n_layers)]
    hooks = [
        block.intermediate.register_forward_hook(lambda _, args, output, of=of: of.append(output[0, 1:-1]))
        for block, of in zip(encoder.model.blocks, found, strict=True)
    ]
    for sentence in sentences:
        ids = encoder.tokenizer(sentence.text, return_tensors="pt")["input_ids"]
        encoder.hidden_states(ids, layers=(encoder.n_layers,))
    for hook in hooks:
        hook.remove()
    return torch.stack([torch.cat(of) for of in found])


def test_states_of_words_are_those_of_the_model(encoder):
    layers = tuple(range(encoder.n_layers + 1))
    found = word_states(encoder, SENTENCES, layers=layers, on_long="window")
    torch.testing.assert_close(found, read_words(encoder, SENTENCES, layers=layers), rtol=1e-4, atol=1e-4)
    of_units = word_states(encoder, SENTENCES, layers=layers[1:], site="neurons", on_long="window")
    torch.testing.assert_close(of_units, neurons(encoder, SENTENCES), rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module", params=SITES)
def changes(encoder, request):
    labels = WordLabels({"train": CAPITAL}, ("lower", "capital"))
    reading = MaskedReading(encoder, (1, 3), SHARE, "window")
    return MaskedChanges.fitted_to(reading, request.param, SENTENCES, labels, shift_targets(labels), 2.0)


def test_predictions_are_those_of_a_pass_with_hooks(encoder, changes):
    """Nothing changed is the loss of the model; ablated, shifted, and shifted as far as in other dimensions, that with
    the block changed by hand."""
    dims, other = np.array([[[2, 5], [7, 1]], [[3, 0], [4, 6]]])
    asked = {"ablated": (dims, None), "shifted": (dims, dims), "as far": (dims, other)}
    found = changes.predictions(SENTENCES, CAPITAL, asked)
    plain = masked_lm_loss(encoder, SENTENCES, share=SHARE, seed=0)
    np.testing.assert_array_equal(found.words, plain.words)
    np.testing.assert_allclose(found.bits[""], np.stack([plain.word_bits] * 2), rtol=1e-4)
    text = MaskedText(encoder, SENTENCES, share=SHARE, seed=0, on_long="window")
    (batch,) = word_batches(text)
    for place, layer in enumerate((1, 3)):
        means = {kind: one[place].float() for kind, one in changes.means.items()}
        moves = changes.moves[:, place].float()

        def ablate(values, place=place, means=means):
            values = values.clone()
            for kind, which in batch.kinds.items():
                for unit in dims[place]:
                    values[..., unit] = torch.where(which, means[kind][unit], values[..., unit])
            return values

        def shift(values, like=dims, place=place, moves=moves):
            values = values.clone()
            factor = moves[:, like[place]].norm(dim=1) / moves[:, dims[place]].norm(dim=1)
            for (row, column), word in zip(batch.positions.tolist(), batch.words.tolist(), strict=True):
                for unit in dims[place] if batch.kinds["masked"][row, column] else ():
                    values[row, column, unit] += factor[CAPITAL[word]] * moves[CAPITAL[word], unit]
            return values

        block = encoder.model.blocks[layer - 1]
        part = block if changes.site == "hidden_state" else block.intermediate
        for name, change in (("ablated", ablate), ("shifted", shift), ("as far", partial(shift, like=other))):

            def changed(_, args, output, change=change):
                return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

            hook = part.register_forward_hook(changed)
            nats, _ = batch.input.ask(encoder)
            hook.remove()
            words = text.places.word[batch.input.places]
            bits = np.bincount(words, weights=nats.numpy() / np.log(2))[found.words]
            np.testing.assert_allclose(found.bits[name][place], bits, atol=1e-4)
            assert np.abs(bits - plain.word_bits).max() > 1e-3


def test_words_are_shifted_by_the_difference_of_means(changes):
    """To the other of two values, and back, twice the difference of the means of masked words."""
    assert shift_targets(WordLabels({"train": np.array([0, 1, 1, 2, -1])}, tuple("abc"))).tolist() == [1, 0, 1]
    assert shift_targets(WordLabels({"train": np.array([0, 1, 1, 2])}, tuple("abc")), "c").tolist() == [2, 2, 1]
    torch.testing.assert_close(changes.moves[0], -changes.moves[1])
    rare = replace(changes, moves=torch.cat([changes.moves, torch.full_like(changes.moves[:1], torch.nan)]))
    assert rare.is_shifted(np.array([0, 1, 2, -1])).tolist() == [True, True, False, False]


def test_values_of_vocabulary_entries(encoder):
    found = values_of_entries(encoder, SENTENCES, CAPITAL)
    entry = encoder.tokenizer.convert_tokens_to_ids
    assert found[entry("dogs")] == 0
    assert found[encoder.mask_id] == -1


def planted(n=800, dim=30):
    """One label in dimensions 0 and 1, another in 5 and 6, in one layer."""
    random = np.random.default_rng(0)
    vectors, codes = {}, {"first": {}, "second": {}}
    for split in ("train", "dev", "test"):
        vectors[split] = random.normal(size=(1, n, dim))
        for name, at in (("first", 0), ("second", 5)):
            codes[name][split] = random.integers(0, 3, n)
            for offset in (0, 1):
                vectors[split][0, :, at + offset] += 4 * (codes[name][split] == offset + 1)
    states = {split: torch.tensor(one, dtype=torch.float32) for split, one in vectors.items()}
    return {name: LabelledStates.of(states, WordLabels(of_task, tuple("abc"))) for name, of_task in codes.items()}


@pytest.mark.parametrize("ranking", ["linear", "probeless", "gaussian"])
def test_ablating_planted_dimensions_destroys_one_prediction(ranking):
    tasks = planted()
    best = {name: states.rank(ranking, 2)[:, :2] for name, states in tasks.items()}
    assert {name: set(dims[0].tolist()) for name, dims in best.items()} == {"first": {0, 1}, "second": {5, 6}}
    for name, states in tasks.items():
        other = next(dims for of, dims in best.items() if of != name)
        alone = states.right(np.stack([best[name], other])).mean(axis=2)[:, 0]
        whole, without = states.right_without(np.stack([best[name], other]))
        assert alone[0] > 0.9
        assert alone[1] < 0.42
        assert whole.mean() > 0.9
        assert without[0].mean() < 0.42
        assert without[1].mean() > 0.9


def test_random_labels_are_in_no_dimension(encoder):
    """The best dimensions are no better than random ones: the interval of the difference has zero."""
    random = np.random.default_rng(0)
    texts = dict.fromkeys(("train", "dev", "test"), SENTENCES)
    labels = WordLabels({split: random.integers(0, 2, SENTENCES.n_words) for split in texts}, ("a", "b"))
    about = {"layers": (0, 2), "ranking": "probeless", "k": 4}
    found = {one.metric: one for one in measure_dimensions(encoder, texts, labels, {}, changes_model=False, **about)}
    difference = found["accuracy_beyond_random"]
    per_sentence = difference.over / difference.under
    error = per_sentence.std(axis=1) / np.sqrt(per_sentence.shape[1])
    assert (np.abs(difference.values) < 3 * error).all()
    assert found["shared_chance"].values == pytest.approx(4 / encoder.dim)
    assert found["shared_with_below"].layers == (2,)
    assert not any("bits" in name or "shifted" in name for name in found)
    alone = measure_dimensions(encoder, texts, labels, {}, changes_model=False, **{**about, "layers": (2,)})
    for one in alone:  # a layer has the same numbers whatever others are measured
        assert one.values[-1] == pytest.approx(found[one.metric].values[-1]), one.metric


def test_random_sets_have_each_dimension_once():
    sets = random_sets(3, (0, 4), 5, 8)
    np.testing.assert_array_equal(random_sets(3, (4,), 5, 8)[:, 0], sets[:, 1])  # whatever other layers are read
    assert sets.shape == (3, 2, 5)
    assert all(len(set(one.tolist())) == 5 for one in sets.reshape(-1, 5))


def corpus():
    """Words whose part of speech follows from the form."""
    words, tags = ["The", "dogs", "see", "the", "bird"], ("DET", "NOUN", "VERB", "DET", "NOUN")
    one = Sentence.from_words(words, layers={"upos": tags})
    other = Sentence.from_words(["A", "cat", "sleeps"], layers={"upos": ("DET", "NOUN", "VERB")})
    return {split: Sentences([one, other] * 4) for split in ("train", "dev", "test")}


@pytest.mark.parametrize("site", SITES)
def test_words_of_a_dimension_by_hand(encoder, site):
    texts = corpus()
    found = find_dimensions(encoder, texts, "pos", layers=(2,), k=2, n_words=3, site=site, ranking="probeless")
    states = word_states(encoder, texts["train"], layers=(2,), site=site, on_long="window")[0]
    for one in found.best:
        values = states[:, one.dimension].double().numpy()
        z = (values - values.mean()) / values.std()
        forms = np.array([word.lower() for sentence in texts["train"] for word in sentence.words])
        means = {form: z[forms == form].mean() for form in set(forms)}
        order = sorted(means, key=lambda form: -means[form])
        assert [word.word for word in one.high] == order[:3]
        assert [word.word for word in one.low] == order[::-1][:3]
        assert one.high[0].z == pytest.approx(means[order[0]])
        assert one.high[0].n == np.count_nonzero(forms == order[0])
        assert {label for label, _ in one.labels} == {"DET", "NOUN", "VERB"}
    word = found.best[0].high[0]
    assert f"{word.before}{word.written}{word.after}" in ("The dogs see the bird", "A cat sleeps")
    assert word.written.lower() == word.word
    assert f"<b>{word.written}</b>" in found.html
    assert found.html.count("</html>") == 1
    assert len(found.to_pandas()) == 2 * 2 * 3
    shared = found.overlaps(k=4).iloc[0]
    assert (shared["shared"], shared["expected"]) == (4, 16 / found.order.shape[1])


def test_mistakes_are_one_line(encoder):
    texts = corpus()
    labels = WordLabels.of_task("pos", texts, asked_by="dimensions")
    about = {"layers": (0,), "ranking": "probeless"}
    with pytest.raises(FitError, match="the best 1000 dimensions"):
        list(measure_dimensions(encoder, texts, labels, {}, k=1000, **about))
    with pytest.raises(ModelError, match="site neurons: the embeddings have none"):
        list(measure_dimensions(encoder, texts, labels, {}, k=2, site="neurons", **about))
    with pytest.raises(FitError, match="no word of train has label 'ADJ', to shift words to: DET, NOUN, VERB"):
        list(measure_dimensions(encoder, texts, labels, {}, k=2, towards="ADJ", **about))
    with pytest.raises(CorpusError, match="no word form occurs 50 times"):
        find_dimensions(encoder, texts, "pos", layers=(1,), least=50, k=2, ranking="probeless")
    with pytest.raises(ModelError, match="give layers from 1"):
        find_dimensions(encoder, texts, "pos", layers=(0, 1), site="neurons")
