"""Fine-tuning beside the Trainer of transformers on the same rows, with as many updates.

    python -m benchmarks.finetuning [--items 640] [--repeats 3]

One epoch of a classifier on the shared encoder, for SST-2 and RTE, by ``finetune`` without its scores on dev, divided
by transformers' Trainer with a padding collator, the same optimizer and the same seed: with random batches, its
default, and with those of ``group_by_length``. The checkpoint at the end is ours alone. How many pieces each computes
for one of the text stands beside the times.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import transformers
from transformers.trainer_pt_utils import LengthGroupedSampler

from benchmarks._common import CORPUS, MODEL, Line, show, side_by_side
from bertology._training import of_one_length
from bertology.activations.progress import silent
from bertology.corpora import load_corpus
from bertology.encoders import load_encoder
from bertology.finetuning import _items
from bertology.finetuning._run import _Data
from bertology.finetuning._settings import settings_of
from bertology.finetuning._training import ADAMW, build

TASKS = {"sst2": "sentence_label:label", "rte": "pair_label:label"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=640)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    show(run(items=args.items, repeats=args.repeats))


def run(*, items: int = 640, repeats: int = 3) -> list[Line]:
    """All lines."""
    encoder = load_encoder(str(MODEL))
    settings = settings_of(None, {"epochs": 1, "checkpoint_every": 10**6, "max_pieces": 256})
    lines = []
    for corpus, name in TASKS.items():
        task = _items.tuning_task(
            name, load_corpus(CORPUS.parent / corpus), train="train", test="test", sentences=items
        )
        train = _items.encode(task, task.splits["train"], encoder, max_pieces=settings.max_pieces, stride=0)
        dev = replace(train, rows=train.rows[:1])  # scores on dev are no part of what is compared
        collator = _items.Collator(task, pad_id=encoder.pad_id, states=None)
        data = _Data(task, {"train": train, "dev": dev}, collator)

        def ours(data: _Data = data, task: Any = task) -> None:
            with TemporaryDirectory() as folder:
                data.fit(build(encoder, task, settings, seed=1), 1, silent, folder=Path(folder))

        def peer(order: str, data: _Data = data, task: Any = task) -> None:
            trained = build(encoder, task, settings, seed=1)
            rows = [_plain(row) for row in data.inputs["train"].rows]
            collate = transformers.DataCollatorWithPadding(encoder.tokenizer)
            with TemporaryDirectory() as folder:
                chosen: Any = transformers.TrainingArguments(
                    output_dir=folder,
                    num_train_epochs=1,
                    seed=1,
                    per_device_train_batch_size=settings.batch_size,
                    train_sampling_strategy=order,
                    save_strategy="no",
                    report_to="none",
                    logging_strategy="no",
                    disable_tqdm=True,
                    use_cpu=True,
                    remove_unused_columns=False,
                )
                optimizer = ADAMW[False](trained.groups(), lr=settings.lr), None
                trainer = transformers.Trainer(
                    trained.model, chosen, data_collator=collate, train_dataset=rows, optimizers=optimizer
                )
                trainer.remove_callback(transformers.PrinterCallback)
                trainer.train()

        rows, size = train.rows, settings.batch_size
        lengths = np.array([*map(len, rows)])
        batches = np.split(np.random.default_rng(1).permutation(len(rows)), range(size, len(rows), size))
        grouped = list(LengthGroupedSampler(size, lengths=lengths.tolist()))
        parts: dict[str, list[Any]] = {
            "random": batches,
            "grouped": [grouped[start : start + size] for start in range(0, len(rows), size)],
            "ours": [part for batch in batches for part in _parts(lengths, batch)],
        }
        padded = {which: sum(len(part) * lengths[part].max() for part in some) for which, some in parts.items()}
        detail = ", ".join(f"{which} {value / lengths.sum():.2f}" for which, value in padded.items())
        for order, aim in (("random", "≤ 0.5"), ("group_by_length", "≤ 1.02")):
            what = f"{corpus}, {len(lengths)} items ÷ Trainer, {order.replace('_', ' ')}"
            ours(), peer(order)  # warm
            line = side_by_side(what, ours, partial(peer, order), repeats=repeats, aim=aim)
            lines.append(replace(line, detail=f"{line.detail}; padded ÷ text: {detail}"))
    return lines


def _parts(lengths: Any, batch: Any) -> list[list[int]]:
    """The rows of a batch, by number, in the parts that it is computed in."""
    parts = of_one_length([range(lengths[row]) for row in batch])
    ordered, ends = batch[np.argsort(lengths[batch], kind="stable")], np.cumsum([len(part) for part in parts[::-1]])
    return [part.tolist() for part in np.split(ordered, ends[:-1])]


def _plain(row: _items.Row) -> dict[str, Any]:
    """A row as the Trainer takes it."""
    types = {} if row.types is None else {"token_type_ids": row.types}
    return {"input_ids": row.ids, "attention_mask": np.ones_like(row.ids), **types, "labels": int(row.label)}


if __name__ == "__main__":
    main()
