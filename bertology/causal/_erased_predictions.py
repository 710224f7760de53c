"""What a masked language model predicts with the states of one layer changed, beside what it predicts as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.causal._masked_states import KINDS, Kind, WordBatch, word_batches
from bertology.corpora import Sentences
from bertology.encoders import Encoder, OnLong
from bertology.encoders.interventions import starting_from
from bertology.encoders.masked_loss import MaskedText, words_to_mask
from bertology.readouts import Erasure

Floats = NDArray[np.float64]
_PLAIN = "plain"


@dataclass(frozen=True)
class StateChange:
    """A change of the states of words in each layer; special tokens stay as they are."""

    erasures: Mapping[Kind, Erasure]
    """Of masked and of visible pieces."""
    in_random_direction: int | None = None
    """Seed; each state moves as far as the erasure would move it, in a direction drawn at random."""

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
class WordPredictions:
    """What is predicted of some words; all are sums over the subwords of a word, shared ones
    included."""

    bits: Floats
    """``[layer, word]`` −log2 of the probability of its pieces."""
    right: Floats
    """``[layer, word]`` 1 where each piece is the most probable one."""
    divergence: Floats
    """``[layer, word]`` Kullback–Leibler divergence of the prediction from the plain one, in bits."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of the same words with several changes, each in several layers."""

    words: Mapping[Kind, NDArray[np.int64]]
    """By kind the numbers of the words that are predicted, ascending."""
    plain: Mapping[Kind, WordPredictions]
    """``[1, word]`` as the model is."""
    changed: Mapping[str, Mapping[Kind, WordPredictions]]
    """By name of the change."""


def predict_changed(
    encoder: Encoder,
    sentences: Sentences,
    changes: Mapping[str, StateChange],
    *,
    layers: Sequence[int],
    share: float,
    seed: int,
    on_long: OnLong,
) -> Predictions:
    """Predict masked words, and as many that are not masked, with states of each layer changed.

    Blocks below a changed layer are computed once, whatever is changed above.

    Args:
        encoder: a masked language model.
        sentences: the text.
        changes: by name.
        layers: each is changed by itself, 0 for the embeddings.
        share: of the words of a sentence that are masked; of the others as many are predicted without a mask.
        seed: of the choice of words.
        on_long: as in :meth:`Encoder.tokenize`.
    """
    text = MaskedText(encoder, sentences, share=share, seed=seed, on_long=on_long)
    asked: dict[Kind, NDArray[np.int64]] = {
        "masked": np.unique(text.places.word),
        "visible": words_to_mask(sentences, _visible(text), share=share, seed=seed),
    }
    words = np.concatenate(list(asked.values()))
    every = text.pieces.places_of(words)
    # By name [bits, wrong, divergence; layer, place]: NaN until a subword is predicted.
    names = {_PLAIN: 1, **dict.fromkeys(changes, len(layers))}
    found = {name: np.full((3, n_layers, len(every.word)), np.nan) for name, n_layers in names.items()}
    top = encoder.n_layers
    for number, batch in enumerate(word_batches(text)):
        places, positions = every.inside(batch.input.windows)
        at = torch.from_numpy(positions)
        gold = _gold(text, batch)[at.unbind(1)]
        states = encoder.hidden_states(batch.input.ids, batch.input.mask, layers=sorted({*layers, top}))
        plain = _log_probs(encoder, states[top], at)
        found[_PLAIN][:, 0, places] = _measures(plain, plain, gold)
        for place, layer in enumerate(layers):
            for name, change in changes.items():
                state = change(states[layer], batch.kinds, layer=layer, batch=number)
                with starting_from(encoder.model.body, encoder.model.blocks, layer, state):
                    last = encoder.hidden_states(batch.input.ids, batch.input.mask, layers=(top,))[top]
                found[name][:, place, places] = _measures(_log_probs(encoder, last, at), plain, gold)
    of_kind = {
        name: {kind: _of_words(values, every.word, which) for kind, which in asked.items()}
        for name, values in found.items()
    }
    return Predictions(asked, of_kind.pop(_PLAIN), of_kind)


def _gold(text: MaskedText, batch: WordBatch) -> Tensor:
    """``[window, piece]`` vocabulary numbers before words were masked."""
    return torch.from_numpy(text.pieces.batch_ids(batch.input.windows, batch.input.ids.shape[1]))


def _visible(text: MaskedText) -> NDArray[np.bool_]:
    """``[word]`` words that are read in a window with masked words, no subword of theirs being masked."""
    pieces, masked = text.pieces, text.places
    every = pieces.places_of(np.flatnonzero(pieces.word_window >= 0))
    at = pieces.window_starts[every.window] + every.piece
    is_masked = np.isin(at, pieces.window_starts[masked.window] + masked.piece)
    visible = np.zeros(pieces.n_words, dtype=bool)
    visible[every.word[np.isin(every.window, masked.window)]] = True
    visible[every.word[is_masked]] = False
    return visible


def _of_words(values: Floats, of_place: NDArray[np.int64], words: NDArray[np.int64]) -> WordPredictions:
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
