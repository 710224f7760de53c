"""Erase a property from the states of one layer, and see what the model can no longer predict (amnesic probing).

:func:`erase_and_predict` fits erasures to the states of words in a text of which some words are masked, and predicts
words with and without the property; oracles tell how much of it is gone and how much of other properties is not
(:func:`judge`). :func:`choose_erased` erases, place by place, what decides between two words at a mask.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertology.causal.patching import place_states, values_and_halves
from bertology.causal.targets import SPECIAL, AlignedPair, Decision, Integers, PatchPair, batches, fitting_pairs
from bertology.corpora import Sentences
from bertology.encoders import Encoder, Pieces
from bertology.encoders.alignment import OnLong
from bertology.encoders.batching import plan_batches
from bertology.encoders.interventions import starting_from
from bertology.encoders.masked_loss import SHARE, MaskedBatch, MaskedText, words_to_mask
from bertology.errors import ClozeError, CorpusError, ModelError, quoted
from bertology.measures import majority
from bertology.measures.sums import Bools, Floats, LayerSums, cluster_sums, jackknife_sums, mean_sums
from bertology.probing.probes import labels_of_words
from bertology.readouts import ArrayFeatures, FeatureSource, Targets, fit_erasure, get_readout
from bertology.readouts.erasure import Erasure, erased, fit_nullspace, random_erasure

Kind = Literal["masked", "visible"]
KINDS: tuple[Kind, ...] = ("masked", "visible")
"""Kinds of pieces. A mask represents its word in other directions than the word itself: each kind has an erasure."""
Layers = tuple[int, ...]
METHODS = {"leace": fit_erasure, "inlp": fit_nullspace}
"""Fits of an erasure: Belrose et al. 2023, Ravfogel et al. 2020."""
N_MASKINGS = 4
"""Number of passes over the text that erasures are fitted to, each with other words masked."""
N_RANDOM = 3
"""Number of draws of random directions, whose mean is the control."""
SEED = 0
_PLAIN, _ALL_PLACES, _CAUSE_AND_MASK = "plain", "all", "subject and mask"
CONTROLS = ("erased", "random", "shuffled", "moved")
_HELD_OUT_EVERY = 5
_STANDARD_ERRORS = 2


@dataclass(frozen=True)
class StateChange:
    """A change of the states of words in each layer; special tokens stay as they are."""

    erasures: Mapping[Kind, Erasure]  # erasures of masked and of visible pieces
    in_random_direction: int | None = None
    """Random seed; each state moves as far as the erasure would move it, in a direction drawn at random."""

    def __call__(self, state: Tensor, kinds: Mapping[Kind, Tensor], *, layer: int, batch: int = 0) -> Tensor:
        """``[window, piece, dim]`` states after the change."""
        changed = state.clone()
        for number, kind in enumerate(KINDS):
            chosen = kinds[kind].to(state.device)
            before = state[chosen]
            after = self.erasures[kind].layer(layer)(before)
            if self.in_random_direction is not None:
                seeds = np.random.SeedSequence((self.in_random_direction, layer, batch, number)).generate_state(1)
                random = torch.Generator().manual_seed(int(seeds[0]))
                drawn = torch.randn(before.shape, generator=random).to(before.device)
                length = (after - before).float().norm(dim=1, keepdim=True)
                after = (before + length * drawn / drawn.norm(dim=1, keepdim=True)).to(before.dtype)
            changed[chosen] = after
        return changed


@dataclass(frozen=True)
class WordLabels:
    """A property of words, by split."""

    codes: Mapping[str, Integers]  # [word] by split, −1 of words that do not have it
    values: tuple[str, ...]  # the labels
    within: Mapping[str, Integers] | None = None
    """``[word]`` by split, codes of groups within which the property is erased, such as parts of speech."""

    @classmethod
    def of_task(cls, task: str, texts: Mapping[str, Sentences], *, asked_by: str) -> "WordLabels":
        """Labels that a task gives to single words of some splits; those that train does not have count as none.

        Errors are those of :func:`~bertology.probing.probes.labels_of_words`.
        """
        examples = {split: labels_of_words(task, text, asked_by=asked_by) for split, text in texts.items()}
        values, codes = examples["train"].values, dict[str, Integers]()
        for split, of_split in examples.items():
            place = np.array(
                [values.index(value) if value in values else -1 for value in of_split.values], dtype=np.int64
            )
            codes[split] = np.full(texts[split].n_words, -1, dtype=np.int64)
            codes[split][of_split.words] = place[of_split.codes]
        return cls(codes, values)

    def group(self, split: str, words: Integers) -> Integers:
        """The groups of some words; one where there are none."""
        return np.zeros(len(words), dtype=np.int64) if self.within is None else self.within[split][words]


def erase_and_predict(
    encoder: Encoder,
    sentences: Mapping[str, Sentences],
    labels: WordLabels,
    others: Mapping[str, WordLabels],
    *,
    layers: Sequence[int],
    method: Literal["leace", "inlp"] = "leace",
    oracle: str = "linear",
    groups: Mapping[str, Bools] | None = None,
    pairs: Sequence[PatchPair] = (),
    on_long: OnLong = "window",
) -> Iterator[LayerSums]:
    """What does the model lose when a property is erased from the states of all words in one layer?

    A masked language model loses words; of a model that was fine-tuned for labels of texts or words it is its own
    decisions that change, on texts without masks.

    Erasures are fitted to train, one to masked pieces and one to visible ones, in texts of which some words are masked
    as in training; special tokens stay as they are. The rest of the model runs on what is left (Elazar et al. 2021,
    section 2). Controls, on the same words: as many random directions; an erasure of the same labels put to words at
    random; and moves of the same length in random directions. Oracles fitted to dev tell whether the property is gone
    and others are not (Canby et al. 2024).

    Yields statistics by layer, as sums over sentences of test, and choices over clusters of pairs. ``labels`` are
    erased, ``others`` should stay; ``groups`` are ``[word]`` masks of test words, such as parts of speech, for which
    losses are given too; ``pairs`` are texts with two words each, between which the model chooses with and without the
    property. A :class:`FitError` where the property is constant in train, or has too few items.
    """
    layers, test = tuple(layers), sentences["test"]
    reading = MaskedReading(encoder, layers, SHARE, on_long)
    train = reading.states(sentences["train"], n_maskings=N_MASKINGS, seed=SEED + 1)
    changes, erasures = _changes(train, labels, method)
    del train
    if encoder.task_head is None:
        yield from _losses(reading.predictions(test, changes, seed=SEED), test, layers, groups or {})
    else:
        yield from kept_decisions(encoder, test, changes, layers, on_long)
    if pairs:
        choices = choose_changed(encoder, pairs, changes, layers=layers)
        yield choices.sums("choice_accuracy", choices.plain)
        for control in CONTROLS:
            yield choices.sums(f"choice_accuracy_{control}", _mean(choices.right, control)[:, 0])
    held = {split: reading.states(sentences[split], n_maskings=N_MASKINGS, seed=SEED) for split in ("dev", "test")}
    judged: dict[str, list[Judged]] = {name: [] for name in ("", *others)}
    for kind in KINDS:
        of_kind = {split: states[kind] for split, states in held.items()}
        for name, one in {"": labels, **others}.items():
            of_word = test.sentence_of_word.astype(np.int64)
            judged[name].append(judge(one, of_kind, of_word, erasures[kind], oracle=oracle))
    for number, suffix in enumerate(("_masked", "_visible")):
        yield from reliability_sums({name: kinds[number] for name, kinds in judged.items()}, layers, suffix)
    both = {name: Judged(*(one + other for one, other in zip(*kinds, strict=True))) for name, kinds in judged.items()}
    yield from reliability_sums(both, layers, "")
    for kind, erasure in erasures.items():
        ranks = np.repeat(erasure.ranks.astype(np.float64)[:, None], len(test), axis=1)
        yield LayerSums(f"directions_{kind}_dimensions", layers, ranks, np.ones((1, len(test))), "sentences")


def _changes(
    train: "Mapping[Kind, States]", labels: WordLabels, method: str
) -> tuple[dict[str, StateChange], dict[Kind, Erasure]]:
    """The erasure and its controls, by name, and the erasure itself."""
    n_values, random = len(labels.values), np.random.default_rng(SEED)
    own: dict[Kind, Erasure] = {}
    shuffled: dict[Kind, Erasure] = {}
    for kind, states in train.items():
        codes, groups = labels.codes["train"][states.words], labels.group("train", states.words)
        own[kind] = METHODS[method](states.vectors, codes, n_values, within=groups)
        mixed = codes.copy()
        for group in np.unique(groups):
            which = (codes >= 0) & (groups == group)
            mixed[which] = random.permutation(codes[which])
        # Of labels at random INLP would find nothing to remove.
        shuffled[kind] = fit_erasure(states.vectors, mixed, n_values, within=groups)
    changes = {"erased": StateChange(own), "shuffled": StateChange(shuffled), "moved": StateChange(own, SEED)}
    for draw in range(N_RANDOM):
        seeds = range(2 * (SEED + draw), 2 * (SEED + draw) + len(own))
        drawn = {kind: random_erasure(one, seed=seed) for seed, (kind, one) in zip(seeds, own.items(), strict=True)}
        changes[f"random {draw}"] = StateChange(drawn)
    return changes, own


def _mean(changes: Mapping[str, Floats], control: str) -> Floats:
    return np.asarray(np.mean([values for name, values in changes.items() if name.split()[0] == control], axis=0))


def _losses(
    found: "Predictions", sentences: Sentences, layers: Layers, groups: Mapping[str, Bools]
) -> Iterator[LayerSums]:
    """Losses of predictions, of masked words (names without a prefix) and of visible ones."""
    for kind, words in found.words.items():
        bits, right, _ = found.plain[kind]
        of_kind = {name: values[kind] for name, values in found.changed.items()}
        after = {control: _mean(of_kind, control) for control in CONTROLS}
        rise = {control: values[0] - bits for control, values in after.items()}
        values = {
            "beyond_random_bits": rise["erased"] - rise["random"],
            "loss_increase_bits": rise["erased"],
            **{f"{control}_increase_bits": rise[control] for control in CONTROLS[1:]},
            "loss_bits": bits,
            "accuracy_plain": right,
            **{f"accuracy_{control}": after[control][1] for control in ("erased", "random")},
            **{f"divergence_{control}_bits": after[control][2] for control in ("erased", "random")},
        }
        prefix, of_sentence = "" if kind == "masked" else "visible_", sentences.sentence_of_word[words].astype(np.int64)
        for group, which in {"": np.ones(sentences.n_words, dtype=bool), **groups}.items():
            chosen = which[words]
            for name, of_word in values.items() if chosen.any() else ():
                if not group or name in ("beyond_random_bits", "loss_increase_bits", "loss_bits"):
                    each = np.broadcast_to(of_word, (len(layers), len(words)))[:, chosen]
                    clusters, n = of_sentence[chosen], len(sentences)
                    yield mean_sums(f"{prefix}{name}", each, clusters, n_clusters=n, group=group, layers=layers)


def kept_decisions(
    encoder: Encoder, sentences: Sentences, changes: Mapping[str, StateChange], layers: Layers, on_long: OnLong
) -> Iterator[LayerSums]:
    """How many of its decisions a fine-tuned model keeps, and how far they move, with states of words changed.

    ``decision_kept`` is the share of decisions (a text, or a subword of a word) whose most probable label stays,
    ``decision_divergence_bits`` the Kullback–Leibler divergence from those of the unchanged model; both also of the
    controls.
    """
    if encoder.task_head not in ("sentence", "words"):
        problem = f"decisions of a model for {encoder.task_head} are not read when a property is erased"
        raise ModelError(f"model {encoder.name}: {problem}: give one of labels")
    if encoder.task_model.config.num_labels < 2:
        raise ModelError(f"model {encoder.name}: it predicts a number, not a label: give a model of labels")
    by_word = encoder.task_head == "words"
    pieces = encoder.tokenize(sentences, on_long=on_long)
    over = {name: np.zeros((2, len(layers), len(sentences))) for name in changes}
    under = np.zeros(len(sentences))
    for number, (windows, inputs, _, positions) in enumerate(plain_batches(pieces)):
        visible = torch.zeros(inputs["input_ids"].shape, dtype=torch.bool)
        visible[tuple(positions.T)] = True
        kinds: dict[Kind, Tensor] = {"masked": torch.zeros_like(visible), "visible": visible}
        of_decision = np.repeat(pieces.window_sentence[windows], visible.sum(1).numpy() if by_word else 1)

        def log_probs(visible: Tensor = visible, inputs: dict[str, Any] = inputs) -> Tensor:
            logits: Tensor = encoder.task_output(**inputs).logits.float().log_softmax(-1).cpu()
            return logits[visible] if by_word else logits

        plain, states = log_probs(), encoder.hidden_states(**inputs, layers=layers)
        np.add.at(under, of_decision, 1)
        for place, layer in enumerate(layers):
            for name, change in changes.items():
                state = change(states[layer], kinds, layer=layer, batch=number)
                with starting_from(encoder.model.body, encoder.model.blocks, layer, state):
                    found = log_probs()
                same = (found.argmax(-1) == plain.argmax(-1)).double().numpy()
                moved = ((plain.exp() * (plain - found)).sum(-1) / np.log(2)).double().numpy()
                for row, values in enumerate((same, moved)):
                    np.add.at(over[name][row, place], of_decision, values)
    for control in CONTROLS:
        for metric, values in zip(("decision_kept", "decision_divergence_bits"), _mean(over, control), strict=True):
            name = metric if control == "erased" else f"{metric}_{control}"
            yield LayerSums(name, layers, values, np.broadcast_to(under, values.shape), "sentences")


def tasks_with_labels(names: Sequence[str], texts: Iterable[Sentences], *, asked_by: str) -> tuple[str, ...]:
    """Those of some tasks that give the words of every text two labels or more."""

    def has(task: str, text: Sentences) -> bool:
        try:
            return len(labels_of_words(task, text, asked_by=asked_by, remedy="").values) > 1
        except CorpusError:
            return False

    every = list(texts)
    return tuple(name for name in names if all(has(name, text) for text in every))


def plain_batches(pieces: Pieces) -> Iterator[tuple[Integers, dict[str, Any], Integers, Tensor]]:
    """The windows of a text in batches: their numbers, inputs, and of each subword of a word that word, and ``[place,
    2]`` its row and subword there."""
    every = pieces.places_of(np.flatnonzero(pieces.word_window >= 0))
    for batch in plan_batches(pieces.window_lengths):
        windows = np.sort(batch.windows)
        given = pieces.inputs(windows, batch.length, is_padded=batch.is_padded)
        places, positions = every.inside(windows)
        inputs = {name: torch.from_numpy(given[name]) for name in given if name in ("input_ids", "attention_mask")}
        yield windows, inputs, every.word[places], torch.from_numpy(positions)


# Texts of which some words are masked.


class WordBatch(NamedTuple):
    """A batch of a text with masked words, and the words of its pieces."""

    input: MaskedBatch
    words: Integers  # [place] the word of each subword; a subword that words share is a place of each of them
    positions: Tensor  # [place, 2] row in the batch and subword in the row
    kinds: Mapping[Kind, Tensor]  # [window, piece] which subwords of words are of a kind; special tokens of neither


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


class States(NamedTuple):
    """Hidden states of the subwords of words; one that words share is an item of each."""

    vectors: FeatureSource
    words: Integers  # [item]


class Predictions(NamedTuple):
    """Predictions of the same words, as sums over the subwords of a word, shared ones included.

    Measures are bits, −log2 of the probability of its pieces; 1 where each piece is the most probable one; and the
    Kullback–Leibler divergence from the plain prediction, in bits.
    """

    words: Mapping[Kind, Integers]  # [word] numbers of the words that are predicted, ascending
    plain: Mapping[Kind, Floats]  # [measure, 1, word] of the unchanged model
    changed: Mapping[str, Mapping[Kind, Floats]]  # [measure, layer, word] by name of the change


@dataclass(frozen=True)
class MaskedReading:
    """A model that reads texts of which some words are masked."""

    encoder: Encoder
    layers: Sequence[int]  # layers whose states are read, or changed, each by itself; 0 for the embeddings
    share: float  # share of the words of a sentence that are masked at once
    on_long: OnLong

    def states(self, sentences: Sentences, *, n_maskings: int, seed: int) -> dict[Kind, States]:
        """States of all pieces of words, in float32, all in memory; visible words are those of the first masking."""
        vectors: dict[Kind, list[Tensor]] = {kind: [] for kind in KINDS}
        words: dict[Kind, list[Integers]] = {kind: [] for kind in KINDS}
        for masking in range(n_maskings):
            for batch in word_batches(self.text(sentences, seed + masking)):
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
        """
        encoder, top, text = self.encoder, self.encoder.n_layers, self.text(sentences, seed)
        visible = words_to_mask(sentences, _visible(text), share=self.share, seed=seed)
        asked: dict[Kind, Integers] = {"masked": np.unique(text.places.word), "visible": visible}
        every = text.pieces.places_of(np.concatenate(list(asked.values())))
        # By name [bits, wrong, divergence; layer, place]: NaN until a subword is predicted.
        names = {_PLAIN: 1, **dict.fromkeys(changes, len(self.layers))}
        found = {name: np.full((3, n_layers, len(every.word)), np.nan) for name, n_layers in names.items()}
        for number, batch in enumerate(word_batches(text)):
            ids, mask = batch.input.ids, batch.input.mask
            places, positions = every.inside(batch.input.windows)
            at = torch.from_numpy(positions)
            whole = text.pieces.inputs(batch.input.windows, ids.shape[1], is_padded=False)["input_ids"]
            gold = torch.from_numpy(whole)[at.unbind(1)]  # before words were masked
            states = encoder.hidden_states(ids, mask, layers=sorted({*self.layers, top}))
            plain = log_probs(encoder, states[top], at)
            found[_PLAIN][:, 0, places] = _measures(plain, plain, gold)
            for place, layer in enumerate(self.layers):
                for name, change in changes.items():
                    state = change(states[layer], batch.kinds, layer=layer, batch=number)
                    with starting_from(encoder.model.body, encoder.model.blocks, layer, state):
                        last = encoder.hidden_states(ids, mask, layers=(top,))[top]
                    found[name][:, place, places] = _measures(log_probs(encoder, last, at), plain, gold)
        of_kind: dict[str, dict[Kind, Floats]] = {name: {} for name in found}
        for name, kind in product(found, asked):  # [bits, right, divergence; layer, word] over the subwords of words
            chosen, words = np.isin(every.word, asked[kind]), asked[kind]
            order, values = np.searchsorted(words, every.word[chosen]), found[name][..., chosen]
            sums = np.stack([cluster_sums(of_layers, order, len(words)) for of_layers in values])
            sums[1] = sums[1] == 0
            of_kind[name][kind] = sums
        return Predictions(asked, of_kind.pop(_PLAIN), of_kind)

    def text(self, sentences: Sentences, seed: int) -> MaskedText:
        """A text of which words are masked."""
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


def log_probs(encoder: Encoder, last: Tensor, positions: Tensor) -> Tensor:
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


# How much of the property is gone, and how much of others is not.


class Judged(NamedTuple):
    """Correct predictions of an oracle by test sentence, before and after an intervention."""

    before: Floats  # [layer, sentence] number of pieces of which it finds the label
    after: Floats  # [layer, sentence] the same after the intervention, by an oracle that was fitted after it too
    guessed: Floats  # [1, sentence] the same of the most frequent label, of those of its group where there are groups


def judge(
    labels: WordLabels, states: Mapping[str, States], sentence_of_word: Integers, erasure: Erasure, *, oracle: str
) -> Judged:
    """Fit an oracle to dev, not the text that the erasure was fitted to, before and after it, and count on test."""
    codes = {split: labels.codes[split][states[split].words] for split in ("dev", "test")}
    dev, test = states["dev"].vectors, states["test"].vectors
    held_out = np.arange(len(codes["dev"])) * _HELD_OUT_EVERY // max(len(codes["dev"]), 1) == _HELD_OUT_EVERY - 1
    targets = [Targets(np.where(which, codes["dev"], -1)[None], len(labels.values)) for which in (~held_out, held_out)]
    asked, sentences = codes["test"] >= 0, sentence_of_word[states["test"].words]
    counted = partial(np.bincount, sentences, minlength=int(sentence_of_word.max()) + 1)

    def right(fitted_to: FeatureSource, put_to: FeatureSource) -> Floats:
        fitted = get_readout(oracle).fit(fitted_to, targets[0], dev=fitted_to, dev_targets=targets[1])
        is_right = (fitted.predict(put_to).labels[0] == codes["test"]) & asked
        return np.stack([counted(weights=row) for row in is_right])

    groups = {split: labels.group(split, states[split].words) for split in codes}
    guess = np.full(max(int(of_split.max(initial=0)) for of_split in groups.values()) + 1, -2)
    for group in np.unique(groups["dev"]).tolist():
        known = codes["dev"][(groups["dev"] == group) & (codes["dev"] >= 0) & ~held_out]
        guess[group] = majority(known) if len(known) else -2
    guessed = counted(weights=codes["test"] == guess[groups["test"]])[None]
    after = [erased(source, erasure) for source in (dev, test)]
    return Judged(right(dev, test), right(*after), guessed.astype(float))  # type: ignore[arg-type]


def reliability_sums(judged: Mapping[str, Judged], layers: Layers, kind: str) -> Iterator[LayerSums]:
    """Completeness, selectivity and their harmonic mean, as sums over sentences.

    Completeness is the share of what an oracle finds of the property, beyond the most frequent label, that is gone;
    selectivity the share of what oracles find of other properties that is still there. Canby et al. state both by
    distances of probability distributions; shares of right answers have intervals over sentences, and are the same
    where all or nothing is lost.

    ``judged`` are counts for the property that is erased, which has no name, and for those that should stay, by name;
    ``kind`` is ``_masked`` or ``_visible``, which metrics are named after, or empty for both kinds of pieces.
    """
    own = judged[""]
    complete = _share(f"completeness{kind}", layers, own.before - own.after, own.before - own.guessed)
    yield complete
    kept = {name: (one.after - one.guessed, one.before - one.guessed) for name, one in judged.items() if name}
    if not kept:
        return
    over, under = (np.sum([sums[side] for sums in kept.values()], axis=0) for side in (0, 1))
    select = _share(f"others_kept{kind}", layers, over, under)
    yield select
    for name, of_label in kept.items():
        yield _share(f"others_kept{kind}", layers, *of_label, name)
    # Their harmonic mean, linear in the weights of sentences around all of them.
    (a, b), slopes = (complete.values, select.values), []
    for ratio, sums in ((a, complete), (b, select)):
        total = sums.under.sum(axis=1, keepdims=True)
        slopes.append((sums.over - ratio[:, None] * sums.under) / np.where(total == 0, np.nan, total))
    whole = np.asarray(2 * a * b / (a + b))
    change = 2 * ((b / (a + b))[:, None] ** 2 * slopes[0] + (a / (a + b))[:, None] ** 2 * slopes[1])
    # Of a share below zero, which few words and guessing make, there is no such mean.
    known = np.flatnonzero((a > 0) & (b > 0))
    of_known = tuple(layers[place] for place in known)
    yield jackknife_sums(f"reliability{kind}", whole[known], change[known], layers=of_known)


def _share(metric: str, layers: Layers, over: Floats, found: Floats, group: str = "") -> LayerSums:
    """Share of the findings of an oracle beyond guessing; without a value where it finds no more than chance may.

    A ratio to what is nearly nothing would be any number: there is none where all that is found is less than two of its
    standard errors over sentences.
    """
    is_found = found.sum(axis=1) > _STANDARD_ERRORS * found.std(axis=1) * np.sqrt(found.shape[1])
    return LayerSums(metric, layers, over * is_found[:, None], found * is_found[:, None], "sentences", group)


# Choices between two words.


@dataclass(frozen=True)
class Choices:
    """Right choices of the more probable of two words, in both texts of each pair."""

    layers: Layers
    places: tuple[str, ...]  # places whose states are changed: a single one, subject and mask, or all
    plain: Floats  # [pair] number of right choices of the two, nothing changed
    right: Mapping[str, Floats]
    """``[layer, place, pair]`` the same by name of the change; NaN where a pair has no such place."""
    clusters: tuple[str, ...]  # [pair] clusters that are resampled
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the pairs that do not fit the model, and why; they are in no array."""

    def sums(self, metric: str, right: Floats, group: str = "") -> LayerSums:
        """The share of right choices, from ``[layer, pair]`` or, of all layers, ``[pair]`` numbers of them."""
        right, clusters = np.broadcast_to(right, (len(self.layers), len(self.plain))), np.array(self.clusters)
        twice = np.where(np.isfinite(right).all(axis=0), 2.0, 0.0)  # both texts of a pair
        of_pair, values = np.unique(clusters, return_inverse=True)[1], np.nan_to_num(right) / 2
        return mean_sums(metric, values, of_pair, weights=twice, kind="frames", group=group, layers=self.layers)

    def every_sum(self) -> Iterator[LayerSums]:
        """Shares of right choices with something erased at each place, which are groups, and with nothing."""
        for name, right in self.right.items():
            for number, place in enumerate(self.places):
                for group in ("", place) if number == len(self.places) - 1 else (place,):
                    yield self.sums(f"accuracy_{name}", right[:, number], group)
        yield self.sums("accuracy_plain", self.plain)


_Change = Callable[[Tensor, int, Sequence[int], int], Tensor]
"""Function that changes states, given their layer, the pairs of their rows and the number of the batch."""


def choose_changed(
    encoder: Encoder, pairs: Sequence[PatchPair], changes: Mapping[str, StateChange], *, layers: Layers
) -> Choices:
    """Choose between the two words of each pair, in both of its texts, with the states of all words changed."""
    kept, excluded = _choices(encoder, pairs)
    ones = list(kept.values())

    def change(name: str, state: Tensor, layer: int, rows: Sequence[int], batch: int) -> Tensor:
        masked, visible = (torch.zeros(state.shape[:2], dtype=torch.bool) for _ in (0, 1))
        for row, one in enumerate(ones[number] for number in rows):
            visible[row, np.concatenate([pieces for name, pieces in one.places.items() if name != SPECIAL])] = True
            if one.target.kind == "word":
                masked[row, one.mask] = visible[row, one.mask]
        return changes[name](state, {"masked": masked, "visible": visible & ~masked}, layer=layer, batch=batch)

    every = {(name, _ALL_PLACES): partial(change, name) for name in changes}
    return _choose(encoder, pairs, kept, excluded, layers, {_ALL_PLACES: None}, every)


def choose_erased(encoder: Encoder, pairs: Sequence[PatchPair], *, layers: Sequence[int], seed: int = 0) -> Choices:
    """Choose between the two words of pairs once their values, such as singular and plural, are erased from a layer.

    Least-squares concept erasure (LEACE; Belrose et al. 2023) is fitted for each layer and place to the texts of one
    half of the clusters, and applied to those of the other half. The label of every word of a text is the value of the
    text: where the subject is plural, the article is too, whatever it shows. Special tokens stay as they are. The
    control removes as many random directions from the same states.

    The pairs have two values, such as those of :func:`agreement_pairs`. A :class:`ClozeError` where no pair fits the
    model, pairs have other than two values, all are of one cluster, or a pair has one word alone.
    """
    layers = tuple(layers)
    kept, excluded = _choices(encoder, pairs)
    values, halves = values_and_halves(pairs, kept)
    ones, numbers, half = list(kept.values()), list(kept), list(halves.values())
    # By half of the clusters and place.
    vectors: dict[tuple[int, str], list[Tensor]] = defaultdict(list)
    labels: dict[tuple[int, str], list[int]] = defaultdict(list)
    for at, side, name, states in place_states(encoder, ones, layers):
        if name != SPECIAL:
            vectors[half[at], name].append(states)
            labels[half[at], name] += [values.index(pairs[numbers[at]].values[side])] * states.shape[1]
    erasures = {
        key: fit_erasure(ArrayFeatures(torch.cat(some, dim=1), layers=layers), np.array(labels[key]), len(values))
        for key, some in vectors.items()
    }
    random = {key: random_erasure(one, seed=seed + number) for number, (key, one) in enumerate(erasures.items())}
    named = {"erased": erasures, "random": random}
    singles = tuple(dict.fromkeys(name for one in ones for name in one.places if name != SPECIAL))
    sets: dict[str, tuple[str, ...] | None] = {name: (name,) for name in singles}
    if {"subject", "mask"} <= set(singles):
        sets[_CAUSE_AND_MASK] = ("subject", "mask")
    sets[_ALL_PLACES] = singles

    def change(name: str, place: str, state: Tensor, layer: int, rows: Sequence[int], batch: int) -> Tensor:
        """States without the value at some places, by the erasures of the other half of the clusters."""
        changed = state.clone()
        for (of_half, member), erasure in named[name].items():
            at = [
                (row, piece)
                for row, number in enumerate(rows if member in (sets[place] or ()) else ())
                if half[number] == 1 - of_half
                for piece in ones[number].places.get(member, np.zeros(0, dtype=np.int64)).tolist()
            ]
            if at:
                index = torch.tensor(at).unbind(1)
                changed[index] = erasure.layer(layer)(changed[index])
        return changed

    every = {(name, place): partial(change, name, place) for name in named for place in sets}
    return _choose(encoder, pairs, kept, excluded, layers, sets, every)


def _choices(encoder: Encoder, pairs: Sequence[PatchPair]) -> tuple[dict[int, AlignedPair], dict[int, str]]:
    """The pairs that fit the model, each with two words to choose between, and the reasons why others do not."""
    for pair in pairs:
        if pair.target.kind == "word" and not pair.bad:
            raise ClozeError(f"{quoted(pair.text)}: a choice is between two words, and the pair has one: give it bad")
    return fitting_pairs(encoder, pairs, by_word=False)


def _choose(
    encoder: Encoder,
    pairs: Sequence[PatchPair],
    kept: Mapping[int, AlignedPair],
    excluded: Mapping[int, str],
    layers: Layers,
    sets: Mapping[str, tuple[str, ...] | None],
    changes: Mapping[tuple[str, str], _Change],
) -> Choices:
    """Choices of the model as it is, and with each change, by its name and place; blocks below are computed once.

    ``sets`` are the places that each place stands for; None for any. A pair without them has no value there.
    """
    ones = list(kept.values())

    def n_right(differences: Tensor) -> Floats:
        """``[pair]`` in how many of its two texts, neighbouring rows, the right word is above the other."""
        return np.asarray((differences > 0).double().reshape(-1, 2).sum(1).numpy())

    plain = np.zeros(len(ones))
    right = {name: np.zeros((len(layers), len(sets), len(ones))) for name, _ in changes}
    for number, (batch, _) in enumerate(batches(encoder, ones, 2)):
        rows = [place for place in batch for _ in (0, 1)]
        some = [ones[row] for row in rows]
        ids = torch.from_numpy(np.stack([one.ids[row % 2] for row, one in enumerate(some)]))
        right_first = [replace(one, candidates=one.candidates[:: 1 - 2 * (row % 2)]) for row, one in enumerate(some)]
        decision = Decision(encoder, right_first)
        states = decision.states(ids, layers=layers)
        plain[batch] = n_right(decision.scores(ids))
        for at, layer in enumerate(layers):
            for (name, place), change in changes.items():
                state = change(states[layer], layer, rows, number)
                found = n_right(decision.scores(ids, resumed=(layer, state)))
                right[name][at, list(sets).index(place), batch] = found
    for number, members in enumerate(sets.values()):
        has_place = np.array([members is None or bool({*members} & {*one.places}) for one in ones])
        for of_change in right.values():
            of_change[:, number, ~has_place] = np.nan
    clusters = tuple(pairs[number].cluster or f"pair {number}" for number in kept)
    return Choices(layers, tuple(sets), plain, right, clusters, tuple(excluded.items()))
