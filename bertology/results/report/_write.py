"""From folders to a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bertology._files import explained_system_errors
from bertology._sealed import write_derived
from bertology.errors import StoreError
from bertology.results.report._page import render_report
from bertology.results.report._runs import read_runs
from bertology.results.report._text import find_sentences


@explained_system_errors()
def write_report(
    runs: Sequence[str | Path],
    path: str | Path,
    *,
    corpora: Sequence[str] = (),
    columns: str | None = None,
    with_text: bool = True,
) -> Path:
    """Write what ``runs`` found as one HTML file that needs nothing beside itself.

    Args:
        runs: folders that runs left.
        path: the file to write.
        corpora: names or paths of corpora to take sentences from; those the runs name are tried as well, as far as
            they are on this machine.
        columns: what the columns of ``corpora`` hold, where they are column files: ``form,xpos,chunk``.
        with_text: whether sentences may stand in the file; otherwise only their ids do.

    Returns:
        The file.

    Raises:
        ResultsError: a folder is not a run, or a file in it is broken or was written by a newer version.
        StoreError: the file cannot be written.
        BertologyError: a corpus of ``corpora`` cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"cannot write {path}: it is a folder; name a file in --out")
    found = read_runs(runs)
    page = render_report(found, find_sentences(found, corpora=corpora, columns=columns, with_text=with_text))
    write_derived(path.parent, {path.name: page.encode()}, remedy="name another file with --out")
    return path
