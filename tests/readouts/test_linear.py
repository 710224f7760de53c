"""Linear readouts: they find what is there, as scikit-learn does at every strength, and say whether they arrived."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, Ridge

from bertology.errors import FitError
from bertology.readouts import ArrayFeatures, FittedReadout, LinearReadout, Readout, Targets, linear
from bertology.readouts._fitting import FittedScores
from bertology.readouts.linear import RidgeReadout, StrengthPath
from tests.readouts.conftest import Floats, Labels, Split, World, chance_interval, standardised

TIGHT = LinearReadout(strengths=(0.01, 0.3), extensions=0, tolerance=2e-6)


def fit(readout: LinearReadout, train: Split, dev: Split, seed: int = 0) -> FittedScores:
    return readout.fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets, seed=seed)


def same(one: FittedReadout, other: FittedReadout, test: Split, tolerance: float = 2e-3) -> None:
    mine, theirs = one.predict(test.source), other.predict(test.source)
    np.testing.assert_array_equal(one.report.chosen, other.report.chosen)
    np.testing.assert_allclose(mine.log_prob, theirs.log_prob, atol=tolerance)


@pytest.mark.parametrize("readout", [LinearReadout(), RidgeReadout()])
def test_planted_signal_is_found_where_it_is_and_not_where_it_is_not(
    readout: Any, train: Split, dev: Split, test: Split
) -> None:
    found = fit(readout, train, dev).predict(test.source)
    accuracy = (found.labels == test.labels[:, None]).mean(2)  # [problem, layer]
    for problem in range(2):
        low, high = chance_interval(test.labels[problem], test.n_classes)
        assert low <= accuracy[problem, 0] <= high
        assert (accuracy[problem, 1:] > high + 0.2).all()


def test_strengths_are_compared_by_fits_to_a_part_and_the_chosen_one_is_fitted_to_all(
    train: Split, dev: Split, test: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "_SAMPLE_ITEMS", 400)
    found = fit(TIGHT, train, dev)
    assert not np.isnan(found.report.dev_accuracy).any()
    for problem, layer in np.ndindex(2, 3):
        strength = float(found.report.chosen[problem, layer])
        best = int(np.nanargmax(found.report.dev_accuracy[problem, layer]))
        assert found.report.strengths[best] == strength
        alone = fit(replace(TIGHT, strengths=(strength,)), train.layers(layer), dev.layers(layer))
        expected = alone.predict(test.layers(layer).source)
        np.testing.assert_allclose(
            found.predict(test.source).log_prob[problem, layer], expected.log_prob[problem, 0], atol=2e-3
        )


@pytest.mark.parametrize("n_threads", [2, 4])
def test_the_number_of_threads_changes_no_bit(train: Split, dev: Split, test: Split, n_threads: int) -> None:
    one, several = (
        LinearReadout().fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets, n_threads=n)
        for n in (1, n_threads)
    )
    np.testing.assert_array_equal(one.predict(test.source).log_prob, several.predict(test.source).log_prob)


def test_convergence_is_not_claimed_where_there_is_none(train: Split, dev: Split) -> None:
    report = fit(LinearReadout(max_iter=1), train, dev).report
    assert not report.converged[:, 1:].any()
    assert not report.all_converged
    assert (report.gradient_norm[:, 1:] > 1e-4).all()
    assert (report.iterations == 1).all()


def test_reported_gradient_is_the_gradient(train: Split, dev: Split) -> None:
    fitted = fit(LinearReadout(strengths=(0.1,)), train, dev)
    assert fitted.report.all_converged
    for layer in range(3):
        features = standardised(train.vectors[layer], train.vectors[layer])
        std = train.vectors[layer].astype(np.float64).std(0)
        raw = fitted.model.coefficients[0, layer, 0].double().numpy()
        scores = train.vectors[layer].astype(np.float64) @ raw.T + fitted.model.intercepts[0, layer, 0].numpy()
        residual = np.exp(log_softmax(scores, axis=1)) - np.eye(4)[train.labels[0]]
        gradient = residual.T @ features / 900 + raw * std / (0.1 * 900)
        largest = max(np.abs(gradient).max(), np.abs(residual.mean(0)).max())
        assert largest <= 1e-4
        np.testing.assert_allclose(fitted.report.gradient_norm[0, layer, 0], largest, atol=2e-6)


def test_strength_is_chosen_on_dev_and_equals_go_to_the_strongest(train: Split, dev: Split) -> None:
    report = fit(LinearReadout(strengths=(1e-9, 0.1, 2e-9), extensions=0), train, dev).report
    assert report.strengths == (1e-9, 2e-9, 0.1)
    np.testing.assert_array_equal(report.dev_accuracy[..., 0], report.dev_accuracy[..., 1])  # both say the majority
    best = report.dev_accuracy.max(2)
    for problem, layer in np.ndindex(best.shape):
        first = int(np.flatnonzero(report.dev_accuracy[problem, layer] == best[problem, layer])[0])
        assert report.chosen[problem, layer] == report.strengths[first]
    assert (report.chosen[:, 1:] == 0.1).all()


def test_class_absent_from_one_problem_is_never_predicted_there(train: Split, dev: Split, test: Split) -> None:
    labels = train.labels.copy()
    labels[0][labels[0] == 2] = -1
    found = fit(LinearReadout(), Split(train.vectors, labels, 4), dev).predict(test.source)
    assert not (found.labels[0] == 2).any()
    assert (found.labels[1] == 2).any()
    assert np.isfinite(found.log_prob).all()


def test_constant_feature_is_harmless(train: Split, dev: Split, test: Split) -> None:
    def with_constant(split: Split) -> Split:
        constant = np.full((*split.vectors.shape[:2], 1), 12345.678, dtype=np.float32)
        return Split(np.concatenate([split.vectors, constant], axis=2), split.labels, 4)

    plain = fit(TIGHT, train, dev)
    fitted = fit(TIGHT, with_constant(train), with_constant(dev))
    assert fitted.report.all_converged
    np.testing.assert_array_equal(fitted.model.coefficients[..., -1].numpy(), 0)
    mine, theirs = fitted.predict(with_constant(test).source), plain.predict(test.source)
    np.testing.assert_allclose(mine.log_prob, theirs.log_prob, atol=2e-3)


def test_half_precision_vectors_are_read(train: Split, dev: Split, test: Split) -> None:
    halves = Split(train.vectors.astype(np.float16), train.labels, 4)
    rounded = Split(halves.vectors.astype(np.float32), train.labels, 4)
    same(fit(TIGHT, halves, dev), fit(TIGHT, rounded, dev), test, tolerance=0)


def test_one_class_alone_is_refused(train: Split, dev: Split) -> None:
    labels = train.labels.copy()
    labels[1] = 3
    targets = Targets(labels, 4, names=("task pos", "control task"))
    with pytest.raises(FitError, match=r"^control task: all training items have the one class 3; give data with"):
        LinearReadout().fit(train.source, targets, dev=dev.source, dev_targets=dev.targets)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_refused_by_layer(train: Split, dev: Split, value: float) -> None:
    vectors = train.vectors.copy()
    vectors[1, 500, 3] = value
    source = ArrayFeatures(vectors, layers=(2, 5, 11))
    with pytest.raises(FitError, match=r"^layer 5 has vectors that are not finite"):
        LinearReadout().fit(source, train.targets, dev=dev.source, dev_targets=dev.targets)


def test_shapes_must_agree(train: Split, dev: Split, test: Split) -> None:
    with pytest.raises(FitError, match="train has 900 items and 500 labels"):
        LinearReadout().fit(train.source, dev.targets, dev=dev.source, dev_targets=dev.targets)
    with pytest.raises(FitError, match="fitted on 3 layers of width 12: it cannot read 2 layers"):
        fit(LinearReadout(), train, dev.layers(0, 1))
    with pytest.raises(FitError, match="give the same problems"):
        fit(LinearReadout(), train, dev.problems(0))
    with pytest.raises(FitError, match="it cannot read 1 layers"):
        fit(LinearReadout(max_iter=2), train, dev).predict(test.layers(0).source)


def test_a_follower_takes_over_the_strength_of_its_leader(train: Split, dev: Split, test: Split) -> None:
    readout = replace(TIGHT, strengths=(1e-4, 1e-2, 1.0))
    targets = Targets(train.labels, 4, strength_sources=(1, 1))
    together = readout.fit(train.source, targets, dev=dev.source, dev_targets=dev.targets)
    report = together.report
    np.testing.assert_array_equal(report.chosen[0], report.chosen[1])
    np.testing.assert_array_equal(np.isfinite(report.dev_accuracy).sum(2), [[1] * 3, [3] * 3])
    assert report.all_converged
    found = together.predict(test.source).log_prob[0]
    for layer, strength in enumerate(report.chosen[0]):
        alone = fit(
            replace(TIGHT, strengths=(strength,)), train.layers(layer).problems(0), dev.layers(layer).problems(0)
        )
        expected = alone.predict(test.layers(layer).source).log_prob[0, 0]
        np.testing.assert_allclose(found[layer], expected, atol=2e-3)


def ours(train: Split, dev: Split, strength: float, weights: Floats | None = None, **settings: Any) -> FittedScores:
    readout = LinearReadout(strengths=(strength,), **settings)
    targets = Targets(train.labels, train.n_classes, weights)
    return readout.fit(train.source, targets, dev=dev.source, dev_targets=dev.targets)


def theirs(vectors: Floats, labels: Labels, strength: float, weights: Floats | None = None) -> LogisticRegression:
    features = standardised(vectors, vectors, weights)
    return LogisticRegression(C=strength, tol=1e-9, max_iter=5000).fit(features, labels, sample_weight=weights)


@pytest.mark.parametrize("strength", [1e-3, 0.03, 1.0])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("diagonal_most", [3, linear._DIAGONAL_MOST])
def test_coefficients(strength: float, n_classes: int, diagonal_most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_DIAGONAL_MOST", diagonal_most)
    world = World(n_classes=n_classes, seed=n_classes)
    train, dev = world.split(700, 1), world.split(100, 2)
    fitted = ours(train, dev, strength, tolerance=1e-6)
    assert fitted.report.all_converged
    for problem, layer in np.ndindex(2, 3):
        peer = theirs(train.vectors[layer], train.labels[problem], strength)
        std = train.vectors[layer].astype(np.float64).std(0)
        coefficients = fitted.model.coefficients[problem, layer, 0].double().numpy() * std
        if n_classes == 2:  # scikit-learn keeps the difference of the two
            coefficients = coefficients[1:] - coefficients[:1]
        np.testing.assert_allclose(coefficients, peer.coef_, atol=2e-3)


def test_weights() -> None:
    world = World(seed=7, n_problems=1)
    train, dev, test = (world.split(n, number) for number, n in enumerate((700, 100, 300)))
    weights = np.random.default_rng(0).integers(0, 4, size=(1, 700)).astype(np.float32)
    found = ours(train, dev, 0.1, weights, tolerance=1e-6).predict(test.source)
    for layer in range(3):
        peer = theirs(train.vectors[layer], train.labels[0], 0.1, weights[0])
        features = standardised(test.vectors[layer], train.vectors[layer], weights[0])
        np.testing.assert_allclose(found.log_prob[0, layer], peer.predict_log_proba(features).max(1), atol=2e-3)


@pytest.mark.parametrize("strength", [1e-4, 1e-2, 1.0])
def test_accuracy_at_default_settings_within_three_tenths_of_a_point(
    strength: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "_SAMPLE_ITEMS", 1000)
    world = World(seed=1, n_layers=4, dim=40, n_classes=9, n_problems=1)
    train, dev, test = (world.split(n, number) for number, n in enumerate((4000, 500, 10000)))
    fitted = ours(train, dev, strength)
    assert fitted.report.all_converged
    accuracy = (fitted.predict(test.source).labels[0] == test.labels[0]).mean(1)
    for layer in range(4):
        peer = theirs(train.vectors[layer], train.labels[0], strength)
        score = peer.score(standardised(test.vectors[layer], train.vectors[layer]), test.labels[0])
        assert abs(accuracy[layer] - score) <= 0.003


NAN = np.nan
# Paths that end, each on one side, long before the strength that is best in the informative layers. A smaller tolerance
# is below the rounding errors of weak regularisation, and takes all iterations.
LINEAR = LinearReadout(strengths=(1e-3, 1e-2), tolerance=1e-5, max_iter=1000)
RIDGE = RidgeReadout(strengths=(1e4, 1e3))


def fit_readout(readout: Readout, train: Split, dev: Split, targets: Targets | None = None) -> Any:
    return readout.fit(train.source, targets or train.targets, dev=dev.source, dev_targets=dev.targets)


@pytest.mark.parametrize("readout", [LINEAR, RIDGE], ids=["linear", "ridge"])
def test_an_end_that_is_best_is_passed(readout: Any, train: Split, dev: Split, test: Split) -> None:
    short, found = (fit_readout(replace(readout, extensions=n), train, dev) for n in (0, 6))
    whole = StrengthPath.of(readout.strengths, extensions=6, large_is_strong=readout is RIDGE)
    for problem, layer in np.ndindex(2, 3):
        on_dev = found.report.dev_accuracy[problem, layer]
        place = int(np.nanargmax(on_dev))
        assert found.report.strengths[place] == found.report.chosen[problem, layer]
        if layer:  # layer 0 says nothing, and regularisation is no help there
            assert short.report.end(problem, layer) == "weakest"
            assert found.report.chosen[problem, layer] not in readout.strengths
    assert found.report.end(0, 1) is None
    assert set(found.report.strengths) <= set(whole.strengths)
    # What is found beyond an end is what a path of that strength alone finds.
    predictions = found.predict(test.source)
    for layer, strength in enumerate(found.report.chosen[0]):
        one = fit_readout(replace(readout, strengths=(strength,)), train.layers(layer), dev.layers(layer))
        expected = one.predict(test.layers(layer).source)
        if readout is RIDGE:
            np.testing.assert_array_equal(predictions.labels[0, layer], expected.labels[0, 0])
        else:
            np.testing.assert_allclose(predictions.log_prob[0, layer], expected.log_prob[0, 0], atol=5e-3)


def test_an_end_that_stays_best_is_told(train: Split, dev: Split) -> None:
    report = fit_readout(replace(LINEAR, extensions=1), train, dev).report
    assert {report.end(problem, layer) for problem, layer in np.ndindex(2, 3) if layer} == {"weakest"}
    assert report.chosen[:, 1:] == pytest.approx(0.1)


@pytest.mark.parametrize("strength", [0.1, 30.0, 1e4])
def test_coefficients_are_those_of_scikit_learn(train: Split, dev: Split, strength: float) -> None:
    random = np.random.default_rng(0)
    weights = random.integers(0, 3, size=(2, 900)).astype(np.float32)
    labels = np.where(random.random((2, 900)) < 0.1, -1, train.labels)
    fitted = RidgeReadout(strengths=(strength,)).fit(
        train.source, Targets(labels, 4, weights), dev=dev.source, dev_targets=dev.targets
    )
    assert fitted.report.all_converged
    for problem, layer in np.ndindex(2, 3):
        mine = weights[problem] * (labels[problem] >= 0)
        features = standardised(train.vectors[layer], train.vectors[layer], mine)
        peer = Ridge(alpha=strength).fit(features, np.eye(4)[labels[problem]], sample_weight=mine)
        mean = np.average(train.vectors[layer].astype(np.float64), axis=0, weights=mine)
        std = np.sqrt(np.average((train.vectors[layer] - mean) ** 2, axis=0, weights=mine))
        coefficients = fitted.model.coefficients[problem, layer, 0].double().numpy()
        np.testing.assert_allclose(coefficients * std, peer.coef_, atol=5e-4)
        intercepts = fitted.model.intercepts[problem, layer, 0].double().numpy() + coefficients @ mean
        np.testing.assert_allclose(intercepts, peer.intercept_, atol=5e-4)


def test_scores_are_no_probabilities(train: Split, dev: Split, test: Split) -> None:
    fitted = RidgeReadout().fit(train.source, train.targets, dev=dev.source, dev_targets=dev.targets)
    assert np.isnan(fitted.predict(test.source).log_prob).all()
    assert fitted.name == "ridge.v1"
    assert fitted.n_params == 13 * 4


def test_order_and_size_of_chunks_do_not_matter(train: Split, dev: Split, test: Split) -> None:
    expected = fit(TIGHT, train, dev)
    order = np.random.default_rng(6).permutation(900)

    class Shuffled(ArrayFeatures):
        def chunks(self):  # type: ignore[no-untyped-def]
            for items, vectors in super().chunks():
                yield items.new_tensor(order)[items], vectors

    source = Shuffled(train.vectors[:, order], chunk_items=77)
    found = TIGHT.fit(source, train.targets, dev=dev.source, dev_targets=dev.targets)
    same(found, expected, test)


def test_nothing_labelled_is_refused(train: Split, dev: Split) -> None:
    nothing = Split(train.vectors, np.full_like(train.labels, -1), 4)
    with pytest.raises(FitError, match="problem 0: no training item has a label"):
        fit(LinearReadout(), nothing, dev)
    with pytest.raises(FitError, match="problem 0: no dev item has a label"):
        fit(LinearReadout(), train, nothing)
