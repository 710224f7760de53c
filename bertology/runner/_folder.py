"""The record of a run next to its cells: settings, fingerprints, versions, sessions, and failures."""

import contextlib
import hashlib
import json
import subprocess
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from bertology import __version__, _files
from bertology._folder import MODELS
from bertology._machine import is_out_of_memory, shortage
from bertology._settings import to_yaml
from bertology.corpora import data_read
from bertology.errors import BertologyError
from bertology.families.request import Experiment
from bertology.results.cells import PREDICTIONS, RECORDS, Cell
from bertology.results.predictions import FITS, KEPT, versions
from bertology.results.rows import ASKED
from bertology.runner.experiment import load_experiment
from bertology.runner.plan import Unit, Work

RECORD = "run.json"
_OWN_CHECKSUM = "sha256"
_REMEDY = "name another folder with --out"


@dataclass(frozen=True, kw_only=True)
class _Record:
    """The form of ``run.json``; further keys are not used."""

    format: int
    bertology: str
    experiment: str
    content: dict[str, dict[str, str]]  # fingerprints of models and corpora, and of the code that came with models
    sessions: list[dict[str, Any]]
    tables: str | None
    sha256: str
    asked: str | None = None
    parts: dict[str, str] | None = None
    data: dict[str, dict[str, str]] | None = None  # SHA-256 by file of data by name


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    def open(self, work: Work) -> None:
        """Make the folder, or go on in one of this version with nothing else in it; leave what was asked there."""
        if self.path.exists() and not self.path.is_dir():
            raise BertologyError(f"{self.path} is a file: {_REMEDY}")
        _files.sweep(self.path)  # A process that was killed before it had made a record leaves a temporary file.
        if self.path.is_dir() and any(path.name != MODELS for path in self.path.iterdir()):
            record = self.record()
            if record["bertology"] != __version__:
                made = f"made by bertology {record['bertology']}, this is {__version__}"
                raise BertologyError(f"{self.path}: {made}; {_REMEDY}, or install that version to go on")
        else:
            with _files.explained_write_errors(self.path, remedy=_REMEDY):
                self.path.mkdir(parents=True, exist_ok=True)
            self._write_record(
                {
                    "format": _files.FORMAT,
                    "bertology": __version__,
                    "experiment": work.experiment.name,
                    "versions": versions("torch", "transformers", "numpy", "scikit-learn"),
                    "git": git_state(),
                    "content": work.content,
                    "sessions": [],
                    "tables": None,
                }
            )
        _files.sweep(_files.cache_folder(), self.path, *self.path.glob("*"), *self.path.glob("folds/*/*"))
        with self.lock("record"):
            record = self.record()
            asked = to_yaml(work.experiment.plain()).encode()
            content: dict[str, dict[str, str]] = work.content
            path = self.path / ASKED
            if work.part.of > 1 and path.exists() and path.read_bytes() == asked:
                # Other parts of the same experiment may have been here.
                content = {kind: {**record["content"].get(kind, {}), **names} for kind, names in content.items()}
            _files.write_atomically(path, asked, remedy=_REMEDY)
            if record["content"] != content:
                self._write_record({**record, "content": content})

    def record(self) -> dict[str, Any]:
        """The content of ``run.json``, if the folder is a run's, and of a format that this version reads."""
        path = self.path / RECORD
        if not path.exists():
            hint = f"it has no {RECORD}" if self.path.is_dir() else "there is no such folder"
            raise BertologyError(f"{self.path} is not the folder of a run ({hint}): check the path")
        what = "the record of a run"
        record: dict[str, Any] = _files.read_json(path, what=what, form=dict[str, Any], remedy=_REMEDY)
        if record.get("format") != _files.FORMAT:
            made = _files.shortened(record.get("bertology", "something else"))
            raise BertologyError(f"{path}: written by bertology {made} in another format: run it again, {_REMEDY}")
        _files.read_json(path, what=what, form=_Record, remedy=_REMEDY)
        if record[_OWN_CHECKSUM] != _checksum_of(record):
            raise BertologyError(f"{path}: altered, its content does not match its own checksum; {_REMEDY}")
        return record

    def experiment(self, *, trust_remote_code: bool = True) -> Experiment:
        """The experiment of the run; to compute it again, code of models has to be trusted anew."""
        self.record()
        return load_experiment(self.path / ASKED, trust_remote_code=trust_remote_code)

    def add_session(self, session: Mapping[str, Any], **about: Any) -> None:
        """Note that work was done here, and what the tables are made of."""
        with self.lock("record"):
            record = self.record()
            data = record.get("data", {}) | data_read((self.path / ASKED).read_text(encoding="utf-8"))
            sessions = [*record["sessions"], dict(session)]
            self._write_record({**record, "sessions": sessions, **({"data": data} if data else {}), **about})

    def adopt(self, record: Mapping[str, Any], *, asked_in: Path) -> None:
        """Make this the folder of a run whose record is known, and which was asked for in folder ``asked_in``."""
        _files.write_atomically(self.path / ASKED, (asked_in / ASKED).read_bytes(), remedy=_REMEDY)
        self._write_record(record)

    def lock(self, name: str, *, wait: bool = True) -> FileLock:
        """A lock in the folder, see :func:`bertology._files.lock_in`."""
        return _files.lock_in(self.path, name, remedy=_REMEDY, wait=wait)

    def seal(self) -> None:
        """Keep a checksum of every file of the results, those of other parts of the run among them."""
        with _files.changed_checksums(self.path, remedy=_REMEDY) as checksums:
            checksums.clear()
            for path in self.files():
                with contextlib.suppress(FileNotFoundError):  # another part may have computed now what had failed
                    checksums[str(path.relative_to(self.path))] = _files.file_sha256(path)

    def files(self) -> list[Path]:
        """All result files and all files in the folders of cells, without the run's record and its checksums."""
        own = [path for path in self.path.glob("[!.]*") if path.is_file()]
        own = [path for path in own if path.name not in (RECORD, _files.CHECKSUMS)]
        return sorted([*own, *self.cell_files()])

    def cell_files(self) -> list[Path]:
        """All files in the folders of cells."""
        return sorted(path for of in (RECORDS, PREDICTIONS, FITS, KEPT) for path in (self.path / of).glob("[!.]*"))

    def _write_record(self, record: Mapping[str, Any]) -> None:
        content = {**record, _OWN_CHECKSUM: _checksum_of(record)}
        plain = json.dumps(content, indent=1, ensure_ascii=False).encode()
        _files.write_atomically(self.path / RECORD, plain, remedy=_REMEDY)


def _checksum_of(record: Mapping[str, Any]) -> str:
    """The checksum of a record's content, independent of its layout in the file."""
    plain = {key: value for key, value in record.items() if key != _OWN_CHECKSUM}
    return hashlib.sha256(_files.canonical_json(plain)).hexdigest()


def git_state() -> dict[str, Any] | None:
    """Commit of the repository that the command is given in, and whether files differ from it; None outside of one."""
    outputs = []
    try:
        for words in (["rev-parse", "HEAD"], ["status", "--porcelain"]):
            ran = subprocess.run(["git", *words], capture_output=True, text=True, check=True, timeout=10)
            outputs.append(ran.stdout.strip())
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": outputs[0], "changed_files": len(outputs[1].splitlines())}


def failure_of(run: Path, unit: Unit) -> str | None:
    """The reason why a unit failed when it was last tried, in one line."""
    for cell in unit.cells:
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            return str(json.loads(failure_path(run, cell).read_text(encoding="utf-8"))["error"]["message"])
    return None


def write_failure(run: Path, unit: Unit, error: Exception) -> None:
    """Record in each cell of a unit that is not finished why it is not."""
    kind = type(error).__name__
    plain = shortage("these cells", error) if is_out_of_memory(error) else " ".join(str(error).split())
    message = plain if isinstance(error, BertologyError) else f"{kind}: {plain}"
    failure = {
        "status": "failed",
        "error": {"type": kind, "message": message, "traceback": "".join(traceback.format_exception(error))},
        "versions": versions("torch", "transformers", "numpy", "scikit-learn"),
    }
    for cell in unit.cells:
        record = {"cell_id": cell.id, "identity": dict(cell.identity), **failure}
        content = json.dumps(record, indent=1, ensure_ascii=False).encode()
        _files.write_atomically(failure_path(run, cell), content, remedy=_REMEDY)


def failure_path(run: Path, cell: Cell) -> Path:
    """The file with the reason why a cell failed."""
    return run / RECORDS / f"{cell.id}.failed.json"
