"""From an experiment to units of work: which models meet which corpora, and what is computed together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from bertology._files import canonical_json, digest
from bertology.corpora import Corpus
from bertology.errors import BertologyError
from bertology.probing import get_probe
from bertology.results import ResultRow
from bertology.runner._cells import Cell
from bertology.runner._plan import BaselineCells, Group, Plan, find_corpus, make_plan
from bertology.runner._request import ProbeRequest
from bertology.runner.experiment._settings import CorpusSettings, Experiment, ModelSettings, TaskSettings


@dataclass(frozen=True, eq=False)
class Unit:
    """Cells that are computed together: the baselines of a task, or its fits on one initialisation of a model."""

    plan: Plan
    part: Group | BaselineCells

    @property
    def cells(self) -> tuple[Cell, ...]:
        """What is computed."""
        return tuple(self.part.cells.values())

    @cached_property
    def key(self) -> str:
        """Hash of its cells."""
        return digest([canonical_json(sorted(cell.id for cell in self.cells))])

    @property
    def title(self) -> str:
        """What a person calls it."""
        where = f"{self.part.probe.task} on {self.plan.corpus.name}"
        if isinstance(self.part, BaselineCells):
            return f"{where}, baselines"
        fresh = self.part.init == "random" and self.plan.request.init != "random"
        return f"{where}, {self.plan.source.name}{' with random weights' if fresh else ''}"


@dataclass(frozen=True)
class Shard:
    """One part of a run that is done by several jobs."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """``2/4`` is the second of four.

        Raises:
            BertologyError: it is not written so.
        """
        first, slash, last = text.partition("/")
        if not (slash and first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
            raise BertologyError(f"--shard {text}: write which of how many, from 1/4 to 4/4")
        return cls(int(first), int(last))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class Work:
    """An experiment with every name in it resolved."""

    experiment: Experiment
    plans: tuple[Plan, ...]
    """One for each model and corpus that meet."""

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All units, in an order that depends on the experiment alone; what one model reads stands together.

        Raises:
            BertologyError: two models, or two corpora, are the same but for what they are called.
        """
        units: list[Unit] = []
        owners: dict[str, Unit] = {}
        for unit in self._all_units():
            known = next((owners[cell.id] for cell in unit.cells if cell.id in owners), None)
            if known is None:
                units.append(unit)
                owners.update(dict.fromkeys((cell.id for cell in unit.cells), unit))
            elif isinstance(unit.part, Group):
                both = f"{known.title!r} and {unit.title!r}"
                raise BertologyError(
                    f"{both} are the same but for their names: leave one out, or give another init_seed"
                )
        return tuple(units)

    def _all_units(self) -> Iterator[Unit]:
        for plan in self.plans:
            # Baselines read no model: of several models the first brings them.
            yield from (Unit(plan, found) for found in plan.baselines if found.cells)
            yield from (Unit(plan, group) for group in plan.groups)

    def shard(self, shard: Shard) -> tuple[Unit, ...]:
        """The units of one part: as many as of any other, give or take one, and of as few models as can be."""
        n = len(self.units)
        return self.units[n * (shard.number - 1) // shard.of : n * shard.number // shard.of]

    @property
    def n_cells(self) -> int:
        """How many cells there are, without making them."""
        found = 0
        baselines: dict[tuple[str, str], int] = {}
        for plan in self.plans:
            request = plan.request
            fits = len(plan.fingerprints) + ("control_task" in request.controls)
            found += len(plan.probes) * len(plan.layers) * request.seeds * fits
            # Models share the baselines of a corpus.
            for part in plan.baselines:
                baselines[plan.corpus.name, part.probe.task] = len(part.cells)
        return found + sum(baselines.values())

    @property
    def content(self) -> dict[str, Mapping[str, str]]:
        """Fingerprints of all models and corpora, by what the tables call them."""
        models: dict[str, str] = {}
        for plan in self.plans:
            models[plan.source.name] = plan.fingerprints["random" if plan.request.init == "random" else "pretrained"]
        return {"models": models, "corpora": {plan.corpus.name: plan.corpus.fingerprint for plan in self.plans}}


def in_order(experiment: Experiment, rows: Iterable[ResultRow]) -> tuple[ResultRow, ...]:
    """Rows in the order in which an experiment names its models and tasks, whoever computed them when."""
    models = {model.title: place for place, model in enumerate(experiment.models)}
    tasks = {get_probe(task.name).task: place for place, task in enumerate(experiment.tasks)}

    def place(row: ResultRow) -> tuple[int, str, int, str]:
        return models.get(row.model or "", -1), row.corpus, tasks[row.task], row.init or ""

    return tuple(sorted(rows, key=place))


def fewest_cells(experiment: Experiment) -> int:
    """How many cells an experiment has at least, known before any model or corpus is looked at."""
    layers = len(experiment.layers) if isinstance(experiment.layers, tuple) else 1
    return (
        len(experiment.models)
        * sum(len(found) for _, found in _tasks_by_corpus(experiment))
        * (layers * experiment.seeds)
    )


def resolve_work(experiment: Experiment) -> Work:
    """Find every model, corpus, task and layer of an experiment.

    Raises:
        BertologyError: there is no such one.
    """
    for task in experiment.tasks:
        get_probe(task.name)
    by_corpus = [(_find(settings), settings, tasks) for settings, tasks in _tasks_by_corpus(experiment)]
    names = [corpus.name for corpus, _, _ in by_corpus]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise BertologyError(f"two corpora are called {doubled!r}: give each an id of its own")
    return Work(
        experiment,
        tuple(
            make_plan(_request(experiment, model, settings, tasks), corpus=corpus)
            for model in experiment.models
            for corpus, settings, tasks in by_corpus
        ),
    )


def _tasks_by_corpus(experiment: Experiment) -> list[tuple[CorpusSettings, tuple[TaskSettings, ...]]]:
    """Each corpus that some task reads, with those tasks."""
    found = []
    for corpus in experiment.corpora:
        names = {corpus.id, corpus.name}
        tasks = tuple(task for task in experiment.tasks if task.corpora is None or names & set(task.corpora))
        if tasks:
            found.append((corpus, tasks))
    return found


def _find(settings: CorpusSettings) -> Corpus:
    corpus = find_corpus(settings.name, annotate=settings.annotate)
    if settings.sentences is not None:
        most = settings.sentences
        corpus = replace(corpus, splits={name: found[:most] for name, found in corpus.splits.items()})
    return replace(corpus, name=settings.id) if settings.id else corpus


def _request(
    experiment: Experiment, model: ModelSettings, corpus: CorpusSettings, tasks: tuple[TaskSettings, ...]
) -> ProbeRequest:
    return ProbeRequest(
        tasks=tuple(task.name for task in tasks),
        model=model.name,
        corpus=corpus.name,
        layers=experiment.layer_spec,
        seeds=experiment.seeds,
        controls=experiment.chosen_controls,
        pooling=model.pooling,
        dtype=model.dtype,
        stored_dtype=model.stored_dtype,
        on_long=model.on_long,
        max_pieces=model.max_pieces,
        device=experiment.device,
        train_split=corpus.train_split,
        test_split=corpus.test_split,
        revision=model.revision,
        trust_remote_code=model.trust_remote_code,
        model_id=model.title,
        init=model.init,
        init_seed=model.init_seed,
        readings={get_probe(task.name).task: task.readings for task in tasks if task.readings},
    )
