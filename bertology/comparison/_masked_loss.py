"""The masked-LM loss of two models on the same masked words of the same sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology._names import name_not_found
from bertology.corpora import Sentences, Texts, as_sentences
from bertology.encoders import Encoder, OnLong, masked_lm_loss, open_encoder
from bertology.encoders.masked_loss import SHARE, MaskedLoss, words_to_mask
from bertology.errors import CorpusError, ModelError
from bertology.measures import bootstrap_ratio, compare

if TYPE_CHECKING:
    import pandas as pd

_ALL = "all"


@dataclass(frozen=True, eq=False)
class MaskedLosses:
    """Losses of a reference A and a model B on the same masked words; returned by :func:`masked_losses`."""

    reference: str
    model: str
    losses: tuple[MaskedLoss, MaskedLoss]
    """Of A and of B, by sentence and by masked word."""
    sentences: Sentences
    n_skipped: int
    """Words that could not be masked in both: a model has no piece for them, or the piece for what it does not know."""

    def table(self, by: str | None = None) -> pd.DataFrame:
        """The mean loss of a masked word in bits, of A, of B, and their paired difference, with 95 % intervals.

        Columns are ``words`` (``all``, then the labels of ``by``, most frequent first), ``bits_reference``,
        ``bits_model``, ``difference`` (B − A, above 0 where B predicts worse) with ``ci_low``, ``ci_high``, ``p_raw``
        and ``p_adj`` (Benjamini–Hochberg over the rows), ``accuracy_reference`` and ``accuracy_model`` (the proportion
        of words all of whose pieces are the most probable ones), and ``n_words``. Sentences are resampled, the same
        for both models.

        Args:
            by: a layer of labels of words, such as ``upos``; one row for all words when left out.

        Raises:
            NameNotFoundError: the sentences have no such layer.
        """
        import pandas as pd

        groups = self.groups(by)
        bits, right, words = (np.stack(part) for part in zip(*map(self._sums, groups.values()), strict=True))
        # [group, model, sentence] of sentences in which a word was masked
        used = words[0] > 0
        n_of = words[:, used]
        flat = bits[:, :, used].reshape(2 * len(groups), -1)
        scores = bootstrap_ratio(flat, np.repeat(n_of, 2, axis=0), metric="masked_loss_bits")
        pairs = [(2 * place + 1, 2 * place) for place in range(len(groups))]
        compared = compare(scores.values, scores.replicates, n_clusters=(n_of > 0).sum(axis=1), pairs=pairs)
        counts = words.sum(axis=1)
        rows = [
            {
                "words": label,
                "bits_reference": scores.values[one.b],
                "bits_model": scores.values[one.a],
                "difference": one.diff,
                "ci_low": one.ci_low,
                "ci_high": one.ci_high,
                "p_raw": one.p_raw,
                "p_adj": one.p_adj,
                "accuracy_reference": right[place, 0].sum() / counts[place],
                "accuracy_model": right[place, 1].sum() / counts[place],
                "n_words": int(counts[place]),
            }
            for place, (label, one) in enumerate(zip(groups, compared, strict=True))
        ]
        return pd.DataFrame(rows)

    def groups(self, by: str | None) -> dict[str, NDArray[np.bool_]]:
        """By label of ``by``, most frequent first after ``all``, ``[masked word]`` which masked words have it."""
        masked = self.losses[0].words
        groups = {_ALL: np.ones(len(masked), dtype=bool)}
        if by is None:
            return groups
        if by not in self.sentences.layers:
            raise name_not_found("layer of labels of words", by, self.sentences.layers)
        layer = self.sentences.layers[by]
        codes = layer.codes[masked]
        counts = np.bincount(codes[codes >= 0], minlength=len(layer.values))
        for code in np.argsort(-counts, kind="stable").tolist():
            if counts[code]:
                groups[layer.values[code]] = codes == code
        return groups

    def _sums(self, chosen: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """``[model, sentence]`` bits and right words, ``[sentence]`` words, of some masked words."""
        words, n = self.losses[0].words[chosen], len(self.sentences)
        of = np.searchsorted(self.sentences.starts, words, side="right") - 1
        sums = [
            [np.bincount(of, weights=values[chosen], minlength=n) for values in (loss.word_bits, loss.word_right)]
            for loss in self.losses
        ]
        bits, right = zip(*sums, strict=True)
        return np.stack(bits), np.stack(right), np.bincount(of, minlength=n)


def masked_losses(
    reference: Any,
    model: Any,
    sentences: Texts,
    *,
    share: float = SHARE,
    seed: int = 0,
    on_long: OnLong = "window",
    device: str = "auto",
) -> MaskedLosses:
    """How well a model B predicts masked words, beside a reference A, on the same masked words of the same sentences.

    Whole words are masked, all their pieces at once, and the loss of a word is the sum of −log2 of the probabilities of
    its pieces, so that models with different tokenizers are measured on the same words (the number of masks tells a
    model how many pieces a word has). Words are drawn from those that both can read: a word that is unknown to a
    tokenizer has no loss that means anything. What is drawn depends on the seed and the number of the sentence.

    >>> masked_losses("pocket", "pocket", ["The dogs chased a cat ."], share=0.5).table()["difference"].tolist()
    [0.0]

    Args:
        reference: A, as of :func:`bertology.probe`, with a masked-LM head.
        model: B, likewise.
        sentences: the text.
        share: proportion of the words of a sentence that are masked, at least one word (Devlin et al. 2019, §3.1).
        seed: of the choice of words.
        on_long: treatment of a sentence that is too long for a model, as in :meth:`bertology.Encoder.tokenize`.
        device: to compute on, of a model that is not loaded yet.

    Raises:
        ModelError: a model has no masked-LM head.
        CorpusError: there is no word that both models can read.
    """
    text = as_sentences(sentences)
    encoders = [open_encoder(given, device=device) for given in (reference, model)]
    for encoder in encoders:
        if not encoder.has_masked_lm_head:
            raise ModelError(f"model {encoder.name}: no masked-LM head in its weights; choose a masked language model")
    readable = np.logical_and(*(_readable(encoder, text, on_long) for encoder in encoders))
    words = words_to_mask(text, readable, share=share, seed=seed)
    if not len(words):
        raise CorpusError("there is no word to mask that both models can read: give other sentences")
    of_a, of_b = (masked_lm_loss(encoder, text, on_long=on_long, words=words) for encoder in encoders)
    names = [encoder.source.title for encoder in encoders]
    return MaskedLosses(names[0], names[1], (of_a, of_b), text, int(np.count_nonzero(~readable)))


def _readable(encoder: Encoder, sentences: Sentences, on_long: OnLong) -> NDArray[np.bool_]:
    """``[word]`` whether a word has pieces, none of them the one for what a tokenizer does not know."""
    pieces = encoder.tokenize(sentences, on_long=on_long)
    unknown = encoder.tokenizer.unk_token_id
    here = np.flatnonzero(pieces.word_window >= 0)
    start = pieces.window_starts[pieces.word_window[here]]
    first, last = start + pieces.word_first[here], start + pieces.word_last[here]

    def count(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        total = np.concatenate([[0], np.cumsum(which)])
        return np.asarray(total[last] - total[first])

    readable = np.zeros(len(pieces.word_window), dtype=bool)
    readable[here] = True if unknown is None else count(pieces.ids == unknown) == 0
    return readable
