"""The table of all heads, its picture, distances between heads, rollout and flow."""

from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from bertology.attention import attention_flow, attention_rollout, head_statistics, stream_maps
from bertology.attention.measured import HeadDistances, HeadStatistics, Masses
from bertology.corpora import Sentences, load_corpus
from bertology.encoders import Encoder
from bertology.errors import ModelError, ResultsError


@pytest.fixture(scope="module")
def table(encoder: Callable[..., Encoder], sentences: Sentences) -> HeadStatistics:
    return head_statistics(encoder("bert"), sentences, norms=True)


def test_table(table: HeadStatistics, encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    frame = table.to_pandas()
    assert frame["head"].tolist() == [f"L{layer}H{head}" for layer in (1, 2, 3) for head in (1, 2, 3, 4)]
    assert frame["layer"].tolist() == [1] * 4 + [2] * 4 + [3] * 4
    masses = stream_maps(encoder("bert"), sentences, [Masses]).results[0][0]
    np.testing.assert_allclose(frame["previous"], masses.of("previous").ravel())
    intervals = masses.intervals("previous")
    np.testing.assert_array_equal(frame["previous_low"], intervals.ci_low)
    np.testing.assert_array_equal(frame["previous_high"], intervals.ci_high)
    for name in table.names:
        low, value, high = (frame[column].to_numpy() for column in (f"{name}_low", name, f"{name}_high"))
        assert (low <= value).all(), name
        assert (value <= high).all(), name
    assert {"norm_sep", "entropy_nats", "argmax_-1", "distance"} <= set(table.names)
    assert table.of("previous").ravel().tolist() == frame["previous"].tolist()
    with pytest.raises(ResultsError, match="no statistic 'prev'"):
        table.of("prev")


def test_pocket_heads(tmp_path: Path) -> None:
    table = head_statistics("pocket", load_corpus("pocket")["test"][:60], device="cpu", distances=False)
    assert table.distances is None
    row = table.to_pandas().nlargest(1, "previous").iloc[0]
    assert row["previous"] > 0.8, "the embedded encoder has a head that looks at the previous word"
    assert row["previous_low"] > 0.7
    assert row["argmax_-1"] > 0.7


def test_distances_in_clusters() -> None:
    places = np.array([[0, 0], [0.1, 0], [1, 1], [1, 1.1], [0, 2], [0.1, 2.1]])
    matrix = np.linalg.norm(places[:, None] - places, axis=-1)
    heads = HeadDistances(matrix, (1, 2), 3, 10)
    assert heads.heads == ("L1H1", "L1H2", "L1H3", "L2H1", "L2H2", "L2H3")
    assert heads.clusters(3).tolist() == [1, 1, 2, 2, 3, 3]
    assert heads.clusters(6).tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(ResultsError, match="7 clusters of 6 heads"):
        heads.clusters(7)


def random_maps(*shape: int) -> NDArray[np.float64]:
    logits = np.exp(np.random.default_rng(0).normal(size=shape) * 2)
    return np.asarray(logits / logits.sum(-1, keepdims=True))


def test_rollout() -> None:
    maps = random_maps(3, 4, 5, 5)
    expected = np.eye(5)
    found = attention_rollout(maps)
    for layer in range(3):
        expected = (0.5 * maps[layer].mean(0) + 0.5 * np.eye(5)) @ expected
        np.testing.assert_allclose(found[layer], expected)
    np.testing.assert_allclose(found.sum(-1), 1)
    np.testing.assert_allclose(attention_rollout(maps.mean(1)), found)
    np.testing.assert_allclose(attention_rollout(maps, residual=1.0)[-1], np.eye(5))


def test_flow() -> None:
    maps = random_maps(3, 2, 4, 4)
    found = attention_flow(maps, residual=0.3)
    graph = nx.DiGraph()
    for layer in range(3):
        mixing = 0.3 * np.eye(4) + 0.7 * maps[layer].mean(0)
        for row in range(4):
            for column in range(4):
                graph.add_edge((layer + 1, row), (layer, column), capacity=mixing[row, column])
    for row in range(4):
        for column in range(4):
            expected = nx.maximum_flow_value(graph, (3, row), (0, column))
            assert found[row, column] == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(attention_flow(maps[:1]), attention_rollout(maps)[0], atol=1e-8)


@pytest.mark.parametrize("read", [attention_rollout, attention_flow])
def test_shapes_that_do_not_fit(read: Callable[..., object]) -> None:
    with pytest.raises(ModelError, match=r"maps of shape \(3, 4\)"):
        read(np.zeros((3, 4)))
    with pytest.raises(ModelError, match="residual 2"):
        read(random_maps(1, 3, 3), residual=2)
