"""The solver of logistic regressions: derivatives against automatic ones, minima against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from bertology.errors import FitError
from bertology.readouts import ArrayFeatures, Targets
from bertology.readouts._sources import Items, choose_items, survey
from bertology.readouts.linear import Fits, minimise
from tests.readouts.conftest import World, standardised

STRENGTHS = (0.01, 0.1, 5.0)


class Setting:
    """Everything about three strengths of two problems in one layer, and a point that means something."""

    def __init__(self, n_classes: int = 3) -> None:
        world = World(n_layers=2, dim=5, n_classes=n_classes)
        train = world.split(200, 1).layers(1)
        random = np.random.default_rng(0)
        labels = np.where(random.random((2, 200)) < 0.2, -1, train.labels)
        weights = random.integers(0, 3, size=(2, 200)).astype(np.float32)
        self.vectors, self.labels, self.weights = train.vectors, labels, weights * (labels >= 0)
        self.items = Items.of(Targets(labels, n_classes, weights), torch.device("cpu"))
        moments, self.sample = survey(train.source, self.items.weights, choose_items(self.items.weights, 200))
        self.fits = Fits(self.items, moments, torch.tensor(STRENGTHS, dtype=torch.float64).expand(2, -1))
        self.train = train.source
        self.points = 0.3 * torch.randn(6, n_classes * 6, generator=torch.Generator().manual_seed(1))

    def objective(self, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        return self.fits.objective(self.train, self.items, rows, points)

    def loss(self, fit: int, point: Tensor) -> Tensor:
        """The definition, in double precision."""
        problem, strength = np.unravel_index(fit, (2, 3))
        weights = self.weights[problem].astype(np.float64)
        features = torch.from_numpy(standardised(self.vectors[0], self.vectors[0], weights))
        both = point.view(-1, 6)
        log_prob = (features @ both[:, :-1].T + both[:, -1]).log_softmax(1)
        used = self.labels[problem] >= 0
        chosen = log_prob[torch.from_numpy(used), torch.from_numpy(self.labels[problem][used])]
        penalty = both[:, :-1].square().sum() * (1.0 if len(both) == 2 else 0.5)
        total = weights.sum()
        return -(chosen * torch.from_numpy(weights[used])).sum() / total + penalty / (STRENGTHS[strength] * total)


@pytest.fixture(scope="module", params=[2, 3])
def setting(request: pytest.FixtureRequest) -> Setting:
    return Setting(request.param)


def test_values_and_gradients(setting: Setting) -> None:
    rows = torch.tensor([0, 3, 4])  # of one problem more than of the other
    values, gradients = setting.objective(rows, setting.points[rows])
    for place, fit in enumerate(rows.tolist()):
        point = setting.points[fit].double().requires_grad_()
        expected = setting.loss(fit, point)
        expected.backward()
        np.testing.assert_allclose(values[place].item(), expected.item(), rtol=1e-5)
        assert point.grad is not None
        np.testing.assert_allclose(gradients[place].numpy(), point.grad.numpy(), atol=2e-6)


def test_hopeless_items_keep_their_loss() -> None:
    setting = Setting()
    points = 200 * setting.points[:1]  # probabilities far below the smallest float32
    values, _ = setting.objective(torch.tensor([0]), points)
    np.testing.assert_allclose(values.item(), setting.loss(0, points[0].double()).item(), rtol=1e-5)


def test_sample_has_items_of_every_problem() -> None:
    weights = torch.zeros(3, 1000)
    weights[0, ::2] = 1
    weights[1, 1] = 2
    weights[2, 500:510] = 1
    chosen = choose_items(weights, 60, seed=3)
    assert chosen.sum() <= 60
    assert [int((row[chosen] > 0).sum()) for row in weights] == [20 + int(chosen[500:510:2].sum()), 1, 10]
    assert torch.equal(chosen, choose_items(weights, 60, seed=3))
    everything = choose_items(weights, 1000)
    assert torch.equal(everything, (weights > 0).any(0))


def test_moments_of_features_far_from_zero() -> None:
    random = np.random.default_rng(0)
    vectors = (random.normal(size=(2, 3000, 4)) * [1, 0.1, 10, 0] + [0, 500, -3e4, 777]).astype(np.float32)
    weights = torch.from_numpy(random.integers(0, 3, size=(2, 3000)).astype(np.float32))
    moments, _ = survey(ArrayFeatures(vectors, chunk_items=256), weights)
    for problem in range(2):
        mean = np.average(vectors.astype(np.float64), axis=1, weights=weights[problem].numpy())
        variance = np.average((vectors - mean[:, None]) ** 2, axis=1, weights=weights[problem].numpy())
        np.testing.assert_allclose(moments.mean[problem].numpy(), mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(moments.std[problem, :, :3].numpy(), np.sqrt(variance[:, :3]), rtol=1e-5)
    assert torch.isinf(moments.std[..., 3]).all()


def test_no_items_at_all() -> None:
    empty = ArrayFeatures(np.zeros((2, 0, 3), dtype=np.float32))
    with pytest.raises(FitError, match="no vectors"):
        survey(empty, torch.zeros(1, 0))


def bowls(n: int, dim: int) -> tuple[Tensor, Tensor]:
    """Matrices and shifts of ``n`` convex functions Σ log cosh(Ax − b) + ½ |x|² / 10, some far worse conditioned."""
    random = torch.Generator().manual_seed(0)
    matrices = torch.randn(n, 2 * dim, dim, generator=random, dtype=torch.float64)
    matrices *= torch.logspace(0, -2, dim, dtype=torch.float64) ** torch.linspace(0, 1, n)[:, None, None]
    return matrices, 3 * torch.randn(n, 2 * dim, generator=random, dtype=torch.float64)


def evaluate(matrices: Tensor, shifts: Tensor, rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    inside = torch.einsum("nij,nj->ni", matrices[rows], points.double()) - shifts[rows]
    value = (inside.abs() + torch.log1p(torch.exp(-2 * inside.abs()))).sum(1) + 0.05 * points.double().square().sum(1)
    gradient = torch.einsum("nij,ni->nj", matrices[rows], inside.tanh()) + 0.1 * points
    return value, gradient.to(points.dtype)


def test_minima_are_those_of_scipy() -> None:
    matrices, shifts = bowls(6, 8)
    calls: list[tuple[int, int]] = []
    found = minimise(
        lambda rows, points: evaluate(matrices, shifts, rows, points),
        torch.zeros(6, 8, dtype=torch.float64),
        precondition=lambda rows, gradient: gradient,
        max_iter=300,
        tolerance=1e-8,
        report=lambda iteration, left: calls.append((iteration, left)),
    )
    assert found.converged.all()
    for number in range(6):

        def one(point: np.ndarray, number: int = number) -> tuple[float, np.ndarray]:
            value, gradient = evaluate(matrices, shifts, torch.tensor([number]), torch.from_numpy(point)[None])
            return float(value), gradient[0].numpy()

        peer = minimize(one, np.zeros(8), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15})
        np.testing.assert_allclose(found.points[number].numpy(), peer.x, atol=1e-5)
    assert [iteration for iteration, _ in calls] == list(range(1, int(found.iterations.max()) + 1))
    assert [left for _, left in calls] == [int((found.iterations > i).sum()) for i, _ in calls]
