"""Differences between a model and its reference by layer: of vectors, attention maps, whole models, frozen readouts.

Statistics are sums over clusters, as those of ``geometry`` and ``heads``. :data:`FROZEN` is a family of its own: what a
readout fitted to one model predicts from the vectors of the other.
"""

import itertools
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bertology import attention, readouts
from bertology._names import name_not_found
from bertology.comparison import _probes
from bertology.corpora import Sentences
from bertology.encoders import ModelShape
from bertology.encoders.batching import OnLong
from bertology.errors import BertologyError, CorpusError, ModelError
from bertology.families.contract import CellGrid, Counts, FitCells, Problem, Resources, Scoring, TaskRows, named_task
from bertology.families.labels import FAMILY as LABELS
from bertology.families.model_corpus import ModelCorpus, Signal
from bertology.families.request import Init, ReadoutConfig
from bertology.families.rows import ByControl, Columns, run_rows
from bertology.families.sums import PACKAGES, head_rows, layers_with_heads, own_readout, write_sums
from bertology.families.vectors import CellWriter, VectorFamily, readable, targets_of, vectors_of
from bertology.geometry.family import WordsFamily, items_read
from bertology.geometry.similarity import most_alike
from bertology.measures import Metric, compare, over_runs
from bertology.measures.intervals import difference
from bertology.measures.sums import HeadRatios, LayerSums, Scope
from bertology.probing import ControlNote, GeometryCounts, Probe
from bertology.readouts import get_readout, readout_kind
from bertology.results import ResultRow
from bertology.results.predictions import Kept, Stopwatch
from bertology.results.rows import ComparisonRow, comparison_rows, counterpart

_MATCHES = ("depth", "cka")


class _Comparison(WordsFamily[Any]):
    """Family of probes that compare a model with its reference, layer by layer."""

    def signals(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[Signal, ...]:
        return ("words",) if isinstance(probe, _probes.VectorComparison) else ()

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        if isinstance(probe, _probes.EncoderComparison):
            return own_readout(probe, asked, "encoders.v1", about="the models themselves")
        if isinstance(probe, _probes.AttentionComparison):
            return own_readout(probe, asked, "attention.v1", about="attention maps")
        if not isinstance(probe, _probes.VectorComparison):
            kinds = "derive it from VectorComparison, AttentionComparison or EncoderComparison"
            raise BertologyError(f"task {probe.task}: a {type(probe).__name__} is of no kind that is computed; {kinds}")
        configs = super().configs(probe, asked, shape)
        for config in configs:
            if (match := cast(_probes.VectorComparison, self.configured(probe, config)).match) not in _MATCHES:
                raise name_not_found(f"match of task {probe.task}", match, _MATCHES)
        return configs

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        reference = pair.reference
        if isinstance(probe, _probes.VectorComparison):
            super().check(pair, probe, configs)
        if isinstance(probe, _probes.AttentionComparison) and reference is not None:
            own, other = pair.shape.n_heads, reference.shape.n_heads
            if own != other:
                heads = f"{pair.source.title} has {own} heads in a layer, {reference.source.title} {other}"
                problem = f"{heads}: heads are compared in pairs, so both models need the same number"
                raise ModelError(f"task {probe.task}: {problem}")

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer, or the whole model; where layers are matched by content, cells depend on which are read."""
        layers, on_long = pair.layers_of(config), {"on_long": pair.request.on_long}
        if isinstance(probe, _probes.EncoderComparison):
            of_layers = () if probe.columns == "model" else layers
            return CellGrid(of_layers if probe.columns == "layers" else (*of_layers, None), of_layers, on_long)
        if isinstance(probe, _probes.AttentionComparison):
            with_heads = layers_with_heads(pair, layers, f"task {probe.task}: ")
            return CellGrid(with_heads, with_heads, on_long)
        grid, reference = super().cells(pair, probe, config, init), pair.reference
        asked = cast(_probes.VectorComparison, self.configured(probe, config))
        if reference is None or not (asked.compares_layers or asked.match != "depth"):
            return grid
        read = {"layers": list(layers), "reference_layers": list(reference.layers)}
        return replace(grid, identity={**grid.identity, **read})

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        watch, probe, other = Stopwatch(), self.configured(cells.probe, cells.config), _reference(job).pair
        of_vectors, pairs = isinstance(probe, _probes.VectorComparison), _pairs_by_depth(cells.layers_read, job)
        found: Sequence[LayerSums] | Sequence[HeadRatios]
        with named_task(probe):
            if isinstance(probe, _probes.VectorComparison):
                texts, layers = job.pair.texts(probe.reads), other.layers
                both = [one.unreadable for one in (job.pair, other)]
                unreadable = {name: ChainMap(*(dict(one.get(name, {})) for one in both)) for name in texts}
                items, n_clusters = items_read(probe, texts, unreadable)
                words, counts = items.words.items(), items.counts
                model = {name: job.vectors(name, cells.layers_read, of_split) for name, of_split in words}
                reference = {name: _reference(job).vectors(name, layers, of_split) for name, of_split in words}
                # On one thread every engine computes the same bits.
                with threadpool_limits(1):
                    if probe.match != "depth":  # by likeness on dev, or on test where there is no dev
                        split = "dev" if "dev" in model and len(model["dev"]) else "test"
                        pairs = most_alike(model[split], reference[split])
                    found = list(probe.statistics(model, reference, texts, layers=pairs))
            elif isinstance(probe, _probes.AttentionComparison):
                found, counts, n_clusters = _measure_attention(probe, job, pairs)
            else:
                texts, on_long = job.pair.texts(probe.reads), cast(OnLong, job.pair.request.on_long)
                models = job.get_encoder(), _reference(job).get_encoder()
                pair = _probes.EncoderPair(*models, texts, pairs, on_long, job.progress)
                found = list(cast(_probes.EncoderComparison, probe).measure(pair))
                test = texts.get("test", Sentences())
                counts, n_clusters = GeometryCounts(test.n_words), len(test)
        device = "cpu" if of_vectors else job.device
        write_sums(
            cells,
            job,
            {"test": found},
            counts,
            n_clusters=n_clusters,
            provenance=watch.provenance(*PACKAGES, device=device, n_cells=len(cells.cells)),
            params={**_reference_params(other), "clusters": "sentences"},
            layer_params={layer: {"reference_layer": of_reference} for layer, of_reference in pairs},
            aligned=job.pair.alignment_counts(leaves_out=of_vectors, beside=other),
        )

    def rows(self, draws: Sequence[FitCells], scoring: Scoring) -> TaskRows:
        """Every statistic of every head or layer, then those of the whole model, which are not compared with layers."""
        if isinstance(draws[0].probe, _probes.AttentionComparison):
            return head_rows(self, draws[0], scoring)
        parts = []
        for is_layer in (True, False):
            of_part = [
                replace(one, cells={key: cell for key, cell in one.cells.items() if (key[2] is not None) == is_layer})
                for one in draws
            ]
            if of_part[0].cells:
                parts.append(super().rows(of_part, scoring))
        rows = tuple(row for part in parts for row in part.rows)
        return TaskRows(rows, tuple(row for part in parts for row in part.comparisons))


def _reference(job: Resources) -> Resources:
    assert job.reference is not None
    return job.reference


def _pairs_by_depth(layers: Sequence[int], job: Resources) -> tuple[tuple[int, int], ...]:
    """Each layer with that of the same number, or where depths differ of the same relative depth."""
    depths = job.pair.shape.n_layers, _reference(job).pair.shape.n_layers
    return tuple((layer, counterpart(layer, *depths)) for layer in layers)


def _reference_params(reference: ModelCorpus) -> dict[str, Any]:
    """The parameters of rows that name the reference."""
    weights = reference.fingerprints[reference.weights]
    return {"reference": reference.source.name, "reference_fingerprint": weights}


def _measure_attention(
    probe: _probes.AttentionComparison, job: Resources, pairs: tuple[tuple[int, int], ...]
) -> tuple[Sequence[HeadRatios], GeometryCounts, int]:
    """Statistics of the maps of each head in the same sentences, and their mean over the heads of a layer."""
    text, model, reference = job.pair.splits.test, job.get_encoder(), _reference(job).get_encoder()
    scope = Scope(len(text), tuple(layer for layer, _ in pairs), model.n_heads, "word")
    clusters, n_words, n_sentences = scope.clusters(np.arange(len(text))), 0, 0
    over, under = dict[str, NDArray[np.float64]](), dict[str, NDArray[np.float64]]()
    on_long = cast(OnLong, job.pair.request.on_long)
    for maps in attention.paired_maps(model, reference, text, layers=pairs, on_long=on_long, progress=job.progress):
        cluster = int(clusters[maps.sentence])
        for name, (numerator, denominator) in probe.of_sentence(maps.model, maps.reference).items():
            shape = len(scope.layers), scope.n_heads, scope.n_clusters
            over.setdefault(name, np.zeros(shape))[..., cluster] += numerator
            under.setdefault(name, np.zeros(scope.n_clusters))[cluster] += denominator
        n_words += maps.model.shape[2]
        n_sentences += 1
    if not n_words:
        raise CorpusError("no sentence has words whose attention can be compared: give other sentences")
    names, numerators = tuple(over), np.stack(list(over.values()))  # [metric, layer, head, cluster]
    denominators = np.stack(list(under.values()))[:, None, None]
    means = numerators.mean(axis=2, keepdims=True)
    of_heads = HeadRatios(names, scope.layers, numerators, denominators)
    of_layers = HeadRatios(names, scope.layers, means, denominators, unit="layer")
    left = text.n_words - n_words
    skipped = {"in a sentence that is not read whole by both models": left} if left else {}
    return (of_heads, of_layers), GeometryCounts(n_words, skipped=skipped), n_sentences


FAMILY = _Comparison()


# Frozen readouts: fitted to the reference's vectors, applied to the model's, next to readouts fitted to the model.

_CONTROLS = ("none", "rescaled", "refit", "reference")
"""The frozen readout on the model; on its vectors with mean and spread of the reference's in each dimension, of the
training items; a readout fitted to the model; the frozen one on the reference."""
_NOTES = (
    ControlNote("rescaled", "rescaled", "the frozen readout on vectors with the reference's mean and spread"),
    ControlNote("refit", "refitted", "a readout fitted to the model itself"),
    ControlNote("reference", "reference", "the frozen readout on the reference, to which it was fitted"),
)
_CHANGES = {
    "scale_change": ("rescaled", "none"),
    "form_change": ("refit", "rescaled"),
    "content_change": ("reference", "refit"),
}
"""The two scores whose difference each metric is."""


class _Frozen(VectorFamily):
    """How well does a readout fitted to one model predict from the vectors of another?"""

    about, readouts, count_kinds = LABELS.about, LABELS.readouts, LABELS.count_kinds
    has_control_task = False

    def configs(self, probe: Probe, asked: Sequence[ReadoutConfig], shape: ModelShape) -> tuple[ReadoutConfig, ...]:
        """Readout configurations of the task that read one layer and predict labels."""
        assert isinstance(probe, _probes.ReadoutComparison)
        if probe.of.family != "labels":
            raise BertologyError(f"task {probe.task}: the task after the colon has no labels of words or spans")
        configs = LABELS.configs(probe.of, asked, shape)
        for config in configs:
            if readout_kind(str(config.readout)).columns != "layer":
                problem = f"{config.readout} mixes layers, of which a frozen readout reads one: take {probe.of.readout}"
                raise BertologyError(f"task {probe.task}: {problem}")
            if config.of_labels:
                raise BertologyError(
                    f"task {probe.task}: a frozen readout predicts labels: leave {config.of_labels} out"
                )
        return configs

    def check(self, pair: ModelCorpus, probe: Probe, configs: Sequence[ReadoutConfig]) -> None:
        _check_widths(pair, probe)
        LABELS.check(pair, _of(probe), configs)

    def identity(self, pair: ModelCorpus, probe: Probe) -> dict[str, Any]:
        """The identity of the task whose labels are predicted, with its version."""
        return {**LABELS.identity(pair, _of(probe)), "of_version": _of(probe).version}

    def cells(self, pair: ModelCorpus, probe: Probe, config: ReadoutConfig, init: Init) -> CellGrid:
        """Every layer: of the frozen readout, of one fitted anew, and of the reference itself."""
        return replace(LABELS.cells(pair, _of(probe), config, init), controls=_CONTROLS)

    def controls(self, probe: Probe) -> tuple[ControlNote, ...]:
        return _NOTES

    def compute_cells(self, cells: FitCells, job: Resources) -> None:
        """Fit a readout to each model, all layers and seeds at once, and write the cells of all four scores."""
        _check_widths(job.pair, cells.probe)
        watch, other = Stopwatch(), _reference(job)
        pairs = _pairs_by_depth(cells.layers_read, job)
        problems = [Problem("none", seed) for seed in dict.fromkeys(problem.seed for problem in cells.problems)]
        of_task = replace(cells, probe=_of(cells.probe))
        of_reference = replace(of_task, layers_read=tuple(layer for _, layer in pairs))
        # The items of the task that both models can read.
        data = readable(of_task, job).without(other.pair.unreadable, other.pair.joined)

        def vectors(of: FitCells, where: Resources, split: str) -> Any:
            return vectors_of(of, data, where, split, memory=job.memory // 2 if split == "train" else 0)

        def fit(of: FitCells, where: Resources) -> Any:
            readout = get_readout(cells.readout, **cells.config.settings)
            targets = targets_of(data, problems, "train", fraction=cells.config.fraction)
            dev, dev_targets = vectors(of, where, "dev"), targets_of(data, problems, "dev")
            train = vectors(of, where, "train")
            return readout.fit(
                train, targets, dev=dev, dev_targets=dev_targets, device=job.device, progress=job.progress.say
            )

        frozen, refitted = fit(of_reference, other), fit(of_task, job)
        job.progress.finish()
        test = vectors(of_task, job, "test")
        trains = (vectors(*which, "train") for which in ((of_task, job), (of_reference, other)))
        own, others = map(readouts.erasure.moments, trains)
        predicted = {
            "none": (frozen, frozen.predict(test)),
            "rescaled": (frozen, frozen.predict(readouts.erasure.rescaled(test, own, others))),
            "refit": (refitted, refitted.predict(test)),
            "reference": (frozen, frozen.predict(vectors(of_reference, other, "test"))),
        }
        provenance = watch.provenance(*PACKAGES, "scikit-learn", device=job.device, n_cells=len(cells.cells))
        writer = CellWriter(cells, data, job, provenance, reference=other.pair)
        for (control, seed, layer), cell in cells.cells.items():
            fitted, answers = predicted[control]
            at = problems.index(Problem("none", seed)), cells.layers.index(layer)
            params = {"strength": float(fitted.report.chosen[at]), **_reference_params(other.pair)}
            params["reference_layer"] = dict(pairs)[int(layer or 0)]
            kept = data.predictions(data.test.codes, answers.labels[at], answers.log_prob[at])
            writer.add(cell, kept, seed, params, n_params=fitted.n_params)
        writer.finish()

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        return LABELS.count(run, ids, metrics)

    def metrics(self, probe: Probe) -> Mapping[str, Sequence[Metric]]:
        return dict.fromkeys(_CONTROLS, probe.scores)

    def more_rows(
        self, cells: FitCells, control: str, by_control: ByControl, shared: Sequence[Mapping[str, Any]]
    ) -> Iterator[ResultRow]:
        """Differences between the scores of the frozen, rescaled and refitted readouts and that on the reference."""
        if control != "none":
            return
        metric = cells.probe.scores[0].name
        for name, (one, less) in _CHANGES.items():
            columns = []
            for frozen, more, fewer in zip(by_control["none"], by_control[one], by_control[less], strict=True):
                scores = {
                    seed: {name: difference(more[seed].scores[metric], fewer[seed].scores[metric], metric=name)}
                    for seed in frozen
                }
                columns.append({seed: replace(of, scores=scores[seed], by_group={}) for seed, of in frozen.items()})
            yield from run_rows(columns, shared, "none")

    def more_comparisons(self, cells: FitCells, columns: Columns, scoring: Scoring) -> Iterator[ComparisonRow]:
        """The four scores of each layer with each other."""
        pair, metric, reference = scoring.pair, cells.probe.scores[0].name, scoring.pair.reference
        assert reference is not None
        scores = [
            over_runs([column.scores[metric] for (of, _), column in columns.items() if of == control])
            for control in _CONTROLS
        ]
        n, places = len(cells.layers), list(itertools.combinations(range(len(_CONTROLS)), 2))
        by_run = [one.by_run for one in scores if one.by_run is not None]
        compared = compare(
            np.concatenate([one.values for one in scores]),
            np.concatenate([one.replicates for one in scores], axis=1),
            n_clusters=scores[0].n_clusters,
            by_run=np.concatenate(by_run, axis=1) if by_run else None,
            pairs=[(a * n + layer, b * n + layer) for layer in range(n) for a, b in places],
        )
        first = min(seed for _, seed in columns)
        family = f"{cells.probe.task} on {pair.corpus.name}: {pair.source.name} and {reference.source.name} by {metric}"
        if len(pair.request.configs_of(cells.probe.task)) > 1:
            family += f", {cells.config.title}"
        ids = [cell.id for control in _CONTROLS for cell in columns[Problem(control, first)].cells]
        layers = [layer for _ in _CONTROLS for layer in cells.layers if layer is not None]
        yield from comparison_rows(compared, family=family, metric=metric, cells=ids, layers=layers)


def _of(probe: Probe) -> Any:
    """The task whose labels are predicted."""
    assert isinstance(probe, _probes.ReadoutComparison)
    return probe.of


def _check_widths(pair: ModelCorpus, probe: Probe) -> None:
    if pair.reference is not None and pair.shape.dim != pair.reference.shape.dim:
        widths = f"vectors of {pair.reference.source.title} have {pair.reference.shape.dim} dimensions"
        problem = f"{widths}, those of {pair.source.title} {pair.shape.dim}"
        raise ModelError(f"task {probe.task}: {problem}: a readout can be put to vectors of its own width alone")


FROZEN = _Frozen()
