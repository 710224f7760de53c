"""Association tests: effect sizes and p-values by hand, planted differences, and tables."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bertology import probe
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology_probes.association import SETS, association_p, left_out_effects

SIZES = (4, 4, 3, 5)


def drawn(difference: float, seed: int = 1) -> list[np.ndarray]:
    """Four sets of vectors; targets X lie on the side of attributes A, by so much."""
    random = np.random.default_rng(seed)
    sides = (difference, -difference, 1.0, -1.0)
    return [random.normal(size=(n, 6)) + np.eye(6)[0] * 3 * side for n, side in zip(SIZES, sides, strict=True)]


def by_hand(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Caliskan et al. (2017), equations of the supplement, one cosine at a time; all divisions of the targets."""

    def s(w: np.ndarray) -> float:
        near = [np.mean([w @ one / np.linalg.norm(w) / np.linalg.norm(one) for one in some]) for some in (a, b)]
        return float(near[0] - near[1])

    of = np.array([s(w) for w in (*x, *y)])
    d = (of[: len(x)].mean() - of[len(x) :].mean()) / of.std(ddof=1)
    sums = [of[list(chosen)].sum() for chosen in combinations(range(len(of)), len(x))]
    return d, float(np.mean(np.array(sums) >= of[: len(x)].sum() - 1e-12))


@pytest.mark.parametrize("difference", [0.0, 0.2, 1.0])
def test_effect_and_exact_p_by_hand(difference: float) -> None:
    sets = drawn(difference)
    assert (left_out_effects(*sets)[0], association_p(*sets)) == pytest.approx(by_hand(*sets), abs=1e-9)


def test_what_is_planted_is_found_and_nothing_else() -> None:
    assert association_p(*drawn(1.0)) == pytest.approx(1 / 70)
    found = [association_p(*drawn(0.0, seed)) for seed in range(60)]
    assert 0.4 < np.mean(found) < 0.65


def test_effects_without_each_vector() -> None:
    sets = drawn(0.3)
    effects = left_out_effects(*sets)
    assert effects[0] == pytest.approx(by_hand(*sets)[0])
    assert effects[1 + 4 + 1] == pytest.approx(by_hand(sets[0], np.delete(sets[1], 1, axis=0), *sets[2:])[0])
    assert effects[-1] == pytest.approx(by_hand(*sets[:3], sets[3][:-1])[0])


def table(*, word: bool) -> pd.DataFrame:
    """Animals next to animals, persons next to persons: nearer in any model, in the embeddings first of all."""
    words = ("dog dogs", "farmer farmers", "cat cats", "baker bakers")
    rows = [(name, f"The {one} sleeps.", one) for name, some in zip(SETS, words, strict=True) for one in some.split()]
    return pd.DataFrame(rows, columns=["set", "text", "word"]).drop(columns=[] if word else ["word"])


def test_the_table_of_a_model_is_that_of_its_vectors() -> None:
    given = table(word=True)
    encoder = load_encoder("pocket", device="cpu")
    vectors = [encoder.vectors(row.text, layers=[2], word=row.word).to_numpy()[0, 0] for row in given.itertuples()]
    d, p = by_hand(*(np.array(vectors[start : start + 2], dtype=float) for start in range(0, 8, 2)))
    results = probe("association", corpus=given, layers=[2], controls="none")
    found = results.to_pandas().query("group.isna()").set_index("metric")["value"]
    assert found["effect_size"] == pytest.approx(d, abs=1e-4)
    assert found["permutation_p"] == pytest.approx(p)
    shown = " ".join(str(results).split())
    assert "does not predict the bias of applications (Goldfarb-Tarrant et al. 2021)" in shown
    assert "8 texts" in shown
    assert "★" not in shown


def test_several_tests_stand_by_group_with_their_mean() -> None:
    both = pd.concat([table(word=False).assign(group="one"), table(word=False).assign(group="two")], ignore_index=True)
    both.loc[both.group == "two", "set"] = both.set.map(dict(zip(SETS, (*SETS[1::-1], *SETS[2:]), strict=True)))
    frame = probe("association", corpus=both, layers=[1], controls="none").to_pandas().query("metric == 'effect_size'")
    values = frame.set_index(frame.group.fillna("mean"))["value"]
    assert values["one"] == pytest.approx(-values["two"], abs=1e-6)
    assert values["mean"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"set": "target_z"}, "column 'set': found 'target_z'; expected target_x, target_y, attribute_a"),
        ({"word": "zebra"}, "a word that stands once in 'The dog sleeps.'"),
        ({"set": "target_y"}, "test 'test' has fewer than two texts in target_x; give more, or no max_items"),
        ({"text": "The dogs sleeps.", "word": "dogs"}, "each text once in a set"),
    ],
)
def test_bad_tables(change: dict[str, Any], problem: str) -> None:
    given = table(word=True)
    given.loc[0, list(change)] = list(change.values())
    with pytest.raises(BertologyError, match=problem):
        probe("association", corpus=given, controls="none")


def test_what_is_not_defined_has_no_row() -> None:
    frame = probe("association", corpus=table(word=False), layers=[0, 1], controls="none").to_pandas()
    assert set(frame.layer) == {1}  # the special token is the same in all texts where no context is
    with pytest.raises(BertologyError, match="the pocket world has no association tests; give a table with set"):
        probe("association", controls="none")
