"""The number of the subject erased place by place: choices fall to chance where it is used, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest

from bertology.causal import agreement_pairs
from bertology.causal.erasing import choose_erased
from bertology.encoders import load_encoder
from bertology.errors import ClozeError

PAIRS = agreement_pairs("pocket", most=120)


def test_choices_fall_to_chance_where_the_number_is_used_and_nowhere_else() -> None:
    found = choose_erased(load_encoder("pocket"), PAIRS, layers=range(5))
    assert found.layers == (0, 1, 2, 3, 4)
    plain = float(found.plain.mean() / 2)
    share = {name: np.nanmean(right, axis=2) / 2 for name, right in found.right.items()}
    erased = dict(zip(found.places, share["erased"].T, strict=True))
    assert plain > 0.9
    # One direction of each place; what is linear is gone, so that at most a little is left in any layer.
    assert erased["all"].max() < 0.72
    assert erased["all"][:3].max() < 0.62
    assert share["random"].min() > 0.9
    # At the embeddings only the subject shows its number; at the last layer only the mask is read.
    assert erased["subject"][0] < 0.62
    assert erased["mask"][-1] == erased["all"][-1]
    for place, right in zip(found.places, np.moveaxis(found.right["erased"], 1, 0), strict=True):
        has_place = np.isfinite(right[0])
        if place not in ("subject", "subject and mask", "all"):
            np.testing.assert_array_equal(right[0, has_place], found.plain[has_place])
        if "mask" not in place and place != "all":
            np.testing.assert_array_equal(right[-1, has_place], found.plain[has_place])


def test_pairs_that_do_not_fit_are_named() -> None:
    wrong = replace(PAIRS[0], good="antidisestablishment")
    found = choose_erased(load_encoder("pocket"), [wrong, *PAIRS[1:20]], layers=[0])
    assert (0, "'antidisestablishment' is no single piece of the model's vocabulary: give a word that is") in (
        found.excluded
    )
    assert len(found.clusters) + len(found.excluded) == 20


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [
        ([replace(pair, cluster="one") for pair in PAIRS[:10]], "all pairs are of one cluster"),
        ([replace(pair, values=("", "")) for pair in PAIRS[:10]], "1 values of what decides"),
        ([replace(PAIRS[0], bad="")], "a choice is between two words"),
        ([replace(PAIRS[0], good="antidisestablishment")], "no single piece"),
    ],
)
def test_mistakes(pairs: list, problem: str) -> None:
    with pytest.raises(ClozeError, match=problem):
        choose_erased(load_encoder("pocket"), pairs, layers=[0])
