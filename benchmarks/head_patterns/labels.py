"""Real maps that were labelled by eye: which they are, and what they look like in a model at hand."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from benchmarks.head_patterns.maps import PieceMap, read_maps
from bertology.attention.patterns import PATTERNS, Pattern
from bertology.errors import CorpusError, ModelError, ResultsError

if TYPE_CHECKING:
    from bertology.corpora import Sentences
    from bertology.encoders import Encoder

LABELS: Final = Path(__file__).with_name("labels") / "labels.csv"
SECOND: Final = LABELS.with_name("second.csv")
"""Of a second labeller."""
POCKET: Final = ("pocket", "pocket")
"""The embedded model and corpus, half of whose maps were labelled."""
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
    """``adjust``: the rule in numbers and the calibration are fitted to it; ``test``: scores are made on it."""
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
        raise ResultsError(f"{path} is missing: take it from the repository again") from None
    found = []
    for line, row in enumerate(rows, start=2):
        if list(row) != names or row["label"] not in PATTERNS or row["second"] not in (*PATTERNS, ""):
            raise ResultsError(
                f"{path}, line {line}: columns should be {', '.join(names)}, labels {', '.join(PATTERNS)}"
            )
        values = {**row, "layer": int(row["layer"]), "head": int(row["head"])}
        found.append(LabelledMap(**values))  # type: ignore[arg-type]
    return tuple(found)


def read_second_labels(labels: Sequence[LabelledMap], path: Path = SECOND) -> tuple[LabelledMap, ...]:
    """The same maps with the classes that the second labeller gave them.

    Args:
        labels: some of :func:`read_labels`.
        path: a table of map, label and second.

    Raises:
        ResultsError: the file is missing, a line of it is not as it should be, or it lacks one of the maps.
    """
    names = ["map", "label", "second"]
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise ResultsError(f"{path} is missing: take it from the repository again") from None
    found = {}
    for line, row in enumerate(rows, start=2):
        if list(row) != names or row["label"] not in PATTERNS or row["second"] not in (*PATTERNS, ""):
            raise ResultsError(
                f"{path}, line {line}: columns should be {', '.join(names)}, labels {', '.join(PATTERNS)}"
            )
        found[row["map"]] = (row["label"], row["second"])
    missing = [one.map for one in labels if one.map not in found]
    if missing:
        raise ResultsError(f"{path} has no line of map {missing[0]}: take the file from the repository again")
    given = [(one, *found[one.map]) for one in labels]
    return tuple(replace(one, label=label, second=second) for one, label, second in given)  # type: ignore[arg-type]


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


def labelled_part(part: Part, *, model: str, corpus: str) -> dict[str, tuple[list[PieceMap], list[LabelledMap]]]:
    """The maps of one part by the name of their model, with their labels.

    Args:
        part: ``adjust`` or ``test``.
        model: folder of the MiniLM that was labelled.
        corpus: folder of the English Web Treebank.

    Raises:
        BertologyError: the model or the corpus is not the one that was labelled.
    """
    from bertology.corpora import load_corpus
    from bertology.encoders import load_encoder

    labels = [one for one in read_labels() if one.part == part]
    found = {}
    for name, initial, from_model, from_corpus in (("MiniLM", "m", model, corpus), ("Pocket BERT", "p", *POCKET)):
        own = [one for one in labels if one.map.startswith(initial)]
        encoder = load_encoder(from_model, device="cpu", attention="eager")
        found[name] = (list(labelled_maps(encoder, load_corpus(from_corpus)["test"], own)), own)
    return found
