"""Retained knowledge: all of it in the same model, none at the floor, by hand in between, undefined without surplus."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertology import BertologyError, probe
from bertology.comparison import retained
from bertology.results import Results


@pytest.fixture(scope="module")
def results(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(tmp_path_factory.mktemp("cache")))
        return probe("pos", model="pocket", corpus=tiny_corpus, layers="1,4", seeds=1, controls="majority")


def with_floor(results: Results, share: float) -> Results:
    """The predictions of the baseline put in place of a share of those of each layer."""
    (floor,) = {row.cell_id for row in results.rows if row.control == "majority"}
    kept = dict(results.kept)
    for row in results.rows:
        if row.layer is not None and row.main_metric:
            mine, other = results.kept[row.cell_id], results.kept[floor]
            codes = np.array([list(mine.labels).index(other.labels[code]) for code in other.pred])
            replaced = np.random.default_rng(0).random(len(codes)) < share
            kept[row.cell_id] = replace(mine, pred=np.where(replaced, codes, mine.pred))
    return replace(results, kept=kept)


def test_the_same_model_retains_all_and_the_floor_nothing(results: Results) -> None:
    frame = retained(results, results).table()
    assert frame["layer"].tolist() == frame["reference_layer"].tolist() == [1, 4]
    assert (frame[["retained", "ci_low", "ci_high"]] == 1).all(axis=None)
    assert (frame["surplus_low"] > 0.1).all()
    assert (retained(results, with_floor(results, 1.0)).table()["retained"] == 0).all()


def test_half_way_down_half_is_retained(results: Results) -> None:
    frame = retained(results, with_floor(results, 0.5)).table()
    by_hand = (frame["model_value"] - frame["floor"]) / (frame["reference_value"] - frame["floor"])
    np.testing.assert_allclose(frame["retained"], by_hand)
    assert frame["retained"].between(0.35, 0.65).all()
    assert ((frame["ci_low"] < frame["retained"]) & (frame["retained"] < frame["ci_high"])).all()
    assert (frame["floor_of"] == "majority").all()


def test_without_surplus_or_floor_it_is_undefined(results: Results) -> None:
    nothing = retained(with_floor(results, 1.0), results).table()
    assert nothing[["retained", "ci_low", "ci_high"]].isna().all(axis=None)
    alone = replace(results, rows=tuple(row for row in results.rows if row.control == "none"))
    with pytest.raises(BertologyError, match="no floor"):
        retained(alone, results)
    renamed = replace(results, rows=(*results.rows, replace(results.rows[0], model="other")))
    with pytest.raises(BertologyError, match=r"2 models: choose one with \.only"):
        retained(renamed, results)
