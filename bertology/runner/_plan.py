"""From a request to cells: what is to be computed, known before anything is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from bertology._files import canonical_json, digest
from bertology.corpora import Corpus
from bertology.encoders import ModelShape, ModelSource
from bertology.errors import BertologyError
from bertology.probing import (
    ClozeProbe,
    GateProbe,
    HeadProbe,
    Probe,
    RepresentationProbe,
    get_probe,
)
from bertology.readouts import ReadoutKind, readout_kind
from bertology.runner._baselines import Baseline, baselines_of
from bertology.runner._cells import Cell
from bertology.runner._draws import DRAWS, Weights, cheap_draws, control_seeds
from bertology.runner._finder import Finder, Init, read_vocabulary
from bertology.runner._readable import Reasons, Windows, fingerprint_of, unreadable_words, windows_of_words
from bertology.runner._reading import Reading, check_reading, fitted_together
from bertology.runner._request import ProbeRequest, parse_layers
from bertology.runner._task_data import Splits

# Of what was left out of a corpus so many places are told; all are in Corpus.skipped.
_LISTED = 5
RowControl = Literal["none", "control_task", "blind"]


@dataclass(frozen=True)
class Group:
    """Cells fitted together: one reading of a task on one set of weights of the model, all layers, controls, seeds."""

    probe: Probe
    reading: Reading
    """With the readout's registered name."""
    weights: Weights
    cells: Mapping[tuple[RowControl, int, int | None], Cell]
    """By control, seed and layer; of a readout that mixes all layers the layer is None."""
    reads: tuple[int, ...]
    """The layers whose vectors are read."""
    others: tuple[Group, ...] = ()
    """Other readings of the task that are fitted in the same passes over the data."""
    draws: tuple[Group, ...] = ()
    """The same, with what is fitted with it, on further draws of random weights."""

    @property
    def init(self) -> Init:
        """How the model's weights were made."""
        return self.weights.init

    @property
    def family(self) -> tuple[Group, ...]:
        """The group and all that is fitted with it."""
        return (self, *self.others)

    @property
    def by_draw(self) -> tuple[tuple[Group, ...], ...]:
        """The group and all that is fitted with it, each with the same on further draws of random weights."""
        return tuple(zip(*(first.family for first in (self, *self.draws)), strict=True))

    @property
    def readout(self) -> ReadoutKind:
        """What the readout is."""
        return readout_kind(str(self.reading.readout))

    @property
    def layers(self) -> tuple[int | None, ...]:
        """What there is a score for: each layer, or None for all of them together."""
        return tuple(dict.fromkeys(layer for _, _, layer in self.cells))


@dataclass(frozen=True)
class BaselineCells:
    """The cells of one task that look at no vector."""

    probe: Probe
    cells: Mapping[Baseline, Cell]
    unreadable: Mapping[str, Reasons] = field(default_factory=dict)
    """By split the words that the model cannot read, which are left out here too; where it reads all splits whole, the
    cells are those of any model."""
    windows: Windows = field(default_factory=dict, compare=False)
    """Of baselines of heads, of the same splits: the windows of their words."""


@dataclass(frozen=True)
class Plan:
    """Everything that a request comes to, resolved."""

    request: ProbeRequest
    source: ModelSource
    shape: ModelShape
    corpus: Corpus
    splits: Splits
    layers: tuple[int, ...]
    probes: tuple[Probe, ...]
    fingerprints: Mapping[Weights, str]
    """The model's, by its weights: those that are asked about first."""

    @cached_property
    def by_draw(self) -> tuple[tuple[Group, ...], ...]:
        """By the way in which a task is read on one initialisation, the group of each draw of weights."""
        return tuple(draws for found in self._groups.values() for first in found for draws in first.by_draw)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """One for each way in which a task is read on one set of weights; the pretrained model comes first."""
        return tuple(group for draws in self.by_draw for group in draws)

    @property
    def families(self) -> tuple[Group, ...]:
        """What is fitted, each with those that are fitted with it."""
        return tuple(group for found in self._groups.values() for first in found for group in (first, *first.draws))

    def groups_of(self, probe: Probe, init: Init) -> tuple[Group, ...]:
        """The groups of one task on one initialisation, each with those that are fitted with it."""
        return self._groups[init, probe.task]

    @cached_property
    def _groups(self) -> Mapping[tuple[Init, str], tuple[Group, ...]]:
        return {
            (init, probe.task): tuple(self._on_all_draws(probe, found, init) for found in self.ways_of(probe))
            for init in self.inits
            for probe in self.probes
            if init in inits_of(probe, self.inits, own=self.request.init)
        }

    @property
    def inits(self) -> tuple[Init, ...]:
        """The initialisations of the model: that which is asked about first."""
        return tuple(dict.fromkeys(weights.init for weights in self.fingerprints))

    def weights_of(self, probe: Probe, readings: Sequence[Reading], init: Init) -> tuple[Weights, ...]:
        """The draws of weights that a task is put to under one initialisation, read in one way."""
        every = tuple(weights for weights in self.fingerprints if weights.init == init)
        asked = self.request.random_draws
        if len(every) == 1 or isinstance(probe, HeadProbe) or asked != "auto":
            return every[:1] if isinstance(probe, HeadProbe) else every
        deepest, seeds = max(self.layers), self.n_seeds_of(probe)
        return every[: cheap_draws(probe, readings, self.shape, self.splits, deepest=deepest, seeds=seeds)]

    @cached_property
    def baselines(self) -> tuple[BaselineCells, ...]:
        """The baselines asked for, by task, on what the model can read."""
        return tuple(
            self._baselines_of(found.probe, *self._read_for(found.probe)) if found.cells else found
            for found in self.baselines_of_all
        )

    @cached_property
    def baselines_of_all(self) -> tuple[BaselineCells, ...]:
        """The baselines asked for, by task, if the model can read every word, which this does not find out."""
        return tuple(self._baselines_of(probe, {}, {}) for probe in self.probes)

    def _baselines_of(self, probe: Probe, unreadable: Mapping[str, Reasons], windows: Windows) -> BaselineCells:
        controls = baselines_of(probe, self.request.controls)
        shared = {**self._task_identity(probe), **self._baseline_settings(probe)}
        if unreadable:
            shared["unreadable_fingerprint"] = fingerprint_of(unreadable, windows)
        cells = {name: Cell({**shared, "control": name}) for name in controls}
        return BaselineCells(probe, cells, unreadable, windows)

    def _read_for(self, probe: Probe) -> tuple[Mapping[str, Reasons], Windows]:
        """What the model reads of the splits of a task: words that it cannot, and for heads the windows of all."""
        if isinstance(probe, HeadProbe):
            unreadable, windows = self._windows
            splits = [name for name in _read_by_heads(probe) if name in windows]
            return {name: unreadable[name] for name in splits}, {name: windows[name] for name in splits}
        # Which items of a cloze task a model can be asked is known when they are put to it.
        return (self.unreadable if isinstance(probe, RepresentationProbe) else {}), {}

    @cached_property
    def _windows(self) -> tuple[Mapping[str, Reasons], Windows]:
        splits = {name: self.splits.by_name[name] for name in ("dev", "test")}
        try:
            return windows_of_words(splits, self.request, self.source)
        except BertologyError:
            return {}, {}  # as above

    @cached_property
    def unreadable(self) -> Mapping[str, Reasons]:
        """By split the words that the model cannot read; only splits that have some."""
        fingerprint = next(iter(self.fingerprints.values()))  # whichever weights: pieces are the same
        try:
            return unreadable_words(
                self.splits.by_name, self.request, self.source, fingerprint=fingerprint, layers=self.layers
            )
        except BertologyError:
            return {}  # What is wrong with a model or a text is told where it is read, by the cells that read it.

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the corpus: how it was split, and what was left out of it."""
        left_out = (
            f"left out of {self.corpus.name}: {kind}, {len(places)}: {', '.join(places[:_LISTED])}"
            f"{' …' if len(places) > _LISTED else ''}"
            for kind, places in self.corpus.skipped.items()
        )
        return (*self.splits.notes, *left_out)

    @cached_property
    def run_id(self) -> str:
        """Hash of all cells: where a run is kept that names no folder."""
        # Further draws go where the first one is, so that asking for more of them goes on from there.
        cells = [cell.id for draws in self.by_draw for cell in draws[0].cells.values()]
        cells += [cell.id for found in self.baselines for cell in found.cells.values()]
        return digest([canonical_json(sorted(cells))])

    def readings_of(self, probe: Probe) -> tuple[Reading, ...]:
        """How a task is read, each readout by its registered name.

        Raises:
            NameNotFoundError: there is no such readout.
            BertologyError: one way is asked for twice, or a variational code of a readout that has none.
        """
        asked = self.request.readings_of(probe.task)
        found = tuple(replace(one, readout=readout_kind(one.readout or probe.readout).name) for one in asked)
        for one in found:
            if one.codelength == "variational" and not readout_kind(str(one.readout)).has_posterior:
                raise BertologyError(
                    f"task {probe.task}: {one.readout} has no variational code: take readout bayes, or online"
                )
            check_reading(probe, one, width=self.shape.dim)
        keys = [one.key for one in found]
        doubled = next((one for one in found if keys.count(one.key) > 1), None)
        if doubled is not None:
            settings = "".join(f" {name}={value}" for name, value in doubled.changes.items())
            raise BertologyError(f"task {probe.task} is read twice by {doubled.readout}{settings}: name each way once")
        return found

    def ways_of(self, probe: Probe) -> tuple[tuple[Reading, ...], ...]:
        """How a task is read, in the groups in which it is fitted."""
        return fitted_together(self.readings_of(probe), own=probe.readout)

    def _task_identity(self, probe: Probe) -> dict[str, Any]:
        of_task = {"task": probe.task, "task_version": probe.version}
        if isinstance(probe, ClozeProbe):
            return {**of_task, "items_fingerprint": self.splits.prompts[probe.task].fingerprint}
        if isinstance(probe, HeadProbe):
            names = _read_by_heads(probe)
            return {**of_task, **{f"{name}_fingerprint": self.splits.by_name[name].fingerprint for name in names}}
        return {
            **of_task,
            **{f"{name}_fingerprint": split.fingerprint for name, split in self.splits.by_name.items()},
        }

    def _baseline_settings(self, probe: Probe) -> dict[str, Any]:
        """What of a task's settings decides its baselines: of heads all, as the first reading has them."""
        changes = self.readings_of(probe)[0].changes if isinstance(probe, HeadProbe) else {}
        return {"reading": changes} if changes else {}

    def _on_all_draws(self, probe: Probe, readings: Sequence[Reading], init: Init) -> Group:
        first, *draws = (self._family(probe, readings, weights) for weights in self.weights_of(probe, readings, init))
        return replace(first, draws=tuple(draws))

    def _family(self, probe: Probe, readings: Sequence[Reading], weights: Weights) -> Group:
        first, *others = (self._group(probe, reading, weights) for reading in readings)
        return replace(first, others=tuple(others))

    def _group(self, probe: Probe, reading: Reading, weights: Weights) -> Group:
        request = self.request
        shared = {
            **self._task_identity(probe),
            "model_fingerprint": self.fingerprints[weights],
            "readout": reading.readout,
            "dtype": request.dtype,
            "max_pieces": request.max_pieces,
        }
        if isinstance(probe, ClozeProbe):
            if words := reading.settings.get("vocabulary"):
                shared["vocabulary_fingerprint"] = digest([canonical_json(read_vocabulary(str(words)))])
        elif isinstance(probe, HeadProbe):
            shared["on_long"] = request.on_long
        else:
            shared |= {name: getattr(request, name) for name in ("pooling", "stored_dtype", "on_long")}
        if reading.changes:
            shared["reading"] = reading.changes
        if reading.erase is not None:
            shared["erased_version"] = get_probe(reading.erase).version
        cells = {
            (control, seed, layer): Cell(
                {**shared, **self._mixed(reading, layer), "control": control, "seed": seed, "layer": layer}
            )
            for control in self.controls_of(probe, weights.init)
            for seed in range(self.n_seeds_of(probe))
            for layer in self.columns_of(reading)
        }
        return Group(probe, reading, weights, cells, self.layers_of(reading))

    def n_seeds_of(self, probe: Probe) -> int:
        """How many fits of a task there are; of one that fits nothing, one."""
        return self.request.seeds if isinstance(probe, RepresentationProbe) else 1

    def controls_of(self, probe: Probe, init: Init) -> tuple[RowControl, ...]:
        """What is computed of a task on one initialisation."""
        # Of those vectors that are a control themselves nothing is claimed.
        asked = self.request.controls if init == self.request.init else ()
        if isinstance(probe, ClozeProbe):
            can_be_blind = any(item.blind for item in self.splits.prompts[probe.task].items)
            return ("none", "blind") if "blind" in asked and can_be_blind else ("none",)
        if isinstance(probe, HeadProbe):
            return ("none",)
        # The control task asks what the model's vectors allow by heart; trees are no labels that could be learnt so.
        with_control = "control_task" in asked and _reads(probe) != "trees"
        return ("none", "control_task") if with_control else ("none",)

    def columns_of(self, reading: Reading) -> tuple[int | None, ...]:
        """What a reading scores: each layer, or None for all of them together."""
        kind = readout_kind(str(reading.readout))
        if kind.reads in ("maps", "gates"):
            # What becomes of a model as ever more heads go belongs to none of its layers.
            return (*self.layers_of(reading), *([None] if kind.reads == "gates" else []))
        return (None,) if kind.columns == "all" else self.layers_of(reading)

    def layers_of(self, reading: Reading) -> tuple[int, ...]:
        """The layers that a reading reads.

        Raises:
            NameNotFoundError: the model has no such layer.
            BertologyError: it is not among the layers that are asked about.
        """
        if readout_kind(str(reading.readout)).reads in ("maps", "gates"):
            return self._layers_with_heads(reading)
        if reading.layers is None:
            return self.layers
        found = parse_layers(reading.layers, self.shape.n_layers)
        others = [layer for layer in found if layer not in self.layers]
        if others:
            raise BertologyError(
                f"readout {reading.title} is to read layer {others[0]}, which is not among the layers asked about: "
                "name it in layers too"
            )
        return found

    def _layers_with_heads(self, reading: Reading) -> tuple[int, ...]:
        asked = self.layers if reading.layers is None else parse_layers(reading.layers, self.shape.n_layers)
        if found := tuple(layer for layer in asked if layer > 0):
            return found
        raise BertologyError(
            f"layer 0 is the embeddings, which have no attention heads: ask for layers 1…{self.shape.n_layers}"
        )

    def _mixed(self, reading: Reading, layer: int | None) -> dict[str, Any]:
        """Which layers a score is of, where they are several: part of what it means."""
        if readout_kind(str(reading.readout)).columns == "layer":
            return {}
        return {"mixed_layers": [below for below in self.layers_of(reading) if layer is None or below <= layer]}


def inits_of(probe: Probe, inits: Iterable[Init], *, own: Init) -> tuple[Init, ...]:
    """The initialisations of a model that a task is put to: what a random one loses without a head says nothing."""
    return tuple(init for init in inits if init == own or not isinstance(probe, GateProbe))


def _read_by_heads(probe: HeadProbe) -> tuple[str, ...]:
    """The splits that are read."""
    return ("dev", "test") if probe.chooses else ("test",)


def _reads(probe: Probe) -> str:
    return readout_kind(probe.readout).reads


def make_plan(request: ProbeRequest, *, corpus: Corpus | None = None, finder: Finder | None = None) -> Plan:
    """Resolve every name in a request; imports no torch for a model that is on this machine.

    Args:
        request: what is asked.
        corpus: the corpus itself, instead of the one the request names.
        finder: what has been found already, of several plans.

    Raises:
        BertologyError: a task, model, layer, corpus or split that there is not.
    """
    finder = finder or Finder()
    probes = finder.probes(request.tasks)
    source, shape = finder.model(request.model, request.revision)
    layers = parse_layers(request.layers, shape.n_layers)
    given = corpus
    if given is not None and request.annotate:
        raise BertologyError("annotate labels a raw text file: name the file as the corpus, or leave annotate out")
    corpus = given or finder.corpus(request, probes)
    splits = finder.splits(corpus, probes, request)
    own = request.init
    every = [Weights(own, request.init_seed if own != "pretrained" else 0)]
    if "random" in request.controls and own == "pretrained":
        n_draws = DRAWS if request.random_draws == "auto" else request.random_draws
        every += [Weights("random", seed) for seed in control_seeds(n_draws)]
    fingerprints = {weights: finder.fingerprint(source, weights.init, weights.seed) for weights in every}
    source = replace(source, name=request.model_id or source.name)
    return Plan(request, source, shape, corpus, splits, layers, probes, fingerprints)
