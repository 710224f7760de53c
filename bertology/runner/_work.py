"""From an experiment to units of work: which models meet which corpora, and what is computed together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bertology._files import shortened
from bertology._inputs import is_numeral
from bertology.corpora import Corpus
from bertology.encoders.sources import code_fingerprint
from bertology.errors import BertologyError, cut, quoted
from bertology.families.contract import family_of, runs_random_weights
from bertology.families.request import Init, ProbeRequest
from bertology.results import ResultRow
from bertology.runner._checkpoints import with_checkpoints
from bertology.runner._finder import Finder, find_corpus, first_sentences, prompts_corpus, splits_read
from bertology.runner._plan import Plan, Unit, make_plan
from bertology.runner._reference import check_references, needs_reference, reference_of
from bertology.runner.experiment._settings import (
    CorpusSettings,
    Experiment,
    ModelSettings,
    ReadoutSettings,
    TaskSettings,
)

# How far from even a cut may be, in shares of a part, to keep a model in one piece.
_NEAR = 0.1
_SHARED = ("seeds", "random_draws", "device")
"""Fields that a request has under the same name as an experiment."""


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
        if not (slash and is_numeral(first) and is_numeral(last) and 1 <= int(first) <= int(last)):
            raise BertologyError(f"--shard {cut(text)}: write which of how many, from 1/4 to 4/4")
        return cls(int(first), int(last))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def is_whole(self) -> bool:
        return self.of == 1


@dataclass(frozen=True)
class Place:
    """Where a unit stands in the grid, by numbers: known before any model or corpus is looked at.

    Baselines of a task read no model and have no ``init``; they stand at the first of several models.
    """

    model: int
    corpus: int  # among those that some task reads
    init: Init | None
    task: int  # among those of the corpus
    config: int  # among the groups of readout configurations that are fitted together
    weight: int  # how much there is to fit, next to the others


@dataclass(frozen=True)
class Work:
    """An experiment, or one part of it, with every name in it resolved."""

    experiment: Experiment
    part: Shard
    pairs: Mapping[tuple[int, int], Plan]
    """By the numbers of model and corpus, those that meet in this part."""
    is_request: bool = False
    """Whether it comes from a request and not from an experiment file."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """One for each model and corpus that meet in this part, in the order of the experiment."""
        return tuple(self.pairs.values())

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The units of this part, in an order that depends on the experiment alone; those of a model stand together."""
        return self._units(self.part)

    @cached_property
    def units_of_all(self) -> tuple[Unit, ...]:
        """As :attr:`units` if all models can read every word, which is not looked up."""
        return self._units(self.part, reads_all=True)

    def shard(self, shard: Shard) -> tuple[Unit, ...]:
        """The units of one part of the experiment; an error where this is another part."""
        if not self.part.is_whole and shard != self.part:
            raise BertologyError(f"this is part {self.part} of the experiment, not {shard}: resolve that one")
        return self.units if shard == self.part else self._units(shard)

    def _units(self, shard: Shard, *, reads_all: bool = False) -> tuple[Unit, ...]:
        units, owners, begun = list[Unit](), dict[str, Unit](), set[int]()
        for place in places_of(self.experiment, shard):
            plan = self.pairs[place.model, place.corpus]
            if place.init is None:
                if reads_all or not self._is_read_whole_by_none(place):
                    units.append(Unit(plan, plan.baselines_of_all[place.task]))
                continue
            if not reads_all and id(plan) not in begun:
                units += [Unit(plan, baselines) for baselines in plan.baselines if baselines.unreadable]
            begun.add(id(plan))
            unit = Unit(plan, plan.fits_by_task[place.init, plan.probes[place.task].task][place.config])
            # Groups that have one cell in common have all.
            firsts = [next(iter(cells.cells.values())) for draws in unit.by_config for cells in draws]
            known = next((owner for cell in firsts if (owner := owners.setdefault(cell.id, unit)) is not unit), unit)
            if known is not unit and not _may_be_equal(known, unit):
                raise same_but_for_names(known.title, unit.title)
            units.append(unit)
        return tuple(units)

    def _is_read_whole_by_none(self, place: Place) -> bool:
        """Whether each model has baselines of its own, as none can read every word of a corpus."""
        baselines = [plan.baselines[place.task] for (_, at), plan in self.pairs.items() if at == place.corpus]
        return len(baselines) == len(self.experiment.models) and all(one.unreadable for one in baselines)

    @property
    def n_cells(self) -> int:
        """How many cells this part has if its models can read every word."""
        return sum(len(unit.cells) for unit in self.units_of_all)

    @property
    def content(self) -> dict[str, dict[str, str]]:
        """Fingerprints of the models, their code and the corpora of this part, by what the tables call them."""
        pairs = [plan.pair for plan in self.plans]
        every = [*(pair.reference for pair in pairs if pair.reference is not None), *pairs]
        content = {"models": {pair.source.name: pair.fingerprints[pair.weights] for pair in every}}
        content["corpora"] = {pair.corpus.name: pair.corpus.fingerprint for pair in pairs}
        trusted = {pair.source.name: pair.source for pair in every if pair.request.trust_remote_code}
        code = {name: hashed for name, source in trusted.items() if (hashed := code_fingerprint(source)) is not None}
        return {**content, "code": code} if code else content


def _may_be_equal(one: Unit, other: Unit) -> bool:
    """Whether two models may have the same weights: random ones by design, checkpoints between which none moved."""
    are_checkpoints = one.training is not None and one.training == other.training
    return are_checkpoints or (one.is_random_control and other.is_random_control)


def same_but_for_names(one: str, other: str) -> BertologyError:
    """The error where one thing is computed twice under two names."""
    return BertologyError(
        f"{quoted(one)} and {quoted(other)} are the same but for their names: leave one out, or give another init_seed"
    )


def places_of(experiment: Experiment, shard: Shard) -> tuple[Place, ...]:
    """The places of one part of an experiment: about as many fits as in any other part, of few models each."""
    places = tuple(_all_places(experiment))
    first, last = (_cut(places, number, shard.of) for number in (shard.number - 1, shard.number))
    return places[first:last]


def _cut(places: Sequence[Place], number: int, of: int) -> int:
    """Where the first ``number`` of the parts of the grid end: where it is even, or where a model ends near there."""
    if number in (0, of):
        return len(places) * number // of
    starts = [0, *itertools.accumulate(place.weight for place in places)]
    even = starts[-1] * number / of
    # Of cuts as good as one another the first: the baselines of a corpus, which weigh nothing, go with what follows.
    near = min(range(len(starts)), key=lambda at: abs(starts[at] - even))
    ends = [at for at in range(1, len(places)) if places[at].model != places[at - 1].model]
    of_model = min(ends, key=lambda at: abs(starts[at] - even), default=near)
    return of_model if abs(starts[of_model] - even) <= _NEAR * starts[-1] / of else near


def _all_places(experiment: Experiment) -> Iterator[Place]:
    finder, by_corpus = Finder(), _tasks_by_corpus(experiment)
    for model, settings in enumerate(experiment.models):
        inits: tuple[Init, ...] = (settings.init,)
        if settings.init == "pretrained" and "random" in experiment.chosen_controls:
            inits = ("pretrained", "random")
        for corpus, (_, tasks) in enumerate(by_corpus):
            probes = [finder.probe(asked.name) for asked in tasks]
            if model == 0:
                names = [{note.name for note in family_of(probe).baselines(probe)} for probe in probes]
                have = [bool(of_task & {*experiment.chosen_controls}) for of_task in names]
                yield from (Place(model, corpus, None, task, 0, 0) for task, has in enumerate(have) if has)
            for init in inits:
                # Fits of each layer: the task itself by seed, and its control task on what is no control itself.
                has_control_task = init == settings.init and "control_task" in experiment.chosen_controls
                weight = experiment.seeds * (2 if has_control_task else 1)
                yield from (
                    Place(model, corpus, init, task, config, weight)
                    for task, asked in enumerate(tasks)
                    if settings.reference is not None or not needs_reference(asked.name, finder)
                    if init == settings.init
                    or runs_random_weights(probes[task], experiment.chosen_controls, experiment.random_draws)
                    for config in range(len(family_of(probes[task]).fitted_together(probes[task], asked.configs)) or 1)
                )


def in_order(experiment: Experiment, rows: Iterable[ResultRow]) -> tuple[ResultRow, ...]:
    """Rows in the order in which an experiment names its models and tasks."""
    finder, models = Finder(), {model.title: place for place, model in enumerate(experiment.models)}
    tasks = {finder.probe(task.name).task: place for place, task in enumerate(experiment.tasks)}

    def place(row: ResultRow) -> tuple[int, str, int, str]:
        if row.task not in tasks:
            problem = f"results have rows of task {shortened(repr(row.task))}, which the experiment has not"
            raise BertologyError(f"{problem}; `bertology verify` says which files were altered")
        return models.get(row.model or "", -1), row.corpus, tasks[row.task], row.init or ""

    return tuple(sorted(rows, key=place))


def fewest_cells(experiment: Experiment) -> int:
    """How many cells an experiment has at least, known before any model or corpus is looked at."""
    layers, finder = len(experiment.layers) if isinstance(experiment.layers, tuple) else 1, Finder()
    of_a_model = sum(
        family_of(probe).fewest_columns(probe, config, layers=layers, seeds=experiment.seeds)
        for _, tasks in _tasks_by_corpus(experiment)
        for task, probe in ((task, finder.probe(task.name)) for task in tasks)
        for config in task.configs or (None,)
    )
    return len(experiment.models) * of_a_model


def resolve_work(
    experiment: Experiment, *, part: Shard | None = None, is_agreed: Callable[[int], bool] = lambda _: True
) -> Work:
    """Find every model, corpus, task and layer of an experiment, or of one part of it alone.

    Models of other parts are not read.

    Args:
        experiment: what is resolved.
        part: which part of it; the whole when left out.
        is_agreed: called with the number of cells: first with the least that there can be, before any model or corpus
            is looked at, then, unless it returned True, with that of the part.

    Raises:
        BertologyError: a model, corpus, task or layer does not exist.
    """
    experiment = with_checkpoints(experiment)
    agreed, part, finder = is_agreed(fewest_cells(experiment)), part or Shard(), Finder()
    for task in experiment.tasks:
        finder.probe(task.name)
    check_references(experiment, finder)
    by_corpus = _tasks_by_corpus(experiment)
    pairs = dict.fromkeys((place.model, place.corpus) for place in places_of(experiment, part))
    corpora = {number: _find(*by_corpus[number], finder) for number in sorted({corpus for _, corpus in pairs})}
    names = [corpus.name for corpus in corpora.values()]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise BertologyError(f"two corpora are called {quoted(doubled)}: give each an id of its own")
    plans = {}
    for model, corpus in pairs:
        request = _request(experiment, experiment.models[model], *by_corpus[corpus], finder)
        plans[model, corpus] = make_plan(request, corpus=corpora[corpus], finder=finder)
    work = Work(experiment, part, plans)
    if not agreed:
        is_agreed(work.n_cells)
    return work


def work_of_plans(plans: Sequence[Plan], *, name: str) -> Work:
    """The experiment of that name that requests come to, once they are resolved, which differ in their model alone."""
    plan, request = plans[0], plans[0].pair.request
    tasks = tuple(
        TaskSettings(name=task, readout=tuple(ReadoutSettings.of(config) for config in plan.configs_of(probe)))
        for task, probe in zip(dict.fromkeys(request.tasks), plan.probes, strict=True)
    )
    models = tuple(ModelSettings.of(one.pair.request, title=one.pair.source.name) for one in plans)
    corpora = (CorpusSettings.of(request),)
    shared: dict[str, Any] = {name: getattr(request, name) for name in (*_SHARED, "layers", "controls")}
    experiment = Experiment(name=name, models=models, corpora=corpora, tasks=tasks, **shared)
    check_references(experiment, Finder())
    return Work(experiment, Shard(), {(number, 0): one for number, one in enumerate(plans)}, is_request=True)


def _tasks_by_corpus(experiment: Experiment) -> list[tuple[CorpusSettings, tuple[TaskSettings, ...]]]:
    """Each corpus that some task reads, with those tasks."""
    every = [
        (corpus, tuple(t for t in experiment.tasks if t.corpora is None or {corpus.id, corpus.name} & set(t.corpora)))
        for corpus in experiment.corpora
    ]
    return [(corpus, tasks) for corpus, tasks in every if tasks]


def _find(settings: CorpusSettings, tasks: Sequence[TaskSettings], finder: Finder) -> Corpus:
    if not splits_read([finder.probe(task.name) for task in tasks]):
        sentences = prompts_corpus(settings.name)
        return replace(sentences, name=settings.id) if settings.id else sentences
    corpus = find_corpus(settings.name, annotate=settings.annotate, columns=settings.columns)
    if settings.test_on is not None:
        other = find_corpus(settings.test_on, annotate=settings.annotate, columns=settings.test_on_columns)
        corpus, other = (
            one.as_one(name) if len(one.splits) == 1 else one
            for one, name in ((corpus, settings.train_split), (other, settings.test_split))
        )
        corpus = _carried_over(corpus, other, settings.test_split)
    corpus = first_sentences(corpus, settings.sentences)
    return replace(corpus, name=settings.id) if settings.id else corpus


def _carried_over(corpus: Corpus, other: Corpus, split: str) -> Corpus:
    """A corpus to fit on, with the split of another to score on."""
    if split not in other:
        remedy = "name one of them as test_split"
        raise other.split_not_found(split, remedy=remedy)
    return replace(
        corpus,
        name=f"{corpus.name} → {other.name}",
        splits={**{name: part for name, part in corpus.splits.items() if name != split}, split: other[split]},
        language=corpus.language if corpus.language == other.language else None,
        notes={**corpus.notes, "tested on": other.name},
    )


def _request(
    experiment: Experiment,
    model: ModelSettings,
    corpus: CorpusSettings,
    tasks: tuple[TaskSettings, ...],
    finder: Finder,
) -> ProbeRequest:
    return ProbeRequest(
        tasks=tuple(task.name for task in tasks),
        model=model.name,
        model_id=model.title,
        corpus=corpus.name,
        columns=corpus.columns,
        layers=experiment.layer_spec,
        controls=experiment.chosen_controls,
        train_split=corpus.train_split,
        test_split=corpus.test_split,
        folds=corpus.folds,
        max_items=corpus.items,
        reference=reference_of(experiment, model),
        configs={finder.probe(task.name).task: task.configs for task in tasks if task.configs},
        **{name: getattr(experiment, name) for name in _SHARED},
        **{name: getattr(model, name) for name in model.shared_fields()},
    )
