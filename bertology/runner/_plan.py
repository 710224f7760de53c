"""Plans and units of work of an experiment, known before anything is computed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from bertology._files import canonical_json, digest, shortened
from bertology._inputs import exists, given_path, is_numeral
from bertology._names import checkpoint_name, name_not_found, training_name
from bertology.corpora import Corpus, Sentences, annotate_text, known_table, load_corpus, no_columns
from bertology.encoders import ModelShape, ModelSource, model_fingerprint, model_shape, resolve_model
from bertology.encoders.resolving import find_checkpoints
from bertology.encoders.sources import code_fingerprint
from bertology.errors import BertologyError, CorpusError, cut, quoted
from bertology.families.cells import Cell
from bertology.families.contract import (
    BaselineCells,
    Family,
    FitCells,
    FitGroup,
    check_controls,
    family_of,
    runs_random_weights,
)
from bertology.families.model_corpus import (
    ModelCorpus,
    Reasons,
    Splits,
    StoredSignal,
    TaskItems,
    Weights,
    Windows,
    choose_folds,
    choose_splits,
    control_seeds,
    fingerprint_of,
    splits_to_read,
)
from bertology.families.request import (
    AS_READ,
    CorpusSettings,
    Experiment,
    Init,
    ModelSettings,
    ProbeRequest,
    ReadoutConfig,
    TaskSettings,
    parse_layers,
)
from bertology.measures import METRICS
from bertology.probing import Probe, get_probe
from bertology.results import ResultRow
from bertology.results.rows import counterpart

T = TypeVar("T")
# Of what was left out of a corpus so many places are listed; all are in Corpus.skipped.
_LISTED = 5
# How far from even a cut may be, in shares of a part, to keep a model in one piece.
_NEAR = 0.1
_NO_SENTENCES = Sentences()
Draws = tuple[FitGroup, ...]
"""One fit group on each draw of the weights of one initialisation."""


class Finder:
    """Finds what names stand for, each once however often it is asked for."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}

    def _once(self, key: tuple[object, ...], find: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = find()
        known: T = self._known[key]
        return known

    def probe(self, task: str) -> Probe:
        """The probe of a task: :func:`bertology.probing.get_probe`."""
        return self._once(("probe", task), lambda: get_probe(task))

    def model(self, name: str, revision: str | None) -> tuple[ModelSource, ModelShape]:
        """A model's files, and its shape."""
        source = self._once(("source", name, revision), lambda: resolve_model(name, revision=revision))
        return source, self._once(("shape", name, revision), lambda: model_shape(source))

    def fingerprint(self, source: ModelSource, init: Init, seed: int) -> str:
        """The fingerprint of a model's content: :func:`bertology.encoders.model_fingerprint`."""
        key = ("fingerprint", source.folder, init, seed)
        return self._once(key, lambda: model_fingerprint(source, init=init, seed=seed))

    def probes(self, tasks: Sequence[str]) -> tuple[Probe, ...]:
        """The probes of several tasks, which may be asked for once each, with metrics that there are."""
        probes = tuple(self.probe(task) for task in dict.fromkeys(tasks))
        names = [probe.task for probe in probes]
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled:
            raise BertologyError(f"task {quoted(doubled)} is asked for twice: name each once")
        for probe in probes:
            for metric in probe.metrics:
                if isinstance(metric, str) and metric not in METRICS:
                    raise name_not_found(f"metric of task {probe.task}", metric, METRICS)
        return probes

    def corpus(self, settings: CorpusSettings, probes: Sequence[Probe], whole: Corpus | None = None) -> Corpus:
        """The corpus that probes read, cut as asked; where all of them have items of their own, only its name.

        Args:
            settings: which corpus it is, and which of its sentences are read.
            probes: those that read it.
            whole: the corpus itself, if it is in memory.
        """
        if whole is not None and settings.annotate:
            raise BertologyError("annotate labels a raw text file: name the file as the corpus, or leave annotate out")
        # A corpus in memory is kept as well, so that no other can come to have its id.
        key = ("corpus", id(whole), settings, bool(splits_read(probes)))
        return self._once(key, lambda: (whole, _found(settings, probes, whole)))[1]

    def splits(self, corpus: Corpus, probes: Sequence[Probe], request: ProbeRequest) -> tuple[Corpus, Splits]:
        """A corpus as probes read it, the splits that they read, and the items that they bring themselves.

        For folds it is one split; where some probe is fitted, a corpus without splits is divided, unless one is named.
        """

        def find() -> tuple[Corpus, Corpus, Splits]:
            needed, train, test = splits_read(probes), request.train_split, request.test_split
            read = corpus
            if request.folds is not None:
                check_folds(probes, request)
                read, splits = choose_folds(corpus, request.folds, train=train, test=test)
            elif "train" in needed:
                read = corpus.divided() if (train, test) == ("train", "test") else corpus
                splits = choose_splits(read, train=train, test=test)
            elif needed:
                splits = splits_to_read(corpus, test=test, choose="dev" in needed)
            else:
                splits = Splits(_NO_SENTENCES, _NO_SENTENCES, _NO_SENTENCES, ())
            items = {probe.task: self._items(probe, request) for probe in probes}
            own = {task: some for task, some in items.items() if some is not None}
            # The corpus is kept as well, so that no other can come to have its id.
            return corpus, read, replace(splits, items=own)

        chosen = request.train_split, request.test_split, request.max_items, request.folds, request.columns
        return self._once(("splits", id(corpus), *chosen, *(probe.task for probe in probes)), find)[1:]

    def _items(self, probe: Probe, request: ProbeRequest) -> TaskItems | None:
        source, most, columns = request.corpus, request.max_items, request.columns
        find = partial(family_of(probe).items, probe, source, most=most, columns=columns)
        return self._once(("items", probe.task, source, most, columns), find)


def check_folds(probes: Sequence[Probe], request: ProbeRequest) -> None:
    """Raise unless every task can be cross-validated: readouts are fitted to it, and no code is measured."""
    for probe in probes:
        if not family_of(probe).is_cross_validated:
            problem = "nothing is fitted to its labels, so it has no folds"
            raise BertologyError(f"task {probe.task}: {problem}: leave folds out, or ask it apart")
        if any(config.codelength is not None for config in request.configs_of(probe.task)):
            problem = "a codelength is of the training split, and has no folds"
            raise BertologyError(f"task {probe.task}: {problem}: leave folds or codelength out")


def splits_read(probes: Sequence[Probe]) -> frozenset[str]:
    """The splits of a corpus that some of the probes read."""
    return frozenset(split for probe in probes for split in probe.splits_needed)


def reads_sentences(tasks: Sequence[str]) -> bool:
    """Whether some task reads the sentences of a corpus; the others have items of their own."""
    return bool(splits_read([get_probe(task) for task in tasks]))


def _found(settings: CorpusSettings, probes: Sequence[Probe], whole: Corpus | None) -> Corpus:
    """A corpus as its settings describe it; of probes that find their items in a source of texts only its name."""
    if whole is None and not splits_read(probes):
        corpus = _prompts_corpus(settings.name)
    else:
        corpus = whole or _named_corpus(settings.name, annotate=settings.annotate, columns=settings.columns)
        if settings.test_on is not None:
            other = _named_corpus(settings.test_on, annotate=settings.annotate, columns=settings.test_on_columns)
            corpus, other = (
                one.as_one(name) if len(one.splits) == 1 else one
                for one, name in ((corpus, settings.train_split), (other, settings.test_split))
            )
            corpus = _carried_over(corpus, other, settings.test_split)
        if (most := settings.sentences) is not None:
            first = {name: sentences[:most] for name, sentences in corpus.splits.items()}
            corpus = replace(corpus, splits=first)
    return replace(corpus, name=settings.id) if settings.id else corpus


def _prompts_corpus(name: str) -> Corpus:
    """A source of texts for cloze probes, which find in it what they ask: only its name."""
    if known_table(name) is not None:
        return Corpus(name.rpartition(" #")[0], {})
    return Corpus(given_path(name).resolve().name if exists(name) else name, {})


def _named_corpus(name: str, *, annotate: str | None = None, columns: str | None = None) -> Corpus:
    """A corpus by name or path, ``columns`` those of column files; ``annotate`` names a pipeline that labels a text."""
    if not annotate:
        return load_corpus(name, columns=columns)
    if columns is not None:
        raise no_columns(columns, name)
    path = given_path(name, error=CorpusError)
    if not path.is_file():
        raise CorpusError(f"--annotate labels a raw text file: there is no file {path}")
    return annotate_text(path, annotate)


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


@dataclass(frozen=True)
class Plan:
    """Everything that a request comes to, resolved."""

    pair: ModelCorpus
    probes: tuple[Probe, ...]

    @property
    def fits(self) -> tuple[Draws, ...]:
        """The fits; the model that was asked for comes first, then its controls."""
        return tuple(draws for of_task in self.fits_by_task.values() for draws in of_task)

    @cached_property
    def fits_by_task(self) -> Mapping[tuple[Init, str], tuple[Draws, ...]]:
        return {
            (init, probe.task): self._fits_of(probe, init)
            for init in self.pair.inits
            for probe in self.probes
            if (init == self.pair.request.init or self._runs_random_weights(probe))
            and (self.pair.reference is not None or not probe.needs_reference)
        }

    def _runs_random_weights(self, probe: Probe) -> bool:
        request = self.pair.request
        return runs_random_weights(probe, request.controls, request.random_draws)

    def _fits_of(self, probe: Probe, init: Init) -> tuple[Draws, ...]:
        family, fits = family_of(probe), list[Draws]()
        every = [weights for weights in self.pair.fingerprints if weights.init == init]
        for configs in family.fitted_together(probe, self.configs_of(probe)):
            groups = (
                [self._cells(probe, config, weights) for config in configs] for weights in every[: probe.most_draws]
            )
            fits.append(tuple(FitGroup(tuple(cells)) for cells in groups))
        return tuple(fits)

    def _cells(self, probe: Probe, config: ReadoutConfig, weights: Weights) -> FitCells:
        pair, grid = self.pair, family_of(probe).cells(self.pair, probe, config, weights.init)
        shared = {
            **self._task_identity(probe),
            "model_fingerprint": pair.fingerprints[weights],
            "readout": config.readout,
            "dtype": pair.request.dtype,
            "max_pieces": pair.request.max_pieces,
            **grid.identity,
        }
        if probe.needs_reference:
            shared["reference"] = reference_identity(pair)
        if config.changes:
            shared["reading"] = config.changes
        cells = {
            (control, seed, layer): Cell(
                {**shared, **grid.column_identity.get(layer, {}), "control": control, "seed": seed, "layer": layer}
            )
            for control in grid.controls
            for seed in range(grid.n_seeds)
            for layer in grid.columns
        }
        return FitCells(probe, config, weights, cells, grid.layers_read)

    @cached_property
    def baselines(self) -> tuple[BaselineCells, ...]:
        """The baselines asked for, by task, on what the model can read."""
        return tuple(
            self._baselines_of(one.probe, *family_of(one.probe).unreadable(self.pair, one.probe)) if one.cells else one
            for one in self.baselines_of_all
        )

    @cached_property
    def baselines_of_all(self) -> tuple[BaselineCells, ...]:
        """The baselines asked for, by task, if the model can read every word, which this does not find out."""
        return tuple(self._baselines_of(probe, {}, {}) for probe in self.probes)

    def _baselines_of(self, probe: Probe, unreadable: Mapping[str, Reasons], windows: Windows) -> BaselineCells:
        family, config = family_of(probe), self.configs_of(probe)[0]
        shared = self._task_identity(probe)
        if family.has_settings_in_baselines and config.changes:
            shared["reading"] = config.changes
        if unreadable:
            shared["unreadable_fingerprint"] = fingerprint_of(unreadable, windows, self.pair.joined)
        names = (note.name for note in family.baselines(probe) if note.name in self.pair.request.controls)
        cells: dict[str, Cell] = {name: Cell({**shared, "control": name}) for name in names}
        return BaselineCells(probe, config, cells, unreadable, windows)

    def _task_identity(self, probe: Probe) -> dict[str, Any]:
        of_data = family_of(probe).identity(self.pair, probe)
        if self.pair.splits.folds:
            of_data = {**of_data, "folds_fingerprint": self.pair.splits.folds_fingerprint}
        return {"task": probe.task, "task_version": probe.version, **of_data}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the corpus: how it was split, and what was left out of it."""
        corpus = self.pair.corpus
        left_out = (
            f"left out of {corpus.name}: {kind}, {len(places)}: {', '.join(places[:_LISTED])}"
            f"{' …' if len(places) > _LISTED else ''}"
            for kind, places in corpus.skipped.items()
        )
        tables = (
            f"{kind} of {corpus.name}: {corpus.notes[kind]}" for kind in ("columns", "splits") if kind in corpus.notes
        )
        return (*self.pair.splits.notes, *self._seen_in_training, *tables, *left_out)

    @property
    def _seen_in_training(self) -> tuple[str, ...]:
        """A note where most texts of test are in train, as of a split that is read twice; fewer are counted in rows."""
        splits = self.pair.splits
        if not splits.n_repeated or 2 * splits.n_repeated <= len(splits.test):
            return ()
        counts = f"{splits.n_repeated:,} of {len(splits.test):,} texts of test are in train as well"
        return (f"{counts}: scores show what was memorised; give other texts to score on",)

    @cached_property
    def run_id(self) -> str:
        """Hash of all cells: the name of the cache's folder for a run without a folder of its own."""
        # Further draws go where the first one is, so that asking for more of them goes on from there.
        cells = [cell for draws in self.fits for cell in draws[0].cells]
        cells += [cell for baselines in self.baselines for cell in baselines.cells.values()]
        return digest([canonical_json(sorted(cell.id for cell in cells))])

    def configs_of(self, probe: Probe) -> tuple[ReadoutConfig, ...]:
        """The readout configurations of a task, each with its registered readout; no two alike."""
        asked = self.pair.request.configs_of(probe.task)
        configs = family_of(probe).configs(probe, asked, self.pair.shape)
        keys = [one.key for one in configs]
        doubled = next((one for one in configs if keys.count(one.key) > 1), None)
        if doubled is not None:
            settings = "".join(f" {name}={value}" for name, value in doubled.changes.items())
            raise BertologyError(f"task {probe.task} is read twice by {doubled.readout}{settings}: name each way once")
        return configs


def make_plan(request: ProbeRequest, *, corpus: Corpus | None = None, finder: Finder | None = None) -> Plan:
    """Resolve every name in a request; imports no torch for a model that is on this machine.

    Args:
        request: what is asked.
        corpus: the corpus itself, instead of the one the request names.
        finder: what has been resolved already, for several plans.

    Raises:
        BertologyError: a task, model, layer, corpus or split that there is not.
    """
    finder, model = finder or Finder(), request.models[0]
    probes = finder.probes([task.name for task in request.tasks])
    source, shape = finder.model(model.name, model.revision)
    layers = parse_layers(request.layer_spec, shape.n_layers)
    corpus, splits = finder.splits(finder.corpus(request.corpora[0], probes, corpus), probes, request)
    _, *fresh = request.inits_of(model)
    every = [_weights_of(model), *(Weights(init, seed) for init in fresh for seed in control_seeds(request.n_draws))]
    fingerprints = {weights: finder.fingerprint(source, weights.init, weights.seed) for weights in every}
    pair = ModelCorpus(request, _titled(source, model), shape, corpus, splits, layers, fingerprints)
    return Plan(replace(pair, reference=find_reference(pair, finder)), probes)


def _weights_of(model: ModelSettings) -> Weights:
    return Weights(model.init, model.init_seed if model.init != "pretrained" else 0)


def _titled(source: ModelSource, model: ModelSettings) -> ModelSource:
    """A model's files, by the name that tables give the model."""
    own_name = checkpoint_name(model.id or source.name, pretraining_seed=model.pretraining_seed, step=model.step)
    return replace(source, name=own_name)


@dataclass(frozen=True, eq=False)
class Unit:
    """Cells that are computed together: the baselines of a task, or its fits on one initialisation of a model.

    Draws of random weights belong together, as their scores are averaged.
    """

    plan: Plan
    part: tuple[FitGroup, ...] | BaselineCells
    """A fit group on each draw of weights; or baselines."""

    @property
    def probe(self) -> Probe:
        return self.part.probe if isinstance(self.part, BaselineCells) else self.part[0].probe

    @property
    def family(self) -> Family:
        return family_of(self.probe)

    @property
    def draws(self) -> tuple[FitGroup, ...]:
        """The fit group on each draw of weights; nothing for baselines."""
        return () if isinstance(self.part, BaselineCells) else self.part

    @property
    def by_config(self) -> tuple[tuple[FitCells, ...], ...]:
        """The cells of each readout configuration on each draw of weights; nothing for baselines."""
        return tuple(zip(*(group.members for group in self.draws), strict=True))

    @property
    def weights(self) -> tuple[Weights, ...]:
        return tuple(group.weights for group in self.draws)

    @property
    def cells(self) -> tuple[Cell, ...]:
        of_baselines = self.part.cells.values() if isinstance(self.part, BaselineCells) else ()
        return (*of_baselines, *(cell for group in self.draws for cell in group.cells))

    @cached_property
    def key(self) -> str:
        return digest([canonical_json(sorted(cell.id for cell in self.cells))])

    @property
    def reads(self) -> tuple[StoredSignal, ...]:
        """The stored vectors of the corpus that it needs, of its model by weights and of the reference."""
        if not self.draws:
            return ()
        family, configs = self.family, [cells.config for cells in self.draws[0].members]
        reference, signals = self.plan.pair.reference, family.signals(self.probe, configs)
        compared: list[StoredSignal] = []
        if reference is not None and self.probe.needs_reference:
            compared = [StoredSignal(reference.weights, signal, True) for signal in signals]
        own = itertools.product(self.weights, signals)
        return (*(StoredSignal(weights, signal) for weights, signal in own), *compared)

    @property
    def is_random_control(self) -> bool:
        """Whether it is on the random weights that a pretrained model is compared with."""
        return bool(self.draws) and self.draws[0].weights.init != self.plan.pair.request.init

    @property
    def training(self) -> str | None:
        """The training, and its seed, that its model is a checkpoint of; None for other models."""
        step = self.plan.pair.request.step
        name = self.plan.pair.source.name
        return None if step is None else training_name(name, pretraining_seed=None, step=step)

    @property
    def title(self) -> str:
        where = f"{self.probe.task} on {self.plan.pair.corpus.name}"
        if not self.draws:
            return f"{where}, baselines"
        if len(self.plan.configs_of(self.probe)) > 1:
            where += f" by {self.draws[0].members[0].config.title}"
        model = self.plan.pair.source.title
        return f"{where}, {model}{' with random weights' if self.is_random_control else ''}"


def find_reference(pair: ModelCorpus, finder: Finder) -> ModelCorpus | None:
    """The reference model of a pair on the same corpus, resolved; None where none is asked for.

    Layers that are read of it have the numbers of those of the model where both are of one depth. Where they are not,
    they are all, if all of the model are asked about, else those of the same relative depth.
    """
    asked = pair.request
    model = asked.reference_of(asked.models[0])
    if model is None:
        return None
    source, shape = finder.model(model.name, model.revision)
    depth, layers = pair.shape.n_layers, pair.layers
    if depth != shape.n_layers and len(layers) == depth + 1:
        layers = tuple(range(shape.n_layers + 1))
    elif depth != shape.n_layers:
        layers = tuple(sorted({counterpart(layer, depth, shape.n_layers) for layer in layers}))
    weights = _weights_of(model)
    fingerprint = finder.fingerprint(source, weights.init, weights.seed)
    request = asked.of_one(model, asked.corpora[0], asked.tasks)
    return ModelCorpus(request, _titled(source, model), shape, pair.corpus, pair.splits, layers, {weights: fingerprint})


def reference_identity(pair: ModelCorpus) -> dict[str, Any]:
    """The identity of the reference model in cells of a task that compares with it."""
    reference = pair.reference
    assert reference is not None
    read = {name: getattr(reference.request, name) for name in AS_READ}
    return {"model_fingerprint": reference.fingerprints[reference.weights], **read}


def check_references(experiment: Experiment, finder: Finder) -> None:
    """Raise where a task compares with a reference and no model has one."""
    if any(model.reference is not None for model in experiment.models):
        return
    for task in experiment.tasks:
        if needs_reference(task.name, finder):
            remedy = "give one with --reference, or in an experiment with reference: of a model"
            raise BertologyError(f"task {task.name} compares a model with its reference, which none has: {remedy}")


def needs_reference(task: str, finder: Finder) -> bool:
    """Whether a task compares a model with its reference."""
    probe = finder.probe(task)
    return probe.needs_reference


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
    """A unit's position in the grid, by numbers: known before any model or corpus is looked at.

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
    """The plans of this part, by the numbers of model and corpus."""

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
        """The units if all models can read every word, which is not looked up."""
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
        """Number of cells of this part if its models can read every word."""
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
    """The end of the first ``number`` parts of the grid: an even cut, or a model's end near it."""
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
        for corpus, (_, tasks) in enumerate(by_corpus):
            probes = [finder.probe(asked.name) for asked in tasks]
            if model == 0:
                names = [{note.name for note in family_of(probe).baselines(probe)} for probe in probes]
                have = [any(name in experiment.controls for name in of_task) for of_task in names]
                yield from (Place(model, corpus, None, task, 0, 0) for task, has in enumerate(have) if has)
            for init in experiment.inits_of(settings):
                # Fits of each layer: the task itself by seed, and its control task on what is no control itself.
                has_control_task = init == settings.init and experiment.runs_control_tasks
                weight = experiment.seeds * (2 if has_control_task else 1)
                yield from (
                    Place(model, corpus, init, task, config, weight)
                    for task, asked in enumerate(tasks)
                    if settings.reference is not None or not needs_reference(asked.name, finder)
                    if init == settings.init
                    or runs_random_weights(probes[task], experiment.controls, experiment.random_draws)
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
    """Minimum number of cells of an experiment, known before any model or corpus is looked at."""
    layers, finder = len(experiment.layers) if isinstance(experiment.layers, tuple) else 1, Finder()
    of_a_model = sum(
        family_of(probe).fewest_columns(
            probe, config if config and config.readout else None, layers=layers, seeds=experiment.seeds
        )
        for _, tasks in _tasks_by_corpus(experiment)
        for task, probe in ((task, finder.probe(task.name)) for task in tasks)
        for config in task.configs or (None,)
    )
    return len(experiment.models) * of_a_model


def resolve_work(
    experiment: Experiment,
    *,
    part: Shard | None = None,
    is_agreed: Callable[[int], bool] = lambda _: True,
    corpus: Corpus | None = None,
) -> Work:
    """Find every model, corpus, task and layer of an experiment, or of one part of it alone.

    Models of other parts are not read.

    Args:
        experiment: what is resolved.
        part: which part of it; the whole when left out.
        is_agreed: called with the number of cells: first with the least that there can be, before any model or corpus
            is looked at, then, unless it returned True, with that of the part.
        corpus: the corpus itself, instead of the one that the experiment names.

    Raises:
        BertologyError: a model, corpus, task or layer does not exist.
    """
    finder, part = Finder(), part or Shard()
    for task in experiment.tasks:
        finder.probe(task.name)
    experiment = with_checkpoints(experiment, finder)
    agreed = is_agreed(fewest_cells(experiment))
    check_controls(experiment.controls, (task.name for task in experiment.tasks))
    check_references(experiment, finder)
    by_corpus = _tasks_by_corpus(experiment)
    pairs = dict.fromkeys((place.model, place.corpus) for place in places_of(experiment, part))
    plans = {}
    for model, number in pairs:
        settings, (data, tasks) = experiment.models[model], by_corpus[number]
        reference = experiment.reference_of(settings)
        if not isinstance(experiment, ProbeRequest):
            reference = None if reference is None else reference.model_copy(update={"id": reference.training})
            settings = settings.model_copy(update={"id": settings.training})
        settings = settings.model_copy(update={"reference": reference})
        plans[model, number] = make_plan(experiment.of_one(settings, data, tasks), corpus=corpus, finder=finder)
    names = [plan.pair.corpus.name for (model, _), plan in plans.items() if model == next(iter(pairs))[0]]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise BertologyError(f"two corpora are called {quoted(doubled)}: give each an id of its own")
    work = Work(experiment, part, plans)
    if not agreed:
        is_agreed(work.n_cells)
    return work


def with_checkpoints(experiment: Experiment, finder: Finder) -> Experiment:
    """The experiment with one model for each checkpoint that its models ask for, in the order of their steps.

    Models of a request without a name for tables have that of their files.

    Raises:
        BertologyError: there are no such checkpoints, or two models would have the same name.
    """
    models = list[ModelSettings]()
    for model in experiment.models:
        if model.checkpoints is not None:
            shared = {"id": model.training, "checkpoints": None}
            models += (
                model.model_copy(update={**shared, "name": one.name, "revision": one.revision, "step": one.step})
                for one in find_checkpoints(model.name, model.checkpoints)
            )
        elif model.id is None and isinstance(experiment, ProbeRequest):
            models.append(model.model_copy(update={"id": finder.model(model.name, model.revision)[0].name}))
        else:
            models.append(model)
    titles = [model.title for model in models]
    doubled = next((title for title in titles if titles.count(title) > 1), None)
    if doubled is not None:
        raise BertologyError(f"two models are called {quoted(doubled)}: give each an id of its own")
    return experiment.model_copy(update={"models": tuple(models)})


def _tasks_by_corpus(experiment: Experiment) -> list[tuple[CorpusSettings, tuple[TaskSettings, ...]]]:
    """Each corpus that some task reads, with those tasks."""
    every = [
        (corpus, tuple(t for t in experiment.tasks if t.corpora is None or {corpus.id, corpus.name} & set(t.corpora)))
        for corpus in experiment.corpora
    ]
    return [(corpus, tasks) for corpus, tasks in every if tasks]
