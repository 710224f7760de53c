"""``bertology tasks``, ``readouts``, ``models`` and ``corpora``: what can be named, one line each."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Annotated

import typer

from bertology._registry import Component, Registered
from bertology.corpora.prompts import MADE
from bertology.errors import BertologyError

_LEAST = 30
"""Columns of a text, however narrow the terminal is."""


def tasks(
    name: Annotated[str | None, typer.Argument(help="Explain this task; without one all are listed.")] = None,
) -> None:
    """List the tasks there are, or explain one: what it asks, what it needs, its scores, controls and readouts."""
    if name is not None:
        from bertology.cli._task_page import task_page

        _show(task_page(name))
        return
    from bertology.probing import Probe, ProbeFamily, registered_probes

    is_short = sys.stdout.isatty()

    def described(probe: Probe | ProbeFamily, version: int) -> tuple[str, str]:
        text = probe.question if is_short else f"{probe.question} ({probe.reference}; v{version})"
        if isinstance(probe, Probe):
            return "", text
        suffix = "[:…]" if probe.default is not None else ":…"
        return suffix, text if is_short else f"{text}; … is {', '.join(probe.instances)}"

    _show(_components(registered_probes(), described), is_cut=True)
    if is_short:
        typer.echo("\n`bertology tasks NAME` explains one")


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
    from bertology.encoders.resolving import known_models

    _show(known_models().items())


def corpora() -> None:
    """List corpora by name; any folder or file of annotated sentences does as well."""
    from bertology.corpora import known_corpora

    _show([*known_corpora().items(), (MADE, "items made by stated rules, for the tasks numeracy and comparisons")])


def _show(lines: Iterable[tuple[str, str]], *, is_cut: bool = False) -> None:
    """A line each; on a terminal, a text too long for it is continued below itself, or cut where it ``is_cut``."""
    lines = [(name, " ".join(text.split())) for name, text in lines]
    width = max((len(name) for name, _ in lines), default=0)
    room = max(_LEAST, shutil.get_terminal_size().columns - width - 2)
    for name, text in lines:
        parts = [text]
        if sys.stdout.isatty() and len(text) > room:
            parts = [textwrap.shorten(text, room, placeholder=" …")] if is_cut else textwrap.wrap(text, room)
        for label, part in zip_longest([name], parts, fillvalue=""):
            typer.echo(f"{label:<{width}}  {part}")
