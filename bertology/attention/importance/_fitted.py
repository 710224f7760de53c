"""A fitted probe as a scored task: what is read off one layer, through the heads below it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.attention.importance._task import Answers, ScoredTask, TaskBatch
from bertology.corpora import Sentences
from bertology.encoders import Encoder, OnLong, Pooling, WordPooling
from bertology.encoders.batching import Batch, plan_batches
from bertology.errors import FitError
from bertology.readouts import FittedAffine


class FittedTask(ScoredTask):
    """Label words by a linear probe that was fitted to one layer of the whole model: an item is a labelled word.

    Its loss is the cross-entropy of the probe. The probe stays as it was fitted: what a head's absence costs is what
    the probe loses, which may be less where one fitted anew could make up for it.

    Args:
        encoder: what the probe was fitted on.
        sentences: what to read; of many sentences some neighbours share a cluster.
        labels: ``[word]`` the class of each word, −1 where it has none.
        readout: of ``linear.v1`` or any other whose scores are logits.
        layer: the layer that is read.
        layers: the layers that the readout was fitted on, in order; all from 0 when left out.
        problem: which of the readout's problems it is.
        pooling: of a word's pieces, as the readout was fitted.
        on_long: what to do with a sentence longer than the model takes.

    Raises:
        FitError: the readout is of other layers or another width, gives no probabilities, or the labels do not fit it
            or the words; or the layer is 0, which no head comes before.
    """

    def __init__(
        self,
        encoder: Encoder,
        sentences: Sentences,
        labels: NDArray[np.int64],
        *,
        readout: FittedAffine,
        layer: int,
        layers: Sequence[int] | None = None,
        problem: int = 0,
        pooling: Pooling = "mean",
        on_long: OnLong = "window",
    ) -> None:
        fitted_on = tuple(range(encoder.n_layers + 1)) if layers is None else tuple(layers)
        _check(encoder, sentences, labels, readout, layer, fitted_on, problem)
        place = fitted_on.index(layer)
        super().__init__(encoder, len(sentences))
        self._labels, self._layer, self._pooling = labels, layer, pooling
        self._weight = readout.regressions.coefficients[problem, place, 0]  # [class, dim]
        self._bias = readout.regressions.intercepts[problem, place, 0]  # [class]
        self._pieces = encoder.tokenize(sentences, on_long=on_long)
        self._asked = np.flatnonzero((labels >= 0) & (self._pieces.word_window >= 0))
        if not len(self._asked):
            raise FitError("no word has a label and can be read: give sentences with labels")
        windows = np.unique(self._pieces.word_window[self._asked]).astype(np.int64)
        self._batches = tuple(
            self._batch(Batch(windows[planned.windows], planned.length, planned.is_padded))
            for planned in plan_batches(self._pieces.window_lengths[windows])
        )

    @property
    def name(self) -> str:
        """``fitted_probe``."""
        return "fitted_probe"

    @property
    def batches(self) -> tuple[TaskBatch, ...]:
        """Windows that labelled words are read from."""
        return self._batches

    def _batch(self, planned: Batch) -> TaskBatch:
        pieces = self._pieces
        ids = torch.full((len(planned.windows), planned.length), pieces.pad_id)
        mask, gaps = torch.zeros_like(ids), torch.zeros(ids.shape, dtype=torch.bool)
        for row, window in enumerate(planned.windows.tolist()):
            own = torch.from_numpy(pieces.window(window).astype(np.int64))
            ids[row, : len(own)], mask[row, : len(own)] = own, 1
            gaps[row, : len(own)] = torch.from_numpy(pieces.window_gaps(window))
        padding = mask if planned.is_padded else None
        words = self._asked[np.isin(pieces.word_window[self._asked], planned.windows)]
        order = np.argsort(planned.windows)
        found = order[np.searchsorted(planned.windows[order], pieces.word_window[words])]
        rows, gold = torch.from_numpy(found), torch.from_numpy(self._labels[words])
        first, last = (
            rows * planned.length + torch.from_numpy(ends[words].astype(np.int64))
            for ends in (pieces.word_first, pieces.word_last)
        )

        def ask(encoder: Encoder) -> Answers:
            states = encoder.hidden_states(ids, padding, layers=[self._layer])[self._layer]
            place = states.device
            left_out = gaps.flatten().to(place) if gaps.any() else None
            vectors = WordPooling(first.to(place), last.to(place), self._pooling, left_out)(states)
            with torch.set_grad_enabled(vectors.requires_grad):
                logits = vectors @ self._weight.to(place).float().T + self._bias.to(place).float()
                labels = gold.to(place)
                nats = -logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
            return Answers(nats, logits.detach().argmax(1) == labels, rows.to(place))

        sentences = pieces.window_sentence[planned.windows].astype(np.int64)
        return TaskBatch(ids, padding, self._scope.clusters(sentences), ask)


def _check(
    encoder: Encoder,
    sentences: Sentences,
    labels: NDArray[np.int64],
    readout: FittedAffine,
    layer: int,
    fitted_on: tuple[int, ...],
    problem: int,
) -> None:
    n_problems, n_layers, _, n_classes, dim = readout.regressions.coefficients.shape
    if not readout.are_logits:
        raise FitError(f"{readout.name} gives scores and no probabilities: take one like linear.v1")
    if len(fitted_on) != n_layers or dim != encoder.dim:
        raise FitError(
            f"the readout was fitted on {n_layers} layers of {dim}: say with `layers` which of the "
            f"{encoder.n_layers + 1} of {encoder.dim} they are"
        )
    if layer not in fitted_on or not 1 <= layer <= encoder.n_layers:
        known = ", ".join(str(number) for number in fitted_on if number > 0)
        raise FitError(f"layer {layer}: the readout can be read through heads in layers {known}")
    if not 0 <= problem < n_problems:
        raise FitError(f"problem {problem}: the readout has {n_problems}, counted from 0")
    if labels.shape != (sentences.n_words,) or labels.dtype.kind != "i" or labels.max(initial=-1) >= n_classes:
        raise FitError(
            f"labels are {labels.dtype} {list(labels.shape)} up to {labels.max(initial=-1)}: give integers below "
            f"{n_classes} for {sentences.n_words} words"
        )
