"""Predictions of a model for the items of a split, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from bertology.finetuning._inputs import Collator, Inputs, Row
from bertology.finetuning._items import Items, TuningTask, second_start

_BATCH = 64
_MOST_PIECES = 30
"""Pieces in an answer, as in the code of Devlin et al. (2019)."""
_BEST = 20
"""First and last places of an answer that are tried with each other."""
_LABELS = "labels", "start_positions", "end_positions"
COLUMNS = ("item_id", "cluster_id", "gold", "pred", "score")
Predicted = dict[int, tuple[str, float]]
"""By item, what is predicted, and the logarithm of its probability; of numbers the number, of answers their logits."""
Variant = Callable[[], AbstractContextManager[Any]]
"""Makes a context inside which a model is changed for one pass."""


def predictions(
    model: Any,
    task: TuningTask,
    items: Items,
    inputs: Inputs,
    collator: Collator,
    variants: Sequence[Variant] = (nullcontext,),
) -> list[pd.DataFrame]:
    """One table for each variant of a model, with one row for each item: what is true and what is predicted.

    Columns are ``item_id``, ``cluster_id``, ``gold``, ``pred`` and ``score``: the natural logarithm of the probability
    of the predicted label, the number, or of answers the sum of their logits, less those of no answer where some
    training questions have none. An item that the model cannot read has an empty prediction, which is wrong, and no
    score.

    Each batch is read by all variants, in their order, before the next.
    """
    found: list[Predicted] = [{} for _ in variants]
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    with torch.inference_mode():
        for numbers in inputs.batches(_BATCH):
            rows = [inputs.rows[number] for number in numbers]
            batch = {name: value.to(device) for name, value in collator(rows).items() if name not in _LABELS}
            for of_variant, variant in zip(found, variants, strict=True):
                with variant():
                    output = model(**batch)
                for item, text, score in _read(task, items, rows, output):
                    if item not in of_variant or score > of_variant[item][1]:
                        of_variant[item] = text, score
    model.train(was_training)
    return [_table(items, of_variant) for of_variant in found]


def _table(items: Items, found: Predicted) -> pd.DataFrame:
    columns = (
        list(items.ids),
        items.cluster.tolist(),
        list(items.gold),
        [found.get(item, ("", np.nan))[0] for item in range(len(items))],
        [found.get(item, ("", np.nan))[1] for item in range(len(items))],
    )
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


def _read(task: TuningTask, items: Items, rows: list[Row], output: Any) -> Iterator[tuple[int, str, float]]:
    if task.kind == "answers":
        logits = (
            output["logits"] if "logits" in output else torch.stack([output["start_logits"], output["end_logits"]], -1)
        )
        for row, values in zip(rows, logits.float().cpu().numpy(), strict=True):
            yield _answer(items, row, values, may_be_empty=task.has_unanswered)
        return
    values = output["logits"].float().cpu()
    if task.kind == "numbers":
        for row, number in zip(rows, values[:, 0].tolist(), strict=True):
            yield int(row.items[0]), repr(number), number
        return
    scores = values.log_softmax(-1)
    best, codes = scores.max(-1)
    for place, row in enumerate(rows):
        where = (place, torch.from_numpy(row.places)) if task.kind == "tags" else (place, None)
        chosen = codes[where].flatten().tolist(), best[where].flatten().tolist()
        for item, code, score in zip(row.items.tolist(), *chosen, strict=True):
            yield item, task.labels[code], score


def _answer(items: Items, row: Row, logits: NDArray[np.float32], *, may_be_empty: bool) -> tuple[int, str, float]:
    """The best answer in a window, empty if no answer is better; and its score."""
    item = int(row.items[0])
    assert row.offsets is not None
    inside = np.flatnonzero(row.segments == 1)
    starts, ends = (inside[np.argsort(-logits[inside, side])[:_BEST]] for side in (0, 1))
    sums = logits[starts, 0][:, None] + logits[ends, 1][None, :]
    length = ends[None, :] - starts[:, None]
    sums = np.where((length >= 0) & (length < _MOST_PIECES), sums, -np.inf)
    if not np.isfinite(sums).any():
        return item, "", -np.inf
    first, last = np.unravel_index(int(sums.argmax()), sums.shape)
    score = float(sums[first, last]) - may_be_empty * float(logits[0].sum())
    sentence = items.sentences[int(items.place[item])]
    text = sentence.text[second_start(sentence) :]
    answer = text[row.offsets[starts[first], 0] : row.offsets[ends[last], 1]]
    return item, "" if may_be_empty and score < 0 else answer, score
