"""Answers to a name that is not known: the nearest ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from bertology.errors import NameNotFoundError, cut, listed, quoted

_MOST_COMPARED = 80
"""Characters of a name that are compared with those there are: no name is longer."""


def name_not_found(kind: str, name: str, known: Iterable[str], *, remedy: str = "") -> NameNotFoundError:
    """An error for an unknown ``name`` of some ``kind`` ("task", "layer" …) with the nearest known names.

    Args:
        kind: what was looked for, as a person calls it.
        name: what they wrote.
        known: the names there are.
        remedy: a closing hint, such as the command that lists all names.
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
