"""Trees of whole sentences: structural probes, and the trees that their distances and depths make."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from bertology import activations, readouts
from bertology._lazy import scipy, torch
from bertology.errors import FitError
from bertology.families.contract import Counts, FitCells, FitGroup, Resources
from bertology.families.request import ReadoutConfig
from bertology.families.vectors import Baseline, CellWriter, TaskData, VectorFamily, task_data
from bertology.measures import Metric, tree_distances
from bertology.measures.metrics import RELATION, UNSCORED, correlations, count_trees
from bertology.measures.trees import rooted, spanning_trees, tree_depths
from bertology.probing import ControlNote, Probe, RepresentationProbe
from bertology.probing.items import TreeExamples
from bertology.readouts import ReadoutKind, readout_kind
from bertology.results.predictions import KEPT, Kept, KeptProbe, Stopwatch, read_labels, read_scores

_CHAIN = ControlNote("linear_chain", "linear chain", "each word joined to the one before it, punctuation passed over")
_ASKS: Mapping[str, tuple[Literal["distances", "depths"], ...]] = {
    "distances": ("distances",),
    "depths": ("depths",),
    "arcs": ("distances", "depths"),
}
"""The maps that are fitted, by what is asked about."""
_Reading = tuple[int, NDArray[Any] | None, NDArray[Any] | None]
"""Number of a sentence, its ``[problem, layer, word, word]`` distances and ``[problem, layer, word]`` depths."""
ROOT = "root"  # the relation of a root, which needs no prediction


class _Trees(VectorFamily):
    """Family of probes that read a sentence's tree from the geometry of its words' vectors, layer by layer."""

    about, readouts, count_kinds = "trees", ("trees",), ("edges", "roots", "arcs")
    baseline_packages = ("numpy", "scipy")
    has_control_task = False

    def config_problem(self, kind: ReadoutKind, config: ReadoutConfig) -> str:
        if config.of_labels or config.pool != "mean":
            return "trees have no codelength or usable information here, nothing is erased, and no words are pooled"
        return ""

    def baselines(self, probe: Probe) -> tuple[ControlNote, ...]:
        return (_CHAIN,)

    def fitted_together(self, probe: Probe, configs: Sequence[ReadoutConfig]) -> tuple[tuple[ReadoutConfig, ...], ...]:
        """Configurations that differ only in the setting that their readout declares as ``fitted_together``."""
        assert isinstance(probe, RepresentationProbe)
        groups: dict[str, list[ReadoutConfig]] = {}
        for place, config in enumerate(configs):
            kind = readout_kind(config.readout or probe.readout)
            others = {name: value for name, value in config.settings.items() if name != kind.fitted_together}
            shared = replace(config, readout=kind.name, settings=others)
            key = str(place) if kind.fitted_together is None else f"{shared.key} {shared.layers}"
            groups.setdefault(key, []).append(config)
        return tuple(map(tuple, groups.values()))

    def compute_group(self, group: FitGroup, job: Resources) -> None:
        if group[0].is_baseline:
            super().compute_group(group, job)
        else:
            fit_trees(group, job)

    def baseline(self, data: TaskData, control: str) -> Baseline:
        """Join neighbouring words in a chain from the first one on.

        Distances are those in the sentence, depths the words' places; in a tree punctuation is passed over, and the
        relation to the word before is the most frequent one (Hewitt & Manning 2019, section 4.1).
        """
        splits = cast(Mapping[str, TreeExamples], data.trees)
        trees, chains = splits["test"], list[_Reading]()
        for item, (first, last) in enumerate(trees.spans[:, 0].tolist()):
            words = np.flatnonzero(trees.read[first:last])[None, None]  # [problem, layer, word]
            between = np.abs(words[..., None] - words[..., None, :])
            chains.append(
                (item, None if trees.asks == "depths" else between, None if trees.asks == "distances" else words)
            )
        relations = None
        if trees.asks == "arcs":
            distinct, times = np.unique(_relations_in(splits["train"], is_known=True), return_counts=True)
            relation = str(distinct[times.argmax()])
            relations = [[[[relation] * words.size for _, _, words in chains if words is not None]]]
        marks, agreement = _tree_texts(trees, (1, 1), chains, relations)
        gold = [trees.values[code] for code in trees.codes.tolist()]
        return data.texts(gold, marks[0][0], agreement[0, 0]), {"params": _words_left_out(trees)}, {}

    def count(self, run: Kept, ids: Sequence[str], metrics: Sequence[Metric]) -> Counts:
        kept = read_labels(run, ids)
        agreement, _ = read_scores(run, ids)
        return count_trees(kept.gold, kept.pred, kept.labels, agreement, count_kind=metrics[0].count_kind)


@dataclass(frozen=True, eq=False)
class TreeProbe(KeptProbe):
    """Linear maps of one layer: ``distance [dim, rank]``, ``depth [dim, rank]``, ``relation [dim + 1, relation]`` (its
    last row is what is added), or several of these."""

    parts: ClassVar[tuple[str, ...]] = ("distance", "depth", "relation")

    @property
    def layer(self) -> int:
        """The layer that it reads."""
        return cast(int, self.origin.layer)

    def check(self, *, model_fingerprint: str, layer: int, pooling: str) -> None:
        """Raise :class:`FitError` unless vectors of this model, layer and pooling are what the probe was fitted on."""
        origin, wrong = self.origin, None
        if model_fingerprint != origin.model_fingerprint:
            remedy = "ask it of that one, or fit one on this"
            wrong = origin.model, f"another encoder's vectors; {remedy}"
        elif layer != origin.layer:
            wrong = f"layer {origin.layer}", f"layer {layer}"
        elif pooling != origin.pooling:
            wrong = f"the {origin.pooling} of a word's pieces", f"their {pooling}"
        if wrong:
            raise FitError(f"the probe was fitted on {wrong[0]}: it cannot read {wrong[1]}")

    def distances(self, vectors: "torch.Tensor") -> NDArray[np.float32] | None:
        """``[word, word]`` squared distances of ``[word, dim]`` vectors; None without a map for them."""
        if "distance" not in self.tensors:
            return None
        squared = readouts.structural.squared_distances(vectors.float() @ self.tensors["distance"])
        return np.asarray(squared.clamp_(min=0).numpy())

    def depths(self, vectors: "torch.Tensor") -> NDArray[np.float32] | None:
        """``[word]`` depths of ``[word, dim]`` vectors; None without a map for them."""
        if "depth" not in self.tensors:
            return None
        return np.asarray((vectors.float() @ self.tensors["depth"]).square().sum(-1).numpy())

    def relations(self, vectors: "torch.Tensor") -> tuple[str, ...] | None:
        """``[word]`` the most probable relation of each word to its head; None without a map for them."""
        if "relation" not in self.tensors:
            return None
        scores = vectors.float() @ self.tensors["relation"][:-1] + self.tensors["relation"][-1]
        return tuple(self.origin.relations[place] for place in scores.argmax(1).tolist())


def fit_trees(group: FitGroup, job: Resources) -> None:
    """Fit all ranks, layers and seeds of a group at once, and write their cells and probes.

    Configurations differ in nothing but their rank, and all ranks are fitted in the same passes.
    """
    watch, first = Stopwatch(), group[0]
    data = task_data(first.probe, job.pair.splits).without(job.pair.unreadable)
    trees, problems, fraction = cast(Mapping[str, TreeExamples], data.trees), first.problems, first.config.fraction
    weights = np.stack([data.weights(problem.seed, fraction) for problem in problems])
    is_weighted = fraction < 1 or any(problem.seed for problem in problems)

    def source(split: str, *, memory: int = 0) -> Any:
        of_split, layers = trees[split], first.layers_read
        how: dict[str, Any] = {"layers": layers, "memory": memory, "read": of_split.read}
        return activations.SpanVectors(job.stored["words"][split], of_split.spans, **how)

    def targets(split: str, asks: Literal["distances", "depths"]) -> "readouts.TreeTargets":
        values = [_values_of(trees[split], item, asks) for item in range(len(trees[split]))]
        return readouts.TreeTargets(asks, values, weights if is_weighted and split == "train" else None)

    # Read for distances and depths alike; what is kept in memory serves both.
    train, test = source("train", memory=job.memory), trees["test"]
    of_ranks = [readouts.make_readout(cells.readout, **cells.config.settings) for cells in group]
    maps: list[dict[str, readouts.structural.FittedStructural]] = [{} for _ in group]
    for asks in _ASKS[test.asks]:
        fitted = readouts.fit_ranks(
            cast(list[readouts.StructuralReadout], of_ranks),
            train,
            targets("train", asks),
            dev=source("dev"),
            dev_targets=targets("dev", asks),
            device=job.device,
            progress=job.progress.say,
        )
        for of_rank, one in zip(maps, fitted, strict=True):
            of_rank[asks] = one
    names, regression, predicted = _relations(first, trees, weights, job) if test.asks == "arcs" else ((), None, None)
    job.progress.finish()

    def readings(of_rank: "Mapping[str, readouts.structural.FittedStructural]") -> Iterator[_Reading]:
        """The distances and depths of each test sentence, by problem and layer."""
        for parts in zip(*(one.read(source("test")) for one in of_rank.values()), strict=True):
            values = {asks: value for asks, (_, value) in zip(of_rank, parts, strict=True)}
            yield parts[0][0], values.get("distances"), values.get("depths")

    gold = [data.test.values[code] for code in data.test.codes.tolist()]
    left_out = _words_left_out(test)
    packages = ("torch", "transformers", "numpy", "scipy")
    provenance = watch.provenance(*packages, device=job.device, n_cells=sum(len(cells.cells) for cells in group))
    for cells, of_rank in zip(group, maps, strict=True):
        writer, fits = CellWriter(cells, data, job, provenance), list(of_rank.values())
        shape = len(problems), len(cells.layers)
        marks, agreement = _tree_texts(test, shape, readings(of_rank), predicted)
        n_params = sum(one.n_params for one in fits) + (regression.n_params if regression else 0)
        for number, problem in enumerate(problems):
            for place, cell in enumerate(cells.cells_of(problem)):
                names_of = zip(_ASKS["arcs"], ("distance", "depth"), strict=True)
                tensors = {name: of_rank[asks].maps[number, place] for asks, name in names_of if asks in of_rank}
                if regression is not None:
                    model, at = regression.model, (number, place, 0)
                    tensors["relation"] = torch.cat([model.coefficients[at].T, model.intercepts[at][None]])
                writer.files.keep(cell, TreeProbe(writer.origin(cell, relations=names), tensors), folder=KEPT)
                kept = data.texts(gold, marks[number][place], agreement[number, place])
                params = {
                    **left_out,
                    "rank": fits[0].rank,
                    "converged": all(bool(one.converged[number, place]) for one in fits),
                    "dev_loss": {one.asks: round(float(one.dev_loss[number, place]), 6) for one in fits},
                    "epochs": {one.asks: int(one.epochs[number, place]) for one in fits},
                }
                writer.add(cell, kept, problem.seed, params, n_params=n_params)
        writer.finish()


def _relations(
    cells: FitCells, trees: Mapping[str, TreeExamples], weights: NDArray[np.float32], job: Resources
) -> tuple[tuple[str, ...], Any, list[list[list[list[str]]]]]:
    """Fit relations of words to their heads to train, all layers at once, with ``[problem, sentence]`` weights.

    Returns the relations of the training words but for the root's, the logistic regression on the words' own vectors,
    and the relation of each word of test with a vector, by problem, layer and sentence.
    """
    names = tuple(sorted(set(_relations_in(trees["train"], is_known=True))))
    number, layers = {name: place for place, name in enumerate(names)}, cells.layers_read
    vectors, targets, of_word = dict[str, Any](), dict[str, readouts.Targets](), np.zeros(0, dtype=np.int64)
    for split, some in trees.items():
        first, last = some.spans[:, 0].T
        words = np.concatenate([np.arange(*bounds) for bounds in some.spans[:, 0].tolist()])
        is_read, of_word = some.read[words], np.repeat(np.arange(len(some)), last - first)
        of_word = of_word[is_read]
        how: Any = {"layers": layers, "memory": 0 if split == "test" else job.memory // 2}
        vectors[split] = activations.WordVectors(job.stored["words"][split], words[is_read], **how)
        if split != "test":
            labels = np.array([number.get(name, -1) for name in _relations_in(some)], dtype=np.int64)[is_read]
            of_words = weights[:, of_word] if split == "train" else None
            targets[split] = readouts.Targets(np.repeat(labels[None], len(weights), axis=0), len(number), of_words)
    shared: Any = {"dev": vectors["dev"], "dev_targets": targets["dev"], "device": job.device}
    readout = readouts.LinearReadout(extensions=0)
    fitted = readout.fit(vectors["train"], targets["train"], **shared, progress=job.progress.say)
    cuts, every = np.flatnonzero(np.diff(of_word)) + 1, np.array(names)
    labels = fitted.predict(vectors["test"]).labels
    predicted = [[[part.tolist() for part in np.split(every[row], cuts)] for row in problem] for problem in labels]
    return names, fitted, predicted


def _tree_texts(
    trees: TreeExamples, shape: tuple[int, int], readings: Iterable[_Reading], relations: Sequence[Any] | None
) -> tuple[list[list[list[str]]], NDArray[np.float64]]:
    """The predicted trees of the sentences of test.

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
        at_depth: Any = None if depths is None else np.full((*shape, len(heads)), np.inf)
        if at_depth is not None:
            at_depth[..., words] = depths
        if distances is not None:
            spanning = spanning_trees(distances.reshape(-1, len(words), len(words)), scored[words].tolist())
            edges = [[(int(words[a]), int(words[b])) for a, b in tree] for tree in spanning]
        for problem, layer in np.ndindex(*shape):
            named: Any = None if relations is None else [""] * len(heads)
            for word, name in zip(words.tolist(), relations[problem][layer][item], strict=True) if relations else ():
                named[word] = name
            tree = None if edges is None else edges[problem * shape[1] + layer]
            depth = None if at_depth is None else at_depth[problem, layer]
            marks[problem][layer][item] = marks_of_tree(heads, scored, tree, depth, named)
    return marks, agreement


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


def _values_of(trees: TreeExamples, item: int, asks: str) -> NDArray[np.int64]:
    """``[word, word]`` distances or ``[word]`` depths, in the whole tree of a sentence, of words that have vectors."""
    first, last = trees.spans[item, 0].tolist()
    words, heads = np.flatnonzero(trees.read[first:last]), trees.heads[first:last].tolist()
    return tree_distances(heads)[np.ix_(words, words)] if asks == "distances" else tree_depths(heads)[words]


def _row_correlations(predicted: NDArray[Any], gold: NDArray[np.int64]) -> NDArray[np.float64]:
    """``[…]`` Spearman's correlation of each row of ``[…, row, word]`` with gold's, their mean over rows.

    Of a row that is all alike nothing can be said, which is no correlation: 0.
    """
    rows = correlations(*(scipy.stats.rankdata(values, axis=-1) for values in (predicted, gold)))
    return np.asarray(np.nan_to_num(rows).mean(axis=-1))


def _relations_in(trees: TreeExamples, *, is_known: bool = False) -> list[str]:
    """``[word]`` the relations in trees, empty for words that do not count; ``is_known``: without these and roots."""
    marks = [mark for code in trees.codes.tolist() for mark in trees.values[code].split(" ")]
    names = ["" if mark == UNSCORED else mark.partition(RELATION)[2] for mark in marks]
    return [name for name in names if name not in ("", ROOT)] if is_known else names


def _words_left_out(trees: TreeExamples) -> dict[str, int]:
    """The number of words without a vector, which are in no tree; empty where all have one."""
    n = sum(int((~trees.read[first:last]).sum()) for first, last in trees.spans[:, 0].tolist())
    return {"words_left_out": n} if n else {}


FAMILY = _Trees()
