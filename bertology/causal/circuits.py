"""Circuits: the edges between heads and feed-forward parts that a prediction rests on, and how well they make it alone.

:func:`circuit` scores edges and runs the model on the strongest ones alone, by the passes of ``_Runs``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bertology._lazy import figures
from bertology._names import aligned as in_columns
from bertology._names import check_name, decimals, signed
from bertology.causal.patching import check_changes, checked_pairs, intervening_in, name_of_score, path_shares
from bertology.causal.targets import Decision, PatchPair, Target, batches, fitting_pairs, ids_of
from bertology.encoders import Encoder
from bertology.encoders.interventions import Intervention
from bertology.errors import ClozeError, ModelError
from bertology.measures import intervals
from bertology.measures.sums import Floats, Integers

SIZES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the edges that circuits hold (Mueller et al. 2025)."""
_LABELS = {"eap_ig": "EAP-IG", "eap": "EAP", "exact": "exact", "random": "random"}


class Graph:
    """Nodes of an encoder: the embeddings, heads and feed-forward parts by block, the output that a prediction reads.

    An edge leads from each node to each later one, but for heads of one block. ``names [node]`` are such as ``L1H1``,
    ``edges [edge, 2]`` the numbers of the nodes that each leads from and to, ``places [node]`` where values are
    exchanged: 0 of the embeddings, 2l − 1 of the heads of block l, 2l of its feed-forward part.
    """

    def __init__(self, n_layers: int, n_heads: int) -> None:
        parts = [*(f"H{head}" for head in range(1, n_heads + 1)), " feed-forward"]
        inside = [f"L{layer}{part}" for layer in range(1, n_layers + 1) for part in parts]
        self.n_layers, self.n_heads, self.names = n_layers, n_heads, ("embeddings", *inside, "output")
        of_inside = 1 + np.repeat(np.arange(2 * n_layers), np.tile([n_heads, 1], n_layers))
        self.places: Integers = np.array([0, *of_inside, 2 * n_layers + 1])
        ends = [(source, node) for node, at in enumerate(self.places) for source in range(self.nodes(at).start)]
        self.edges: Integers = np.array(ends)

    def nodes(self, place: int) -> slice:
        """The nodes of a place; those below are what they read from."""
        return slice(*np.searchsorted(self.places, [place, place + 1]).tolist())


class _Runs:
    """Passes of the model's own forward over texts and their other texts, in which nodes read values of either."""

    def __init__(self, decision: Decision, texts: Tensor, others: Tensor, graph: Graph) -> None:
        self._decision, self._ids, self._graph = decision, texts, graph
        self._of_text, self.scores = self._recorded(texts)
        self._of_other, self.other_scores = self._recorded(others)
        nothing, tolerance = self.circuit_scores(()), torch.finfo(self._of_text[0].dtype).eps ** 0.5
        if not torch.allclose(nothing, self.other_scores, rtol=tolerance, atol=tolerance):
            what = f"model {decision.encoder.name}: not only heads and feed-forward parts write to its residual stream"
            raise ModelError(f"{what}: give one like BERT")

    def _changing(self, change: Callable[[int, Tensor], Tensor]) -> AbstractContextManager[None]:
        """Context in which each place has the values ``change(place, values)``, both ``[row, piece, dim]``."""
        fold, unfold = self._decision.fold, self._decision.unfold

        def changed(place: int, values: Tensor) -> Tensor:
            return fold(change(place, unfold(values)))

        changes = [Intervention(0, partial(changed, 0))]
        for layer in range(1, self._graph.n_layers + 1):
            changes.append(Intervention(layer, partial(changed, 2 * layer - 1), "head"))
            changes.append(Intervention(layer, partial(changed, 2 * layer), "feed_forward_output"))
        return intervening_in(self._decision.encoder, changes)

    def _recorded(self, ids: Tensor) -> tuple[list[Tensor], Tensor]:
        """Values of all places in a plain pass, and its scores."""
        kept: list[Tensor] = []

        def keep(place: int, values: Tensor) -> Tensor:
            kept.append(values.clone())
            return values

        with self._changing(keep):
            return kept, self._decision.scores(ids)

    def _by_node(self, place: int, values: Tensor) -> Tensor:
        """``[..., node, dim]`` of the values of a place."""
        nodes = self._graph.nodes(place)
        return torch.unflatten(values, -1, (nodes.stop - nodes.start, -1))

    def edge_changes(self, *, steps: int) -> Tensor:
        """``[edge, row]`` first-order estimates of how much the score changes by exchanging each edge.

        Values of all places are leaves of autograd, on which the states above depend through the direct paths alone.
        From the output down, the vector–Jacobian product of one node gives the gradient of the score with respect to
        every leaf below through this node; their sum at a leaf is what the node that writes there goes on from.
        """
        graph, n_nodes = self._graph, len(self._graph.places)
        shifts = [other - own for own, other in zip(self._of_text, self._of_other, strict=True)]
        found = torch.zeros(n_nodes, n_nodes - 1, len(self._ids), dtype=torch.float64)
        leaves, outputs = list[Tensor](), list[Tensor]()

        def cut(share: float, place: int, values: Tensor) -> Tensor:
            outputs.append(values)
            leaves.append((values if place else self._of_text[0] + share * shifts[0]).detach().requires_grad_(True))
            return leaves[-1]

        for share in path_shares(steps):
            leaves, outputs = [], []
            with torch.enable_grad(), self._changing(partial(cut, share)):
                outputs.append(self._decision(self._ids).sum()[None])
            total = [*map(torch.zeros_like, leaves), torch.ones_like(outputs[-1])]
            for node in range(n_nodes - 1, 0, -1):
                place, gradient = graph.places[node], torch.zeros_like(total[graph.places[node]])
                which = node - graph.nodes(place).start
                self._by_node(place, gradient)[..., which, :] = self._by_node(place, total[place])[..., which, :]
                asked = outputs[place], leaves[:place], gradient
                for below, one in enumerate(torch.autograd.grad(*asked, retain_graph=True, materialize_grads=True)):
                    total[below] += one
                    each = self._by_node(below, shifts[below] * one).double().sum((1, 3))
                    found[node, graph.nodes(below)] += each.T.cpu() / steps
        self._decision.encoder.check_finite("gradients of the score", {graph.n_layers: found})
        return found[tuple(torch.from_numpy(graph.edges.T[::-1].copy()))]

    def circuit_scores(self, edges: Sequence[int] | Integers) -> Tensor:
        """``[row]`` scores with these edges, by number; all others carry values of the other text.

        Each node has a residual stream of its own, a row of the batch, to which each source adds either the value that
        it computes in its own row or that of the other text; nodes that read the same values share a row.
        """
        graph, of_other, n_rows = self._graph, self._of_other, len(self._ids)
        kept = torch.zeros(len(graph.places) - 1, len(graph.places), dtype=torch.bool)  # [source, node]
        kept[tuple(torch.from_numpy(graph.edges[list(edges)].T))] = True
        streams: list[int] = []  # of each stream the highest node that reads it
        stream = [0] * len(graph.places)
        for node in range(len(graph.places) - 1, 0, -1):
            read = kept[: graph.nodes(graph.places[node]).start]
            alike = [n for n, above in enumerate(streams) if torch.equal(read[:, above], read[:, node])]
            stream[node] = alike[0] if alike else len(streams)
            streams += [] if alike else [node]

        def mixed(place: int, values: Tensor) -> Tensor:
            nodes, by_stream = graph.nodes(place), torch.unflatten(values, 0, (len(streams), n_rows))
            own = [self._by_node(place, by_stream[row])[..., n, :] for n, row in enumerate(stream[nodes])]
            is_own = kept[nodes][:, streams].T.to(values.device)[:, None, None, :, None]
            chosen = torch.where(is_own, torch.stack(own, -2), self._by_node(place, of_other[place]))
            return chosen.flatten(-2).flatten(0, 1)  # of [stream, row, piece, node, dim]

        rows = torch.arange(n_rows).repeat(len(streams))
        with self._changing(mixed):
            return self._decision.scores(self._ids[rows], rows)[:n_rows]

    def exact_changes(self) -> Tensor:
        """``[edge, row]`` changes of the score by exchanging each edge alone, a pass for each."""
        every = np.arange(len(self._graph.edges))
        return torch.stack([self.circuit_scores(np.delete(every, edge)) - self.scores for edge in every])


@dataclass(frozen=True, eq=False)
class Circuit:
    """Scores of the edges of a model, and how well the strongest ones make a prediction alone; see :func:`circuit`."""

    model: str
    graph: Graph
    method: str
    """Scores of ``changes`` and ``edges``, such as ``EAP-IG, 5 steps``."""
    changes: Floats
    """``[edge, pair]`` change of the score by exchanging each edge of ``graph.edges``, to first order or exact."""
    scores: Floats
    """``[2, pair]`` scores of the text and of the other text."""
    curve: pd.DataFrame
    """``value``, ``ci_low`` and ``ci_high`` by ``ranking``, order (``by`` score or |score|) and ``measure``:
    ``faithfulness`` at each ``size`` (share of the edges), ``CPR`` and ``CMD``."""
    targets: tuple[Target, ...]
    """``[pair]`` the target with all its names."""
    clusters: tuple[str, ...]
    """``[pair]`` clusters that are resampled."""
    excluded: tuple[tuple[int, str], ...]
    """Numbers of the pairs that do not fit the model, and why."""

    @property
    def cpr(self) -> float:
        """Circuit performance ratio: the area under the faithfulness of edges by score; more is better."""
        return float(self.curve.query("measure == 'CPR'")["value"].iloc[0])

    @property
    def cmd(self) -> float:
        """Circuit–model distance: the area between 1 and the faithfulness of edges by size of score; 0 is best."""
        return float(self.curve.query("measure == 'CMD'")["value"].iloc[1])

    @cached_property
    def edges(self) -> pd.DataFrame:
        """A line for each edge, the strongest first: ``source``, ``target``, ``score``, ``ci_low``, ``ci_high``.

        The score is how much the prediction loses by exchanging the edge ÷ how much the whole other text takes away,
        both summed over pairs. Intervals of 95 % are by bootstrap over clusters; NaN for fewer than two.
        """
        lost = np.broadcast_to(self.scores[0] - self.scores[1], self.changes.shape)
        low, high = intervals.intervals_over_clusters(-self.changes, lost, self.clusters)
        frame = pd.DataFrame(np.array(self.graph.names)[self.graph.edges], columns=["source", "target"])
        frame = frame.assign(score=-self.changes.sum(1) / lost.sum(1), ci_low=low, ci_high=high)
        return frame.sort_values("score", key=np.abs, ascending=False, kind="stable", ignore_index=True)

    def to_pandas(self) -> pd.DataFrame:
        """The table ``edges``."""
        return self.edges

    def __str__(self) -> str:
        edges = [[f"{a} → {b}", _written(values)] for a, b, *values in self.edges.head(12).to_numpy()]
        rows = [f"{100 * size:g} %: {int(size * len(self.edges))}" for size in SIZES] + ["CPR", "CMD"]
        curve = [["size: edges", *rows]]
        for (name, by), one in self.curve.groupby(["ranking", "by"], sort=False):
            cells = one[["value", "ci_low", "ci_high"]].to_numpy().tolist()
            curve.append([f"{_LABELS[str(name)]} {by}", *map(_written, cells)])
        tables = in_columns([["edge", "score"], *edges]), in_columns(list(zip(*curve, strict=True)))
        return "\n\n".join(map("\n".join, [*tables, self.about]))

    @property
    def about(self) -> list[str]:
        """Lines on what is scored, for how many pairs, and which edges the curve is of."""
        left_out = f", {len(self.excluded)} left out" if self.excluded else ""
        text, other = map(signed, self.scores.mean(axis=1))
        held = "of edges ranked by the other half of the pairs" if len(set(self.clusters)) > 1 else "on the same pairs"
        score = f"{name_of_score(self.targets)}: {text} in the text, {other} in the other text"
        of = f"{self.model}, edges by {self.method}; pairs: {len(self.clusters)}{left_out}"
        return [of, score, f"faithfulness, CPR and CMD: {held}"]

    def plot(self, *, most: int = 30) -> "figures.ShownFigure":
        """Draw the strongest edges, layers from the bottom up: their width is the size of the score, negative ones are
        orange."""
        drawn, graph, where = self.edges.head(most), self.graph, dict[str, tuple[float, float]]()
        middle, height = graph.n_heads // 2, float(graph.places[-1])
        for node, (name, place) in enumerate(zip(graph.names, graph.places.tolist(), strict=True)):
            head = node - graph.nodes(place).start  # heads stand on either side of the feed-forward parts
            where[name] = (float(head + (head >= middle) if place % 2 and place < height else middle), float(place))
        figure = figures.new_figure(max(4.5, 0.8 * (graph.n_heads + 1)), 0.55 * (height + 2))
        ax = figure.subplots()
        for source, target, score in drawn[["source", "target", "score"]].to_numpy()[::-1]:
            share, (x, y), (end, top) = abs(score) / abs(drawn["score"].iloc[0]), where[source], where[target]
            gap, bend = 10 if x == end else 16, 0.25 if x == end and top - y > 2 else 0.05  # around the nodes between
            arrow = {"arrowstyle": "-|>", "mutation_scale": 5 + 5 * share, "shrinkA": gap, "shrinkB": gap}
            arrow |= {"connectionstyle": f"arc3,rad={bend}", "linewidth": 0.4 + 3.6 * share}
            arrow |= {"color": figures.BLUE if score >= 0 else figures.VERMILION, "alpha": 0.35 + 0.6 * share}
            ax.annotate("", (end, top), (x, y), arrowprops=arrow, zorder=1 + share)
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": figures.TEXT, "linewidth": 0.6}
        for name in dict.fromkeys(["embeddings", "output", *drawn["source"], *drawn["target"]]):
            short = name.replace("feed-forward", "FF")
            ax.text(*where[name], short, fontsize=7, color=figures.TEXT, ha="center", va="center", bbox=box, zorder=3)
        ax.set(xlim=(-0.6, graph.n_heads + 0.6), ylim=(-0.6, height + 0.6))
        ax.axis("off")
        lines = [f"the {len(drawn)} strongest of {len(self.edges)} edges", *self.about]
        figures.write_caption(figure, "\n".join(lines))
        return figure

    def save(self, path: str | Path) -> Path:
        """Write the graph as ``.svg``, ``.pdf`` or ``.png``; a :class:`StoreError` where that cannot be done."""
        return self.plot().save(path)

    def _repr_png_(self) -> bytes:
        return self.plot()._repr_png_()


def _written(values: Sequence[float]) -> str:
    value, low, high = (decimals(one, 3) for one in values)
    return value if np.isnan(values[1]) else f"{value} [{low}, {high}]"


def circuit(
    encoder: Encoder,
    pairs: PatchPair | Sequence[PatchPair],
    *,
    steps: int = 5,
    rankings: Sequence[str] = ("eap_ig", "random"),
    seed: int = 0,
) -> Circuit:
    """Find the edges between heads and feed-forward parts by which a text makes a prediction that another does not.

    The score of an edge u → v is (z_u of the other text − z_u of the text) · the gradient of the score with respect to
    what v reads from u (edge attribution patching, EAP; Syed et al. 2024); with ``eap_ig`` its mean along the path
    between the embeddings of the two (EAP-IG, *inputs*; Hanna et al. 2024). What u writes reaches v through the direct
    path alone, residual connections and norms, while all other heads and feed-forward parts are held fixed: in
    post-LayerNorm models such as BERT through the Jacobians of the LayerNorms in between. A head is one node: its
    queries, keys and values are not told apart.

    A circuit is run as in the code of EAP-IG: its edges carry what is computed in this run, all others the value of the
    other text. Faithfulness is f(C) = (m(C) − m(∅)) / (m(N) − m(∅)) of mean scores: the whole model N is the text, the
    empty circuit ∅ the other text. CPR and CMD are as in the evaluation code of the Mechanistic Interpretability
    Benchmark (Mueller et al. 2025): at each of :data:`SIZES` the first ⌊size · edges⌋ edges; CPR is ∫f of edges by
    signed score, CMD the area between f and 1 of edges by absolute score (MIB-circuit-track, issue 19), by trapezoids
    over the share of edges from 0.1 % on, so that f = 1 throughout has CPR 0.999. With two or more clusters, circuits
    that are run on one half of them hold the strongest edges of the other half; with one they are run on the same pairs
    that rank the edges, and the curve is optimistic.

    Args:
        encoder: a model with a head for the target, whose residual stream only heads and feed-forward parts write to.
        pairs: one or several, whose ``text`` calls for ``good`` more than ``other`` does.
        steps: of the path of ``eap_ig``.
        rankings: scores by which edges are ranked, the first one those that are returned: ``eap_ig``, ``eap`` (one
            step), ``exact`` (the effect of exchanging an edge, a pass for each) or ``random`` (mean of five orders).
        seed: of the random orders and the halves.

    Raises:
        ClozeError: no pair fits the model, or the score of the texts is not higher than that of the others.
        ModelError: no head for the target, or the residual stream of the model has other writers.
    """
    asked = checked_pairs(pairs)
    for name in rankings:
        check_name("ranking of edges", name, _LABELS)
    if not rankings or rankings[0] == "random":
        raise ClozeError("rankings: the first one gives the scores of edges: eap_ig, eap or exact")
    check_changes(encoder, range(1, encoder.n_layers + 1), "head", verb="find circuits")
    fitting, reasons = fitting_pairs(encoder, asked, by_word=False)
    ones, clusters = list(fitting.values()), tuple(asked[number].cluster or f"pair {number}" for number in fitting)
    depths = {encoder.n_layers if (probe := one.target.probe) is None else probe.origin.layer or 0 for one in ones}
    if len(depths) > 1:
        raise ClozeError(f"probes of {len(depths)} layers: give pairs whose probe is of one layer")
    graph = Graph(depths.pop(), encoder.n_heads)
    random, (halves, of_pair) = np.random.default_rng(seed), np.unique(clusters, return_inverse=True)
    half = (random.permutation(len(halves)) % 2)[of_pair]
    folds = [np.flatnonzero(half == own) for own in range(min(2, len(halves)))]

    def runs() -> Iterator[tuple[int, list[int], _Runs]]:
        for fold, members in enumerate(folds):
            for batch, some in batches(encoder, [ones[n] for n in members], len(graph.places)):
                run = _Runs(Decision(encoder, some), ids_of(some, 0), ids_of(some, 1), graph)
                yield fold, members[batch].tolist(), run

    scores = np.zeros((2, len(ones)))
    changes = {name: np.zeros((1, len(graph.edges), len(ones))) for name in rankings}
    for _, numbers, run in runs():
        scores[:, numbers] = np.stack([run.scores, run.other_scores])
        for name, into in changes.items():
            if name != "random":
                n_steps = steps if name == "eap_ig" else 1
                into[0, :, numbers] = (run.exact_changes() if name == "exact" else run.edge_changes(steps=n_steps)).T
    if scores[0].sum() <= scores[1].sum():
        text, other = map(signed, scores.mean(axis=1))
        raise ClozeError(f"the score of the text is {text}, of the other text {other}, not lower: exchange the two")
    curves = list[pd.DataFrame]()
    for name, of_draws in changes.items():
        if name == "random":
            of_draws = random.standard_normal((5, len(graph.edges), len(ones)))
        lost = -np.stack([of_draws[..., ranked].sum(-1) for ranked in folds[::-1]])  # [fold, draw, edge]
        for by, strength in [("score", lost), ("|score|", np.abs(lost))][: 1 + (name != "random")]:
            order, reached = np.argsort(-strength, kind="stable"), np.zeros((len(of_draws), len(SIZES), len(ones)))
            for fold, numbers, run in runs():
                for draw, at in np.ndindex(*reached.shape[:2]):
                    first = order[fold, draw, : int(SIZES[at] * len(graph.edges))]
                    reached[draw, at, numbers] = run.circuit_scores(first)
            curves.append(_curve(reached, scores, clusters).assign(ranking=name, by=by))
    title, curve = encoder.source.title, pd.concat(curves, ignore_index=True)
    method = _LABELS[rankings[0]] + (f", {steps} steps" if rankings[0] == "eap_ig" else "")
    targets, excluded = tuple(one.target for one in ones), tuple(sorted(reasons.items()))
    return Circuit(title, graph, method, changes[rankings[0]][0], scores, curve, targets, clusters, excluded)


def _curve(reached: Floats, scores: Floats, clusters: Sequence[str]) -> pd.DataFrame:
    """Faithfulness, CPR and CMD of ``[draw, size, pair]`` scores that circuits reached, means over draws."""
    gaps = np.diff(SIZES, prepend=SIZES[0], append=SIZES[-1])
    weights = (gaps[:-1] + gaps[1:]) / 2  # of the trapezoids

    def measured(ratios: Floats) -> Floats:
        by_draw = ratios.reshape(len(ratios), -1, len(SIZES))
        areas = np.stack([by_draw @ weights, np.abs(1 - by_draw) @ weights], axis=-1)
        return np.asarray(np.concatenate([by_draw, areas], axis=-1).mean(axis=1))

    above, below = (reached - scores[1]).reshape(-1, len(clusters)), (scores[0] - scores[1])[None]
    sums = (intervals.sums_over_clusters(one, clusters) for one in (above, below))
    one = intervals.bootstrap_ratio(*sums, metric="faithfulness")
    parts = measured(one.values[None])[0], measured(one.replicates), measured(one.jackknife)
    one = intervals.summarised(one.metric, *parts, level=one.level, seed=one.seed, bounds="none")
    frame = pd.DataFrame({"value": one.values, "ci_low": one.ci_low, "ci_high": one.ci_high})
    measures = [*["faithfulness"] * len(SIZES), "CPR", "CMD"]
    return frame.assign(measure=measures, size=[*SIZES, np.nan, np.nan])
