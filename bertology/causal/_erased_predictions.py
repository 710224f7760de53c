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
from bertology.encoders.masked_loss import MaskedText, words_to_mask
from bertology.encoders.resuming import starting_from
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
    """What is predicted of some words; all are sums over the pieces of a word."""

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
    is_masked = np.zeros(len(text.pieces.word_window), dtype=bool)
    is_masked[text.places.word] = True
    others = words_to_mask(sentences, (text.pieces.word_window >= 0) & ~is_masked, share=share, seed=seed)
    is_asked = is_masked.copy()
    is_asked[others] = True
    n_words = len(is_asked)
    names = {_PLAIN: 1, **dict.fromkeys(changes, len(layers))}
    sums = {name: np.zeros((3, n_layers, n_words)) for name, n_layers in names.items()}
    wrong = {name: sums[name][1] for name in names}
    top = encoder.n_layers
    for number, batch in enumerate(word_batches(text)):
        rows, columns = np.nonzero((batch.words >= 0) & is_asked[batch.words])
        words, positions = batch.words[rows, columns], torch.from_numpy(np.stack([rows, columns], axis=1))
        gold = _gold(text, batch)[rows, columns]
        states = encoder.hidden_states(batch.input.ids, batch.input.mask, layers=sorted({*layers, top}))
        plain = _log_probs(encoder, states[top], positions)
        _add(sums[_PLAIN][:, 0], words, plain, plain, gold)
        for place, layer in enumerate(layers):
            for name, change in changes.items():
                state = change(states[layer], batch.kinds, layer=layer, batch=number)
                with starting_from(encoder.model.body, encoder.model.blocks, layer, state):
                    last = encoder.hidden_states(batch.input.ids, batch.input.mask, layers=(top,))[top]
                _add(sums[name][:, place], words, _log_probs(encoder, last, positions), plain, gold)
    asked: dict[Kind, NDArray[np.int64]] = {"masked": np.flatnonzero(is_masked), "visible": others}
    of_kind = {
        name: {
            kind: WordPredictions(
                sums[name][0][:, which], (wrong[name][:, which] == 0).astype(float), sums[name][2][:, which]
            )
            for kind, which in asked.items()
        }
        for name in names
    }
    return Predictions(asked, of_kind.pop(_PLAIN), of_kind)


def _gold(text: MaskedText, batch: WordBatch) -> NDArray[np.int64]:
    """``[window, piece]`` vocabulary numbers before words were masked."""
    return text.pieces.batch_ids(batch.input.windows, batch.input.ids.shape[1])


def _log_probs(encoder: Encoder, last: Tensor, positions: Tensor) -> Tensor:
    """``[place, vocabulary]`` natural logarithms of probabilities, from states of the last layer."""
    rows, columns = positions.to(last.device).unbind(1)
    with torch.inference_mode():
        features = encoder.masked_head.features(last[rows, columns])
    return encoder.vocabulary_logits(features, layer=encoder.n_layers).float().log_softmax(1)


def _add(sums: Floats, words: NDArray[np.int64], logs: Tensor, plain: Tensor, gold: NDArray[np.int64]) -> None:
    """Add ``[3, word]`` bits, wrong pieces and divergence of pieces to those of their words."""
    right = torch.from_numpy(gold).to(logs.device)
    bits = -logs.gather(1, right[:, None])[:, 0]
    divergence = (plain.exp() * (plain - logs)).sum(1)
    for row, values in enumerate((bits / np.log(2), logs.argmax(1) != right, divergence / np.log(2))):
        np.add.at(sums[row], words, values.cpu().double().numpy())
