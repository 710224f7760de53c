"""Loss, gradient and curvature against automatic differentiation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from bertology._workers import Workers
from bertology.errors import FitError
from bertology.readouts import ArrayFeatures, Targets
from bertology.readouts._moments import Items, choose_items, survey
from bertology.readouts.linear import _curvature
from bertology.readouts.linear._curvature import Bound, Spread, measure_curvature
from bertology.readouts.linear._objective import Fits, Objective
from tests.readouts.conftest import World, standardised

STRENGTHS = (0.01, 0.1, 5.0)


class Setting:
    """Everything about three strengths of two problems in two layers, and a point that means something."""

    def __init__(self, n_classes: int = 3) -> None:
        world = World(n_layers=2, dim=5, n_classes=n_classes)
        train = world.split(200, 1)
        random = np.random.default_rng(0)
        labels = np.where(random.random((2, 200)) < 0.2, -1, train.labels)
        weights = random.integers(0, 3, size=(2, 200)).astype(np.float32)
        self.vectors, self.labels, self.weights = train.vectors, labels, weights * (labels >= 0)
        self.items = Items.of(Targets(labels, n_classes, weights), torch.device("cpu"))
        self.workers = Workers(torch.device("cpu"))
        moments, self.sample = survey(
            train.source, self.items.weights, choose_items(self.items.weights, 200), self.workers
        )
        self.fits = Fits(self.items, moments, torch.tensor(STRENGTHS, dtype=torch.float64).expand(2, 2, -1))
        self.objective = Objective(self.fits, train.source, self.items, self.workers)
        self.points = 0.3 * torch.randn(len(self.fits), n_classes * 6, generator=torch.Generator().manual_seed(1))

    def loss(self, fit: int, point: Tensor) -> Tensor:
        """The definition, in double precision."""
        problem, layer, strength = np.unravel_index(fit, (2, 2, 3))
        weights = self.weights[problem].astype(np.float64)
        features = torch.from_numpy(standardised(self.vectors[layer], self.vectors[layer], weights))
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
    rows = torch.tensor([0, 3, 4, 5, 7, 11])  # of some layers and problems more than of others
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


def test_threads_do_not_change_the_sums(setting: Setting) -> None:
    rows = torch.arange(len(setting.fits))
    expected = setting.objective(rows, setting.points)
    workers = Workers(torch.device("cpu"))
    workers.n = 3
    before = torch.get_num_threads()
    with workers:
        objective = Objective(setting.fits, ArrayFeatures(setting.vectors, chunk_items=16), setting.items, workers)
        found = [objective(rows, setting.points) for _ in range(2)]
    assert torch.get_num_threads() == before
    for mine, again, theirs in zip(*found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
        assert torch.equal(mine, again)


def hessian(setting: Setting, fit: int) -> Tensor:
    return torch.autograd.functional.hessian(lambda point: setting.loss(fit, point), setting.points[fit].double())


def matrix(divide: Bound | _curvature.ClassCurvature, fit: int, size: int) -> Tensor:
    """What ``divide`` divides by, from its action on unit vectors."""
    columns = divide(torch.full((size,), fit), torch.eye(size)).double()
    return torch.linalg.inv(0.5 * (columns + columns.T))


def test_bound_is_above_the_hessian(setting: Setting) -> None:
    bound = Bound(setting.fits, Spread.of(setting.sample, setting.workers))
    size = setting.points.shape[1]
    for fit in (0, 8):
        # The weights of the items do not enter the bound: it may miss by their spread.
        excess = 3 * matrix(bound, fit, size) - hessian(setting, fit)
        assert torch.linalg.eigvalsh(excess).min() > -1e-4


def test_class_curvature_is_the_diagonal_of_the_hessian(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_curvature, "_UNCERTAIN", 1000)  # every item counts
    monkeypatch.setattr(_curvature, "_COUPLING", 1.0)
    n_classes = setting.fits.n_classes
    strengths = [1, 4, 7, 10]  # the middle one of each layer and problem, at which eigenvectors are found
    curvature = measure_curvature(
        setting.fits,
        setting.sample,
        setting.items.at(setting.sample.items),
        setting.points,
        torch.zeros(2, 5, 5),
        setting.workers,
        memory=1 << 20,
    )
    for fit in strengths:
        found = matrix(curvature, fit, n_classes * 6)
        expected = hessian(setting, fit)
        penalty = setting.fits.penalty[fit] * torch.diag(torch.tensor([1.0] * 5 + [0.0]))
        for k in range(n_classes):
            block = slice(6 * k, 6 * k + 6)
            data = expected[block, block] - penalty
            np.testing.assert_allclose(found[block, block].numpy(), (data + penalty).numpy(), rtol=2e-3, atol=2e-4)
            outside = found[block].clone()
            outside[:, block] = 0
            assert outside.abs().max() < 1e-6


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
    moments, _ = survey(
        ArrayFeatures(vectors, chunk_items=256),
        weights,
        torch.zeros(3000, dtype=torch.bool),
        Workers(torch.device("cpu")),
    )
    for problem in range(2):
        mean = np.average(vectors.astype(np.float64), axis=1, weights=weights[problem].numpy())
        variance = np.average((vectors - mean[:, None]) ** 2, axis=1, weights=weights[problem].numpy())
        np.testing.assert_allclose(moments.mean[problem].numpy(), mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(moments.std[problem, :, :3].numpy(), np.sqrt(variance[:, :3]), rtol=1e-5)
    assert torch.isinf(moments.std[..., 3]).all()


def test_a_sample_takes_no_more_than_its_source() -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 500, 4)).astype(np.float16)
    weights, chosen = torch.ones(1, 500), torch.arange(500) % 3 == 0
    workers = Workers(torch.device("cpu"))
    sample = survey(ArrayFeatures(vectors, chunk_items=64), weights, chosen, workers)[1]
    assert sample.source.dtype == torch.float16
    assert survey(ArrayFeatures(vectors.astype(np.float32)), weights, chosen, workers)[1].source.dtype == torch.float32
    some = sample.at(torch.tensor([2, 0]))
    (items, held), *more = some.source.chunks()
    assert not more
    assert (items.tolist(), held.dtype) == (list(range(167)), torch.float32)
    np.testing.assert_array_equal(held.numpy(), vectors[[2, 0]][:, chosen.numpy()])
    np.testing.assert_array_equal(some.at(torch.tensor([1])).source.layer(0).numpy(), held[1])
    assert some.source._values is sample.source._values


def test_features_of_a_sample_are_correlated_as_numpy_says() -> None:
    setting = Setting()
    before = setting.sample.source.layer(1).numpy()
    spread = Spread.of(setting.sample, setting.workers)
    np.testing.assert_allclose(spread.correlations[1].numpy(), np.corrcoef(before.T), atol=1e-6)
    np.testing.assert_array_equal(setting.sample.source.layer(1).numpy(), before)


def test_no_items_at_all() -> None:
    empty = ArrayFeatures(np.zeros((2, 0, 3), dtype=np.float32))
    with pytest.raises(FitError, match="no vectors"):
        survey(empty, torch.zeros(1, 0), torch.zeros(0, dtype=torch.bool), Workers(torch.device("cpu")))
