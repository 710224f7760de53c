"""Reading files of prompts: fields that must be there, masks, templates, and items that are skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertology._inputs import described, given_path
from bertology.corpora._files import suffix_of
from bertology.corpora.formats.tables import read_table
from bertology.errors import CorpusError, quoted

MADE = "made"
"""The name, in place of a path, of items that are made by rule."""
MASK = "{mask}"
"""How a mask is written in the texts that readers return."""
_SPELLINGS = re.compile(r"\{mask\}|\[MASK\]|<mask>")


def records(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The rows of a table with names of columns: line or number from 1, place, and the values that are there."""
    table = read_table(path)
    for row in range(len(table)):
        values = {name: column[row] for name, column in table.columns.items() if column[row] is not None}
        yield table.number(row), table.place(row), values


def numbered_rows(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """The rows of a table without names of columns: line, place and values."""
    table = read_table(path, has_header=False)
    for row, values in enumerate(zip(*table.columns.values(), strict=True)):
        yield table.number(row), table.place(row), [value.strip() for value in values]


def text_field(plain: Mapping[str, Any], field: str, where: str) -> str:
    """The string in a field, without white space around it; it may be empty."""
    value = plain.get(field)
    if not isinstance(value, str):
        raise CorpusError(f"{where}: {field} is {described(value)}; write a string")
    return value.strip()


def sentences_field(plain: Mapping[str, Any], field: str, where: str) -> str:
    """The sentences in a field, a list of strings or one string, joined by spaces, masks written ``{mask}``.

    White space is made single: in published sets some sentences have two spaces where a word was put in, which
    byte-level tokenizers would read as another text.
    """
    value = plain.get(field)
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise CorpusError(f"{where}: {field} is {described(value)}; write a list of sentences with a mask, [MASK]")
    return " ".join(_SPELLINGS.sub(MASK, " ".join(parts)).split())


def with_masks(text: str, mask: str) -> str:
    """A text whose masks, however they are spelled, are those of a model."""
    return _SPELLINGS.sub(lambda _: mask, text)


def mask_trouble(text: str) -> str:
    """Why the word at the mask of a text cannot be predicted; empty if it can."""
    count = len(_SPELLINGS.findall(text))
    return {0: "no mask in the sentence", 1: ""}.get(count, "more than one mask in the sentence")


def files_of(path: str | Path, suffixes: Sequence[str], *, what: str) -> list[Path]:
    """A file, or those of a folder with one of the suffixes in order of name; of its subfolders if it has none itself.

    Raises:
        CorpusError: there is no such file or folder, or nothing in it.
    """
    path, ends = given_path(path, error=CorpusError), " or ".join(suffixes)
    if not path.is_dir():
        if not path.exists():
            raise CorpusError(f"{path}: no such file or folder; check the path")
        if suffix_of(path) not in suffixes:
            raise CorpusError(f"{path}: its name ends in {path.suffix or 'nothing'}; {what} are in files of {ends}")
        return [path]
    for pattern in ("*", "*/*"):
        files = sorted(file for file in path.glob(pattern) if suffix_of(file) in suffixes and file.is_file())
        if files:
            return files
    raise CorpusError(f"{path}: no file of {ends} in it; name the file or folder of {what}")


def words_field(plain: Mapping[str, Any], field: str, where: str) -> str:
    """The text in a field, which must not be empty, white space made single."""
    text = " ".join(text_field(plain, field, where).split())
    if not text:
        raise CorpusError(f"{where}: {field} is empty; write some text there")
    return text


SUBJECT, OBJECT = "[X]", "[Y]"


def checked_template(template: str, where: str) -> str:
    """The template, which must have ``[X]`` and ``[Y]`` once each."""
    for place, what in ((SUBJECT, "subject"), (OBJECT, "object")):
        if template.count(place) != 1:
            count = "no" if place not in template else f"{template.count(place)} times"
            reason = f"{count} {place} in {quoted(template)}; write {place} once, where the {what} stands"
            raise CorpusError(f"{where}: {reason}")
    return template


def prompt_of(template: str, subject: str) -> str:
    """The template with its subject, and a mask for its object."""
    # Cut before anything is put in: a subject may itself hold [Y].
    before, after = template.split(SUBJECT)
    return subject.join(part.replace(OBJECT, MASK) for part in (before, after))


def blind_prompt_of(template: str) -> str:
    """The template with a mask for its subject, too; empty where the object comes first.

    The answer to a blind text is read at its last mask, which would then be that of the subject.
    """
    return prompt_of(template, MASK) if template.index(SUBJECT) < template.index(OBJECT) else ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An item of a source that cannot be asked, whatever the model, and why."""

    id: str
    group: str
    reason: str
