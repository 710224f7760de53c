"""The units of work of an experiment, known before anything is computed.

The grid of an experiment is cut into places by numbers alone (:func:`places_of`). A model and a corpus that meet are a
:class:`Plan`, and each place becomes a :class:`Unit`: the cells that are computed together.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, TypeVar

from bertology._files import canonical_json, digest, exists, given_path, is_numeral, shortened
from bertology._names import checkpoint_name, folder_name, name_not_found, training_name
from bertology.corpora import Corpus, annotate_text, known_table, load_corpus, no_columns
from bertology.encoders import model_fingerprint, model_shape, resolve_model
from bertology.encoders.sources import code_fingerprint, find_checkpoints
from bertology.errors import BertologyError, CorpusError, cut, quoted
from bertology.families import contract, model_corpus
from bertology.families.contract import CellKey, Family, FitCells, FitGroup, family_of
from bertology.families.model_corpus import ModelCorpus, Splits, StoredSignal, Unreadable, Weights
from bertology.families.request import (
    AS_READ,
    RANDOM,
    CorpusSettings,
    Experiment,
    Init,
    ModelSettings,
    ProbeRequest,
    ReadoutConfig,
    TaskSettings,
    parse_layers,
)
from bertology.measures.metrics import METRICS
from bertology.probing import Probe, get_probe
from bertology.results import ResultRow
from bertology.results.cells import Cell, name_of
from bertology.results.rows import counterpart

T = TypeVar("T")
# Of what was left out of a corpus so many places are listed; all are in Corpus.skipped.
_LISTED = 5
# How far from even a cut may be, in shares of a part, to keep a model in one piece.
_NEAR = 0.1
_APART = 10_000  # control seeds are far from those that people choose
Draws = tuple[FitGroup, ...]  # one fit group on each draw of the weights of one initialisation


@dataclass
class _Resolver:
    """Finds what the names of an experiment stand for, each once however often it stands there."""

    _whole: Corpus | None = None
    _known: dict[object, Any] = field(default_factory=dict)
    left_out: dict[tuple[CorpusSettings, str], str] = field(default_factory=dict)
    """What was left out of the name such as ``feats:all`` by which a task of a corpus was asked for, and why."""

    def once(self, key: object, find: Callable[..., T], *args: Any, **options: Any) -> T:
        """Results of a function, looked up once for each key."""
        if key not in self._known:
            self._known[key] = find(*args, **options)
        known: T = self._known[key]
        return known

    def plan(self, request: ProbeRequest) -> "Plan":
        """The plan of a request, as :func:`make_plan` makes it."""
        (model,), probes = request.models, dict[str, Probe]()
        for task in request.tasks:
            probe = get_probe(task.name)
            if probe.task in probes:
                raise BertologyError(f"task {quoted(probe.task)} is asked for twice: name each once")
            for metric in probe.metrics:
                if isinstance(metric, str) and metric not in METRICS:
                    raise name_not_found(f"metric of task {probe.task}", metric, METRICS)
            probes[probe.task] = probe
        pair = self._model(request, model)
        pair = replace(pair, layers=parse_layers(request.layer_spec, pair.shape.n_layers))
        # Models of an experiment that read one corpus are asked the same tasks.
        corpus, splits = self.once((request.corpora[0], *probes), self._text, request, tuple(probes.values()))
        pair = self._weighed(
            replace(pair, corpus=corpus, splits=splits),
            has_control=RANDOM in request.controls and model.init == "pretrained",
        )
        corpus_settings = request.corpora[0]
        left_out = {task: text for (of, task), text in self.left_out.items() if of == corpus_settings}
        return Plan(replace(pair, reference=self._reference(pair)), tuple(probes.values()), left_out)

    def splits_by_name(self, experiment: Experiment, settings: CorpusSettings, task: TaskSettings) -> Mapping[str, Any]:
        """The splits of a corpus that a task reads, before it is known whether there are items for it."""
        request = experiment.of_one(experiment.models[0], settings, (task,))
        return self._text(request, [get_probe(task.name)])[1].by_name

    def _model(self, request: ProbeRequest, model: ModelSettings) -> ModelCorpus:
        """The model under its display name, with all layers and an empty corpus."""
        source = self.once((model.name, model.revision), resolve_model, model.name, revision=model.revision)
        shape = self.once(source, model_shape, source)
        title = checkpoint_name(model.id or source.name, pretraining_seed=model.pretraining_seed, step=model.step)
        layers = tuple(range(shape.n_layers + 1))
        return ModelCorpus(request, replace(source, name=title), shape, Corpus("", {}), Splits(), layers, {})

    def _weighed(self, pair: ModelCorpus, *, has_control: bool = False) -> ModelCorpus:
        """The same model with the fingerprints of its own weights, and of random draws if they are a control."""
        model, fingerprints = pair.request.models[0], dict[Weights, str]()
        weights = [Weights(model.init, model.init_seed if model.init != "pretrained" else 0)]
        if has_control:
            weights += [Weights(RANDOM, _APART * draw) for draw in range(pair.request.n_draws)]
        for one in weights:
            key = pair.source.folder, one
            fingerprints[one] = self.once(key, model_fingerprint, pair.source, init=one.init, seed=one.seed)
        return replace(pair, fingerprints=fingerprints)

    def _reference(self, pair: ModelCorpus) -> ModelCorpus | None:
        """The reference model of a pair on the same corpus; None where none is asked for.

        Layers that are read of it have the numbers of those of the model where both are of one depth. Where they are
        not, they are all, if all of the model are asked about, else those of the same relative depth.
        """
        asked, depth, layers = pair.request, pair.shape.n_layers, pair.layers
        if (model := asked.reference_of(asked.models[0])) is None:
            return None
        found = self._model(asked.of_one(model, asked.corpora[0], asked.tasks), model)
        if depth != found.shape.n_layers:
            same = {counterpart(layer, depth, found.shape.n_layers) for layer in layers}
            layers = found.layers if len(layers) == depth + 1 else tuple(sorted(same))
        return self._weighed(replace(found, corpus=pair.corpus, splits=pair.splits, layers=layers))

    def _text(self, request: ProbeRequest, probes: Sequence[Probe]) -> tuple[Corpus, Splits]:
        """A corpus as probes read it, the splits that they read, and the items that they bring themselves.

        For folds it is one split; where some probe is fitted, a corpus without splits is divided, unless one is named.
        """
        settings, needed, items = request.corpora[0], set[str](), dict[str, Any]()
        for probe in probes:
            needed.update(probe.splits_needed)
        train, test = settings.train_split, settings.test_split
        reads = bool(needed)
        corpus, splits = (
            self.once((settings, reads), read_corpus, settings, self._whole, reads_sentences=reads),
            Splits(),
        )
        if settings.folds is not None:
            for probe in probes:
                problem = ""
                if not family_of(probe).is_cross_validated(probe):
                    problem = "nothing is fitted to its labels, so it has no folds: leave folds out, or ask it apart"
                elif any(config.codelength is not None for config in request.configs_of(probe.task)):
                    problem = "a codelength is of the training split, and has no folds: leave folds or codelength out"
                if problem:
                    raise BertologyError(f"task {probe.task}: {problem}")
            corpus, splits = model_corpus.choose_folds(corpus, settings.folds, train=train, test=test)
        elif "train" in needed:
            corpus = corpus.divided() if (train, test) == ("train", "test") else corpus
            splits = model_corpus.choose_splits(corpus, train=train, test=test)
        elif needed:
            splits = model_corpus.splits_to_read(corpus, test=test, choose="dev" in needed)
        for probe in probes:
            own = family_of(probe).items(probe, settings.name, most=settings.items, columns=settings.columns)
            items |= {} if own is None else {probe.task: own}
        return corpus, replace(splits, items=items)


def reads_sentences(tasks: Sequence[str]) -> bool:
    """Whether some task reads the sentences of a corpus; the others have items of their own."""
    return any(get_probe(task).splits_needed for task in tasks)


def read_corpus(settings: CorpusSettings, whole: Corpus | None = None, *, reads_sentences: bool = True) -> Corpus:
    """A corpus as its settings describe it; of probes that find their items in a source of texts only its name."""
    if whole is not None and settings.annotate:
        raise BertologyError("annotate labels a raw text file: name the file as the corpus, or leave annotate out")
    name = settings.name
    if whole is None and not reads_sentences:
        if known_table(name) is not None:
            corpus = Corpus(name.rpartition(" #")[0], {})
        else:
            corpus = Corpus(given_path(name).resolve().name if exists(name) else name, {})
        return replace(corpus, name=settings.id) if settings.id else corpus
    corpus = whole or _named_corpus(name, settings.annotate, settings.columns)
    if settings.test_on is not None:
        # A corpus to fit on, with the split of another to score on.
        other, split = _named_corpus(settings.test_on, settings.annotate, settings.test_on_columns), settings.test_split
        corpus = corpus.as_one(settings.train_split) if len(corpus.splits) == 1 else corpus
        other = other.as_one(split) if len(other.splits) == 1 else other
        if split not in other:
            raise other.split_not_found(split, remedy="name one of them as test_split")
        corpus = replace(
            corpus,
            name=f"{corpus.name} → {other.name}",
            splits={**{name: part for name, part in corpus.splits.items() if name != split}, split: other[split]},
            language=corpus.language if corpus.language == other.language else None,
            notes={**corpus.notes, "tested on": other.name},
        )
    if (most := settings.sentences) is not None:
        first = {name: sentences[:most] for name, sentences in corpus.splits.items()}
        corpus = replace(corpus, splits=first)
    return replace(corpus, name=settings.id) if settings.id else corpus


def _named_corpus(name: str, annotate: str | None, columns: str | None) -> Corpus:
    """A corpus by name or path, ``columns`` those of column files; ``annotate`` names a pipeline that labels a text."""
    if not annotate:
        return load_corpus(name, columns=columns)
    if columns is not None:
        raise no_columns(columns, name)
    path = given_path(name, error=CorpusError)
    if not path.is_file():
        raise CorpusError(f"--annotate labels a raw text file: there is no file {path}")
    return annotate_text(path, annotate)


@dataclass(frozen=True)
class Plan:
    """A resolved request: one model, one corpus, and the tasks that are run on them."""

    pair: ModelCorpus
    probes: tuple[Probe, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By task, what was left out of the name such as ``feats:all`` that it was asked for by, and why, if anything; no
    other tasks are in it."""

    @cached_property
    def fits(self) -> Mapping[tuple[Init, str], tuple[Draws, ...]]:
        """The fits by initialisation and task; the model that was asked for comes first, then its controls."""
        request, fits = self.pair.request, dict[tuple[Init, str], tuple[Draws, ...]]()
        for init, probe in itertools.product(
            dict.fromkeys(map(attrgetter("init"), self.pair.fingerprints)), self.probes
        ):
            if not _is_run(request, request.models[0], probe, init):
                continue
            identity, of_task = self._identity(probe), list[Draws]()
            asked = _asked(self.configs_of(probe), request.models[0], init)
            for configs in family_of(probe).fitted_together(probe, asked):
                draws = list[FitGroup]()
                for weights in self.pair.fingerprints:
                    if weights.init == init:
                        draws.append(tuple(self._cells(probe, config, weights, identity) for config in configs))
                of_task.append(tuple(draws[: probe.most_draws]))
            fits[init, probe.task] = tuple(of_task)
        return fits

    def _identity(self, probe: Probe) -> dict[str, Any]:
        """The values that decide the numbers of a task and of its baselines."""
        splits = self.pair.splits
        identity = {"task": probe.task, "task_version": probe.version, **family_of(probe).identity(self.pair, probe)}
        if splits.folds:
            parts = (fold.within[name].tobytes() for fold in splits.folds for name in splits.by_name)
            identity["folds_fingerprint"] = digest(parts)
        return identity

    def _cells(self, probe: Probe, config: ReadoutConfig, weights: Weights, identity: Mapping[str, Any]) -> FitCells:
        pair, grid = self.pair, family_of(probe).cells(self.pair, probe, config, weights.init)
        shared = {
            **identity,
            "model_fingerprint": pair.fingerprints[weights],
            "readout": config.readout,
            "dtype": pair.request.dtype,
            "max_pieces": pair.request.max_pieces,
            **grid.identity,
        }
        if probe.needs_reference and (reference := pair.reference) is not None:
            read = {name: getattr(reference.request, name) for name in AS_READ}
            shared["reference"] = {"model_fingerprint": reference.fingerprints[reference.weights], **read}
        if config.changes:
            shared["reading"] = config.changes
        cells = {}
        for control, seed, layer in itertools.product(grid.controls, range(grid.n_seeds), grid.columns):
            own = {**grid.column_identity.get(layer, {}), "control": control, "seed": seed, "layer": layer}
            cells[control, seed, layer] = Cell({**shared, **own})
        return FitCells(probe, config, weights, cells, grid.layers_read)

    @cached_property
    def baselines(self) -> tuple[FitCells, ...]:
        """The baselines asked for, by task, on what the model can read."""
        found = []
        for probe in self.probes:
            one = self.baselines_of(probe)
            unreadable = family_of(probe).unreadable(self.pair, probe) if one.cells else ({}, {})
            found.append(self.baselines_of(probe, unreadable) if unreadable[0] else one)
        return tuple(found)

    def baselines_of(self, probe: Probe, unreadable: Unreadable = ({}, {})) -> FitCells:
        """The baselines asked for of a task, of all words but the ``unreadable`` ones."""
        family, config, cells = family_of(probe), self.configs_of(probe)[0], dict[CellKey, Cell]()
        shared = self._identity(probe)
        if family.has_settings_in_baselines and config.changes:
            shared["reading"] = config.changes
        if unreadable[0]:
            words, windows = unreadable
            # Words that share all their subwords are left out alone, and not with the spans that they are part of.
            parts: list[Any] = [
                {name: windows[name].tolist() if name in windows else sorted(words[name]) for name in words}
            ]
            joined = {name: sorted(some) for name, some in self.pair.joined.items() if some and name in words}
            shared["unreadable_fingerprint"] = digest([canonical_json([*parts, joined] if joined else parts[0])])
        for note in family.baselines(probe):
            if note.name in self.pair.request.controls:
                cells[note.name, 0, None] = Cell({**shared, "control": note.name})
        return FitCells(probe, config, self.pair.weights, cells, (), True, *unreadable)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the corpus: how it was split, which texts were seen, and what was left out of it."""
        corpus, splits = self.pair.corpus, self.pair.splits
        notes = [*splits.notes, *dict.fromkeys(f"left out, {text}" for text in self.left_out.values() if text)]
        # Most texts of a split that is read twice; fewer are counted in rows.
        if splits.n_repeated and 2 * splits.n_repeated > len(splits.test):
            counts = f"{splits.n_repeated:,} of {len(splits.test):,} texts of test are in train as well"
            notes.append(f"{counts}: scores show what was memorised; give other texts to score on")
        for kind in ("columns", "splits"):
            notes += [f"{kind} of {corpus.name}: {corpus.notes[kind]}"] if kind in corpus.notes else []
        for kind, places in corpus.skipped.items():
            more = " …" if len(places) > _LISTED else ""
            where = ", ".join(places[:_LISTED])
            notes.append(f"left out of {corpus.name}: {kind}, {len(places)}: {where}{more}")
        return tuple(notes)

    @cached_property
    def run_id(self) -> str:
        """Hash of all cells: the name of the cache's folder for a run without a folder of its own."""
        cells = list[Cell]()
        for draws in itertools.chain.from_iterable(self.fits.values()):
            for one in draws[0]:  # further draws go where the first is: asking for more of them goes on from there
                cells += one.cells.values()
        for one in self.baselines:
            cells += one.cells.values()
        return name_of(map(attrgetter("id"), cells))

    def configs_of(self, probe: Probe) -> tuple[ReadoutConfig, ...]:
        """The readout configurations of a task, each with its registered readout; no two alike."""
        asked = self.pair.request.configs_of(probe.task)
        configs = family_of(probe).configs(probe, asked, self.pair.shape)
        known = set()
        for one in configs:
            if one.key in known:
                settings = "".join(f" {name}={value}" for name, value in one.changes.items())
                raise BertologyError(f"task {probe.task} is read twice by {one.readout}{settings}: name each way once")
            known.add(one.key)
        return configs


def make_plan(request: ProbeRequest, *, corpus: Corpus | None = None) -> Plan:
    """Resolve every name in a request; imports no torch for a model that is on this machine."""
    return _Resolver(corpus).plan(request)


def _is_run(experiment: Experiment, model: ModelSettings, probe: Probe, init: Init) -> bool:
    """Whether a task is put to a model under weights of an initialisation: its own, or those of a control."""
    task, controls = experiment.settings_of(probe.task), experiment.controls
    is_left_out = task is not None and task.models is not None and {model.id, model.name}.isdisjoint(task.models)
    if is_left_out or (probe.needs_reference and model.reference is None):
        return False
    is_control = RANDOM in controls and model.init == "pretrained" and probe.asks_random_weights
    # Where chance is known by construction, random weights are run only if they are asked for.
    is_asked = not probe.knows_chance or experiment.random_draws != "auto" or controls != ("all",)
    return init == model.init or (init == RANDOM and is_control and is_asked)


def _asked(configs: Sequence[ReadoutConfig], model: ModelSettings, init: Init) -> list[ReadoutConfig]:
    """The configurations that a model is read by under weights of an initialisation."""
    return [config for config in configs if init == model.init or config.random]


@dataclass(frozen=True, eq=False)
class Unit:
    """Cells that are computed together: the baselines of a task, or its fits on one initialisation of a model.

    Draws of random weights belong together, as their scores are averaged.
    """

    plan: Plan
    probe: Probe
    draws: Draws  # a fit group on each draw of weights, or one of the baselines

    @property
    def family(self) -> Family:
        """The family of the task."""
        return family_of(self.probe)

    @property
    def by_config(self) -> tuple[tuple[FitCells, ...], ...]:
        """The cells of each readout configuration on each draw of weights, or those of the baselines."""
        return tuple(zip(*self.draws, strict=True))

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, those of baselines or of fits."""
        return tuple(cell for one in itertools.chain(*self.draws) for cell in one.cells.values())

    @property
    def is_baseline(self) -> bool:
        """Whether the cells are those of baselines."""
        return self.draws[0][0].is_baseline

    @cached_property
    def key(self) -> str:
        """Hash of the cells."""
        return name_of(map(attrgetter("id"), self.cells))

    @property
    def reads(self) -> tuple[StoredSignal, ...]:
        """The stored vectors of the corpus that it needs, of its model by weights and of the reference."""
        if self.is_baseline:
            return ()
        signals = self.family.signals(self.probe, list(map(attrgetter("config"), self.draws[0])))
        reads, reference = list[StoredSignal](), self.plan.pair.reference
        for weights, signal in itertools.product((group[0].weights for group in self.draws), signals):
            reads.append(StoredSignal(weights, signal))
        if reference is not None and self.probe.needs_reference:
            reads += [StoredSignal(reference.weights, signal, True) for signal in signals]
        return tuple(reads)

    @property
    def is_random_control(self) -> bool:
        """Whether it is on the random weights that a pretrained model is compared with."""
        return bool(self.draws[0][0].weights.init != self.plan.pair.request.init)

    @property
    def title(self) -> str:
        """Its name in messages."""
        where = f"{self.probe.task} on {self.plan.pair.corpus.name}"
        if self.is_baseline:
            return f"{where}, baselines"
        if len(self.plan.configs_of(self.probe)) > 1:
            where += f" by {self.draws[0][0].config.title}"
        model = folder_name(self.plan.pair.source.name, 2)  # what was tuned on several seeds or tasks is told apart
        return f"{where}, {model}{' with random weights' if self.is_random_control else ''}"

    def may_equal(self, other: "Unit") -> bool:
        """Whether both may have the same weights: random ones by design, checkpoints between which none moved."""
        steps, names = [unit.plan.pair.request.step for unit in (self, other)], []
        for unit, step in zip((self, other), steps, strict=True):
            names.append(training_name(unit.plan.pair.source.name, pretraining_seed=None, step=step))
        are_checkpoints = None not in steps and names[0] == names[1]
        return are_checkpoints or (self.is_random_control and other.is_random_control)


@dataclass(frozen=True)
class Shard:
    """One part of a run that is done by several jobs."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """``2/4`` is the second of four."""
        first, slash, last = text.partition("/")
        if not (slash and is_numeral(first) and is_numeral(last) and 1 <= int(first) <= int(last)):
            raise BertologyError(f"--shard {cut(text)}: write which of how many, from 1/4 to 4/4")
        return cls(int(first), int(last))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


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
    pairs: Mapping[tuple[int, int], Plan]  # the plans of this part, by the numbers of model and corpus

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
        if self.part.of > 1 and shard != self.part:
            raise BertologyError(f"this is part {self.part} of the experiment, not {shard}: resolve that one")
        return self.units if shard == self.part else self._units(shard)

    def _units(self, shard: Shard, *, reads_all: bool = False) -> tuple[Unit, ...]:
        units, owners, begun = list[Unit](), dict[str, Unit](), set[int]()
        for place in places_of(self.experiment, shard):
            plan = self.pairs[place.model, place.corpus]
            probe = plan.probes[place.task]
            if place.init is None:
                is_whole = reads_all
                # Where some model may read every word of a corpus; else each has baselines of its own.
                for model in () if is_whole else range(len(self.experiment.models)):
                    other = self.pairs.get((model, place.corpus))
                    is_whole = is_whole or other is None or not other.baselines[place.task].unreadable
                if is_whole:
                    units.append(Unit(plan, probe, ((plan.baselines_of(probe),),)))
                continue
            for baselines in () if reads_all or id(plan) in begun else plan.baselines:
                units += [Unit(plan, baselines.probe, ((baselines,),))] if baselines.unreadable else []
            begun.add(id(plan))
            unit = Unit(plan, probe, plan.fits[place.init, probe.task][place.config])
            # Groups that have one cell in common have all.
            for cells in itertools.chain.from_iterable(unit.by_config):
                known = owners.setdefault(next(iter(cells.cells.values())).id, unit)
                if known is not unit and not known.may_equal(unit):
                    raise same_but_for_names(known.title, unit.title)
            units.append(unit)
        return tuple(units)

    @property
    def n_cells(self) -> int:
        """Number of cells of this part if its models can read every word."""
        return sum(len(unit.cells) for unit in self.units_of_all)

    @property
    def content(self) -> dict[str, dict[str, str]]:
        """Fingerprints of the models, their code and the corpora of this part, by what the tables call them."""
        content: dict[str, dict[str, str]] = {"models": {}, "corpora": {}}
        for plan in self.pairs.values():
            for pair in (plan.pair.reference, plan.pair):
                if pair is not None:
                    content["models"][pair.source.name] = pair.fingerprints[pair.weights]
                    content["corpora"][pair.corpus.name] = pair.corpus.fingerprint
                    if pair.request.trust_remote_code and (code := code_fingerprint(pair.source)) is not None:
                        content.setdefault("code", {})[pair.source.name] = code
        return content


def same_but_for_names(one: str, other: str) -> BertologyError:
    """The error where one thing is computed twice under two names."""
    return BertologyError(
        f"{quoted(one)} and {quoted(other)} are the same but for their names: leave one out, or give another init_seed"
    )


def places_of(experiment: Experiment, shard: Shard) -> tuple[Place, ...]:
    """The places of one part of an experiment: about as many fits as in any other part, of few models each."""
    places, by_corpus = list[Place](), _tasks_by_corpus(experiment)
    for (model, settings), corpus in itertools.product(enumerate(experiment.models), range(len(by_corpus))):
        asked = list(enumerate(by_corpus[corpus][1]))
        for task, of in asked if model == 0 else ():
            probe = get_probe(of.name)
            for note in family_of(probe).baselines(probe):
                if note.name in experiment.controls:
                    places.append(Place(model, corpus, None, task, 0, 0))
                    break
        for init, (task, of) in itertools.product(dict.fromkeys((settings.init, RANDOM)), asked):
            probe = get_probe(of.name)
            if _is_run(experiment, settings, probe, init):
                # Fits of each layer: the task itself by seed, and its control task on what is no control itself.
                has_control_task = init == settings.init and experiment.runs_control_tasks
                weight = experiment.seeds * (2 if has_control_task else 1)
                asked_of = _asked(experiment.configs_of(probe.task), settings, init)
                for config in range(len(family_of(probe).fitted_together(probe, asked_of))):
                    places.append(Place(model, corpus, init, task, config, weight))
    return tuple(places) if shard.of == 1 else tuple(places[_cut(places, shard, -1) : _cut(places, shard, 0)])


def _cut(places: Sequence[Place], shard: Shard, after: int) -> int:
    """The end of a shard, or of that before it (−1): an even cut of the grid, or a model's end near it."""
    number = shard.number + after
    if number in (0, shard.of):
        return len(places) * number // shard.of
    starts = [0, *itertools.accumulate(place.weight for place in places)]
    even = starts[-1] * number / shard.of
    # Of cuts as good as one another the first: the baselines of a corpus, which weigh nothing, go with what follows.
    near = min(range(len(starts)), key=lambda at: abs(starts[at] - even))
    ends = [at for at in range(1, len(places)) if places[at].model != places[at - 1].model]
    of_model = min(ends, key=lambda at: abs(starts[at] - even), default=near)
    return of_model if abs(starts[of_model] - even) <= _NEAR * starts[-1] / shard.of else near


def in_order(experiment: Experiment, rows: Iterable[ResultRow]) -> tuple[ResultRow, ...]:
    """Rows in the order in which an experiment names its models and tasks."""
    models = {model.title: place for place, model in enumerate(experiment.models)}
    tasks = {get_probe(task.name).task: place for place, task in enumerate(experiment.tasks)}

    def place(row: ResultRow) -> tuple[int, str, int, str]:
        if row.task not in tasks:
            problem = f"results have rows of task {shortened(repr(row.task))}, which the experiment has not"
            raise BertologyError(f"{problem}; `bertology verify` says which files were altered")
        return models.get(row.model or "", -1), row.corpus, tasks[row.task], row.init or ""

    return tuple(sorted(rows, key=place))


def resolve_work(
    experiment: Experiment,
    *,
    part: Shard | None = None,
    is_agreed: Callable[[int], object] | None = None,
    corpus: Corpus | None = None,
) -> Work:
    """Find every model, corpus, task and layer of an experiment, or of one part of it alone.

    Models of other parts are not read.

    Args:
        experiment: what is resolved.
        part: which part of it; the whole when left out.
        is_agreed: called with the number of fits of each layer, before any model or corpus is looked at.
        corpus: the corpus itself, instead of the one that the experiment names.

    Raises:
        BertologyError: a model, corpus, task or layer does not exist.
    """
    resolver, part, needing = _Resolver(corpus), part or Shard(), None
    for task in reversed(experiment.tasks):
        needing = task.name if get_probe(task.name).needs_reference else needing
    experiment = _with_every_task(with_checkpoints(experiment, resolver), resolver)
    contract.check_controls(experiment.controls, map(attrgetter("name"), experiment.tasks))
    if needing is not None and not any(map(attrgetter("reference"), experiment.models)):
        remedy = "give one with --reference, or in an experiment with reference: of a model"
        raise BertologyError(f"task {needing} compares a model with its reference, which none has: {remedy}")
    # Models of one experiment are compared with each other by any task.
    listed = set() if experiment.is_request else {model.title for model in experiment.models}
    for reference in map(experiment.reference_of, experiment.models if needing is None else ()):
        if reference is not None and reference.title not in listed:
            remedy = "leave it out, ask for a task that does (bertology tasks), or take bertology compare for any task"
            raise BertologyError(f"reference {quoted(reference.title)}: no task here compares models; {remedy}")
    by_corpus, plans, names = _tasks_by_corpus(experiment), dict[tuple[int, int], Plan](), dict[str, int]()
    places = places_of(experiment, part)
    if is_agreed is not None:
        is_agreed(sum(place.weight for place in places))
    for place in places:
        if (key := (place.model, place.corpus)) not in plans:
            settings, (data, tasks) = experiment.models[place.model], by_corpus[place.corpus]
            reference = experiment.reference_of(settings)
            if not experiment.is_request:
                reference = None if reference is None else reference.model_copy(update={"id": reference.training})
            settings = settings.model_copy(update={"id": settings.training, "reference": reference})
            plans[key] = resolver.plan(experiment.of_one(settings, data, tasks))
            name = plans[key].pair.corpus.name
            if names.setdefault(name, place.corpus) != place.corpus:
                raise BertologyError(f"two corpora are called {quoted(name)}: give each an id of its own")
    return Work(experiment, part, plans)


def refusals(experiment: Experiment) -> dict[tuple[str, str, str], str]:
    """Why tasks of an experiment cannot be put to a model on a corpus, by the titles of model, corpus and task.

    As far as that can be known without the model's weights.
    """
    resolver, found = _Resolver(), dict[tuple[str, str, str], str]()
    for model, (corpus, tasks) in itertools.product(experiment.models, _tasks_by_corpus(experiment)):
        settings = model.model_copy(update={"id": model.training, "reference": experiment.reference_of(model)})
        for task in tasks:
            try:
                plan = resolver.plan(experiment.of_one(settings, corpus, (task,)))
                for probe in plan.probes if plan.fits else ():
                    family_of(probe).check(plan.pair, probe, plan.configs_of(probe))
            except BertologyError as error:
                found[model.title, corpus.title, task.title] = str(error)
    return found


def with_checkpoints(experiment: Experiment, resolver: _Resolver | None = None) -> Experiment:
    """The experiment with one model for each checkpoint that its models ask for, in the order of their steps.

    Models of a request without a name for tables have that of their files.
    """
    models, resolver = list[ModelSettings](), resolver or _Resolver()
    for model in experiment.models:
        if model.checkpoints is not None:
            shared = {"id": model.training, "checkpoints": None}
            for one in find_checkpoints(model.name, model.checkpoints):
                own = {"name": one.name, "revision": one.revision, "step": one.step}
                models.append(model.model_copy(update={**shared, **own}))
        elif model.id is None and experiment.is_request:
            source = resolver.once((model.name, model.revision), resolve_model, model.name, revision=model.revision)
            models.append(model.model_copy(update={"id": source.name}))
        else:
            models.append(model)
    known = set[str]()
    for model in models:
        if model.title in known:
            raise BertologyError(f"two models are called {quoted(model.title)}: give each an id of its own")
        known.add(model.title)
    return experiment.model_copy(update={"models": tuple(models)})


def _with_every_task(experiment: Experiment, resolver: _Resolver) -> Experiment:
    """The experiment with the tasks that names such as ``feats:all`` stand for, on those corpora that have items."""
    tasks, by_corpus = dict[str, TaskSettings](), _tasks_by_corpus(experiment)
    for task in experiment.tasks:
        asked = [settings for settings, of in by_corpus if task in of]
        on = defaultdict[str, list[str]](list, {} if asked else {task.name: []})
        for settings in asked:
            found = get_probe(task.name).stands_for(partial(resolver.splits_by_name, experiment, settings, task))
            if found is None:
                on[task.name].append(settings.title)
                continue
            left_out = "; ".join(f"{name.partition(':')[2]} ({why})" for name, why in found.items() if why)
            names = [name for name, why in found.items() if not why]
            if not names:
                raise CorpusError(f"task {task.name}: nothing can be asked of {settings.title}: {cut(left_out)}")
            for name in names:
                on[name].append(settings.title)
                resolver.left_out[settings, name] = f"{task.name}: {left_out}" if left_out else ""
        for name, some in on.items():
            only = task.corpora if len(some) == len(asked) else tuple(some)
            tasks.setdefault(name, task.model_copy(update={"name": name, "corpora": only}))
    return experiment.model_copy(update={"tasks": tuple(tasks.values())})


def _tasks_by_corpus(experiment: Experiment) -> list[tuple[CorpusSettings, tuple[TaskSettings, ...]]]:
    """Each corpus that some task reads, with those tasks."""
    found = dict[CorpusSettings, tuple[TaskSettings, ...]]()
    for corpus, task in itertools.product(experiment.corpora, experiment.tasks):
        if task.corpora is None or not {corpus.id, corpus.name}.isdisjoint(task.corpora):
            found[corpus] = (*found.get(corpus, ()), task)
    return list(found.items())
