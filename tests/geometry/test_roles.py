"""Tensor product representations: roles of words, and what fits find of them in vectors of sentences."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bertology.errors import CorpusError, ModelError
from bertology.geometry import roles as of_roles
from bertology.geometry.roles import (
    BAG,
    STRENGTHS,
    RoleItems,
    constituent_paths,
    dependency_paths,
    length_features,
    low_rank_errors,
    path_roles,
    position_roles,
    ridge_errors,
    role_scores,
)

NOISE = 0.2
SIZES = {"train": 400, "dev": 80, "test": 200}


def made(n_fillers: int = 6, n_roles: int = 4) -> RoleItems:
    """Sentences of 3 to 6 random words with positions, and roles at random."""
    dice = np.random.default_rng(0)
    lengths = dice.integers(3, 7, sum(SIZES.values()))
    n_words = int(lengths.sum())
    roles = position_roles(lengths.tolist(), n_roles) | {"random_tree": dice.integers(0, n_roles, n_words)}
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    return RoleItems(SIZES, sentences, dice.integers(0, n_fillers, n_words), None, roles)


def products(items: RoleItems, roles: Any) -> Any:
    """``[sentence, role × filler]`` by a loop over words."""
    embeddings = np.eye(items.n_fillers) if items.embeddings is None else items.embeddings
    found = np.zeros((len(items.lengths), roles.max() + 1, embeddings.shape[1]))
    for sentence, filler, role in zip(items.sentences, items.fillers, roles, strict=True):
        found[sentence, role] += embeddings[filler] / items.lengths[sentence]
    return found.reshape(len(found), -1)


def planted(items: RoleItems, scheme: str, *, dim: int = 12) -> Any:
    """``[layer, sentence, dim]``: products without noise, with a share of noise in the variance, and noise alone."""
    dice = np.random.default_rng(1)
    design = products(items, items.roles_of(scheme))
    signal = design @ dice.normal(size=(design.shape[1], dim))
    signal = (signal - signal.mean(axis=0)) / signal.std(axis=0)
    noise = dice.normal(size=signal.shape)
    mixed = np.sqrt(1 - NOISE) * signal + np.sqrt(NOISE) * noise
    return np.stack([signal, mixed, noise]).astype(np.float32)


def values(items: RoleItems, targets: Any, **options: Any) -> Mapping[str, Any]:
    return {sums.metric: sums.values for sums in role_scores((0, 1, 2), items, targets, **options)}


@pytest.mark.parametrize("scheme", ["left_to_right", "right_to_left", "bidirectional", BAG])
def test_the_right_scheme_alone_predicts_all_but_noise(scheme: str) -> None:
    items = made()
    found = values(items, planted(items, scheme))
    clean, noisy, nothing = found[f"r2_{scheme}"]
    assert clean > 0.99
    assert noisy == pytest.approx(1 - NOISE, abs=0.05)
    assert abs(nothing) < 0.03
    others = [found[f"r2_{other}"] for other in items.roles if other != scheme]
    # Two numbers from either end of short sentences are not far from numbers from one end.
    assert all(of_other[1] < noisy + (0.01 if scheme == BAG else -0.02) for of_other in others)
    gain = found["gain_random_tree"]
    assert (np.abs(gain) < 0.03).all()


def test_intervals_of_no_signal_hold_zero() -> None:
    items = made()
    targets = planted(items, "left_to_right")
    for sums in role_scores((0, 1, 2), items, targets):
        if sums.metric == "r2_left_to_right":
            dice = np.random.default_rng(0).integers(0, SIZES["test"], (500, SIZES["test"]))
            resampled = sums.over[2][dice].sum(axis=1) / sums.under[2][dice].sum(axis=1)
            low, high = np.quantile(resampled, [0.005, 0.995])
            assert low - 0.02 < 0 < high + 0.02


def test_ridge_is_that_of_scikit_learn() -> None:
    items = made()
    targets = planted(items, "left_to_right")[1]
    design = np.hstack([products(items, items.roles["left_to_right"]), length_features(items, 0.3)])
    centred = targets - targets[:400].mean(axis=0)
    (own,), (errors,) = ridge_errors((design @ design[:400].T).astype(np.float32), centred[None], 80)
    mean = ((design[:400] - design[:400].mean(axis=0)) ** 2).sum() / 400
    alphas = STRENGTHS * mean
    fits = [Ridge(alpha=alpha).fit(design[:400], targets[:400]) for alpha in alphas]
    on_dev = [((fit.predict(design[400:480]) - targets[400:480]) ** 2).sum() for fit in fits]
    assert own == pytest.approx(min(on_dev), rel=1e-3)
    expected = ((fits[int(np.argmin(on_dev))].predict(design[480:]) - targets[480:]) ** 2).sum(axis=1)
    np.testing.assert_allclose(errors, expected, rtol=2e-3, atol=2e-3)


def test_trained_representations_find_the_scheme_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_roles, "_EPOCHS", 12)
    items = made()
    items = replace(items, roles={"left_to_right": items.roles["left_to_right"]})
    targets = planted(items, "left_to_right", dim=6)[1:]
    found = {sums.metric: sums.values for sums in role_scores((1, 3), items, targets, is_trained=True)}
    assert found["r2_left_to_right"][0] == pytest.approx(1 - NOISE, abs=0.1)
    assert found["gain_left_to_right"][0] > 0.2
    assert (np.array([found["r2_left_to_right"][1], found[f"r2_{BAG}"][1]]) < 0.02).all()
    monkeypatch.setattr(of_roles, "_EPOCHS", 1)
    again = low_rank_errors(items, BAG, targets), low_rank_errors(items, BAG, targets)
    np.testing.assert_array_equal(*again)


def test_layers_without_variance_have_no_score() -> None:
    items = made()
    targets = planted(items, "left_to_right")[:2]
    targets[0] = 3.0
    assert {sums.layers for sums in role_scores((0, 4), items, targets)} == {(4,)}
    with pytest.raises(ModelError, match="all sentences have the same vector"):
        list(role_scores((0,), items, targets[:1]))


def test_few_sentences_are_refused() -> None:
    with pytest.raises(CorpusError, match="4 sentences of test whose words all have vectors are too few: give 5"):
        replace(made(), sizes={"train": 400, "dev": 80, "test": 4})


def test_paths_of_trees() -> None:
    # the dogs saw a cat
    assert dependency_paths([2, 3, 0, 5, 3]) == ["LL", "L", "", "RL", "R"]
    assert constituent_paths(5, [(0, 5), (0, 2), (2, 5), (3, 5), (3, 5)]) == ["LL", "LR", "RL", "RRL", "RRR"]
    # more than two parts: the first, and the rest
    assert constituent_paths(4, [(1, 3)]) == ["L", "RLL", "RLR", "RR"]
    with pytest.raises(CorpusError, match="circle"):
        dependency_paths([2, 1])


def test_long_paths_have_the_role_of_their_beginning() -> None:
    roles = path_roles({"train": [["", "L", "L", "R"]], "test": [["LRR", "R", "RL"]]}, 2)
    assert roles["train"].tolist() == [0, 1, 1, 0]
    assert roles["test"].tolist() == [1, 0, 0]
