"""Linear readouts: logistic regression and least squares of labels, and ridge regression of numbers."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from bertology._machine import Workers, give_back_freed_memory
from bertology._products import product
from bertology._settings import Checked, Count, Natural, Positive
from bertology.errors import FitError
from bertology.readouts import _base, _sources
from bertology.readouts._fitting import IMPOSSIBLE, FittedScores, accuracies
from bertology.readouts._sources import FeatureSource, Items, Moments, Sample, ShardedSource, resident

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Maps ``[n]`` numbers of functions and their ``[n, parameter]`` points to ``[n]`` float64 values and gradients."""
Precondition = Callable[[Tensor, Tensor], Tensor]
"""Maps ``[n]`` numbers of functions and ``[n, parameter]`` vectors to vectors over an approximate Hessian."""
_UNDERFLOW = 1e-30
_UNCERTAIN = 6
"""Items a feature of which the curvature of a class is measured one by one; the others count by their mean."""
_COUPLING = 2**0.5
"""Factor of the curvature for classes that are confused: between 1 and 2, by the row sums of diag p − ppᵀ."""
_LEAST = 0.01
"""Curvature of a class, as a part of what its frequency alone would give, below which it is not believed to fall."""
_MEMORY = 20  # steps remembered, or as many as fit into the bytes below
_MEMORY_BYTES = 512 << 20
_SUFFICIENT = 1e-4
_NOISE = 1e-7


class Fits:
    """The regressions of all problems and strengths of a layer: fit = (problem, strength), the strength the fastest.

    A point of a fit is ``[class, dim + 1]`` in one row: coefficients of standardised features, then the intercept.
    Vectors are never standardised themselves; mean and standard deviation go into the coefficients. Strengths
    ``[problem, strength]`` are scikit-learn's ``C``, float64; moments are those of this layer alone.
    """

    def __init__(self, items: Items, moments: Moments, strengths: Tensor, numbers: Tensor) -> None:
        n_problems, self.n_strengths = strengths.shape
        present = items.frequency > 0  # [problem, class]
        self.n_classes, self.dim = present.shape[1], moments.mean.shape[2]
        self.problem = torch.arange(n_problems, device=present.device).repeat_interleave(self.n_strengths)
        # of two classes, scikit-learn has one weight vector: it is penalised as twice two opposite ones
        per_problem = torch.where(present.sum(1) == 2, 2.0, 1.0) / items.total
        # [fit] factor of ½‖W‖² beside the mean loss, float64
        self.penalty = per_problem[self.problem] / strengths.to(present.device).flatten()
        self.mean = moments.mean[self.problem, 0].float()  # [fit, dim]
        self.std = moments.std[self.problem, 0].float()  # [fit, dim]
        self.absent = torch.where(present, 0.0, IMPOSSIBLE)  # [problem, class] added to the intercepts
        self.every = torch.arange(len(self.penalty), device=present.device)
        self.numbers = numbers  # [problem] of the problems in the shards of a sharded source, which have more

    def split(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients ``[n, class, dim]`` and intercepts ``[n, class]`` of standardised features."""
        both = points.view(len(points), self.n_classes, self.dim + 1)
        return both[:, :, :-1], both[:, :, -1]

    def for_raw(self, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients ``[n, class, dim]`` and intercepts ``[n, class]`` for vectors as they come."""
        weights, biases = self.split(points)
        weights = weights / self.std[rows][:, None]
        shift = torch.bmm(weights, self.mean[rows][:, :, None]).squeeze(2)
        return weights, biases - shift + self.absent[self.problem[rows]]

    def objective(self, source: Any, items: Items, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss with penalty ``[n]`` (float64) of the fits ``rows`` at ``points`` of weights, and gradients."""
        problem, (raw, offsets) = self.problem[rows], self.for_raw(rows, points)
        n, n_classes, dim = raw.shape
        if isinstance(source, ShardedSource):
            of_losses, weight_sums, bias_sums = source.sums(loss_sums, raw, offsets, self.numbers[problem])
        else:
            of_losses, weight_sums, bias_sums = loss_sums(source, items, raw, offsets, problem)
        total = items.total[problem].clamp(min=1e-30)
        penalty, (weights, _) = self.penalty[rows], self.split(points)
        value = of_losses / total + 0.5 * penalty * weights.flatten(1).square().sum(1, dtype=torch.float64)
        # Sums for vectors as they come, turned into means for standardised ones.
        slopes, biases = weight_sums.view(n_classes, n, dim).transpose(0, 1), bias_sums.T.float()
        slopes = (slopes - biases[:, :, None] * self.mean[rows][:, None]) / self.std[rows][:, None]
        gradient = torch.cat([slopes, biases[:, :, None]], dim=2) / total.float()[:, None, None]
        gradient[:, :, :-1] += penalty.float()[:, None, None] * weights
        return value, gradient.flatten(1)

    def bound(self, spectrum: Tensor, basis: Tensor) -> Precondition:
        """Division by an upper bound of the Hessian, the same at every point, from the features' correlations."""
        half_spectrum = 0.5 * spectrum.clamp(min=0)

        def divided(rows: Tensor, gradient: Tensor) -> Tensor:
            weights, biases = self.split(gradient)
            result = torch.empty_like(gradient).view(len(rows), self.n_classes, -1)
            rotated = product(weights, basis.T)
            rotated /= half_spectrum + self.penalty[rows].float()[:, None, None]
            result[:, :, :-1] = product(rotated, basis)
            result[:, :, -1] = 2 * biases
            return result.flatten(1)

        return divided

    def curvature(
        self, sample: Sample, items: Items, points: Tensor, correlations: Tensor, *, basis: Tensor | None = None
    ) -> Precondition:
        """Division by the curvature of each class near ``points [fit, parameter]``, and the penalty.

        It is measured on a sample with labels and weights ``items``. The rarest classes share their eigenvectors where
        the memory for them is too small. With an orthogonal ``basis`` of the features, all classes share it and only
        the diagonal of the curvature there is measured.
        """
        first: dict[bytes, int] = {}
        alike = [first.setdefault(row.cpu().numpy().tobytes(), problem) for problem, row in enumerate(items.labels)]
        most_blocks = max(1, _CURVATURE_BYTES // (4 * self.dim**2 * len(set(alike))))
        coefficients, intercepts = self.for_raw(self.every, points)
        uncertainty = torch.empty(len(points), self.n_classes, device=points.device)  # mean p (1 − p)
        blocks: dict[int, list[_Block]] = {}  # by first problem with the same labels
        vectors, n = sample.source.held(0), self.n_strengths  # [item, dim]
        for problem, first_alike in enumerate(alike):
            rows, middle = slice(problem * n, (problem + 1) * n), problem * n + n // 2
            parts = torch.split(vectors, _ITEMS_AT_ONCE)
            scores = torch.cat([product(coefficients[rows], part.float()) for part in parts], dim=2)
            variance = scores.add_(intercepts[rows, :, None]).softmax(1)  # [strength, class, item]
            del scores
            variance *= 1 - variance
            variance *= items.weights[problem] / items.total[problem].clamp(min=1e-30).float()
            frequency = items.frequency[problem]
            uncertainty[rows] = variance.sum(2).maximum(_LEAST * frequency * (1 - frequency))
            if first_alike == problem:
                standard = (self.mean[middle], self.std[middle])
                sizes = variance[n // 2], uncertainty[middle], frequency > 0
                if basis is None:
                    blocks[problem] = _blocks(vectors, standard, *sizes, correlations, most_blocks)
                else:
                    blocks[problem] = [_diagonal(vectors, standard, variance[n // 2], frequency > 0, basis)]
            del variance
        if vectors.nbytes > _MUCH:
            give_back_freed_memory()  # what stays of a layer lies between what does not
        first_of, coupled = torch.tensor(alike, device=points.device), _COUPLING * uncertainty

        def divided(rows: Tensor, gradient: Tensor) -> Tensor:
            whole = gradient.view(len(rows), self.n_classes, -1)
            result = torch.zeros_like(whole)
            problems, penalty = first_of[self.problem[rows]], self.penalty[rows].float()
            for problem, of_problem in blocks.items():
                chosen = (problems == problem).nonzero().squeeze(1)
                for block in of_problem if len(chosen) else ():
                    solution = block.divide(whole[chosen], coupled[rows[chosen]], penalty[chosen])
                    result[chosen[:, None, None], block.classes] = solution
            return result.flatten(1)

        return divided


def loss_sums(
    source: FeatureSource, items: Items, raw: Tensor, offsets: Tensor, problem: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over items of the losses ``[n]`` of fits to problems ``[n]``, and of their gradients for vectors as they
    come: ``[class · n, dim]``, and ``[class, n]`` for intercepts. Class is the slowest axis and item the fastest:
    softmax then runs along whole vectors of items."""
    n, n_classes, dim = raw.shape
    coefficients, intercepts = raw.transpose(0, 1).reshape(n_classes * n, dim), offsets.T.reshape(-1, 1)
    losses = torch.zeros(n, dtype=torch.float64, device=raw.device)
    weight_sums = torch.zeros_like(coefficients)
    bias_sums = torch.zeros(n_classes, n, dtype=torch.float64, device=raw.device)
    for numbers, vectors in _sources.small_chunks(source, n_classes * n):
        numbers, vectors = _sources.without_unused(numbers, vectors, items.used)
        numbers, vectors = numbers.to(raw.device), vectors.to(raw.device)
        scores = product(coefficients, vectors[0]).add_(intercepts).view(n_classes, n, -1)
        residual = scores.softmax(0)  # [class, n, m]
        index = items.labels[:, numbers][problem][None]
        at_label = residual.gather(0, index)
        loss = -at_label.clamp(min=_UNDERFLOW).log_()[0]
        if (at_label < _UNDERFLOW).any():
            loss = scores.logsumexp(0) - scores.gather(0, index)[0]
        residual.scatter_(0, index, at_label - 1)
        if not items.are_equal:
            counts = items.weights[:, numbers][problem]
            loss *= counts
            residual *= counts
        losses += loss.sum(1, dtype=torch.float64)
        bias_sums += residual.sum(2)
        weight_sums += product(residual.flatten(0, 1), vectors[0].T)
        del vectors, scores, residual, index, at_label, loss  # or held while the next are read
    return losses, weight_sums, bias_sums


def _correlations(vectors: Tensor) -> Tensor:
    """``[dim, dim]`` correlations of the features of ``[item, dim]`` vectors that are not constant."""
    parts = torch.split(vectors, _ITEMS_AT_ONCE)
    mean = torch.stack([part.float().sum(0) for part in parts]).sum(0) / len(vectors)
    products = torch.zeros(len(mean), len(mean), device=mean.device)
    for part in parts:
        centred = part.float() - mean
        products += product(centred.T, centred.T)
    spread = products.diagonal().clamp(min=1e-12 * len(vectors)).sqrt()
    return products / spread / spread[:, None]


def _spectrum(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors, in columns, of symmetric matrices."""
    try:
        values, vectors = torch.linalg.eigh(matrices)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        # Features that are nearly copies of each other, as of a model whose layers have collapsed.
        values, vectors = (part.to(matrices) for part in torch.linalg.eigh(matrices.double()))
    return values, vectors.contiguous()


class _Block(NamedTuple):
    """Curvatures of classes in problems with the same labels: of single classes, or of several with one basis."""

    classes: Tensor  # [block, c] the classes of each block
    mean: Tensor  # [block, c or 1, dim] mean of the features, each item counted by its p (1 − p)
    basis: Tensor  # [block, dim, dim] eigenvectors, in columns, of their covariance counted the same way
    spectrum: Tensor  # [block, c or 1, dim] its eigenvalues, or its diagonal in a basis that is not its own

    def divide(self, gradient: Tensor, uncertainty: Tensor, penalty: Tensor) -> Tensor:
        """``[n, class, dim + 1]`` over ``uncertainty`` ``[n, class]`` times the curvature, and the ``[n]`` penalty.

        The intercept, which is not penalised, is eliminated first: what is left for the coefficients is the covariance.
        """
        # [n, class, …] to [block, n, c, …]
        slopes, sizes = (part[:, self.classes].transpose(0, 1) for part in (gradient, uncertainty))
        size, intercept, mean = sizes[..., None], slopes[..., -1:], self.mean[:, None]
        centred = slopes[..., :-1] - intercept * mean
        rotated = torch.bmm(centred.flatten(1, 2), self.basis).view_as(centred)
        rotated /= size * self.spectrum[:, None] + penalty[:, None, None]
        weights = torch.bmm(rotated.flatten(1, 2), self.basis.mT).view_as(centred)
        solution = torch.cat([weights, intercept / size - (weights * mean).sum(3, keepdim=True)], dim=3)
        return solution.transpose(0, 1)


def _blocks(
    vectors: Tensor,
    standard: tuple[Tensor, Tensor],
    variance: Tensor,
    uncertainty: Tensor,
    present: Tensor,
    correlations: Tensor,
    most: int,
) -> list[_Block]:
    """Blocks of a problem: the classes that matter most alone, the others together if there are more than ``most``."""
    n_uncertain = min(_UNCERTAIN * vectors.shape[1], len(vectors))
    classes = uncertainty.where(present, -1.0).argsort(descending=True, stable=True)[: int(present.sum())]
    alone = len(classes) if len(classes) <= most else most - 1
    # of two classes, the p (1 − p) are one
    shared = [classes[None]] if len(classes) == 2 else [classes[:alone, None], classes[None, alone:]]
    blocks = []
    for several in (part for part in shared if part.numel()):
        means, covariances = [], []
        for alike in several:
            weight, items = variance[alike].sum(0).topk(n_uncertain)
            rows, whole = (vectors[items].float() - standard[0]) / standard[1], uncertainty[alike].sum()
            means.append(weight @ rows / whole)
            weighted = product((rows * weight[:, None]).T, rows.T)
            second = weighted + (whole - weight.sum()).clamp(min=0) * correlations
            covariances.append(second / whole - means[-1][:, None] * means[-1])
        spectrum, basis = _spectrum(torch.stack(covariances))
        blocks.append(_Block(several, torch.stack(means)[:, None], basis, spectrum.clamp_(min=0)[:, None]))
    return blocks


def _diagonal(
    vectors: Tensor, standard: tuple[Tensor, Tensor], variance: Tensor, present: Tensor, basis: Tensor
) -> _Block:
    """Diagonal of the curvature of each class in an orthogonal ``basis``, from ``variance [class, item]``."""
    classes = present.nonzero().squeeze(1)
    counts = variance[classes] / variance[classes].sum(1, keepdim=True).clamp(min=_UNDERFLOW)
    mean, spectrum = torch.zeros(2, len(classes), len(basis), device=basis.device).unbind()
    parts = torch.split(vectors, _ITEMS_AT_ONCE), torch.split(counts, _ITEMS_AT_ONCE, 1)
    for part, shares in zip(*parts, strict=True):
        rotated = product((part.float() - standard[0]) / standard[1], basis.T)
        mean += product(shares, rotated.T)
        spectrum += product(shares, rotated.square_().T)
    spectrum -= mean.square()
    return _Block(classes[None], (mean @ basis.T)[None], basis[None], spectrum.clamp_(min=0)[None])


class Minima(NamedTuple):
    """The end of the minimisation of each function."""

    points: Tensor  # [function, parameter]
    gradient_norm: Tensor  # [function] largest absolute component of the gradient there, float64
    iterations: Tensor  # [function] evaluations until it arrived, or all there were
    converged: Tensor  # [function] whether the gradient norm met the tolerance


def minimise(
    evaluate: Evaluate,
    start: Tensor,
    *,
    precondition: Precondition,
    max_iter: int,
    tolerance: Tensor,  # [function] float64
    relative: float = 0.0,
    report: Callable[[int, int], None],
) -> Minima:
    """Minimise functions of one shape by preconditioned L-BFGS, each with its own step, all evaluated together.

    A function leaves as soon as the largest absolute component of its gradient is within its tolerance, or no more than
    the part ``relative`` of what it was at ``start``; after ``max_iter`` evaluations all do.
    """
    points = start.clone()
    norms = torch.full((len(start),), torch.inf, dtype=torch.float64, device=start.device)
    iterations = torch.zeros(len(start), dtype=torch.int64, device=start.device)
    descent = _Descent(evaluate, precondition, start)
    tolerances = (relative * descent.norms()).maximum(tolerance)
    for iteration in range(1, max_iter + 1):
        if iteration > 1:
            descent.step()
        rows = descent.rows
        norms[rows], iterations[rows], points[rows] = descent.norms(), iteration, descent.points
        left = norms[rows] > tolerances[rows]
        report(iteration, int(left.sum()))
        if not left.any():
            break
        if not left.all():
            descent.keep(left)
    return Minima(points, norms, iterations, norms <= tolerances)


class _Descent:
    """The functions still under way: where each is, the step it tries next, and its last steps.

    Of each step are kept the change of the gradient and its image under the preconditioner: the recursion of Nocedal &
    Wright (2006, algorithm 7.4) applies the preconditioner to the gradient less a sum of changes, which then is a sum
    of known images.
    """

    def __init__(self, evaluate: Evaluate, precondition: Precondition, start: Tensor) -> None:
        self._evaluate, self._precondition = evaluate, precondition
        self.rows, self.points = torch.arange(len(start), device=start.device), start.clone()
        self._value, self._gradient = evaluate(self.rows, self.points)
        self._image = precondition(self.rows, self._gradient)
        self._most = max(3, min(_MEMORY, _MEMORY_BYTES // (3 * start.nbytes)))
        self._past: list[tuple[Tensor, ...]] = []  # step, change, image and curvature
        self._scale: Tensor | None = None
        self._direction = torch.zeros_like(start)
        self._slope, self._length = torch.zeros_like(self._value), torch.ones_like(self._value)

    def norms(self) -> Tensor:
        return self._gradient.abs().amax(1).double()

    def keep(self, left: Tensor) -> None:
        for name, values in vars(self).items():
            if isinstance(values, Tensor):
                setattr(self, name, values[left])
        self._past[:] = [tuple(values[left] for values in one) for one in self._past]

    def step(self) -> None:
        """Try a step of every function; where it does not go down enough, shorten the next one."""
        fresh = self._length == 1.0  # the last step was taken, or there was none
        if fresh.any():
            self._direction = torch.where(fresh[:, None], self._downwards(), self._direction)
            self._slope = (self._direction * self._gradient).sum(1, dtype=torch.float64)
        step = self._length[:, None].to(self.points.dtype) * self._direction
        value, gradient = self._evaluate(self.rows, self.points + step)
        expected = self._length * self._slope
        good = value <= self._value + _SUFFICIENT * expected + _NOISE * self._value.abs()
        step = torch.where(good[:, None], step, 0.0)
        gradient = torch.where(good[:, None], gradient, self._gradient)
        image = self._precondition(self.rows, gradient)
        # A function that did not move, or saw no curvature, adds nothing to what is remembered.
        news = step, gradient - self._gradient, image - self._image
        curvature = (step * news[1]).sum(1)
        useful = curvature > 1e-10 * step.norm(dim=1) * news[1].norm(dim=1)
        scale = torch.where(useful, curvature / (news[1] * news[2]).sum(1), 1.0)
        self._scale = scale if self._scale is None else torch.where(useful, scale, self._scale)
        rows = [torch.where(useful[:, None], new, 0.0) for new in news]
        self._past.append((*rows, torch.where(useful, curvature, torch.inf)))
        del self._past[: -self._most]
        # the minimum of the parabola through what is known of a rejected step
        shorter = (-0.5 * expected / (value - self._value - expected)).nan_to_num(nan=0.1).clamp(0.1, 0.5)
        self._length = torch.where(good, 1.0, self._length * shorter)
        self.points = self.points + step
        self._value = torch.where(good, value, self._value)
        self._gradient, self._image = gradient, image

    def _downwards(self) -> Tensor:
        """The quasi-Newton direction of descent."""
        rest, image = self._gradient.clone(), self._image.clone()
        amounts: list[Tensor] = []
        for step, change, its_image, curvature in reversed(self._past):
            amounts.append(((step * rest).sum(1) / curvature)[:, None])
            rest -= amounts[-1] * change
            image -= amounts[-1] * its_image
        if self._scale is not None:
            image *= self._scale[:, None]
        for (step, change, _, curvature), amount in zip(self._past, reversed(amounts), strict=True):
            image += (amount - ((change * image).sum(1) / curvature)[:, None]) * step
        return -image


Strengths = Annotated[tuple[Positive, ...], Field(min_length=1)]
EXTENSIONS = 3
"""Default number of strengths that are tried beyond an end."""
_STEP = 10.0  # factor from one strength beyond an end of a path to the next
_SAMPLE_LEAST = 8192
_SAMPLE_A_FEATURE = 32  # A sample has at least so many items, and so many a feature; fewer items are all in it
_PART = 4  # where items are many, one in this many is in the sample
_SAMPLE_ITEMS = 32768
_SAMPLE_BYTES = 1 << 30
_CURVATURE_BYTES = 512 << 20
_MUCH = 16 << 20  # bytes of a sample; a smaller layer asks for the memory that it has freed again at once
_ROUGH = 0.012
"""Part of its gradient at the start that a fit to the sample may keep: going further would only learn the sample."""
_ITEMS_AT_ONCE = 4096  # of a sample, so that no copy of it has to be held in another precision
_DIAGONAL_MOST = 100  # passes with the diagonal of the curvature; fits that need more go on with the whole of it
_COMPARED = 0.01, 0.0016  # fits only compared end halfway to the tolerance (in logarithms): to a part, to all items
_CONSTANT = 1e-12  # variance, as a part of a feature's mean square, below which it is constant


@dataclass(frozen=True)
class Affine:
    """Scores of classes as affine functions of raw vectors: standardisation is folded in."""

    coefficients: Tensor  # [problem, layer, strength, class, dim]
    intercepts: Tensor  # [problem, layer, strength, class]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Numbers of problems, layers and classes, and width of the vectors."""
        n_problems, n_layers, _, n_classes, dim = self.coefficients.shape
        return n_problems, n_layers, n_classes, dim

    @property
    def n_params(self) -> int:
        """Trained parameters of one layer's readout for one problem."""
        return self.shape[2] * (self.shape[3] + 1)

    def scores(self, source: FeatureSource) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Item numbers ``[m]``, layer, and scores ``[problem, strength, class, m]``, layer by layer of each chunk."""
        n_problems, n_layers, n_strengths, n_classes, dim = self.coefficients.shape
        _base.check_same_shape(source, n_layers, dim)
        weights = self.coefficients.transpose(0, 1).reshape(n_layers, -1, dim)
        biases = self.intercepts.transpose(0, 1).reshape(n_layers, -1, 1)
        for items, vectors in _sources.small_chunks(source, biases.shape[1]):
            vectors = vectors.to(weights.device)
            for layer in range(n_layers):
                class_scores = product(weights[layer], vectors[layer]).add_(biases[layer])
                yield items, layer, class_scores.view(n_problems, n_strengths, n_classes, -1)


@dataclass(frozen=True)
class StrengthPath:
    """Strengths that are tried in every fit, and those beyond both ends that are tried where an end is best."""

    strengths: tuple[float, ...]  # all of them, from the strongest regularisation to the weakest
    given: range  # integers of those that are tried in every fit

    @classmethod
    def of(cls, strengths: Sequence[float], *, extensions: int, large_is_strong: bool) -> "StrengthPath":
        """A path in steps of ten beyond what is given; a single strength is one that was chosen before: no path."""
        tried = sorted(set(strengths), reverse=large_is_strong)
        n, step = extensions if len(tried) > 1 else 0, 1 / _STEP if large_is_strong else _STEP
        stronger = [tried[0] / step**k for k in range(n, 0, -1)]
        weaker = [tried[-1] * step**k for k in range(1, n + 1)]
        return cls((*stronger, *tried, *weaker), range(n, n + len(tried)))

    def next_places(self, dev_accuracy: _base.Floats) -> _base.Integers:
        """``[problem, layer]`` the strength to try next, one beyond an end that is best; −1 where nothing is left."""
        ends = _base.rising_ends(dev_accuracy)
        places = np.nanargmax(dev_accuracy, axis=2) + ends
        return np.asarray(np.where((ends != 0) & (places >= 0) & (places < len(self.strengths)), places, -1))

    def tried(self, dev_accuracy: _base.Floats) -> NDArray[np.bool_]:
        """``[problem, layer, strength]`` which strengths are tried, where the accuracy at all of them is known."""
        accuracy = np.full(dev_accuracy.shape, np.nan)
        accuracy[..., self.given] = dev_accuracy[..., self.given]
        while (places := self.next_places(accuracy)).max() >= 0:
            where = *np.nonzero(places >= 0), places[places >= 0]
            accuracy[where] = dev_accuracy[where]
        return np.asarray(~np.isnan(accuracy))


@dataclass(frozen=True)
class LinearReadout(_base.Readout):
    """Multinomial logistic regression with an L2 path, as scikit-learn's ``LogisticRegression`` states it.

    For each layer, problem and strength ``C`` it minimises ``C · Σ w (−ln p) + ½ ‖W‖²`` over the training items,
    their features standardised by the mean and standard deviation (1 for a constant feature) that they have under
    the problem's own weights; intercepts are not penalised. As in scikit-learn, a problem whose training data have
    two classes has one weight vector, the difference of the two.

    Each layer is fitted by itself, all problems and strengths together, by L-BFGS with a preconditioner of their own.
    The strengths of the path are compared on dev by fits that end sooner (at four times the default tolerance; ten if
    items are many, to a part of them); only the chosen one is fitted to the end, from there and to all.
    Where dev accuracy is best at an end of the path, strengths beyond it are tried one after the other, each from where
    the one before it ended, until one is no better. The seed is that of the part: where the last fit ends depends on it
    only through the strength that is chosen.
    """

    name: ClassVar[str] = "linear.v1"
    strengths: Strengths = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    """The path of ``C``: the inverse of the regularisation, so that small is strong."""
    extensions: Natural = EXTENSIONS
    """Number of strengths, in steps of ten, that may be tried beyond either end of a path of two or more."""
    max_iter: Count = 200
    """Evaluations of loss and gradient on all training items at most."""
    tolerance: Positive = 1e-4
    """Largest absolute component that the gradient of the mean loss may have at the end: scikit-learn's ``tol``."""
    control_slack: Positive = 3.0
    """Multiple of the tolerance at which fits of controls end: those of control tasks and to random weights."""

    def fit_to(self, data: _base.TrainingData) -> FittedScores:
        """See :meth:`Readout.fit_to`."""
        path = StrengthPath.of(self.strengths, extensions=self.extensions, large_is_strong=False)
        data = replace(data, train=resident(data.train, data.device), dev=resident(data.dev, data.device))
        items = Items.of(data.targets, data.device)
        # A layer is fitted on one thread, so that the result does not depend on how many there are.
        with Workers(data.device, n=data.n_threads) as workers:
            layers = workers.map(lambda place: _LayerFits(data, items, place, path, self).run(), data.train.n_layers)
        regressions, best, records = zip(*layers, strict=True)
        record = {name: np.stack([one[name] for one in records], axis=1) for name in records[0]}
        report = _base.FitReport.of_tried(path.strengths, np.stack(best, axis=1), **record)
        coefficients, intercepts = (torch.stack(part, dim=1)[:, :, None] for part in zip(*regressions, strict=True))
        return FittedScores(self.name, Affine(coefficients, intercepts), report)


Regressions = tuple[Tensor, Tensor]
"""Coefficients ``[problem, …, class, dim]`` and intercepts ``[problem, …, class]`` of one layer."""


class _LayerFits:
    """The choice of the strength in one layer, and the fit of every problem at its strength."""

    def __init__(self, data: _base.TrainingData, items: Items, place: int, path: StrengthPath, readout: Any) -> None:
        train, dev = (source.at([place]) for source in (data.train, data.dev))
        self._data, self._items = replace(data, train=train, dev=dev), items
        self._path, self._readout = path, readout
        n_used = train.size if isinstance(train, ShardedSource) else int(items.used.sum())
        wanted = max(_SAMPLE_LEAST, _SAMPLE_A_FEATURE * train.dim, n_used // _PART)
        size = min(wanted, _SAMPLE_ITEMS, _SAMPLE_BYTES // (4 * train.dim))
        if isinstance(train, ShardedSource):
            self._sampled, self._moments, self._sample = train.survey(items.frequency, size, seed=data.seed)
        else:
            in_sample = _sources.choose_items(items.weights, size, seed=data.seed)
            self._moments, self._sample = _sources.survey(train, items.weights, in_sample)
            self._sampled = items.at(self._sample.items)
        self._correlations = _correlations(self._sample.source.held(0))
        self._spread = _spectrum(self._correlations)
        shape = data.targets.n_problems, len(path.strengths)
        # Details of the fits, [problem, strength] by field of FitReport.
        self._record: dict[str, NDArray[Any]] = {
            "dev_accuracy": np.full(shape, np.nan),
            "gradient_norm": np.full(shape, np.nan),
            "iterations": np.zeros(shape, dtype=np.int64),
            "converged": np.zeros(shape, dtype=bool),
        }

    def run(self) -> tuple[Regressions, _base.Integers, dict[str, NDArray[Any]]]:
        """The regressions at their strengths, ``[problem]`` the places of these on the path, and the record."""
        sources = np.array(self._data.targets.strength_sources)
        leading, following = np.unique(sources), np.flatnonzero(sources != np.arange(len(sources)))
        given = np.array(self._path.given)
        points = self._fit(leading, np.tile(given, (len(leading), 1)), on_all=False)[1]
        starts = points[np.arange(len(leading)), self._best(leading) - given[0]]
        for row, problem in enumerate(leading.tolist()):
            # strengths beyond an end of the path that is best, each fitted from where the one before it ended
            ends, one = points[row, [0, -1]].clone(), np.array([problem])
            while (place := int(self._path.next_places(self._record["dev_accuracy"][one][:, None])[0, 0])) >= 0:
                end = int(place >= self._path.given.stop)
                ends[end] = self._fit(one, np.array([[place]]), on_all=False, start=ends[end][None])[1][0, 0]
                if self._best(one)[0] == place:
                    starts[row] = ends[end]
        best = np.zeros(len(sources), dtype=np.int64)
        best[leading] = self._best(leading)
        best = best[sources]
        # to all items, with the control tasks of each problem at its strength
        every = np.concatenate([leading, following])
        coefficients, intercepts = self._fit(every, best[every][:, None], on_all=True, start=starts)[0]
        order = np.argsort(every)
        return (coefficients[order, 0], intercepts[order, 0]), best, self._record

    def _best(self, problems: _base.Integers) -> _base.Integers:
        return np.asarray(np.nanargmax(self._record["dev_accuracy"][problems], axis=1))

    def _fit(
        self, problems: _base.Integers, places: _base.Integers, *, on_all: bool, start: Tensor | None = None
    ) -> tuple[Regressions, Tensor]:
        """Fit ``problems`` at ``places [problem, strength]`` of the path, to all items or a part, and note the result.

        Roughly to the sample first, at the middle strength, then with the curvature measured there; the first fits from
        ``start [fit, parameter]``, which is near their ends already, with the curvature at once. To the sample alone,
        where passes are cheap, the diagonal of the curvature is used as long as it is enough. Returns the regressions,
        and ``[problem, strength, parameter]`` where their fits ended.
        """
        data, record, sample, readout = self._data, self._record, self._sample, self._readout
        some = torch.from_numpy(problems).to(data.device)
        items, sampled = self._items.only(some), self._sampled.only(some)
        # The strength is the variance of a Gaussian prior, which hardly depends on how many items there are.
        strengths = torch.from_numpy(np.array(self._path.strengths)[places])
        moments = Moments(self._moments.mean[some], self._moments.std[some])
        fits = Fits(items if on_all else sampled, moments, strengths, some)
        is_control = data.is_control | (np.array(data.targets.strength_sources)[problems] != problems)
        slack = np.where(is_control, readout.control_slack, 1.0)
        if not on_all:
            slack[:] = max(1.0, _COMPARED[sample.is_everything] / readout.tolerance) ** 0.5
        tolerance = torch.from_numpy(readout.tolerance * slack).to(data.device)[fits.problem]

        def minima(
            what: str, source: Any, of: Items, start: Tensor, near: Precondition, *, which: Tensor, **how: Any
        ) -> Minima:
            """The ends of the fits with the numbers ``which``."""

            def evaluate(rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
                return fits.objective(source, of, which[rows], points)

            def precondition(rows: Tensor, gradient: Tensor) -> Tensor:
                return near(which[rows], gradient)

            def report(iteration: int, left: int) -> None:
                done = f"{len(start) - left} of {len(start)} have converged"
                data.say(f"linear fits to {what}: pass {iteration}, {done}")

            settings = {"max_iter": readout.max_iter, "tolerance": tolerance[which], **how}
            return minimise(evaluate, start, precondition=precondition, report=report, **settings)

        every, n = fits.every, fits.n_strengths
        begun = every[: 0 if start is None else len(start)]
        if len(begun) < len(every):
            which = every[len(begun) :][n // 2 :: n]
            zero = torch.zeros(len(which), fits.n_classes * (fits.dim + 1), device=fits.mean.device)
            near = fits.bound(*self._spread)
            rough = minima("a sample", sample.source, sampled, zero, near, which=which, relative=_ROUGH).points
            rough = rough.repeat_interleave(n, 0)
            start = rough if start is None else torch.cat([start, rough])
        assert start is not None
        measure = functools.partial(fits.curvature, sample, sampled, correlations=self._correlations)
        if on_all and not sample.is_everything:
            found = minima("all items", data.train, items, start, measure(start), which=every)
        else:
            data_of = "all items" if sample.is_everything else "a part of the items", sample.source, sampled
            few, near = min(_DIAGONAL_MOST, readout.max_iter), measure(start, basis=self._spread[1])
            found = minima(*data_of, start, near, which=every, max_iter=few)
            left = every[~found.converged]
            if len(left) and few < readout.max_iter:
                near, more = measure(found.points), readout.max_iter - few
                rest = minima(*data_of, found.points[left], near, which=left, max_iter=more)
                for whole, ends in zip(found, rest._replace(iterations=rest.iterations + few), strict=True):
                    whole[left] = ends
        raw = fits.for_raw(fits.every, found.points)
        coefficients, intercepts = (part.view(*places.shape, *part.shape[1:]) for part in raw)
        where = (problems[:, None], places)
        # Of a strength that was compared with others, the accuracy that it was chosen by stays.
        is_asked = np.isnan(record["dev_accuracy"][where])
        if is_asked.any():
            fitted = Affine(coefficients[:, None], intercepts[:, None])
            shape = places.shape[0], 1, places.shape[1]
            found_on_dev = accuracies(fitted.scores(data.dev), shape, data.dev_targets.only(problems))[:, 0]
            record["dev_accuracy"][where] = np.where(is_asked, found_on_dev, record["dev_accuracy"][where])
        for name in ("iterations", "converged", "gradient_norm"):
            record[name][where] = getattr(found, name).view(places.shape).cpu().numpy()
        return (coefficients, intercepts), found.points.view(*places.shape, -1)


def _ridge_paths(
    train: FeatureSource, values: Tensor, weights: Tensor, penalties: Tensor, origin: Tensor
) -> tuple[Tensor, Tensor]:
    """Least squares at all penalties, from one eigendecomposition a layer and weighting (Hastie et al. 2009, § 3.4.1).

    Of ``values [problem, target, item]`` with weights ``[problem, item]``, at penalties ``[problem, strength]`` s of ½
    · mean squared error + ½ · s · |β|² on standardised features: slopes ``[problem, layer, strength, target, dim]``
    and intercepts. ``origin [layer, dim]`` is subtracted from vectors, so that sums keep their digits; it has the
    precision of a chunk's.
    """
    distinct, of_problem = np.unique(weights.cpu().numpy(), axis=0, return_inverse=True)
    which, each = of_problem.reshape(-1).tolist(), torch.from_numpy(distinct).to(weights)
    totals = each.sum(1, dtype=torch.float64)
    n_layers, dim = origin.shape
    means = (weights[:, None] * values).sum(2, dtype=torch.float64) / totals[which][:, None]
    centred = (weights[:, None] * (values - means[:, :, None])).to(origin)
    each = each.to(origin)
    wide: Any = {"dtype": torch.float64, "device": origin.device}
    sums, squares = torch.zeros(len(each), n_layers, dim, **wide), torch.zeros(len(each), n_layers, dim, dim, **wide)
    products = torch.zeros(*values.shape[:2], n_layers, dim, **wide)
    for items, vectors in _shifted(train, origin):
        places = items.to(origin.device)
        products += torch.einsum("pcm,lmd->pcld", centred[:, :, places], vectors)
        for place, weight in enumerate(each[:, places]):
            weighted = vectors * weight[None, :, None]
            sums[place] += weighted.sum(1)
            squares[place] += weighted.transpose(1, 2) @ vectors
    slopes, intercepts, bases = [], [], {}
    for problem, place in enumerate(which):
        if place not in bases:
            mean, square = sums[place] / totals[place], squares[place] / totals[place]
            covariance = square - mean[:, :, None] * mean[:, None, :]
            variance = covariance.diagonal(dim1=1, dim2=2)
            # A constant feature predicts nothing: as if it were spread without end.
            smallest = max(_CONSTANT, torch.finfo(origin.dtype).eps) * square.diagonal(dim1=1, dim2=2)
            deviation = torch.where(variance <= smallest, torch.inf, variance.clamp(min=0).sqrt())
            correlation = covariance / deviation[:, :, None] / deviation[:, None, :]
            spectrum, basis = torch.linalg.eigh(correlation)
            bases[place] = mean, deviation, spectrum.clamp(min=0), basis
        mean, deviation, spectrum, basis = bases[place]
        rotated = torch.einsum("lde,cld->lce", basis, products[problem] / totals[place] / deviation)
        shrunk = rotated[:, None] / (spectrum[:, None] + penalties[problem][None, :, None])[:, :, None]
        slopes.append(torch.einsum("lde,lsce->lscd", basis, shrunk) / deviation[:, None, None])
        intercepts.append(means[problem] - torch.einsum("lscd,ld->lsc", slopes[-1], mean))
    return torch.stack(slopes), torch.stack(intercepts)


def _shifted(source: FeatureSource, origin: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The chunks of a source in type and on the device of ``origin [layer, dim]``, which is subtracted."""
    for items, vectors in source.chunks():
        shifted = vectors.to(origin.device, origin.dtype) - origin[:, None]
        _sources.check_finite(source, shifted.sum(1))  # cheaper than a look at every number
        yield items, shifted


@dataclass(frozen=True)
class RidgeReadout(_base.Readout):
    """Least squares with an L2 path on one-hot labels, as scikit-learn's ``Ridge`` states it.

    For each layer, problem and strength ``α`` it minimises ``Σ w ‖y − Wx − b‖² + α ‖W‖²`` over the training items,
    with ``y`` 1 at the item's class and 0 elsewhere, and features standardised by the mean and standard deviation
    (1 for a constant feature) that they have under the problem's own weights. One eigendecomposition a layer gives
    the whole path, and strengths beyond an end of it, which are tried where dev accuracy is best at that end. A class
    without training items is never predicted. Least-squares scores are no probabilities: ``log_prob`` of its
    predictions is NaN throughout. Nothing is random.
    """

    name: ClassVar[str] = "ridge.v1"
    strengths: Strengths = (1e4, 1e3, 1e2, 1e1, 1.0)
    """The path of ``α``: large is strong."""
    extensions: Natural = EXTENSIONS
    """Number of strengths, in steps of ten, that may be tried beyond either end of a path of two or more."""

    def fit_to(self, data: _base.TrainingData) -> FittedScores:
        """See :meth:`Readout.fit_to`."""
        path = StrengthPath.of(self.strengths, extensions=self.extensions, large_is_strong=True)
        data.say("ridge: products of all features")
        items = Items.of(data.targets, data.device)
        train = _sources.subset(data.train, items.used.numpy())
        labels, weights = items.labels[:, items.used], items.weights[:, items.used]
        one_hot = torch.nn.functional.one_hot(labels, data.targets.n_classes).mT.float()
        penalties = torch.tensor(path.strengths, dtype=torch.float64, device=data.device) / items.total[:, None]
        origin = _sources.survey(train, weights)[0].mean.mean(0).float()
        coefficients, intercepts = _ridge_paths(train, one_hot, weights, penalties, origin)
        intercepts = intercepts - torch.einsum("plscd,ld->plsc", coefficients, origin.double())
        intercepts = intercepts.where(items.frequency[:, None, None] > 0, IMPOSSIBLE)
        fitted = Affine(coefficients.float(), intercepts.float())
        sources, shape = np.array(data.targets.strength_sources), (*data.shape, len(path.strengths))
        accuracy = accuracies(fitted.scores(data.dev), shape, data.dev_targets)
        tried = path.tried(accuracy)[sources]
        best = np.nanargmax(np.where(tried, accuracy[sources], np.nan), axis=2)
        report = _base.FitReport.of_tried(
            path.strengths,
            best,
            dev_accuracy=np.where(tried, accuracy, np.nan),
            iterations=np.zeros(accuracy.shape, dtype=np.int64),
            converged=np.ones(accuracy.shape, dtype=bool),
            gradient_norm=np.full(accuracy.shape, np.nan),
        )
        at: Any = (*np.indices(best.shape), best)
        chosen = Affine(fitted.coefficients[at].unsqueeze(2), fitted.intercepts[at].unsqueeze(2))
        return FittedScores(self.name, chosen, report, are_logits=False)


@dataclass(frozen=True)
class NumberTargets:
    """Numbers to predict from the items of a source, in one or several problems over the same items."""

    values: _base.Floats
    """``[problem, item]``"""
    weights: _base.Floats | None = None
    """``[problem, item]`` how often each item counts, 1 when left out."""
    strength_sources: tuple[int, ...] = ()
    """``[problem]`` the problem whose regularisation strength is used; itself when left out."""

    def __post_init__(self) -> None:
        if not np.isfinite(self.values).all():
            raise FitError("some numbers are not finite: leave their items out")
        if self.weights is not None and (_base.checked_weights(self.weights, self.values.shape).sum(axis=1) <= 0).any():
            raise FitError("no training item counts: give at least one item of weight above 0")


@dataclass(frozen=True)
class FittedRegression:
    """Fitted regressions of all problems and layers."""

    slopes: Tensor  # [problem, layer, dim] float64
    intercepts: Tensor  # [problem, layer] the number predicted of the vector origin
    origin: Tensor  # [layer, dim], subtracted from vectors so that sums keep their digits
    strengths: tuple[float, ...]
    chosen: _base.Integers  # [problem, layer] place of the chosen strength
    dev_r2: _base.Floats  # [problem, layer, strength] R² on dev

    def predict(self, source: FeatureSource) -> _base.Floats:
        """``[problem, layer, item]`` predicted numbers."""
        predicted = np.empty((len(self.slopes), source.n_layers, source.n_items))
        for items, vectors in _shifted(source, self.origin):
            numbers = torch.einsum("lmd,pld->plm", vectors, self.slopes) + self.intercepts[:, :, None]
            predicted[:, :, items.numpy()] = numbers.cpu().numpy()
        return predicted


_PENALTIES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7)


@dataclass(frozen=True)
class RidgeRegression(Checked):
    """Least squares with an L2 penalty on standardised features (Hoerl & Kennard 1970), in closed form.

    A strength s minimises ½ · mean squared error + ½ · s · |β|²: scikit-learn's ``Ridge(alpha=s · n)`` after a
    ``StandardScaler``. It is chosen on dev for each layer and problem.
    """

    name: ClassVar[str] = "ridge_regression.v1"
    strengths: Strengths = _PENALTIES
    """Penalties to try."""

    def fit(
        self, train: FeatureSource, targets: NumberTargets, *, dev: FeatureSource, dev_values: _base.Floats, device: str
    ) -> FittedRegression:
        """Fit every problem in every layer, and choose the strength by the numbers of dev, ``[problem, item]``."""
        origin = next(iter(train.chunks()))[1][:, 0].to(device, torch.float64)
        values = torch.from_numpy(targets.values).to(origin)
        weights = torch.ones_like(values) if targets.weights is None else torch.from_numpy(targets.weights).to(origin)
        strengths = tuple(sorted(self.strengths, reverse=True))
        penalties = torch.tensor(strengths, dtype=torch.float64, device=device).expand(len(values), -1)
        paths = _ridge_paths(train, values[:, None], weights, penalties, origin)
        slopes, intercepts = (part.squeeze(3) for part in paths)
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
        return FittedRegression(slopes[at], intercepts[at], origin, strengths, chosen, dev_r2)
