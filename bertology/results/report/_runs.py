"""The runs that a report is about, which of their tables answer the same question, and the sentences behind items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from bertology._files import read_checksums, real_path
from bertology._inputs import is_numeral
from bertology._names import short_names
from bertology._registry import Registry
from bertology.corpora import Corpus, Sentences, corpus_is_available, load_corpus
from bertology.errors import BertologyError, ResultsError
from bertology.results._results import Results, read_results
from bertology.results.over_steps import OverSteps
from bertology.results.tables.rows import ResultRow, answers_itself
from bertology.results.views.grid import Grid, apart, apart_in_groups, data_of, metric_title, named
from bertology.results.views.heads import HeadTable, StepTable
from bertology.results.views.layers import LayerTable
from bertology.results.views.over_steps import has_steps, last_steps


@dataclass(frozen=True)
class AskedCorpus:
    """A corpus as it was named in the request or experiment."""

    name: str
    sentences: int | None = None
    """At most so many of each split, the first ones; all when None."""
    columns: str | None = None
    items: int | None = None
    """Of what cloze tasks ask, so many of each group."""


@dataclass(frozen=True)
class Run:
    """One run's results and where they lie."""

    name: str
    """The shortest end of its path that sets it apart from the other runs."""
    folder: Path
    results: Results
    """Its rows call models by their short names."""
    models: Mapping[str, str]
    """By short name how the run names the model, such as a path."""
    tables: tuple[LayerTable, ...]
    head_tables: tuple[HeadTable, ...] = ()
    step_tables: tuple[StepTable, ...] = ()
    over_steps: OverSteps | None = None
    """Of checkpoints of a training, of which the other tables are of the last one."""
    wholes: tuple[Grid, ...] = ()
    """Of tasks about whole models and their references."""
    asked: tuple[AskedCorpus, ...] = ()
    """The corpora as the person named them; none where the folder does not tell."""


@dataclass(frozen=True)
class Entry:
    """One answer to a question: a table, the run it comes from, and what sets it apart from other answers."""

    run: Run
    table: LayerTable
    label: str


@dataclass(frozen=True)
class Question:
    """A task on the same data, from any model or run: only scores of one question may be compared."""

    label: str
    entries: tuple[Entry, ...]

    @property
    def first(self) -> LayerTable:
        """A table, for what all of them share: task, metric, corpus."""
        return self.entries[0].table


def read_runs(folders: Sequence[str | Path]) -> tuple[Run, ...]:
    """The runs in ``folders``; a folder named twice counts once."""
    paths = [Path(folder) for folder in folders]
    unique = {real_path(path): path for path in paths}
    if not unique:
        raise ResultsError("there is no run to report: name a folder that --out left")
    results = [_results_in(path) for path in unique.values()]
    names = short_names(map(str, unique))
    models = short_names(row.model for of_run in results for row in of_run.rows)
    runs = zip(unique.items(), results, strict=True)
    return tuple(_run(path, names[str(real)], of_run, models) for (real, path), of_run in runs)


def _results_in(folder: Path) -> Results:
    if not folder.exists():
        raise ResultsError(f"{folder}: no such folder; name one that --out left")
    if not (folder / "results.parquet").is_file():
        raise ResultsError(f"{folder}: not a run, it holds no results.parquet; name a folder that --out left")
    checksums = read_checksums(folder)
    for table in ("results.parquet", "comparisons.parquet"):
        if checksums is not None and (folder / table).is_file() and checksums.is_altered(folder, table):
            raise ResultsError(
                f"{folder / table}: altered since the run wrote it, so that its scores cannot be reported; "
                "`bertology verify` says what else was, `rerun` makes it anew"
            )
    return read_results(folder)


def _run(folder: Path, name: str, kept: Results, models: Mapping[str, str]) -> Run:
    results = replace(kept, rows=named(kept.rows, models))
    try:
        over_steps = results.over_steps() if has_steps(results.rows) else None
        view = (results if over_steps is None else replace(results, rows=last_steps(results.rows))).view()
    except ResultsError as error:
        raise ResultsError(f"{folder}: {error}") from error
    own = {models[row.model]: row.model for row in kept.rows if row.model}
    tables = view.tables, view.head_tables, view.step_tables, over_steps, view.wholes
    return Run(name, folder, results, own, *tables, _asked_corpora(folder))


def _asked_corpora(folder: Path) -> tuple[AskedCorpus, ...]:
    """What the run's own record calls its corpora; it only helps to find sentences, so a run without one is whole."""
    import yaml

    try:
        record = yaml.safe_load((folder / "experiment.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        record = None
    corpora = record.get("corpora") if isinstance(record, dict) else None
    asked = []
    for entry in corpora if isinstance(corpora, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            columns = entry.get("columns")
            sizes = (size if isinstance(size := entry.get(name), int) else None for name in ("sentences", "items"))
            n_sentences, n_items = sizes
            asked.append(
                AskedCorpus(entry["name"], n_sentences, columns if isinstance(columns, str) else None, n_items)
            )
    return tuple(asked)


def group_questions(runs: Sequence[Run]) -> tuple[Question, ...]:
    """Tables grouped by what they may be compared on, in order of first appearance.

    Tables of different data, task versions or metrics never share a question, so nothing mixes them.
    """
    by_question: dict[tuple[str, ...], list[tuple[Run, LayerTable]]] = {}
    for run in runs:
        for table in run.tables:
            about = table.about
            data = about.corpus_fingerprint, about.split, about.annotation
            by_question.setdefault((about.task, about.task_version, table.metric, *data), []).append((run, table))
    labels = _question_labels([[table for _, table in same] for same in by_question.values()])
    readers = apart_in_groups([[_reader(run, table) for run, table in same] for same in by_question.values()])
    return tuple(
        Question(label, tuple(Entry(run, table, name) for (run, table), name in zip(same, names, strict=True)))
        for label, same, names in zip(labels, by_question.values(), readers, strict=True)
    )


def _question_labels(groups: Sequence[Sequence[LayerTable]]) -> list[str]:
    """The task, and as much more as sets it apart from other questions on the same task."""
    described = []
    for table, *_ in groups:
        about = table.about
        question = f"{about.task_version}, {metric_title(table.metric)}"
        described.append([about.task, data_of(about), question, f"data {about.corpus_fingerprint[:6]}"])
    labels: dict[int, str] = {}
    for task in dict.fromkeys(parts[0] for parts in described):
        same = [place for place, parts in enumerate(described) if parts[0] == task]
        labels |= dict(zip(same, apart([described[place] for place in same]), strict=True))
    return [labels[place] for place in range(len(groups))]


def _reader(run: Run, table: LayerTable) -> tuple[str, ...]:
    """The model, and whatever else may set it apart from others that are asked the same question."""
    about = table.about
    model = f"{about.model}{' (random weights)' if about.init == 'random' else ''}"
    reading = table.reading if table.one_of_several else ""
    return model, run.name, reading, f"{about.pooling} of pieces" if about.pooling else ""


@dataclass(frozen=True)
class SplitText:
    """Finds the words of one split."""

    sentences: Sentences

    @cached_property
    def _numbers(self) -> dict[str, int]:
        ids = [self.sentences.id(number) for number in range(len(self.sentences))]
        times = Counter(ids)
        names = {name: number for number, name in enumerate(ids) if times[name] == 1}
        # Sentences without a name of their own are filed under their place.
        return names | {f"{name}#{number + 1}": number for number, name in enumerate(ids)}

    def find(self, item_id: str) -> tuple[str, tuple[tuple[int, int], ...]] | None:
        """The sentence of an item ``sentence:words``, and where in it each of its spans stands (code points).

        Words are ``3``, or ``3-5`` for several; ``3-5,7`` are two spans.
        """
        name, _, words = item_id.rpartition(":")
        if name not in self._numbers:
            return None
        sentence = self.sentences[self._numbers[name]]
        spans = []
        for part in words.split(","):
            first, _, last = part.partition("-")
            last = last or first
            if not (is_numeral(first) and is_numeral(last) and 1 <= int(first) <= int(last) <= len(sentence)):
                return None
            spans.append((sentence.spans[int(first) - 1][0], sentence.spans[int(last) - 1][1]))
        return sentence.text, tuple(spans)


@dataclass(frozen=True)
class SentenceTexts:
    """The splits that were found, and why others were not."""

    splits: Mapping[tuple[str, str], SplitText] = field(default_factory=dict)
    """By fingerprint of the corpus and name of the split."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """By fingerprint of the corpus: why its sentences are not shown."""
    allowed: bool = True
    prompts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By fingerprint of the items of a cloze task: each item as its probe has it, by its id."""


@runtime_checkable
class _Family(Protocol):
    """Probes that differ by an argument after a colon."""

    make: Callable[[str], Any]
    default: Any


@runtime_checkable
class _AsksItems(Protocol):
    """Probes that have items of their own, such as prompts."""

    read_items: Callable[..., Any]


# The order of packages has probes after results: of an installed one only its question and its items are read here.
_PROBES: Registry[Any] = Registry("probe", "bertology.probes", "pos.v1", lambda _, component: component)


def probe_of(about: ResultRow) -> Any:
    """The probe of a task; None where it is not installed here."""
    stem, _, argument = about.task.partition(":")
    try:
        entry = _PROBES.newest(f"{stem}.{about.task_version}")
        probe = entry.load() if entry else None
        if isinstance(probe, _Family):
            probe = probe.make(argument) if argument else probe.default
    except BertologyError:
        return None
    return probe


def _find_prompts(runs: Sequence[Run]) -> dict[str, Mapping[str, Any]]:
    """The items of cloze tasks, as far as what was asked is on this machine and is still the same."""
    found: dict[str, Mapping[str, Any]] = {}
    asked = [(run, table.about) for run in runs for table in run.tables if answers_itself(table.about)]
    for of, about in asked:
        probe = probe_of(about)
        for source in of.asked or (AskedCorpus(about.corpus),):
            if about.corpus_fingerprint in found or not isinstance(probe, _AsksItems):
                break
            try:
                whole = probe.read_items(source.name, columns=source.columns)
            except BertologyError:
                # Of another task, or no longer there: the page says which items it has no text of.
                continue
            n = source.items
            parts = [whole.some_of_each_group(n, whole_clusters=clusters) for clusters in (False, True)] if n else []
            for items in (whole, *parts):
                if items.fingerprint == about.corpus_fingerprint:
                    found[about.corpus_fingerprint] = {item.id: item for item in items.items}
    return found


def find_sentences(
    runs: Sequence[Run], *, corpora: Sequence[str] = (), columns: str | None = None, with_text: bool = True
) -> SentenceTexts:
    """The sentences that the runs were scored on, as far as they are on this machine; nothing is downloaded for them.

    They are looked for in ``corpora``, of which each must be readable, before those that the runs themselves name.
    """
    # Tables whose items are words of a corpus, not prompts.
    asked = [(run, table.about) for run in runs for table in run.tables if not answers_itself(table.about)]
    wanted: dict[str, set[str]] = {}
    for _, about in asked:
        wanted.setdefault(about.corpus_fingerprint, set()).add(about.split)
    if not with_text:
        return SentenceTexts({}, dict.fromkeys(wanted, "the report was made without text"), allowed=False)
    splits: dict[tuple[str, str], SplitText] = {}

    def take(corpus: Corpus) -> None:
        for split in sorted(wanted.get(corpus.fingerprint, ())):
            if split in corpus:
                splits[corpus.fingerprint, split] = SplitText(corpus[split])

    for given in (load_corpus(name, columns=columns) for name in corpora):
        for of in {(fingerprint, split) for fingerprint, several in wanted.items() for split in several}:
            take(given.as_read(*of) or given)
    reasons: dict[str, str] = {}
    # Of this call only: files may be others the next time.
    load = cache(_cut)
    # Of each corpus of a run the name that its first table has.
    for (fingerprint, _), (run, about) in {(a.corpus_fingerprint, r.name): (r, a) for r, a in reversed(asked)}.items():
        if any(key[0] == fingerprint for key in splits):
            continue
        tried = [_look_in(named, about, load) for named in run.asked or (AskedCorpus(about.corpus),)]
        reasons[fingerprint] = "; ".join(reason for reason in tried if isinstance(reason, str))
        for corpus in tried:
            if isinstance(corpus, Corpus):
                take(corpus)
    return SentenceTexts(splits, reasons, prompts=_find_prompts(runs))


def _look_in(named: AskedCorpus, about: ResultRow, load: Callable[[AskedCorpus], Corpus]) -> Corpus | str:
    """A corpus if it is the one looked for, else the reason why it is not taken."""
    if not corpus_is_available(named.name):
        return f"corpus {named.name} is not on this machine; name its place with --corpus"
    try:
        corpus = load(named).as_read(about.corpus_fingerprint, about.split)
    except BertologyError as error:
        return f"corpus {named.name} cannot be read ({error})"
    return corpus or f"corpus {named.name} as it is here is not the one that was scored; name that with --corpus"


def _cut(named: AskedCorpus) -> Corpus:
    """A corpus, or the first sentences of each of its splits."""
    corpus = load_corpus(named.name, columns=named.columns)
    if named.sentences is None:
        return corpus
    return replace(corpus, splits={name: split[: named.sentences] for name, split in corpus.splits.items()})
