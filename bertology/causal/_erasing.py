"""Erase a property from the states of one layer, and see what the model can no longer predict (amnesic probing).

Erasures are fitted to the states of words in a text of which some words are masked, and words are predicted with and
without the property (:class:`MaskedReading`); oracles tell how much of it is gone and how much
of other properties is not (:func:`judge`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.causal._choices import KINDS, Kind, StateChange, choose_changed
from bertology.causal._pairs import PatchPair
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.alignment import OnLong
from bertology.encoders.interventions import starting_from
from bertology.encoders.masked_loss import MaskedBatch, MaskedText, words_to_mask
from bertology.measures import majority
from bertology.measures.sums import LayerSums, jackknife_sums, mean_sums
from bertology.readouts import (
    ArrayFeatures,
    Erasure,
    FeatureSource,
    Targets,
    erased,
    fit_erasure,
    fit_nullspace,
    get_readout,
    random_erasure,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Method = Literal["leace", "inlp"]
METHODS = {"leace": fit_erasure, "inlp": fit_nullspace}
_PLAIN = "plain"
_CONTROLS = {
    "erased": "loss_increase",
    "random": "random_increase",
    "shuffled": "shuffled_increase",
    "moved": "moved_increase",
}
"""Name of the loss by change."""
_HELD_OUT_EVERY = 5
_STANDARD_ERRORS = 2


@dataclass(frozen=True)
class Erasing:
    """Settings of an erasure and of its controls."""

    method: Method = "leace"
    """``leace`` (Belrose et al. 2023), or ``inlp`` (Ravfogel et al. 2020)."""
    share: float = 0.15
    """Share of the words of a sentence that are masked, at least one."""
    n_maskings: int = 4
    """How often the text that erasures are fitted to is read, with other words masked."""
    n_random: int = 3
    """Random initialisations of directions, whose mean is the control."""
    oracle: str = "linear"
    """Readout that looks for what is left of the property, and for others."""
    seed: int = 0


def erase_and_predict(
    encoder: Encoder,
    sentences: Mapping[str, Sentences],
    labels: WordLabels,
    others: Mapping[str, WordLabels],
    *,
    layers: Sequence[int],
    erasing: Erasing,
    groups: Mapping[str, Bools] | None = None,
    pairs: Sequence[PatchPair] = (),
    on_long: OnLong = "window",
) -> Iterator[LayerSums]:
    """What does the model lose when a property is erased from the states of all words in one layer?

    Erasures are fitted to train, one to masked pieces and one to visible ones, in texts of which some words are masked
    as in training; special tokens stay as they are. The rest of the model runs on what is left (Elazar et al. 2021,
    section 2). Controls, on the same words: as many random directions; an erasure of the same labels put to words at
    random; and moves of the same length in random directions. Oracles fitted to dev tell whether the property is gone
    and others are not (Canby et al. 2024).

    Args:
        encoder: a masked language model.
        sentences: ``train``, ``dev`` and ``test``.
        labels: what is erased.
        others: properties that should stay, by name.
        layers: each by itself, 0 for the embeddings.
        erasing: settings.
        groups: ``[word]`` masks of test words by name, such as parts of speech, for which losses are given too.
        pairs: texts with two words each, between which the model chooses with and without the property.
        on_long: as in :meth:`Encoder.tokenize`.

    Yields:
        Statistics by layer, as sums over sentences of test, and choices over clusters of pairs.

    Raises:
        FitError: the property is constant in train, or has too few items.
        ModelError: the model has no masked-LM head.
    """
    layers = tuple(layers)
    reading = MaskedReading(encoder, layers, erasing.share, on_long)
    n_maskings, seed = erasing.n_maskings, erasing.seed
    train = reading.states(sentences["train"], n_maskings=n_maskings, seed=seed + 1)
    changes, erasures = _changes(train, labels, erasing)
    del train
    found = reading.predictions(sentences["test"], changes, seed=seed)
    yield from _losses(found, sentences["test"], layers, groups or {})
    if pairs:
        yield from _choices(encoder, pairs, changes, layers)
    held = {split: reading.states(sentences[split], n_maskings=n_maskings, seed=seed) for split in ("dev", "test")}
    sentence_of_word = sentences["test"].sentence_of_word.astype(np.int64)
    judged: dict[str, list[Judged]] = {name: [] for name in ("", *others)}
    for kind in KINDS:
        of_kind = {split: states[kind] for split, states in held.items()}
        for name, one in {"": labels, **others}.items():
            judged[name].append(judge(one, of_kind, sentence_of_word, erasures[kind], oracle=erasing.oracle))
    for number, suffix in enumerate(("_masked", "_visible")):
        of_kinds = {name: kinds[number] for name, kinds in judged.items()}
        yield from reliability_sums(of_kinds.pop(""), of_kinds, layers, suffix)
    both = {name: kinds[0] + kinds[1] for name, kinds in judged.items()}
    yield from reliability_sums(both.pop(""), both, layers, "")
    yield from _ranks(erasures, layers, len(sentences["test"]))


def _changes(
    train: Mapping[Kind, States], labels: WordLabels, erasing: Erasing
) -> tuple[dict[str, StateChange], dict[Kind, Erasure]]:
    """The erasure and its controls, by name, and the erasure itself."""
    fit, n_values = METHODS[erasing.method], len(labels.values)
    random = np.random.default_rng(erasing.seed)
    own: dict[Kind, Erasure] = {}
    shuffled: dict[Kind, Erasure] = {}
    for kind, states in train.items():
        codes, groups = labels.codes["train"][states.words], labels.group("train", states.words)
        own[kind] = fit(states.vectors, codes, n_values, within=groups)
        mixed = codes.copy()
        for group in np.unique(groups):
            which = (codes >= 0) & (groups == group)
            mixed[which] = random.permutation(codes[which])
        # Of labels at random INLP would find nothing to remove.
        shuffled[kind] = fit_erasure(states.vectors, mixed, n_values, within=groups)
    changes = {
        "erased": StateChange(own),
        "shuffled": StateChange(shuffled),
        "moved": StateChange(own, in_random_direction=erasing.seed),
    }
    for draw in range(erasing.n_random):
        first = 2 * (erasing.seed + draw)
        drawn = {kind: random_erasure(one, seed=first + place) for place, (kind, one) in enumerate(own.items())}
        changes[f"random {draw}"] = StateChange(drawn)
    return changes, own


def _ranks(erasures: Mapping[Kind, Erasure], layers: tuple[int, ...], n_sentences: int) -> Iterator[LayerSums]:
    """How many directions are removed: the same for every sentence of test."""
    for kind, erasure in erasures.items():
        ranks = np.repeat(erasure.ranks.astype(np.float64)[:, None], n_sentences, axis=1)
        yield LayerSums(f"directions_{kind}_dimensions", layers, ranks, np.ones((1, n_sentences)), "sentences")


def _mean(changes: Mapping[str, Floats], control: str) -> Floats:
    return np.asarray(np.mean([values for name, values in changes.items() if name.split()[0] == control], axis=0))


def _losses(
    found: Predictions, sentences: Sentences, layers: tuple[int, ...], groups: Mapping[str, Bools]
) -> Iterator[LayerSums]:
    """Losses of predictions, of masked words (names without a prefix) and of visible ones."""
    for kind, words in found.words.items():
        before = found.plain[kind]
        prefix = "" if kind == "masked" else "visible_"
        parts = {
            name: {change: getattr(of_kind[kind], name) for change, of_kind in found.changed.items()}
            for name in ("bits", "right", "divergence")
        }
        rise = {control: _mean(parts["bits"], control) - before.bits for control in _CONTROLS}
        values = {
            "beyond_random_bits": rise["erased"] - rise["random"],
            **{f"{of}_bits": rise[control] for control, of in _CONTROLS.items()},
            "loss_bits": before.bits,
            "accuracy_plain": before.right,
            **{f"accuracy_{control}": _mean(parts["right"], control) for control in ("erased", "random")},
            **{f"divergence_{control}_bits": _mean(parts["divergence"], control) for control in ("erased", "random")},
        }
        of_sentence = sentences.sentence_of_word[words].astype(np.int64)
        for group, which in {"": np.ones(sentences.n_words, dtype=bool), **groups}.items():
            chosen = which[words]
            for name, of_word in values.items() if chosen.any() else ():
                if not group or name in ("beyond_random_bits", "loss_increase_bits", "loss_bits"):
                    each = np.broadcast_to(of_word, (len(layers), len(words)))[:, chosen]
                    clusters, n = of_sentence[chosen], len(sentences)
                    yield mean_sums(f"{prefix}{name}", layers, each, clusters, n_clusters=n, group=group)


def _choices(
    encoder: Encoder, pairs: Sequence[PatchPair], changes: Mapping[str, StateChange], layers: tuple[int, ...]
) -> Iterator[LayerSums]:
    """Shares of right choices between two words."""
    found = choose_changed(encoder, pairs, changes, layers=layers)
    _, clusters = np.unique(np.array(found.clusters), return_inverse=True)
    twice = np.full(len(clusters), 2.0)  # both texts of a pair
    values = {"choice_accuracy": np.broadcast_to(found.plain, (len(layers), len(clusters)))}
    values |= {f"choice_accuracy_{control}": _mean(found.right, control)[:, 0] for control in _CONTROLS}
    for name, right in values.items():
        yield mean_sums(name, layers, right / 2, clusters, weights=twice, kind="frames")


@dataclass(frozen=True)
class WordBatch:
    """A batch of a text with masked words, and the words of its pieces."""

    input: MaskedBatch
    words: Integers
    """``[place]`` the word of each subword; a subword that words share is a place of each of them."""
    positions: Tensor
    """``[place, 2]`` row in the batch and subword in the row."""
    kinds: Mapping[Kind, Tensor]
    """``[window, piece]`` by kind which subwords of words are of it; special tokens and padding are of neither."""


def word_batches(text: MaskedText) -> Iterator[WordBatch]:
    """The batches of a text, with the words of its subwords."""
    every = text.pieces.places_of(np.flatnonzero(text.pieces.word_window >= 0))
    for batch in text.batches():
        places, positions = every.inside(batch.windows)
        masked, is_word = torch.zeros((2, *batch.ids.shape), dtype=torch.bool)
        masked[tuple(batch.positions.unbind(1))] = True
        is_word[tuple(positions.T)] = True
        kinds: dict[Kind, Tensor] = {"masked": masked, "visible": is_word & ~masked}
        yield WordBatch(batch, every.word[places], torch.from_numpy(positions), kinds)


@dataclass(frozen=True)
class States:
    """Hidden states of the subwords of words; one that words share is an item of each."""

    vectors: FeatureSource
    words: Integers
    """``[item]``"""


@dataclass(frozen=True)
class WordPredictions:
    """Predictions of some words, as sums over the subwords of a word, shared ones included."""

    bits: Floats
    """``[layer, word]`` −log2 of the probability of its pieces."""
    right: Floats
    """``[layer, word]`` 1 where each piece is the most probable one."""
    divergence: Floats
    """``[layer, word]`` Kullback–Leibler divergence of the prediction from the plain one, in bits."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of the same words with several changes, each in several layers."""

    words: Mapping[Kind, Integers]
    """Numbers of the words that are predicted by kind, ascending."""
    plain: Mapping[Kind, WordPredictions]
    """``[1, word]`` predictions of the unchanged model."""
    changed: Mapping[str, Mapping[Kind, WordPredictions]]
    """Predictions by name of the change."""


@dataclass(frozen=True)
class MaskedReading:
    """A model that reads texts of which some words are masked."""

    encoder: Encoder
    layers: Sequence[int]
    """Layers whose states are read, or changed, each by itself; 0 for the embeddings."""
    share: float
    """Share of the words of a sentence that are masked at once."""
    on_long: OnLong

    def states(self, sentences: Sentences, *, n_maskings: int, seed: int) -> dict[Kind, States]:
        """States of all pieces of words, by whether they are masked: in float32, all in memory.

        Args:
            sentences: the text.
            n_maskings: how often it is read, with other words masked; visible words are those of the first time.
            seed: random seed of the masked words.
        """
        vectors: dict[Kind, list[Tensor]] = {kind: [] for kind in KINDS}
        words: dict[Kind, list[Integers]] = {kind: [] for kind in KINDS}
        for masking in range(n_maskings):
            for batch in word_batches(self._text(sentences, seed + masking)):
                states = self.encoder.hidden_states(batch.input.ids, batch.input.mask, layers=self.layers)
                for kind in KINDS if masking == 0 else KINDS[:1]:
                    chosen = batch.kinds[kind][tuple(batch.positions.T)]
                    rows, columns = batch.positions[chosen].T
                    of_kind = [states[layer][rows, columns].float() for layer in self.layers]
                    vectors[kind].append(torch.stack(of_kind).cpu())
                    words[kind].append(batch.words[chosen.numpy()])
        return {
            kind: States(ArrayFeatures(torch.cat(some, dim=1), layers=self.layers), np.concatenate(words[kind]))
            for kind, some in vectors.items()
        }

    def predictions(self, sentences: Sentences, changes: Mapping[str, StateChange], *, seed: int) -> Predictions:
        """Predict masked words, and as many that are not masked, with states of each layer changed.

        Blocks below a changed layer are computed once, whatever is changed above.

        Args:
            sentences: the text.
            changes: changes by name.
            seed: random seed of the choice of words.
        """
        encoder, top, text = self.encoder, self.encoder.n_layers, self._text(sentences, seed)
        asked: dict[Kind, Integers] = {
            "masked": np.unique(text.places.word),
            "visible": words_to_mask(sentences, _visible(text), share=self.share, seed=seed),
        }
        every = text.pieces.places_of(np.concatenate(list(asked.values())))
        # By name [bits, wrong, divergence; layer, place]: NaN until a subword is predicted.
        names = {_PLAIN: 1, **dict.fromkeys(changes, len(self.layers))}
        found = {name: np.full((3, n_layers, len(every.word)), np.nan) for name, n_layers in names.items()}
        for number, batch in enumerate(word_batches(text)):
            ids, mask = batch.input.ids, batch.input.mask
            places, positions = every.inside(batch.input.windows)
            at = torch.from_numpy(positions)
            before = torch.from_numpy(text.pieces.batch_ids(batch.input.windows, ids.shape[1]))
            gold = before[at.unbind(1)]  # before words were masked
            states = encoder.hidden_states(ids, mask, layers=sorted({*self.layers, top}))
            plain = _log_probs(encoder, states[top], at)
            found[_PLAIN][:, 0, places] = _measures(plain, plain, gold)
            for place, layer in enumerate(self.layers):
                for name, change in changes.items():
                    state = change(states[layer], batch.kinds, layer=layer, batch=number)
                    with starting_from(encoder.model.body, encoder.model.blocks, layer, state):
                        last = encoder.hidden_states(ids, mask, layers=(top,))[top]
                    found[name][:, place, places] = _measures(_log_probs(encoder, last, at), plain, gold)
        of_kind = {
            name: {kind: _of_words(values, every.word, which) for kind, which in asked.items()}
            for name, values in found.items()
        }
        return Predictions(asked, of_kind.pop(_PLAIN), of_kind)

    def _text(self, sentences: Sentences, seed: int) -> MaskedText:
        return MaskedText(self.encoder, sentences, share=self.share, seed=seed, on_long=self.on_long)


def _visible(text: MaskedText) -> Bools:
    """``[word]`` words that are read in a window with masked words, no subword of theirs being masked."""
    pieces, masked = text.pieces, text.places
    every = pieces.places_of(np.flatnonzero(pieces.word_window >= 0))
    at = pieces.window_starts[every.window] + every.piece
    is_masked = np.isin(at, pieces.window_starts[masked.window] + masked.piece)
    visible = np.zeros(pieces.n_words, dtype=bool)
    visible[every.word[np.isin(every.window, masked.window)]] = True
    visible[every.word[is_masked]] = False
    return visible


def _of_words(values: Floats, of_place: Integers, words: Integers) -> WordPredictions:
    """Sums over the subwords of words, from ``[bits, wrong, divergence; layer, place]``."""
    chosen = np.isin(of_place, words)
    order = np.searchsorted(words, of_place[chosen])
    bits, wrong, divergence = sums = np.zeros((*values.shape[:2], len(words)))
    for row in np.ndindex(values.shape[:2]):
        sums[row] = np.bincount(order, weights=values[row][chosen], minlength=len(words))
    return WordPredictions(bits, (wrong == 0).astype(float), divergence)


def _log_probs(encoder: Encoder, last: Tensor, positions: Tensor) -> Tensor:
    """``[place, vocabulary]`` natural logarithms of probabilities, from states of the last layer."""
    rows, columns = positions.to(last.device).unbind(1)
    with torch.inference_mode():
        features = encoder.masked_head.features(last[rows, columns])
    return encoder.vocabulary_logits(features, layer=encoder.n_layers).float().log_softmax(1)


def _measures(logs: Tensor, plain: Tensor, gold: Tensor) -> Floats:
    """``[3, place]`` bits of each subword, whether another is more probable, and divergence from the plain model."""
    right = gold.to(logs.device)
    bits = -logs.gather(1, right[:, None])[:, 0] / np.log(2)
    divergence = (plain.exp() * (plain - logs)).sum(1) / np.log(2)
    measures = (bits, logs.argmax(1) != right, divergence)
    return np.stack([values.cpu().double().numpy() for values in measures])


@dataclass(frozen=True)
class WordLabels:
    """A property of words, by split."""

    codes: Mapping[str, Integers]
    """``[word]`` by split, −1 of words that do not have it."""
    values: tuple[str, ...]
    """The labels."""
    within: Mapping[str, Integers] | None = None
    """``[word]`` by split, codes of groups within which the property is erased, such as parts of speech."""

    def group(self, split: str, words: Integers) -> Integers:
        """The groups of some words; one where there are none."""
        return np.zeros(len(words), dtype=np.int64) if self.within is None else self.within[split][words]


@dataclass(frozen=True)
class Judged:
    """How often an oracle is right on each piece of the test text, as it is and after an intervention."""

    before: Floats
    """``[layer, sentence]`` number of pieces of which it finds the label."""
    after: Floats
    """The same after the intervention, by an oracle that was fitted after it too."""
    guessed: Floats
    """``[1, sentence]`` the same of the most frequent label, of those of its group where there are groups."""

    def __add__(self, other: Judged) -> Judged:
        """The counts over the pieces of both."""
        return Judged(self.before + other.before, self.after + other.after, self.guessed + other.guessed)


def judge(
    labels: WordLabels,
    states: Mapping[str, States],
    sentence_of_word: Integers,
    erasure: Erasure,
    *,
    oracle: str,
) -> Judged:
    """Fit an oracle to other text than the erasure was fitted to, before and after it, and count where it is right.

    Args:
        labels: the property that is asked for; ``dev`` and ``test``.
        states: ``dev``, to which the oracle is fitted, and ``test``.
        sentence_of_word: ``[word]`` the sentence of each word of the test text.
        erasure: the erasure of the property, or of another one.
        oracle: registered name of the readout.

    Raises:
        FitError: the text has too few items with the property.
    """
    codes = {split: labels.codes[split][states[split].words] for split in ("dev", "test")}
    dev, test = states["dev"].vectors, states["test"].vectors
    held_out = np.arange(len(codes["dev"])) * _HELD_OUT_EVERY // max(len(codes["dev"]), 1) == _HELD_OUT_EVERY - 1
    targets = [Targets(np.where(which, codes["dev"], -1)[None], len(labels.values)) for which in (~held_out, held_out)]
    asked = codes["test"] >= 0
    sentences = sentence_of_word[states["test"].words]
    n_sentences = int(sentence_of_word.max()) + 1

    def right(fitted_to: FeatureSource, put_to: FeatureSource) -> Floats:
        fitted = get_readout(oracle).fit(fitted_to, targets[0], dev=fitted_to, dev_targets=targets[1])
        is_right = (fitted.predict(put_to).labels[0] == codes["test"]) & asked
        return np.stack([np.bincount(sentences, weights=row, minlength=n_sentences) for row in is_right])

    groups = {split: labels.group(split, states[split].words) for split in codes}
    guess = np.full(max(int(of_split.max(initial=0)) for of_split in groups.values()) + 1, -2)
    for group in np.unique(groups["dev"]).tolist():
        known = codes["dev"][(groups["dev"] == group) & (codes["dev"] >= 0) & ~held_out]
        guess[group] = majority(known) if len(known) else -2
    guessed = np.bincount(sentences, weights=codes["test"] == guess[groups["test"]], minlength=n_sentences)[None]
    after = [erased(source, erasure) for source in (dev, test)]
    return Judged(right(dev, test), right(*after), guessed.astype(float))  # type: ignore[arg-type]


def reliability_sums(
    own: Judged, others: Mapping[str, Judged], layers: tuple[int, ...], kind: str
) -> Iterator[LayerSums]:
    """Completeness, selectivity and their harmonic mean, as sums over sentences.

    Completeness is the share of what an oracle finds of the property, beyond the most frequent label, that is gone;
    selectivity the share of what oracles find of other properties that is still there. Canby et al. state both by
    distances of probability distributions; shares of right answers have intervals over sentences, and are the same
    where all or nothing is lost.

    Args:
        own: counts for the property that is erased.
        others: counts for properties that should stay, by name.
        layers: numbers of the layers.
        kind: ``_masked`` or ``_visible`` pieces, which metrics are named after; empty of both.
    """
    found = own.before - own.guessed
    complete = _share(f"completeness{kind}", layers, own.before - own.after, found)
    yield complete
    if not others:
        return
    kept = {name: (one.after - one.guessed, one.before - one.guessed) for name, one in others.items()}
    over, under = (np.sum([sums[side] for sums in kept.values()], axis=0) for side in (0, 1))
    select = _share(f"others_kept{kind}", layers, over, under)
    yield select
    for name, of_label in kept.items():
        yield _share(f"others_kept{kind}", layers, *of_label, name)
    yield _harmonic_mean(f"reliability{kind}", complete, select)


def _share(metric: str, layers: tuple[int, ...], over: Floats, found: Floats, group: str = "") -> LayerSums:
    """Share of the findings of an oracle beyond guessing; without a value where it finds no more than chance may.

    A ratio to what is nearly nothing would be any number: there is none where all that is found is less than two of its
    standard errors over sentences.
    """
    n_sentences = found.shape[1]
    is_found = found.sum(axis=1) > _STANDARD_ERRORS * found.std(axis=1) * np.sqrt(n_sentences)
    return LayerSums(metric, layers, over * is_found[:, None], found * is_found[:, None], "sentences", group)


def _harmonic_mean(metric: str, one: LayerSums, other: LayerSums) -> LayerSums:
    """Harmonic mean of two ratios, linear in the weights of sentences around all of them."""
    (a, b), slopes = (one.values, other.values), []
    for ratio, sums in ((a, one), (b, other)):
        total = sums.under.sum(axis=1, keepdims=True)
        slopes.append((sums.over - ratio[:, None] * sums.under) / np.where(total == 0, np.nan, total))
    whole = np.asarray(2 * a * b / (a + b))
    change = 2 * ((b / (a + b))[:, None] ** 2 * slopes[0] + (a / (a + b))[:, None] ** 2 * slopes[1])
    # Of a share below zero, which few words and guessing make, there is no such mean.
    known = np.flatnonzero((a > 0) & (b > 0))
    layers = tuple(one.layers[place] for place in known)
    return jackknife_sums(metric, layers, whole[known], change[known], "sentences")
