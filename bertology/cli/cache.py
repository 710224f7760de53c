"""``bertology cache``: look after stored activations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from bertology.errors import BertologyError

if TYPE_CHECKING:
    from bertology.activations import StoreStatus
    from bertology.encoders.resolving import ModelCopy

    Stored = StoreStatus | ModelCopy

app = typer.Typer(help="Look after stored activations, and copies of models that were in memory.")


@app.command("list")
def list_entries() -> None:
    """List what is stored, largest first, copies of models, and what lies there but is not the store's."""
    from bertology.activations import store_status
    from bertology.encoders.resolving import model_copies

    status = sorted(store_status(), key=lambda entry: (entry.is_left_alone, -entry.n_bytes))
    copies = sorted(model_copies(), key=lambda copy: -copy.n_bytes)
    entries: list[Stored] = [*status, *copies]
    for entry in entries:
        typer.echo(_line(entry))
    typer.echo(_sum([*(entry for entry in status if not entry.is_left_alone), *copies]))


@app.command()
def verify() -> None:
    """Check every stored file against its checksum; exit status 1 if one is damaged.

    A damaged file is made again by the next run that needs it.
    """
    from bertology.activations import store_status

    damaged = 0
    for entry in store_status():
        problems = entry.problems()
        damaged += bool(problems)
        typer.echo(f"{entry.name}  {'; '.join(problems) or (entry.describe() if entry.foreign else 'ok')}")
    raise typer.Exit(1 if damaged else 0)


@app.command()
def prune(
    *,
    older_than_days: Annotated[float, typer.Option(min=0, help="Only entries not read for so many days.")] = 0.0,
    unfinished: Annotated[bool, typer.Option(help="Only unfinished extractions.")] = False,
    models: Annotated[bool, typer.Option("--models", help="Copies of models in memory, and only these.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Only say what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete stored activations; they are computed again when needed. Results are not touched.

    Says what will go and asks first. What the store did not write is left alone; so are copies of models that were in
    memory, but for --models: runs on them cannot be repeated without.
    """
    from bertology.activations import prune_store

    gone: Sequence[Stored] = () if not models else _prune_models(older_than_days, dry_run=dry_run, yes=yes)
    gone = (
        gone
        if models
        else prune_store(
            older_than_days=older_than_days,
            only_unfinished=unfinished,
            dry_run=dry_run,
            confirm=(lambda _: None) if yes else _ask,
        )
    )
    if dry_run or yes:
        for entry in gone:
            typer.echo(_line(entry))
    typer.echo(f"{'would free' if dry_run else 'freed'} {_sum(gone)}")


def _prune_models(older_than_days: float, *, dry_run: bool, yes: bool) -> Sequence[Stored]:
    from bertology.encoders.resolving import prune_copies

    wanted = prune_copies(older_than_days=older_than_days, dry_run=True)
    if wanted and not (dry_run or yes):
        _ask(wanted)
    return wanted if dry_run else prune_copies(older_than_days=older_than_days)


def _ask(entries: Sequence[Stored]) -> None:
    listed = "\n".join(map(_line, entries))
    otherwise = f"{_sum(entries)} would be deleted: say so with --yes, or see which with --dry-run"
    confirm(f"{listed}\ndelete {_sum(entries)}?", otherwise=otherwise)


def confirm(question: str, *, otherwise: str) -> None:
    """Ask the person at the terminal whether to go on; disagreement ends the command.

    Raises:
        BertologyError: there is no terminal, so that nobody can be asked; the message is ``otherwise``.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BertologyError(otherwise)
    typer.confirm(question, abort=True, err=True)


def _line(entry: Stored) -> str:
    return f"{entry.name}  {entry.n_bytes / 1e6:>9.1f} MB  {entry.describe()}"


def _sum(entries: Sequence[Stored]) -> str:
    n_bytes = sum(entry.n_bytes for entry in entries)
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}, {n_bytes / 1e6:.1f} MB ({n_bytes:,} bytes)"
