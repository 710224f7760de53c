"""Probes by name: found through the entry-point group ``bertology.probes``, ours exactly as anyone else's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from bertology._names import name_not_found
from bertology.errors import BertologyError, NameNotFoundError
from bertology.probing._contract import ProbeFamily, RepresentationProbe

GROUP = "bertology.probes"
_NAME = re.compile(r"(?P<task>[a-z0-9_]+)\.v(?P<version>\d+)")


@dataclass(frozen=True)
class Registered:
    """A probe that is installed, not yet imported."""

    task: str
    version: int
    entry_point: EntryPoint

    def load(self) -> RepresentationProbe | ProbeFamily:
        """Import it.

        Raises:
            BertologyError: it cannot be imported, or is not a probe.
        """
        try:
            found = self.entry_point.load()
        except Exception as error:
            raise BertologyError(
                f"probe {self.entry_point.name} ({self.entry_point.value}) cannot be imported "
                f"({type(error).__name__}: {error}); mend or uninstall the package that brings it"
            ) from error
        if not isinstance(found, RepresentationProbe | ProbeFamily):
            raise BertologyError(
                f"probe {self.entry_point.name}: {self.entry_point.value} is a {type(found).__name__}; "
                "it should be a RepresentationProbe or a ProbeFamily"
            )
        return found


def registered_probes() -> Mapping[str, Registered]:
    """All versions of all installed probes by registered name (``pos.v1``).

    Raises:
        BertologyError: two packages register one name, or a name has no version.
    """
    return _registered(tuple(entry_points(group=GROUP)))


@lru_cache
def _registered(points: tuple[EntryPoint, ...]) -> Mapping[str, Registered]:
    found: dict[str, Registered] = {}
    for point in sorted(set(points), key=lambda p: (p.name, p.value)):
        match = _NAME.fullmatch(point.name)
        if not match:
            raise BertologyError(f"probe name {point.name!r} ({point.value}): it should be like pos.v1")
        if point.name in found:
            first = found[point.name].entry_point.value
            raise BertologyError(f"two probes are called {point.name}: {first} and {point.value}; rename one")
        found[point.name] = Registered(match["task"], int(match["version"]), point)
    return found


def get_probe(name: str) -> RepresentationProbe:
    """The probe called ``name``: ``pos`` (the newest), ``pos.v1`` (that version), ``feats:Number`` (with argument).

    ``-`` and ``_`` are the same.

    Raises:
        NameNotFoundError: no such probe; the nearest names are told.
        BertologyError: it needs an argument, or takes none.
    """
    plain, _, argument = name.partition(":")
    plain = plain.strip().lower().replace("-", "_")
    known = registered_probes()
    versions = [r for registered, r in known.items() if plain in (registered, r.task)]
    if not versions:
        raise _unknown(name, known.values())
    probe = max(versions, key=lambda r: r.version).load()
    if isinstance(probe, ProbeFamily):
        if not argument:
            examples = " or ".join(f"{plain}:{instance}" for instance in probe.instances[:2])
            raise BertologyError(f"task {plain!r} needs a {probe.argument} after a colon, such as {examples}")
        return probe.make(argument)
    if argument:
        raise BertologyError(f"task {plain!r} takes no argument: write {plain} instead of {name}")
    return probe


def _unknown(name: str, known: Iterable[Registered]) -> NameNotFoundError:
    return name_not_found("task", name, {r.task for r in known}, remedy="`bertology tasks` lists them")
