"""Folders of runs that are damaged: each command works on them or refuses in one line."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertology.errors import BertologyError
from bertology.results import read_results
from bertology.results.report import write_report
from bertology.runner import RunOptions, merge_runs, run_experiment, verify_run
from bertology.runner.experiment import load_experiment
from bertology.runner.plan import Work, resolve_work
from tests.cell_files import file_of as file_of_cell
from tests.mutations import accepted, mutated_bytes, mutated_tree

TEXT = """\
name: small
models: [{{name: {model}, id: tiny}}]
corpora: [{{name: {corpus}, id: small}}]
tasks: [pos]
layers: 0-1
controls: [majority]
statistics: {{resamples: 100}}
outputs: {{plots: []}}
"""


class Damaged:
    """A finished run to damage, whole again for each mutant."""

    def __init__(self, whole: Path, folder: Path, work: Work) -> None:
        self._whole, self._folder, self._work = whole, folder, work
        self.run = folder / "run"
        self._n = 0

    def renew(self) -> None:
        """Put the run back as it was."""
        shutil.rmtree(self.run, ignore_errors=True)
        shutil.copytree(self._whole, self.run)

    def uses(self) -> dict[str, Callable[[], object]]:
        """What is done with a run; resuming comes last, as it may mend it."""
        self._n += 1
        merged, page = self._folder / f"merged-{self._n}", self._folder / f"{self._n}.html"
        return {
            "results": lambda: self._look(),
            "verify": lambda: verify_run(self.run),
            "report": lambda: write_report([self.run], page, with_text=False),
            "merge": lambda: merge_runs([self.run, self._whole], merged),
            "resume": lambda: run_experiment(
                self._work.experiment, self.run, work=self._work, options=RunOptions(engine="serial")
            ),
        }

    def _look(self) -> None:
        results = read_results(self.run)
        results.view().to_markdown()
        results.to_pandas()
        for row in results.rows[:3]:
            results.per_label(row.task, row.layer, control=row.control)

    def survives(self) -> dict[str, bool]:
        """Which uses of the damaged run are accepted; any error but a refusal in one line propagates."""
        return {name: accepted(use) for name, use in self.uses().items()}


@pytest.fixture(scope="module")
def damaged(tiny_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "small.yaml").write_text(TEXT.format(model=tiny_bert, corpus=tiny_corpus))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(folder / "cache"))
        work = resolve_work(load_experiment(folder / "small.yaml"))
        run_experiment(work.experiment, folder / "whole", work=work, options=RunOptions(engine="serial"))
        assert verify_run(folder / "whole") == ()
        yield Damaged(folder / "whole", folder, work)


@pytest.fixture(autouse=True)
def own_cache(damaged: Damaged, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The vectors that the run was made of."""
    cache = damaged.run.parent / "cache"
    monkeypatch.setenv("BERTOLOGY_CACHE", str(cache))
    return cache


def test_a_whole_run_is_accepted_by_all(damaged: Damaged) -> None:
    damaged.renew()
    assert all(damaged.survives().values())


FILES = (
    "run.json",
    "checksums.json",
    "experiment.yaml",
    "results.parquet",
    "comparisons.parquet",
    "cells",
    "predictions",
)


def two_predictions(run: Path) -> tuple[Path, Path]:
    """Predictions of another cell, and those of the first row."""
    first = file_of_cell(run, read_results(run).rows[0].cell_id)
    others = sorted((run / "predictions").iterdir())
    return next(other for other in others if other.read_bytes() != first.read_bytes()), first


def file_of(run: Path, name: str) -> Path:
    """A file of the run; of a folder the first."""
    path = run / name
    return sorted(path.iterdir())[0] if path.is_dir() else path


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def unsigned(record: dict[str, Any]) -> dict[str, Any]:
    """A record without its checksum."""
    return {key: value for key, value in record.items() if key != "sha256"}


def alter_rows(run: Path, name: str = "results.parquet", **values: object) -> None:
    """Give the first row other values."""
    rows = pq.read_table(run / name).to_pylist()
    pq.write_table(pa.Table.from_pylist([{**rows[0], **values}, *rows[1:]]), run / name)


def flip(path: Path, place: float = 0.3) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 0x10
    path.write_bytes(content)


def make_link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


DAMAGE: dict[str, tuple[Callable[[Path], object], dict[str, str]]] = {
    "checksums that are a list": (
        lambda run: (run / "checksums.json").write_text("[]"),
        {"verify": "checksums.json: not readable as the checksums of a run", "report": "not readable", "merge": ""},
    ),
    "a folder among cells": (
        lambda run: (run / "cells" / "spare.json").mkdir(),
        {"verify": "cells/spare.json: a folder among the files of cells", "report": "", "merge": "Is a directory"},
    ),
    "a link among cells": (
        lambda run: make_link(run / "cells" / "spare.json", run / "run.json"),
        {"verify": "cells/spare.json: a link among the files of cells"},
    ),
    "a record without its checksum": (
        lambda run: rewrite(run / "run.json", unsigned),
        {"verify": "sha256: Field required", "merge": "sha256: Field required", "resume": "sha256: Field required"},
    ),
    "rows of an unknown task": (
        lambda run: alter_rows(run, task="poss"),
        {"verify": "results.parquet: altered", "report": "altered since", "merge": "rows of task 'poss', which"},
    ),
    "a head that is none": (
        lambda run: alter_rows(run, head="{}"),
        dict.fromkeys(
            ("results", "verify", "merge"),
            "head of a row is '{}': String should match pattern '^L[0-9]{1,4}H[0-9]{1,4}$'",
        ),
    ),
    "flipped bits in predictions": (
        lambda run: [flip(path) for path in (run / "predictions").iterdir()],
        {"results": "predictions", "verify": "predictions", "report": "predictions"},
    ),
    "other predictions": (
        lambda run: [shutil.copy(one, other) for one, other in [two_predictions(run)]],
        {"results": "no file has the predictions of cell", "verify": "altered"},
    ),
    "a cell that is a list": (
        lambda run: file_of(run, "cells").write_text("[]"),
        {"verify": "altered (not the records of cells)"},
    ),
}


@pytest.mark.parametrize("name", list(DAMAGE))
def test_damage_is_named_in_one_line(damaged: Damaged, name: str) -> None:
    damage, messages = DAMAGE[name]
    damaged.renew()
    damage(damaged.run)
    for use, act in damaged.uses().items():
        found = ""
        try:
            if isinstance(problems := act(), tuple):  # those that verifying names
                found = "\n".join(problems)
        except BertologyError as error:
            found = str(error)
            assert "\n" not in found
            assert len(found) < 1000
        assert messages.get(use, "") in found, use
        assert use != "verify" or found, "the damage goes unnoticed"


TIMES = ["wall_s", "started_utc"]


def tables(run: Path) -> dict[str, str]:
    """The tables but for the time that their cells took."""
    frames = {name: pd.read_parquet(run / name) for name in ("results.parquet", "comparisons.parquet")}
    return {name: frame.drop(columns=TIMES, errors="ignore").to_csv() for name, frame in frames.items()}


@pytest.mark.parametrize("name", FILES)
def test_damaged_bytes_are_refused_or_harmless(damaged: Damaged, name: str) -> None:
    damaged.renew()
    content, whole = file_of(damaged.run, name).read_bytes(), tables(damaged.run)
    for mutant in mutated_bytes(content, seed=1, count=2):
        damaged.renew()
        file_of(damaged.run, name).write_bytes(mutant)
        if name.endswith("parquet") and mutant != content:
            assert verify_run(damaged.run)
            assert not accepted(damaged.uses()["report"])
        damaged.survives()
        if name in ("cells", "predictions"):
            assert tables(damaged.run) == whole, "what is damaged is computed again"


@pytest.mark.parametrize("name", ["run.json", "checksums.json", "cells"])
def test_damaged_values_are_refused_or_harmless(damaged: Damaged, name: str) -> None:
    damaged.renew()
    path = file_of(damaged.run, name)
    tree = (
        [json.loads(line) for line in path.read_text().splitlines()]
        if name == "cells"
        else json.loads(path.read_text())
    )
    for mutant in mutated_tree(tree, seed=1, count=2):
        try:
            text = (
                "\n".join(map(json.dumps, mutant))
                if name == "cells" and isinstance(mutant, list)
                else json.dumps(mutant)
            )
        except ValueError:
            continue  # no program writes such a number
        damaged.renew()
        path.write_text(text)
        if name == "run.json" and mutant != tree:
            assert not accepted(lambda: verify_run(damaged.run)) or verify_run(damaged.run)
        damaged.survives()


@pytest.mark.parametrize("name", ["results.parquet", "comparisons.parquet"])
def test_damaged_rows_are_refused_or_harmless(damaged: Damaged, name: str) -> None:
    damaged.renew()
    rows = pq.read_table(damaged.run / name).to_pylist()
    n_written = 0
    for mutant in mutated_tree(rows, seed=1, count=5):
        damaged.renew()
        try:
            pq.write_table(pa.Table.from_pylist(mutant), damaged.run / name)
        except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError):
            continue  # no column holds such values
        n_written += 1
        damaged.survives()
    assert n_written
