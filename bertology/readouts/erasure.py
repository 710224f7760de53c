"""Changes of vectors: concept erasure (LEACE, INLP), and rescaling to the mean and spread of other vectors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertology._machine import fit_device
from bertology.errors import FitError
from bertology.readouts._base import Integers, Targets, check_agreement, check_same_shape
from bertology.readouts._sources import AnySource, FeatureSource, changed, check_finite, used_chunks

_CHANCE = 3.0
"""Standard deviations above its mean that what dimensions explain by chance may lie (of a chi-squared variable)."""
_NOTHING = 1e-9  # correlation of a direction with the labels, or part of the largest variance, that is rounding


@dataclass(frozen=True)
class Erasure:
    """Projections that remove a concept from the vectors of each layer, as factors in float64."""

    left: Tensor
    """``[layer, dim, rank]``"""
    right: Tensor
    """``[layer, rank, dim]``, rows of 0 where a layer has fewer directions."""
    bias: Tensor
    """``[layer, dim]`` mean of the vectors that it was fitted to, which is kept."""
    layers: tuple[int, ...]
    """``[layer]`` the number of each layer in its model."""

    @property
    def ranks(self) -> Integers:
        """``[layer]`` number of directions that are removed."""
        return np.asarray(self.right.any(2).sum(1).numpy(), dtype=np.int64)

    def erase(self, vectors: Tensor) -> Tensor:
        """``[layer, m, dim]`` vectors after the erasure; FitError for other layers or another width."""
        if vectors.ndim != 3 or (vectors.shape[0], vectors.shape[2]) != tuple(self.bias.shape):
            raise FitError(f"vectors have shape {list(vectors.shape)}: give [layer, m, dim] {list(self.bias.shape)}")
        return _erased(vectors, self.left, self.right, self.bias)

    def layer(self, number: int) -> Callable[[Tensor], Tensor]:
        """Maps ``[..., dim]`` vectors of the layer with this number in its model to vectors after the erasure."""
        if number not in self.layers:
            raise FitError(f"layer {number}: the erasure was fitted to layers {', '.join(map(str, self.layers))}")
        place = self.layers.index(number)
        factors = self.left[place].T, self.right[place].T, self.bias[place]

        def erase(vectors: Tensor) -> Tensor:
            left, right, bias = (part.to(vectors.device, torch.float32) for part in factors)
            values = vectors.float()
            return (values - (values - bias) @ right @ left).to(vectors.dtype)

        return erase


def _erased(vectors: Tensor, *factors: Tensor) -> Tensor:
    left, right, bias = (part.to(vectors.device, vectors.dtype) for part in factors)
    return vectors - torch.bmm(torch.bmm(vectors - bias[:, None], right.mT), left.mT)


def erased(source: AnySource, erasure: Erasure) -> AnySource:
    """The vectors of a source, or the words of its spans, after an erasure; FitError where that is of another shape."""
    check_same_shape(source, *erasure.bias.shape)
    return changed(source, _erased, erasure.left, erasure.right, erasure.bias)


def fit_erasure(
    source: FeatureSource, labels: Integers, n_classes: int, *, within: Integers | None = None, device: str = "cpu"
) -> Erasure:
    """Least-squares concept erasure in every layer (LEACE; Belrose et al. 2023, section 4).

    Afterwards all classes have the same mean, so that no linear readout fitted to these vectors can do better than by
    class frequencies; of all maps that achieve this, it moves the vectors least. Covariances are summed up in one
    pass over the source, in double precision.

    Args:
        source: the vectors.
        labels: ``[item]`` class of each item, −1 for items that do not count.
        n_classes: classes are ``0 … n_classes − 1``.
        within: ``[item]`` codes of groups. Classes then have the same mean within each group, while groups stay apart:
            the number of nouns and that of verbs is erased, and what tells nouns from verbs is not.
        device: where to compute, as torch names it.

    Raises:
        FitError: labels that do not fit, fewer than two classes among them, or vectors that are not finite.
    """
    covariance, cross, mean, _ = _covariances(source, labels, n_classes, within, device)
    # whitening would blow up what is rounding in directions without variance
    variance, basis = torch.linalg.eigh(covariance)
    real = variance > _NOTHING * variance[:, -1:]
    deviation = variance.clamp(min=0).sqrt().where(real, 0.0)
    inverse = (1 / deviation).where(real, 0.0)
    whitened = inverse[:, :, None] * (basis.mT @ cross)  # [layer, dim, class]
    directions, strength, _ = torch.linalg.svd(whitened, full_matrices=False)
    directions = directions * (strength > _NOTHING)[:, None]
    left = basis @ (deviation[:, :, None] * directions)
    right = (directions * inverse[:, :, None]).mT @ basis.mT
    return Erasure(left.cpu(), right.cpu(), mean.cpu(), tuple(source.layers))


def fit_nullspace(
    source: FeatureSource,
    labels: Integers,
    n_classes: int,
    *,
    within: Integers | None = None,
    n_rounds: int = 20,
    device: str = "cpu",
) -> Erasure:
    """Iterative null-space projection in every layer (INLP; Ravfogel et al. 2020, section 3), by least squares.

    Each of at most ``n_rounds`` rounds fits a linear classifier to what the rounds before have left and removes the
    directions that it reads; projections are orthogonal. It ends when a classifier explains no more of the labels than
    chance lets as many dimensions explain of so many items. Classifiers are by least squares, where the authors take
    support vector machines, so that all rounds follow from one pass over the source. It removes many more directions
    than :func:`fit_erasure`, whose arguments and errors it has, and so damages more than the concept.
    """
    covariance, cross, mean, spread = _covariances(source, labels, n_classes, within, device)
    n_items = int((np.asarray(labels) >= 0).sum())
    removed = [
        _removed(*of_layer, n_items=n_items, spread=spread, n_rounds=n_rounds)
        for of_layer in zip(covariance, cross, strict=True)
    ]
    right = torch.zeros(len(removed), max(len(rows) for rows in removed), source.dim, dtype=torch.float64)
    for place, rows in enumerate(removed):
        right[place, : len(rows)] = rows
    return Erasure(right.mT.contiguous(), right, mean.cpu(), tuple(source.layers))


def _removed(covariance: Tensor, cross: Tensor, *, n_items: int, spread: float, n_rounds: int) -> Tensor:
    """``[direction, dim]`` orthonormal directions that classifiers read, round by round, in one layer."""
    dim = len(covariance)
    basis = covariance.new_zeros(dim, 0)
    left, between = covariance, cross
    for _ in range(n_rounds):
        variance, axes = torch.linalg.eigh(left)
        real = variance > _NOTHING * variance[-1].clamp(min=torch.finfo(variance.dtype).tiny)
        inverse = (1 / variance).where(real, 0.0)
        weights = axes @ (inverse[:, None] * (axes.mT @ between))
        n_free = int(real.sum())
        if n_items * float((between * weights).sum()) / spread <= n_free + _CHANCE * (2 * n_free) ** 0.5:
            break
        directions, strength, _ = torch.linalg.svd(weights, full_matrices=False)
        found = directions[:, strength > _NOTHING * strength[0]]
        basis = torch.linalg.qr(torch.cat([basis, found], dim=1)).Q
        kept = torch.eye(dim, dtype=basis.dtype, device=basis.device) - basis @ basis.mT
        left, between = kept @ covariance @ kept, kept @ cross
        if basis.shape[1] >= dim:
            break
    return basis.mT.cpu()


def _covariances(
    source: FeatureSource, classes: Integers, n_classes: int, within: Integers | None, device: str
) -> tuple[Tensor, Tensor, Tensor, float]:
    """Covariances of the used items, means, and the variance of their labels, which are centred within their groups.

    These are ``[layer, dim, dim]`` of vectors, ``[layer, dim, class]`` with labels, ``[layer, dim]`` means, and the
    variance summed over classes. Sums are over differences from each layer's first vector, so that a feature far from
    zero keeps its digits.
    """
    classes = np.asarray(classes)
    check_agreement(source, Targets(classes[None], n_classes), "the source")
    groups = np.zeros_like(classes) if within is None else np.unique(np.asarray(within), return_inverse=True)[1]
    n_groups = int(groups.max(initial=0)) + 1
    if all(len(np.unique(classes[(classes >= 0) & (groups == one)])) < 2 for one in range(n_groups)):
        raise FitError("an erasure needs items of at least two classes: give labels that differ")
    labels = torch.from_numpy(np.where(classes >= 0, groups * n_classes + classes, -1))
    n_labels = n_groups * n_classes
    shape, where = (source.n_layers, source.dim), fit_device(device)
    first = torch.zeros(*shape, dtype=torch.float64, device=where)
    second = torch.zeros(*shape, source.dim, dtype=torch.float64, device=where)
    by_class = torch.zeros(*shape, n_labels, dtype=torch.float64, device=where)
    origin = next(used_chunks(source, labels >= 0))[1][:, :1].to(where, torch.float64)
    for items, vectors in used_chunks(source, labels >= 0):
        wide = vectors.to(where).double() - origin
        one_hot = torch.nn.functional.one_hot(labels[items], n_labels).to(wide)
        first += wide.sum(1)
        second += torch.bmm(wide.mT, wide)
        by_class += wide.mT @ one_hot
    check_finite(source, first)
    used = labels[labels >= 0]
    total = len(used)
    share = (torch.bincount(used, minlength=n_labels).double() / total).to(first).reshape(n_groups, n_classes)
    of_group = share.sum(1, keepdim=True)
    in_group = share / of_group.clamp(min=1 / total)
    mean = first / total
    covariance = second / total - mean[:, :, None] * mean[:, None]
    by_group = by_class.reshape(*shape, n_groups, n_classes) / total
    cross = (by_group - by_group.sum(3, keepdim=True) * in_group).flatten(2)
    spread = float((share - share * in_group).sum())
    return covariance, cross, mean + origin[:, 0], spread


def random_erasure(like: Erasure, *, seed: int = 0) -> Erasure:
    """An erasure of as many random directions as another removes from each layer (Rand of Elazar et al. 2021).

    The loss with these is the cost of removing that many directions, whatever they encode. They are orthonormal, drawn
    uniformly by ``seed``.
    """
    random = torch.Generator().manual_seed(seed)
    right = torch.zeros_like(like.right)
    for place, rank in enumerate(like.ranks.tolist()):
        drawn = torch.randn(like.bias.shape[1], rank, generator=random, dtype=like.right.dtype)
        right[place, :rank] = torch.linalg.qr(drawn).Q.T
    return Erasure(right.mT.contiguous(), right, like.bias, like.layers)


def moments(source: AnySource) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation ``[layer, dim]`` of every dimension, in double precision, in one pass.

    They are those of items, or of the words of their spans, each as often as a chunk has it.
    """
    first = second = origin = torch.zeros(0)
    n_vectors = 0
    for chunk in source.chunks():
        vectors = (chunk[1] if isinstance(chunk, tuple) else chunk.words).double().cpu()
        if not n_vectors:
            # Sums are of differences from the first vector, so that a dimension far from zero keeps its digits.
            origin = vectors[:, :1]
            first, second = torch.zeros(2, len(vectors), source.dim, dtype=torch.float64)
        first = first + (vectors - origin).sum(dim=1)
        second = second + (vectors - origin).square().sum(dim=1)
        n_vectors += vectors.shape[1]
    mean = first / n_vectors
    return origin[:, 0] + mean, (second / n_vectors - mean.square()).clamp(min=0).sqrt()


def rescaled(source: AnySource, own: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> AnySource:
    """The vectors of a source, each dimension with the :func:`moments` of another in the place of its ``own``.

    A dimension that is constant in the source has the other's mean.
    """
    (mean, spread), (other_mean, other_spread) = own, other
    factor = torch.where(spread > 0, other_spread / spread, 0.0)

    def move(vectors: Tensor, *parts: Tensor) -> Tensor:
        scale, shift = (part[:, None].to(vectors.device, vectors.dtype) for part in parts)
        return vectors * scale + shift

    return changed(source, move, factor, other_mean - mean * factor)
