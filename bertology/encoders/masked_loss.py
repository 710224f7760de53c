"""The loss of a masked language model on masked words, as it is or with a layer changed (amnesic probing)."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.corpora import Sentences, Texts, as_sentences
from bertology.encoders.batching import OnLong, pieces_in_batch
from bertology.encoders.encoder import Encoder
from bertology.encoders.interventions import Change, changing
from bertology.encoders.sources import layers_from_end
from bertology.errors import ModelError

SHARE = 0.15
"""Proportion of words that are masked, as in training (Devlin et al. 2019, section 3.1)."""


@dataclass(frozen=True)
class MaskedLoss:
    """Loss and accuracy on masked words, by sentence; returned by :func:`masked_lm_loss`."""

    sentence_bits: NDArray[np.float64]
    """``[sentence]`` sum over its masked words of −log2 of the probability of all their pieces."""
    sentence_right: NDArray[np.int64]
    """``[sentence]`` number of masked words each of whose pieces is the most probable one."""
    sentence_words: NDArray[np.int64]  # ``[sentence]`` number of masked words
    words: NDArray[np.int64]
    """``[masked word]`` numbers of the masked words in the text, in rising order; then bits and hits of each."""
    word_bits: NDArray[np.float64]
    word_right: NDArray[np.bool_]
    n_skipped: int  # number of words that could not be masked, having no piece

    @property
    def n_words(self) -> int:
        """Number of masked words."""
        return int(self.sentence_words.sum())

    @property
    def bits(self) -> float:
        """Mean cross-entropy of a masked word, in bits."""
        return float(self.sentence_bits.sum() / self.n_words)

    @property
    def accuracy(self) -> float:
        """Proportion of masked words whose pieces are all predicted."""
        return float(self.sentence_right.sum() / self.n_words)


def masked_lm_loss(
    encoder: Encoder,
    sentences: Texts,
    *,
    layer: int | None = None,
    change: Change | None = None,
    share: float = SHARE,
    seed: int = 0,
    on_long: OnLong = "window",
    words: NDArray[np.int64] | None = None,
) -> MaskedLoss:
    """Mask some words and predict them, if wanted with the hidden states of one layer changed.

    Whether a model uses a property in a layer shows in what it loses when the property is erased there (Elazar et al.
    2021, section 2): compare the loss as it is, after the erasure, and after the erasure of as many random directions.
    An erasure fitted to words is applied here to every piece, special ones and masks included, so that it does not
    remove exactly all. In each sentence the same words are masked whatever is changed, all their pieces at once.

    Args:
        encoder: a masked language model.
        sentences: the text: sentences, or plain texts, each of which is one.
        layer: whose hidden states are changed: 0 for the embeddings, 1…L for the blocks; none when left out.
        change: function from hidden states to hidden states, such as an erasure's ``layer(l)``.
        share: proportion of the words of a sentence that are masked, at least one word.
        seed: of the choice of words.
        on_long: treatment of a sentence longer than the model takes, as in :meth:`Encoder.tokenize`.
        words: numbers of the words to mask, counted through all sentences, such as those of :func:`words_to_mask`; they
            replace the choice by ``share`` and ``seed``.

    Raises:
        ModelError: no masked-LM head, a layer that the model does not have, a layer without a change or the other way
            round, a share outside 0…1, or no word to mask.
    """
    if (layer is None) != (change is None):
        raise ModelError("a layer and its change belong together: give both or none")
    sentences = as_sentences(sentences)
    text = MaskedText(encoder, sentences, share=share, seed=seed, on_long=on_long, words=words)
    places, n_sentences = text.places, len(sentences)
    bits, right = np.empty(len(places.word)), np.empty(len(places.word), dtype=bool)
    change_layer: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if layer is not None and change is not None:
        (layer,) = layers_from_end(layer, lowest=0, n_layers=encoder.n_layers)
        change_layer = changing(encoder.model.body, encoder.model.blocks, layer, change)
    with change_layer:
        for batch in text.batches():
            nats, best = batch.ask(encoder)
            bits[batch.places], right[batch.places] = nats.cpu().double().numpy() / np.log(2), best.cpu().numpy()
    masked, first, of_word = np.unique(places.word, return_index=True, return_inverse=True)
    sentence = text.pieces.window_sentence[places.window[first]]
    word_right = np.bincount(of_word, weights=~right) == 0
    return MaskedLoss(
        sentence_bits=np.bincount(sentence[of_word], weights=bits, minlength=n_sentences).astype(np.float64),
        sentence_right=np.bincount(sentence[word_right], minlength=n_sentences),
        sentence_words=np.bincount(sentence, minlength=n_sentences),
        words=masked,
        word_bits=np.bincount(of_word, weights=bits).astype(np.float64),
        word_right=word_right,
        n_skipped=int(np.count_nonzero(text.pieces.word_window < 0)),
    )


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Input of one forward pass: some windows in which words are masked."""

    ids: Tensor  # [window, piece] with the mask's number where a piece is to be predicted
    mask: Tensor | None  # [window, piece] None where nothing is padded
    windows: NDArray[np.int64]  # [window] their numbers
    places: NDArray[np.int64]  # [place] numbers of these masked pieces among all, in rising order
    positions: Tensor  # [place, 2] row in the batch and subword in the row
    gold: Tensor  # [place] the vocabulary number that was masked

    @property
    def texts(self) -> NDArray[np.int64]:
        """``[window]`` the text that each is of, here its own."""
        return np.arange(len(self.windows))

    @property
    def distinct(self) -> Tensor:
        """Indices of the distinct masked subwords: several masked words may share one."""
        return torch.from_numpy(np.unique(self.positions.numpy(), axis=0, return_index=True)[1])

    def ask(self, encoder: Encoder) -> tuple[Tensor, Tensor]:
        """``[place]`` −ln of the probability of each masked piece, and whether it is the most probable one.

        Gradients flow from the first to the gates of the encoder's heads.
        """
        logits = encoder.masked_logits(self.ids, self.positions, attention_mask=self.mask)[encoder.n_layers]
        gold = self.gold.to(logits.device)
        log_prob = logits.float().log_softmax(1)
        return -log_prob.gather(1, gold[:, None])[:, 0], log_prob.detach().argmax(1) == gold


class MaskedText:
    """A text with some of its words masked, in batches: the same words whatever is done to the model.

    Arguments and errors are those of :func:`masked_lm_loss`.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        *,
        share: float,
        seed: int,
        on_long: OnLong,
        words: NDArray[np.int64] | None = None,
    ) -> None:
        if not (encoder.has_masked_lm_head or encoder.task_head):  # of a fine-tuned model states alone are read
            raise ModelError(f"model {encoder.name}: no masked-LM head in its weights; choose a masked language model")
        if not 0 < share <= 1:
            raise ModelError(f"the share of masked words is {share}: give a number above 0, at most 1")
        self.pieces = encoder.tokenize(sentences, on_long=on_long)
        readable = self.pieces.word_window >= 0
        if words is None:
            words = words_to_mask(sentences, readable, share=share, seed=seed)
        self.places = self.pieces.places_of(words[readable[words]])
        self._mask_id, self._pieces_in_batch = encoder.mask_id, pieces_in_batch(encoder.device)
        if not len(self.places.word):
            raise ModelError("there is no word to mask: give sentences that the model can read")

    def batches(self) -> Iterator[MaskedBatch]:
        """Every window in which something is masked, once, with others of about its length."""
        window_lengths, ordered = self.pieces.window_lengths, np.unique(self.places.window)
        ordered = ordered[np.argsort(-window_lengths[ordered], kind="stable")]
        while len(ordered):
            size = max(1, self._pieces_in_batch // int(window_lengths[ordered[0]]))
            windows, ordered = np.sort(ordered[:size]), ordered[size:]
            places, rows_columns = self.places.inside(windows)
            inputs = self.pieces.inputs(windows, int(window_lengths[windows].max()), is_padded=True)
            ids, mask = torch.from_numpy(inputs["input_ids"]), torch.from_numpy(inputs["attention_mask"])
            positions = torch.from_numpy(rows_columns)
            gold = ids[positions[:, 0], positions[:, 1]]
            ids[positions[:, 0], positions[:, 1]] = self._mask_id
            yield MaskedBatch(ids, None if bool(mask.all()) else mask, windows, places, positions, gold)


def words_to_mask(sentences: Sentences, readable: NDArray[np.bool_], *, share: float, seed: int) -> NDArray[np.int64]:
    """Numbers of words drawn at random, in rising order: a proportion of those of each sentence, at least one.

    Only words that are ``readable [word]`` are drawn; the draw depends on the number of the sentence and on ``seed``.
    """
    chosen = [np.zeros(0, dtype=np.int64)]
    for number, (first, last) in enumerate(itertools.pairwise(sentences.starts)):
        words = np.arange(first, last)[readable[first:last]]
        if len(words):
            size = max(1, round(share * len(words)))
            chosen.append(np.sort(np.random.default_rng((seed, number)).choice(words, size, replace=False)))
    return np.concatenate(chosen).astype(np.int64)
