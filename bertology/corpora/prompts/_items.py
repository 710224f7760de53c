"""Reading files of prompts: JSON objects, fields that must be there, masks, templates, and items that are skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertology._inputs import NotJson, described, given_path, parsed_json
from bertology.corpora._files import text_lines
from bertology.errors import CorpusError, quoted

MASK = "{mask}"
"""How a mask is written in the texts that readers return."""
_SPELLINGS = re.compile(r"\{mask\}|\[MASK\]|<mask>")


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with the numbers of their lines; blank lines are none.

    Raises:
        CorpusError: the file cannot be read, a line is no JSON object, or there is none.
    """
    empty = True
    for number, line in enumerate(text_lines(path), 1):
        if not line.strip():
            continue
        empty = False
        try:
            found = parsed_json(line)
        except NotJson as error:
            raise CorpusError(f"{path}:{number}: not JSON ({error}); one object a line is due") from None
        if not isinstance(found, dict):
            raise CorpusError(f"{path}:{number}: {described(found)} where an object was due")
        yield number, found
    if empty:
        raise CorpusError(f"{path}: nothing in it; give one JSON object a line")


def text_field(found: Mapping[str, Any], field: str, where: str) -> str:
    """The string in a field, without white space around it; it may be empty.

    Raises:
        CorpusError: there is no such field, or no string in it.
    """
    value = found.get(field)
    if not isinstance(value, str):
        raise CorpusError(f"{where}: {field} is {described(value)}; write a string")
    return value.strip()


def sentences_field(found: Mapping[str, Any], field: str, where: str) -> str:
    """The sentences in a field, a list of strings or one string, joined by spaces, masks written ``{mask}``.

    White space is made single: in published sets some sentences have two spaces where a word was put in, which
    byte-level tokenizers would read as another text.

    Raises:
        CorpusError: there is no such field, or something else is in it.
    """
    value = found.get(field)
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise CorpusError(f"{where}: {field} is {described(value)}; write a list of sentences with a mask, [MASK]")
    return " ".join(_SPELLINGS.sub(MASK, " ".join(parts)).split())


def mask_trouble(text: str) -> str:
    """Why the word at the mask of a text cannot be predicted; empty if it can."""
    count = len(_SPELLINGS.findall(text))
    if count == 1:
        return ""
    return "no mask in the sentence" if count == 0 else "more than one mask in the sentence"


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


SUBJECT, OBJECT = "[X]", "[Y]"


def checked_template(template: str, where: str) -> str:
    """The template, checked.

    Raises:
        CorpusError: it lacks ``[X]`` or ``[Y]``, or has one of them more than once.
    """
    for place, what in ((SUBJECT, "subject"), (OBJECT, "object")):
        if template.count(place) != 1:
            count = "no" if place not in template else f"{template.count(place)} times"
            raise CorpusError(
                f"{where}: {count} {place} in {quoted(template)}; write {place} once, where the {what} stands"
            )
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
class Unasked:
    """An item of a source that cannot be scored, and the reason."""

    id: str
    group: str
    reason: str
