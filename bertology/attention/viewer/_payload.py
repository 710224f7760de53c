"""What the page's script is given: words and heads as plain values, maps as packed bytes by layer."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertology.attention.viewer._kinds import LEVELS, Level, Weights
from bertology.attention.viewer._pack import MOST_CELLS, most_kept, pack
from bertology.attention.viewer._read import AttentionReading
from bertology.corpora import Sentence


@dataclass(frozen=True)
class Payload:
    """Everything of a page but its looks."""

    values: dict[str, Any]
    maps: dict[str, str]
    """Base64 of packed maps, by ``level-weights-layer``."""


def payload(reading: AttentionReading, *, level: Level, weights: Weights) -> Payload:
    """The payload of a reading.

    A page holds both levels and all weights that were read where nothing has to be left out of them; of longer
    sentences those maps alone that are asked for, of every row the strongest weights.

    Args:
        reading: of a sentence.
        level: shown first.
        weights: shown first.
    """
    n_maps = sum(len(heads) for heads in reading.heads.values())
    every: list[tuple[Level, Weights]] = [(one, other) for one in LEVELS for other in reading.weights]
    cells = n_maps * sum(len(reading.units(one).labels) ** 2 for one, _ in every)
    sets = every if cells <= MOST_CELLS else [(level, weights)]
    maps, about = {}, {}
    for own_level, own_weights in sets:
        kept = most_kept(n_maps, len(reading.units(own_level).labels))
        covered = []
        for layer in reading.layers:
            packed = pack(reading.maps(layer, level=own_level, weights=own_weights), kept=kept)
            covered.append(packed.covered)
            maps[f"{own_level}-{own_weights}-{layer}"] = base64.b64encode(packed.content).decode()
        about[f"{own_level}-{own_weights}"] = {"kept": kept, "covered": round(float(np.mean(covered)), 4)}
    values = {
        "texts": [sentence.text for sentence in reading.sentences],
        "model": model_name(reading.model),
        "init": reading.init,
        "layers": [{"layer": layer, "heads": list(heads)} for layer, heads in reading.heads.items()],
        "levels": {one: _units(reading, one) for one in LEVELS},
        "sets": about,
        "level": level,
        "weights": weights,
        "isPart": len(sets) < len(every),
        "leftOut": list(reading.given.left_out),
    }
    return Payload(values, maps)


def model_name(name: str) -> str:
    """The name of a model as a page may show it: of a folder the last part alone."""
    return Path(name).name if Path(name).is_dir() else name


def _units(reading: AttentionReading, level: Level) -> dict[str, Any]:
    units = reading.units(level)
    place: dict[int, int] = {}
    for number, word in enumerate(units.word):
        place.setdefault(word, number)
    return {
        "labels": list(units.labels),
        "special": [int(special) for special in units.special],
        "segment": list(units.segment),
        "arcs": _arcs(reading.sentences, place),
    }


def _arcs(sentences: tuple[Sentence, ...], place: dict[int, int]) -> list[list[Any]]:
    """Gold dependencies as places of the dependent and its head, and the relation; a root has no arc."""
    arcs: list[list[Any]] = []
    before = 0
    for sentence in sentences:
        relations = sentence.layers.get("deprel", (None,) * len(sentence))
        for word, head in enumerate(sentence.heads or ()):
            ends = place.get(before + word), place.get(before + head - 1)
            if head > 0 and None not in ends:
                arcs.append([*ends, relations[word] or ""])
        before += len(sentence)
    return arcs
