"""What was unusual, counted and listed."""

from __future__ import annotations

from bertology.corpora._files import Oddities


def test_what_is_odd_is_counted_with_its_first_place():
    oddities = Oddities()
    oddities.note("odd", "a:1")
    oddities.note("odd", "a:2", times=3)
    assert oddities.notes() == {"odd": "4, first at a:1"}
    assert oddities.skipped() == {}


def test_what_is_left_out_is_listed_in_full_and_noted_in_part():
    oddities = Oddities()
    for number in range(12):
        oddities.skip("left out", f"a:{number}")
    assert oddities.skipped() == {"left out": tuple(f"a:{number}" for number in range(12))}
    assert oddities.notes() == {"left out": "12: " + ", ".join(f"a:{number}" for number in range(10)) + " and 2 more"}
