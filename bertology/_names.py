"""Names and numbers as text: short names of models, errors for unknown names, aligned rows of cells."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import attrgetter
from pathlib import PurePath

from bertology.errors import NameNotFoundError, cut, listed, quoted

_MOST_COMPARED = 80
"""Characters of a name that are compared with those there are: no name is longer."""
_MOST_PARTS = 2
"""Parts of a hub name: an organisation and its model."""


def name_not_found(kind: str, name: str, known: Iterable[str], *, remedy: str = "") -> NameNotFoundError:
    """An error for an unknown ``name`` of some ``kind`` ("task", "layer" …) with the nearest ``known`` names.

    The ``remedy`` is a closing hint, such as the command that lists all names.
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


def folder_name(name: str) -> str:
    """The displayed name of a model or corpus: of a folder its last part, other names as they are."""
    return _last_parts(name, 1)


def layer_number(layer: int, n_layers: int) -> int:
    """The number of a layer of a model with so many blocks; negative ones are counted from the last, -1."""
    return int(layer) + (n_layers + 1 if layer < 0 else 0)


def place_of_layer(layer: int, layers: Sequence[int], n_layers: int) -> int:
    """The place of a layer, counted as by :func:`layer_number`, among those that were read."""
    if (number := layer_number(layer, n_layers)) not in layers:
        raise name_not_found("layer among those that were read", str(layer), list(map(str, layers)))
    return list(layers).index(number)


def layer_label(layer: int) -> str:
    """A layer's number; layer 0 is marked as the embeddings."""
    return "0 · embeddings" if layer == 0 else str(layer)


def short_names(names: Iterable[str | None]) -> dict[str, str]:
    """The displayed name of each model: of a folder its last part, other names as they are.

    Folders of one name are distinguished by their parent folders. All folders are displayed with the same number of
    parts, as many as that needs: ``cola/seed-1``, ``cola/seed-2`` and ``sst2/seed-1``.
    """
    known, short = list(dict.fromkeys(filter(None, names))), dict[str, str]()
    for n_parts in range(1, max(map(len, map(attrgetter("parts"), map(PurePath, known))), default=1) + 1):
        longer = dict(zip(known, map(_last_parts, known, repeat(n_parts)), strict=True))
        # The fewest parts that tell most apart.
        short = longer if len(set(longer.values())) > len(set(short.values())) else short
    times = Counter(short.values())
    for name, text in short.items():
        # What no folder tells apart, such as ./bert and bert, stands as it was written.
        short[name] = text if times[text] == 1 else name
    return short


def _last_parts(name: str, n_parts: int) -> str:
    """The end of a path; all of the name of a model of a hub, as organisation and model are one name."""
    path = PurePath(name)
    is_folder = name.startswith((".", "/", "~")) or name.endswith("/") or len(path.parts) > _MOST_PARTS
    kept = path.parts[-max(n_parts, 1 if is_folder else len(path.parts), 1) :]
    return "/".join(kept) if len(kept) < len(path.parts) else str(path)


def checkpoint_name(name: str, *, pretraining_seed: int | None, step: int | None) -> str:
    """The displayed name of one checkpoint of a training: ``small seed 2 step 4000``."""
    seed = "" if pretraining_seed is None else f" seed {pretraining_seed}"
    return name + seed + ("" if step is None else f" step {step}")


def training_name(name: str, *, pretraining_seed: int | None, step: int | None) -> str:
    """The part of a name that the checkpoints of a training, and its seeds, share."""
    return name.removesuffix(checkpoint_name("", pretraining_seed=pretraining_seed, step=step))


def decimals(value: float, n: int = 2) -> str:
    """A number with the given number of decimals; zero has no sign."""
    return f"{round(value, n) + 0.0:.{n}f}"


def signed(value: float) -> str:
    """A number of a page, with two decimals and a true minus sign."""
    return decimals(value).replace("-", "−")


def aligned(rows: Sequence[Sequence[str]], *, right: int | None = None) -> list[str]:
    """Rows of cells as lines, the columns as wide as their widest cell; those from number ``right`` on end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<" if right is None or column < right else ">" for column in range(len(widths))]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]
