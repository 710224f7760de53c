"""The files of a run that hold a cell, and the records in them, as they stand on disk."""

import json
from pathlib import Path
from typing import Any

from bertology.results.cells import file_with

_ENDINGS = {"cells": "jsonl", "predictions": "parquet", "fits": "safetensors", "probes": "safetensors"}


def file_of(run: Path, cell_id: str, folder: str = "predictions") -> Path:
    """The file of a folder of ``run`` that holds a cell."""
    return run / folder / f"{file_with(run, cell_id)}.{_ENDINGS[folder]}"


def records_in(run: Path) -> dict[str, dict[str, Any]]:
    """The records of all finished cells, by cell."""
    lines = [line for path in sorted((run / "cells").glob("*.jsonl")) for line in path.read_text().splitlines()]
    return {record["cell_id"]: record for record in map(json.loads, lines)}
