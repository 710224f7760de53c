"""``bertology cache``: look after stored activations."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Look after stored activations.")


@app.command("list")
def list_entries() -> None:
    """List what is stored, largest first."""
    from bertology.activations import store_status

    status = sorted(store_status(), key=lambda entry: -entry.n_bytes)
    for entry in status:
        typer.echo(f"{entry.name}  {entry.n_bytes / 1e6:>9.1f} MB  {entry.describe()}")
    typer.echo(f"{len(status)} entries, {sum(entry.n_bytes for entry in status) / 1e6:.1f} MB")


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
        typer.echo(f"{entry.name}  {'; '.join(problems) or 'ok'}")
    raise typer.Exit(1 if damaged else 0)


@app.command()
def prune(
    *,
    older_than_days: Annotated[float, typer.Option(help="Only entries not read for so many days.")] = 0.0,
    unfinished: Annotated[bool, typer.Option(help="Only unfinished extractions.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Only say what would go.")] = False,
) -> None:
    """Delete stored activations; they are computed again when needed. Results are not touched."""
    from bertology.activations import prune_store

    gone = prune_store(older_than_days=older_than_days, only_unfinished=unfinished, dry_run=dry_run)
    for entry in gone:
        typer.echo(f"{entry.name}  {entry.n_bytes / 1e6:>9.1f} MB  {entry.describe()}")
    freed = sum(entry.n_bytes for entry in gone) / 1e6
    typer.echo(f"{'would free' if dry_run else 'freed'} {freed:.1f} MB in {len(gone)} entries")
