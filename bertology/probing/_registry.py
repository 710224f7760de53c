"""Probes by name: installed through the entry-point group ``bertology.probes``, ours exactly as anyone else's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bertology._names import name_not_found
from bertology._registry import Registered, Registry
from bertology.corpora import Sentences
from bertology.errors import BertologyError, NameNotFoundError, quoted
from bertology.probing._contract import Probe, ProbeFamily, RepresentationProbe
from bertology.probing._examples import Examples

RegisteredProbe = Registered[Probe | ProbeFamily]


def _checked(entry: RegisteredProbe, component: Any) -> Probe | ProbeFamily:
    if not isinstance(component, Probe | ProbeFamily):
        kinds = "a RepresentationProbe, a ClozeProbe, an AttentionProbe, a GateProbe or a ProbeFamily"
        raise entry.wrong_type(component, kinds)
    if isinstance(component, Probe):
        _check_name(entry, component)
    return component


def _check_name(entry: RegisteredProbe, probe: Probe) -> None:
    entry.check_name(f"{probe.task.partition(':')[0]}.v{probe.version}", remedy="task or version")


_REGISTRY = Registry[Probe | ProbeFamily]("probe", "bertology.probes", "pos.v1", _checked)
OF_PROCESS: dict[str, Probe] = {}
"""Probes made known to this process alone, by task."""


def registered_probes() -> Mapping[str, RegisteredProbe]:
    """All versions of all installed probes by registered name (``pos.v1``), not yet imported."""
    return _REGISTRY.registered()


def get_probe(name: str) -> Probe:
    """The probe called ``name``: ``pos`` (the newest), ``pos.v1`` (that version), ``feats:Number`` (with argument).

    Those that are installed, and those of :func:`register_probe`. ``-`` and ``_`` are the same.

    Raises:
        NameNotFoundError: no such probe; the message names the nearest ones.
        BertologyError: it needs an argument, or takes none.
    """
    before, _, after = name.partition(":")
    plain, argument = before.strip().lower().replace("-", "_"), after.strip()
    newest = _REGISTRY.newest(plain)
    if newest is None:
        for known in OF_PROCESS.values():
            stem, _, own = known.task.partition(":")
            if plain in (stem, f"{stem}.v{known.version}") and argument == own:
                return known
        tasks = {entry.stem for entry in registered_probes().values()} | {*OF_PROCESS}
        raise name_not_found("task", before.strip(), tasks, remedy="`bertology tasks` lists them")
    component = newest.load()
    if isinstance(component, Probe):
        if argument:
            raise BertologyError(f"task {quoted(plain)} takes no argument: write {plain} instead of {name}")
        return component
    probe = component.make(argument) if argument else component.default
    if probe is None:
        examples = " or ".join(f"{plain}:{instance}" for instance in component.instances[:2])
        raise BertologyError(f"task {quoted(plain)} needs a {component.argument} after a colon, such as {examples}")
    _check_name(newest, probe)
    return probe


def labels_of_words(task: str, sentences: Sentences, *, asked_by: str, remedy: str) -> Examples:
    """The labels that another task gives to single words.

    Args:
        task: name of the other task.
        sentences: the split.
        asked_by: the task that asks for them, as errors call it.
        remedy: how the error ends for a task about spans, or with several labels a word.

    Raises:
        NameNotFoundError: it is no task about labels of single words.
        CorpusError: the split has no such labels.
    """
    probe = get_probe(task)
    if not isinstance(probe, RepresentationProbe):
        raise NameNotFoundError(f"{asked_by}:{task}: {quoted(task)} has no labels of words, as pos has")
    examples = probe.examples(sentences)
    if not examples.are_words or examples.is_multi_label:
        problem = f"items of {quoted(task)} are not single words of one label{remedy}"
        raise NameNotFoundError(f"{asked_by}:{task}: {problem}")
    return examples
