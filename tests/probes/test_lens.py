"""Lenses as a task."""

import pytest

from bertology import probe


def test_the_tuned_lens_is_nearer_and_both_end_at_the_answer(tmp_path: object) -> None:
    found = probe("lens", controls="none", sentences=30, out=f"{tmp_path}/run").to_pandas()
    value = found[found.group.isna()].set_index(["metric", "layer"]).value
    for layer in range(4):
        assert value["tuned_divergence_bits", layer] < value["logit_divergence_bits", layer]
    for lens in ("tuned", "logit"):
        assert value[f"{lens}_divergence_bits", 4] == pytest.approx(0, abs=1e-5)
        assert value[f"{lens}_agreement", 4] == value[f"{lens}_settled", 4] == 1
        assert value[f"{lens}_settled", 1] <= value[f"{lens}_agreement", 1]
    assert value["tuned_bits", 4] == value["logit_bits", 4]
