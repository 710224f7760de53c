"""Readout configurations: which readout, with which settings, fitted to how much of the training data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bertology._files import canonical_json
from bertology.errors import BertologyError
from bertology.probing import Probe
from bertology.readouts import readout_kind

Codelength = Literal["online", "variational"]
Eraser = Literal["leace", "random"]


@dataclass(frozen=True)
class ReadoutConfig:
    """A readout with its settings, and what it is fitted to; several of one task make a sweep.

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
        """Its name in messages."""
        return " ".join([str(self.readout), *(f"{name}={value}" for name, value in self.changes.items())])

    @property
    def key(self) -> str:
        """Distinguishes the configurations of a task."""
        return canonical_json([self.readout, self.changes]).decode()


def sweep(
    readout: str | None,
    settings: Mapping[str, Any],
    *,
    fractions: Sequence[float] = (1.0,),
    codelength: Codelength | None = None,
    erase: str | None = None,
    eraser: Eraser = "leace",
    layers: str | None = None,
) -> tuple[ReadoutConfig, ...]:
    """Every combination of settings that are given as lists, and of fractions.

    Args:
        readout: a registered readout; the task's own when None.
        settings: values, or lists of values to try one after the other.
        fractions: shares of the training data.
        codelength: as in :class:`ReadoutConfig`.
        erase: as in :class:`ReadoutConfig`.
        eraser: as in :class:`ReadoutConfig`.
        layers: as in :class:`ReadoutConfig`.
    """
    names = sorted(settings)
    values = [settings[name] if isinstance(settings[name], list | tuple) else [settings[name]] for name in names]
    return tuple(
        ReadoutConfig(readout, dict(zip(names, chosen, strict=True)), fraction, codelength, erase, eraser, layers)
        for *chosen, fraction in itertools.product(*values, fractions)
    )


def own_readout(probe: Probe, asked: Sequence[ReadoutConfig], readout: str, *, about: str) -> tuple[ReadoutConfig, ...]:
    """Configurations of a task that has one readout, which is not fitted.

    Raises:
        NameNotFoundError: there is no readout of the name.
        BertologyError: another readout is named, or something that only fits have.
    """
    for config in asked:
        named = (config.readout or readout).strip().lower().replace("-", "_")
        if named not in (readout, readout.rpartition(".")[0]):
            raise BertologyError(
                f"task {probe.task} is about {about}, which {readout_kind(named).name} cannot read; "
                f"leave the readout out, or take {readout}"
            )
        if config.codelength or config.erase or config.fraction != 1:
            raise BertologyError(
                f"task {probe.task}: nothing is fitted to it, so that there is no share of training data, no "
                "codelength and nothing to erase"
            )
    return tuple(replace(config, readout=readout) for config in asked)
