"""Objects compared, and what one does with them: no constant answer is right more than half the time."""

from __future__ import annotations

from collections import Counter

import pytest

from bertology.corpora.prompts import affordance_items, comparison_items
from bertology.corpora.prompts._sets import things


@pytest.mark.parametrize(("by", "more"), [("size", "larger"), ("weight", "heavier")])
def test_pairs_are_far_apart_and_asked_both_ways(by, more):
    measure = {thing.name: getattr(thing, by) for thing in things()}
    items = comparison_items(by)
    assert len(items) > 200
    for item in items:
        first, second = item.id.split("-")[:2]
        high, low = max(first, second, key=measure.get), min(first, second, key=measure.get)
        assert measure[high] >= 10 * measure[low]
        assert (item.good == more) == (high == first)
        assert first in item.text.lower()
        assert second in item.text.lower()
        assert not {first, second} & {*item.blind.lower().replace(".", "").split()}
    assert {*Counter(item.good for item in items).values()} == {len(items) / 2}
    assert {*Counter(item.cluster for item in items).values()} == {6}


@pytest.mark.parametrize("by", ["size", "weight"])
def test_no_object_is_in_two_pairs(by):
    frames = {item.cluster for item in comparison_items(by)}
    counts = Counter(name for frame in frames for name in frame.split())
    assert {*counts.values()} == {1}
    assert len({thing.name for thing in things()}) == len(things())


def test_wordings():
    texts = [item.text for item in comparison_items("size") if item.id.startswith("apple-")]
    (other,) = {item.cluster for item in comparison_items("size") if "apple" in item.cluster.split()}
    other = other.replace("apple", "").strip()
    assert texts == [
        f"An apple is {{mask}} than a {other}.",
        f"Compared with a {other}, an apple is {{mask}}.",
        f"Next to a {other}, an apple looks {{mask}}.",
    ]


def test_affordances_are_exchanged():
    items = affordance_items()
    assert len(items) == 240
    by_frame = {}
    for item in items:
        by_frame.setdefault(item.cluster, set()).add((item.id.split("-")[0], item.good, *item.bad))
    for (one, answer, rival), (other, *exchanged) in by_frame.values():
        assert one != other
        assert exchanged == [rival, answer]
    names = [name for frame in by_frame for name in frame.split()]
    assert len(names) == len({*names}) == 80
    assert {*Counter(item.good for item in items).values()} == {24}


def test_number_and_what_is_blind():
    (stairs,) = (item for item in affordance_items() if item.id == "stairs-0")
    assert stairs.text == "The stairs are something that you can {mask}."
    assert stairs.blind == "The {mask} are something that you can {mask}."
    (hat,) = (item for item in affordance_items() if item.id == "hat-1")
    assert hat.text == "If they have the hat, people can {mask} it."
