"""Probes that are not installed: made known to this process by name, or given as objects."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bertology._files import digest
from bertology.errors import BertologyError, quoted
from bertology.measures import Metric
from bertology.probing._contract import Probe
from bertology.probing._registry import OF_PROCESS, get_probe, registered_probes

T = TypeVar("T", bound=Probe | type[Probe])
_TASK = re.compile(r"[a-z][a-z0-9_]*(:\S+)?")
_KINDS = "a RepresentationProbe, a ClozeProbe, an AttentionProbe or a GateProbe"


def register_probe(probe: T) -> T:
    """Make a probe known to this process by the name of its task.

    Then :func:`bertology.probe` and experiments made in Python find it like one that is installed. A probe of the same
    name that was registered before is replaced, so that a cell of a notebook can be run again.

    >>> @register_probe
    ... class Capital(RepresentationProbe): ...  # doctest: +SKIP

    Args:
        probe: a class whose fields all have defaults, as a decorator; or an object.

    Returns:
        What was given.

    Raises:
        BertologyError: it is no complete probe, or an installed probe has the name of its task.
    """
    known_probe(probe)
    return probe


def known_probe(given: Any) -> Probe:
    """A probe object, or one made of a class without required fields, as :func:`register_probe` makes it known.

    Raises:
        BertologyError: it is no complete probe, or an installed probe has the name of its task.
    """
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    if isinstance(given, type) and issubclass(given, Probe):
        if lacking := sorted(getattr(given, "__abstractmethods__", ())):
            raise BertologyError(f"probe {name} does not define {', '.join(lacking)}: every probe of its kind does")
        try:
            given = given()
        except TypeError as error:
            raise BertologyError(f"probe {name} cannot be made without arguments ({error}): give an object") from error
    if not isinstance(given, Probe):
        raise BertologyError(f"{name} is no probe: give the name of a task, or derive the class from {_KINDS}")
    if problem := _problem(given):
        raise BertologyError(f"probe {name}: {problem}")
    if is_installed(given):
        return given
    if any(entry.stem == _stem(given) for entry in registered_probes().values()):
        remedy = "give the task another name"
        raise BertologyError(f"probe {name}: a probe called {_stem(given)} is installed already; {remedy}")
    OF_PROCESS[given.task] = given
    return given


def _problem(probe: Probe) -> str | None:
    """What is wrong with what a probe states about itself."""
    if not isinstance(probe.task, str) or not _TASK.fullmatch(probe.task):
        remedy = "small letters, digits and _, and what follows a colon"
        return f"task is {quoted(probe.task)}; it should be of {remedy}"
    if type(probe.version) is not int or probe.version < 0:
        return f"version is {quoted(probe.version)}; it should be a whole number"
    for field in ("question", "reference", "readout"):
        if not isinstance(getattr(probe, field, ""), str):
            return f"{field} is {quoted(getattr(probe, field))}; it should be a text"
    metrics = probe.metrics
    if not isinstance(metrics, tuple) or not metrics or not all(isinstance(one, str | Metric) for one in metrics):
        return f'metrics is {quoted(metrics)}; it should be a tuple such as ("accuracy",)'
    return None


def _stem(probe: Probe) -> str:
    return probe.task.partition(":")[0]


def is_installed(probe: Probe) -> bool:
    """Whether a probe is one that is installed, whose version is raised by every change that moves scores."""
    if f"{_stem(probe)}.v{probe.version}" not in registered_probes():
        return False
    try:
        installed = get_probe(f"{_stem(probe)}.v{probe.version}:{probe.task.partition(':')[2]}")
    except BertologyError:  # the installed ones take no such argument
        return False
    return type(installed) is type(probe) and settings_of(installed) == settings_of(probe)


def settings_of(probe: Probe) -> str:
    """The values of a probe's fields as text."""
    names = [field.name for field in dataclasses.fields(probe)] if dataclasses.is_dataclass(probe) else vars(probe)
    with np.printoptions(threshold=sys.maxsize):
        return repr([(name, getattr(probe, name)) for name in sorted(names)])


def source_fingerprint(probe: Probe) -> str:
    """Hash of the file, or of the cell of a notebook, that defines a probe's class, and of the values of its fields.

    What that file imports is not part of it.

    Raises:
        BertologyError: the source cannot be read, as of a class typed into a console.
    """
    kind = type(probe)
    try:
        path = Path(inspect.getfile(kind))
        source = path.read_text(encoding="utf-8") if path.is_file() else inspect.getsource(kind)
    except (OSError, TypeError) as error:
        remedy = "define it in a file or a notebook"
        raise BertologyError(f"task {probe.task}: the source of {kind.__name__} cannot be read; {remedy}") from error
    return digest([source.encode(), settings_of(probe).encode()])
