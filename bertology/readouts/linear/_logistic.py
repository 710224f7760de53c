"""``linear``: multinomial logistic regression of every layer, problem and strength at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._memory import give_back_freed_memory
from bertology._workers import Workers
from bertology.readouts._base import FitReport, Targets, best_places
from bertology.readouts._fitting import LabelReadout, TrainingData
from bertology.readouts._moments import Moments, Sample, choose_items, survey
from bertology.readouts._sources import FeatureSource, Floats, Integers, layers_of, resident
from bertology.readouts.linear._affine import EXTENSIONS, Affine, FittedAffine, StrengthPath
from bertology.readouts.linear._curvature import Bound, Spread, measure_curvature
from bertology.readouts.linear._objective import Fits, Minima, Objective, Precondition, minimise

_SAMPLE_A_FEATURE = 48
"""Items a feature below which a sample would say too little; of more, half at most are sampled."""
_SAMPLE_ITEMS = 32768
_SAMPLE_BYTES = 1 << 30
_CURVATURE_BYTES = 512 << 20
_ROUGH = 0.012
"""Part of its gradient at the start that a fit to the sample may keep: going further would only learn the sample."""


@dataclass(frozen=True)
class LinearReadout(LabelReadout[FittedAffine]):
    """Multinomial logistic regression with an L2 path, as scikit-learn's ``LogisticRegression`` states it.

    For each layer, problem and strength ``C`` it minimises ``C · Σ w (−ln p) + ½ ‖W‖²`` over the training items,
    their features standardised by the mean and standard deviation (1 for a constant feature) that they have under
    the problem's own weights; intercepts are not penalised. As in scikit-learn, a problem whose training data have
    two classes has one weight vector, the difference of the two.

    All fits go through the data together, by L-BFGS with a preconditioner of their own (see ``_curvature``), first on
    a sample, then on everything until they arrive. Where dev accuracy is best at an end of the path, strengths beyond
    it are tried one after the other, each from where the one before it ended, until one is no better. The seed is that
    of the sample that a fit begins on: where it ends does not depend on it beyond the tolerance.
    """

    strengths: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    """The path of ``C``: the inverse of the regularisation, so that small is strong."""
    extensions: int = EXTENSIONS
    """How many strengths, in steps of ten, may be tried beyond either end of a path of two or more; with 0, which is
    ``linear.v1``, none is."""
    max_iter: int = 200
    """Evaluations of loss and gradient on all training items at most."""
    tolerance: float = 1e-4
    """Largest absolute component that the gradient of the mean loss may have at the end: scikit-learn's ``tol``."""

    @property
    def name(self) -> str:
        """``linear.v2``, or ``linear.v1`` where the path is never extended."""
        return "linear.v2" if self.extensions else "linear.v1"

    def fit_to(self, data: TrainingData) -> FittedAffine:
        path = StrengthPath.of(self.strengths, extensions=self.extensions, large_is_strong=False)
        device = data.device
        data = replace(data, train=resident(data.train, device), dev=resident(data.dev, device))
        whole = (*data.shape, len(path.strengths))
        record = {name: np.full(whole, np.nan) for name in ("dev_accuracy", "gradient_norm")}
        record |= {"iterations": np.zeros(whole, dtype=np.int64), "converged": np.zeros(whole, dtype=bool)}
        with Workers(device) as workers:
            search = _Search(path, _Solver.on(data, workers, self), data.dev, data.dev_targets, record)
            chosen, best = search.run(np.array(data.targets.strength_sources))
        return FittedAffine(self.name, chosen, FitReport.of_tried(path.strengths, best, **record))


@dataclass(frozen=True)
class _Search:
    """Fits along the path of strengths, and beyond its ends where these are best."""

    path: StrengthPath
    solver: _Solver
    dev: FeatureSource
    dev_targets: Targets
    record: Mapping[str, NDArray[Any]]
    """What is known of the fits, ``[problem, layer, strength]`` by field of :class:`FitReport`."""

    def run(self, strength_sources: Integers) -> tuple[Affine, Integers]:
        """The regressions at their strengths, and ``[problem, layer]`` the places of these on the path."""
        leading = np.unique(strength_sources)
        following = np.flatnonzero(strength_sources != np.arange(len(strength_sources)))
        layers = np.arange(self.dev.n_layers)
        places = np.tile(np.array(self.path.given), (len(leading), len(layers), 1))
        fitted, minima = self._fit(leading, layers, places)
        regressions = fitted.pick(best_places(self.record["dev_accuracy"][leading]) - self.path.given.start)
        # [end, problem, layer, parameter]: where fits beyond an end begin
        ends = minima.points.view(*places.shape, -1)[:, :, [0, -1]].movedim(2, 0)
        for row, problem in enumerate(leading.tolist()):
            regressions = self._beyond(problem, regressions, row, ends[:, row].clone())
        best = np.zeros(self.record["dev_accuracy"].shape[:2], dtype=np.int64)
        best[leading] = best_places(self.record["dev_accuracy"][leading])
        best = best[strength_sources]
        parts = [regressions]
        if len(following):
            parts.append(self._fit(following, layers, best[following][:, :, None])[0])
        return Affine.joined(parts).only(np.argsort([*leading, *following])), best

    def _beyond(self, problem: int, best: Affine, row: int, ends: Tensor) -> Affine:
        """Go on beyond the ends of the path that are best for a problem, each fit from where the one before it ended.

        ``best`` holds the problem in ``row``; ``ends [end, layer, parameter]`` are where fits at both ends ended.
        """
        one, accuracy = np.array([problem]), self.record["dev_accuracy"]
        while len(layers := np.flatnonzero((places := self.path.next_places(accuracy[one])[0]) >= 0)):
            end = (places[layers] >= self.path.given.stop).astype(np.int64)
            regressions, minima = self._fit(one, layers, places[None, layers, None], start=ends[end, layers])
            ends[end, layers] = minima.points
            is_best = best_places(accuracy[one])[0, layers] == places[layers]
            best = best.replaced(row, layers[is_best], regressions.only_layers(np.flatnonzero(is_best)))
        return best

    def _fit(
        self, problems: Integers, layers: Integers, places: Integers, *, start: Tensor | None = None
    ) -> tuple[Affine, Minima]:
        """Fit ``problems`` in ``layers`` at ``places [problem, layer, …]`` of the path, and note how it went."""
        is_all = len(layers) == self.dev.n_layers
        solver, dev = (self.solver, self.dev) if is_all else (self.solver.at(layers), layers_of(self.dev, layers))
        regressions, minima = solver.solve(problems, np.array(self.path.strengths)[places], start=start)
        where = problems[:, None, None], layers[:, None], places
        self.record["dev_accuracy"][where] = regressions.accuracy(dev, self.dev_targets.only(problems))
        for name in ("iterations", "converged", "gradient_norm"):
            self.record[name][where] = getattr(minima, name).view(places.shape).cpu().numpy()
        return regressions, minima


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
        wanted = max(_SAMPLE_A_FEATURE * train.dim, int(items.used.sum()) // 2)
        size = min(wanted, _SAMPLE_ITEMS, _SAMPLE_BYTES // (4 * train.n_layers * train.dim))
        moments, sample = survey(train, items.weights, choose_items(items.weights, size, seed=data.seed), workers)
        spread = Spread.of(sample, workers)
        give_back_freed_memory()
        return cls(data, moments, sample, spread, workers, readout)

    def at(self, layers: Integers) -> _Solver:
        chosen = torch.from_numpy(layers).to(self.data.device)
        return replace(
            self,
            data=replace(self.data, train=layers_of(self.data.train, layers)),
            moments=self.moments.at(chosen),
            sample=self.sample.at(chosen),
            spread=self.spread.at(chosen),
        )

    def solve(self, problems: Integers, strengths: Floats, *, start: Tensor | None = None) -> tuple[Affine, Minima]:
        """Fit ``problems`` at ``strengths [problem, layer, …]``.

        Roughly on a sample, then on everything from there with the curvature measured there; from ``start`` ``[fit,
        parameter]``, which is near the end already, on everything at once.
        """
        some = torch.from_numpy(problems).to(self.data.device)
        items, workers = self.data.items.only(some), self.workers
        fits = Fits(items, self.moments.only(some), torch.from_numpy(strengths))
        sampled = items.at(self.sample.items)
        on_sample = Objective(fits, self.sample.source, sampled, workers)
        if start is None:
            start = self._minimise("a sample", on_sample, fits.start(), Bound(fits, self.spread), _ROUGH).points
        give_back_freed_memory()
        curvature = measure_curvature(
            fits, self.sample, sampled, start, self.spread.correlations, workers, memory=_CURVATURE_BYTES
        )
        give_back_freed_memory()  # a fit takes the most from here on
        on_all = on_sample if self.sample.is_everything else Objective(fits, self.data.train, items, workers)
        minima = self._minimise("all items", on_all, start, curvature)
        coefficients, intercepts = fits.for_raw(torch.arange(len(fits), device=some.device), minima.points)
        by_fit = (*fits.shape, fits.n_classes)
        return Affine(coefficients.view(*by_fit, -1), intercepts.view(by_fit)), minima

    def _minimise(
        self, what: str, objective: Objective, start: Tensor, precondition: Precondition, relative: float = 0.0
    ) -> Minima:
        def report(iteration: int, left: int) -> None:
            done = f"{len(start) - left} of {len(start)} have converged"
            self.data.progress(f"linear fits to {what}: pass {iteration}, {done}")

        return minimise(
            objective,
            start,
            precondition=precondition,
            max_iter=self.readout.max_iter,
            tolerance=self.readout.tolerance,
            relative=relative,
            report=report,
        )
