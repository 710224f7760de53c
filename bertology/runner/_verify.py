"""Finished runs: their files verified, their numbers computed again, and the parts of one experiment merged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertology import _files
from bertology.corpora import Corpus, kept_name, kept_table, load_corpus
from bertology.encoders import resolve_model
from bertology.encoders.sources import code_fingerprint
from bertology.errors import BertologyError, NameNotFoundError
from bertology.families.request import Experiment, ModelSettings
from bertology.results import ResultRow, Results, read_results
from bertology.results.cells import PREDICTIONS, RECORDS, Cell, file_with, name_of, read_record
from bertology.results.predictions import PredictionFolder
from bertology.results.rows import ComparisonRow, joined_rows, read_result_rows
from bertology.runner._folder import RECORD, RunFolder
from bertology.runner.plan import in_order, reads_sentences, same_but_for_names, with_checkpoints
from bertology.runner.run import RunOptions, RunSummary, run_experiment, save_tables

_REMEDY = "name another folder with --out"
_SCORES = ("value", "stderr", "ci_low", "ci_high", "n_items", "n_train", "predictions_sha256")


@_files.explained_system_errors()
def verify_run(run: Path) -> tuple[str, ...]:
    """List the changes in a run's folder since it was written, a line each; nothing if all is well.

    Every file's checksum is compared with that taken when the tables were written, every cell's name with the hash of
    what it says it is, and every cell's predictions with the checksum in its record and in the table.

    Raises:
        BertologyError: the folder is not a run's, or its tables were never written.
    """
    folder, problems = RunFolder(run), list[str]()
    try:
        folder.record()
    except BertologyError as error:
        if not (run / RECORD).is_file():
            raise
        problems.append(str(error))
    checksums = _files.read_checksums(run)
    if checksums is None:
        raise BertologyError(f"{run}: its tables were never written; run it to its end first")
    files = {str(path.relative_to(run)): path for path in folder.files()}
    for name, path in files.items():
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name}: {'a link' if path.is_symlink() else 'a folder'} among the files of cells")
        elif name not in checksums.sha256:
            problems.append(f"{name}: not there when the tables were written")
        elif checksums.is_altered(run, name):
            problems.append(f"{name}: altered")
    problems += [f"{name}: missing" for name in checksums.sha256 if name not in files]
    return tuple(sorted({*problems, *_cell_problems(run)}))


def _cell_problems(run: Path) -> Iterator[str]:
    sums: dict[str, str | None] = {}
    for path in sorted(path for path in (run / RECORDS).glob("*.json*") if path.is_file()):
        is_failed, whole = path.suffix == ".json", path.read_bytes()
        try:
            lines = [whole] if is_failed else whole.splitlines()
            about: dict[str, Any] = {"where": str(path), "what": "the record of a cell", "form": dict[str, Any]}
            records = [_files.parse_json(line, **about) for line in lines]
            told = {record["cell_id"]: record.get("predictions_sha256") for record in records}
            ids = [Cell(record["identity"]).id for record in records]
        except (BertologyError, KeyError, TypeError):
            yield f"cells/{path.name}: altered (not the records of cells)"
            continue
        sums |= told
        if list(told) != ids or path.name.partition(".")[0] != (ids[0] if is_failed else name_of(ids)):
            yield f"cells/{path.name}: altered (its name is not the hash of what it says it is)"
        if not is_failed and any(read_record(run, cell_id) is None for cell_id in told):
            yield f"{PREDICTIONS}/{path.stem}.parquet: altered"
    try:
        rows = read_result_rows(run)
    except BertologyError as error:
        yield str(error)
        return
    for row in rows:
        if row.status == "ok" and sums.get(row.cell_id) != row.predictions_sha256:
            yield f"results.parquet: scores of other predictions than cell {_files.shortened(row.cell_id)} has"


@dataclass(frozen=True)
class Repetition:
    """The comparison of a repeated run with the first."""

    summary: RunSummary
    n_scores: int  # scores compared
    moved: tuple[str, ...]  # a line for each score that is not exactly what it was, or is in only one of the runs


@_files.explained_system_errors()
def rerun(
    run: Path,
    out: Path,
    *,
    options: RunOptions | None = None,
    corpora: Sequence[Any] = (),
    trust_remote_code: bool = False,
) -> Repetition:
    """Run again what a run's own record says, in another folder, and compare.

    Vectors that are in the store, where they are kept by the content of model and text, are not read again.

    Args:
        run: its folder.
        out: the folder of the repetition.
        options: how to run it.
        corpora: what was in memory when the run was made: corpora, as :func:`bertology.load_corpus` returns them, or
            data of which it makes one without being told their columns; or tables of items.
        trust_remote_code: whether models whose Python code the run was made with may run it again; it must be the same
            code.

    Raises:
        BertologyError: the folder is not a run's, ``out`` is taken, something that was in memory is not given, or the
            record asks to run code that is not trusted or not the same.
    """
    experiment = RunFolder(run).experiment(trust_remote_code=trust_remote_code)
    remedy = "if it was registered in the process that made the run, call bertology.register_probe before rerun"
    try:
        are_sentences = reads_sentences([task.name for task in experiment.tasks])
        remedy = "if it was in memory where the run was made, call Encoder.from_model(…, name=…) before rerun"
        for model in experiment.models:
            resolve_model(model.name, revision=model.revision)
    except NameNotFoundError as error:
        raise BertologyError(f"{run}: {error}; {remedy}") from None
    for corpus in corpora:
        if isinstance(corpus, Corpus) or are_sentences or kept_table(corpus) is None:
            kept_name(load_corpus(corpus))
    # The Python code of models has to be that which the run was made with.
    models = [one for one in with_checkpoints(experiment).models if one.trust_remote_code]
    models += [one.reference for one in models if isinstance(one.reference, ModelSettings)]
    recorded = RunFolder(run).record()["content"].get("code", {})
    for model in models:
        code = code_fingerprint(resolve_model(model.name, revision=model.revision))
        if recorded.get(model.title, code) != code:
            problem = f"the Python code of model {model.title} is not that which the run was made with"
            raise BertologyError(f"{run}: {problem}; get it as it was then, or start a new run")
    before = _scores(run)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BertologyError(f"{out} is not empty: name another folder with --out")
    summary = run_experiment(experiment, out, options=options)
    if not (out / "results.parquet").exists():
        raise BertologyError(f"{out}: nothing could be computed: {'; '.join(summary.failures)}")
    after = _scores(out)
    moved = []
    for key in before.keys() | after.keys():
        name = ", ".join(str(part) for part in key if part is not None)
        if key not in after or key not in before:
            moved.append(f"{name}: only in {run if key in before else out}")
        elif before[key] != after[key]:
            both = zip(_SCORES, before[key], after[key], strict=True)
            moved.append(f"{name}: {', '.join(f'{field} {old} → {new}' for field, old, new in both if old != new)}")
    return Repetition(summary, len(before.keys() & after.keys()), tuple(sorted(moved)))


def _scores(run: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Scores by what a person calls them, so that another fingerprint is no other score."""
    scores = {}
    for row in read_result_rows(run):
        where = (
            None if row.layer is None else f"layer {row.layer}",
            None if row.seed is None else f"seed {row.seed}",
            None if row.control == "none" else row.control,
        )
        weights = f"weights of seed {row.init_seed}" if row.init_seed else None
        # Readout configurations of a task are distinguished by their settings.
        config = row.reading or None
        name = row.task, row.corpus, row.model, row.init, weights, config, *where, row.metric, row.group
        scores[name] = tuple(getattr(row, field) for field in _SCORES)
    return scores


@_files.explained_system_errors()
def merge_runs(runs: Sequence[Path], out: Path) -> Results:
    """Put the parts of one experiment together into folder ``out``.

    Args:
        runs: folders of runs of the same experiment, on the same data and models, such as its shards.
        out: a folder that is not there yet, or empty.

    Raises:
        BertologyError: the runs are not of one experiment, contradict each other, or ``out`` is taken.
    """
    folders = [RunFolder(run) for run in runs]
    records = [folder.record() for folder in folders]
    experiment = folders[0].experiment()
    content = _merged_content(experiment, folders, records)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BertologyError(f"{out} is not empty: {_REMEDY}")
    rows: tuple[ResultRow, ...] = ()
    comparisons: dict[Any, ComparisonRow] = {}
    for folder in folders:
        results = read_results(folder.path)
        rows = joined_rows(rows, results.rows, where=folder.path)
        comparisons.update({(row.family, row.cell_a, row.cell_b): row for row in results.comparisons})
        for path in folder.cell_files():
            target = out / path.parent.name / path.name
            if not target.exists():
                _files.write_atomically(target, path.read_bytes(), remedy=_REMEDY)
    for failed in (out / RECORDS).glob("*.failed.json"):
        if file_with(out, failed.name.partition(".")[0]) is not None:
            failed.unlink()
    merged = RunFolder(out)
    _check_names(experiment, rows)
    results = Results(in_order(experiment, rows), tuple(comparisons.values()), PredictionFolder(out))
    save_tables(results, experiment, out)
    sessions = [session for record in records for session in record["sessions"]]
    about = {"content": content, "sessions": sessions, "tables": None, "parts": {}}
    merged.adopt({**records[0], **about}, asked_in=folders[0].path)
    merged.seal()
    return results


def _merged_content(
    experiment: Experiment, folders: Sequence[RunFolder], records: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Fingerprints of all models and corpora of the parts of one experiment; raises where they are not."""
    first, one = folders[0], experiment.plain()
    content: dict[str, dict[str, str]] = {kind: {} for record in records for kind in record["content"]}
    owners: dict[tuple[str, str], RunFolder] = {}
    for folder, record in zip(folders, records, strict=True):
        other = one if folder is first else folder.experiment().plain()
        if differing := ", ".join(sorted(key for key in one if one[key] != other[key])):
            where = f"{first.path} and {folder.path}"
            raise BertologyError(f"{where} are not of one experiment: they differ in {differing}")
        different = (first, "versions of bertology") if record["bertology"] != records[0]["bertology"] else None
        for kind, fingerprints in content.items():
            for name, fingerprint in record["content"].get(kind, {}).items():
                owner = owners.setdefault((kind, name), folder)
                if fingerprints.setdefault(name, fingerprint) != fingerprint:
                    different = different or (owner, "models or corpora")
        if different is not None:
            owner, what = different
            raise BertologyError(f"{owner.path} and {folder.path} were made of different {what}: run one again")
    return content


def _check_names(experiment: Experiment, rows: Iterable[ResultRow]) -> None:
    """Raise where two models are the same but for their names, which no part can know of the others."""
    fresh = {model.title for model in experiment.models if model.init != "pretrained"}
    owners: dict[str, ResultRow] = {}
    # Baselines are of no model, though models that cannot read all of a text have rows of them of their own.
    for row in (row for row in rows if row.init is not None):
        both = known, _ = owners.setdefault(row.cell_id, row), row
        controls = all(one.init != "pretrained" and one.model not in fresh for one in both)
        trainings = {(one.training, one.pretraining_seed) for one in both}
        checkpoints = None not in (known.step, row.step) and len(trainings) == 1
        if known.model != row.model and not (controls or checkpoints):
            raise same_but_for_names(*(f"{one.task} on {one.corpus}, {one.model}" for one in both))
