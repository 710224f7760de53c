"""Components by versioned name: installed through entry points, imported when they are needed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from bertology._names import name_not_found
from bertology.errors import BertologyError, quoted

Component = TypeVar("Component")
_NAME = re.compile(r"(?P<stem>[a-z0-9_]+)\.v(?P<version>\d+)")


@dataclass(frozen=True)
class Registered(Generic[Component]):
    """A component that is installed and not yet imported."""

    stem: str
    """The name without its version: ``pos``."""
    version: int
    entry_point: EntryPoint
    registry: Registry[Component]

    @property
    def name(self) -> str:
        """The registered name: ``pos.v1``."""
        return self.entry_point.name

    def load(self) -> Component:
        """Import the component; an error where that is not possible, or it is not what the name promises."""
        kind, target, example = self.registry.kind, self.entry_point.value, self.registry.example
        if not _NAME.fullmatch(self.name):
            raise BertologyError(f"{kind} name {quoted(self.name)} ({target}): it should be like {example}")
        return self.registry.check(self, imported(self.entry_point, kind))

    def wrong_type(self, component: object, expected: str) -> BertologyError:
        """The error for a component that is of another type than the ``expected`` one."""
        target = f"{self.entry_point.value} is of type {type(component).__name__}"
        return BertologyError(f"{self.registry.kind} {self.name}: {target}; it should be {expected}")

    def check_name(self, own: str, *, remedy: str) -> None:
        """Raise :class:`BertologyError` where a component calls itself by its ``own`` name, not the registered one."""
        if own != self.name:
            problem = f"{self.registry.kind} {self.name}: {self.entry_point.value} calls itself {own}"
            raise BertologyError(f"{problem}; register it under that name, or change its {remedy}")


@dataclass(frozen=True)
class Registry(Generic[Component]):
    """All components of one entry-point group, ours exactly as anyone else's.

    A name is ``pos.v1``; ``pos`` means the newest version, ``-`` and ``_`` are the same, and case does not matter.
    """

    kind: str
    """The kind of component in messages: ``probe``."""
    group: str
    """The entry-point group: ``bertology.probes``."""
    example: str
    """A name as it should be, for messages."""
    check: Callable[[Registered[Component], Any], Component]
    """Returns an imported object, or raises :class:`BertologyError` where it is no such component."""

    def registered(self) -> Mapping[str, Registered[Component]]:
        """All versions of all installed components by name; an error where two packages register one."""
        return _registered(self, entry_points, tuple(zip(sys.path, map(_changed, sys.path), strict=True)))

    def newest(self, name: str) -> Registered[Component] | None:
        """The component called ``name``, of several versions the newest; None where there is none."""
        plain, newest = name.strip().lower().replace("-", "_"), None
        for full_name, one in self.registered().items():
            if plain in (full_name, one.stem) and (newest is None or one.version > newest.version):
                newest = one
        return newest

    def get(self, name: str) -> Component:
        """Import the newest component called ``name``; the error where there is none names the nearest ones."""
        newest = self.newest(name)
        if newest is None:
            raise name_not_found(self.kind, name, self.registered())
        return newest.load()


def imported(entry_point: EntryPoint, kind: str) -> Any:
    """The object that an entry point of some ``kind`` of component names."""
    try:
        return entry_point.load()
    except Exception as error:
        # Whatever a package does when it is imported must not reach a person as a traceback.
        problem = f"cannot be imported ({type(error).__name__}: {error}); mend or uninstall the package that brings it"
        raise BertologyError(f"{kind} {entry_point.name} ({entry_point.value}) {problem}") from error


def _changed(folder: str) -> int:
    """The time when a folder was last changed; 0 for what is no folder."""
    try:
        return os.stat(folder or ".").st_mtime_ns  # noqa: PTH116 — asked often, and a Path takes longer than this
    except OSError:
        return 0


@lru_cache(maxsize=32)
def _registered(
    registry: Registry[Component], find: Callable[..., Iterable[EntryPoint]], folders: tuple[tuple[str, int], ...]
) -> Mapping[str, Registered[Component]]:
    """The components by name; all metadata is read again only when something was installed into one of the ``folders``,
    or these are others."""
    by_name: dict[str, Registered[Component]] = {}
    for point in sorted(set(find(group=registry.group)), key=lambda p: (p.name, p.value)):
        if point.name in by_name:
            first = by_name[point.name].entry_point.value
            raise BertologyError(f"two {registry.kind}s are called {point.name}: {first} and {point.value}; rename one")
        # A name without a version is one package's mistake: reported when it is asked for, it stops no other.
        match = _NAME.fullmatch(point.name)
        stem, version = (match["stem"], int(match["version"])) if match else (point.name, 0)
        by_name[point.name] = Registered(stem, version, point, registry)
    return by_name
