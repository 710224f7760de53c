"""What compressing leaves: a model folder with a record of what was done to it, and a model card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertology._files import read_json
from bertology._inputs import given_path
from bertology.compression._model import Storage
from bertology.encoders import Encoder, load_encoder

RECORD = "compress.json"
CONFIG_KEY = "bertology_compression"
"""The entry of ``config.json`` that holds what was done, so that the fingerprint of the model depends on it."""
_WHAT = "the record of a compressed model"


@dataclass(frozen=True)
class Record:
    """The file ``compress.json`` of a model folder."""

    format: int
    model: str
    """Name of the model that was compressed."""
    model_fingerprint: str
    steps: list[dict[str, Any]]
    """What was done, in order: ``method``, its settings, and its ``outcome``."""
    n_parameters: int
    """Weights of the model, tied ones once."""
    n_nonzero: int
    """Weights that are not zero."""
    source_parameters: int
    """Weights of the model that was compressed."""
    bytes_on_disk: int
    """Of the file of weights here: float32, zeros written out."""
    bytes_estimated: int
    """That the weights could be stored in: those of few bits with their scales, those with zeros as the others and a
    bit each, those of low rank as two factors; what is least of each tensor."""
    storage: dict[str, Storage]
    """By the name of a weight, how it could be stored, where that is not 32 bits."""
    versions: dict[str, str]


@dataclass(frozen=True)
class Compressed:
    """A compressed model: its folder, and what was done to it."""

    path: Path
    """The model folder."""
    record: Record
    is_found: bool = False
    """Whether the model was there already, and nothing was done."""

    def encoder(self, *, device: str = "auto") -> Encoder:
        """The compressed encoder."""
        return load_encoder(str(self.path), device=device)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What was done, in order: ``method``, its settings, and its ``outcome``."""
        return self.record.steps

    def summary(self) -> str:
        """What was done and what size it has, in lines for a terminal."""
        record = self.record
        lines = [f"{record.model}: {described(step)}" for step in record.steps]
        if self.is_found:
            lines.append(f"nothing to do: the model is finished in {self.path}")
        lines.append(
            f"{record.n_parameters:,} weights (of {record.source_parameters:,}), "
            f"{record.n_nonzero:,} not zero; {record.bytes_on_disk / 1e6:.2f} MB on disk as float32, about "
            f"{record.bytes_estimated / 1e6:.2f} MB if stored by bits"
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Compressed {self.record.model} by {', '.join(step['method'] for step in self.steps)} in {self.path}>"


def described(step: dict[str, Any]) -> str:
    """A step as one line: method, settings and outcome."""
    settings = {key: value for key, value in step.items() if key not in ("method", "outcome") and value is not None}
    parts = [f"{key} {_short(value)}" for key, value in settings.items()]
    outcome = ", ".join(f"{key.replace('_', ' ')} {_short(value)}" for key, value in step["outcome"].items())
    return f"{step['method']} ({', '.join(parts)}): {outcome}"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def model_card(record: Record) -> str:
    """The card as Markdown: what was done to which model, and its size."""
    steps = [f"{number}. {described(step)}" for number, step in enumerate(record.steps, 1)]
    lines = [
        "---",
        "library_name: transformers",
        "---",
        "",
        f"# {record.model}, compressed",
        "",
        f"`{record.model}` (fingerprint `{record.model_fingerprint}`), changed by `bertology compress`:",
        "",
        *steps,
        "",
        "| | |",
        "|---|---|",
        f"| weights | {record.n_parameters:,} of {record.source_parameters:,} |",
        f"| not zero | {record.n_nonzero:,} |",
        f"| bytes on disk, as float32 | {record.bytes_on_disk:,} |",
        f"| bytes if stored by bits, zeros and ranks | {record.bytes_estimated:,} |",
        "",
        "Weights are float32 in their usual places, so that plain transformers loads the folder: what is quantised "
        "holds rounded values, what is pruned holds zeros. The last size is an estimate of what a format made for it "
        f"takes. Details are in `{RECORD}`.",
    ]
    return "\n".join(lines) + "\n"


def read_record(folder: Path) -> Record:
    """The record of a compressed model's folder."""
    record: Record = read_json(folder / RECORD, what=_WHAT, form=Record, remedy="compress the model again")
    return record


def read_compressed(path: str | Path) -> Compressed:
    """The compressed model in a folder, as :func:`compress` returned it.

    Raises:
        BertologyError: the folder holds no such record.
    """
    folder = given_path(path)
    return Compressed(folder, read_record(folder))
