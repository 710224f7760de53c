"""Trees as they are kept: what is read back decides as the numbers did."""

import numpy as np

from bertology.families.trees import marks_of_tree
from bertology.measures import find_metric
from bertology.measures.metrics import count_trees, read_root


def test_depths_that_differ_by_less_than_a_thousandth_keep_their_order() -> None:
    depths = np.array([0.10004, 0.10003, 2.0], dtype=np.float32)
    heads, scored = np.array([2, 0, 2]), np.ones(3, dtype=bool)
    kept = marks_of_tree(heads, scored, None, depths, None)
    assert np.array_equal(np.array(kept.split(" "), dtype=np.float32), depths)
    assert read_root(kept) == 1  # with three decimals the two were equal, and the first one was the root
    assert read_root(" ".join(f"{depth:.3f}" for depth in depths)) == 0
    counts, _ = count_trees(np.array([0]), np.array([[1]]), ["1 0 1", kept], np.array([[np.nan]]), count_kind="roots")
    assert find_metric("root_accuracy")(counts[0].sum(axis=0), ("3",)) == 1.0
