"""From a request to cells and units: what is to be computed, known before anything is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bertology._files import canonical_json, digest
from bertology._names import checkpoint_name, training_name
from bertology.corpora import Corpus
from bertology.errors import BertologyError
from bertology.families.cells import Cell
from bertology.families.contract import BaselineCells, Family, FitCells, FitGroup, family_of, runs_random_weights
from bertology.families.model_corpus import (
    ModelCorpus,
    Reasons,
    StoredSignal,
    Weights,
    Windows,
    control_seeds,
    fingerprint_of,
)
from bertology.families.request import Init, ProbeRequest, ReadoutConfig, parse_layers
from bertology.probing import Probe
from bertology.runner._finder import Finder
from bertology.runner._reference import find_reference, reference_identity

# Of what was left out of a corpus so many places are listed; all are in Corpus.skipped.
_LISTED = 5
Draws = tuple[FitGroup, ...]
"""One fit group on each draw of the weights of one initialisation."""


@dataclass(frozen=True)
class Plan:
    """Everything that a request comes to, resolved."""

    pair: ModelCorpus
    probes: tuple[Probe, ...]

    @property
    def fits(self) -> tuple[Draws, ...]:
        """What is fitted; the model that was asked for comes first, then its controls."""
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
        cells = {name: Cell({**shared, "control": name}) for name in names}
        return BaselineCells(probe, config, cells, unreadable, windows)

    def _task_identity(self, probe: Probe) -> dict[str, Any]:
        of_data = family_of(probe).identity(self.pair, probe)
        if self.pair.splits.folds:
            of_data = {**of_data, "folds_fingerprint": self.pair.splits.folds_fingerprint}
        return {"task": probe.task, "task_version": probe.version, **of_data}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the corpus: how it was split, and what was left out of it."""
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
    finder, init = finder or Finder(), request.init
    probes = finder.probes(request.tasks)
    source, shape = finder.model(request.model, request.revision)
    layers = parse_layers(request.layers, shape.n_layers)
    if corpus is not None and request.annotate:
        raise BertologyError("annotate labels a raw text file: name the file as the corpus, or leave annotate out")
    corpus = finder.corpus(request, probes) if corpus is None else finder.cut(corpus, request.sentences)
    corpus, splits = finder.splits(corpus, probes, request)
    every = [Weights(init, request.init_seed if init != "pretrained" else 0)]
    if "random" in request.controls and init == "pretrained":
        every += [Weights("random", seed) for seed in control_seeds(request.n_draws)]
    fingerprints = {weights: finder.fingerprint(source, weights.init, weights.seed) for weights in every}
    own_name = checkpoint_name(source.name, pretraining_seed=request.pretraining_seed, step=request.step)
    source = replace(source, name=request.model_id or own_name)
    pair = ModelCorpus(request, source, shape, corpus, splits, layers, fingerprints)
    return Plan(replace(pair, reference=find_reference(pair, finder)), probes)


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
        """What is fitted on each draw of weights; nothing for baselines."""
        return () if isinstance(self.part, BaselineCells) else self.part

    @property
    def by_config(self) -> tuple[tuple[FitCells, ...], ...]:
        """By readout configuration, its cells on each draw of weights; nothing for baselines."""
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
        return bool(self.draws) and self.draws[0].weights.init == "random" and self.plan.pair.request.init != "random"

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
