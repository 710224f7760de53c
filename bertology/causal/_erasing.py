"""Erase a property from the states of one layer, and see what the model can no longer predict (amnesic probing)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.causal._choices import choose_changed
from bertology.causal._erased_predictions import Predictions, StateChange, predict_changed
from bertology.causal._masked_states import KINDS, Kind, States, states_of_words
from bertology.causal._oracle import Judged, WordLabels, judge, reliability_sums
from bertology.causal._pairs import PatchPair
from bertology.corpora import Sentences
from bertology.encoders import Encoder, OnLong
from bertology.geometry import LayerSums
from bertology.readouts import Erasure, fit_erasure, fit_nullspace, random_erasure

Floats = NDArray[np.float64]
Method = Literal["leace", "inlp"]
METHODS = {"leace": fit_erasure, "inlp": fit_nullspace}


@dataclass(frozen=True)
class Erasing:
    """How a property is erased, and beside what."""

    method: Method = "leace"
    """``leace`` (Belrose et al. 2023), or ``inlp`` (Ravfogel et al. 2020)."""
    share: float = 0.15
    """Of the words of a sentence that are masked, at least one."""
    n_maskings: int = 4
    """How often the text that erasures are fitted to is read, with other words masked."""
    n_random: int = 3
    """Draws of random directions, whose mean is the control."""
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
    groups: Mapping[str, NDArray[np.bool_]] | None = None,
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
        others: by name, what should stay.
        layers: each by itself, 0 for the embeddings.
        erasing: settings.
        groups: by name ``[word]`` of test, such as parts of speech, for which losses are given too.
        pairs: texts with two words each, between which the model chooses with and without the property.
        on_long: as in :meth:`Encoder.tokenize`.

    Yields:
        Statistics by layer, as sums over sentences of test, and choices over clusters of pairs.

    Raises:
        FitError: the property is constant in train, or has too few items.
        ModelError: the model has no masked-LM head.
    """
    layers = tuple(layers)
    reading = {"layers": layers, "share": erasing.share, "on_long": on_long}
    train = states_of_words(
        encoder,
        sentences["train"],
        n_maskings=erasing.n_maskings,
        seed=erasing.seed + 1,
        **reading,  # type: ignore[arg-type]
    )
    changes, erasures = _changes(train, labels, erasing)
    del train
    found = predict_changed(encoder, sentences["test"], changes, seed=erasing.seed, **reading)  # type: ignore[arg-type]
    yield from _losses(found, sentences["test"], layers, groups or {})
    if pairs:
        yield from _choices(encoder, pairs, changes, layers)
    held = {
        split: states_of_words(
            encoder,
            sentences[split],
            n_maskings=erasing.n_maskings,
            seed=erasing.seed,
            **reading,  # type: ignore[arg-type]
        )
        for split in ("dev", "test")
    }
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
    found: Predictions, sentences: Sentences, layers: tuple[int, ...], groups: Mapping[str, NDArray[np.bool_]]
) -> Iterator[LayerSums]:
    """What predictions lose, of masked words (names without a prefix) and of visible ones."""
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
            if not chosen.any():
                continue
            under = np.bincount(of_sentence[chosen], minlength=len(sentences))[None].astype(np.float64)
            for name, of_word in values.items():
                if group and name not in ("beyond_random_bits", "loss_increase_bits", "loss_bits"):
                    continue
                each = np.broadcast_to(of_word, (len(layers), len(words)))[:, chosen]
                over = [np.bincount(of_sentence[chosen], weights=row, minlength=len(sentences)) for row in each]
                yield LayerSums(f"{prefix}{name}", layers, np.stack(over), under, "sentences", group)


_CONTROLS = {
    "erased": "loss_increase",
    "random": "random_increase",
    "shuffled": "shuffled_increase",
    "moved": "moved_increase",
}
"""By change, what its loss is called."""


def _choices(
    encoder: Encoder, pairs: Sequence[PatchPair], changes: Mapping[str, StateChange], layers: tuple[int, ...]
) -> Iterator[LayerSums]:
    """Shares of right choices between two words."""
    found = choose_changed(encoder, pairs, changes, layers=layers)
    n_clusters = int(found.clusters.max()) + 1
    under = 2 * np.bincount(found.clusters, minlength=n_clusters)[None].astype(np.float64)
    values = {"choice_accuracy": np.broadcast_to(found.plain, (len(layers), found.plain.shape[1]))}
    values |= {f"choice_accuracy_{control}": _mean(found.changed, control) for control in _CONTROLS}
    for name, right in values.items():
        over = np.stack([np.bincount(found.clusters, weights=row, minlength=n_clusters) for row in right]).astype(float)
        yield LayerSums(name, layers, over, under, "frames")
