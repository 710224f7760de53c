"""The folder of a piece of work: its plan, its lock, the record that makes it finished, and the card of its model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from operator import methodcaller
from pathlib import Path
from typing import Any, Generic, TypeVar

from filelock import FileLock, Timeout

from bertology._files import explained_write_errors, read_json, sweep, write_atomically
from bertology.errors import BertologyError

Form = TypeVar("Form")
CARD = "README.md"
_PLAN = "plan.json"
_LOCK = ".lock"

MODELS = "models"
"""The folder of a run in which the models are that were trained for it, before anything else is there."""


@dataclass(frozen=True)
class RecordFile(Generic[Form]):
    """A file of JSON with all that was done in a folder; written last, it makes the folder finished."""

    name: str
    form: type[Form]  # the dataclass of its content
    what: str  # its name in messages, such as `the record of a compressed model`
    remedy: str  # remedy that the error names where the record is missing or damaged
    indent: int = 2  # blanks before each level of the file

    def is_in(self, folder: Path) -> bool:
        """Whether a folder is finished."""
        return (folder / self.name).is_file()

    def read(self, folder: Path) -> Form:
        """The record of a folder; BertologyError where there is none, or it is damaged."""
        record: Form = read_json(folder / self.name, what=self.what, form=self.form, remedy=self.remedy)
        return record

    def write(self, folder: Path, record: Form, files: Mapping[str, bytes]) -> None:
        """Write other files by name, then the record."""
        plain: Any = record
        settings = methodcaller("model_dump", mode="json")
        content = json.dumps(asdict(plain), indent=self.indent, ensure_ascii=False, default=settings) + "\n"
        for name, written in {**files, self.name: content.encode()}.items():
            write_atomically(folder / name, written)


@contextlib.contextmanager
def own_folder(folder: Path, doing: str, identity: Mapping[str, Any], unplanned: str | None = None) -> Iterator[None]:
    """A folder that no other process works in, made where it is missing, without what a killed process left.

    All that decides its result is noted in it; BertologyError where it was begun with something else, or holds
    something ``unplanned``, that was not made here.
    """
    with explained_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / _PLAN
    try:
        with FileLock(folder / _LOCK, timeout=0):
            sweep(folder)
            if path.exists():
                what, remedy = "the plan of a run", "delete the folder to start over"
                before, asked = read_json(path, what=what, form=dict[str, Any], remedy=remedy), identity
                if (different := [key for key, value in asked.items() if before.get(key) != value]) == ["settings"]:
                    old, asked = before.get("settings"), identity["settings"]
                    before = old if isinstance(old, dict) else {}
                    different = [key for key, value in asked.items() if before.get(key) != value]
                if different:
                    other = ", ".join(different)
                    raise BertologyError(f"{folder}: from a run with other {other}; delete it or choose another --out")
            elif unplanned is not None:
                raise BertologyError(f"{folder}: holds {unplanned}; choose another --out")
            else:
                write_atomically(path, (json.dumps(identity, indent=2) + "\n").encode())
            yield
    except Timeout:
        remedy = "wait until it has ended, or choose another --out"
        raise BertologyError(f"{folder}: another process {doing}; {remedy}") from None


def versions(*packages: str) -> dict[str, str]:
    """Versions of bertology and of other packages, by name."""
    return {name: version(name) for name in ("bertology", *packages)}


def model_card(title: str, body: Sequence[str], *, pipeline: str | None = None) -> bytes:
    """The card of a model as Markdown: a header for hubs, the title, and lines of text."""
    header = ["---", "library_name: transformers", *([f"pipeline_tag: {pipeline}"] if pipeline else []), "---"]
    return ("\n".join([*header, "", f"# {title}", "", *body]) + "\n").encode()
