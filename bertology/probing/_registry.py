"""Probes by name: installed through the entry-point group ``bertology.probes``, ours exactly as anyone else's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bertology._names import name_not_found
from bertology._registry import Registered, Registry
from bertology.errors import BertologyError, quoted
from bertology.probing._contract import Probe, ProbeFamily

RegisteredProbe = Registered[Probe | ProbeFamily]


def _checked(entry: RegisteredProbe, component: Any) -> Probe | ProbeFamily:
    if not isinstance(component, Probe | ProbeFamily):
        raise entry.wrong_type(
            component, "a RepresentationProbe, a ClozeProbe, an AttentionProbe, a GateProbe or a ProbeFamily"
        )
    if isinstance(component, Probe):
        _check_name(entry, component)
    return component


def _check_name(entry: RegisteredProbe, probe: Probe) -> None:
    entry.check_name(f"{probe.task.partition(':')[0]}.v{probe.version}", remedy="task or version")


_REGISTRY = Registry[Probe | ProbeFamily]("probe", "bertology.probes", "pos.v1", _checked)


def registered_probes() -> Mapping[str, RegisteredProbe]:
    """All versions of all installed probes by registered name (``pos.v1``), not yet imported.

    Raises:
        BertologyError: two packages register one name.
    """
    return _REGISTRY.registered()


def get_probe(name: str) -> Probe:
    """The probe called ``name``: ``pos`` (the newest), ``pos.v1`` (that version), ``feats:Number`` (with argument).

    ``-`` and ``_`` are the same.

    Raises:
        NameNotFoundError: no such probe; the message names the nearest ones.
        BertologyError: it needs an argument, or takes none.
    """
    before, _, after = name.partition(":")
    plain, argument = before.strip().lower().replace("-", "_"), after.strip()
    newest = _REGISTRY.newest(plain)
    if newest is None:
        tasks = {entry.stem for entry in registered_probes().values()}
        raise name_not_found("task", before.strip(), tasks, remedy="`bertology tasks` lists them")
    probe = newest.load()
    if isinstance(probe, ProbeFamily):
        return _of_family(newest, probe, plain, argument)
    if argument:
        raise BertologyError(f"task {quoted(plain)} takes no argument: write {plain} instead of {name}")
    return probe


def _of_family(entry: RegisteredProbe, family: ProbeFamily, name: str, argument: str) -> Probe:
    """The probe of a family that an argument, or none, stands for."""
    if argument:
        probe = family.make(argument)
    elif family.default is not None:
        probe = family.default
    else:
        examples = " or ".join(f"{name}:{instance}" for instance in family.instances[:2])
        raise BertologyError(f"task {quoted(name)} needs a {family.argument} after a colon, such as {examples}")
    _check_name(entry, probe)
    return probe
