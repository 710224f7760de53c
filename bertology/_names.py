"""Names and numbers as text, errors for unknown names, aligned rows, values by key; registries of components."""

import contextlib
import difflib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from itertools import repeat
from operator import attrgetter
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from bertology.errors import BertologyError, NameNotFoundError, cut, listed, quoted

_MOST_COMPARED = 80  # characters of a name that are compared with those there are: no name is longer
_MOST_PARTS = 2  # parts of a hub name: an organisation and its model


def name_not_found(kind: str, name: str, known: Iterable[str], *, remedy: str = "") -> NameNotFoundError:
    """An error for an unknown ``name`` of some ``kind`` ("task", "layer" …) with the nearest ``known`` names.

    The ``remedy`` is a closing hint, such as the command that lists all names.
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(name[:_MOST_COMPARED], names, n=3, cutoff=0.5)
    if near:
        hint = f"did you mean {' or '.join(map(cut, near))}?"
    elif len(names) <= 8:
        hint = f"there is {listed(names)}"
    else:
        hint = f"there are {len(names)}, such as {listed(names[:5])}"
    return NameNotFoundError(f"unknown {kind} {quoted(name)}: {hint}{'; ' + remedy if remedy else ''}")


def check_name(kind: str, name: str, known: Iterable[str], *, remedy: str = "") -> None:
    """Raise :func:`name_not_found` for a name that is not ``known``."""
    if name not in (names := list(known)):
        raise name_not_found(kind, name, names, remedy=remedy)


def folder_name(name: str, n_parts: int = 1) -> str:
    """The displayed name of a model or corpus: of a folder its last part or parts, other names as they are.

    Organisation and model of a model of a hub are one name.
    """
    path = PurePath(name)
    is_folder = name.startswith((".", "/", "~")) or name.endswith("/") or len(path.parts) > _MOST_PARTS
    kept = path.parts[-max(n_parts, 1 if is_folder else len(path.parts), 1) :]
    return "/".join(kept) if len(kept) < len(path.parts) else str(path)


def layer_number(layer: int, n_layers: int) -> int:
    """The number of a layer of a model with so many blocks; negative ones are counted from the last, -1."""
    return int(layer) + (n_layers + 1 if layer < 0 else 0)


def place_of_layer(layer: int, layers: Sequence[int], n_layers: int) -> int:
    """The place of a layer, counted as by :func:`layer_number`, among those that were read."""
    if (number := layer_number(layer, n_layers)) not in layers:
        raise name_not_found("layer among those that were read", str(layer), list(map(str, layers)))
    return list(layers).index(number)


def layer_label(layer: int) -> str:
    """A layer's number; layer 0 is marked as the embeddings."""
    return "0 · embeddings" if layer == 0 else str(layer)


def short_names(names: Iterable[str | None]) -> dict[str, str]:
    """The displayed name of each model: of a folder its last part, other names as they are.

    Folders of one name are distinguished by their parent folders. All folders are displayed with the same number of
    parts, as many as that needs: ``cola/seed-1``, ``cola/seed-2`` and ``sst2/seed-1``.
    """
    known, short = list(dict.fromkeys(filter(None, names))), dict[str, str]()
    for n_parts in range(1, max(map(len, map(attrgetter("parts"), map(PurePath, known))), default=1) + 1):
        longer = dict(zip(known, map(folder_name, known, repeat(n_parts)), strict=True))
        # The fewest parts that tell most apart.
        short = longer if len(set(longer.values())) > len(set(short.values())) else short
    times = Counter(short.values())
    for name, text in short.items():
        # What no folder tells apart, such as ./bert and bert, stands as it was written.
        short[name] = text if times[text] == 1 else name
    return short


def checkpoint_name(name: str, *, pretraining_seed: int | None, step: int | None) -> str:
    """The displayed name of one checkpoint of a training: ``small seed 2 step 4000``."""
    seed = "" if pretraining_seed is None else f" seed {pretraining_seed}"
    return name + seed + ("" if step is None else f" step {step}")


def training_name(name: str, *, pretraining_seed: int | None, step: int | None) -> str:
    """The part of a name that the checkpoints of a training, and its seeds, share."""
    return name.removesuffix(checkpoint_name("", pretraining_seed=pretraining_seed, step=step))


def decimals(value: float, n: int = 2) -> str:
    """A number with the given number of decimals; zero has no sign."""
    return f"{round(value, n) + 0.0:.{n}f}"


def signed(value: float) -> str:
    """A number of a page, with two decimals and a true minus sign."""
    return decimals(value).replace("-", "−")


def aligned(rows: Sequence[Sequence[str]], *, right: int | None = None) -> list[str]:
    """Rows of cells as lines, the columns as wide as their widest cell; those from number ``right`` on end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<" if right is None or column < right else ">" for column in range(len(widths))]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]


Key = TypeVar("Key")
Component = TypeVar("Component")


def by_key(pairs: Iterable[tuple[Key, Component]]) -> dict[Key, list[Component]]:
    """The values of each key, in order of first appearance."""
    found: dict[Key, list[Component]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def evenly(n: int, most: int) -> list[int]:
    """At most so many of ``n`` places, evenly spread, the first and the last among them; of one the last alone."""
    if n <= most:
        return list(range(n))
    return [round(at * (n - 1) / (most - 1)) for at in range(most)] if most > 1 else [n - 1]


_NAME = re.compile(r"(?P<stem>[a-z0-9_]+)\.v(?P<version>\d+)")


@dataclass(frozen=True)
class Registered(Generic[Component]):
    """A component that is installed and not yet imported."""

    name: str  # the registered name: `pos.v1`
    stem: str  # the name without its version: `pos`
    version: int
    entry_point: EntryPoint
    registry: "Registry[Component]"

    def load(self) -> Component:
        """Import the component; an error where that is not possible, or it is not what the name promises."""
        registry, target = self.registry, self.entry_point.value
        if not _NAME.fullmatch(self.name):
            raise BertologyError(
                f"{registry.kind} name {quoted(self.name)} ({target}): it should be like {registry.example}"
            )
        component: Component = imported(self.entry_point, registry.kind)
        if not isinstance(component, registry.types):
            problem = f"{target} is of type {type(component).__name__}; it should be {registry.expected}"
            raise BertologyError(f"{registry.kind} {self.name}: {problem}")
        self.check_name(registry.own_name and registry.own_name(component))
        return component

    def check_name(self, own: str | None) -> None:
        """Raise :class:`BertologyError` where a component calls itself by its ``own`` name, not the registered one."""
        if own not in (None, self.name):
            problem = f"{self.registry.kind} {self.name}: {self.entry_point.value} calls itself {own}"
            raise BertologyError(f"{problem}; register it under that name, or change its own")


@dataclass(frozen=True)
class Registry(Generic[Component]):
    """All components of one entry-point group, ours exactly as anyone else's.

    A name is ``pos.v1``; ``pos`` means the newest version, ``-`` and ``_`` are the same, and case does not matter.
    """

    kind: str  # the kind of component in messages: `probe`
    group: str  # the entry-point group: `bertology.probes`
    example: str  # a name as it should be, for messages
    types: Any = object  # the type of components, or a tuple of types
    expected: str = ""  # what they should be, for messages
    own_name: Callable[[Any], str | None] | None = None  # gives the name that a component calls itself by

    def registered(self) -> Mapping[str, Registered[Component]]:
        """All versions of all installed components by name; an error where two packages register one."""
        changed = list[tuple[str, int]]()
        for folder in sys.path:
            with contextlib.suppress(OSError):  # what is no folder has no components
                changed.append((folder, os.stat(folder or ".").st_mtime_ns))  # noqa: PTH116 — faster than a Path
        return _registered(self, entry_points, tuple(changed))

    def newest(self, name: str) -> Registered[Component] | None:
        """The component called ``name``, of several versions the newest; None where there is none."""
        plain = name.strip().lower().replace("-", "_")
        named = (one for full_name, one in self.registered().items() if plain in (full_name, one.stem))
        return max(named, key=attrgetter("version"), default=None)

    def get(self, name: str) -> Component:
        """Import the newest component called ``name``; the error where there is none names the nearest ones."""
        newest = self.newest(name)
        if newest is None:
            raise name_not_found(self.kind, name, self.registered())
        return newest.load()


def imported(entry_point: EntryPoint, kind: str) -> Any:
    """Import the object that an entry point names; ``kind`` is what error messages call the component."""
    try:
        return entry_point.load()
    except Exception as error:
        # Whatever a package does when it is imported must not reach a person as a traceback.
        problem = f"cannot be imported ({type(error).__name__}: {error}); mend or uninstall the package that brings it"
        raise BertologyError(f"{kind} {entry_point.name} ({entry_point.value}) {problem}") from error


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
        by_name[point.name] = Registered(point.name, stem, version, point, registry)
    return by_name
