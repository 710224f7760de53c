"""``bertology tasks``, ``readouts``, ``models`` and ``corpora``: what can be named, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import typer

from bertology._registry import Component, Registered
from bertology.corpora.prompts import MADE
from bertology.errors import BertologyError


def tasks() -> None:
    """List the tasks there are."""
    from bertology.probing import Probe, ProbeFamily, registered_probes

    def described(probe: Probe | ProbeFamily, version: int) -> tuple[str, str]:
        text = f"{probe.question} ({probe.reference}; v{version})"
        if isinstance(probe, Probe):
            return "", text
        suffix = "[:…]" if probe.default is not None else ":…"
        return suffix, f"{text}; … is {', '.join(probe.instances)}"

    _show(_components(registered_probes(), described))


def readouts() -> None:
    """List the readouts there are, each with what it reads."""
    from bertology.readouts import registered_readouts

    _show(_components(registered_readouts(), lambda kind, v: ("", f"{kind.about} (reads {kind.reads}; v{v})")))


def _components(
    known: Mapping[str, Registered[Component]], described: Callable[[Component, int], tuple[str, str]]
) -> list[tuple[str, str]]:
    """What to show of each component: ``described`` gives an end of its name and a text from it and its version.

    The newest version goes by its name alone; a broken component is shown as such and does not hide the others.
    """
    lines = []
    newest = {entry.stem: entry.name for entry in sorted(known.values(), key=lambda entry: entry.version)}
    for name, entry in sorted(known.items()):
        try:
            suffix, text = described(entry.load(), entry.version)
            lines.append(((entry.stem if newest[entry.stem] == name else name) + suffix, text))
        except BertologyError as error:
            lines.append((name, f"cannot be used: {error}"))
    return lines


def models() -> None:
    """List models by name; any folder in Hugging Face layout and any hub id does as well."""
    from bertology.encoders import known_models

    _show(known_models().items())


def corpora() -> None:
    """List corpora by name; any folder or file of annotated sentences does as well."""
    from bertology.corpora import known_corpora

    _show([*known_corpora().items(), (MADE, "items made by stated rules, for the tasks numeracy and comparisons")])


def _show(lines: Iterable[tuple[str, str]]) -> None:
    lines = list(lines)
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        typer.echo(f"{name:<{width}}  {' '.join(text.split())}")
