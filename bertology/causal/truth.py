"""Methods of explanation put to decisions whose cause is known: which name it, and which leave alone what is unused.

:func:`method_scores` takes texts that each have a property on which the decision depends by construction, the cause,
and another property that is as visible and decides nothing. Every method gives both an importance in units of its own;
that of the unused property divided by that of the cause is 0 for a method that tells them apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch

from bertology.causal import targets
from bertology.causal._attribution import attribute
from bertology.causal.directions import exchange_directions
from bertology.causal.patching import patch
from bertology.causal.probes import cluster_sums, title
from bertology.encoders import Encoder
from bertology.errors import ClozeError
from bertology.measures.sums import Floats, Integers, LayerSums
from bertology.pocket import TruthItem
from bertology.readouts import ArrayFeatures, Targets, fit_erasure, get_readout
from bertology.readouts.erasure import random_erasure

ATTRIBUTIONS = (
    *("integrated_gradients", "gradient_times_input", "leave_one_out", "occlusion"),
    *("attention", "attention_norms", "rollout", "value_zeroing"),
)
_STEPS, _PATH = 50, 10
_SHOWN = "patching"
"""The method whose numbers stand in tables without a group as well."""
_READ, _REST = "read", "rest"
_SIDES = (0, 1)
_LEAST_FORMS = 4


def method_scores(encoder: Encoder, items: Sequence[TruthItem], *, layers: Sequence[int]) -> Iterator[LayerSums]:
    """Scores of every method by layer, over the texts that fit the model; groups are methods.

    - ``unused_share``: importance of the unused property ÷ importance of the cause, each summed over texts. The group
      *words exchanged* is the truth: by how much the score of the model changes when the words themselves are.
    - ``others_share``: mean importance of a word that is neither, ÷ that of the cause; of methods that score words.
    - ``cause_first``: share of texts in which the word with the largest absolute score is of the cause.
    - the same with ``_strongest``: of the one layer in which the method's importance of the cause is largest.

    Importance is: of attributions the sum of the absolute scores of the property's words; of patching the absolute
    change of the score when the state of the place that is read (the mask; ``[CLS]`` and ``[SEP]`` of a classifier)
    comes from the text with the property exchanged, of attribution patching its estimate; of a probe the accuracy with
    which a linear readout finds the property there, less that of the most frequent value; of selectivity that less the
    accuracy for a random value of each word form (control task; Hewitt & Liang 2019); of a learned direction (DAS) the
    share of texts whose decision is reversed when one dimension of the place comes from the text with the property
    exchanged, which it was fitted to do: for what is not used it should fail; of erasure the absolute change of
    the score when the property is erased from all states of the layer (LEACE), less that of as many random directions.
    What is fitted is fitted to one half of the texts and scored on the other.

    Raises:
        ClozeError: no text fits the model.
    """
    pairs = {name: [_pair(item, name) for item in items] for name in ("cause", "unused")}
    aligned = {name: targets.fitting_pairs(encoder, some, by_word=False)[0] for name, some in pairs.items()}
    kept = sorted(set(aligned["cause"]) & set(aligned["unused"]))
    if len(kept) < _LEAST_FORMS:
        raise ClozeError(f"{len(kept)} of {len(items)} texts can be exchanged word by word: give more")
    chosen = {name: [some[number] for number in kept] for name, some in pairs.items()}
    ones = {name: [some[number] for number in kept] for name, some in aligned.items()}
    clusters, is_masked = [items[number].cluster for number in kept], targets.MASK_TOKEN in items[0].text

    exchanged = {name: np.abs(np.diff(targets.scores_of_sides(encoder, some), axis=0)) for name, some in ones.items()}
    found: dict[str, Importance] = {"words exchanged (the truth)": Importance(tuple(layers[:1]), **exchanged)}
    found |= _of_words(encoder, chosen, layers)
    effects, place = dict[str, dict[str, Floats]](), _READ if is_masked else targets.SPECIAL
    for name, some in chosen.items():
        both = patch(encoder, some, layers=layers, method="both", by_word=False)
        path = patch(encoder, some, layers=layers, method="attribution", steps=_PATH, by_word=False)
        assert both.estimates is not None
        maps = {"patching": both.changes, "attribution patching": both.estimates}
        for method, of in (maps | {"attribution patching along a path": path.changes}).items():
            effects.setdefault(method, {})[name] = np.abs(of[:, both.places.index(place)])
        how: dict[str, Any] = {"places": [place], "methods": ["das"], "control": False}
        learned = exchange_directions(encoder, some, layers=layers, **how)
        flips = (learned.base + learned.changes[0, :, 0] > 0)[:, ::2]  # of the text; the other one is its source
        effects.setdefault("learned direction (DAS)", {})[name] = flips.astype(np.float64)
    fits = {name: _fitted(encoder, chosen[name], ones[name], layers) for name in chosen}
    for method in ("probe", "probe, selectivity", "erasure"):
        if all(method in of for of in fits.values()):
            effects[method] = {name: of[method] for name, of in fits.items()}
    found |= {method: Importance(tuple(layers), **of) for method, of in effects.items()}
    for method, one in found.items():
        yield from one.sums(method, clusters)


@dataclass(frozen=True, eq=False)
class Importance:
    """What a method gives to the properties of texts."""

    layers: tuple[int, ...]
    cause: Floats  # [layer, text]
    unused: Floats  # [layer, text]
    others: Floats | None = None  # [layer, text] of other words, of methods that score words
    first: Floats | None = None  # [layer, text] 1 where the first word is of the cause

    def sums(self, method: str, clusters: Sequence[str]) -> Iterator[LayerSums]:
        """All metrics, of all layers and of the one in which the importance of the cause is largest."""
        ratios = {"unused_share": self.unused, "others_share": self.others}
        strongest = int(np.nanargmax(self.cause.sum(1)))
        for places, ending in ((range(len(self.layers)), ""), ([strongest], "_strongest")):
            at, some = [self.layers[place] for place in places], list(places)
            for metric, over in ratios.items():
                if over is not None:
                    for group in (method, "") if method == _SHOWN else (method,):
                        under = self.cause[some]
                        yield cluster_sums(f"{metric}{ending}", at, over[some], under, clusters, group)
            if self.first is not None:
                yield cluster_sums(f"cause_first{ending}", at, self.first[some], None, clusters, method)


def decided_rightly(encoder: Encoder, items: Sequence[TruthItem]) -> list[bool | None]:
    """Whether the model prefers what each text calls for, and with the cause exchanged what that calls for; None for
    texts whose words have other numbers of subwords when they are exchanged."""
    kept, _ = targets.fitting_pairs(encoder, [_pair(item, "cause") for item in items], by_word=False)
    before, after = targets.scores_of_sides(encoder, list(kept.values()))
    right = dict(zip(kept, ((before > 0) & (after < 0)).tolist(), strict=True))
    return [right.get(number) for number in range(len(items))]


def _pair(item: TruthItem, name: str) -> targets.PatchPair:
    """The text with one property exchanged; the place that is read has a name of its own."""
    is_masked, at = targets.MASK_TOKEN in item.text, 0 if name == "cause" else 2
    other = item.cause if name == "cause" else item.unused
    kind: Any = "word" if is_masked else "label"
    pair = targets.PatchPair(item.text, other, item.good, item.bad, item.cluster, target=targets.Target(kind))
    names = tuple(_READ if targets.MASK_TOKEN in word else _REST for word in pair.words()[0])
    return replace(pair, places=names, values=(item.values[at], item.values[at + 1]))


def _of_words(
    encoder: Encoder, pairs: Mapping[str, Sequence[targets.PatchPair]], layers: Sequence[int]
) -> dict[str, Importance]:
    differ = {}
    for name, some in pairs.items():
        both = [pair.words() for pair in some]
        differ[name] = [np.array([a != b for a, b in zip(*words, strict=True)]) for words in both]
    asked = [
        targets.PatchPair(p.text, good=p.good, bad=p.bad, cluster=p.cluster, target=p.target) for p in pairs["cause"]
    ]
    found = attribute(encoder, asked, methods=ATTRIBUTIONS, layers=layers, steps=_STEPS)
    importance = {}
    for method in dict.fromkeys(name for name, _ in found.methods):
        keys = [key for key in found.methods if key[0] == method]
        values = np.zeros((4, len(keys), len(found.found)))
        for (row, key), (text, one) in product(enumerate(keys), enumerate(found.found)):
            scores, is_other = np.abs(one.scores[key]), np.arange(len(one.words)) != one.mask
            scores = scores * is_other
            is_cause, is_unused = (differ[name][one.number] for name in ("cause", "unused"))
            rest = is_other & ~is_cause & ~is_unused
            mean = float(scores[rest].mean()) if rest.any() else 0.0
            first = float(is_cause[int(scores.argmax())])
            values[:, row, text] = scores[is_cause].sum(), scores[is_unused].sum(), mean, first
        importance[title(method)] = Importance(tuple(layer for _, layer in keys), *values)
    return importance


def _fitted(
    encoder: Encoder, pairs: Sequence[targets.PatchPair], ones: Sequence[targets.AlignedPair], layers: Sequence[int]
) -> dict[str, Floats]:
    """``[layer, text]`` importance of a property by a probe, its selectivity and erasure; both texts of pairs count.

    Each half of the texts is scored by what is fitted to the other.
    """
    names = sorted({value for pair in pairs for value in pair.values})
    values = np.array([[names.index(value) for value in pair.values] for pair in pairs])  # [text, side]
    both = [list(zip(*pair.words(), strict=True)) for pair in pairs]
    # The words of a side that the other one lacks.
    forms = np.array([[" ".join(w[side] for w in words if w[0] != w[1]) for side in _SIDES] for words in both])
    distinct, of_form = np.unique(forms, return_inverse=True)
    drawn = np.random.default_rng(0).permutation(np.arange(len(distinct)) % len(names))
    controls = drawn[of_form].reshape(values.shape)
    read = np.zeros((2, len(layers), len(ones), encoder.dim), dtype=np.float32)
    every: dict[int, Any] = {}
    for batch, rows in targets.batches(encoder, ones, 1):
        for side in _SIDES:
            states = targets.Decision(encoder, rows).states(targets.ids_of(rows, side), layers=layers)
            stacked = torch.stack([states[layer].float().cpu() for layer in layers])
            for row, number in enumerate(batch):
                at = ones[number].places.get(_READ, ones[number].places[targets.SPECIAL])
                read[side, :, number] = stacked[:, row, torch.from_numpy(at)].mean(1).numpy()
                every[2 * number + side] = stacked[:, row]
    found = {name: np.zeros((len(layers), len(ones))) for name in ("probe", "probe, selectivity", "erasure")}

    def features(which: Integers) -> ArrayFeatures:
        return ArrayFeatures(torch.from_numpy(np.concatenate(list(read[:, :, which]), axis=1)), layers=tuple(layers))

    def right_of(labels: Integers, train: Integers, test: Integers) -> Floats:
        """``[layer, text]`` share of the two versions of a text whose label a linear readout finds."""
        held, fitted = train[::5], np.setdiff1d(train, train[::5])
        splits = [Targets(labels[which].T.ravel()[None], len(names)) for which in (fitted, held)]
        readout = get_readout("linear").fit(features(fitted), splits[0], dev=features(held), dev_targets=splits[1])
        right = readout.predict(features(test)).labels[0] == labels[test].T.ravel()
        return np.asarray(right.reshape(len(layers), 2, len(test)).mean(1))

    for half in _SIDES:
        train, test = (np.arange(which, len(ones), 2) for which in (1 - half, half))
        gold, control = (right_of(labels, train, test) for labels in (values, controls))
        most = np.bincount(values[train].ravel(), minlength=len(names)).argmax()
        found["probe"][:, test] = gold - (values[test] == most).mean(1)
        found["probe, selectivity"][:, test] = gold - control
        versions = [(number, side) for number in train.tolist() for side in _SIDES]
        pieces = [every[2 * number + side] for number, side in versions]
        of_pieces = [np.full(one.shape[1], values[at]) for one, at in zip(pieces, versions, strict=True)]
        labels = np.concatenate(of_pieces)
        erasure = fit_erasure(ArrayFeatures(torch.cat(pieces, dim=1), layers=tuple(layers)), labels, len(names))
        for sign, one in ((1, erasure), (-1, random_erasure(erasure, seed=0))):
            for batch, rows in targets.batches(encoder, [ones[number] for number in test.tolist()], 1):
                numbers = test[batch].tolist()
                decision, ids = targets.Decision(encoder, rows), targets.ids_of(rows, 0)
                plain = decision.scores(ids)
                for place, layer in enumerate(layers):
                    state = torch.stack([every[2 * number][place] for number in numbers]).to(encoder.device)
                    changed = decision.scores(ids, resumed=(layer, one.layer(layer)(state)))
                    found["erasure"][place, numbers] += sign * (changed - plain).abs().numpy()
    if len(distinct) < _LEAST_FORMS:  # too few word forms for a control task
        del found["probe, selectivity"]
    return found
