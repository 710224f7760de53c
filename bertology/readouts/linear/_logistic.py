"""``linear``: multinomial logistic regression of every layer, problem and strength at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._workers import Workers
from bertology.readouts._base import (
    FitReport,
    Progress,
    Readout,
    Targets,
    best_places,
    check_problems,
    check_single_label,
)
from bertology.readouts._features import FeatureSource, Floats, Integers, LayersOf, resident
from bertology.readouts._moments import Items, Moments, Sample, choose_items, survey
from bertology.readouts.linear._affine import EXTENSIONS, Affine, FittedAffine, StrengthPath
from bertology.readouts.linear._curvature import Bound, Spread, measure_curvature
from bertology.readouts.linear._objective import Fits, Minima, Objective, minimise

_SAMPLE_A_FEATURE = 48
"""Items a feature below which a sample would say too little; of more, half at most are sampled."""
_SAMPLE_ITEMS = 32768
_SAMPLE_BYTES = 1 << 30
_CURVATURE_BYTES = 512 << 20
_ROUGH = 0.012
"""Part of its gradient at the start that a fit to the sample may keep: going further would only learn the sample."""


@dataclass(frozen=True)
class LinearReadout(Readout):
    """Multinomial logistic regression with an L2 path, as scikit-learn's ``LogisticRegression`` states it.

    For each layer, problem and strength ``C`` it minimises ``C · Σ w (−ln p) + ½ ‖W‖²`` over the training items,
    their features standardised by the mean and standard deviation (1 for a constant feature) that they have under
    the problem's own weights; intercepts are not penalised. As in scikit-learn, a problem whose training data have
    two classes has one weight vector, the difference of the two.

    All fits go through the data together, by L-BFGS with a preconditioner of their own (see ``_curvature``), first on
    a sample, then on everything until they arrive. Where dev accuracy is best at an end of the path, strengths beyond
    it are tried one after the other, each from where the one before it ended, until one is no better.
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

    def fit(
        self,
        train: FeatureSource,
        targets: Targets,
        *,
        dev: FeatureSource,
        dev_targets: Targets,
        seed: int = 0,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> FittedAffine:
        """Fit every problem in every layer at every strength, and keep the strengths that do best on dev.

        Arguments that are not named here are as in :meth:`Readout.fit`.

        Args:
            dev: vectors of other items, for the choice of strength.
            seed: of the sample that the fit begins on; where it ends does not depend on it beyond the tolerance.

        Raises:
            FitError: as :meth:`Readout.fit`; or a strength is not positive.
        """
        check_single_label(targets, self.name)
        check_problems(train, targets, dev, dev_targets)
        path = StrengthPath.of(self.strengths, extensions=self.extensions, large_is_strong=False)
        items = Items.of(targets, torch.device(device))
        train, dev = (resident(source, items.labels.device) for source in (train, dev))
        record = _Record.empty(path.strengths, (targets.n_problems, train.n_layers))
        with Workers(items.labels.device) as workers:
            solver = _Solver.on(train, items, workers, self, seed=seed, progress=progress)
            chosen, best = _Search(path, solver, dev, dev_targets, record).run(np.array(targets.strength_sources))
        return FittedAffine(self.name, chosen, record.report(best), are_logits=True)


@dataclass(frozen=True)
class _Search:
    """Fits along the path of strengths, and beyond its ends where these are best."""

    path: StrengthPath
    solver: _Solver
    dev: FeatureSource
    dev_targets: Targets
    record: _Record

    def run(self, strength_sources: Integers) -> tuple[Affine, Integers]:
        """The regressions at their strengths, and ``[problem, layer]`` the places of these on the path.

        Args:
            strength_sources: ``[problem]`` the problem whose strength each takes over.
        """
        leading = np.unique(strength_sources)
        following = np.flatnonzero(strength_sources != np.arange(len(strength_sources)))
        layers = np.arange(self.dev.n_layers)
        places = np.tile(np.array(self.path.given), (len(leading), len(layers), 1))
        fitted, minima = self._fit(leading, layers, places)
        regressions = fitted.pick(best_places(self.record.dev_accuracy[leading]) - self.path.given.start)
        # [end, problem, layer, parameter]: where fits beyond an end begin
        ends = minima.points.view(*places.shape, -1)[:, :, [0, -1]].movedim(2, 0)
        for row, problem in enumerate(leading.tolist()):
            regressions = self._beyond(problem, regressions, row, ends[:, row].clone())
        best = np.zeros(self.record.dev_accuracy.shape[:2], dtype=np.int64)
        best[leading] = best_places(self.record.dev_accuracy[leading])
        best = best[strength_sources]
        parts = [regressions]
        if len(following):
            parts.append(self._fit(following, layers, best[following][:, :, None])[0])
        return Affine.joined(parts).only(np.argsort([*leading, *following])), best

    def _beyond(self, problem: int, found: Affine, row: int, ends: Tensor) -> Affine:
        """Go on beyond the ends of the path that are best for a problem, each fit from where the one before it ended.

        Args:
            problem: its number.
            found: the best regressions so far.
            row: the place of the problem in ``found``.
            ends: ``[end, layer, parameter]`` where the fits at both ends of the path ended.
        """
        one = np.array([problem])
        while len(layers := np.flatnonzero((places := self.path.next_places(self.record.dev_accuracy[one])[0]) >= 0)):
            end = (places[layers] >= self.path.given.stop).astype(np.int64)
            regressions, minima = self._fit(one, layers, places[None, layers, None], start=ends[end, layers])
            ends[end, layers] = minima.points
            is_best = best_places(self.record.dev_accuracy[one])[0, layers] == places[layers]
            found = found.replaced(row, layers[is_best], regressions.only_layers(np.flatnonzero(is_best)))
        return found

    def _fit(
        self,
        problems: Integers,
        layers: Integers,
        places: Integers,
        *,
        start: Tensor | None = None,
    ) -> tuple[Affine, Minima]:
        """Fit ``problems`` in ``layers`` at ``places [problem, layer, …]`` of the path, and note how it went."""
        is_all = len(layers) == self.dev.n_layers
        solver, dev = (self.solver, self.dev) if is_all else (self.solver.at(layers), LayersOf(self.dev, layers))
        regressions, minima = solver.solve(problems, np.array(self.path.strengths)[places], start=start)
        accuracy = regressions.accuracy(dev, self.dev_targets.only(problems))
        self.record.put(problems, layers, places, accuracy, minima)
        return regressions, minima


@dataclass(frozen=True)
class _Record:
    """What is known of the fits, ``[problem, layer, strength]``."""

    strengths: tuple[float, ...]
    dev_accuracy: Floats
    iterations: Integers
    converged: NDArray[np.bool_]
    gradient_norm: Floats

    @classmethod
    def empty(cls, strengths: tuple[float, ...], shape: tuple[int, int]) -> _Record:
        whole = (*shape, len(strengths))
        nothing = np.full(whole, np.nan)
        return cls(strengths, nothing, np.zeros(whole, dtype=np.int64), np.zeros(whole, dtype=bool), nothing.copy())

    def put(
        self,
        problems: Integers,
        layers: Integers,
        places: Integers,
        accuracy: Floats,
        minima: Minima,
    ) -> None:
        """Note the fits of ``problems`` in ``layers`` at the ``places [problem, layer, …]`` of the path."""
        where = problems[:, None, None], layers[:, None], places
        self.dev_accuracy[where] = accuracy
        self.iterations[where] = minima.iterations.view(places.shape).cpu().numpy()
        self.converged[where] = minima.converged.view(places.shape).cpu().numpy()
        self.gradient_norm[where] = minima.gradient_norm.view(places.shape).cpu().numpy()

    def report(self, best: Integers) -> FitReport:
        found = FitReport(
            strengths=self.strengths,
            chosen=np.array(self.strengths)[best],
            dev_accuracy=self.dev_accuracy,
            iterations=self.iterations,
            converged=self.converged,
            gradient_norm=self.gradient_norm,
        )
        return found.without_untried()


@dataclass(frozen=True)
class _Solver:
    """Fits some of the problems after one look at the data of all."""

    train: FeatureSource
    items: Items
    moments: Moments
    sample: Sample
    spread: Spread
    workers: Workers
    readout: LinearReadout
    progress: Progress | None

    @classmethod
    def on(
        cls,
        train: FeatureSource,
        items: Items,
        workers: Workers,
        readout: LinearReadout,
        *,
        seed: int,
        progress: Progress | None,
    ) -> _Solver:
        wanted = max(_SAMPLE_A_FEATURE * train.dim, int(items.used.sum()) // 2)
        size = min(wanted, _SAMPLE_ITEMS, _SAMPLE_BYTES // (4 * train.n_layers * train.dim))
        moments, sample = survey(train, items.weights, choose_items(items.weights, size, seed=seed), workers)
        return cls(train, items, moments, sample, Spread.of(sample, workers), workers, readout, progress)

    def at(self, layers: Integers) -> _Solver:
        """The same in some of the layers alone."""
        chosen = torch.from_numpy(layers).to(self.items.labels.device)
        return replace(
            self,
            train=LayersOf(self.train, layers),
            moments=self.moments.at(chosen),
            sample=self.sample.at(chosen),
            spread=self.spread.at(chosen),
        )

    def solve(self, problems: Integers, strengths: Floats, *, start: Tensor | None = None) -> tuple[Affine, Minima]:
        """Fit ``problems`` at ``strengths [problem, layer, …]``.

        Roughly on a sample, then on everything from there with the curvature found there; from ``start`` ``[fit,
        parameter]``, which is near the end already, on everything at once.
        """
        some = torch.from_numpy(problems).to(self.items.labels.device)
        items, workers = self.items.only(some), self.workers
        fits = Fits(items, self.moments.only(some), torch.from_numpy(strengths))
        sampled = items.at(self.sample.items)
        on_sample = Objective(fits, self.sample.source, sampled, workers)
        if start is None:
            start = minimise(
                on_sample,
                fits.start(),
                precondition=Bound(fits, self.spread),
                max_iter=self.readout.max_iter,
                tolerance=self.readout.tolerance,
                relative=_ROUGH,
                report=_teller(self.progress, "a sample", len(fits)),
            ).points
        curvature = measure_curvature(
            fits, self.sample, sampled, start, self.spread.correlations, workers, memory=_CURVATURE_BYTES
        )
        minima = minimise(
            on_sample if self.sample.is_everything else Objective(fits, self.train, items, workers),
            start,
            precondition=curvature,
            max_iter=self.readout.max_iter,
            tolerance=self.readout.tolerance,
            report=_teller(self.progress, "all items", len(fits)),
        )
        coefficients, intercepts = fits.for_raw(torch.arange(len(fits), device=some.device), minima.points)
        by_fit = (*fits.shape, fits.n_classes)
        return Affine(coefficients.view(*by_fit, -1), intercepts.view(by_fit)), minima


def _teller(progress: Progress | None, what: str, n_fits: int) -> Callable[[int, int], None]:
    def tell(iteration: int, left: int) -> None:
        if progress is not None:
            progress(f"linear fits to {what}: pass {iteration}, {n_fits - left} of {n_fits} have converged")

    return tell
