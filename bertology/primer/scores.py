"""Scores of a run with the resamples behind them, so that a rule can compare any two of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bertology._lazy import scipy
from bertology.errors import BertologyError, ResultsError
from bertology.families.contract import family_of
from bertology.families.models import metric_of, scores_of_cells
from bertology.families.request import RANDOM, ReadoutConfig
from bertology.measures import bootstrap_ratio, over_runs
from bertology.measures.intervals import Bootstrap, exact_bounds, freedom
from bertology.measures.metrics import Bounds
from bertology.measures.sums import Floats
from bertology.primer.claims import Measurement
from bertology.primer.trained import of_runs, own_scores
from bertology.probing import get_probe
from bertology.results import ResultRow, Results
from bertology.results.predictions import HeadSums, read_head_sums
from bertology.results.rows import grouped, own_init

Key = int | str | None
"""A layer, a head, or None for a score of the whole model."""
_RUNS = "init_seed", "pretraining_seed", "seed"
"""What the runs of the same score differ in."""
N_RESAMPLES = 2000
"""Resamples behind a verdict, which give standard errors; the tables of the run have more."""
LEVEL = 0.975
"""One-sided confidence of a verdict: 95 % intervals."""


class NotTestedError(BertologyError):
    """A claim cannot be tested with what there is; the message says why."""


@dataclass(frozen=True)
class Curve:
    """Scores of layers, of heads, or one of a whole model, or contrasts of such."""

    keys: tuple[Key, ...]
    values: Floats
    """``[key]``"""
    replicates: Floats
    """``[resample, key]``; curves of equal ``n`` have paired resamples."""
    n: int
    """Number of clusters (sentences, items) that were resampled."""
    depths: Floats
    """``[key]`` relative depth: 0 the embeddings, 1 the last layer; NaN of whole models."""
    rows: tuple[ResultRow, ...]
    """One of the rows behind each key."""
    by_run: Floats | None = None
    """``[run, key]`` values of the seeds or random initialisations that were averaged."""
    slack: Floats = field(default_factory=lambda: np.zeros(0))
    """``[key]`` reach of the exact interval where all clusters are right, or all wrong, so that no resample varies."""

    @property
    def cells(self) -> tuple[str, ...]:
        """Ids of the cells behind it."""
        return tuple(row.cell_id for row in self.rows)

    @property
    def is_by_layer(self) -> bool:
        """Whether the keys are several layers, or heads of them."""
        return len(self.keys) > 1 and all(row.layer is not None for row in self.rows)

    def take(self, places: Sequence[int]) -> Curve:
        """Some of the keys."""
        at = list(places)
        by_run = None if self.by_run is None else self.by_run[:, at]
        rows = tuple(self.rows[place] for place in at)
        keys = tuple(self.keys[place] for place in at)
        arrays = self.values[at], self.replicates[:, at], self.n, self.depths[at]
        return Curve(keys, *arrays, rows, by_run, self.slack[at])

    def between(self, low: float, high: float) -> Curve:
        """The keys between two relative depths."""
        inside = np.flatnonzero((self.depths >= low - 1e-9) & (self.depths <= high + 1e-9))
        if not len(inside):
            raise NotTestedError(f"no layer lies between the relative depths {low:g} and {high:g}")
        return self.take(inside.tolist())

    def combined(self, weights: Floats, *, keys: Sequence[Key]) -> Curve:
        """Linear combinations: ``weights`` are ``[key, new key]``."""
        by_run = None if self.by_run is None else self.by_run @ weights
        depths = np.array([self.depths[np.abs(column) > 0].mean() for column in weights.T])
        rows = tuple(self.rows[int(np.argmax(np.abs(column)))] for column in weights.T)
        parts = self.values @ weights, self.replicates @ weights, self.n, depths
        return Curve(tuple(keys), *parts, rows, by_run, self.slack @ np.abs(weights))

    def by_layer(self) -> Curve:
        """The mean over the heads of each layer, of a curve of heads; itself of layers."""
        if not any(isinstance(key, str) for key in self.keys):
            return self
        of_key = [row.layer for row in self.rows]
        layers = list(dict.fromkeys(of_key))
        weights = np.array([[float(own == layer) for layer in layers] for own in of_key])
        return self.combined(weights / weights.sum(axis=0), keys=layers)

    def mean(self) -> Curve:
        """The mean over all keys, as the score of a whole."""
        return self.combined(np.full((len(self.keys), 1), 1 / len(self.keys)), keys=[None])

    def less(self, other: Curve | float) -> Curve:
        """The difference from a value, from one score, or key by key from a curve of the same keys."""
        if not isinstance(other, Curve):
            by_run = None if self.by_run is None else self.by_run - other
            return replace(self, values=self.values - other, replicates=self.replicates - other, by_run=by_run)
        if len(other.keys) == 1 and len(self.keys) > 1:
            other = other.combined(np.ones((1, len(self.keys))), keys=self.keys)
        elif other.keys != self.keys and not len(self.keys) == len(other.keys) == 1:
            known = {key: place for place, key in enumerate(other.keys)}
            if missing := [key for key in self.keys if key not in known]:
                raise NotTestedError(f"what it is compared with has no score at {missing[0]}")
            other = other.take([known[key] for key in self.keys])
        by_run = None
        if self.by_run is not None or other.by_run is not None:
            runs = [side.values[None] if side.by_run is None else side.by_run for side in (self, other)]
            # Runs of unequal number are not paired: the spread of the fewer decides the degrees of freedom.
            n_runs = [len(run) for run in runs]
            if n_runs[0] != n_runs[1] and 1 not in n_runs:
                fewer = int(n_runs[1] < n_runs[0])
                runs[1 - fewer] = runs[1 - fewer].mean(axis=0, keepdims=True)
            by_run = runs[0] - runs[1]
        parts = self.values - other.values, self.replicates - other.replicates, min(self.n, other.n)
        return Curve(self.keys, *parts, self.depths, self.rows, by_run, self.slack + other.slack)

    @cached_property
    def stderr(self) -> Floats:
        """``[key]`` standard errors, with the small-sample factor."""
        deviations: Floats = np.nanstd(self.replicates, axis=0, ddof=1)
        return deviations * float(np.sqrt(self.n / max(1, self.n - 1)))

    @cached_property
    def degrees(self) -> Any:
        """``[key]`` degrees of freedom of Student's t."""
        rest = np.full(len(self.values), max(1.0, self.n - 1.0))
        return rest if self.by_run is None or len(self.by_run) < 2 else freedom(self.stderr, self.by_run, self.n)

    @property
    def p_value(self) -> float:
        """Two-sided p-value of no difference, of a contrast of one key."""
        distance, error = abs(float(self.values[0])), float(self.stderr[0]) + float(self.slack[0])
        if error == 0:
            return float(distance == 0)
        return 2 * float(scipy.special.stdtr(self.degrees[0], -distance / error))

    def bounds(self, *, at_once: bool = False, n_others: int = 1) -> tuple[Floats, Floats]:
        """``[key]`` bounds of 95 % intervals.

        With ``at_once`` all of them cover their values in 95 % of samples (largest studentised deviation over the
        resamples); with ``n_others`` the level is corrected for so many comparisons (Bonferroni).
        """
        if self.n < 2:
            raise NotTestedError("one cluster of items alone: it has no interval")
        reach = np.broadcast_to(scipy.special.stdtrit(self.degrees, 1 - (1 - LEVEL) / n_others), len(self.values))
        low = high = reach
        if at_once and len(self.values) > 1:
            spread = np.where(self.stderr > 0, self.stderr, 1.0)
            deviations = (self.replicates - self.values) / spread
            factor = scipy.special.stdtrit(self.degrees, LEVEL) / scipy.special.stdtrit(1e9, LEVEL)
            above, below = (np.nanquantile(np.nanmax(side, axis=1), LEVEL) for side in (deviations, -deviations))
            low, high = np.maximum(reach, above * factor), np.maximum(reach, below * factor)
        return self.values - low * self.stderr - self.slack, self.values + high * self.stderr + self.slack


@dataclass(frozen=True)
class Scores:
    """The finished scores of a run."""

    results: Results
    folder: Path
    corpora: Mapping[str, str]
    """The name in the rows of the corpus of each role."""
    folders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The folders of trained models by what the rows call them."""
    seed: int = 0
    _kept_sums: dict[str, tuple[HeadSums, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def _rows(self) -> dict[tuple[Any, ...], list[ResultRow]]:
        return grouped(self.results.rows, "task", "corpus")

    def curve(self, one: Measurement, model: str, *, split: str | None = None) -> Curve:
        """The scores that a measurement is about, of one model.

        Raises:
            NotTestedError: there is none, or none with an interval; the message says why.
        """
        if one.task is None:
            return self._own(one, model)
        probe = get_probe(one.task)
        of_task = self._rows.get((probe.task, self.corpora.get(str(one.on), "")), [])
        config = ReadoutConfig() if one.readout is None else one.readout.configs[0]
        metric = one.metric or family_of(probe).configured(probe, config).scores[0].name
        own = own_init([row for row in of_task if row.training == model])
        wanted = RANDOM if one.control == RANDOM else own
        rows = [row for row in of_task if self._is_of(row, one, model, config) and row.init in (None, wanted)]
        if failed := next((row for row in rows if row.status == "failed"), None):
            path = self.folder / "cells" / f"{failed.cell_id}.failed.json"
            error = json.loads(path.read_text(encoding="utf-8"))["error"] if path.is_file() else {}
            raise NotTestedError(f"{probe.task} could not be computed: {error.get('message', 'no reason kept')}")
        rows = [row for row in rows if row.metric == metric]
        in_group = [row for row in rows if row.group == one.group]
        # Of kept predictions the items of a group are chosen; what else has no row of the group has no score of it.
        if not in_group and family_of(probe).keeps_items:
            in_group = [row for row in rows if row.group is None]
        rows = in_group
        # Dev scores of heads have their own rows; the split of other rows is that of the corpus.
        if len(splits := {row.split for row in rows}) > 1:
            rows = [row for row in rows if (row.split == "dev") == (split == "dev")]
        elif split == "dev" and splits != {"dev"}:
            raise NotTestedError(f"{probe.task} has no scores on dev to choose by")
        if one.at != "whole" and any(row.layer is not None for row in rows):
            rows = [row for row in rows if row.layer is not None]
            # Where a layer has a score of its own, it is that and not the mean of its heads.
            rows = [row for row in rows if row.head is None] or rows
        elif one.at == "whole":
            rows = [row for row in rows if row.layer is None and row.head is None] or rows
        if not rows:
            group = f" of {one.group}" if one.group else ""
            control = "" if one.control == "none" else f" for {one.control.replace('_', ' ')}"
            raise NotTestedError(f"{probe.task} has no {metric}{group} here{control}")
        runs = [self._run(same, metric, one.group, split) for same in grouped(rows, *_RUNS).values()]
        keys, of_keys, _ = runs[0]
        if any(other != keys for other, *_ in runs):
            raise NotTestedError(f"{probe.task}: its runs have scores of different layers")
        found = [scores for *_, scores in runs]
        if len(found) > 1 and not any(np.isfinite(one.stderr).any() for one in found):
            # Figures of fits, such as those of mixing weights, vary with the fits alone.
            found = [of_runs(metric, np.array([one.values for one in found]), N_RESAMPLES, self.seed)]
            of_keys = [_counting(row, "fits") for row in of_keys]
        joined = over_runs(found)
        known = np.flatnonzero(np.isfinite(joined.values) & np.isfinite(joined.stderr)).tolist()
        if not known:
            raise NotTestedError(f"{metric} of {probe.task} has no interval here")
        layers = [int(str(row.layer)) if row.layer is not None else np.nan for row in of_keys]
        depths = np.array(layers) / float(of_keys[0].n_layers or 1)
        arrays = joined.values, joined.replicates, joined.n_clusters, depths
        return Curve(tuple(keys), *arrays, tuple(of_keys), joined.by_run, _slack(joined)).take(known)

    @staticmethod
    def _is_of(row: ResultRow, one: Measurement, model: str, config: ReadoutConfig) -> bool:
        """Whether a row is of the model, control and readout configuration of a measurement."""
        if one.control not in ("none", RANDOM):
            if row.control != one.control or row.model not in (None, model):
                return False
            if row.is_baseline:
                return True
        elif row.control != "none" or row.training != model:
            return False
        if config.readout is not None and row.readout != config.readout.partition(".")[0]:
            return False
        return dict(row.param("settings", {})) == config.changes

    def _own(self, one: Measurement, model: str) -> Curve:
        """The score of a training itself, which stands in the folders of its models."""
        try:
            runs, unit = own_scores(self.folders[model], str(one.metric), n_resamples=N_RESAMPLES, seed=self.seed)
        except BertologyError as error:
            raise NotTestedError(str(error)) from error
        # As many resamples as those of a run have.
        joined = over_runs([replace(run, replicates=run.replicates[:N_RESAMPLES]) for run in runs])
        # The unit of a metric is read off the end of its name: `held_out.1.bits` is no share.
        metric = str(one.metric).replace(".", "_")
        about: dict[str, Any] = {"experiment": "primer", "model": model, "task": "training", "metric": metric}
        about |= dict.fromkeys(("cell_id", "task_version", "corpus", "corpus_fingerprint"), "")
        about |= dict.fromkeys(("n_train", "n_items", "n_classes"), 0)
        row = _counting(ResultRow(**about, split="test", n_clusters=joined.n_clusters), unit)
        arrays = joined.values, joined.replicates, joined.n_clusters, np.array([np.nan])
        return Curve((None,), *arrays, (row,), joined.by_run, _slack(joined))

    def _run(
        self, rows: Sequence[ResultRow], metric: str, group: str | None, split: str | None
    ) -> tuple[list[Key], list[ResultRow], Bootstrap]:
        """The scores of one run, with its resamples: from predictions, from sums, or else from standard errors."""
        by_key = {row.head or row.layer: row for row in rows}
        keys, of_keys = list(by_key), list(by_key.values())
        first, probe = of_keys[0], get_probe(of_keys[0].task)
        resampling: dict[str, Any] = {"n_resamples": N_RESAMPLES, "seed": self.seed}
        if family_of(probe).keeps_items:
            counted = metric_of(first)
            if counted is not None and all(row.cell_id in self.results.kept for row in of_keys):
                items = None if group is None else self._items(first, group)
                return keys, of_keys, scores_of_cells(self.results, of_keys, counted, items=items, **resampling)
            if group != first.group:
                raise NotTestedError(f"{probe.task} has no {metric} of the group {group}")
        elif sums := self._all_sums(of_keys, metric, "dev" if split == "dev" else "test"):
            clusters = np.unique(np.concatenate([one.clusters for one, _ in sums]))
            over, under = np.zeros((2, len(sums), len(clusters)))
            for place, (one, number) in enumerate(sums):
                columns = np.searchsorted(clusters, one.clusters)
                over[place, columns], under[place, columns] = one.over[number], one.under[number]
            bounds: Bounds = next((one.bounds for one in probe.scores if one.name == metric), "none")
            of_keys = [row if row.param("clusters") else _counting(row, "sentences") for row in of_keys]
            return keys, of_keys, bootstrap_ratio(over, under, metric=metric, bounds=bounds, **resampling)
        return keys, of_keys, _from_errors(of_keys, self.seed)

    def _items(self, row: ResultRow, group: str) -> list[str]:
        """The items of a group that were scored; of all groups that fit a pattern with ``*``."""
        kept = self.results.kept[row.cell_id]
        columns = zip(kept.item_ids, kept.extra["group"], kept.extra["reason"], strict=True)
        pattern = re.compile(re.escape(group).replace(r"\*", ".*"))
        items = [item for item, own, reason in columns if pattern.fullmatch(own) and not reason]
        if not items:
            raise NotTestedError(f"{row.task} has no items of the group {group} here")
        return items

    def _all_sums(self, rows: Sequence[ResultRow], metric: str, split: str) -> list[tuple[HeadSums, int]]:
        """The sums behind rows, each with the place of its head; none where the cells keep no sums."""
        try:
            return [self._sums(row, metric, split) for row in rows]
        except ResultsError:
            return []

    def _sums(self, row: ResultRow, metric: str, split: str) -> tuple[HeadSums, int]:
        if row.cell_id not in self._kept_sums:
            self._kept_sums[row.cell_id] = read_head_sums(self.folder, row.cell_id)
        number = 0 if row.head is None else int(row.head.partition("H")[2]) - 1
        wanted = split, metric, row.group or ""
        for one in self._kept_sums[row.cell_id]:
            if (one.split, one.metric, one.group) == wanted and number < len(one.over):
                return one, number
        raise NotTestedError(f"{row.task}: what is kept has no {metric}")


def _counting(row: ResultRow, unit: str) -> ResultRow:
    return replace(row, params_json=json.dumps({**json.loads(row.params_json), "clusters": unit}, sort_keys=True))


def _slack(scores: Bootstrap) -> Floats:
    """``[column]`` reach of exact intervals where all clusters are right or all wrong."""
    found = np.zeros(len(scores.values))
    for place, value in enumerate(scores.values.tolist()):
        if scores.bounds == "share" and value in (0.0, 1.0) and not np.nanstd(scores.replicates[:, place]):
            low, high = exact_bounds(value, scores.n_clusters, 1 - LEVEL)
            found[place] = high - low
    return found


def _from_errors(rows: Sequence[ResultRow], seed: int) -> Bootstrap:
    """Scores of which only standard errors are kept, drawn independently of each other."""
    values = np.array([np.nan if row.value is None else row.value for row in rows])
    errors = np.array([np.nan if row.stderr is None else row.stderr for row in rows])
    drawn = np.random.default_rng([seed, *rows[0].cell_id[:8].encode()]).standard_normal((N_RESAMPLES, len(rows)))
    n = min(row.n_clusters for row in rows)
    edges = values, errors, values, values, ("none",) * len(rows)
    jackknife = np.tile(values, (max(n, 1), 1))
    parts = values + errors * drawn, jackknife, n, 2 * LEVEL - 1, seed
    return Bootstrap(rows[0].metric, *edges, *parts, bounds="none")
