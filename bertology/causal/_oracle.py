"""How well an intervention does what it says: is the property gone, and is all else still there (Canby et al. 2024)?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology.causal._masked_states import States
from bertology.geometry import LayerSums, jackknife_sums
from bertology.measures import majority
from bertology.readouts import ArrayFeatures, Erasure, FeatureSource, Targets, erased, get_readout

Floats = NDArray[np.float64]
_HELD_OUT_EVERY = 5
_STANDARD_ERRORS = 2


@dataclass(frozen=True)
class WordLabels:
    """A property of words, by split."""

    codes: Mapping[str, NDArray[np.int64]]
    """``[word]`` by split, −1 of words that do not have it."""
    values: tuple[str, ...]
    """The labels."""
    within: Mapping[str, NDArray[np.int64]] | None = None
    """``[word]`` by split, codes of groups within which the property is erased, such as parts of speech."""

    def group(self, split: str, words: NDArray[np.int64]) -> NDArray[np.int64]:
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
        """Of the pieces of both."""
        return Judged(self.before + other.before, self.after + other.after, self.guessed + other.guessed)


def judge(
    labels: WordLabels,
    states: Mapping[str, States],
    sentence_of_word: NDArray[np.int64],
    erasure: Erasure,
    *,
    oracle: str,
) -> Judged:
    """Fit an oracle to other text than the erasure was fitted to, before and after it, and count where it is right.

    Args:
        labels: the property that is asked for; ``dev`` and ``test``.
        states: ``dev``, to which the oracle is fitted, and ``test``.
        sentence_of_word: of the test text.
        erasure: of the property, or of another one.
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
    return Judged(right(dev, test), right(_changed(dev, erasure), _changed(test, erasure)), guessed.astype(float))


def _changed(source: FeatureSource, erasure: Erasure) -> FeatureSource:
    changed = erased(source, erasure)
    assert not isinstance(changed, ArrayFeatures)
    return changed  # type: ignore[return-value]


def reliability_sums(
    own: Judged, others: Mapping[str, Judged], layers: tuple[int, ...], kind: str
) -> Iterator[LayerSums]:
    """Completeness, selectivity and their harmonic mean, as sums over sentences.

    Completeness is the share of what an oracle finds of the property, beyond the most frequent label, that is gone;
    selectivity the share of what oracles find of other properties that is still there. Canby et al. state both by
    distances of probability distributions; shares of right answers have intervals over sentences, and are the same
    where all or nothing is lost.

    Args:
        own: of the property that is erased.
        others: by name, of properties that should stay.
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
    """A share of what an oracle finds beyond guessing; without a value where it finds no more than chance may.

    A ratio to what is nearly nothing would be any number: there is none where all that is found is less than two of its
    standard errors over sentences.
    """
    n_sentences = found.shape[1]
    is_found = found.sum(axis=1) > _STANDARD_ERRORS * found.std(axis=1) * np.sqrt(n_sentences)
    return LayerSums(metric, layers, over * is_found[:, None], found * is_found[:, None], "sentences", group)


def _harmonic_mean(metric: str, one: LayerSums, other: LayerSums) -> LayerSums:
    """Of two ratios, linear in the weights of sentences around all of them."""
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
