import numpy as np

from benchmarks.head_patterns.maps import layout_of, stacked
from benchmarks.head_patterns.rule import likely_classes
from benchmarks.head_patterns.synthetic import synthetic_maps
from bertology.attention.patterns import CLS, FEATURES, PATTERNS, SEP, features


def test_the_same_seed_makes_the_same_maps():
    one, again, other = synthetic_maps(3, seed=4), synthetic_maps(3, seed=4), synthetic_maps(3, seed=5)
    more = synthetic_maps(5, seed=4)
    for number, made in enumerate(one.maps):
        np.testing.assert_array_equal(made.weights, again.maps[number].weights)
        np.testing.assert_array_equal(made.kinds, more.maps[number // 3 * 5 + number % 3].kinds)
    assert any(len(a) != len(b) for a, b in zip(one.maps, other.maps, strict=True))
    np.testing.assert_array_equal(one.features, again.features)
    np.testing.assert_allclose(one.likely, likely_classes(one.features))
    # A label is drawn by what is likely.
    assert one.likely[np.arange(len(one.labels)), one.labels].mean() > 0.6


def test_maps_are_maps():
    made = synthetic_maps(12, seed=1)
    assert np.bincount(made.labels).tolist() == [12] * len(PATTERNS)
    for one, values in zip(made.maps, made.features, strict=True):
        assert one.weights.shape == (len(one), len(one))
        np.testing.assert_allclose(one.weights.sum(1), 1, rtol=1e-5)
        assert 5 <= len(one) <= 128
        assert (one.kinds[0], one.kinds[-1]) == (CLS, SEP)
        own = features(stacked([one]), layout_of([one]))[0, 0].numpy()
        np.testing.assert_allclose(values, own, rtol=1e-4, atol=1e-4)
    lengths = [len(one) for one in made.maps]
    assert min(lengths) < 10
    assert max(lengths) > 80


def test_classes_differ_in_what_names_them():
    made = synthetic_maps(20, seed=2)
    mean = {
        pattern: dict(zip(FEATURES, made.features[made.labels == number].mean(0).tolist(), strict=True))
        for number, pattern in enumerate(PATTERNS)
    }
    column, line, block = "column_rows_0.16", "line_rows_ratio_1.1", "block_height"
    for pattern, has in mean.items():
        assert (has[column] > 0.6) == (pattern in ("vertical", "vertical+diagonal"))
        assert (has[line] > 0.6) == (pattern in ("diagonal", "vertical+diagonal"))
    assert mean["block"][block] > 0.8 > 0.5 > mean["heterogeneous"][block]
    is_pair = made.features[:, FEATURES.index("is_pair")]
    assert is_pair[made.labels == PATTERNS.index("block")].all()
