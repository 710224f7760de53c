"""Items made by rule: physical common sense, and numbers."""

from __future__ import annotations

import pytest

from bertology.errors import BertologyError, CorpusError
from bertology_probes.made import COMPARISONS, NUMERACY


@pytest.mark.parametrize(
    ("kind", "size", "clusters"), [("size", 240, 40), ("weight", 252, 42), ("affordance", 240, 40)]
)
def test_items_in_which_a_constant_answer_is_right_half_the_time(kind, size, clusters):
    probe = COMPARISONS.make(kind)
    items = probe.items("made")
    assert probe.task == f"comparisons:{kind}"
    assert probe.asks == "choices"
    assert (len(items), len({item.cluster for item in items.items})) == (size, clusters)
    for group in items.groups:
        of_group = [item for item in items.items if item.group == group]
        for word in {item.answer for item in of_group}:
            asked = [item for item in of_group if word in (item.answer, *item.rivals)]
            assert sum(item.answer == word for item in asked) * 2 == len(asked)


@pytest.mark.parametrize(
    ("kind", "size", "clusters"), [("decode", 300, 100), ("maximum", 360, 180), ("addition", 272, 52)]
)
def test_items_of_numbers(kind, size, clusters):
    probe = NUMERACY.make(kind)
    items = probe.items("made")
    assert probe.task == f"numeracy:{kind}"
    assert probe.asks == "choices"
    assert (len(items), len({item.cluster for item in items.items})) == (size, clusters)
    assert all(item.text.count("{mask}") == 1 and item.blind.endswith("{mask}.") for item in items.items)
    assert not items.left_out


def test_unknown_kinds_and_sources_of_numbers():
    with pytest.raises(BertologyError, match="task numeracy:product: it should be one of decode, maximum, addition"):
        NUMERACY.make("product")
    with pytest.raises(CorpusError, match=r"items are made by rule and read from no file; give made"):
        NUMERACY.make("addition").items("some/file")
