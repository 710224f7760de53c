"""The folder of a piece of work: its plan, its lock, the record that makes it finished, and the card of its model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from typing import Any, Generic, TypeVar

from filelock import FileLock, Timeout

from bertology._files import explained_write_errors, read_json, sweep, temporary_folder, write_atomically
from bertology.errors import BertologyError

Form = TypeVar("Form")
CARD = "README.md"
_PLAN = "plan.json"
_LOCK = ".lock"


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
        content = json.dumps(asdict(plain), indent=self.indent, ensure_ascii=False, default=_plain) + "\n"
        for name, written in {**files, self.name: content.encode()}.items():
            write_atomically(folder / name, written)


def _plain(value: Any) -> Any:
    """JSON values of a pydantic settings model in a record."""
    return value.model_dump(mode="json")


@contextlib.contextmanager
def one_process(folder: Path, doing: str) -> Iterator[None]:
    """A folder that no other process works in, made where it is missing, without what a killed process left."""
    with explained_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / _LOCK, timeout=0):
            sweep(folder)
            yield
    except Timeout:
        remedy = "wait until it has ended, or choose another --out"
        raise BertologyError(f"{folder}: another process {doing}; {remedy}") from None


def check_plan(folder: Path, identity: Mapping[str, Any], *, unplanned: Callable[[], str | None]) -> None:
    """Note in a folder all that decides its result; BertologyError where it was begun with something else."""
    path = folder / _PLAN
    if not path.exists():
        if (held := unplanned()) is not None:
            raise BertologyError(f"{folder}: holds {held}; choose another --out")
        write_atomically(path, (json.dumps(identity, indent=2) + "\n").encode())
        return
    before = read_json(path, what="the plan of a run", form=dict[str, Any], remedy="delete the folder to start over")
    different = [key for key, value in identity.items() if before.get(key) != value]
    if different == ["settings"]:
        old = settings if isinstance(settings := before.get("settings"), dict) else {}
        different = [key for key, value in identity["settings"].items() if old.get(key) != value]
    if different:
        other = ", ".join(different)
        raise BertologyError(f"{folder}: from a run with other {other}; delete it or choose another --out")


def put_model(folder: Path, save: Callable[[Path], None]) -> None:
    """Write a model folder with ``save`` to a temporary folder, then move its files; old subfolders are replaced."""
    with explained_write_errors(folder), temporary_folder(folder, "model") as made:
        save(made)
        for path in sorted(made.iterdir()):
            if path.is_dir():
                rmtree(folder / path.name, ignore_errors=True)
            path.replace(folder / path.name)


def versions(*packages: str) -> dict[str, str]:
    """Versions of bertology and of other packages, by name."""
    return {name: version(name) for name in ("bertology", *packages)}


def model_card(title: str, body: Sequence[str], *, pipeline: str | None = None) -> bytes:
    """The card of a model as Markdown: a header for hubs, the title, and lines of text."""
    header = ["---", "library_name: transformers", *([f"pipeline_tag: {pipeline}"] if pipeline else []), "---"]
    return ("\n".join([*header, "", f"# {title}", "", *body]) + "\n").encode()
