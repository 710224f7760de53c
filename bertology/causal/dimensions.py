"""Which dimensions of a layer tell of a label, and what a model loses without them.

:func:`measure_dimensions` ranks the dimensions of hidden states, or the neurons of feed-forward parts, for one task
(:mod:`bertology.readouts.ranking`), fits readouts to the best, the last and random ones, and changes them in the
running model (Antverg & Belinkov 2022). ``dimension_words.py`` shows the words that are high or low in a dimension.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product

import numpy as np
import torch
from torch import Tensor

from bertology.causal import erasing
from bertology.causal.erasing import Kind, MaskedReading, WordLabels
from bertology.causal.patching import intervening_in
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.alignment import Integers, OnLong
from bertology.encoders.interventions import Intervention, Site, starting_from
from bertology.encoders.masked_loss import SHARE
from bertology.errors import FitError, ModelError, quoted
from bertology.measures import majority
from bertology.measures.sums import Bools, Floats, Layers, LayerSums, cluster_sums, mean_sums
from bertology.readouts import ArrayFeatures, FittedReadout, Targets, get_readout
from bertology.readouts.ranking import Ranking, check_k, overlap, rank_dimensions

N_RANDOM = 5
"""Number of random sets of dimensions, whose mean is the control."""
N_CHANGED = 3
"""Number of them that are changed in the running model, which takes a pass for each."""
_MASKINGS = 4
_BY_VALUE = ("loss_beyond_random_dimensions_bits", "loss_increase_ablated_bits")  # also given by label
SPLITS = ("train", "dev", "test")


# States of words, at any site.


def site_states(
    encoder: Encoder, ids: Tensor, mask: Tensor | None, *, layers: Sequence[int], site: Site
) -> dict[int, Tensor]:
    """``[window, piece, dim]`` hidden states, or what a site computes, by layer."""
    if site == "hidden_state":
        return encoder.hidden_states(ids, mask, layers=layers)
    found: dict[int, Tensor] = {}
    with intervening_in(encoder, [Intervention(layer, partial(found.setdefault, layer), site) for layer in layers]):
        encoder.hidden_states(ids, mask, layers=(max(layers),))
    return found


def word_states(
    encoder: Encoder, sentences: Sentences, *, layers: Sequence[int], site: Site = "hidden_state", on_long: OnLong
) -> Tensor:
    """``[layer, word, dim]`` means over the subwords of words, in float32; NaN of words that are not read."""
    pieces = encoder.tokenize(sentences, on_long=on_long)
    found, counts = list[Tensor](), torch.zeros(pieces.n_words)
    for _, inputs, of_place, positions in erasing.plain_batches(pieces):
        states = site_states(encoder, inputs["input_ids"], inputs.get("attention_mask"), layers=layers, site=site)
        words, (rows, columns) = torch.from_numpy(of_place), positions.T
        for at, layer in enumerate(layers):
            values = states[layer][rows, columns].float().cpu()
            if at == len(found):
                found.append(torch.zeros(pieces.n_words, values.shape[1]))
            found[at].index_add_(0, words, values)
        counts += torch.bincount(words, minlength=pieces.n_words)
    return torch.stack(found) / counts.where(counts > 0, torch.nan)[:, None]


@dataclass(frozen=True)
class LabelledStates:
    """States of the words of train, dev and test, and the labels of one task."""

    vectors: Mapping[str, Tensor]  # [layer, word, dim] by split, of words that are read
    targets: Mapping[str, Targets]  # by split, of these words
    n_classes: int

    @classmethod
    def of(cls, vectors: Mapping[str, Tensor], labels: WordLabels) -> "LabelledStates":
        """Vectors with the labels of a task; a word that is not read has none."""
        codes = {split: np.where(_is_read(of_split), labels.codes[split], -1) for split, of_split in vectors.items()}
        targets = {split: Targets(of_split[None], len(labels.values)) for split, of_split in codes.items()}
        known = {split: one if _is_read(one).all() else one.nan_to_num() for split, one in vectors.items()}
        return cls(known, targets, len(labels.values))

    def codes(self, split: str) -> Integers:
        """``[word]`` labels, −1 for none."""
        labels: Integers = np.asarray(self.targets[split].labels)[0]
        return labels

    def rank(self, ranking: Ranking, k: int, *, within: Bools | None = None) -> Integers:
        """``[layer, dim]`` dimensions, best first; of the words of train for which ``within`` is true, if given."""
        targets, fitted = self.targets["train"], None
        if within is None:
            fitted = self.fitted if ranking == "linear" else None
        else:
            targets = Targets(np.where(within, self.codes("train"), -1)[None], self.n_classes)
        source = {split: ArrayFeatures(self.vectors[split]) for split in ("train", "dev")}
        about = {"dev": source["dev"], "dev_targets": self.targets["dev"]}
        return rank_dimensions(source["train"], targets, ranking=ranking, k=k, fitted=fitted, **about)  # type: ignore[arg-type]

    def right(self, sets: Integers) -> Floats:
        """``[set, layer, word]`` of test, 1 where a readout of the dimensions ``[set, layer, k]`` alone is right."""
        source = {
            split: ArrayFeatures(torch.cat([_only(one, dims) for dims in sets])) for split, one in self.vectors.items()
        }
        fitted = self._fit(source)
        predicted = fitted.predict(source["test"]).labels[0]
        is_right: Floats = (predicted == self.codes("test")).astype(np.float64).reshape(*sets.shape[:2], -1)
        return is_right

    def right_without(self, sets: Integers) -> tuple[Floats, Floats]:
        """``[layer, word]`` of test, 1 where a readout of all dimensions is right; and ``[set, layer, word]`` the same
        where the dimensions of a set have their mean in train, to which it is not fitted anew."""
        test, used = self.vectors["test"], torch.from_numpy(self.codes("train") >= 0)
        mean = self.vectors["train"][:, used].mean(dim=1)
        found = []
        for dims in (None, *sets):
            changed = test.clone()
            for layer, of_layer in enumerate(dims if dims is not None else ()):
                changed[layer][:, of_layer] = mean[layer, of_layer]
            predicted = self.fitted.predict(ArrayFeatures(changed)).labels[0]
            found.append((predicted == self.codes("test")).astype(np.float64))
        return found[0], np.stack(found[1:])

    @cached_property
    def fitted(self) -> FittedReadout:
        """The linear readout of all dimensions."""
        return self._fit({split: ArrayFeatures(one) for split, one in self.vectors.items()})

    def _fit(self, source: Mapping[str, ArrayFeatures]) -> FittedReadout:
        on_dev = {"dev": source["dev"], "dev_targets": self.targets["dev"]}
        fitted: FittedReadout = get_readout("linear").fit(source["train"], self.targets["train"], **on_dev)  # type: ignore[arg-type]
        return fitted


def _is_read(vectors: Tensor) -> Bools:
    return np.asarray(vectors[0].isfinite().all(dim=1).numpy())


def _only(vectors: Tensor, dims: Integers) -> Tensor:
    """``[layer, word, k]`` the dimensions ``[layer, k]`` of vectors."""
    return torch.stack([one[:, torch.from_numpy(of_layer)] for one, of_layer in zip(vectors, dims, strict=True)])


def random_sets(n: int, layers: Sequence[int], k: int, dim: int, *, seed: int = erasing.SEED) -> Integers:
    """``[set, layer, k]`` random dimensions of each layer, those of one layer the same whatever others there are."""
    drawn = [[np.random.default_rng((seed, layer, one)).permutation(dim)[:k] for layer in layers] for one in range(n)]
    return np.array(drawn, dtype=np.int64)


# Changes in the running model.


@dataclass(frozen=True)
class MaskedChanges:
    """A masked language model in one layer of which dimensions of words are changed, at some site."""

    reading: MaskedReading
    site: Site
    means: Mapping[Kind, Tensor]  # [layer, dim] means of the subwords of words of train, masked and visible ones
    moves: Tensor
    """``[value, layer, dim]`` what is added to a masked word of each value to shift it; NaN where no masked word of
    train has it, so that its words are not shifted."""

    @classmethod
    def fitted_to(
        cls, reading: MaskedReading, site: Site, train: Sentences, labels: WordLabels, target: Integers, strength: float
    ) -> "MaskedChanges":
        """Means of train, of which other words are masked in each of some passes; ``target [value]`` is the value that
        words of each are shifted to, by ``strength`` times the difference of their means."""
        layers = reading.layers
        n_values = len(labels.values)
        total: dict[Kind, Tensor] = {}  # [value or none, layer, dim and a count]
        for masking in range(_MASKINGS):
            for batch in erasing.word_batches(reading.text(train, erasing.SEED + 1 + masking)):
                states = site_states(reading.encoder, batch.input.ids, batch.input.mask, layers=layers, site=site)
                codes = torch.from_numpy(labels.codes["train"][batch.words])
                for kind in erasing.KINDS:
                    chosen = batch.kinds[kind][tuple(batch.positions.T)]
                    rows, columns = batch.positions[chosen].T
                    values = torch.stack([states[layer][rows, columns].double().cpu() for layer in layers], dim=1)
                    found = values.new_zeros(n_values + 1, len(layers), values.shape[2] + 1)
                    ones = values.new_ones(*values.shape[:2], 1)  # a further column counts
                    found.index_add_(0, codes[chosen] % (n_values + 1), torch.cat([values, ones], 2))
                    total[kind] = found + total.get(kind, 0)
        means = {kind: one.sum(0)[:, :-1] / one.sum(0)[:, -1:] for kind, one in total.items()}
        of_value = total["masked"][:-1, :, :-1] / total["masked"][:-1, :, -1:]
        missing = of_value.isnan().flatten(1).any(1).numpy()
        if missing[target].any():
            value = labels.values[target[missing[target].argmax()]]
            raise FitError(f"no masked word of train has label {quoted(value)}, to shift words to: give more text")
        moves = strength * (of_value[torch.from_numpy(target)] - of_value)
        return cls(reading, site, means, moves)

    def is_shifted(self, codes: Integers) -> Bools:
        """``[word]`` whether words with these values are shifted, of which −1 is none."""
        known = np.append(self.moves.isfinite().flatten(1).all(1).numpy(), False)
        return np.asarray(known[codes])

    def predictions(
        self, sentences: Sentences, codes: Integers, changes: Mapping[str, tuple[Integers, Integers | None]]
    ) -> "MaskedPredictions":
        """Predict masked words of a text. Each change names ``[layer, k]`` dimensions, and those whose shift is as long
        as theirs in masked words; None where they have their mean in all words. ``codes [word]`` are words' values."""
        encoder, layers = self.reading.encoder, self.reading.layers
        text, top = self.reading.text(sentences, erasing.SEED), encoder.n_layers
        below = 0 if self.site == "hidden_state" else 1  # the layer whose hidden states a pass begins with
        needed, n_places = sorted({*(layer - below for layer in layers), top}), len(text.places.word)
        bits = {name: np.zeros((len(layers), n_places)) for name in ("", *changes)}
        entries = {name: np.zeros((len(layers), n_places), dtype=np.int64) for name in bits}
        for batch in erasing.word_batches(text):
            given = batch.input
            states = encoder.hidden_states(given.ids, given.mask, layers=needed)
            for name, place in product(bits, range(len(layers))):
                last, layer = states[top], layers[place]
                if name:
                    change = Intervention(layer, partial(self._changed, batch, codes, place, *changes[name]), self.site)
                    model, begin = encoder.model, layer - below
                    started = starting_from(model.body, model.blocks, begin, states[begin])
                    with started, intervening_in(encoder, [change]):
                        last = encoder.hidden_states(given.ids, given.mask, layers=(top,))[top]
                logs = erasing.log_probs(encoder, last, given.positions)
                gold = given.gold.to(logs.device)
                bits[name][place, given.places] = (-logs.gather(1, gold[:, None])[:, 0] / np.log(2)).double().cpu()
                entries[name][place, given.places] = logs.argmax(1).cpu().numpy()
        word, sizes = np.unique(text.places.word, return_counts=True)
        order = np.searchsorted(word, text.places.word)
        of_word = {name: cluster_sums(one, order, len(word)) for name, one in bits.items()}
        first = np.unique(order, return_index=True)[1]
        return MaskedPredictions(word, sizes == 1, of_word, {name: one[:, first] for name, one in entries.items()})

    def _changed(
        self,
        batch: erasing.WordBatch,
        codes: Integers,
        place: int,
        dims: Integers,
        as_far: Integers | None,
        state: Tensor,
    ) -> Tensor:
        """``[window, piece, dim]`` states with the dimensions of one layer changed."""
        state, at = state.clone(), torch.from_numpy(dims[place])
        if as_far is None:
            for kind in erasing.KINDS:
                rows, columns = batch.kinds[kind].nonzero().T
                state[rows[:, None], columns[:, None], at] = self.means[kind][place, at].to(state)
            return state
        of_place = torch.from_numpy(codes[batch.words])
        chosen = batch.kinds["masked"][tuple(batch.positions.T)] & torch.from_numpy(self.is_shifted(codes[batch.words]))
        rows, columns = batch.positions[chosen].T
        whole = self.moves[of_place[chosen], place].to(state)
        move, length = whole[:, at], whole[:, torch.from_numpy(as_far[place])].norm(dim=1, keepdim=True)
        move = move * (length / move.norm(dim=1, keepdim=True).clamp(min=torch.finfo(move.dtype).tiny))
        state[rows[:, None], columns[:, None], at] = state[rows[:, None], columns[:, None], at] + move
        return state


@dataclass(frozen=True)
class MaskedPredictions:
    """Predictions of masked words by name of the change, of which the empty one is none."""

    words: Integers  # [word] numbers of the masked words, ascending
    is_single: Bools  # [word] whether a word is one subword
    bits: Mapping[str, Floats]  # [layer, word] −log2 of the probability of all its subwords
    entries: Mapping[str, Integers]  # [layer, word] most probable vocabulary entry at its first subword


def values_of_entries(encoder: Encoder, sentences: Sentences, codes: Integers) -> Integers:
    """``[entry]`` the most frequent value of words of one subword in a text, −1 of entries that are no such word."""
    pieces = encoder.tokenize(sentences)
    every = pieces.places_of(np.flatnonzero((pieces.word_window >= 0) & (codes >= 0)))
    single = np.isin(every.word, np.flatnonzero(np.bincount(every.word) == 1))
    entry = pieces.ids[pieces.window_starts[every.window[single]] + every.piece[single]]
    found = np.full(len(encoder.tokenizer), -1, dtype=np.int64)
    counted = Counter(zip(entry.tolist(), codes[every.word[single]].tolist(), strict=True))
    for (number, code), _ in sorted(counted.items(), key=lambda one: one[1]):  # the most frequent comes last
        found[number] = code
    return found


# Everything about one task.


def measure_dimensions(
    encoder: Encoder,
    sentences: Mapping[str, Sentences],
    labels: WordLabels,
    others: Mapping[str, WordLabels],
    *,
    layers: Sequence[int],
    ranking: Ranking,
    k: int,
    site: Site = "hidden_state",
    towards: str = "",
    strength: float = 8.0,
    changes_model: bool = True,
    on_long: OnLong = "window",
) -> Iterator[LayerSums]:
    """How much of a task is in the best ``k`` dimensions of a layer, and what is lost without them?

    Dimensions are ranked, and readouts of the best, the last and random ``k`` fitted, on train; their accuracy is that
    on test. Then the best have their mean in train instead (ablation), in words that the readout of all dimensions
    predicts, and in all words of a text of which some are masked, whose loss rises; or they are moved, in masked words,
    by ``strength`` times the difference of the means of two values (Antverg & Belinkov 2022, *translation*), and words
    of the other value are predicted. Random sets of as many dimensions, moved as far as the best, are the control of
    each.

    Args:
        encoder: the model.
        sentences: train, dev and test.
        labels: the labels of the task, by word.
        others: those of other tasks, by name, whose best dimensions are compared.
        layers: from 0; other sites are in layers from 1, so that 0 is left out.
        ranking: how dimensions are ranked, as in :func:`~bertology.readouts.ranking.rank_dimensions`.
        k: number of dimensions.
        site: what is ranked and changed: ``hidden_state``, or ``neurons`` of the feed-forward part.
        towards: value that words are shifted to, as of :func:`shift_targets`.
        strength: factor of the shift.
        changes_model: whether masked words are predicted; False for a model without a masked-LM head.
        on_long: treatment of long sentences.

    Yields:
        Statistics by layer, as sums over the sentences of test. A FitError where ``k`` does not fit or labels do not
        differ in train, a ModelError where there is no masked-LM head, or no such site.
    """
    layers = tuple(layer for layer in layers if layer or site == "hidden_state")
    if not layers:
        raise ModelError(f"site {site}: the embeddings have none: give layers from 1")
    if changes_model and not encoder.has_masked_lm_head:
        raise ModelError(f"model {encoder.name}: no masked-LM head, which predicts words: set predict to false")
    target = shift_targets(labels, towards)
    read = partial(word_states, encoder, site=site, on_long=on_long)
    vectors = {split: read(sentences[split], layers=layers) for split in SPLITS}
    check_k(k, vectors["train"].shape[2])
    test, own = sentences["test"], LabelledStates.of(vectors, labels)
    sums = _SumsOfWords(layers, test.sentence_of_word.astype(np.int64), len(test))
    order = own.rank(ranking, k)
    randoms = random_sets(N_RANDOM, layers, k, order.shape[1])
    sets = np.concatenate([[order[:, :k], order[:, -k:]], randoms])
    yield from _accuracies(own, sets, sums)
    half = sentences["train"].sentence_of_word % 2 == 0
    first, second = (own.rank(ranking, k, within=which)[:, :k] for which in (half, ~half))
    yield from sums.shared("shared_by_halves", first, second, order.shape[1])
    best = dict(zip(layers, order[:, :k], strict=True))
    lowest = 0 if site == "hidden_state" else 1
    if further := sorted({layer - 1 for layer in layers if layer > lowest} - {*layers}):
        states = LabelledStates.of({split: read(sentences[split], layers=further) for split in SPLITS}, labels)
        best |= zip(further, states.rank(ranking, k)[:, :k], strict=True)
    if above := tuple(layer for layer in layers if layer > lowest):
        own_best, of_below = (np.stack([best[layer - one] for layer in above]) for one in (0, 1))
        yield from replace(sums, layers=above).shared("shared_with_below", own_best, of_below, order.shape[1])
    yield from _without(own, sets, sums)
    for name, of_task in others.items():
        states = LabelledStates.of(vectors, of_task)
        yield from _without(states, sets, sums, name)
        yield from sums.shared("shared_with_task", order[:, :k], states.rank(ranking, k)[:, :k], order.shape[1], name)
    if changes_model:
        reading = MaskedReading(encoder, layers, SHARE, on_long)
        fitted = MaskedChanges.fitted_to(reading, site, sentences["train"], labels, target, strength)
        yield from _changes_of_predictions(fitted, sentences, labels, target, sets, sums)


def _accuracies(states: LabelledStates, sets: Integers, sums: "_SumsOfWords") -> Iterator[LayerSums]:
    """Accuracies of readouts of the best, the last and random dimensions."""
    codes, right = states.codes("test"), states.right(sets)
    known, at_random = states.codes("train"), right[2:].mean(axis=0)
    guessed = np.broadcast_to(codes == majority(known[known >= 0]), right[0].shape)
    values = {
        "accuracy": right[0],
        "last_dimensions_accuracy": right[1],
        "random_dimensions_accuracy": at_random,
        "accuracy_beyond_random": right[0] - at_random,
        "majority_accuracy": guessed,
    }
    for metric, of_word in values.items():
        yield sums.of(metric, of_word, codes >= 0)


def _without(states: LabelledStates, sets: Integers, sums: "_SumsOfWords", group: str = "") -> Iterator[LayerSums]:
    """Accuracies of the readout of all dimensions, as it is and with the best or random ones at their mean."""
    whole, without = states.right_without(sets)
    at_random, asked = without[2:].mean(axis=0), states.codes("test") >= 0
    yield sums.of("all_dimensions_accuracy", whole, asked, group)
    yield sums.of("readout_ablated_accuracy", without[0], asked, group)
    yield sums.of("readout_random_ablated_accuracy", at_random, asked, group)


def _changes_of_predictions(
    fitted: MaskedChanges,
    sentences: Mapping[str, Sentences],
    labels: WordLabels,
    target: Integers,
    sets: Integers,
    sums: "_SumsOfWords",
) -> Iterator[LayerSums]:
    """Losses of masked words with best, last and random dimensions ablated, and words predicted after a shift."""
    codes = labels.codes["test"]
    randoms = [f"random {number}" for number in range(N_CHANGED)]
    named = dict(zip(("best", "last", *randoms), sets, strict=False))
    changes: dict[str, tuple[Integers, Integers | None]] = {name: (dims, None) for name, dims in named.items()}
    changes |= {f"shifted {name}": (dims, named["best"]) for name, dims in named.items() if name != "last"}
    found = fitted.predictions(sentences["test"], codes, changes)
    plain, value = found.bits[""], codes[found.words]
    rise = {name: found.bits[name] - plain for name in named}
    at_random = np.mean([rise[name] for name in randoms], axis=0)
    values = {
        "loss_beyond_random_dimensions_bits": rise["best"] - at_random,
        "loss_increase_ablated_bits": rise["best"],
        "loss_increase_last_ablated_bits": rise["last"],
        "loss_increase_random_ablated_bits": at_random,
        "loss_bits": plain,
    }
    groups = {"": np.ones(len(value), dtype=bool)} | {one: value == code for code, one in enumerate(labels.values)}
    for (group, which), (metric, of_word) in product(groups.items(), values.items()):
        if which.any() and (not group or metric in _BY_VALUE):
            yield sums.of(metric, of_word, which, group, words=found.words)
    value_of_entry = values_of_entries(fitted.reading.encoder, sentences["train"], labels.codes["train"])
    asked = fitted.is_shifted(value) & found.is_single
    hits = {name: (value_of_entry[one] == target[value]).astype(np.float64) for name, one in found.entries.items()}
    at_random = np.mean([hits[f"shifted {name}"] for name in randoms], axis=0)
    shares = {"shifted_share": hits["shifted best"], "random_shifted_share": at_random, "unshifted_share": hits[""]}
    for metric, hit in shares.items() if asked.any() else ():
        yield sums.of(metric, hit, asked, words=found.words)


def shift_targets(labels: WordLabels, towards: str = "") -> Integers:
    """``[value]`` the value that words of each are shifted to: one value, and for its own words another.

    These are the most frequent in train, or the one that is named; a FitError where train does not have it.
    """
    n_values = len(labels.values)
    codes = labels.codes["train"]
    frequent = np.argsort(-np.bincount(codes[codes >= 0], minlength=n_values), kind="stable")
    if towards and towards not in labels.values:
        raise FitError(f"no word of train has label {quoted(towards)}, to shift words to: {', '.join(labels.values)}")
    if n_values < 2:
        raise FitError("dimensions are ranked by labels that differ: train has fewer than two")
    first = labels.values.index(towards) if towards else int(frequent[0])
    second = next(int(one) for one in frequent if one != first)
    return np.where(np.arange(n_values) == first, second, first).astype(np.int64)


@dataclass(frozen=True)
class _SumsOfWords:
    """Makes statistics of values of words of test."""

    layers: Layers
    sentence: Integers  # [word]
    n_sentences: int

    def of(
        self, metric: str, values: Floats | Bools, which: Bools, group: str = "", *, words: Integers | None = None
    ) -> LayerSums:
        """Mean of values ``[layer, word]`` over the words for which ``which`` is true; of ``words``, or of all."""
        sentence = self.sentence if words is None else self.sentence[words]
        about = {"n_clusters": self.n_sentences, "group": group, "layers": self.layers}
        return mean_sums(metric, values[:, which], sentence[which], **about)  # type: ignore[arg-type]

    def shared(self, metric: str, best: Integers, others: Integers, dim: int, group: str = "") -> Iterator[LayerSums]:
        """Shares of the best dimensions ``[layer, k]`` that are among others, by chance, and p-values. They depend on
        train alone, so that they are the same in all sentences."""
        k, n = best.shape[1], self.n_sentences
        found = [overlap(*both, dim) for both in zip(best, others, strict=True)]
        numbers = {metric: [one.shared / k for one in found], f"{metric}_p": [one.p for one in found]}
        numbers |= {"shared_chance": [k / dim] * len(found)} if metric == "shared_by_halves" else {}
        for name, by_layer in numbers.items():
            over = np.repeat(np.array(by_layer)[:, None], n, axis=1)
            yield LayerSums(name, self.layers, over, np.ones((1, n)), "sentences", group)
