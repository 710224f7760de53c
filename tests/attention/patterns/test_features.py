import numpy as np
import pytest
import torch

from benchmarks.head_patterns.maps import PieceMap, layout_of, stacked
from bertology.attention.patterns import FEATURES, PIECE, SEP, SIDE, features, pictures, shaded


def drawn(n: int, kinds: np.ndarray, seed: int = 0) -> PieceMap:
    generator = np.random.default_rng(seed)
    return PieceMap(generator.dirichlet(np.full(n, 0.4), size=n).astype(np.float32), kinds)


def measured(*maps: PieceMap) -> list[dict[str, float]]:
    found = features(stacked(maps), layout_of(maps))[:, 0]
    return [dict(zip(FEATURES, row.tolist(), strict=True)) for row in found]


def test_masses_by_loops(kinds_of):
    one = drawn(14, kinds_of(14))
    rows = [i for i in range(14) if one.kinds[i] in (PIECE, 3)]
    mass = one.weights[rows].mean(0)
    found = measured(one)[0]
    assert found["cls_mass"] == pytest.approx(mass[0], rel=1e-5)
    assert found["sep_mass"] == pytest.approx(mass[-1], rel=1e-5)
    assert found["punctuation_mass"] == pytest.approx(mass[-2], rel=1e-5)
    ranked = sorted(mass, reverse=True)
    assert [found[f"column_mass_{k}"] for k in (1, 2, 3)] == pytest.approx(ranked[:3], rel=1e-5)
    along = {d: np.mean([one.weights[i, i + d] if i + d in rows else 0 for i in rows]) for d in range(-4, 5)}
    assert found["line_mass"] == pytest.approx(max(along.values()), rel=1e-5)
    assert found["line_offset"] == abs(max(along, key=lambda d: along[d]))
    assert found["mass_within_1"] == pytest.approx(sum(along[d] for d in (-1, 0, 1)), rel=1e-5)
    assert found["mass_within_4"] == pytest.approx(sum(along.values()), rel=1e-5)
    own = one.weights[rows].astype(np.float64)
    entropy = -(own * np.log(np.maximum(own, 1e-30))).sum(1)
    assert found["entropy"] == pytest.approx(entropy.mean() / np.log(14), rel=1e-4)
    assert found["entropy_spread"] == pytest.approx(entropy.std() / np.log(14), rel=1e-4)
    of_mean = -(own.mean(0) * np.log(own.mean(0))).sum()
    assert found["row_information"] == pytest.approx((of_mean - entropy.mean()) / np.log(14), rel=1e-4)


def test_what_the_eye_counts_by_loops(kinds_of):
    one = drawn(20, kinds_of(20), seed=3)
    n, rows = 20, range(1, 19)
    brightest = np.sort(one.weights.ravel())[-int(np.ceil(0.005 * n * n))]
    shades = np.minimum(one.weights / max(0.3, brightest), 1) ** 0.7
    torch.testing.assert_close(
        shaded(stacked([one]), layout_of([one]))[0, 0], torch.from_numpy(shades), rtol=1e-5, atol=1e-6
    )
    found = measured(one)[0]
    seen = np.zeros((n, n), dtype=bool)
    for i in rows:
        for j in range(n):
            sides = [shades[i, max(0, j - 3) : j], shades[i, j + 1 : j + 4]]
            seen[i, j] = shades[i, j] - min(side.mean() for side in sides if len(side)) >= 0.16
    assert found["column_rows_0.16"] == pytest.approx(seen[1:19].mean(0).max(), rel=1e-5)
    best = 0.0
    for d in range(-4, 5):
        hits = []
        for i in rows:
            if not 1 <= i + d <= 18:
                continue
            band = max(shades[i, j] for j in (i + d - 1, i + d, i + d + 1) if 1 <= j <= 18)
            outside = max(shades[i, j] for j in rows if abs(j - i - d) > 2)
            hits.append(band >= 1.1 * outside and band >= 0.12)
        best = max(best, float(np.mean(hits)))
    assert found["line_rows_ratio_1.1"] == pytest.approx(best, rel=1e-5)


def test_heights_by_loops(kinds_of):
    kinds = kinds_of(22, pair=True)
    n, one = 22, drawn(22, kinds, seed=5)
    rows = [i for i in range(n) if kinds[i] in (PIECE, 3)]
    logs = np.log(one.weights.astype(np.float64) * n + 0.05)
    centred = (logs - logs.mean(1, keepdims=True))[rows]
    found = measured(one)[0]
    columns = centred.mean(0)
    assert found["column_height"] == pytest.approx(columns.max(), rel=1e-4)
    total = (centred**2).sum()
    part = (len(rows) * (columns**2).sum() / (total + 1e-4 * len(rows) * n) - 1 / len(rows)) / (1 - 1 / len(rows))
    assert found["column_part"] == pytest.approx(part, rel=1e-4)
    assert found["log_spread"] == pytest.approx(np.sqrt(total / len(rows) / n), rel=1e-4)
    words = logs[np.ix_(rows, rows)]
    alone = words - words.mean(1, keepdims=True)
    alone -= alone.mean(0)
    place = {i: k for k, i in enumerate(rows)}
    lines = {d: [alone[place[i], place[i + d]] for i in rows if i + d in place] for d in range(-4, 5)}
    assert found["line_height"] == pytest.approx(max(np.mean(line) for line in lines.values()), rel=1e-4)
    second = np.array(rows) > n // 2
    same = second[:, None] == second
    own = words[same & ~np.eye(len(rows), dtype=bool)].mean() - words[~same].mean()
    assert found["block_height"] == pytest.approx(own, rel=1e-3, abs=1e-4)
    # Of single sentences there are no squares; even attention has neither columns nor lines.
    flat = measured(PieceMap(np.full((9, 9), 1 / 9, dtype=np.float32), kinds_of(9)))[0]
    assert [flat[name] for name in ("column_height", "column_part", "line_height", "block_height")] == pytest.approx(
        [0, -1 / 6, 0, 0], abs=0.01
    )


def test_sentences_of_a_pair_by_loops(kinds_of):
    kinds = kinds_of(18, pair=True)
    one = drawn(18, kinds, seed=1)
    rows = np.flatnonzero(kinds != SEP)[1:]
    second = rows > 9
    ratios = []
    for number in (False, True):
        cells = [(one.weights[i, j], second[b] == number) for i, a in zip(rows, second, strict=True) if a == number
                 for b, j in enumerate(rows)]  # fmt: skip
        inside = np.mean([weight for weight, own in cells if own])
        across = np.mean([weight for weight, own in cells if not own])
        ratios.append(np.log((inside + 0.1 / 18) / (across + 0.1 / 18)))
    found = measured(one)[0]
    assert found["block_log_ratio"] == pytest.approx(min(ratios), rel=1e-4)
    assert found["is_pair"] == 1
    alone = measured(drawn(18, kinds_of(18)))[0]
    assert [alone[name] for name in ("block_log_ratio", "block_log_ratio_far", "own_sentence_excess", "is_pair")] == [
        0, 0, 0, 0,
    ]  # fmt: skip


def test_padding_changes_nothing(kinds_of):
    lengths = (5, 9, 31, 12)
    maps = [drawn(n, kinds_of(n, pair=n > 10), seed=n) for n in lengths]
    together, alone = measured(*maps), [measured(one)[0] for one in maps]
    for one, many in zip(alone, together, strict=True):
        assert list(many.values()) == pytest.approx(list(one.values()), abs=1e-5)
    layout = layout_of(maps)
    shown = pictures(stacked(maps), layout)
    for number, one in enumerate(maps):
        own = pictures(stacked([one]), layout_of([one]))
        torch.testing.assert_close(shown[number], own[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [5, 45])
def test_pictures_keep_areas(kinds_of, n):
    one = drawn(n, kinds_of(n))
    density = pictures(stacked([one]), layout_of([one]))[0, 0, 0].double().numpy()
    weights = one.weights.astype(np.float64)
    weights[[0, -1]] = 0
    relief = pictures(stacked([one]), layout_of([one]))[0, 0, 1].double().numpy()
    logs = np.log(one.weights.astype(np.float64) * n + 0.05)
    logs -= logs.mean(1, keepdims=True)
    logs[[0, -1]] = 0
    fine = np.repeat(np.repeat(logs, SIDE, axis=0), SIDE, axis=1)
    np.testing.assert_allclose(relief, fine.reshape(SIDE, n, SIDE, n).mean(axis=(1, 3)) / 2, rtol=1e-4, atol=1e-5)
    # Each piece cut into as many parts as the picture has sides, so that sides fall between parts.
    fine = np.repeat(np.repeat(weights, SIDE, axis=0), SIDE, axis=1)
    expected = fine.reshape(SIDE, n, SIDE, n).mean(axis=(1, 3)) * n
    np.testing.assert_allclose(np.expm1(density * np.log(1 + SIDE)), expected, rtol=1e-4, atol=1e-5)
