"""Real maps that were labelled by eye: which they are, and what they look like in a model at hand."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from bertology.attention.patterns._kinds import PATTERNS, Pattern
from bertology.attention.patterns._maps import PieceMap, read_maps
from bertology.errors import CorpusError, ModelError, ResultsError

if TYPE_CHECKING:
    from bertology.corpora import Sentences
    from bertology.encoders import Encoder

LABELS: Final = Path(__file__).with_name("labels") / "labels.csv"
Part = Literal["adjust", "test"]


@dataclass(frozen=True)
class LabelledMap:
    """One map that was looked at."""

    map: str
    """Its name: m for the MiniLM, p for Pocket BERT, and its number in the lot."""
    model: str
    fingerprint: str
    """Of the model's content."""
    sentence: str
    pair_with: str
    """The second sentence; empty where there is one sentence."""
    layer: int
    """From 1."""
    head: int
    """From 1."""
    part: Part
    """``adjust``: the generator's variation may have been adjusted on it; ``test``: scores are made on it."""
    label: Pattern
    second: Pattern | Literal[""]
    """Another class that is as defensible; empty where there is none."""


def read_labels(path: Path = LABELS) -> tuple[LabelledMap, ...]:
    """The labelled maps.

    Raises:
        ResultsError: the file is missing, or a line of it is not as it should be.
    """
    names = [field.name for field in fields(LabelledMap)]
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise ResultsError(f"{path} is missing: install bertology again") from None
    found = []
    for line, row in enumerate(rows, start=2):
        if list(row) != names or row["label"] not in PATTERNS or row["second"] not in (*PATTERNS, ""):
            raise ResultsError(
                f"{path}, line {line}: columns should be {', '.join(names)}, labels {', '.join(PATTERNS)}"
            )
        values = {**row, "layer": int(row["layer"]), "head": int(row["head"])}
        found.append(LabelledMap(**values))  # type: ignore[arg-type]
    return tuple(found)


def labelled_maps(encoder: Encoder, sentences: Sentences, labels: Sequence[LabelledMap]) -> tuple[PieceMap, ...]:
    """Read the labelled maps of one model.

    Args:
        encoder: the model they are of.
        sentences: the split they are of.
        labels: some of :func:`read_labels`, of this model.

    Raises:
        ModelError: the model is another one.
        CorpusError: a sentence is not among the sentences.
    """
    by_id = {sentence.id: sentence for sentence in sentences}
    found = []
    for one in labels:
        if one.fingerprint != encoder.fingerprint:
            raise ModelError(
                f"map {one.map} is of {one.model} with fingerprint {one.fingerprint}, not of {encoder.name} "
                f"({encoder.fingerprint}): give the model that was labelled"
            )
        names = [name for name in (one.sentence, one.pair_with) if name]
        missing = [name for name in names if name not in by_id]
        if missing:
            raise CorpusError(f"map {one.map}: there is no sentence {missing[0]!r}: give the split that was labelled")
        found.extend(read_maps(encoder, [by_id[name] for name in names], [(one.layer, one.head)]))
    return tuple(found)
