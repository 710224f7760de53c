"""What cloze probes ask: checks, samples and fingerprints."""

import itertools
from dataclasses import replace

import pytest

from bertology.cloze import ClozeItem, ClozeItems
from bertology.errors import CorpusError
from bertology.probing import LeftOut


def item(number: int, group: str = "a", **changes: object) -> ClozeItem:
    plain = ClozeItem(f"i{number}", f"c{number // 4}", group, "The {mask} runs.", answer="dog")
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_nothing_to_ask_says_why() -> None:
    with pytest.raises(CorpusError, match=r"no item to ask \(of all: two masks\)"):
        ClozeItems((), (LeftOut("x", "a", "two masks"),))


def test_two_items_of_one_name() -> None:
    with pytest.raises(CorpusError, match="two items are called 'i1'"):
        ClozeItems((item(1), item(1)))


@pytest.mark.parametrize(
    ("asks", "changes", "told"),
    [
        ("answers", {"answer": ""}, "has no answer"),
        ("choices", {}, "has no rival to choose from"),
        ("contexts", {}, "has no other text"),
        ("sentences", {"other": " "}, "has no other text"),
        ("changes", {}, "has no other text"),
        ("next_sentence", {"other": "And so on."}, "has the answer 'dog': write next or other"),
        ("answers", {"text": " "}, "has no text"),
        ("answers", {"text": "The {mask} {mask}."}, "should have one {mask} in each of its texts"),
        ("changes", {"other": "The dog runs."}, "should have one {mask} in each of its texts"),
    ],
)
def test_what_an_item_lacks(asks: str, changes: dict[str, object], told: str) -> None:
    with pytest.raises(CorpusError, match=f"item 'i0' {told}"):
        ClozeItems((item(0, **changes),)).check(asks)  # type: ignore[arg-type]


def test_samples_are_drawn_by_lot_in_each_group() -> None:
    items = ClozeItems(tuple(item(number, "a" if number < 200 else "b") for number in range(203)))
    some = items.some_of_each_group(40)
    drawn = [int(one.id[1:]) for one in some.items]
    assert drawn == sorted(drawn)
    assert [number for number in drawn if number >= 200] == [200, 201, 202]
    of_a = [number for number in drawn if number < 200]
    assert len(of_a) == 40
    assert len({later - earlier for earlier, later in itertools.pairwise(of_a)}) > 3
    # more of the same are the same and more, whatever else there is
    more = ClozeItems(items.items[:200]).some_of_each_group(60)
    assert set(of_a) < {int(one.id[1:]) for one in more.items}


def test_samples_of_whole_clusters() -> None:
    items = ClozeItems(tuple(item(number) for number in range(20)))
    some = items.some_of_each_group(8, whole_clusters=True)
    assert len({one.cluster for one in some.items}) == 2
    assert len(some) == 8
    assert len(items.some_of_each_group(1, whole_clusters=True)) == 4


def test_the_fingerprint_is_of_all_that_is_asked() -> None:
    plain = ClozeItems((item(0), item(1)))
    assert ClozeItems((item(0), item(1))).fingerprint == plain.fingerprint
    told = item(1, subject="dogs", kind="a set", variants={"1": "A {mask} runs."}, n_attractors=1)
    assert ClozeItems((item(0), told)).fingerprint == plain.fingerprint
    assert repr(told) == repr(item(1))
    for changed in (
        ClozeItems((item(1), item(0))),
        ClozeItems((item(0), item(1, answer="cat"))),
        ClozeItems((item(0), item(1, ignored=("cat",)))),
        ClozeItems((item(0), item(1, blind="The {mask}."))),
        ClozeItems((item(0), item(1)), vocabularies={"a": ("dog",)}),
        ClozeItems((item(0), item(1)), (LeftOut("i2", "a", "two masks"),)),
    ):
        assert changed.fingerprint != plain.fingerprint
