"""Probes by name: found through the entry-point group ``bertology.probes``, ours exactly as anyone else's."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from bertology._names import name_not_found
from bertology.errors import BertologyError, NameNotFoundError, quoted
from bertology.probing._contract import Probe, ProbeFamily

GROUP = "bertology.probes"
_NAME = re.compile(r"(?P<task>[a-z0-9_]+)\.v(?P<version>\d+)")


@dataclass(frozen=True)
class Registered:
    """A probe that is installed, not yet imported."""

    task: str
    version: int
    entry_point: EntryPoint

    def load(self) -> Probe | ProbeFamily:
        """Import it.

        Raises:
            BertologyError: it cannot be imported, is not a probe, or is registered under a name that is not its own.
        """
        name, target = self.entry_point.name, self.entry_point.value
        if not _NAME.fullmatch(name):
            raise BertologyError(f"probe name {quoted(name)} ({target}): it should be like pos.v1")
        try:
            found = self.entry_point.load()
        except Exception as error:
            # Whatever a package does when it is imported must not reach a person as a traceback.
            raise BertologyError(
                f"probe {name} ({target}) cannot be imported ({type(error).__name__}: {error}); "
                "mend or uninstall the package that brings it"
            ) from error
        if not isinstance(found, Probe | ProbeFamily):
            raise BertologyError(
                f"probe {name}: {target} is of type {type(found).__name__}; "
                "it should be a RepresentationProbe, a ClozeProbe, an AttentionProbe, a GateProbe or a ProbeFamily"
            )
        if isinstance(found, Probe):
            self.check_name(found)
        return found

    def check_name(self, probe: Probe) -> None:
        """Raise :class:`BertologyError` where ``probe`` calls itself something else than it is registered as."""
        own = f"{probe.task.partition(':')[0]}.v{probe.version}"
        if own != f"{self.task}.v{self.version}":
            raise BertologyError(
                f"probe {self.entry_point.name}: {self.entry_point.value} calls itself {own}; "
                "register it under that name, or change its task or version"
            )


def registered_probes() -> Mapping[str, Registered]:
    """All versions of all installed probes by registered name (``pos.v1``).

    Raises:
        BertologyError: two packages register one name.
    """
    return _registered(_found_by(entry_points, tuple((place, _changed(place)) for place in sys.path)))


@lru_cache(maxsize=8)
def _found_by(find: Callable[..., Any], places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """What there is to find. All that is installed is read for it, so it is done again only when something was
    installed into one of the ``places``, or these are others."""
    return tuple(find(group=GROUP))


def _changed(place: str) -> int:
    """When something was put into a folder, or taken out of it; 0 for what is no folder."""
    try:
        return Path(place or ".").stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache
def _registered(points: tuple[EntryPoint, ...]) -> Mapping[str, Registered]:
    found: dict[str, Registered] = {}
    for point in sorted(set(points), key=lambda p: (p.name, p.value)):
        if point.name in found:
            first = found[point.name].entry_point.value
            raise BertologyError(f"two probes are called {point.name}: {first} and {point.value}; rename one")
        # A name without a version is one package's mistake: told when that probe is asked for, no bar to the others.
        match = _NAME.fullmatch(point.name)
        task, version = (match["task"], int(match["version"])) if match else (point.name, 0)
        found[point.name] = Registered(task, version, point)
    return found


def get_probe(name: str) -> Probe:
    """The probe called ``name``: ``pos`` (the newest), ``pos.v1`` (that version), ``feats:Number`` (with argument).

    ``-`` and ``_`` are the same.

    Raises:
        NameNotFoundError: no such probe; the nearest names are told.
        BertologyError: it needs an argument, or takes none.
    """
    before, _, after = name.partition(":")
    plain, argument = before.strip().lower().replace("-", "_"), after.strip()
    known = registered_probes()
    versions = [r for registered, r in known.items() if plain in (registered, r.task)]
    if not versions:
        raise _unknown(before.strip(), known.values())
    newest = max(versions, key=lambda r: r.version)
    probe = newest.load()
    if isinstance(probe, ProbeFamily):
        if not argument:
            if probe.default is not None:
                newest.check_name(probe.default)
                return probe.default
            examples = " or ".join(f"{plain}:{instance}" for instance in probe.instances[:2])
            raise BertologyError(f"task {quoted(plain)} needs a {probe.argument} after a colon, such as {examples}")
        made = probe.make(argument)
        newest.check_name(made)
        return made
    if argument:
        raise BertologyError(f"task {quoted(plain)} takes no argument: write {plain} instead of {name}")
    return probe


def _unknown(name: str, known: Iterable[Registered]) -> NameNotFoundError:
    return name_not_found("task", name, {r.task for r in known}, remedy="`bertology tasks` lists them")
