"""How many draws of random weights a task's scores are held against, and which seeds they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertology.encoders import ModelShape
from bertology.probing import ClozeItems, ClozeProbe, HeadProbe, Probe, RepresentationProbe
from bertology.readouts import readout_kind
from bertology.runner._finder import Init
from bertology.runner._reading import Reading
from bertology.runner._task_data import Splits

DRAWS = 3
"""Of the control ``random`` where they are cheap."""
MOST_WORK = 4e12
"""Weights of the blocks × words read × seeds up to which a draw is cheap: about a minute of forward passes on one core.
An encoder of 6 layers of 384 takes 2.7e12 for the English Web Treebank, BERT-base 2.2e13."""
_APART = 10_000


@dataclass(frozen=True)
class Weights:
    """The weights of a model: pretrained ones, or a draw of random ones."""

    init: Init
    seed: int = 0
    """Of fresh weights; 0 of pretrained ones."""


def control_seeds(n_draws: int) -> tuple[int, ...]:
    """The seeds of the draws of the control ``random``: 0, then far from those that people give their own models."""
    return tuple(range(0, n_draws * _APART, _APART))


def cheap_draws(
    probe: Probe, readings: Sequence[Reading], shape: ModelShape, splits: Splits, *, deepest: int, seeds: int
) -> int:
    """How many draws a task has unless a number is asked for: known from the model, the corpus and the request alone.

    Three where the text is read quickly and the fit is of single words, or nothing is fitted; else one. Heads of
    random weights are no replicates of one another, so that they always have one.
    """
    if isinstance(probe, HeadProbe):
        return 1
    kinds = [readout_kind(reading.readout or probe.readout) for reading in readings]
    quick = all(kind.reads in ("words", "prompts") for kind in kinds) and not any(one.codelength for one in readings)
    if isinstance(probe, RepresentationProbe):
        n_words = float(seeds * sum(split.n_words for split in splits.by_name.values()))
    else:
        n_words = asked_words(probe, splits.prompts[probe.task])
    return DRAWS if quick and 12 * shape.dim**2 * deepest * n_words <= MOST_WORK else 1


def asked_words(probe: Probe, items: ClozeItems, *, pieces: float = 1.0) -> float:
    """How many words a model reads for cloze items, or pieces if there are so many a word.

    Sentences are read once for each of their pieces.
    """
    lengths = pieces * np.array([float(len(item.text.split()) + len(item.other.split())) for item in items.items])
    whole = isinstance(probe, ClozeProbe) and probe.asks == "sentences"
    return float((lengths**2 / 2 if whole else lengths).sum())
