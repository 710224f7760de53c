"""Pairs of texts that differ in the number of the subject."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertology.causal import agreement_pairs, patch
from bertology.encoders import load_encoder
from bertology.errors import ClozeError
from bertology.pocket import agreement_items
from bertology.pocket._words import lexicon


def test_pairs_of_the_pocket_world_differ_in_the_subject_alone() -> None:
    pairs = agreement_pairs()
    items = {item.text.replace("{mask}", "[MASK]"): item for item in agreement_items()}
    assert len(pairs) == sum(item.group != "subject relative" for item in items.values())
    nouns = (noun for of_kind in lexicon("known").nouns.values() for noun in of_kind.items if noun.plural)
    numbers = {(noun.singular.form, noun.plural.form) for noun in nouns if noun.plural}
    for pair in pairs:
        words, others = pair.text.split(), pair.other.split()
        (place,) = (n for n, (a, b) in enumerate(zip(words, others, strict=True)) if a != b)
        assert pair.places[place] == "subject"
        assert pair.places[words.index("[MASK]")] == "mask"
        assert set(pair.places[:place]) == {"before"}
        item = items[pair.text]
        assert (pair.good, pair.bad) == (item.answer, *item.rivals)
        plural, singular = (words, others) if "singular" in item.variants else (others, words)
        assert (singular[place], plural[place]) in numbers


def test_number_of_the_subject_decides_and_attractors_do_not() -> None:
    """What the grammar says: whatever attractors stand between, all of the effect begins at the subject."""
    encoder = load_encoder("pocket")
    found = patch(encoder, agreement_pairs(structure="prepositional", most=40))
    table = found.to_pandas().set_index(["layer", "place"])
    last = encoder.n_layers
    assert table.effect[0, "subject"] == pytest.approx(1, abs=1e-5)
    assert table.effect[0, "between"] == pytest.approx(0, abs=1e-5)
    assert table.effect[last, "mask"] == pytest.approx(1, abs=1e-5)
    assert (found.whole > 0).mean() > 0.9
    assert np.abs(table.effect.unstack().loc[:, "between"]).max() < 0.4
    assert table.ci_low[1, "subject"] > table.ci_high[1, "between"]


def test_items_of_a_set_are_paired_by_the_number_of_one_noun(tmp_path: Path) -> None:
    rows = [
        ("sing", ["the author near the pilots laughs", "the author near the pilots laugh"]),
        ("plur", ["the authors near the pilots laugh", "the authors near the pilots laughs"]),
        ("sing", ["the chef near the pilots laughs", "the chef near the pilots laugh"]),
    ]
    lines = [
        json.dumps({"case": "prep_anim", "condition": f"{number}_MS_MV", "sentences": texts}) for number, texts in rows
    ]
    path = tmp_path / "stimuli.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (pair,) = agreement_pairs(path)
    assert pair.text.startswith("the author near")
    assert pair.other.startswith("the authors near")
    assert (pair.good, pair.bad) == ("laughs", "laugh")
    assert pair.places[:5] == ("before", "subject", "between", "between", "between")
    with pytest.raises(ClozeError, match="no two items of structure simple"):
        agreement_pairs(path, structure="simple")
