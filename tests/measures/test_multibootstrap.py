"""The multi-bootstrap: against a naive loop on the same draws, its variance parts, and how often intervals cover."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bertology.measures import Bootstrap, bootstrap, multibootstrap
from bertology.measures._bootstrap import _drawn_shares, weight_blocks

DICE = np.random.default_rng(5)


def labelled(n_clusters: int, correct: NDArray[np.floating]) -> NDArray[np.int64]:
    """Counts ``[column, cluster, label, kind]`` of clusters of different sizes, right with these probabilities."""
    sizes = 1 + np.arange(n_clusters) % 3
    right = DICE.binomial(sizes, np.broadcast_to(correct, (1, n_clusters)))
    counts = np.zeros((1, n_clusters, 2, 3), dtype=np.int64)
    counts[0, :, 0] = np.stack([right[0], sizes - right[0], sizes - right[0]], axis=-1)
    counts[0, :, 1, 0] = sizes // 2  # a second label, always right, so that F1 is not accuracy
    return counts


def run(counts: NDArray[np.int64], metric: str = "micro_f1", **settings: int) -> Bootstrap:
    return bootstrap(counts, [metric], labels=("a", "b"), **{"n_resamples": 300, **settings})[metric]


@pytest.mark.parametrize("design", ["one sample", "paired", "unpaired"])
def test_equals_a_loop_over_replicates(design: str) -> None:
    """Each replicate scores the drawn items of the drawn seeds anew, as a person would write it down."""
    n_clusters, metric = 12, "macro_f1"
    sides = [[[labelled(n_clusters, np.array(p)) for _ in range(2)] for p in (0.4, 0.6, 0.9)] for _ in range(2)]
    seeds, other = ([[run(counts, metric) for counts in of_seed] for of_seed in side] for side in sides)
    is_paired, chosen = design == "paired", None if design == "one sample" else other
    found = multibootstrap(seeds, chosen, is_paired=is_paired, null=0.5)

    def f1(counts: NDArray[np.int64], items: NDArray[np.floating]) -> float:
        tp, fp, fn = (counts[0] * items[:, None, None]).sum(axis=0).T
        return float(np.mean(2 * tp / (2 * tp + fp + fn)))

    weights = np.concatenate([block for _, block in weight_blocks(n_clusters, 300, 0, np.float64)])
    drawn = [_drawn_shares(3, 300, (0, 3, number), rescaled=False) for number in (0, 0 if is_paired else 1)]
    assert set(np.unique(drawn[0] * 3).round(9)) <= {0, 1, 2, 3}
    expected = []
    for b in range(300):
        means = [
            sum(
                share * np.mean([f1(counts, weights[b]) for counts in of_seed])
                for share, of_seed in zip(at[b], side, strict=True)
            )
            for at, side in zip(drawn, sides, strict=True)
        ]
        expected.append(means[0] - (0 if chosen is None else means[1]))
    np.testing.assert_allclose(found.replicates[:, 0], expected, atol=1e-6)
    assert found.p[0] == pytest.approx(max(np.mean(np.array(expected) <= 0.5), 1 / 300))
    np.testing.assert_allclose([found.ci_low[0], found.ci_high[0]], np.quantile(expected, [0.025, 0.975]), atol=1e-6)


def test_p_is_never_below_one_replicate() -> None:
    runs = [run(labelled(30, np.array(0.95))) for _ in range(4)]
    assert multibootstrap(runs, null=0.1).p.item() == pytest.approx(1 / 300)
    assert multibootstrap(runs, null=1.1).p.item() == 1


def test_rescaled_replicates_vary_as_much_as_the_mean_of_seeds() -> None:
    """Seeds without spread over items: the variance over seeds divided by their number."""
    counts = [np.full((1, 40, 1, 3), 0) for _ in range(5)]
    for number, of_seed in enumerate(counts):
        of_seed[..., 0, :] = (4 + number, 6 - number, 6 - number)
    runs = [run(of_seed, n_resamples=20_000) for of_seed in counts]
    known = np.var([one.values[0] for one in runs], ddof=1) / 5
    plain, rescaled = (multibootstrap(runs, rescaled=chosen).replicates.var() for chosen in (False, True))
    assert rescaled == pytest.approx(known, rel=0.03)
    assert plain == pytest.approx(known * 4 / 5, rel=0.03)
    assert multibootstrap(runs).variance.shares[:, 0].round(6).tolist() == [1, 0, 0]


def scores(n_seeds: int, n_items: int, spread: tuple[float, float, float]) -> NDArray[np.float64]:
    """``[seed, item]`` scores with these standard deviations of seeds, of items and of both."""
    of_seed, of_item, of_both = (
        sd * DICE.standard_normal(size)
        for sd, size in zip(spread, ((n_seeds, 1), (1, n_items), (n_seeds, n_items)), strict=True)
    )
    return np.asarray(of_seed + of_item + of_both)


def of_scores(values: NDArray[np.float64]) -> list[Bootstrap]:
    """Means of numbers, as bootstraps of a ratio of sums."""
    from bertology.measures import sum_metric

    counts = np.stack([values, np.ones_like(values), np.zeros_like(values)], axis=-1)[:, :, None]
    every = bootstrap(counts, [sum_metric("mean_words", "a mean")], n_resamples=400)["mean_words"]
    columns = range(len(values))
    return [_column(every, place) for place in columns]


def _column(every: Bootstrap, place: int) -> Bootstrap:
    from dataclasses import replace

    return replace(
        every,
        values=every.values[[place]],
        replicates=every.replicates[:, [place]],
        jackknife=every.jackknife[:, [place]],
    )


def test_variance_parts_are_those_that_were_planted() -> None:
    parts = multibootstrap(of_scores(scores(60, 400, (0.1, 1.0, 2.0)))).variance
    assert parts.seeds.item() * 60 == pytest.approx(0.1**2, rel=0.9)
    assert parts.clusters.item() * 400 == pytest.approx(1.0, rel=0.25)
    assert parts.interaction.item() * 400 * 60 == pytest.approx(4.0, rel=0.05)
    alone = multibootstrap(of_scores(scores(1, 50, (0.1, 1.0, 0.0)))).variance
    assert np.isnan(alone.seeds).all()
    assert np.isfinite(alone.clusters).all()


def test_intervals_cover_new_seeds_and_items_where_those_over_items_do_not() -> None:
    """20 seeds × 60 items of which seeds cause most of the variance: the true mean is 0."""
    hits, hits_of_items, n = 0, 0, 250
    for _ in range(n):
        values = scores(20, 60, (0.6, 1.0, 1.0))
        runs = of_scores(values)
        found = multibootstrap(runs, rescaled=True)
        hits += bool(found.ci_low[0] <= 0 <= found.ci_high[0])
        over_items = np.mean([one.replicates[:, 0] for one in runs], axis=0)
        low, high = np.quantile(over_items, [0.025, 0.975])
        hits_of_items += bool(low <= 0 <= high)
    assert 0.92 <= hits / n <= 0.98
    assert hits_of_items / n < 0.85


def test_mistakes() -> None:
    runs = [run(labelled(10, np.array(0.5))) for _ in range(2)]
    with pytest.raises(ValueError, match="same seeds of both"):
        multibootstrap(runs, runs[:1])
    with pytest.raises(ValueError, match="same resamples"):
        multibootstrap([*runs, run(labelled(10, np.array(0.5)), n_resamples=200)])
    with pytest.raises(ValueError, match="nothing to average"):
        multibootstrap([])
