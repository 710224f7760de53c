"""Groups of cells that find trees: fit all layers and ranks at once, build the trees, keep them and the probes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertology.activations import Entry, Progress
from bertology.families.cells import KEPT, Stopwatch, versions, write_cell
from bertology.families.items import ItemColumns, Problem, counts_of, weights_of
from bertology.families.readable import skipped_words
from bertology.families.task_data import SPAN_MEMORY, TaskData, task_data
from bertology.families.tasks import BaselineCells, FitCells, FitGroup, Job, Pair
from bertology.families.trees._marks import (
    ROOT,
    marks_of_tree,
    most_frequent_relation,
    put_at,
    relations_in,
    row_correlations,
    words_left_out,
    words_of,
)
from bertology.measures import spanning_trees, tree_depths, tree_distances
from bertology.probing import TreeExamples

if TYPE_CHECKING:
    from bertology.readouts import FittedAffine, FittedStructural, StructuralReadout


@dataclass(frozen=True)
class PredictedTrees:
    """Trees that linear maps predict for the sentences of a split: by problem, layer and sentence."""

    marks: list[list[list[str]]]
    """Trees as text (see :mod:`bertology.measures`)."""
    agreement: NDArray[np.float64]
    """Spearman's correlation of distances by word, or of depths, over all words; NaN where neither is asked."""


@dataclass(frozen=True)
class TreeFit:
    """Everything that a fit of trees goes by."""

    members: Sequence[FitCells]
    """Alike but for the rank of their readouts."""
    data: TaskData
    trees: Mapping[str, TreeExamples]
    entries: Mapping[str, Entry]
    device: str
    progress: Progress
    memory: int
    """Bytes of the training vectors that are kept between passes."""

    @cached_property
    def problems(self) -> list[Problem]:
        """The task itself under each seed."""
        return list(dict.fromkeys(Problem(control, seed) for control, seed, _ in self.members[0].cells))

    def fit(self) -> list[_Fitted]:
        """Fit every group, all in the same passes."""
        asks = self.trees["train"].asks
        distances = self._structural("distances") if asks in ("distances", "arcs") else None
        depths = self._structural("depths") if asks in ("depths", "arcs") else None
        relations = self._relations() if asks == "arcs" else None
        self.progress.finish()
        return [
            _Fitted(
                None if distances is None else distances[place],
                None if depths is None else depths[place],
                relations,
                self.relation_names,
            )
            for place in range(len(self.members))
        ]

    def _structural(self, asks: Any) -> list[FittedStructural]:
        from bertology.readouts import TreeTargets, fit_ranks

        readouts = [_readout(cells) for cells in self.members]
        fraction = self.members[0].config.fraction
        weights = None
        if fraction < 1 or any(problem.seed for problem in self.problems):
            drawn = [weights_of(self.data, problem.seed, fraction, resampled=True) for problem in self.problems]
            weights = np.stack(drawn)
        values = {split: _values(trees, asks) for split, trees in self.trees.items()}
        return fit_ranks(
            readouts,
            self._train,
            TreeTargets(asks, values["train"], weights),
            dev=self.source("dev"),
            dev_targets=TreeTargets(asks, values["dev"]),
            device=self.device,
            progress=self.progress.say,
        )

    @cached_property
    def _train(self) -> Any:
        """Read for distances and depths alike; what it keeps in memory serves both."""
        return self.source("train")

    def source(self, split: str) -> Any:
        """The words of a split's sentences."""
        from bertology.activations import SpanVectors

        memory = self.memory if split == "train" else 0
        spans, layers = self.trees[split].spans, self.members[0].layers_read
        return SpanVectors(self.entries[split], spans, layers=layers, memory=memory, only_read=True)

    @cached_property
    def relation_names(self) -> tuple[str, ...]:
        """The relations of the training words, but for the root's, which needs no reading."""
        trees = self.trees["train"]
        relations = (relations_in(trees.values[code]) for code in np.unique(trees.codes).tolist())
        return tuple(sorted({name for names in relations for name in names if name not in ("", ROOT)}))

    def _relations(self) -> FittedAffine:
        """Relations of words to their heads, by logistic regression on the words' own vectors."""
        from bertology.activations import WordVectors
        from bertology.readouts import LinearReadout, Targets

        number = {name: place for place, name in enumerate(self.relation_names)}
        parts: dict[str, tuple[Any, Any]] = {}
        for split in ("train", "dev"):
            trees = self.trees[split]
            by_sentence = [relations_in(trees.values[code]) for code in trees.codes.tolist()]
            names = [name for sentence in by_sentence for name in sentence]
            words, of_word = words_of(trees)
            labels = np.array([number.get(name, -1) for name in names], dtype=np.int64)
            is_read = trees.read[words]
            words, of_word, labels = words[is_read], of_word[is_read], labels[is_read]
            weights = None
            if split == "train":
                fraction = self.members[0].config.fraction
                drawn = [weights_of(self.data, one.seed, fraction, resampled=True) for one in self.problems]
                weights = np.stack(drawn)[:, of_word]
            vectors = WordVectors(
                self.entries[split], words, layers=self.members[0].layers_read, memory=self.memory // 2
            )
            stacked = np.repeat(labels[None], len(self.problems), axis=0)
            parts[split] = vectors, Targets(stacked, len(number), weights)
        (train, targets), (dev, dev_targets) = parts["train"], parts["dev"]
        return LinearReadout(extensions=0).fit(
            train, targets, dev=dev, dev_targets=dev_targets, device=self.device, progress=self.progress.say
        )


@dataclass(frozen=True)
class _Fitted:
    """The maps of one rank, of all problems and layers."""

    distances: FittedStructural | None
    depths: FittedStructural | None
    relations: FittedAffine | None
    relation_names: tuple[str, ...]

    @property
    def maps(self) -> list[FittedStructural]:
        """Those there are."""
        return [one for one in (self.distances, self.depths) if one is not None]

    @property
    def n_params(self) -> int:
        """Trained parameters of one layer for one problem."""
        return sum(one.n_params for one in self.maps) + (self.relations.n_params if self.relations else 0)

    def read(self, fit: TreeFit, split: str) -> PredictedTrees:
        """The trees of a split's sentences."""
        trees = fit.trees[split]
        shape = (len(fit.problems), len(fit.members[0].layers))
        relations = self._read_relations(fit, split)
        marks = [[[""] * len(trees) for _ in range(shape[1])] for _ in range(shape[0])]
        agreement = np.full((*shape, len(trees)), np.nan)
        for item, distances, depths in self._maps_read(fit, split):
            first, last = trees.spans[item, 0].tolist()
            heads, scored = trees.heads[first:last], trees.scored[first:last]
            words = np.flatnonzero(trees.read[first:last])
            if trees.asks == "distances" and distances is not None:
                agreement[:, :, item] = row_correlations(distances, _values_of(trees, item, "distances"))
            elif trees.asks == "depths" and depths is not None:
                agreement[:, :, item] = row_correlations(depths[..., None, :], _values_of(trees, item, "depths")[None])
            edges = None
            if distances is not None:
                flat = distances.reshape(-1, len(words), len(words))
                edges = [
                    [(int(words[a]), int(words[b])) for a, b in tree]
                    for tree in spanning_trees(flat, scored[words].tolist())
                ]
            for problem, layer in np.ndindex(*shape):
                marks[problem][layer][item] = marks_of_tree(
                    heads,
                    scored,
                    None if edges is None else edges[problem * shape[1] + layer],
                    None if depths is None else put_at(depths[problem, layer], words, np.full(len(heads), np.inf)),
                    None if relations is None else put_at(relations[problem][layer][item], words, [""] * len(heads)),
                )
        return PredictedTrees(marks, agreement)

    def _maps_read(self, fit: TreeFit, split: str) -> Iterator[tuple[int, NDArray[Any] | None, NDArray[Any] | None]]:
        """Sentence by sentence its number, distances and depths, by problem and layer."""
        if self.distances is not None and self.depths is not None:
            both = zip(self.distances.read(fit.source(split)), self.depths.read(fit.source(split)), strict=True)
            yield from ((item, distances, depths) for (item, distances), (_, depths) in both)
        elif self.distances is not None:
            yield from ((item, distances, None) for item, distances in self.distances.read(fit.source(split)))
        elif self.depths is not None:
            yield from ((item, None, depths) for item, depths in self.depths.read(fit.source(split)))

    def _read_relations(self, fit: TreeFit, split: str) -> list[list[list[list[str]]]] | None:
        """By problem, layer and sentence the relation of each word."""
        from bertology.activations import WordVectors

        if self.relations is None:
            return None
        words, of_word = words_of(fit.trees[split])
        is_read = fit.trees[split].read[words]
        words, of_word = words[is_read], of_word[is_read]
        vectors = WordVectors(fit.entries[split], words, layers=fit.members[0].layers_read, memory=0)
        cuts = np.flatnonzero(np.diff(of_word)) + 1
        names = np.array(self.relation_names)
        labels = self.relations.predict(vectors).labels
        return [[[part.tolist() for part in np.split(names[row], cuts)] for row in problem] for problem in labels]


def fit_trees(group: FitGroup, job: Job) -> None:
    """Fit all ranks, layers and seeds of a group at once, and write their cells and probes.

    Args:
        group: readout configurations that differ in nothing but their rank.
        job: with the stored vectors of every split.
    """
    watch = Stopwatch()
    data = task_data(group.probe, job.pair.splits)
    data = data.without({split: skipped_words(entry) for split, entry in job.entries.items()})
    trees = trees_of(data)
    fit = TreeFit(group.members, data, trees, job.entries, job.device, job.progress, SPAN_MEMORY // job.side_by_side)
    fitted = fit.fit()
    columns = ItemColumns(data)
    gold = [data.test.values[code] for code in data.test.codes.tolist()]
    left_out = words_left_out(trees["test"])
    provenance = watch.provenance(
        "torch", "transformers", "numpy", "scipy", device=job.device, n_cells=len(group.cells)
    )
    for cells, maps in zip(group.members, fitted, strict=True):
        predicted = maps.read(fit, "test")
        for number, problem in enumerate(fit.problems):
            counts = counts_of(data, seed=problem.seed, fraction=cells.config.fraction)
            for place, layer in enumerate(cells.layers):
                cell = cells.cells[problem.control, problem.seed, layer]
                _probe_of(job.pair, cells, maps, number, place).save(job.run / KEPT / cell.id)
                write_cell(
                    job.run,
                    cell,
                    columns.texts(gold, predicted.marks[number][place], predicted.agreement[number, place]),
                    facts={
                        **counts,
                        "n_params": maps.n_params,
                        "params": {**left_out, **_params(cells, maps, number, place)},
                    },
                    provenance=provenance,
                    notes=data.splits.notes,
                )
        if note := _unconverged(cells, maps):
            job.progress.note(note)


def trees_of(data: TaskData) -> dict[str, TreeExamples]:
    """By split the items of a task that is about trees."""
    trees = {}
    for split, examples in data.items.items():
        assert isinstance(examples, TreeExamples)
        trees[split] = examples
    return trees


def write_chains(baselines: BaselineCells, job: Job) -> None:
    """Compute the baseline of trees, neighbouring words in a chain from the first one on, and write it.

    Distances are those in the sentence, depths the words' places; in a tree punctuation is passed over, and the
    relation to the word before is the most frequent one (Hewitt & Manning 2019, section 4.1).
    """
    data = task_data(baselines.probe, job.pair.splits).without(baselines.unreadable)
    splits = trees_of(data)
    trees = splits["test"]
    relation = most_frequent_relation(splits["train"]) if trees.asks == "arcs" else None
    pred: list[str] = []
    agreement = np.full(len(trees), np.nan)
    for item, (first, last) in enumerate(trees.spans[:, 0].tolist()):
        heads, scored = trees.heads[first:last], trees.scored[first:last]
        places, words = np.arange(len(heads)), np.flatnonzero(trees.read[first:last])
        between = np.abs(places[:, None] - places)
        if trees.asks == "distances":
            agreement[item] = row_correlations(between[np.ix_(words, words)], _values_of(trees, item, "distances"))
        elif trees.asks == "depths":
            agreement[item] = row_correlations(places[words][None], _values_of(trees, item, "depths")[None])
        depths = places.astype(np.float64) if trees.asks != "distances" else None
        names = None if relation is None else [relation] * len(heads)
        edges = None if trees.asks == "depths" else spanning_trees(between[None], scored.tolist())[0]
        pred.append(marks_of_tree(heads, scored, edges, depths, names))
    gold = [trees.values[code] for code in trees.codes.tolist()]
    for cell in baselines.cells.values():
        write_cell(
            job.run,
            cell,
            ItemColumns(data).texts(gold, pred, agreement),
            facts={**counts_of(data), "params": words_left_out(trees)},
            provenance={"versions": versions("numpy", "scipy"), "wall_s": 0.0},
            notes=data.splits.notes,
        )


def _readout(cells: FitCells) -> StructuralReadout:
    from bertology.readouts import StructuralReadout, make_readout

    readout = make_readout(cells.readout, **cells.config.settings)
    assert isinstance(readout, StructuralReadout)
    return readout


def _values(trees: TreeExamples, asks: str) -> list[NDArray[np.int64]]:
    """For each sentence what is true of its words that have vectors."""
    return [_values_of(trees, item, asks) for item in range(len(trees))]


def _values_of(trees: TreeExamples, item: int, asks: str) -> NDArray[np.int64]:
    """``[word, word]`` distances or ``[word]`` depths, in the whole tree of a sentence, of words that have vectors."""
    first, last = trees.spans[item, 0].tolist()
    words, heads = np.flatnonzero(trees.read[first:last]), trees.heads[first:last].tolist()
    return tree_distances(heads)[np.ix_(words, words)] if asks == "distances" else tree_depths(heads)[words]


def _unconverged(cells: FitCells, maps: _Fitted) -> str | None:
    """One line on the fits whose dev loss was still falling when they had no epochs left."""
    left = [
        str(layer)
        for place, layer in enumerate(cells.layers)
        if not all(one.converged[:, place].all() for one in maps.maps)
    ]
    if not left:
        return None
    which = f"{cells.probe.task}, {'pretrained' if cells.init == 'pretrained' else cells.init.replace('_', ' ')}"
    many = "s" * (len(left) > 1)
    return f"{which}, rank {maps.maps[0].rank}: dev losses that were still falling in the last epoch: layer{many} " + (
        ", ".join(left)
    )


def _params(cells: FitCells, maps: _Fitted, problem: int, layer: int) -> dict[str, Any]:
    """What there is to know of one fit."""
    params: dict[str, Any] = {
        "rank": maps.maps[0].rank,
        "converged": all(bool(one.converged[problem, layer]) for one in maps.maps),
        "dev_loss": {one.asks: round(float(one.dev_loss[problem, layer]), 6) for one in maps.maps},
        "epochs": {one.asks: int(one.epochs[problem, layer]) for one in maps.maps},
    }
    if cells.config.changes:
        params["settings"] = cells.config.changes
    return params


def _probe_of(pair: Pair, cells: FitCells, maps: _Fitted, problem: int, place: int) -> Any:
    """The probe of one cell, to be kept."""
    import torch

    from bertology.readouts import ProbeOrigin, TreeProbe

    distance, depth = (None if one is None else one.maps[problem, place] for one in (maps.distances, maps.depths))
    relation = None
    if maps.relations is not None:
        regression = maps.relations.model
        coefficients, intercepts = (of[problem, place, 0] for of in (regression.coefficients, regression.intercepts))
        relation = torch.cat([coefficients.T, intercepts[None]])
    layer = cells.layers[place]
    assert layer is not None
    origin = ProbeOrigin(
        model=pair.source.name,
        model_fingerprint=pair.fingerprints[cells.weights],
        layer=layer,
        dim=maps.maps[0].dim,
        pooling=pair.request.pooling,
        task=f"{cells.probe.task}.v{cells.probe.version}",
        corpus=pair.corpus.name,
        train_fingerprint=pair.splits.train.fingerprint,
        readout=cells.readout,
        relations=maps.relation_names if maps.relations is not None else (),
        settings=dict(cells.config.changes),
    )
    return TreeProbe(origin, distance, depth, relation)
