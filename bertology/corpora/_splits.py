"""Which split a file holds, told by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from bertology.errors import CorpusError

_SPLIT_OF = {
    "train": "train",
    "training": "train",
    "dev": "dev",
    "development": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "testa": "dev",  # CoNLL-2003 calls its development set so
    "test": "test",
    "testb": "test",
}
_UD_FILE = re.compile(r"(?P<treebank>(?P<language>[a-z]{2,3})_[a-z0-9]+)-ud-(train|dev|test)(-[a-z0-9]+)?\.\w+")


def split_of(path: Path) -> str | None:
    """The split that a file's name speaks of: the one part of it, between characters that are no letters, that does.

    ``en_ewt-ud-dev.conllu``, ``emerging.dev.conll`` and ``eng.testa`` are ``dev``; ``latest.txt`` is none.
    """
    found = {_SPLIT_OF[part] for part in re.split(r"[^a-z]+", path.name.lower()) if part in _SPLIT_OF}
    return found.pop() if len(found) == 1 else None


def treebank_of(path: Path) -> tuple[str, str] | None:
    """The treebank (``en_ewt``) and language (``en``) of a file named as Universal Dependencies names them."""
    match = _UD_FILE.fullmatch(path.name)
    return (match["treebank"], match["language"]) if match else None


def files_by_split(folder: Path, suffixes: Iterable[str], *, what: str) -> dict[str, list[Path]]:
    """The files of each split in ``folder``; a single file whose name says nothing is ``test``.

    A treebank may come in pieces (``cs_pdt-ud-train-c.conllu``, ``…-train-l.conllu``), which belong together.

    Args:
        folder: where to look.
        suffixes: ends of the names of files that may be meant.
        what: what such a file is, for the message.

    Returns:
        ``train``, ``dev``, ``test`` as far as there are, each with its files in order of name; empty when there is
        no file of these suffixes.

    Raises:
        CorpusError: no name speaks of a split, or two files would be the same split.
    """
    wanted = set(suffixes)
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in wanted and path.is_file())
    found: dict[str, list[Path]] = {}
    for path in files:
        if split := split_of(path):
            found.setdefault(split, []).append(path)
    if len(files) == 1 and not found:
        return {"test": files}
    if files and not found:
        names = ", ".join(path.name for path in files[:3])
        raise CorpusError(
            f"{folder}: no {what} file there has train, dev or test in its name ({names} …); rename them, or give one"
        )
    for split, paths in found.items():
        treebanks = {treebank_of(path) for path in paths}
        if len(paths) > 1 and (len(treebanks) > 1 or None in treebanks):
            names = " and ".join(path.name for path in paths[:2])
            raise CorpusError(f"{folder}: {names} would both be the {split} split; keep one of them there")
    return {split: found[split] for split in ("train", "dev", "test") if split in found}


def name_of(path: Path, files: dict[str, list[Path]]) -> tuple[str, str | None]:
    """What to call the corpus at ``path``, and its language where the names of its files tell."""
    named = {treebank_of(file) for paths in files.values() for file in paths}
    if len(named) == 1 and (treebank := named.pop()):
        return treebank
    return (path.stem if path.is_file() else path.resolve().name), None
