"""Patching as a task: what the grammar of the pocket world says of its tables."""

from pathlib import Path

import pytest

from bertology import probe
from bertology.errors import BertologyError

pytestmark = pytest.mark.filterwarnings("error")


def test_number_is_carried_by_the_subject_then_the_mask_and_by_nothing_else(tmp_path: object) -> None:
    found = probe("patching:agreement", layers=[0, 2, 4], controls="none", max_items=30, out=f"{tmp_path}/run")
    table = found.to_pandas()
    whole = table[table.group.isna()].set_index(["metric", "layer"]).value
    by_place = table[table.metric == "effect"].dropna(subset=["group"]).set_index(["group", "layer"]).value
    assert whole["effect", 0] == pytest.approx(1, abs=1e-5)
    assert by_place["mask", 4] == pytest.approx(1, abs=1e-5)
    assert by_place["all", 2] == pytest.approx(1, abs=1e-5)
    assert abs(whole["same_value_effect", 0]) < 0.05 < 0.9 < whole["unrelated_effect", 0]
    assert whole["moved_effect", 0] > 0.8
    assert whole["interchange_accuracy", 0] > 0.9
    # At the last layer the subject no longer matters: texts of the same value keep their word, others do too.
    assert whole["interchange_accuracy", 4] == pytest.approx(0.5, abs=0.05)


def test_facts(tmp_path: object) -> None:
    found = probe("patching:facts", layers=[0, 4], controls="none", max_items=60, out=f"{tmp_path}/facts").to_pandas()
    whole = found[found.group.isna()].set_index(["metric", "layer"]).value
    assert whole["effect", 0] == pytest.approx(1, abs=1e-5)
    assert whole["effect", 4] == pytest.approx(0, abs=1e-5)
    # The null: another subject with the same object; and one with the other object, which brings it.
    assert abs(whole["same_value_effect", 0]) < 0.1 < 0.8 < whole["unrelated_effect", 0]
    assert whole["interchange_accuracy", 0] > 0.9
    assert (found.n_skipped >= 0).all()


def own_pairs(path: Path) -> Path:
    """Nouns crossed with verbs, the grammatical sentence first."""
    verbs = ("walk to the park", "know the story", "watch the dog", "like the horse")
    rows = []
    for noun in ("guard", "cook", "farmer", "miller", "judge", "nurse"):
        for verb in verbs:
            first, rest = verb.split(" ", 1)
            plural, singular = f"The {noun}s {first} {rest}.", f"The {noun}s {first}s {rest}."
            rows.append(f"own\tplural\t{plural}\t{singular}\n")
    path.write_text("".join(rows), encoding="utf-8")
    return path


def test_minimal_pairs_of_ones_own(tmp_path: Path) -> None:
    """What the grammar says: the verb that differs carries the number, and another verb of its number does as well."""
    found = probe(
        "patching:minimal_pairs", corpus=own_pairs(tmp_path / "own.tsv"), layers=[0, 4], controls="none"
    ).to_pandas()
    whole = found[found.group.isna()].set_index(["metric", "layer"]).value
    by_place = found[found.metric == "effect"].dropna(subset=["group"]).set_index(["group", "layer"]).value
    assert whole["effect", 0] == pytest.approx(1, abs=1e-5)
    assert by_place["mask", 4] == by_place["all", 0] == pytest.approx(1, abs=1e-5)
    assert by_place["before", 0] == pytest.approx(0, abs=1e-5)
    assert abs(whole["same_value_effect", 0]) < 0.2 < 0.8 < whole["unrelated_effect", 0]
    assert whole["fall_nats", 0] > 0.5 > whole["rise_nats", 0]


def test_mistakes_in_minimal_pairs_are_named(tmp_path: Path) -> None:
    path = own_pairs(tmp_path / "own.tsv")
    with pytest.raises(BertologyError, match="no minimal pair of islands: the source has own"):
        probe("patching:minimal_pairs:islands", corpus=path)
    path.write_text("own\tplural\tThe guards walk.\tThe guards walks.\nown\tplural\n", encoding="utf-8")
    with pytest.raises(BertologyError, match=r"own\.tsv:2: found '2 values'; expected 4"):
        probe("patching:minimal_pairs", corpus=path)
    path.write_text("own\tplural\tThe guards walk.\tThe guards.\n", encoding="utf-8")
    with pytest.raises(BertologyError, match="none of 1 minimal pairs can be patched"):
        probe("patching:minimal_pairs", corpus=path, controls="none")
