"""How a task is read off the vectors: by which readout, with which settings, from how much of the training data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bertology._files import canonical_json
from bertology.errors import BertologyError
from bertology.probing import HeadProbe, Probe
from bertology.readouts import readout_kind

Codelength = Literal["online", "variational"]
Eraser = Literal["leace", "random"]


@dataclass(frozen=True)
class Reading:
    """One way to read a task; several make a sweep.

    Raises:
        BertologyError: a setting is out of bounds.
    """

    readout: str | None = None
    """A registered readout; the task's own when left out."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The readout's own settings, where they are not its defaults."""
    fraction: float = 1.0
    """How much of the training sentences to fit on; a smaller share is part of every larger one."""
    codelength: Codelength | None = None
    """``online``, or of a readout with a posterior ``variational``: measure how short the training labels can be told
    instead of how well test is predicted (Voita & Titov 2020)."""
    erase: str | None = None
    """A task of words: what a linear readout finds of it is taken out of the vectors first (Elazar et al. 2021)."""
    eraser: Eraser = "leace"
    """``random``: as many directions are taken out, but any."""
    layers: str | None = None
    """Some of the layers that are read, such as ``3`` or ``0-2,-1``; all of them when left out."""

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise BertologyError(f"fraction of the training data is {self.fraction}; it should be over 0 and at most 1")

    @property
    def changes(self) -> dict[str, Any]:
        """What differs from the readout's defaults on all of train: part of a cell's identity and of its rows."""
        found: dict[str, Any] = dict(sorted(self.settings.items()))
        if self.fraction != 1:
            found["fraction"] = self.fraction
        if self.codelength is not None:
            found["codelength"] = self.codelength
        if self.erase is not None:
            found |= {"erase": self.erase, "eraser": self.eraser}
        return found

    @property
    def title(self) -> str:
        """What a person calls it."""
        return " ".join([str(self.readout), *(f"{name}={value}" for name, value in self.changes.items())])

    @property
    def key(self) -> str:
        """What tells readings of a task apart."""
        return canonical_json([self.readout, self.changes]).decode()


def fitted_together(readings: Sequence[Reading], *, own: str) -> tuple[tuple[Reading, ...], ...]:
    """Readings in the order given, those of them in one place that are fitted in the same passes over the data.

    Those differ in nothing but the setting that their readout declares as ``fitted_together``, as structural probes
    do in their rank.

    Args:
        readings: the ways in which a task is read.
        own: the task's own readout, which those have that name none.
    """
    found: dict[str, list[Reading]] = {}
    for place, reading in enumerate(readings):
        kind = readout_kind(reading.readout or own)
        others = {name: value for name, value in reading.settings.items() if name != kind.fitted_together}
        plain = replace(reading, readout=kind.name, settings=others)
        key = str(place) if kind.fitted_together is None else f"{plain.key} {plain.layers}"
        found.setdefault(key, []).append(reading)
    return tuple(map(tuple, found.values()))


def sweep(
    readout: str | None,
    settings: Mapping[str, Any],
    *,
    fractions: Sequence[float] = (1.0,),
    codelength: Codelength | None = None,
    erase: str | None = None,
    eraser: Eraser = "leace",
    layers: str | None = None,
) -> tuple[Reading, ...]:
    """Every combination of settings that are given as lists, and of fractions.

    Args:
        readout: a registered readout; the task's own when None.
        settings: values, or lists of values to try one after the other.
        fractions: shares of the training data.
        codelength: as in :class:`Reading`.
        erase: as in :class:`Reading`.
        eraser: as in :class:`Reading`.
        layers: as in :class:`Reading`.
    """
    names = sorted(settings)
    values = [settings[name] if isinstance(settings[name], list | tuple) else [settings[name]] for name in names]
    return tuple(
        Reading(readout, dict(zip(names, chosen, strict=True)), fraction, codelength, erase, eraser, layers)
        for *chosen, fraction in itertools.product(*values, fractions)
    )


_SPECIAL = {
    "trees": "trees",
    "prompts": "what a model says of texts",
    "maps": "attention maps",
    "gates": "what a model loses without its heads",
}
"""What is read by readouts that read nothing else."""


def check_reading(probe: Probe, reading: Reading, *, width: int) -> None:
    """Refuse a readout that cannot read what a task is about, or more than vectors of that width have.

    Raises:
        BertologyError: it does not fit.
    """
    asked, own = readout_kind(str(reading.readout)), readout_kind(probe.readout)
    special = _SPECIAL.keys() & {asked.reads, own.reads}
    unlike = asked.reads != own.reads or (own.reads == "prompts" and asked.name != own.name)
    if special and unlike:
        what = _SPECIAL.get(own.reads, "labels")
        raise BertologyError(
            f"task {probe.task} is about {what}, which {reading.readout} cannot read; "
            f"leave the readout out, or take {probe.readout}"
        )
    if own.reads == "trees" and (reading.codelength is not None or reading.erase is not None):
        raise BertologyError(f"task {probe.task}: trees have no codelength here, and nothing is erased before them")
    if own.reads in ("prompts", "maps", "gates") and (reading.codelength or reading.erase or reading.fraction != 1):
        raise BertologyError(
            f"task {probe.task}: nothing is fitted to it, so that there is no share of training data, no codelength "
            "and nothing to erase"
        )
    if isinstance(probe, HeadProbe):
        probe.with_settings(reading.settings)
    if (problem := asked.settings_problem(reading.settings, width)) is not None:
        raise BertologyError(f"task {probe.task}: {problem}")
