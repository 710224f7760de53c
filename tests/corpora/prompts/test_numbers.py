"""Number items: what is right is right, and the rules that the documentation states hold."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from bertology.corpora.prompts import addition_items, decode_items, maximum_items
from bertology.corpora.prompts._sets import number_word
from bertology.errors import CorpusError


def test_number_words():
    assert [number_word(n) for n in (0, 7, 13, 20, 21, 99)] == [
        "zero", "seven", "thirteen", "twenty", "twenty-one", "ninety-nine",
    ]  # fmt: skip
    assert len({number_word(n) for n in range(100)}) == 100
    with pytest.raises(ValueError, match="100 is not between 0 and 99"):
        number_word(100)


def test_digits_of_every_number():
    items = decode_items()
    assert Counter(item.group for item in items) == {"0 to 9": 30, "10 to 19": 30, "20 to 99": 240}
    for item in items:
        assert number_word(int(item.good)) in item.text.lower()
        assert number_word(int(item.good)) not in re.findall(r"[a-z-]+", item.blind.lower())
        assert item.blind.count("{mask}") == 2
        assert len({item.good, *item.bad}) == 4
        assert {len(rival) for rival in item.bad} == {len(item.good)}


def test_largest_and_smallest_of_lists():
    items = maximum_items()
    assert set(Counter(item.group for item in items).values()) == {60}
    places = {2: Counter(), 3: Counter(), 5: Counter()}
    for item in items:
        numbers = [int(number) for number in re.findall(r"\d+", item.text)]
        right = max(numbers) if "largest" in item.group else min(numbers)
        assert (int(item.good), {int(rival) for rival in item.bad}) == (right, {*numbers} - {right})
        assert len({*numbers}) == len(numbers)
        assert not re.search(r"\d", item.blind)
        if "largest" in item.group:
            places[len(numbers)][numbers.index(right)] += 1
    assert [sorted(counts.values()) for counts in places.values()] == [[30, 30], [20, 20, 20], [12] * 5]


def test_sums():
    items = addition_items()
    assert Counter(item.group for item in items) == {"0 to 9": 72, "10 to 19": 100, "20 to 99": 100}
    for item in items:
        one, other = map(int, re.findall(r"\d+", item.text))
        assert int(item.good) == one + other
        assert item.cluster == item.good
        assert one
        assert other
        assert {abs(int(rival) - one - other) for rival in item.bad} <= {1, 2, 10}
        assert len({*item.bad}) == 3
        assert item.group.split(" to ")[1] >= item.good or len(item.good) == 1


@pytest.mark.parametrize("make", [decode_items, maximum_items, addition_items])
def test_items_are_the_same_every_time_and_have_names_of_their_own(make):
    assert make() == make()
    assert len({item.id for item in make()}) == len(make())
    assert all(item.text.count("{mask}") == 1 for item in make())


def test_chance_is_the_seed_s(tmp_path):
    from bertology.corpora.prompts import check_made, drawn_order, shuffled_words

    assert drawn_order("abcdef", "seed") == drawn_order("abcdef", "seed") != drawn_order("abcdef", "other")
    assert sorted(drawn_order("abcdef", "seed")) == list("abcdef")
    assert all(shuffled_words(["a", "b"], str(seed)) == ["b", "a"] for seed in range(20))
    with pytest.raises(ValueError, match="'a a' has no other order"):
        shuffled_words(["a", "a"], "seed")
    check_made("made", pocket="none")
    with pytest.raises(CorpusError, match=r"^none; give made for the corpus"):
        check_made("pocket", pocket="none")
    with pytest.raises(CorpusError, match="read from no file; give made for the corpus"):
        check_made(str(tmp_path), pocket="none")
