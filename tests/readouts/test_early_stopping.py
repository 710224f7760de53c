from __future__ import annotations

import numpy as np

from bertology.readouts._fitting import EarlyStopping


def _run(race: EarlyStopping, *rounds: tuple[float, float | None]) -> list[bool]:
    """Whether each round was the best one so far, until the fit ends."""
    found = []
    for epoch, (score, loss) in enumerate(rounds, start=1):
        given = None if loss is None else np.array([[loss]])
        found.append(bool(race.judge(epoch, np.array([[score]]), given)[0, 0]))
        if not race.running[0, 0]:
            break
    return found


def test_a_fit_ends_when_its_score_has_not_risen_for_some_rounds() -> None:
    scores = [0.5, 0.6, 0.6, 0.6, 0.9]
    assert _run(EarlyStopping((1, 1), 2), *((score, None) for score in scores)) == [True, True, False, False]


def test_a_fit_whose_loss_still_falls_goes_on() -> None:
    # of few items the score stays where it is for long
    race = EarlyStopping((1, 1), 2)
    assert _run(race, (0.5, 0.9), (0.5, 0.8), (0.5, 0.7), (0.5, 0.6), (0.75, 0.5), (0.5, 0.55), (0.5, 0.6)) == [
        *[True] * 5,
        False,
        False,
    ]
    assert race.report().dev_accuracy.tolist() == [[[0.75]]]
    assert race.report().iterations.tolist() == [[[7]]]


def test_a_smaller_loss_is_no_better_than_a_higher_score_but_counts_as_learning() -> None:
    race = EarlyStopping((1, 1), 2)
    assert _run(race, (0.8, 0.9), (0.7, 0.8), (0.7, 0.7), (0.7, 0.6), (0.7, 0.65), (0.7, 0.61)) == [
        True,
        *[False] * 5,
    ]
    assert race.report().dev_accuracy.tolist() == [[[0.8]]]


def test_of_equal_scores_the_one_with_the_smaller_loss_is_kept() -> None:
    assert _run(EarlyStopping((1, 1), 3), (0.8, 0.5), (0.8, 0.6), (0.8, 0.4)) == [True, False, True]


def test_a_fit_out_of_patience_cools_down_and_ends() -> None:
    race = EarlyStopping((1, 2), 2, cool_down=3, last=20)
    scores = [[0.5, 0.1], [0.6, 0.2], [0.5, 0.3], [0.6, 0.4], [0.6, 0.5], [0.7, 0.6], [0.7, 0.7]]
    kept, cools, runs = [], [], []
    for epoch, score in enumerate(scores, start=1):
        kept.append(bool(race.judge(epoch, np.array([score]))[0, 0]))
        cools.append(race.begins_to_cool[0].tolist())
        runs.append(race.running[0].tolist())
    # of equal scores the later one, in whatever phase: its learning rate was the smaller one
    assert kept == [True, True, False, True, True, True, True]
    assert cools == [[False, False]] * 3 + [[True, False]] + [[False, False]] * 3
    assert runs == [[True, True]] * 6 + [[False, True]]
    assert race.report().converged.tolist() == [[[True], [False]]]


def test_cooling_down_ends_in_time() -> None:
    race = EarlyStopping((1, 1), 5, cool_down=2, last=4)
    assert _run(race, *((score, None) for score in (0.1, 0.2, 0.3, 0.4, 0.5))) == [True] * 4
    assert race.report().iterations.tolist() == [[[4]]]


def test_where_all_is_right_a_smaller_loss_is_no_reason_to_go_on() -> None:
    assert _run(EarlyStopping((1, 1), 2), (0.9, 0.5), (1.0, 0.4), (1.0, 0.3), (1.0, 0.2), (1.0, 0.1)) == [True] * 4
