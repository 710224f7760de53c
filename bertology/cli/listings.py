"""``bertology tasks``, ``models`` and ``corpora``: what can be named, one line each."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from bertology.corpora.prompts import MADE
from bertology.errors import BertologyError


def tasks() -> None:
    """List the tasks there are."""
    from bertology.probing import ProbeFamily, registered_probes

    lines = []
    known = registered_probes()
    for name, registered in sorted(known.items()):
        try:
            probe = registered.load()
        except BertologyError as error:
            # A broken plugin is shown, and does not hide the others.
            lines.append((name, f"cannot be used: {error}"))
            continue
        newest = registered.version == max(r.version for r in known.values() if r.task == registered.task)
        shown = registered.task if newest else name
        which = ""
        if isinstance(probe, ProbeFamily):
            shown += "[:…]" if probe.default is not None else ":…"
            which = f"; … is {', '.join(probe.instances)}"
        lines.append((shown, f"{probe.question} ({probe.reference}; v{registered.version}){which}"))
    _show(lines)


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
