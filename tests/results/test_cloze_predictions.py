"""What a masked language model said of every item: written, read, and counted again."""

import numpy as np
import pytest

from bertology.errors import ResultsError
from bertology.measures import bootstrap
from bertology.results import Predictions
from bertology.results.predictions import read_outcomes, read_predictions, write_predictions
from tests.cell_files import file_of

NAN = float("nan")


def columns(**changed):
    """Six items in four clusters and two groups, of which the second and the last were not scored."""
    return {
        "item_ids": [f"item-{number}" for number in range(6)],
        "cluster": np.array([0, 1, 0, 2, 2, 3]),
        "cluster_ids": ("fact a", "left", "fact b", "fact c"),
        "group": ["capital of"] * 3 + ["born in"] * 3,
        "gold": ["Paris", "so-so", "Rome", "Oslo", "Bern", "Cork"],
        "pred": ["Paris", "", "Paris", "Oslo", "Rome", ""],
        "score": np.array([-0.1, NAN, -3.0, -0.5, -7.25, NAN]),
        "rival": np.array([-1.0, NAN, -2.0, -0.5, NAN, NAN]),
        "rank": np.array([1, 0, 4, 1, 300, 0]),
        "reason": ["", "'so-so' in several pieces: 3", "", "", "", "too long"],
        **changed,
    }


def some(**changed):
    return Predictions.of_cloze(**columns(**changed))


def test_what_is_written_is_read_back(tmp_path):
    given = columns()
    write_predictions(tmp_path, "cell", some())
    found = read_predictions(tmp_path, "cell")
    assert found.is_cloze
    assert found.item_ids == given["item_ids"]
    clusters = [given["cluster_ids"][code] for code in given["cluster"]]
    assert [found.cluster_ids[code] for code in found.cluster] == clusters
    assert [found.labels[code] for code in found.gold] == given["gold"]
    assert [found.labels[code] for code in found.pred] == given["pred"]
    assert found.extra["group"] == ["capital of"] * 3 + ["born in"] * 3
    assert found.extra["reason"] == given["reason"]
    assert found.extra["rank"] == given["rank"].tolist()
    np.testing.assert_array_equal(np.array(found.score), given["score"].astype(np.float32))
    np.testing.assert_array_equal(np.array(found.extra["rival"]), given["rival"].astype(np.float32))


def test_outcomes_are_of_the_items_that_were_scored(tmp_path):
    better = some(pred=["Paris", "", "Rome", "Oslo", "Bern", ""], rank=np.array([1, 0, 1, 1, 1, 0]))
    for name, said in (("first", some()), ("second", better)):
        write_predictions(tmp_path, name, said)
    found = read_outcomes(tmp_path, ["first", "second"])
    assert found.groups == ("capital of", "born in")
    assert found.rank.tolist() == [[1, 4, 1, 300], [1, 1, 1, 1]]
    np.testing.assert_allclose(found.score[0], [-0.1, -3.0, -0.5, -7.25], rtol=1e-6)
    np.testing.assert_allclose(found.rival[0], [-1.0, -2.0, -0.5, NAN], rtol=1e-6)
    # A word has one number in all cells: Paris and Paris, Paris and Rome, Oslo and Oslo, Rome and Bern.
    assert (found.pred[0] == found.pred[1]).tolist() == [True, False, True, False]
    assert found.pred[0, 3] == found.pred[1, 1]


def test_clusters_without_a_scored_item_are_none(tmp_path):
    write_predictions(tmp_path, "cell", some())
    found = read_outcomes(tmp_path, ["cell"])
    assert found.items.n_clusters == 2
    assert found.items.cluster.tolist() == [0, 0, 1, 1]
    assert [found.clusters_of(group).tolist() for group in (0, 1)] == [[0], [1]]


@pytest.mark.parametrize(
    ("tally", "by_hand"),
    [
        # Scored, at the first, among the first 5, 10, 100, and one over the place.
        ("answers", [[2, 1, 2, 2, 2, 1.25], [2, 1, 1, 1, 1, 1 + 1 / 300]]),
        # Chosen, right, scored, more probable by over 0.01; a tie is no choice, and without a rival there is none. Then
        # the sum of differences of log probabilities, and clusters.
        ("choices", [[2, 1, 2, 1, (-0.1 + 1.0) + (-3.0 + 2.0), 1], [0, 0, 1, 0, 0.0, 1]]),
        # Pairs, pairs alike, clusters, clusters in which all are right.
        ("agreement", [[1, 1, 1, 0], [1, 0, 1, 0]]),
    ],
)
def test_counts_are_those_by_hand(tmp_path, tally, by_hand):
    write_predictions(tmp_path, "cell", some())
    counts = read_outcomes(tmp_path, ["cell"]).counts(tally)
    np.testing.assert_allclose(counts[0].sum(axis=0), by_hand, rtol=1e-6)


def test_changes_count_what_was_lost(tmp_path):
    write_predictions(tmp_path, "cell", some(rival=np.array([0.0, NAN, -1.0, -0.5, -0.25, NAN])))
    counts = read_outcomes(tmp_path, ["cell"]).counts("changes")
    lost = [1 - np.exp(-0.1) + np.exp(-1) - np.exp(-3), np.exp(-0.25) - np.exp(-7.25)]
    np.testing.assert_allclose(counts[0].sum(axis=0), [[2, 1, lost[0]], [2, 1, lost[1]]], rtol=1e-6)


def test_scores_of_a_run_are_those_of_its_predictions(facts, tmp_path):
    facts.save(tmp_path, tables=(), plots=())
    cells = [f"lama-none-{layer}" for layer in range(5)]
    found = read_outcomes(tmp_path, cells)
    scores = bootstrap(found.counts("answers"), ["p_at_1", "mrr"], n_resamples=20)
    for layer in range(5):
        for metric, score in scores.items():
            (row,) = [r for r in facts.rows if r.cell_id == cells[layer] and r.metric == metric and r.group is None]
            assert score.values[layer] == pytest.approx(row.value)


def test_broken_files_are_one_line(pos, tmp_path):
    write_predictions(tmp_path, "cell", some())
    write_predictions(tmp_path, "labels", pos.kept["pos-0-0"])
    with pytest.raises(ResultsError, match=r"\.parquet: no column group, reason; was it written by bertology\?"):
        read_outcomes(tmp_path, ["labels"])
    path = file_of(tmp_path, "cell")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ResultsError, match=path.name) as broken:
        read_outcomes(tmp_path, ["cell"])
    assert "\n" not in str(broken.value)
    with pytest.raises(ResultsError, match="no file has the predictions of cell none; run it again"):
        read_outcomes(tmp_path, ["none"])
