"""Results as one object: what ``probe`` returns, what a folder holds; and their views."""

from __future__ import annotations

import functools
import itertools
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from bertology._files import explained_system_errors, write_derived
from bertology._lazy import LazyModule, pd
from bertology._names import Registry, name_not_found, short_names
from bertology._settings import to_yaml
from bertology.corpora import Corpus
from bertology.errors import ResultsError
from bertology.measures.metrics import ITSELF, METRICS, Control, metric_form
from bertology.results import _items, views
from bertology.results import rows as result_rows
from bertology.results.cells import file_with
from bertology.results.compared import model_frame
from bertology.results.predictions import FITS, FittedProbe, PredictionFolder, Predictions, parts_of, write_predictions
from bertology.results.rows import ComparisonRow, ResultRow, Score, grouped
from bertology.results.table import Table, Tables, TableView
from bertology.results.views import LayerTable, StepTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bertology.results import figures as draw
else:
    draw = LazyModule("bertology.results.figures")

_MOST_STEPS = 9
_MOST_GROUPS = 40
"""Groups that a figure has room for."""
_VIEWS: Registry[Any] = Registry("view", "bertology.views", "over_steps.v1")
"""Views for which predictions are counted, as families do, which come after results in the order of packages."""
_SCORE = ("value", "ci_low", "ci_high")
_SCORED = ("task", "corpus", "split", "model", "pooling", "reading", "layer", "metric")
_ABOUT = ("task", "corpus", "split", "model", "layer", "init", "control", "seed")
_ITEM = ("sentence", "text", "place", "word", "gold", "predicted", "probability")


@dataclass(frozen=True, repr=False)
class View(Tables):
    """Results as people read them: a table of layers for each task, and one of layers by tasks.

    What shows or draws tables of one kind raises a :class:`ResultsError` where there are none.
    """

    tables: tuple[LayerTable, ...]
    pipelines: tuple[Table, ...] = ()
    """Depths, weights and gains of layers, of tasks that were read by mixtures of layers."""
    groups: tuple[Table, ...] = ()
    """Groups of items by layers, and further statistics of each layer."""
    head_tables: tuple[Table, ...] = ()
    """The best attention head of each group of items, or by each metric."""
    all_heads: tuple[Table, ...] = ()
    """All heads by these groups or metrics, a table for each of ``head_tables``."""
    step_tables: tuple[Table, ...] = ()
    """Scores of the whole model with more and more heads off, or without each of its layers."""
    wholes: tuple[Table, ...] = ()
    """Scores of whole models and their references."""

    @property
    def overview(self) -> tuple[LayerTable, ...]:
        """The tables that are laid side by side: of tasks read from single layers, those alone."""
        every = [(table.about.readout != views.CUMULATIVE, views.question_of(table.about)) for table in self.tables]
        asked = {question for is_single, question in every if is_single}
        shown = [is_single or question not in asked for is_single, question in every]
        return tuple(itertools.compress(self.tables, shown))

    def shown(self) -> tuple[Table, ...]:
        """All tables, each followed by its groups; the summary of several tasks after those of layers.

        Of many tasks that differ by what stands after a colon (``feats:all``) the summary alone.
        """
        shown: list[Table] = []
        for table in () if views.are_variants(self.overview) else self.tables:
            shown += [table.table(), *[groups for groups in self.groups if groups.about is table.about]]
        shown += [views.summary_table(self.overview)] if len(self.overview) > 1 else []
        shown += self.pipelines[:1]
        return (*shown, *self.head_tables, *self.step_tables, *self.wholes)

    def whole(self) -> tuple[Table, ...]:
        """All tables, with every head and seed, and the layers of mixtures."""
        of_variants = [table.table() for table in self.tables] if views.are_variants(self.overview) else []
        by_seed = [table.seeds() for table in self.tables if table.n_seeds > 1]
        return (*self.shown(), *of_variants, *by_seed, *self.pipelines[1:], *self.all_heads)

    def plot(self, ax: Axes | None = None) -> Figure:
        """Score by layer, with intervals and baselines; several tasks side by side, or one where ``ax`` is given."""
        if ax is None and not self.tables and self.head_tables:
            return self.plot_heads()
        return draw.plot_tables(self.tables, ax=ax)

    def heatmap(self) -> Figure:
        """Layers by tasks: shades within a task, values written, the best set framed."""
        return draw.plot_heatmap(self.overview)

    def models(self) -> TableView:
        """Models by tasks: the best layer of each, its score and number."""
        return TableView((views.model_table(self.tables),))

    def seeds(self) -> TableView:
        """Layers by seeds, a table for each task."""
        return TableView(tuple(table.seeds() for table in self.tables))

    def heads(self) -> TableView:
        """Attention heads by all that is measured of them, such as relations, the best head of each marked."""
        return TableView(_some(self.all_heads, "scores of attention heads"))

    def plot_heads(self, task: str | None = None) -> Figure:
        """The same of one task as a picture, layers by heads, a panel for each thing measured."""
        return draw.plot_head_table(_some(self.all_heads, "scores of attention heads", task=task)[0])

    def plot_steps(self, metric: str | None = None) -> Figure:
        """The whole model as heads are switched off, or without each of its layers, by the main metric or another."""
        return draw.plot_step_table(_some(self.step_tables, "scores of the whole model in steps", metric=metric)[0])

    def by_group(self) -> TableView:
        """Groups of items, such as relations or constructions, by layers, a table for each task that has them."""
        return TableView(_some(self.groups, "groups of items"))

    def plot_groups(self, task: str | None = None) -> Figure:
        """The same of one task as a picture: values written, the intervals of the last layer next to them."""
        of_items = [table for table in self.groups if table.corner != views.STATISTIC]
        found = _some(of_items, "groups of items", task=task)
        if len(found) > 1:
            raise ResultsError(f"{len(found)} tables of groups do not fit one figure: give task=, or use only(model=…)")
        return draw.plot_groups(found[0])

    def pipeline(self) -> TableView:
        """Tasks by where in the model they are solved: centre of gravity, expected layer (Tenney et al. 2019b)."""
        if not self.pipelines:
            remedy = f"run it with readouts {views.MIX} and {views.CUMULATIVE}"
            raise ResultsError(f"no task was read by a mixture of layers: {remedy}")
        return TableView(self.pipelines[:1])

    def plot_pipeline(self) -> Figure:
        """The same as bars, with the weight and the gain of each layer."""
        return draw.plot_pipeline(self.pipelines)

    def figures(self) -> dict[str, Figure]:
        """All figures, by the names of their files in a run's folder."""
        figures = {"layers": self.plot()} if self.tables else {}
        if len(self.overview) > 1:
            figures["heatmap"] = self.heatmap()
        if self.pipelines:
            figures["pipeline"] = self.plot_pipeline()
        for table in self.all_heads:
            metric = table.metric if table.row.group is not None else ""
            figures.setdefault(draw.named_after("heads", table.task, metric), draw.plot_head_table(table))
        for steps in self.step_tables:
            kind = "layers" if steps.row.layer is not None else "steps"
            figures.setdefault(draw.named_after(kind, steps.row.task, steps.metric), draw.plot_step_table(steps))
        shown = [of for of in self.groups if 2 <= len(of.lines) <= _MOST_GROUPS and of.corner != views.STATISTIC]
        for number, groups in enumerate(shown):
            times = [one.row.task for one in shown[: number + 1]].count(groups.row.task)
            name = draw.named_after("groups", groups.row.task, str(times) if times > 1 else "")
            figures["groups" if len(shown) == 1 else name] = draw.plot_groups(groups)
        return figures


def _some(tables: Sequence[Table], what: str, **wanted: str | None) -> tuple[Table, ...]:
    """The tables that there are, or those of a task or metric; a :class:`ResultsError` where there is none."""
    known = {name: [of.task if name == "task" else of.metric for of in tables] for name in wanted}
    places = [n for n in range(len(tables)) if all(value in (None, known[name][n]) for name, value in wanted.items())]
    if not places:
        asked = "".join(f" of {name} {value}" for name, value in wanted.items() if value)
        there = "; there are those of " + ", ".join(dict.fromkeys(*known.values())) if tables and asked else ""
        raise ResultsError(f"there are no {what}{asked}{there}")
    return tuple(tables[n] for n in places)


@dataclass(frozen=True, repr=False)
class OverSteps(Tables):
    """Layers by steps of each task and training, and which task comes first: what :meth:`Results.over_steps` returns.

    It shows as tables in a notebook, in ``print`` and in a rich console.
    """

    tables: tuple[StepTable, ...]
    orders: tuple[Table, ...] = ()
    """Orders of the tasks of trainings with several."""

    def shown(self) -> tuple[Table, ...]:
        """The tables, thinned to at most nine steps, each followed by when most of its gain is reached."""
        shown: list[Table] = []
        for table in self.tables:
            first, last = len(table.headers) - table.series, len(table.headers) - 1
            steps, whole = table.columns(range(first, last + 1)), table.columns([*range(first), last])
            title = f"{table.subject} · when most of its gain is reached"
            shown += [steps.thinned(_MOST_STEPS), replace(whole, title=title, series=0, spare=("gain",))]
        return (*shown, *self.orders)

    def whole(self) -> tuple[Table, ...]:
        """The tables with every step."""
        return (*self.tables, *self.orders)

    def to_pandas(self) -> pd.DataFrame:
        """A line for each task, training, layer and step.

        Columns are ``task``, ``corpus``, ``training``, ``metric``, ``layer``, ``step``, ``value``, ``ci_low`` and
        ``ci_high`` (fractions).
        """
        lines = []
        for table in self.tables:
            of_table = table.subject, table.row.corpus, table.training, table.metric
            for layer, scores in table.by_layer().items():
                for step, score in zip(table.steps, scores, strict=True):
                    lines += [(*of_table, layer, step, score.value, score.low, score.high)] if score else []
        return pd.DataFrame(lines, columns=["task", "corpus", "training", "metric", "layer", "step", *_SCORE])

    def plot(self) -> Figure:
        """Score by step, a line a task with its interval, a panel a layer; of the tasks in the unit of the first."""
        return next(iter(self.figures().values()))

    def heatmap(self, task: str | None = None) -> Figure:
        """Layers by steps of one task: shades and values.

        Raises:
            ResultsError: there is no such task.
        """
        for table in self.tables:
            if task in (None, table.subject):
                return draw.plot_layers_by_steps(table)
        known = ", ".join(table.subject for table in self.tables)
        raise ResultsError(f"task {task} has no scores over steps: there is {known}")

    def figures(self) -> Mapping[str, Figure]:
        """All figures, by the names of their files in a run's folder."""
        return draw.figures_over_steps(self.tables)

    def __repr__(self) -> str:
        return self.to_text()


@dataclass(frozen=True, repr=False)
class Results(Tables):
    """The tidy tables of one or several runs, and views of them.

    It shows as tables in a notebook, in ``print`` and in a rich console; of checkpoints as those over steps.
    """

    rows: tuple[ResultRow, ...]
    comparisons: tuple[ComparisonRow, ...] = ()
    kept: Mapping[str, Predictions] = field(default_factory=dict, compare=False)
    """The predictions for the items of each cell."""
    corpora: Mapping[str, Corpus] = field(default_factory=dict, compare=False)
    """The corpora that are available, by fingerprint, for the texts of items."""
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The settings that they were computed by, as an experiment file has them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "comparisons", tuple(self.comparisons))

    def only(self, **values: Any) -> Results:
        """The results whose rows have these values, such as ``only(task="pos", model="pocket")``.

        Besides columns, ``pool`` chooses by the vector of a sentence or span that readouts were fitted to.
        Baselines, which belong to no model, stay whatever is asked of the model; those of what one model reads stay
        with that model.

        Raises:
            ResultsError: there is no such column, or no row is left.
        """
        columns = ResultRow.__dataclass_fields__
        for name in values:
            if name not in (*columns, "pool"):
                raise name_not_found("column of the results", name, columns)
        if values.get("model") is not None:
            # As tables name it, or as the rows do.
            names = short_names(row.model for row in self.rows)
            full = [name for name, short in names.items() if values["model"] in (name, short)]
            values |= {"model": full[0]} if len(full) == 1 else {}
        rows = tuple(
            row for row in self.rows if all(result_rows.row_fits(row, name, value) for name, value in values.items())
        )
        if not rows:
            wanted = ", ".join(f"{name} {value!r}" for name, value in values.items())
            raise ResultsError(f"no results with {wanted}: see .to_pandas() for what there is")
        cells = {row.cell_id for row in rows}
        kept = tuple(row for row in self.comparisons if row.cell_a in cells and row.cell_b in cells)
        return replace(self, rows=rows, comparisons=kept)

    def view(self, metric: str | None = None) -> View:
        """Tables as people read them, layers ranked by a metric, each task's own main one when left out.

        Raises:
            ResultsError: rows of different data, task versions or models would stand in one table.
            NameNotFoundError: a task has no such metric.
        """
        rows = views.named(self.rows, short_names([row.model for row in self.rows]))
        tables = views.layer_tables(rows, self.comparisons, metric=metric)
        pipelines = views.pipeline_tables(rows, tables)
        heads, (steps, sets) = views.head_tables(rows), views.step_tables(rows)
        wholes = (*sets, *views.whole_tables(rows))
        best, every = zip(*heads, strict=True) if heads else ((), ())
        if not (tables or pipelines or heads or steps or wholes):
            raise ResultsError("there are no scores of any layer to show")
        groups = views.group_tables(tables) + views.group_tables(tables, statistics=True)
        return View(tables, pipelines, groups, best, every, steps, wholes)

    def over_steps(self, *, n_resamples: int = 1000, seed: int = 0) -> OverSteps:
        """Scores over the checkpoints of a training: layers by steps of each task, and which task comes first.

        With several pretraining seeds intervals cover other seeds and other sentences (Sellam et al. 2022, with the
        spread of few seeds rescaled); with one, other sentences alone.

        Args:
            n_resamples: replicates of the bootstrap.
            seed: of the resampling.

        Raises:
            ResultsError: no training has two checkpoints here, or pretraining seeds have no two steps in common.
        """
        shown: OverSteps = _VIEWS.get("over_steps")(self, n_resamples=n_resamples, seed=seed)
        return shown

    def scores(self) -> pd.DataFrame:
        """The scores of the tasks: no controls, no baselines, no random weights if there are pretrained ones.

        :meth:`to_pandas` has those as well, and scores by group, head and seed. Columns are ``task``, ``corpus``,
        ``split``, ``model`` (as tables name it), ``pooling``, ``readout`` (with its settings), ``layer`` (missing for
        mixtures of all), ``metric``, ``value``, ``ci_low`` and ``ci_high`` (fractions, means over seeds, NaN where
        undefined), ``n_items`` and ``n_seeds``.
        """
        whole = [row for row in self.rows if row.model is not None and row.head is None and row.group is None]
        scored = [row for row in whole if row.control == ITSELF and row.status == "ok" and row.value is not None]
        own: list[ResultRow] = []
        scored = [row for row in scored if not metric_form(row.metric).is_difference]
        for same in grouped(scored, "task", "model").values():
            init = result_rows.own_init(same)
            own += [row for row in same if row.init == init]
        rows = views.named(result_rows.in_fixed_order(own), short_names(row.model for row in self.rows))
        frame = []
        for key, runs in grouped(rows, *_SCORED).items():
            score = cast(Score, result_rows.mean_score(runs))  # rows without a value were left out
            counts = runs[0].n_items, len({row.seed for row in runs})
            frame.append((*key, score.value, score.low, score.high, *counts))
        types = {"layer": "Int64", **dict.fromkeys(_SCORE, "float64"), "n_items": "int64", "n_seeds": "int64"}
        names = [*_SCORED, *_SCORE, "n_items", "n_seeds"]
        return pd.DataFrame(frame, columns=names).astype(types).rename(columns={"reading": "readout"})

    def to_pandas(self) -> pd.DataFrame:
        """All rows and columns of ``results.parquet``."""
        return result_rows.rows_to_pandas(self.rows, ResultRow)

    def comparisons_to_pandas(self) -> pd.DataFrame:
        """All rows and columns of ``comparisons.parquet``."""
        return result_rows.rows_to_pandas(self.comparisons, ComparisonRow)

    def plot(self, ax: Axes | None = None, metric: str | None = None) -> Figure:
        """Score by layer, with intervals and baselines: :meth:`View.plot`."""
        return self.view(metric).plot(ax)

    def per_label(self, task: str, layer: int | None, **chosen: Any) -> pd.DataFrame:
        """Precision, recall and F1 of each label at one layer: :func:`per_label_scores`.

        The label of an edge of an undirected tree is the distance in words between its ends, and recall is the share
        of gold edges found; the label of an arc is its relation.

        Args:
            task: its name.
            layer: 0 is the embedding output; None for what reads no layer, such as a baseline.
            chosen: further columns, such as ``seed``, ``model``, ``init`` or ``control``; those of the probe itself on
                the pretrained model with the lowest seed when left out.

        Raises:
            ResultsError: no such cell, several of them, none of its predictions kept, or a task without labels.
        """
        return _items.per_label_scores(self._predictions_of(task, layer, **chosen))

    def confusion(self, task: str, layer: int | None, **chosen: Any) -> pd.DataFrame:
        """Gold by predicted labels at one layer: :func:`confusion`; arguments as in :meth:`per_label`."""
        return _items.confusion(self._predictions_of(task, layer, **chosen))

    def per_group(
        self,
        task: str,
        layer: int | None,
        *,
        metric: str | None = None,
        by: Literal["pieces"] | Sequence[str] | None = None,
        texts: Any = None,
        **chosen: Any,
    ) -> pd.DataFrame:
        """Scores of each group of items, such as a relation or construction, at one layer, with 95 % intervals.

        Columns are ``items`` (scored), ``clusters`` (they stand in), ``value``, ``ci_low`` and ``ci_high`` (fractions,
        NaN where undefined), of the task's own groups also ``skipped`` (items), and ``chance`` where something is
        chosen; ``attrs`` has the metric.

        Args:
            task: its name.
            layer: as in :meth:`per_label`, like ``chosen``.
            metric: the task's main one when left out.
            by: what groups words, instead of the task's own groups: ``"pieces"``, how many the tokenizer makes of each;
                or a name for each line of :meth:`predictions`, empty for those that are left out.
            texts: the corpus, as of :meth:`predictions`, for ``by="pieces"``.

        Raises:
            ResultsError: no such cell, several of them, or its items stand in no groups.
            NameNotFoundError: groups have no such metric.
        """
        first = self._row_of(task, layer, **chosen)
        rows = [row for row in self.rows if (row.cell_id, row.control) == (first.cell_id, first.control)]
        if by is None:
            rows = [row for row in rows if row.group is not None and row.status == "ok"]
            if not rows:
                raise ResultsError(f"task {task}, layer {layer}: its items stand in no groups; group words with by=")
        rows.sort(key=lambda row: not row.main_metric)  # the main one is first
        known = dict.fromkeys(row.metric for row in rows if by is None or row.metric in METRICS)
        if metric is not None and metric not in known:
            raise name_not_found(f"metric of {'the groups of ' if by is None else ''}task {task}", metric, known)
        metric = metric or next(iter(known))
        if by is not None:
            if isinstance(by, str) and by != "pieces":
                raise name_not_found("grouping of words", by, ["pieces"])
            kept, corpora = _items.kept_of(self.kept, first), _items.corpora_with(self.corpora, texts, [first])
            names = _items.piece_groups(first, kept, corpora) if isinstance(by, str) else list(map(str, by))
            return _items.scores_by(kept, names, metric).sort_index()
        rows = [row for row in rows if row.metric == metric]
        groups = {name: row for name in views.group_names(rows) for row in rows if row.group == name}
        counts = ("n_items", "n_clusters", "n_skipped")
        lines = [
            [*(getattr(row, count) for count in counts), row.value, row.ci_low, row.ci_high, row.chances.get(name)]
            for name, row in groups.items()
        ]
        columns = ["items", "clusters", "skipped", *_SCORE, "chance"]
        frame = pd.DataFrame(lines, pd.Index(groups, name="group"), columns)
        frame = frame.astype(dict.fromkeys((*_SCORE, "chance"), "float64"))
        frame = frame.drop(columns="chance") if frame["chance"].isna().all() else frame
        frame.attrs["metric"] = metric
        return frame

    def predictions(
        self,
        task: str | None = None,
        layer: int | None = None,
        *,
        control: Control | None = ITSELF,
        texts: Any = None,
        **chosen: Any,
    ) -> pd.DataFrame:
        """Predictions for each item, a line for every item and cell.

        Columns are ``task``, ``corpus``, ``split``, ``model``, ``readout``, ``layer``, ``init``, ``control``, ``seed``;
        ``sentence`` (its id), ``text``, ``place`` (its words, counted from 1: ``3``, ``3-5``, of two spans ``3-5,7``)
        and ``word`` (what is written there); ``gold``, ``predicted``, and ``probability`` of what is predicted, NaN
        where none was kept. Where usable information is measured, ``information_bits`` is that about the item's label:
        the least are the hardest items. Cloze tasks have ``group``, ``rank`` and ``probability`` of what is correct,
        and ``reason`` where an item was not scored; trees have a line for each edge, arc or root of gold.

        Args:
            task: its name; all tasks when left out.
            layer: 0 is the embedding output; all layers when left out.
            control: that of the cells, such as ``majority``; None for all, the task itself when left out.
            texts: the corpus, by whatever ``load_corpus`` takes, for results that were read from a folder; without it
                ``text`` and ``word`` are missing there.
            chosen: further columns, such as ``seed``, ``model`` or ``init``; without ``init``, the weights that the
                scores are about.

        Raises:
            ResultsError: no such cell, or none of its predictions kept; texts of another corpus.
        """
        given = {"task": task, "layer": layer, "control": control, **chosen}
        found = self.only(**{name: value for name, value in given.items() if value is not None}).rows
        corpora, names = _items.corpora_with(self.corpora, texts, found), short_names(row.model for row in self.rows)
        parts, words = list[dict[str, Any]](), dict[tuple[str, str], Any]()
        for row in self._with_items(found, any_init="init" in chosen):
            split = row.corpus_fingerprint, row.split
            corpus = corpora.get(row.corpus_fingerprint)
            if split not in words and corpus is not None and row.split in corpus:
                # Kept from cell to cell: the cells of a task share their items.
                words[split] = functools.lru_cache(maxsize=1)(_items.SplitTexts(corpus[row.split]).columns)
            part = _items.item_columns(row, _items.kept_of(self.kept, row), words.get(split))
            about = {name: getattr(row, name) for name in _ABOUT}
            about |= {"readout": row.reading or None, "model": names.get(row.model or "")}
            parts.append({name: [value] * len(part["gold"]) for name, value in about.items()} | part)
        if not parts:
            raise ResultsError(
                "no predictions of items: codes, statistics and attention heads keep sums; see .to_pandas() for scores"
            )
        columns: dict[str, list[Any]] = {}
        for name in dict.fromkeys((*_ABOUT[:4], "readout", *_ABOUT[4:], *_ITEM, *itertools.chain(*parts))):
            of_parts = (part.get(name, [None] * len(part["gold"])) for part in parts)
            columns[name] = list(itertools.chain.from_iterable(of_parts))
        types = dict.fromkeys(("layer", "seed", "rank", "fold"), "Int64") | {"probability": "float64"}
        return pd.DataFrame(columns).astype({name: kind for name, kind in types.items() if name in columns})

    def _with_items(self, rows: Sequence[ResultRow], *, any_init: bool) -> list[ResultRow]:
        """A row of each cell that keeps predictions of items, by the metric that the task is ranked by."""
        # The majority among the items that could be asked of a model is a row of that model's own cell.
        of_models = {row.cell_id for row in self.rows if not row.is_baseline}
        of_sums = {row.task for row in self.rows if row.readout in result_rows.ATTENTION or row.is_statistic}
        inits: dict[tuple[str, str | None], str] = {}
        if not any_init:
            of_weights = [row for row in self.rows if row.init is not None]
            inits = {key: result_rows.own_init(same) for key, same in grouped(of_weights, "task", "model").items()}
        cells: dict[str, ResultRow] = {}
        for row in sorted(rows, key=lambda row: not row.main_metric):
            is_code = "codelength" in row.param("settings", {})
            is_other = row.init is not None and inits.get((row.task, row.model), row.init) != row.init
            is_majority = row.is_baseline and row.cell_id in of_models
            if row.status == "ok" and not (is_code or is_other or is_majority or row.task in of_sums):
                cells.setdefault(row.cell_id, row)
        return [cells[cell_id] for cell_id in dict.fromkeys(row.cell_id for row in rows) if cell_id in cells]

    def fitted(self, task: str, layer: int | None, **chosen: Any) -> FittedProbe:
        """The probe of labels or numbers that was fitted to one layer, to put to new text: :meth:`FittedProbe.predict`.

        Args:
            task: its name.
            layer: 0 is the embedding output; None of a readout that mixes all layers.
            chosen: further columns, as in :meth:`per_label`.

        Raises:
            ResultsError: no such cell, several of them, or its fit was not kept.
        """
        cell = self._row_of(task, layer, **chosen).cell_id
        for folder in self._folders:
            path = folder / FITS / f"{file_with(folder, cell)}.safetensors"
            if path.is_file() and (found := FittedProbe.read(path, cell)):
                return found[cell]
        raise ResultsError(
            f"task {task}, layer {layer}: its fit was not kept, as it is of readouts of labels and numbers, where "
            "nothing is erased, since fits are kept; run the same again with out= a new folder"
        )

    def __add__(self, other: Results) -> Results:
        """The rows and comparisons of both, such as two models on the same data; what both have stands once.

        Raises:
            ResultsError: rows of different data, task versions or models would stand in one view, or one cell has two
                scores.
        """
        rows = result_rows.joined_rows(self.rows, other.rows)
        views.refuse_mixtures(rows)
        kept = ChainMap(*(cast(Any, part) for one in (self, other) for part in parts_of(one.kept)))
        comparisons = tuple(dict.fromkeys((*self.comparisons, *other.comparisons)))
        asked = dict[str, Any]()
        if self.asked and {**self.asked, "models": ()} == {**other.asked, "models": ()}:  # the same of other models
            models = *self.asked["models"], *other.asked["models"]
            asked = {**self.asked, "models": [one for n, one in enumerate(models) if one not in models[:n]]}
        return Results(rows, comparisons, kept, {**self.corpora, **other.corpora}, asked)

    def models(self) -> pd.DataFrame:
        """Models at each layer, and at their best layers: :func:`model_frame`.

        Raises:
            ResultsError: models were not compared; ``bertology.compare_models`` does.
        """
        return model_frame(self.rows, self.comparisons)

    @property
    def _folders(self) -> list[Path]:
        return [part.folder for part in parts_of(self.kept) if isinstance(part, PredictionFolder)]

    def _row_of(
        self,
        task: str,
        layer: int | None,
        *,
        init: Literal["pretrained", "random", "random_blocks"] | None = "pretrained",
        control: Control = ITSELF,
        **chosen: Any,
    ) -> ResultRow:
        """The first row of the one cell that is meant; a baseline has no layer, and so no weights."""
        of_baseline = any(row.control == control and row.is_baseline for row in self.rows)
        rows = self.only(task=task, layer=layer, init=None if of_baseline else init, control=control, **chosen).rows
        first = min((row.seed for row in rows if row.seed is not None), default=None)
        rows = tuple(row for row in rows if first is None or row.seed == first)
        # Of baselines those of the items that one model reads.
        rows = tuple(row for row in rows if of_baseline and row.model is not None) or rows
        draw = min((row.init_seed for row in rows if row.init_seed is not None), default=None)
        cells = sorted({row.cell_id for row in rows if draw is None or row.init_seed in (None, draw)})
        if len(cells) > 1:
            raise ResultsError(f"{task}, layer {layer}: {len(cells)} cells fit; choose one by model=, corpus= or pool=")
        return next(row for row in rows if row.cell_id == cells[0])

    def _predictions_of(self, task: str, layer: int | None, **chosen: Any) -> Predictions:
        row = self._row_of(task, layer, **chosen)
        kept, tally = _items.kept_of(self.kept, row), _items.tally_of(row.metric)
        if kept.is_cloze:
            raise ResultsError(f"task {task} has no labels: .per_group({task!r}, {layer}) tells its groups apart")
        return kept if tally == "labels" else _items.tree_items(kept, tally)

    def to_yaml(self) -> str:
        """The experiment file by which ``bertology run`` computes the same.

        Raises:
            ResultsError: they are of several runs, or what was asked was not kept.
        """
        if self.asked:
            return to_yaml(self.asked)
        files = [folder / result_rows.ASKED for folder in self._folders]
        if len(files) != 1 or not files[0].is_file():
            raise ResultsError("what was asked is not known of results of several runs: take those of each")
        return files[0].read_text(encoding="utf-8")

    def save(
        self,
        folder: str | Path,
        *,
        tables: Sequence[Literal["md", "csv", "tex"]] = ("md", "tex"),
        plots: Sequence[Literal["png", "svg", "pdf"]] = ("png", "svg", "pdf"),
    ) -> Path:
        """Write the tidy tables, the predictions, and views of them, into ``folder``, which is returned.

        It is made if absent, and will hold ``results.parquet``, ``comparisons.parquet``,
        ``predictions/*.parquet``, ``layers.md`` … (``layers.csv`` has every number) and, of several tables,
        ``heatmap.png`` …; of items in groups ``groups.png`` …, of heads ``heads-<task>.png`` …,
        ``steps-<task>-<metric>.png`` …; of checkpoints ``over-steps.md`` … (all other files but ``layers.csv`` show the
        last checkpoint).

        Raises:
            StoreError: it cannot be written.
        """
        folder = Path(folder)
        left = {row.cell_id for row in self.rows}
        for part in parts_of(self.kept):
            mine = {cell_id for cell_id in left if cell_id in part}
            left -= mine
            if isinstance(part, PredictionFolder):
                part.copy(mine, folder)
                continue
            for cell_id in sorted(mine):
                write_predictions(folder, cell_id, part[cell_id])
        result_rows.write_results(folder, self.rows, comparisons=self.comparisons)
        if tables or plots:
            write_derived(folder, self._files(tables, plots))
        return folder

    def _files(self, tables: Sequence[str], plots: Sequence[str]) -> dict[str, bytes]:
        """Tables and figures as files, by their names; of checkpoints of a training those of the last one."""
        over_steps, view = self.at_last_step()
        texts = {"layers.md": view.to_markdown, "layers.csv": view.to_csv, "layers.tex": view.to_latex}
        if over_steps is not None:
            texts |= {"over-steps.md": over_steps.to_markdown, "over-steps.csv": over_steps.to_csv}
            texts |= {"over-steps.tex": over_steps.to_latex, "layers.csv": lambda: self.view().to_csv()}
        files = {name: text().encode() for name, text in texts.items() if name.endswith(tuple(tables))}
        if plots:
            from bertology._figures import figure_bytes

            drawn = {**view.figures(), **(over_steps.figures() if over_steps is not None else {})}
            for name, figure in drawn.items():
                files |= {f"{name}.{image}": figure_bytes(figure, image) for image in plots}
        return files

    def at_last_step(self) -> tuple[OverSteps | None, View]:
        """The tables over steps, None where there are none; and all others, of checkpoints of a training the last."""
        over_steps = self.over_steps() if views.has_steps(self.rows) else None
        return over_steps, (self if over_steps is None else replace(self, rows=views.last_steps(self.rows))).view()

    def __repr__(self) -> str:
        tasks = sorted({row.task for row in self.rows})
        return f"Results({', '.join(tasks) or 'no tasks'}: {len(self.rows)} rows, {len(self.comparisons)} comparisons)"

    def overview(self) -> tuple[OverSteps | View, ...]:
        """The views that results are shown as: tables by layer; for checkpoints, those over steps and the rest."""
        if not views.has_steps(self.rows):
            return (self.view(),)
        rest = views.beside_steps(self.rows)
        return (self.over_steps(), *([replace(self, rows=rest).view()] if rest else []))

    def shown(self) -> tuple[Table, ...]:
        """The tables of all views."""
        return tuple(table for view in self.overview() for table in view.shown())

    def whole(self) -> tuple[Table, ...]:
        """The same with every head, seed and step."""
        return tuple(table for view in self.overview() for table in view.whole())


@explained_system_errors()
def read_results(folder: str | Path) -> Results:
    """The results that a run left in ``folder``; predictions are read when asked for.

    Raises:
        ResultsError: there are none, or a file is broken.
    """
    folder = Path(folder)
    rows = tuple(result_rows.in_fixed_order(result_rows.read_result_rows(folder)))
    checksums = {row.cell_id: row.predictions_sha256 for row in rows if row.predictions_sha256 is not None}
    return Results(rows, result_rows.read_comparison_rows(folder), PredictionFolder(folder, checksums))
