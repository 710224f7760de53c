"""Surprisal of words by layer, and what it adds to a regression of reading times on their length and frequency."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import sklearn
from bertology.activations.progress import Progress, silent
from bertology.cloze._sentences import _cut, surprisal
from bertology.cloze.asking import Query, Wanted, read_places
from bertology.cloze.prompts import Context, Floats, encode, masked_copies
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
    ids_of, words_of, reasons, prefix = _cut(encoder, sentences)
    if all(reasons):
        raise ClozeError(f"no text can be read: {reasons[0]}")
    if encoder.causal_head is not None:
        if tuple(layers) != (encoder.n_layers,):
            raise ModelError(
                f"model {encoder.name} reads left to right: its last layer alone is scored; give --layers -1"
            )
        bits = surprisal(encoder, sentences, progress=progress).bits[None]
    else:
        ending = next(encode(encoder, ["a"])).ids[-encoder.n_suffix :] if encoder.n_suffix else []

        def queries(ids: list[int], words: NDArray[Any]) -> Iterator[Query]:
            whole, inside = [*prefix, *ids, *ending], range(len(prefix), len(prefix) + len(ids))
            if context == "cut":
                for place, entry in zip(inside, ids, strict=True):
                    yield Query([*whole[:place], encoder.mask_id, *ending], place, entry)
                return
            # Where the whole text counts as one word, all later subwords are masked.
            of = words.tolist() if context == "whole" else [0] * len(ids)
            yield from (Query(*copy) for copy in masked_copies(whole, inside, of, encoder.mask_id, "within_word_l2r"))

        texts = [([] if reason else ids, words) for ids, words, reason in zip(ids_of, words_of, reasons, strict=True)]
        read = read_places(encoder, (queries(*text) for text in texts), Wanted(layers=tuple(layers)), progress)
        owners = np.concatenate([words[: len(ids)] for ids, words in texts])
        bits = np.stack([np.bincount(owners, -row / np.log(2), sentences.n_words) for row in read.values])
    every, unknown = np.concatenate(words_of), np.concatenate(ids_of) == encoder.tokenizer.unk_token_id
    why = dict.fromkeys(np.setdiff1d(np.arange(sentences.n_words), every).tolist(), "no subword of its own")
    why |= dict.fromkeys(every[unknown].tolist(), "a subword is unknown to the tokenizer")
    why |= {word: reasons[of] for word, of in enumerate(sentences.sentence_of_word.tolist()) if reasons[of]}
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
