"""Models compared on the same items: against numpy, scipy and scikit-learn; results joined."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import false_discovery_control
from sklearn.metrics import accuracy_score

from bertology import compare_models, probe, read_results
from bertology.errors import ResultsError
from bertology.results import Results

CHOSEN = {"layers": "0,3", "controls": "majority"}


@pytest.fixture(scope="module")
def run(
    tiny_bert: Path, noisy_bert: Path, tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Results, Path]:
    out = tmp_path_factory.mktemp("both") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTOLOGY_CACHE", str(tmp_path_factory.mktemp("cache")))
        tasks = ["pos", "structural_distance"]
        return probe(tasks, model=[tiny_bert, noisy_bert], corpus=tiny_corpus, seeds=1, out=out, **CHOSEN), out


def of_models(results: Results, task: str, which: str) -> pd.DataFrame:
    frame = results.comparisons_to_pandas()
    return frame[frame["family"].str.startswith(f"{task} on ") & frame["family"].str.contains(f": models at {which}")]


def test_differences_are_paired_on_the_same_items(run: tuple[Results, Path]) -> None:
    results = run[0]
    frame = results.predictions("pos")
    compared = of_models(results, "pos", "each layer").set_index("layer_a")
    assert list(compared.index) == list(compared["layer_b"]) == [0, 3]
    for layer, row in compared.iterrows():
        one, other = (of_model for _, of_model in frame[frame["layer"] == layer].groupby("model", sort=False))
        right = [(part["gold"] == part["predicted"]).to_numpy() for part in (one, other)]
        accuracy = [accuracy_score(part["gold"], part["predicted"]) for part in (one, other)]
        assert row["diff"] == pytest.approx(accuracy[0] - accuracy[1])
        # A paired bootstrap over sentences by hand.
        sums = pd.DataFrame({"d": right[0].astype(int) - right[1], "n": 1}).groupby(one["sentence"].to_numpy()).sum()
        drawn = np.random.default_rng(3).multinomial(len(sums), [1 / len(sums)] * len(sums), 4000)
        spread = ((drawn @ sums["d"].to_numpy()) / (drawn @ sums["n"].to_numpy())).std(ddof=1)
        assert (row["ci_high"] - row["ci_low"]) / 2 == pytest.approx(2.05 * spread, rel=0.1, abs=1e-9)
    np.testing.assert_allclose(compared["p_adj"], false_discovery_control(compared["p_raw"]))
    # Below its last block the second model is the first one.
    assert compared.loc[0, "diff"] == 0
    assert compared.loc[0, "p_raw"] == 1


def test_stars_at_each_layer_and_at_the_best(run: tuple[Results, Path]) -> None:
    frame = run[0].models()
    assert [*frame][:3] == ["model", "at", "value"]  # pandas hides columns in the middle
    assert set(frame["at"]) == {"layer 0", "layer 3", "best layer"}
    pos = frame[frame["task"] == "pos"]
    assert pos[pos["at"] == "layer 0"]["in_best_set"].all()
    for _, best in pos[pos["at"] == "best layer"].groupby("model"):
        assert best["value"].item() == pos[pos["model"] == best["model"].item()]["value"].max()
    p_adj = of_models(run[0], "pos", "each layer").set_index("layer_a")["p_adj"][3]
    assert pos[pos["at"] == "layer 3"]["in_best_set"].sum() == (1 if p_adj < 0.05 else 2)
    assert len(of_models(run[0], "structural_distance", "their best layers")) == 1


def test_items_that_one_model_lacks_are_left_out_of_both(run: tuple[Results, Path]) -> None:
    results, (first, second) = run[0], list(dict.fromkeys(row.model for row in run[0].rows if row.model))
    results = results.only(task="pos")
    cells = {row.cell_id for row in results.rows if row.model == second}
    kept = {cell: results.kept[cell] for cell in {row.cell_id for row in results.rows}}
    for cell in cells:
        some = kept[cell]
        columns = {name: getattr(some, name)[20:] for name in ("cluster", "gold", "pred", "score")}
        kept[cell] = dataclasses.replace(some, item_ids=list(some.item_ids)[20:], **columns)
    again = compare_models(dataclasses.replace(results, kept=kept, comparisons=()))
    compared = of_models(again, "pos", "each layer").set_index("layer_a")
    frame = run[0].predictions("pos", 3)
    right = [(part["gold"] == part["predicted"])[20:].mean() for _, part in frame.groupby("model", sort=False)]
    assert compared.loc[3, "diff"] == pytest.approx(right[0] - right[1])
    assert first != second


def test_a_folder_of_several_models_is_read_again(run: tuple[Results, Path], tiny_bert: Path) -> None:
    again = read_results(run[1])
    assert set(again.rows) == set(run[0].rows)
    assert len(again.models()) == len(run[0].models())
    assert len(again.fitted("pos", 3, model=tiny_bert.name).predict(["The dogs saw a cat."])) == 6
    assert set(read_results(run[1] / tiny_bert.name).rows) <= set(run[0].rows)


def test_results_are_joined_unless_they_do_not_belong_together(run: tuple[Results, Path]) -> None:
    one, other = (run[0].only(model=name) for name in dict.fromkeys(row.model for row in run[0].rows if row.model))
    both = one + other
    assert set(both.rows) == set(run[0].rows)
    assert len(both.rows) == len(set(both.rows))  # baselines stand once
    assert both.predictions("pos").equals(run[0].predictions("pos"))
    assert set(compare_models(both).comparisons) == set(run[0].comparisons)
    with pytest.raises(ResultsError, match="no models were compared"):
        both.models()
    altered = tuple(dataclasses.replace(row, corpus_fingerprint="other") for row in other.rows)
    with pytest.raises(ResultsError, match=r"rows of corpus_fingerprint .* cannot stand in one view"):
        one + dataclasses.replace(other, rows=altered)
    moved = tuple(dataclasses.replace(row, value=0.5) for row in one.rows)
    with pytest.raises(ResultsError, match=r"is .* in one and 0\.5 in the other"):
        one + dataclasses.replace(one, rows=moved)
