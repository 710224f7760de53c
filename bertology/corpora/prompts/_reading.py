"""Files of sentence pairs, and fields of theirs that must hold some text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertology._inputs import given_path
from bertology.corpora.prompts._json_lines import text_field
from bertology.errors import CorpusError


def files_of(path: str | Path, suffixes: Sequence[str], *, what: str) -> list[Path]:
    """A file, or those of a folder with one of the suffixes in order of name; of its subfolders if it has none itself.

    Raises:
        CorpusError: there is no such file or folder, or nothing in it.
    """
    path, ends = given_path(path, error=CorpusError), " or ".join(suffixes)
    if not path.is_dir():
        if not path.exists():
            raise CorpusError(f"{path}: no such file or folder; check the path")
        if path.suffix.lower() not in suffixes:
            raise CorpusError(f"{path}: its name ends in {path.suffix or 'nothing'}; {what} are in files of {ends}")
        return [path]
    for pattern in ("*", "*/*"):
        files = sorted(file for file in path.glob(pattern) if file.suffix.lower() in suffixes and file.is_file())
        if files:
            return files
    raise CorpusError(f"{path}: no file of {ends} in it; name the file or folder of {what}")


def words_field(found: Mapping[str, Any], field: str, where: str) -> str:
    """The text in a field, white space made single.

    Raises:
        CorpusError: there is no such field, or no text in it.
    """
    text = " ".join(text_field(found, field, where).split())
    if not text:
        raise CorpusError(f"{where}: {field} is empty; write some text there")
    return text
