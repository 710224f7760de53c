"""Run the snippets of the page *In five lines* as they stand, in one namespace: ``python docs/making/five_lines.py``.

What needs a network gets a stand-in: ``datasets.load_dataset`` gives SST-2 from the folder of real corpora where
``BERTOLOGY_REAL_DATA`` names one, else a few sentences; the second model is the first one with weights drawn at random.
"""

from __future__ import annotations

import csv
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from blocks import marked

PAGE = Path(__file__).resolve().parents[1] / "five-lines.md"
MOST_LINES = 5
SETUP = ("imports", "data", "transformer")
"""Blocks that the others take for granted."""


class StandIn:
    """A split as ``datasets.Dataset`` shows it: rows by number, columns by name, ``select``."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.column_names = list(rows[0])

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def select(self, numbers: range) -> StandIn:
        """The rows of these numbers, as many as there are."""
        return StandIn([self.rows[number] for number in numbers if number < len(self.rows)])


def load_dataset(name: str) -> dict[str, StandIn]:
    """SST-2 in the splits and columns of the hub: its own sentences, or a few made ones."""
    folder = Path(os.environ.get("BERTOLOGY_REAL_DATA", "")) / "sst2"
    splits = {}
    for split, file in (("train", "train.tsv"), ("validation", "dev.tsv")):
        if (folder / file).is_file():
            with (folder / file).open(encoding="utf-8", newline="") as lines:
                read = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
                some = itertools.islice(read, 100)
                rows = [{"sentence": row["sentence"], "label": int(row["label"])} for row in some]
        else:
            wheres = ("the river", "the garden", "a field", "the house", "the lake", f"the {split}")
            rows = [
                {"sentence": f"the {who} {how} near {where}", "label": label}
                for where in wheres
                for who in ("boy", "girl", "dog", "cat", "farmer")
                for how, label in (("sleeps well", 1), ("cries", 0))
            ]
        splits[split] = StandIn(rows)
    return splits


def main() -> None:
    """Run all snippets, in a folder of their own; report how long each takes."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    stand_in = ModuleType("datasets")
    stand_in.load_dataset = load_dataset  # type: ignore[attr-defined]
    sys.modules["datasets"] = stand_in
    found = marked(PAGE, "five lines")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        second_model("second")
        space: dict[str, Any] = {"__name__": "five_lines"}
        for name in (*SETUP, *(one for one in found if one not in SETUP)):
            began = time.perf_counter()
            exec(compile(found[name], f"{PAGE.name}, {name}", "exec"), space)
            print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)
        os.chdir(PAGE.parent)


def second_model(folder: str) -> None:
    """Save a model of Pocket BERT's shape whose weights are drawn at random."""
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

    from bertology.pocket import model_folder

    torch.manual_seed(1)
    AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(model_folder())).save_pretrained(folder)
    AutoTokenizer.from_pretrained(model_folder()).save_pretrained(folder)


if __name__ == "__main__":
    main()
