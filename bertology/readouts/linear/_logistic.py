"""``linear``: multinomial logistic regression of every layer, problem and strength at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._workers import Workers
from bertology.readouts._base import FitReport, best_places
from bertology.readouts._fitting import LabelReadout, TrainingData
from bertology.readouts._moments import Moments, Sample, choose_items, survey
from bertology.readouts._sources import Floats, Integers, layers_of, resident
from bertology.readouts.linear._affine import EXTENSIONS, Affine, FittedAffine, StrengthPath
from bertology.readouts.linear._curvature import Bound, Spread, measure_curvature
from bertology.readouts.linear._objective import Fits, Minima, Objective, Precondition, minimise

_SAMPLE_LEAST = 8192
_SAMPLE_A_FEATURE = 32
"""A sample has at least so many items, and so many a feature; fewer items are all in it."""
_PART = 4
"""Of many items, one of so many is in the sample."""
_SAMPLE_ITEMS = 32768
_SAMPLE_BYTES = 1 << 30
_CURVATURE_BYTES = 512 << 20
_ROUGH = 0.012
"""Part of its gradient at the start that a fit to the sample may keep: going further would only learn the sample."""
_COMPARED = 10.0
"""How many times the tolerance is allowed where fits are only compared with each other on dev."""


@dataclass(frozen=True)
class LinearReadout(LabelReadout[FittedAffine]):
    """Multinomial logistic regression with an L2 path, as scikit-learn's ``LogisticRegression`` states it.

    For each layer, problem and strength ``C`` it minimises ``C · Σ w (−ln p) + ½ ‖W‖²`` over the training items,
    their features standardised by the mean and standard deviation (1 for a constant feature) that they have under
    the problem's own weights; intercepts are not penalised. As in scikit-learn, a problem whose training data have
    two classes has one weight vector, the difference of the two.

    Each layer is fitted by itself, all problems and strengths together, by L-BFGS with a preconditioner of their own
    (see ``_curvature``). Where there are many training items, the strengths of the path are compared on dev by fits to
    a part of the items, and only the chosen one is fitted to all. Where dev accuracy is best at an end of the path,
    strengths beyond it are tried one after the other, each from where the one before it ended, until one is no better.
    The seed is that of the part: where the last fit ends depends on it only through the strength that is chosen.
    """

    strengths: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    """The path of ``C``: the inverse of the regularisation, so that small is strong."""
    extensions: int = EXTENSIONS
    """How many strengths, in steps of ten, may be tried beyond either end of a path of two or more."""
    max_iter: int = 200
    """Evaluations of loss and gradient on all training items at most."""
    tolerance: float = 1e-4
    """Largest absolute component that the gradient of the mean loss may have at the end: scikit-learn's ``tol``."""

    @property
    def name(self) -> str:
        return "linear.v1"

    def fit_to(self, data: TrainingData) -> FittedAffine:
        path = StrengthPath.of(self.strengths, extensions=self.extensions, large_is_strong=False)
        data = replace(data, train=resident(data.train, data.device), dev=resident(data.dev, data.device))
        # A layer is fitted on one thread, so that the result does not depend on how many there are.
        with Workers(data.device, n=data.n_threads) as workers:
            layers = workers.map(lambda place: _LayerSearch.of(data, place, path, self).run(), data.train.n_layers)
        regressions, best, records = zip(*layers, strict=True)
        record = {name: np.concatenate([one[name] for one in records], axis=1) for name in records[0]}
        report = FitReport.of_tried(path.strengths, np.concatenate(best, axis=1), **record)
        return FittedAffine(self.name, Affine.of_layers(regressions), report)


@dataclass(frozen=True)
class _LayerSearch:
    """The choice of the strength in one layer, and the fit of every problem at its strength.

    Strengths are compared by fits to a part of the training items (all of them where they are few); only the chosen
    strength is then fitted to all items, from where the fit to the part ended.
    """

    path: StrengthPath
    solver: _Solver
    record: Mapping[str, NDArray[Any]]
    """Details of the fits, ``[problem, layer, strength]`` by field of :class:`FitReport`; of one layer."""

    @classmethod
    def of(cls, data: TrainingData, place: int, path: StrengthPath, readout: LinearReadout) -> _LayerSearch:
        """The layer at a place among those of the sources."""
        chosen = np.array([place])
        train, dev = layers_of(data.train, chosen), layers_of(data.dev, chosen)
        whole = (data.targets.n_problems, 1, len(path.strengths))
        record: dict[str, NDArray[Any]] = {name: np.full(whole, np.nan) for name in ("dev_accuracy", "gradient_norm")}
        record |= {"iterations": np.zeros(whole, dtype=np.int64), "converged": np.zeros(whole, dtype=bool)}
        with Workers(data.device, n=1) as workers:
            solver = _Solver.on(replace(data, train=train, dev=dev), workers, readout)
        return cls(path, solver, record)

    def run(self) -> tuple[Affine, Integers, Mapping[str, NDArray[Any]]]:
        """The regressions at their strengths, ``[problem, 1]`` the places of these on the path, and the record."""
        strength_sources = np.array(self.solver.data.targets.strength_sources)
        leading = np.unique(strength_sources)
        # Of one strength there is nothing to compare.
        is_final = self.solver.sample.is_everything or len(self.path.strengths) == 1
        places = np.tile(np.array(self.path.given), (len(leading), 1, 1))
        fitted, points = self._fit(leading, places, on_all=is_final)
        regressions = fitted.pick(self._best(leading) - self.path.given.start)
        starts = points[np.arange(len(leading)), (self._best(leading) - self.path.given.start)[:, 0]]
        for row, problem in enumerate(leading.tolist()):
            beyond = self._beyond(problem, points[row, [0, -1]].clone())
            if beyond is not None:
                regressions = regressions.replaced(row, beyond[0])
                starts[row] = beyond[1]
        best = np.zeros((len(strength_sources), 1), dtype=np.int64)
        best[leading] = self._best(leading)
        best = best[strength_sources]
        if not is_final:
            regressions, _ = self._fit(leading, best[leading][:, :, None], on_all=True, start=starts)
        following = np.flatnonzero(strength_sources != np.arange(len(strength_sources)))
        parts = [regressions]
        if len(following):
            parts.append(self._fit(following, best[following][:, :, None], on_all=True)[0])
        return Affine.joined(parts).only(np.argsort([*leading, *following])), best, self.record

    def _best(self, problems: Integers) -> Integers:
        return best_places(self.record["dev_accuracy"][problems])

    def _beyond(self, problem: int, ends: Tensor) -> tuple[Affine, Tensor] | None:
        """Continue beyond an end of the path that is best, each fit from where the one before it ended.

        ``ends [end, parameter]`` are where the fits at both ends of the path ended. Returned is the best fit beyond it
        and where that fit ended; None where no strength beyond an end is better.
        """
        one, accuracy, best = np.array([problem]), self.record["dev_accuracy"], None
        while (place := int(self.path.next_places(accuracy[one])[0, 0])) >= 0:
            end = int(place >= self.path.given.stop)
            regressions, points = self._fit(one, np.array([[[place]]]), on_all=False, start=ends[end][None])
            ends[end] = points[0, 0]
            if self._best(one)[0, 0] == place:
                best = regressions, points[0, 0]
        return best

    def _fit(
        self, problems: Integers, places: Integers, *, on_all: bool, start: Tensor | None = None
    ) -> tuple[Affine, Tensor]:
        """Fit ``problems`` at ``places [problem, 1, strength]`` of the path, and record how it went.

        Returns:
            The regressions, and ``[problem, strength, parameter]`` where their fits ended.
        """
        solver, data = self.solver, self.solver.data
        regressions, minima = solver.solve(problems, np.array(self.path.strengths)[places], on_all=on_all, start=start)
        where = problems[:, None, None], np.zeros((1, 1), dtype=np.int64), places
        if not on_all or solver.sample.is_everything or np.isnan(self.record["dev_accuracy"][where]).any():
            self.record["dev_accuracy"][where] = regressions.accuracy(data.dev, data.dev_targets.only(problems))
        for name in ("iterations", "converged", "gradient_norm"):
            self.record[name][where] = getattr(minima, name).view(places.shape).cpu().numpy()
        return regressions, minima.points.view(len(problems), places.shape[2], -1)


@dataclass(frozen=True)
class _Solver:
    """Fits some of the problems after one look at the data of all."""

    data: TrainingData
    moments: Moments
    sample: Sample
    spread: Spread
    workers: Workers
    readout: LinearReadout

    @classmethod
    def on(cls, data: TrainingData, workers: Workers, readout: LinearReadout) -> _Solver:
        train, items = data.train, data.items
        wanted = max(_SAMPLE_LEAST, _SAMPLE_A_FEATURE * train.dim, int(items.used.sum()) // _PART)
        size = min(wanted, _SAMPLE_ITEMS, _SAMPLE_BYTES // (4 * train.n_layers * train.dim))
        moments, sample = survey(train, items.weights, choose_items(items.weights, size, seed=data.seed), workers)
        return cls(data, moments, sample, Spread.of(sample, workers), workers, readout)

    def solve(
        self, problems: Integers, strengths: Floats, *, on_all: bool, start: Tensor | None = None
    ) -> tuple[Affine, Minima]:
        """Fit ``problems`` at ``strengths [problem, layer, strength]`` to the sample, or to all items.

        Roughly on the sample first, then with the curvature measured there; from ``start`` ``[fit, parameter]``, which
        is near the end already, with the curvature at once.
        """
        some = torch.from_numpy(problems).to(self.data.device)
        items, workers, sample = self.data.items.only(some), self.workers, self.sample
        sampled = items.at(sample.items)
        # The strength is the variance of a Gaussian prior, which hardly depends on how many items there are.
        fits = Fits(items if on_all else sampled, self.moments.only(some), torch.from_numpy(strengths))
        on_sample = Objective(fits, sample.source, sampled, workers)
        if start is None:
            start = self._minimise(
                "a sample", on_sample, fits.start(), Bound(fits, self.spread), relative=_ROUGH
            ).points
        curvature = measure_curvature(
            fits, sample, sampled, start, self.spread.correlations, workers, memory=_CURVATURE_BYTES
        )
        if sample.is_everything:
            minima = self._minimise("all items", on_sample, start, curvature)
        elif on_all:
            minima = self._minimise("all items", Objective(fits, self.data.train, items, workers), start, curvature)
        else:
            minima = self._minimise("a part of the items", on_sample, start, curvature, slack=_COMPARED)
        coefficients, intercepts = fits.for_raw(torch.arange(len(fits), device=some.device), minima.points)
        by_fit = (*fits.shape, fits.n_classes)
        return Affine(coefficients.view(*by_fit, -1), intercepts.view(by_fit)), minima

    def _minimise(
        self,
        what: str,
        objective: Objective,
        start: Tensor,
        precondition: Precondition,
        *,
        relative: float = 0.0,
        slack: float = 1.0,
    ) -> Minima:
        def report(iteration: int, left: int) -> None:
            done = f"{len(start) - left} of {len(start)} have converged"
            self.data.progress(f"linear fits to {what}: pass {iteration}, {done}")

        return minimise(
            objective,
            start,
            precondition=precondition,
            max_iter=self.readout.max_iter,
            tolerance=slack * self.readout.tolerance,
            relative=relative,
            report=report,
        )
