"""Linear readouts: logistic regression and least squares of labels, and ridge regression of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._workers import Workers
from bertology.errors import FitError
from bertology.readouts._base import FitReport, Targets, best_places, check_same_shape, checked_weights, rising_ends
from bertology.readouts._fitting import IMPOSSIBLE, FittedScores, LabelReadout, TrainingData, accuracies
from bertology.readouts._items import Moments, choose_items, survey
from bertology.readouts._logistic import Fits, Minima, Objective, Precondition, bound, curvature, minimise, spread_of
from bertology.readouts._sources import FeatureSource, Floats, Integers, check_finite, resident, used_chunks

EXTENSIONS = 3
"""How many strengths are tried beyond an end by default."""
_STEP = 10.0  # factor from one strength beyond an end of a path to the next
_SAMPLE_LEAST = 8192
_SAMPLE_A_FEATURE = 32  # A sample has at least so many items, and so many a feature; fewer items are all in it
_PART = 4  # where items are many, one in this many is in the sample
_SAMPLE_ITEMS = 32768
_SAMPLE_BYTES = 1 << 30
_CURVATURE_BYTES = 512 << 20
_ROUGH = 0.012
"""Part of its gradient at the start that a fit to the sample may keep: going further would only learn the sample."""
_COMPARED = 10.0  # how many times the tolerance is allowed where fits are only compared with each other on dev
_CONSTANT = 1e-12  # variance, as a part of a feature's mean square, below which it is constant


@dataclass(frozen=True)
class Affine:
    """Scores of classes as affine functions of raw vectors, for every problem, layer and strength.

    The standardisation of features is folded in.
    """

    coefficients: Tensor  # [problem, layer, strength, class, dim]
    intercepts: Tensor  # [problem, layer, strength, class]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Numbers of problems, layers and classes, and the width of the vectors."""
        n_problems, n_layers, _, n_classes, dim = self.coefficients.shape
        return n_problems, n_layers, n_classes, dim

    @property
    def n_params(self) -> int:
        """Trained parameters of one layer's readout for one problem."""
        return self.shape[2] * (self.shape[3] + 1)

    def scores(self, source: FeatureSource) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Item numbers ``[m]``, layer, and scores ``[problem, strength, class, m]``, layer by layer of each chunk."""
        n_problems, n_layers, n_strengths, n_classes, dim = self.coefficients.shape
        check_same_shape(source, n_layers, dim)
        weights = self.coefficients.transpose(0, 1).reshape(n_layers, -1, dim)
        biases = self.intercepts.transpose(0, 1).reshape(n_layers, -1, 1)
        for items, vectors in source.chunks():
            vectors = vectors.to(weights.device)
            for layer in range(n_layers):
                class_scores = torch.addmm(biases[layer], weights[layer], vectors[layer].T)
                yield items, layer, class_scores.view(n_problems, n_strengths, n_classes, -1)

    def accuracy(self, source: FeatureSource, targets: Targets) -> Floats:
        """``[problem, layer, strength]`` part of the labelled items whose class has the highest score."""
        n_problems, n_layers, n_strengths = self.intercepts.shape[:3]
        return accuracies(self.scores(source), (n_problems, n_layers, n_strengths), targets)


@dataclass(frozen=True)
class StrengthPath:
    """Strengths that are tried in every fit, and those beyond both ends that are tried where an end is best."""

    strengths: tuple[float, ...]  # all of them, from the strongest regularisation to the weakest
    given: range  # integers of those that are tried in every fit

    @classmethod
    def of(cls, strengths: Sequence[float], *, extensions: int, large_is_strong: bool) -> StrengthPath:
        """A path in steps of ten beyond what is given; a single strength is one that was chosen before: no path.

        Raises:
            FitError: there is no strength, one is not positive, or ``extensions`` is negative.
        """
        tried = sorted(set(strengths), reverse=large_is_strong)
        if not tried or min(tried) <= 0:
            raise FitError(f"strengths are {list(strengths)}: give at least one, all above 0")
        if extensions < 0:
            raise FitError(f"extensions is {extensions}: give 0 or more")
        n = extensions if len(tried) > 1 else 0
        step = 1 / _STEP if large_is_strong else _STEP
        stronger = [tried[0] / step**k for k in range(n, 0, -1)]
        weaker = [tried[-1] * step**k for k in range(1, n + 1)]
        return cls((*stronger, *tried, *weaker), range(n, n + len(tried)))

    def next_places(self, dev_accuracy: Floats) -> Integers:
        """``[problem, layer]`` the strength to try next, one beyond an end that is best; −1 where nothing is left."""
        ends = rising_ends(dev_accuracy)
        places = best_places(dev_accuracy) + ends
        return np.asarray(np.where((ends != 0) & (places >= 0) & (places < len(self.strengths)), places, -1))

    def tried(self, dev_accuracy: Floats) -> NDArray[np.bool_]:
        """``[problem, layer, strength]`` which strengths are tried, where the accuracy at all of them is known."""
        accuracy = np.full(dev_accuracy.shape, np.nan)
        accuracy[..., self.given] = dev_accuracy[..., self.given]
        while (places := self.next_places(accuracy)).max() >= 0:
            where = *np.nonzero(places >= 0), places[places >= 0]
            accuracy[where] = dev_accuracy[where]
        return np.asarray(~np.isnan(accuracy))


@dataclass(frozen=True)
class LinearReadout(LabelReadout):
    """Multinomial logistic regression with an L2 path, as scikit-learn's ``LogisticRegression`` states it.

    For each layer, problem and strength ``C`` it minimises ``C · Σ w (−ln p) + ½ ‖W‖²`` over the training items,
    their features standardised by the mean and standard deviation (1 for a constant feature) that they have under
    the problem's own weights; intercepts are not penalised. As in scikit-learn, a problem whose training data have
    two classes has one weight vector, the difference of the two.

    Each layer is fitted by itself, all problems and strengths together, by L-BFGS with a preconditioner of their own
    (see ``_logistic``). Where there are many training items, the strengths of the path are compared on dev by fits to
    a part of the items, and only the chosen one is fitted to all. Where dev accuracy is best at an end of the path,
    strengths beyond it are tried one after the other, each from where the one before it ended, until one is no better.
    The seed is that of the part: where the last fit ends depends on it only through the strength that is chosen.
    """

    name: ClassVar[str] = "linear.v1"
    strengths: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    """The path of ``C``: the inverse of the regularisation, so that small is strong."""
    extensions: int = EXTENSIONS
    """How many strengths, in steps of ten, may be tried beyond either end of a path of two or more."""
    max_iter: int = 200
    """Evaluations of loss and gradient on all training items at most."""
    tolerance: float = 1e-4
    """Largest absolute component that the gradient of the mean loss may have at the end: scikit-learn's ``tol``."""

    def fit_to(self, data: TrainingData) -> FittedScores:
        """Fit every problem in every layer: see :meth:`LabelReadout.fit_to`."""
        path = StrengthPath.of(self.strengths, extensions=self.extensions, large_is_strong=False)
        data = replace(data, train=resident(data.train, data.device), dev=resident(data.dev, data.device))
        # A layer is fitted on one thread, so that the result does not depend on how many there are.
        with Workers(data.device, n=data.n_threads) as workers:
            layers = workers.map(lambda place: _LayerFits(data, place, path, self).run(), data.train.n_layers)
        regressions, best, records = zip(*layers, strict=True)
        record = {name: np.stack([one[name] for one in records], axis=1) for name in records[0]}
        report = FitReport.of_tried(path.strengths, np.stack(best, axis=1), **record)
        coefficients, intercepts = (torch.stack(part, dim=1)[:, :, None] for part in zip(*regressions, strict=True))
        return FittedScores(self.name, Affine(coefficients, intercepts), report)


Regressions = tuple[Tensor, Tensor]
"""Coefficients ``[problem, …, class, dim]`` and intercepts ``[problem, …, class]`` of one layer."""


class _LayerFits:
    """The choice of the strength in one layer, and the fit of every problem at its strength.

    Strengths are compared by fits to a part of the training items (all of them where they are few); only the chosen
    strength is then fitted to all items, from where the fit to the part ended.
    """

    def __init__(self, data: TrainingData, place: int, path: StrengthPath, readout: LinearReadout) -> None:
        train, dev = (source.at([place]) for source in (data.train, data.dev))
        self._data, self._path, self._readout = replace(data, train=train, dev=dev), path, readout
        items = data.items
        wanted = max(_SAMPLE_LEAST, _SAMPLE_A_FEATURE * train.dim, int(items.used.sum()) // _PART)
        size = min(wanted, _SAMPLE_ITEMS, _SAMPLE_BYTES // (4 * train.dim))
        self._moments, self._sample = survey(train, items.weights, choose_items(items.weights, size, seed=data.seed))
        self._spread = spread_of(self._sample)
        shape = data.targets.n_problems, len(path.strengths)
        # Details of the fits, [problem, strength] by field of FitReport.
        self._record: dict[str, NDArray[Any]] = {
            "dev_accuracy": np.full(shape, np.nan),
            "gradient_norm": np.full(shape, np.nan),
            "iterations": np.zeros(shape, dtype=np.int64),
            "converged": np.zeros(shape, dtype=bool),
        }

    def run(self) -> tuple[Regressions, Integers, Mapping[str, NDArray[Any]]]:
        """The regressions at their strengths, ``[problem]`` the places of these on the path, and the record."""
        sources = np.array(self._data.targets.strength_sources)
        leading, following = np.unique(sources), np.flatnonzero(sources != np.arange(len(sources)))
        # Of one strength there is nothing to compare.
        is_final = self._sample.is_everything or len(self._path.strengths) == 1
        given = np.array(self._path.given)
        (coefficients, intercepts), points = self._fit(leading, np.tile(given, (len(leading), 1)), on_all=is_final)
        at = np.arange(len(leading)), self._best(leading) - given[0]
        chosen, starts = (coefficients[at], intercepts[at]), points[at]
        for row, problem in enumerate(leading.tolist()):
            # strengths beyond an end of the path that is best, each fitted from where the one before it ended
            ends, one = points[row, [0, -1]].clone(), np.array([problem])
            while (place := int(self._path.next_places(self._record["dev_accuracy"][one][:, None])[0, 0])) >= 0:
                end = int(place >= self._path.given.stop)
                fitted, ended = self._fit(one, np.array([[place]]), on_all=False, start=ends[end][None])
                ends[end] = ended[0, 0]
                if self._best(one)[0] == place:
                    chosen[0][row], chosen[1][row], starts[row] = fitted[0][0, 0], fitted[1][0, 0], ended[0, 0]
        best = np.zeros(len(sources), dtype=np.int64)
        best[leading] = self._best(leading)
        best = best[sources]

        def fit_chosen(problems: Integers, start: Tensor | None = None) -> Regressions:
            (coefficients, intercepts), _ = self._fit(problems, best[problems][:, None], on_all=True, start=start)
            return coefficients[:, 0], intercepts[:, 0]

        if not is_final:
            chosen = fit_chosen(leading, starts)
        parts = [chosen, *([fit_chosen(following)] if len(following) else [])]
        order = np.argsort([*leading, *following])
        coefficients, intercepts = (torch.cat(part)[order] for part in zip(*parts, strict=True))
        return (coefficients, intercepts), best, self._record

    def _best(self, problems: Integers) -> Integers:
        return np.asarray(np.nanargmax(self._record["dev_accuracy"][problems], axis=1))

    def _fit(
        self, problems: Integers, places: Integers, *, on_all: bool, start: Tensor | None = None
    ) -> tuple[Regressions, Tensor]:
        """Fit ``problems`` at ``places [problem, strength]`` of the path, to all items or a part, and note the result.

        Roughly to the sample first, then with the curvature measured there; from ``start`` ``[fit, parameter]``, which
        is near the end already, with the curvature at once.

        Returns:
            The regressions ``[problem, strength, …]``, and ``[problem, strength, parameter]`` where their fits ended.
        """
        data, record, where = self._data, self._record, (problems[:, None], places)
        some = torch.from_numpy(problems).to(data.device)
        items, sample = data.items.only(some), self._sample
        sampled = items.at(sample.items)
        # The strength is the variance of a Gaussian prior, which hardly depends on how many items there are.
        strengths = torch.from_numpy(np.array(self._path.strengths)[places])
        fits = Fits(items if on_all else sampled, self._moments.only(some), strengths)
        on_sample = Objective(fits, sample.source, sampled)
        if start is None:
            near = bound(fits, self._spread)
            start = self._minimise("a sample", on_sample, fits.start(), near, relative=_ROUGH).points
        near = curvature(fits, sample, sampled, start, self._spread.correlations, memory=_CURVATURE_BYTES)
        if sample.is_everything:
            minima = self._minimise("all items", on_sample, start, near)
        elif on_all:
            minima = self._minimise("all items", Objective(fits, data.train, items), start, near)
        else:
            minima = self._minimise("a part of the items", on_sample, start, near, slack=_COMPARED)
        coefficients, intercepts = fits.for_raw(torch.arange(len(fits), device=some.device), minima.points)
        coefficients, intercepts = (part.view(*places.shape, *part.shape[1:]) for part in (coefficients, intercepts))
        if not on_all or sample.is_everything or np.isnan(record["dev_accuracy"][where]).any():
            fitted = Affine(coefficients[:, None], intercepts[:, None])
            record["dev_accuracy"][where] = fitted.accuracy(data.dev, data.dev_targets.only(problems))[:, 0]
        for name in ("iterations", "converged", "gradient_norm"):
            record[name][where] = getattr(minima, name).view(places.shape).cpu().numpy()
        return (coefficients, intercepts), minima.points.view(*places.shape, -1)

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
            self._data.progress(f"linear fits to {what}: pass {iteration}, {done}")

        settings: dict[str, Any] = {"max_iter": self._readout.max_iter, "relative": relative, "report": report}
        tolerance = slack * self._readout.tolerance
        return minimise(objective, start, precondition=precondition, tolerance=tolerance, **settings)


@dataclass(frozen=True)
class RidgeReadout(LabelReadout):
    """Least squares with an L2 path on one-hot labels, as scikit-learn's ``Ridge`` states it.

    For each layer, problem and strength ``α`` it minimises ``Σ w ‖y − Wx − b‖² + α ‖W‖²`` over the training items,
    with ``y`` 1 at the item's class and 0 elsewhere, and features standardised by the mean and standard deviation
    (1 for a constant feature) that they have under the problem's own weights. One eigendecomposition a layer gives
    the whole path, and strengths beyond an end of it, which are tried where dev accuracy is best at that end. A class
    without training items is never predicted. Least-squares scores are no probabilities: ``log_prob`` of its
    predictions is NaN throughout. Nothing is random.
    """

    name: ClassVar[str] = "ridge.v1"
    strengths: tuple[float, ...] = (1e4, 1e3, 1e2, 1e1, 1.0)
    """The path of ``α``: large is strong."""
    extensions: int = EXTENSIONS
    """How many strengths, in steps of ten, may be tried beyond either end of a path of two or more."""

    def fit_to(self, data: TrainingData) -> FittedScores:
        """Fit every problem in every layer: see :meth:`LabelReadout.fit_to`."""
        strengths = StrengthPath.of(self.strengths, extensions=self.extensions, large_is_strong=True)
        data.progress("ridge: means and spreads")
        moments = survey(data.train, data.items.weights)[0]
        data.progress("ridge: products of all features")
        path = self._path(data, moments, strengths.strengths)
        strength_sources = np.array(data.targets.strength_sources)
        accuracy = path.accuracy(data.dev, data.dev_targets)
        tried = strengths.tried(accuracy)[strength_sources]
        best = best_places(np.where(tried, accuracy[strength_sources], np.nan))
        report = FitReport.of_tried(
            strengths.strengths,
            best,
            dev_accuracy=np.where(tried, accuracy, np.nan),
            iterations=np.zeros(accuracy.shape, dtype=np.int64),
            converged=np.ones(accuracy.shape, dtype=bool),
            gradient_norm=np.full(accuracy.shape, np.nan),
        )
        at: Any = (*np.indices(best.shape), best)
        chosen = Affine(path.coefficients[at].unsqueeze(2), path.intercepts[at].unsqueeze(2))
        return FittedScores(self.name, chosen, report, are_logits=False)

    def _path(self, data: TrainingData, moments: Moments, strengths: tuple[float, ...]) -> Affine:
        """The path from one eigendecomposition for each layer and weighting (Hastie et al. 2009, section 3.4.1)."""
        items, train = data.items, data.train
        weightings: dict[bytes, int] = {}
        which = [weightings.setdefault(row.cpu().numpy().tobytes(), len(weightings)) for row in items.weights]
        n_problems, n_classes = items.frequency.shape
        grams = [moments.mean.new_zeros(train.n_layers, train.dim, train.dim) for _ in weightings]
        crosses = moments.mean.new_zeros(n_problems, train.n_layers, n_classes, train.dim)
        mean, std = moments.mean.float()[:, :, None], moments.std.float()[:, :, None]
        for numbers, vectors in used_chunks(train, items.used):
            numbers, vectors = numbers.to(crosses.device), vectors.to(crosses.device)
            standard: Tensor | None = None
            for problem in sorted(range(n_problems), key=which.__getitem__):
                weights = items.weights[problem, numbers]
                if standard is None or which.index(which[problem]) == problem:
                    standard = (vectors - mean[problem]) / std[problem]  # [layer, m, dim]
                    grams[which[problem]] += torch.bmm(standard.mT, standard * weights[:, None])
                labels = torch.nn.functional.one_hot(items.labels[problem, numbers], n_classes) * weights[:, None]
                crosses[problem] += labels.T.expand(train.n_layers, -1, -1) @ standard
        spectra = [torch.linalg.eigh(gram) for gram in grams]
        paths = []
        for cross, weighting in zip(crosses, which, strict=True):
            values, basis = spectra[weighting]
            rotated = cross @ basis  # [layer, class, dim]
            path = [rotated / (values.clamp(min=0) + strength)[:, None] @ basis.mT for strength in strengths]
            paths.append(torch.stack(path, dim=1))
        coefficients = torch.stack(paths) / moments.std[:, :, None, None]  # [problem, layer, strength, class, dim]
        shift = torch.einsum("plscd,pld->plsc", coefficients, moments.mean)
        frequency = items.frequency.double()
        intercepts = frequency.where(frequency > 0, IMPOSSIBLE)[:, None, None] - shift
        return Affine(coefficients.float(), intercepts.float())


@dataclass(frozen=True)
class NumberTargets:
    """Numbers to predict from the items of a source, in one or several problems over the same items."""

    values: Floats
    """``[problem, item]``"""
    weights: Floats | None = None
    """``[problem, item]`` how often each item counts, 1 when left out."""
    strength_sources: tuple[int, ...] = ()
    """``[problem]`` the problem whose regularisation strength is used; itself when left out."""

    def __post_init__(self) -> None:
        if not np.isfinite(self.values).all():
            raise FitError("some numbers are not finite: leave their items out")
        if self.weights is not None and (checked_weights(self.weights, self.values.shape).sum(axis=1) <= 0).any():
            raise FitError("no training item counts: give at least one item of weight above 0")


@dataclass(frozen=True)
class FittedRegression:
    """Fitted regressions of all problems and layers."""

    slopes: Tensor  # [problem, layer, dim] float64
    intercepts: Tensor  # [problem, layer] the number predicted of the vector origin
    origin: Tensor  # [layer, dim], subtracted from vectors so that sums keep their digits
    strengths: tuple[float, ...]
    chosen: Integers  # [problem, layer] place of the chosen strength
    dev_r2: Floats  # [problem, layer, strength] R² on dev

    def predict(self, source: FeatureSource) -> Floats:
        """``[problem, layer, item]`` predicted numbers."""
        predicted = np.empty((len(self.slopes), source.n_layers, source.n_items))
        for items, vectors in _shifted(source, self.origin):
            numbers = torch.einsum("lmd,pld->plm", vectors, self.slopes) + self.intercepts[:, :, None]
            predicted[:, :, items.numpy()] = numbers.cpu().numpy()
        return predicted


@dataclass(frozen=True)
class RidgeRegression:
    """Least squares with an L2 penalty on standardised features (Hoerl & Kennard 1970), in closed form.

    A strength s minimises ½ · mean squared error + ½ · s · |β|²: scikit-learn's ``Ridge(alpha=s · n)`` after a
    ``StandardScaler``. It is chosen on dev for each layer and problem.
    """

    name: ClassVar[str] = "ridge_regression.v1"
    strengths: tuple[float, ...] = (
        *(100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7),
    )
    """Penalties to try, the strongest first."""

    def __post_init__(self) -> None:
        if not self.strengths or any(not 0 < one < np.inf for one in self.strengths):
            raise FitError(f"strengths are {list(self.strengths)}: give one or more above 0")
        object.__setattr__(self, "strengths", tuple(sorted(map(float, self.strengths), reverse=True)))

    def fit(
        self, train: FeatureSource, targets: NumberTargets, *, dev: FeatureSource, dev_values: Floats, device: str
    ) -> FittedRegression:
        """Fit every problem in every layer.

        Args:
            train: vectors of the training items.
            targets: their numbers.
            dev: vectors of other items.
            dev_values: ``[problem, item]`` numbers by which the strength is chosen.
            device: where to compute.
        """
        origin = next(iter(train.chunks()))[1][:, 0].to(device, torch.float64)
        slopes, intercepts = self._paths(train, targets, origin)
        numbers = torch.from_numpy(dev_values).to(device)
        errors = torch.zeros_like(intercepts)
        for items, vectors in _shifted(dev, origin):
            predicted = torch.einsum("lmd,plsd->plsm", vectors, slopes) + intercepts[..., None]
            errors += (predicted - numbers[:, None, None, items.to(device)]).square().sum(-1)
        spread = (numbers - numbers.mean(1, keepdim=True)).square().sum(1)[:, None, None]
        # minus infinity where the numbers of dev are all the same
        dev_r2 = (1 - errors / spread).nan_to_num(nan=-torch.inf, neginf=-torch.inf).cpu().numpy()
        sources = list(targets.strength_sources or range(len(targets.values)))
        chosen = dev_r2.argmax(axis=2)[sources]  # of equals the strongest
        at: Any = (*np.indices(chosen.shape), chosen)
        return FittedRegression(slopes[at], intercepts[at], origin, self.strengths, chosen, dev_r2)

    def _paths(self, train: FeatureSource, targets: NumberTargets, origin: Tensor) -> tuple[Tensor, Tensor]:
        """Slopes ``[problem, layer, strength, dim]`` and intercepts ``[problem, layer, strength]`` at all strengths."""
        numbers = torch.from_numpy(targets.values).to(origin)
        weights = np.ones(targets.values.shape) if targets.weights is None else targets.weights.astype(np.float64)
        distinct, of_problem = np.unique(weights, axis=0, return_inverse=True)
        which = of_problem.reshape(-1).tolist()
        each = torch.from_numpy(distinct).to(origin)
        totals = each.sum(1)
        means = (each[which] * numbers).sum(1) / totals[which]
        centred = each[which] * (numbers - means[:, None])
        sums, products = origin.new_zeros(len(each), *origin.shape), origin.new_zeros(len(numbers), *origin.shape)
        squares = origin.new_zeros(len(each), *origin.shape, train.dim)
        for items, vectors in _shifted(train, origin):
            places = items.to(origin.device)
            products += torch.einsum("pm,lmd->pld", centred[:, places], vectors)
            for place, weight in enumerate(each[:, places]):
                weighted = vectors * weight[None, :, None]
                sums[place] += weighted.sum(1)
                squares[place] += weighted.transpose(1, 2) @ vectors
        bases = [_basis(sums[place] / total, squares[place] / total) for place, total in enumerate(totals)]
        penalties = torch.tensor(self.strengths, dtype=torch.float64, device=origin.device)
        slopes, intercepts = [], []
        for problem, place in enumerate(which):
            mean, deviation, spectrum, basis = bases[place]
            rotated = torch.einsum("lde,ld->le", basis, products[problem] / totals[place] / deviation)
            shrunk = rotated[:, None] / (spectrum[:, None] + penalties[None, :, None])
            slopes.append(torch.einsum("lde,lse->lsd", basis, shrunk) / deviation[:, None])
            intercepts.append(means[problem] - torch.einsum("lsd,ld->ls", slopes[-1], mean))
        return torch.stack(slopes), torch.stack(intercepts)


def _basis(mean: Tensor, square: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and deviation ``[layer, dim]``, eigenvalues ``[layer, dim]`` and eigenvectors in columns of correlations."""
    covariance = square - mean[:, :, None] * mean[:, None, :]
    variance = covariance.diagonal(dim1=1, dim2=2)
    # A constant feature predicts nothing: as if it were spread without end.
    is_constant = variance <= _CONSTANT * square.diagonal(dim1=1, dim2=2)
    deviation = torch.where(is_constant, torch.inf, variance.clamp(min=0).sqrt())
    correlation = covariance / deviation[:, :, None] / deviation[:, None, :]
    spectrum, basis = torch.linalg.eigh(correlation)
    return mean, deviation, spectrum.clamp(min=0), basis


def _shifted(source: FeatureSource, origin: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The chunks of a source in float64 on the device of ``origin [layer, dim]``, which is subtracted."""
    for items, vectors in source.chunks():
        shifted = vectors.to(origin.device, torch.float64) - origin[:, None]
        check_finite(source, shifted)
        yield items, shifted
