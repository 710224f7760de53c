"""Trees of whole sentences: structural probes, and the trees that their distances and depths make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertology.families.cells import KEPT, Stopwatch
from bertology.families.contract import Cost, Counts, FitCells, FitGroup, Problem, Resources, one_by_one
from bertology.families.model_corpus import ModelCorpus
from bertology.families.request import ReadoutConfig
from bertology.families.vectors import (
    Baseline,
    CellWriter,
    ItemColumns,
    TaskData,
    VectorFamily,
    task_data,
    training_memory,
    weights_of,
)
from bertology.measures import RELATION, UNSCORED, Metric, rooted, tree_depths, tree_distances
from bertology.measures.metrics import count_trees
from bertology.measures.trees import spanning_trees
from bertology.probing import ControlNote, Probe
from bertology.probing.items import TreeExamples
from bertology.readouts import ReadoutKind
from bertology.results.predictions import Kept, read_labels, read_scores

if TYPE_CHECKING:
    from bertology.readouts import FittedAffine, FittedStructural, StructuralReadout


# Passes over the data that a fit takes, roughly, and the rank unless another is asked for.
_EPOCHS, _RANK = 30, 64
_CHAIN = ControlNote("linear_chain", "linear chain", "each word joined to the one before it, punctuation passed over")


_ASKS: Mapping[str, tuple[Literal["distances", "depths"], ...]] = {
    "distances": ("distances",),
    "depths": ("depths",),
    "arcs": ("distances", "depths"),
}
"""The maps that are fitted, by what is asked about."""
_Reading = tuple[int, NDArray[Any] | None, NDArray[Any] | None]
"""Number of a sentence, its ``[problem, layer, word, word]`` distances and ``[problem, layer, word]`` depths."""


class _Trees(VectorFamily):
    """Is the tree of a sentence in the geometry of its words' vectors, and in which layer?"""

    about, readouts, count_kinds = "trees", ("trees",), ("edges", "roots", "arcs")
    baseline_packages = ("numpy", "scipy")
    has_control_task = False

    def config_problem(self, kind: ReadoutKind, config: ReadoutConfig) -> str:
        if config.codelength is not None or config.erase is not None or config.pool != "mean":
            return "trees have no codelength here, nothing is erased before them, and no words are pooled"
        return ""

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        return (_CHAIN,)

    def compute(self, groups: Sequence[FitGroup], job: Resources) -> Iterator[tuple[FitGroup, Exception | None]]:
        """Fit all ranks, layers and seeds of a group at once."""
        return one_by_one(groups, lambda group: fit_trees(group, job))

    def baseline(self, data: TaskData, columns: ItemColumns, control: str) -> Baseline:
        """Join neighbouring words in a chain from the first one on.

        Distances are those in the sentence, depths the words' places; in a tree punctuation is passed over, and the
        relation to the word before is the most frequent one (Hewitt & Manning 2019, section 4.1).
        """
        splits = _trees_of(data)
        trees, chains = splits["test"], list[_Reading]()
        for item, (first, last) in enumerate(trees.spans[:, 0].tolist()):
            words = np.flatnonzero(trees.read[first:last])[None, None]  # [problem, layer, word]
            between = np.abs(words[..., None] - words[..., None, :])
            reads = (between, None) if trees.asks == "distances" else (None, words)
            chains.append((item, *((between, words) if trees.asks == "arcs" else reads)))
        relations = None
        if trees.asks == "arcs":
            relation = _most_frequent_relation(splits["train"])
            relations = [[[[relation] * words.size for _, _, words in chains if words is not None]]]
        marks, agreement = _tree_texts(trees, (1, 1), chains, relations)
        gold = [trees.values[code] for code in trees.codes.tolist()]
        return columns.texts(gold, marks[0][0], agreement[0, 0]), {"params": _words_left_out(trees)}, {}

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        """Edges, depths or arcs that gold and predicted trees share."""
        kept = read_labels(run, ids)
        agreement, _ = read_scores(run, ids)
        return count_trees(kept.gold, kept.pred, kept.labels, agreement, count_kind=metrics[0].count_kind)

    def cost(self, pair: ModelCorpus, groups: Sequence[FitGroup]) -> Cost:
        """Epochs over the training words, by rank."""
        data = task_data(groups[0].probe, pair.splits)
        spans = data.train.spans[:, 0]
        n_words = int((spans[:, 1] - spans[:, 0]).sum())
        flops = sum(
            4.0 * _EPOCHS * n_words * pair.shape.dim * int(cells.config.settings.get("rank", _RANK)) * len(cells.cells)
            for group in groups
            for cells in group.members
        )
        return Cost(flops, training_memory(pair, len(data.train)), len(data.test))


@dataclass(frozen=True)
class _TreeFit:
    """Readout configurations that differ in nothing but their rank, and what they are fitted to."""

    members: Sequence[FitCells]
    data: TaskData
    trees: Mapping[str, TreeExamples]
    job: Resources

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The task itself under each seed."""
        return self.members[0].problems

    def fit(self) -> list[_Fitted]:
        """Fit every rank, all in the same passes."""
        from bertology.readouts import TreeTargets, fit_ranks

        train, dev = self.trees["train"], self.trees["dev"]
        is_weighted = self.members[0].config.fraction < 1 or any(problem.seed for problem in self.problems)
        weights = self._weights() if is_weighted else None
        # Read for distances and depths alike; what is kept in memory serves both.
        source = self.source("train", memory=self.job.memory)
        maps: list[dict[str, FittedStructural]] = [{} for _ in self.members]
        for asks in _ASKS[train.asks]:
            fitted = fit_ranks(
                [_readout(cells) for cells in self.members],
                source,
                TreeTargets(asks, [_values_of(train, item, asks) for item in range(len(train))], weights),
                dev=self.source("dev"),
                dev_targets=TreeTargets(asks, [_values_of(dev, item, asks) for item in range(len(dev))]),
                device=self.job.device,
                progress=self.job.progress.say,
            )
            for of_rank, one in zip(maps, fitted, strict=True):
                of_rank[asks] = one
        relations = self._relations() if train.asks == "arcs" else None
        self.job.progress.finish()
        return [_Fitted(self, of_rank, relations) for of_rank in maps]

    def _weights(self) -> NDArray[np.float32]:
        """``[problem, sentence]`` how often each training sentence counts."""
        fraction = self.members[0].config.fraction
        return np.stack([weights_of(self.data, problem.seed, fraction, resampled=True) for problem in self.problems])

    def source(self, split: str, *, memory: int = 0) -> Any:
        """The words of a split's sentences."""
        from bertology.activations import SpanVectors

        trees, layers = self.trees[split], self.members[0].layers_read
        return SpanVectors(self.job.entries[split], trees.spans, layers=layers, memory=memory, read=trees.read)

    def words(self, split: str, *, memory: int) -> tuple[Any, NDArray[np.bool_], NDArray[np.int64]]:
        """The vectors of the words that have one, which of a split's words these are, and the sentence of each."""
        from bertology.activations import WordVectors

        words, of_word = _words_of(self.trees[split])
        is_read = self.trees[split].read[words]
        layers = self.members[0].layers_read
        vectors = WordVectors(self.job.entries[split], words[is_read], layers=layers, memory=memory)
        return vectors, is_read, of_word[is_read]

    @cached_property
    def relation_names(self) -> tuple[str, ...]:
        """The relations of the training words, but for the root's, which needs no reading."""
        trees = self.trees["train"]
        relations = (_relations_in(trees.values[code]) for code in np.unique(trees.codes).tolist())
        return tuple(sorted({name for names in relations for name in names if name not in ("", ROOT)}))

    def _relations(self) -> FittedAffine:
        """Relations of words to their heads, by logistic regression on the words' own vectors."""
        from bertology.readouts import LinearReadout, Targets

        number = {name: place for place, name in enumerate(self.relation_names)}
        parts: list[tuple[Any, Targets]] = []
        for split in ("train", "dev"):
            trees = self.trees[split]
            names = [name for code in trees.codes.tolist() for name in _relations_in(trees.values[code])]
            vectors, is_read, of_word = self.words(split, memory=self.job.memory // 2)
            labels = np.array([number.get(name, -1) for name in names], dtype=np.int64)[is_read]
            weights = self._weights()[:, of_word] if split == "train" else None
            parts.append((vectors, Targets(np.repeat(labels[None], len(self.problems), axis=0), len(number), weights)))
        train, (dev, dev_targets) = parts
        shared: dict[str, Any] = {"device": self.job.device, "progress": self.job.progress.say}
        return LinearReadout(extensions=0).fit(*train, dev=dev, dev_targets=dev_targets, **shared)


@dataclass(frozen=True)
class _Fitted:
    """The maps of one rank, of all problems and layers."""

    fit: _TreeFit
    by_asks: Mapping[str, FittedStructural]
    """The maps of ``distances`` and ``depths``, of those that are asked about."""
    relations: FittedAffine | None

    @property
    def maps(self) -> list[FittedStructural]:
        """All maps."""
        return list(self.by_asks.values())

    @property
    def n_params(self) -> int:
        """Trained parameters of one layer for one problem."""
        return sum(one.n_params for one in self.maps) + (self.relations.n_params if self.relations else 0)

    def predict(self) -> tuple[list[list[list[str]]], NDArray[np.float64]]:
        """The trees of the test sentences as :func:`_tree_texts` gives them."""
        shape = len(self.fit.problems), len(self.fit.members[0].layers)
        return _tree_texts(self.fit.trees["test"], shape, self._read(), self._predicted_relations())

    def _read(self) -> Iterator[_Reading]:
        """The distances and depths of each sentence, by problem and layer."""
        read = [one.read(self.fit.source("test")) for one in self.maps]
        for parts in zip(*read, strict=True):
            values = {asks: value for asks, (_, value) in zip(self.by_asks, parts, strict=True)}
            yield parts[0][0], values.get("distances"), values.get("depths")

    def _predicted_relations(self) -> list[list[list[list[str]]]] | None:
        """The relation of each word, by problem, layer and sentence."""
        if self.relations is None:
            return None
        vectors, _, of_word = self.fit.words("test", memory=0)
        cuts = np.flatnonzero(np.diff(of_word)) + 1
        names = np.array(self.fit.relation_names)
        labels = self.relations.predict(vectors).labels
        return [[[part.tolist() for part in np.split(names[row], cuts)] for row in problem] for problem in labels]


def fit_trees(group: FitGroup, job: Resources) -> None:
    """Fit all ranks, layers and seeds of a group at once, and write their cells and probes."""
    watch = Stopwatch()
    data = task_data(group.probe, job.pair.splits).without(job.pair.unreadable)
    trees = _trees_of(data)
    fit = _TreeFit(group.members, data, trees, job)
    fitted = fit.fit()
    gold = [data.test.values[code] for code in data.test.codes.tolist()]
    left_out = _words_left_out(trees["test"])
    packages = ("torch", "transformers", "numpy", "scipy")
    provenance = watch.provenance(*packages, device=job.device, n_cells=len(group.cells))
    for cells, maps in zip(group.members, fitted, strict=True):
        writer = CellWriter(cells, data, job, provenance)
        marks, agreement = maps.predict()
        for number, problem in enumerate(fit.problems):
            for place, cell in enumerate(cells.cells_of(problem)):
                _probe_of(job.pair, cells, maps, number, place).save(job.run / KEPT / cell.id)
                kept = writer.columns.texts(gold, marks[number][place], agreement[number, place])
                params = {**left_out, **_params(maps, number, place)}
                writer.write(cell, kept, problem.seed, params, n_params=maps.n_params)
        if note := _unconverged(cells, maps):
            job.progress.note(note)


def _trees_of(data: TaskData) -> Mapping[str, TreeExamples]:
    """The items of each split, which are trees."""
    assert data.trees is not None
    return data.trees


def _tree_texts(
    trees: TreeExamples, shape: tuple[int, int], readings: Iterable[_Reading], relations: Sequence[Any] | None
) -> tuple[list[list[list[str]]], NDArray[np.float64]]:
    """The predicted trees of the sentences of test.

    Args:
        trees: the sentences.
        shape: numbers of problems and layers.
        readings: distances and depths of the words that have vectors.
        relations: by problem, layer and sentence the relations of these words to their heads, where they are asked for.

    Returns:
        By problem, layer and sentence trees as text (see :mod:`bertology.measures`); and Spearman's correlation of
        distances by word, or of depths, over all words, NaN where neither is asked.
    """
    marks = [[[""] * len(trees) for _ in range(shape[1])] for _ in range(shape[0])]
    agreement = np.full((*shape, len(trees)), np.nan)
    for item, distances, depths in readings:
        first, last = trees.spans[item, 0].tolist()
        heads, scored = trees.heads[first:last], trees.scored[first:last]
        words = np.flatnonzero(trees.read[first:last])
        if trees.asks == "distances" and distances is not None:
            agreement[:, :, item] = _row_correlations(distances, _values_of(trees, item, "distances"))
        elif trees.asks == "depths" and depths is not None:
            agreement[:, :, item] = _row_correlations(depths[..., None, :], _values_of(trees, item, "depths")[None])
        edges = None
        if distances is not None:
            spanning = spanning_trees(distances.reshape(-1, len(words), len(words)), scored[words].tolist())
            edges = [[(int(words[a]), int(words[b])) for a, b in tree] for tree in spanning]
        for problem, layer in np.ndindex(*shape):
            marks[problem][layer][item] = marks_of_tree(
                heads,
                scored,
                None if edges is None else edges[problem * shape[1] + layer],
                None if depths is None else _put_at(depths[problem, layer], words, np.full(len(heads), np.inf)),
                None if relations is None else _put_at(relations[problem][layer][item], words, [""] * len(heads)),
            )
    return marks, agreement


def _readout(cells: FitCells) -> StructuralReadout:
    from bertology.readouts import StructuralReadout, make_readout

    readout = make_readout(cells.readout, **cells.config.settings)
    assert isinstance(readout, StructuralReadout)
    return readout


def _values_of(trees: TreeExamples, item: int, asks: str) -> NDArray[np.int64]:
    """``[word, word]`` distances or ``[word]`` depths, in the whole tree of a sentence, of words that have vectors."""
    first, last = trees.spans[item, 0].tolist()
    words, heads = np.flatnonzero(trees.read[first:last]), trees.heads[first:last].tolist()
    return tree_distances(heads)[np.ix_(words, words)] if asks == "distances" else tree_depths(heads)[words]


def _unconverged(cells: FitCells, maps: _Fitted) -> str | None:
    """One line on the fits whose dev loss was still falling when they had no epochs left."""
    numbered = enumerate(cells.layers)
    left = [str(layer) for place, layer in numbered if not all(one.converged[:, place].all() for one in maps.maps)]
    if not left:
        return None
    fits = f"{cells.probe.task}, {cells.weights.init.replace('_', ' ')}, rank {maps.maps[0].rank}"
    layers = f"layer{'s' * (len(left) > 1)} {', '.join(left)}"
    return f"{fits}: dev losses that were still falling in the last epoch: {layers}"


def _params(maps: _Fitted, problem: int, layer: int) -> dict[str, Any]:
    """The parameters of one fit."""
    return {
        "rank": maps.maps[0].rank,
        "converged": all(bool(one.converged[problem, layer]) for one in maps.maps),
        "dev_loss": {one.asks: round(float(one.dev_loss[problem, layer]), 6) for one in maps.maps},
        "epochs": {one.asks: int(one.epochs[problem, layer]) for one in maps.maps},
    }


def _probe_of(pair: ModelCorpus, cells: FitCells, maps: _Fitted, problem: int, place: int) -> Any:
    """The probe of one cell, to be kept."""
    import torch

    from bertology.readouts import ProbeOrigin, TreeProbe

    found = {asks: one.maps[problem, place] for asks, one in maps.by_asks.items()}
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
        relations=maps.fit.relation_names if maps.relations is not None else (),
        settings=dict(cells.config.changes),
    )
    return TreeProbe(origin, found.get("distances"), found.get("depths"), relation)


ROOT = "root"
"""The relation of a root, which needs no reading."""


def marks_of_tree(
    heads: NDArray[np.int64],
    scored: NDArray[np.bool_],
    edges: Sequence[tuple[int, int]] | None,
    depths: NDArray[Any] | None,
    relations: Sequence[str] | None,
) -> str:
    """The predicted tree of one sentence as text: depths where there are no edges.

    A tree of distances has no direction; where no depth gives one, it is hung up at the root that gold has.
    """
    if edges is None:
        assert depths is not None
        # As many digits as tell a number from its neighbours: what is read back is the number itself.
        plain = [np.format_float_positional(depth, trim="0") for depth in depths]
        return " ".join(mark if counts else UNSCORED for mark, counts in zip(plain, scored.tolist(), strict=True))
    at = depths if depths is not None else np.abs(heads)  # of heads the root's is 0
    root = int(np.argmin(np.where(scored, at, np.inf)))
    tree = rooted(edges, root, n_words=len(heads))
    if relations is None:
        return " ".join(UNSCORED if head < 0 else str(head) for head in tree)
    return " ".join(
        UNSCORED if head < 0 else f"{head}{RELATION}{name if head else ROOT}"
        for head, name in zip(tree, relations, strict=True)
    )


def _row_correlations(predicted: NDArray[Any], gold: NDArray[np.int64]) -> NDArray[np.float64]:
    """``[…]`` Spearman's correlation of each row of ``[…, row, word]`` with gold's, their mean over rows.

    Of a row that is all alike nothing can be said, which is no correlation: 0.
    """
    from scipy.stats import rankdata

    ranks, true = (rankdata(values, axis=-1) for values in (predicted, gold))
    ranks, true = (ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (ranks, true))
    over = (ranks * true).sum(axis=-1)
    under = np.sqrt((ranks**2).sum(axis=-1) * (true**2).sum(axis=-1))
    rows = np.divide(over, under, out=np.zeros(over.shape), where=under > 0)
    return np.asarray(rows.mean(axis=-1))


def _relations_in(marks: str) -> list[str]:
    """``[word]`` relations in a tree written as text, empty for words that do not count."""
    return ["" if mark == UNSCORED else mark.partition(RELATION)[2] for mark in marks.split(" ")]


def _most_frequent_relation(trees: TreeExamples) -> str:
    """The relation that most words of training have to their heads."""
    names = [name for code in trees.codes.tolist() for name in _relations_in(trees.values[code])]
    distinct, times = np.unique([name for name in names if name not in ("", ROOT)], return_counts=True)
    return str(distinct[times.argmax()])


def _put_at(values: Any, words: NDArray[np.int64], filled: Any) -> Any:
    """``filled`` with the values of some words at their places."""
    for word, value in zip(words.tolist(), values, strict=True):
        filled[word] = value
    return filled


def _words_left_out(trees: TreeExamples) -> dict[str, int]:
    """The number of words without a vector, which are in no tree; empty where all have one."""
    n = sum(int((~trees.read[first:last]).sum()) for first, last in trees.spans[:, 0].tolist())
    return {"words_left_out": n} if n else {}


def _words_of(trees: TreeExamples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``[word]`` all words of the sentences, one sentence after the other, and the place of each's sentence."""
    first, last = trees.spans[:, 0].T
    words = np.concatenate([np.arange(start, end) for start, end in zip(first.tolist(), last.tolist(), strict=True)])
    return words, np.repeat(np.arange(len(trees)), last - first)


FAMILY = _Trees()
