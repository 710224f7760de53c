"""Items as inputs of a model: pieces, windows of long texts, and what is to be predicted of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.encoders import Encoder, Pieces
from bertology.encoders.alignment import SHARED
from bertology.errors import ModelError
from bertology.finetuning._items import Items, TuningTask, second_start

IGNORED = -100
NONE_OF_ITS_OWN = "no subword of its own"
"""Why a word is left out whose subwords are all predicted at for other words."""
_SPECIAL = -1
"""Segment of special tokens and padding: the texts are 0 and 1."""


@dataclass(frozen=True, eq=False)
class Row:
    """One input of the model."""

    ids: NDArray[np.int64]
    """``[piece]``"""
    types: NDArray[np.int64] | None
    """``[piece]`` token types, of models that have them."""
    segments: NDArray[np.int64]
    """``[piece]`` 0 in the first text, 1 in the second, −1 for special tokens."""
    items: NDArray[np.int64]
    """``[target]`` items that are predicted of this input."""
    places: NDArray[np.int64]
    """``[target]`` of labels of words, the piece that each is predicted at."""
    label: Any
    """Class, number, ``[piece]`` classes with −100 for none, or first and last piece of the answer."""
    offsets: NDArray[np.int64] | None = None
    """``[piece, 2]`` of questions, the place of each piece in its text."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of one split."""

    rows: list[Row]
    items: Items
    """The items that are predicted, without words that have no subword of their own."""
    n_cut: int = 0
    """Texts of which only the beginning is read."""

    def batches(self, size: int) -> Iterator[list[int]]:
        """Numbers of rows of about one length, at most ``size`` together."""
        order = sorted(range(len(self.rows)), key=lambda number: len(self.rows[number]))
        return (order[start : start + size] for start in range(0, len(order), size))


def encode(task: TuningTask, items: Items, encoder: Encoder, *, max_pieces: int | None, stride: int) -> Inputs:
    """The inputs of the items of a split.

    Texts and pairs longer than the model takes are cut at their end, the longer text of a pair first; sentences whose
    words are labelled and texts with answers are read in overlapping windows. A word is predicted at its first subword
    that no word before it is predicted at; words that share all their subwords with another word, as *de* and *le* of
    French *du*, or have no such subword are left out and counted.

    Raises:
        ModelError: the model takes fewer pieces than are asked for, or not even a question.
    """
    most = encoder.max_pieces if max_pieces is None else max_pieces
    if most > encoder.max_pieces:
        raise ModelError(f"max_pieces {most}: model {encoder.name} takes at most {encoder.max_pieces}")
    if task.kind == "tags":
        return _tagged(task, items, encoder, most)
    try:
        return (_asked if task.kind == "answers" else _classified)(task, items, encoder, most, stride)
    finally:
        encoder.tokenizer.backend_tokenizer.no_truncation()  # which would be saved with it


def code_of(task: TuningTask) -> dict[str, int]:
    """The number of each label of train."""
    return {label: code for code, label in enumerate(task.labels)}


def _classified(task: TuningTask, items: Items, encoder: Encoder, most: int, stride: int) -> Inputs:
    firsts, seconds = items.texts()
    encoded = encoder.tokenizer(firsts, seconds, truncation=True, max_length=most)
    codes = code_of(task)
    rows = []
    for number, (one, gold) in enumerate(zip(encoded.encodings, items.gold, strict=True)):
        label = float(gold) if task.kind == "numbers" else codes.get(gold, IGNORED)
        rows.append(_row(one, encoded, number, label))
    return Inputs(rows, items, n_cut=sum(bool(one.overflowing) for one in encoded.encodings))


def _row(one: Any, encoded: Any, item: int, label: Any) -> Row:
    segments = np.array([_SPECIAL if part is None else part for part in one.sequence_ids], dtype=np.int64)
    types = np.array(one.type_ids, dtype=np.int64) if "token_type_ids" in encoded else None
    nothing = np.zeros(0, dtype=np.int64)
    return Row(np.array(one.ids, dtype=np.int64), types, segments, np.array([item]), nothing, label)


def _asked(task: TuningTask, items: Items, encoder: Encoder, most: int, stride: int) -> Inputs:
    questions, texts = items.texts()
    assert texts is not None
    longest = max(len(ids) for ids in encoder.tokenizer(questions, add_special_tokens=False)["input_ids"])
    room = most - longest - encoder.tokenizer.num_special_tokens_to_add(pair=True)
    if room <= stride:
        raise ModelError(
            f"a question of {longest} pieces leaves {max(0, room)} of {most} for the text, fewer than a stride of "
            f"{stride}: set stride lower or max_pieces higher"
        )
    encoded = encoder.tokenizer(
        questions,
        texts,
        truncation="only_second",
        max_length=most,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    rows = []
    for one, number in zip(encoded.encodings, encoded["overflow_to_sample_mapping"], strict=True):
        row = replace(_row(one, encoded, number, None), offsets=np.array(one.offsets, dtype=np.int64))
        rows.append(replace(row, label=_answer_in(row, items, number)))
    return Inputs(rows, items)


def _answer_in(row: Row, items: Items, item: int) -> tuple[int, int]:
    """First and last piece of the first answer in a window; those of the first special token where it has none."""
    if not items.answers[item]:
        return 0, 0
    answer, sentence = items.answers[item][0], items.sentences[int(items.place[item])]
    assert answer.span2 is not None
    assert row.offsets is not None
    before = sentence.spans[answer.span2[0]][0]
    # The answer as it is written may begin within its first word.
    start = sentence.text.index(str(answer.label), before) - second_start(sentence)
    end = start + len(str(answer.label))
    of_text = np.flatnonzero(row.segments == 1)
    starts, ends = row.offsets[of_text, 0], row.offsets[of_text, 1]
    if not len(of_text) or starts[0] > start or ends[-1] < end:
        return 0, 0
    inside = of_text[(starts < end) & (ends > start)]
    return int(inside[0]), int(inside[-1])


def _tagged(task: TuningTask, items: Items, encoder: Encoder, most: int) -> Inputs:
    pieces = encoder.tokenize(items.sentences, max_pieces=most)
    items = items.without(np.isin(items.place, pieces.shared), SHARED)
    own = _own_subwords(pieces, items.place)
    items, own = items.without(own < 0, NONE_OF_ITS_OWN), own[own >= 0]
    codes = code_of(task)
    windows = pieces.word_window[items.place]
    order = np.argsort(windows, kind="stable")
    read = order[windows[order] >= 0]
    bounds = np.searchsorted(windows[read], np.arange(pieces.n_windows + 1))
    has_types = "token_type_ids" in encoder.tokenizer.model_input_names
    rows = []
    for window in range(pieces.n_windows):
        here = read[bounds[window] : bounds[window + 1]]
        if not len(here):
            continue
        ids = pieces.window(window).astype(np.int64)
        places = own[here]
        label = np.full(len(ids), IGNORED, dtype=np.int64)
        label[places] = [codes.get(items.gold[item], IGNORED) for item in here.tolist()]
        segments = np.zeros(len(ids), dtype=np.int64)
        segments[: encoder.n_prefix] = _SPECIAL
        segments[len(ids) - encoder.n_suffix :] = _SPECIAL
        rows.append(Row(ids, np.zeros_like(ids) if has_types else None, segments, here, places, label))
    return Inputs(rows, items)


def _own_subwords(pieces: Pieces, words: NDArray[np.int64]) -> NDArray[np.int64]:
    """``[word]`` the first subword, counted in its window, that is no word's before; −1 for a word without one."""
    places, taken = pieces.word_first[words].astype(np.int64), set()
    windows, ends = pieces.word_window[words].tolist(), pieces.word_last[words].tolist()
    for item, (window, end) in enumerate(zip(windows, ends, strict=True)):
        if window >= 0:
            free = (place for place in range(places[item], end) if (window, place) not in taken)
            places[item] = next(free, -1)
            taken.add((window, places[item]))
    return places


def learnable(inputs: Inputs) -> list[Row]:
    """The rows that have something to learn: of train all labels are known, of words some window may have none."""
    return [row for row in inputs.rows if not np.all(np.asarray(row.label) == IGNORED)]


class Collator:
    """Makes one batch of rows, padded to the longest."""

    def __init__(self, task: TuningTask, *, pad_id: int, with_segments: bool) -> None:
        self._kind, self._pad_id, self._with_segments = task.kind, pad_id, with_segments

    def __call__(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """The arguments of the model, labels included."""
        length = max(map(len, rows))

        def padded(values: Sequence[NDArray[np.int64]], fill: int) -> Tensor:
            out = np.full((len(rows), length), fill, dtype=np.int64)
            for line, row in zip(out, values, strict=True):
                line[: len(row)] = row
            return torch.from_numpy(out)

        batch = {"input_ids": padded([row.ids for row in rows], self._pad_id)}
        batch["attention_mask"] = padded([np.ones_like(row.ids) for row in rows], 0)
        types = [row.types for row in rows if row.types is not None]
        if types:
            batch["token_type_ids"] = padded(types, 0)
        if self._with_segments:
            batch["segments"] = padded([row.segments for row in rows], _SPECIAL)
        if self._kind == "tags":
            batch["labels"] = padded([row.label for row in rows], IGNORED)
        elif self._kind == "answers":
            starts, ends = zip(*(row.label for row in rows), strict=True)
            batch |= {"start_positions": torch.tensor(starts), "end_positions": torch.tensor(ends)}
        else:
            batch["labels"] = torch.tensor([row.label for row in rows])
        return batch
