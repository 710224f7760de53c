"""Surprisal of words by layer, and what it adds to a regression of reading times on their length and frequency."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import sklearn
from bertology.activations.progress import Progress, silent
from bertology.cloze._sentences import Text, read_sentences, surprisal
from bertology.cloze.asking import Query, Wanted, read_places
from bertology.cloze.prompts import Context, Floats, masked_copies
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.errors import ClozeError, FitError, ModelError


@Encoder.comes_first
def word_surprisal(
    encoder: Encoder,
    sentences: Sentences,
    *,
    layers: Sequence[int],
    context: Context = "left",
    progress: Progress = silent,
) -> tuple[Floats, dict[int, str]]:
    """``[layer, word]`` surprisal in bits, NaN where there is none, and the reason by number of the word.

    A word's surprisal is the sum over its subwords, each given those before it, with the later ones of the same word
    masked (Kauf & Ivanova 2023). Of a left-to-right model it is that of its last layer, whatever the context.

    Raises:
        ModelError: a left-to-right model is asked for a lower layer.
        ClozeError: no text can be read as it is.
    """
    texts, words_of = read_sentences(encoder, sentences)
    if all(text.reason for text in texts):
        raise ClozeError(f"no text can be read: {texts[0].reason}")
    every = np.concatenate(words_of)
    if encoder.causal_head is not None:
        if tuple(layers) != (encoder.n_layers,):
            raise ModelError(
                f"model {encoder.name} reads left to right: its last layer alone is scored; give --layers -1"
            )
        bits = surprisal(encoder, sentences, progress=progress).bits[None]
    else:

        def queries(text: Text, words: NDArray[Any]) -> Iterator[Query]:
            whole, inside = text.whole, range(encoder.n_prefix, encoder.n_prefix + len(text.ids))
            if context == "cut":
                for place, entry in zip(inside, text.ids, strict=True):
                    yield Query([*whole[:place], encoder.mask_id, *whole[inside.stop :]], place, entry)
                return
            # Where the whole text counts as one word, all later subwords are masked.
            of = words.tolist() if context == "whole" else [0] * len(words)
            yield from (Query(*copy) for copy in masked_copies(whole, inside, of, encoder.mask_id, "within_word_l2r"))

        asked = itertools.starmap(queries, zip(texts, words_of, strict=True))
        read = read_places(encoder, asked, Wanted(layers=tuple(layers)), progress)
        bits = np.stack([np.bincount(every, -row / np.log(2), sentences.n_words) for row in read.values])
    unknown = np.array([entry for text in texts for entry in text.ids]) == encoder.tokenizer.unk_token_id
    why = dict.fromkeys(np.setdiff1d(np.arange(sentences.n_words), every).tolist(), "no subword of its own")
    why |= dict.fromkeys(every[unknown].tolist(), "a subword is unknown to the tokenizer")
    of_word = (texts[of].reason for of in sentences.sentence_of_word.tolist())
    why |= {word: reason for word, reason in enumerate(of_word) if reason}
    bits[:, list(why)] = np.nan
    return bits, why


def held_out(
    predictors: Floats, values: Floats, groups: NDArray[Any], *, n_folds: int, what: str
) -> tuple[Floats, Floats]:
    """Least squares in folds that divide no group, such as a sentence.

    Args:
        predictors: ``[word, predictor]``, to which a constant is added.
        values: ``[word]``.
        groups: ``[word]``.
        n_folds: number of folds, filled as evenly as groups allow (scikit-learn's ``GroupKFold``).
        what: name of the predictors in messages.

    Returns:
        ``[word]`` squared errors, and log-likelihoods in nats of a normal distribution around the prediction, whose
        variance is the mean squared error of the words that the regression was fitted to.

    Raises:
        FitError: fewer groups than folds; predictors that follow from each other, or values that follow from them.
    """
    n_groups, (n_words, n_predictors) = len(np.unique(groups)), predictors.shape
    if n_groups < max(2, n_folds) or n_folds < 2:
        raise FitError(f"{n_groups} sentences with usable words for {n_folds} folds: give more, or n_folds, 2 at least")
    error, log = np.empty((2, n_words))
    for train, test in sklearn.model_selection.GroupKFold(n_folds).split(predictors, values, groups):
        centred = predictors[train] - predictors[train].mean(0)
        scale = np.abs(centred).max(0)
        if not scale.all() or np.linalg.matrix_rank(centred / scale) < n_predictors:
            problem = "a predictor is constant, or follows from the others"
            raise FitError(f"{what}: {problem}, so that its part is not defined; give words that differ in it")
        fit = sklearn.linear_model.LinearRegression().fit(predictors[train], values[train])
        variance = float(np.mean((values[train] - fit.predict(predictors[train])) ** 2))
        if variance <= 1e-12 * float(np.var(values[train])) or len(train) <= n_predictors + 1:
            raise FitError(f"{what}: the values follow from the predictors without error; give measured ones, or more")
        error[test] = (values[test] - fit.predict(predictors[test])) ** 2
        log[test] = -(np.log(2 * np.pi * variance) + error[test] / variance) / 2
    return error, log
