"""How often intervals over pretraining seeds and items cover the truth, by simulation.

    python -m benchmarks.coverage [--times 1000]

Scores of n seeds on 200 items are drawn from normal distributions with a mean of 0: seeds cause about two thirds of the
variance of the mean where there are five, items and both together the rest. Of 95 % intervals made in four ways, the
share that holds 0 is printed: of the bootstrap over items alone, of the multi-bootstrap as in Sellam et al. (2022), of
the same with the spread of few seeds rescaled, and of :func:`bertology.measures.over_runs`, by which tables by layer
have their intervals, and which also takes Student's t for few seeds.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks._common import Line, show
from bertology.measures import bootstrap, multibootstrap, over_runs, sum_metric
from bertology.measures.intervals import Bootstrap

_ITEMS, _REPLICATES = 200, 500
_MEAN = sum_metric("mean_words", "a mean of numbers")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=1000)
    show(run(times=parser.parse_args().times))


def run(*, times: int, seeds: tuple[int, ...] = (5, 10, 25)) -> list[Line]:
    """A line for each number of seeds and kind of interval: its coverage, with that of a binomial of so many trials."""
    lines = []
    for n_seeds in seeds:
        hits = np.mean([_covered(n_seeds, np.random.default_rng(number)) for number in range(times)], axis=0)
        for what, share in zip(("items alone", "multi-bootstrap", "rescaled", "over_runs"), hits.tolist(), strict=True):
            error = 1.96 * np.sqrt(share * (1 - share) / times)
            bounds = (share - error, share + error)
            lines.append(Line(f"coverage, {n_seeds} seeds, {what}", share, bounds, "0.95", f"{times} simulations"))
    return lines


def _covered(n_seeds: int, dice: np.random.Generator) -> list[bool]:
    of_seed, of_item = 0.16 * dice.standard_normal((n_seeds, 1)), 0.6 * dice.standard_normal((1, _ITEMS))
    runs = runs_of(of_seed + of_item + 0.6 * dice.standard_normal((n_seeds, _ITEMS)))
    items = np.quantile(np.mean([one.replicates[:, 0] for one in runs], axis=0), (0.025, 0.975))
    plain, rescaled = (multibootstrap(runs, rescaled=chosen) for chosen in (False, True))
    means = over_runs(runs)
    bounds = [tuple(items), *((one.ci_low[0], one.ci_high[0]) for one in (plain, rescaled, means))]
    return [bool(low <= 0 <= high) for low, high in bounds]


def runs_of(scores: NDArray[np.float64]) -> list[Bootstrap]:
    """Bootstraps of the means of ``[seed, item]`` numbers, each item a cluster."""
    counts = np.stack([scores, np.ones_like(scores), np.zeros_like(scores)], axis=-1)[:, :, None]
    every = bootstrap(counts, [_MEAN], n_resamples=_REPLICATES)[_MEAN.name]
    columns = ("values", "stderr", "ci_low", "ci_high", "ci_methods")
    return [
        replace(
            every,
            **{name: getattr(every, name)[place : place + 1] for name in columns},
            replicates=every.replicates[:, [place]],
            jackknife=every.jackknife[:, [place]],
            bounded=False,
        )
        for place in range(len(scores))
    ]


if __name__ == "__main__":
    main()
