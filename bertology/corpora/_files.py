"""Files of corpora: their lines, the splits that their names state, and a record of irregularities in them."""

import contextlib
import filecmp
import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from bertology._files import opened
from bertology._names import by_key
from bertology.errors import CorpusError, quoted

T = TypeVar("T")


def wrong(where: object, found: object, due: str) -> CorpusError:
    """The error for what stands at a place, such as ``file:line: column 'label'``, where something else is due."""
    return CorpusError(f"{where}: found {'nothing' if found in (None, '') else quoted(found)}; expected {due}")


_SPLIT_OF = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "development", "valid", "validation", "val", "testa"), "dev"),  # testa: of CoNLL-2003
    **dict.fromkeys(("test", "testb"), "test"),
}
_UD_FILE = re.compile(r"(?P<treebank>(?P<language>[a-z]{2,3})_[a-z0-9]+)-ud-(train|dev|test)(-[a-z0-9]+)?\.\w+(\.gz)?")
_PACKED = ".gz"
_ARCHIVE = "PK\x03\x04"
_NO_TEXT = re.compile("[\0\udc80-\udcff]")
"""A NUL, or a byte that is no part of UTF-8, as it is read by the error handler ``surrogateescape``."""


def split_of(path: Path) -> str | None:
    """The split that a file's name states, by one of its words (the parts between characters that are no letters).

    ``en_ewt-ud-dev.conllu``, ``emerging.dev.conll`` and ``eng.testa`` are ``dev``; ``latest.txt`` states none.
    """
    splits = {_SPLIT_OF[part] for part in re.split(r"[^a-z]+", path.name.lower()) if part in _SPLIT_OF}
    return splits.pop() if len(splits) == 1 else None


def split_named(name: str) -> str:
    """The usual name of a split: ``train`` for *training*, ``dev`` for *validation* …, others as they are."""
    return _SPLIT_OF.get(name.lower(), name)


def split_files(path: Path, suffixes: Collection[str], *, what: str) -> dict[str, list[Path]]:
    """The files of each split at ``path``, a folder or one file, in order of name.

    One file is the split that its name states, else ``test``. In a folder a treebank may come in pieces
    (``cs_pdt-ud-train-c.conllu``, ``…-train-l.conllu``), which belong together. Of files of one split with the same
    content, such as ``dev.tsv`` and ``val.tsv``, the first is read.
    """
    if not path.is_dir():
        return {split_of(path) or "test": [path]}
    files = files_in(path, suffixes)
    splits = ((split_of(file) or ("test" if len(files) == 1 else None), file) for file in files)
    by_split = by_key((split, file) for split, file in splits if split)
    if not by_split:
        names = ", ".join(file.name for file in files[:3])
        missing = f"no {what} file there ({', '.join(sorted(suffixes))}); name the folder that has one"
        nameless = f"no {what} file there has train, dev or test in its name ({names} …); rename them, or give one"
        raise CorpusError(f"{path}: {nameless if files else missing}")
    for split, paths in by_split.items():
        others = [file for file in paths[1:] if not filecmp.cmp(paths[0], file, shallow=False)]
        if language_of({split: paths}) is not None:
            continue
        if others:
            names = f"{paths[0].name} and {others[0].name} would both be the {split} split, and differ"
            in_python = f", or in Python a table for each split: load_corpus({{'train': …, '{split}': '{paths[0]}'}})"
            remedy = "give a folder with one of them" + (in_python if what == "table" else "")
            raise CorpusError(f"{path}: {names}; {remedy}")
        by_split[split] = paths[:1]
    return {split: by_split[split] for split in ("train", "dev", "test") if split in by_split}


def files_in(folder: Path, suffixes: Collection[str], *, below: bool = False) -> list[Path]:
    """The files of a folder with one of the suffixes, in order of name, and those of the folders in it."""
    inside = (one for one in folder.iterdir() if below and one.is_dir() and not one.name.startswith("."))
    files = (sorted(place.iterdir()) for place in (folder, *sorted(inside)))
    return [path for some in files for path in some if suffix_of(path) in suffixes and path.is_file()]


def suffix_of(path: Path) -> str:
    """The suffix that states a file's format, in lower case: of ``en-dev.conllu.gz`` it is ``.conllu``."""
    return _unpacked(path).suffix.lower()


def _unpacked(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == _PACKED else path


def corpus_name(path: Path) -> str:
    """The name of the corpus at ``path``: of a file without its suffix, of a folder as it is."""
    return _unpacked(path).stem if path.is_file() else path.resolve().name


def language_of(files: Mapping[str, Iterable[Path]]) -> str | None:
    """The language (``en``) of the files of one treebank (``en_ewt``), as Universal Dependencies names them."""
    matches = {_UD_FILE.fullmatch(file.name) for paths in files.values() for file in paths}
    treebanks = {match and (match["treebank"], match["language"]) for match in matches}
    (treebank,) = treebanks if len(treebanks) == 1 else (None,)
    return treebank[1] if treebank else None


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file with their line feeds, one at a time; a byte order mark is removed.

    A file whose name ends in ``.gz`` is unpacked as it is read.
    """
    with opened(path, error=CorpusError) as file, contextlib.ExitStack() as stack:
        is_packed = path.suffix.lower() == _PACKED
        content = stack.enter_context(gzip.GzipFile(fileobj=file)) if is_packed else file
        lines = io.TextIOWrapper(cast("BinaryIO", content), encoding="utf-8-sig", errors="surrogateescape")
        try:
            for number, line in enumerate(stack.enter_context(lines), 1):
                if ("\0" in line or not line.isascii()) and (match := _NO_TEXT.search(line)):
                    if number == 1 and line.startswith(_ARCHIVE):
                        what = "a ZIP archive, as spreadsheets (.xlsx) are, and no text"
                        raise CorpusError(f"{path}: {what}; save the table as CSV in UTF-8, or unpack the archive")
                    place = len(line[: match.start()].encode("utf-8")) + 1
                    problem = "is not UTF-8" if match[0] > "\0" else "is no character of a text (is it UTF-16?)"
                    byte = f"byte {ord(match[0]) & 0xFF:#04x} (the line's {place}.)"
                    raise CorpusError(f"{path}:{number}: {byte} {problem}; save the file as UTF-8")
                yield line
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise CorpusError(f"{path}: not a complete gzip file ({error}); pack it again") from None


def first_line(path: Path) -> str:
    """The first line of a file that is not blank; empty if there is none."""
    return next((line for line in text_lines(path) if line.strip()), "")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    return ((number, line.rstrip("\r\n")) for number, line in enumerate(text_lines(path), 1) if line.strip())


def line_blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines between blank lines, without line feeds, each block with the number of its first line."""
    block: list[str] = []
    for number, line in enumerate(chain(text_lines(path), [""]), 1):
        if line.strip():
            block.append(line.rstrip("\n"))
        elif block:
            yield number - len(block), block
            block = []


def stated_in(comments: Iterable[str]) -> dict[str, str]:
    """The values that comments ``key = value`` state, by key: ``sent_id``, ``text`` …."""
    parts = (comment.partition("=") for comment in comments)
    return {key.strip(): value.strip() for key, _, value in parts}


_LISTED = 10


class Oddities:
    """Counts of irregularities, each with the place of the first; of skipped items all places."""

    def __init__(self) -> None:
        self._noted: dict[str, tuple[int, str]] = {}
        self._skipped: dict[str, list[str]] = {}

    def note(self, kind: str, where: str, *, times: int = 1) -> None:
        """Count an irregularity of a ``kind``, a phrase for people to read, at ``where`` (``file:line``)."""
        count, first = self._noted.get(kind, (0, where))
        self._noted[kind] = count + times, first

    def skip(self, kind: str, where: str) -> None:
        """Count a skipped item of a ``kind`` and keep its place ``where`` (``file:line`` or an id)."""
        self._skipped.setdefault(kind, []).append(where)

    def notes(self) -> dict[str, str]:
        """Notes of a corpus by kind: the number and the first place, or the first places of skipped items."""
        notes = {kind: f"{count}, first at {first}" for kind, (count, first) in self._noted.items()}
        for kind, places in self._skipped.items():
            more = f" and {len(places) - _LISTED} more" if len(places) > _LISTED else ""
            notes[kind] = f"{len(places)}: {', '.join(places[:_LISTED])}{more}"
        return notes

    def skipped(self) -> dict[str, tuple[str, ...]]:
        """Every place of a skipped item, by kind."""
        return {kind: tuple(places) for kind, places in self._skipped.items()}
