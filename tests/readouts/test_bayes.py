"""``bayes.v1`` and the variational code: what is there is worth its price, and nothing is bought where nothing is."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from bertology.errors import FitError
from bertology.readouts import Targets, variational_codelength
from bertology.readouts._neural import BayesReadout, FittedBayes, _Groups
from bertology.readouts.codelength import Codelength, codelength_of
from tests.readouts.conftest import Split, World
from tests.readouts.test_mlp import exclusive_or
from tests.readouts.test_online import shuffled

SHORT = BayesReadout(steps=400, batch_items=64)
SHORT_HIDDEN = BayesReadout(hidden=16, steps=400, batch_items=64)


@pytest.fixture(scope="module")
def train() -> Split:
    return World().split(900, 1).problems(0)


@pytest.fixture(scope="module")
def dev() -> Split:
    return World().split(500, 2).problems(0)


@pytest.fixture(scope="module")
def test() -> Split:
    return World().split(700, 3).problems(0)


def fit(train: Split, dev: Split, readout: BayesReadout = SHORT, **settings: Any) -> FittedBayes:
    return readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets, **settings)


@pytest.fixture(scope="module")
def fitted(train: Split, dev: Split) -> FittedBayes:
    return fit(train, dev)


@pytest.fixture(scope="module")
def found(fitted: FittedBayes, train: Split) -> Codelength:
    return codelength_of(fitted, train.source, train.targets, clusters=np.repeat(np.arange(90), 10))


def test_what_is_there_is_coded_in_fewer_bits(found: Codelength) -> None:
    assert (found.compression[:, 1:] > 1.5).all()
    assert (np.abs(found.compression[:, 0] - 1) < 0.04).all()
    assert (found.model_bits[:, 1:] > 3 * found.model_bits[:, :1]).all()


def test_readout_of_shuffled_labels_costs_next_to_nothing(train: Split, dev: Split) -> None:
    none = shuffled(train, 1)
    code = codelength_of(fit(none, dev), none.source, none.targets)
    assert (np.abs(code.compression - 1) < 0.04).all()
    assert (code.model_bits < 0.03 * code.uniform_bits[:, None]).all()


def test_a_hidden_layer_finds_what_a_linear_readout_cannot() -> None:
    train, dev = exclusive_or(1500, 1).problems(0), exclusive_or(300, 2).problems(0)
    fits = [fit(train, dev, readout) for readout in (SHORT, SHORT_HIDDEN)]
    straight, bent = (codelength_of(one, train.source, train.targets).compression for one in fits)
    assert (bent[:, 1] > 1.5).all()
    assert (np.abs(straight - 1) < 0.04).all()
    assert (np.abs(bent[:, 0] - 1) < 0.04).all()
    converged = fits[1].report.converged[..., 0]
    assert converged[:, 0].all()
    assert not converged[:, 1].any()  # there, the code was still getting shorter


def test_parts_add_up(found: Codelength, fitted: FittedBayes, train: Split) -> None:
    np.testing.assert_allclose(found.bits, found.block_bits[:, :, 0] + found.model_bits)
    np.testing.assert_allclose(found.cluster_bits.sum(2), found.bits)
    assert (found.uniform_bits == 1800).all()
    # what weights drawn from the posterior cost is more than what their means do
    at_mean = -fitted.log_probs(train.source, train.labels).sum(2) / np.log(2)
    assert (found.block_bits[:, :, 0] > at_mean).all()


def test_divergence_against_integrals() -> None:
    """Gaussians by their formula; scales by the integral that the approximation stands for, up to its constant."""
    groups = _Groups((1, 1), 1, 1, 0, torch.device("cpu")).requires_grad_(False)

    def cost(log_alpha: float) -> float:
        groups.log_alpha.fill_(log_alpha)
        return float(groups.divergence())

    def exact(log_alpha: float) -> float:
        """E ln|1 + √α ε| − ½ ln α, which tends to a constant for large α."""
        root = np.exp(log_alpha / 2)

        def integrand(noise: float) -> float:
            return np.log(abs(1 + root * noise)) * np.exp(-(noise**2) / 2) / np.sqrt(2 * np.pi)

        parts = (-12, -1 / root) if root > 1 / 12 else (-12,)
        ends = [*parts, 0.0, 12.0]
        return sum(quad(integrand, a, b, limit=200)[0] for a, b in itertools.pairwise(ends)) - log_alpha / 2

    free = cost(30.0)
    limit = exact(12.0)
    for log_alpha in (-4.0, -1.0, 0.0, 1.0, 3.0):
        assert cost(log_alpha) - free == pytest.approx(exact(log_alpha) - limit, abs=0.01)
    mean, log_variance = groups.mean[0, 0], groups.log_variance[0, 0]
    gaussian = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, (log_variance / 2).exp()), torch.distributions.Normal(0.0, 1.0)
    )
    bias_variance = groups.bias_log_variance[0, 0]
    bias = torch.distributions.kl_divergence(
        torch.distributions.Normal(0.0, (bias_variance / 2).exp()), torch.distributions.Normal(0.0, 1.0)
    )
    assert free == pytest.approx(float(gaussian.sum() + bias.sum()), rel=1e-5)


def test_what_cannot_be_fitted(train: Split, dev: Split) -> None:
    weighted = Targets(train.labels, 4, np.full(train.labels.shape, 2.0, dtype=np.float32))
    with pytest.raises(FitError, match="tells each item once"):
        variational_codelength(SHORT, train.source, weighted, dev=dev.source, dev_targets=dev.targets)
