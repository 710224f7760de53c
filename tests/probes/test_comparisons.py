from __future__ import annotations

import pytest

from bertology.errors import BertologyError, CorpusError
from bertology_probes.comparisons import PROBE


@pytest.mark.parametrize(
    ("kind", "size", "clusters"), [("size", 240, 40), ("weight", 252, 42), ("affordance", 240, 40)]
)
def test_items_in_which_a_constant_answer_is_right_half_the_time(kind, size, clusters):
    probe = PROBE.make(kind)
    items = probe.items("made")
    assert probe.task == f"comparisons:{kind}"
    assert probe.asks == "choices"
    assert (len(items), len({item.cluster for item in items.items})) == (size, clusters)
    for group in items.groups:
        of_group = [item for item in items.items if item.group == group]
        for word in {item.answer for item in of_group}:
            asked = [item for item in of_group if word in (item.answer, *item.rivals)]
            assert sum(item.answer == word for item in asked) * 2 == len(asked)


def test_what_there_is_not():
    with pytest.raises(BertologyError, match="comparisons:colour: it should be one of size, weight, affordance"):
        PROBE.make("colour")
    with pytest.raises(CorpusError, match=r"things of the pocket world have no size, weight or use; give made"):
        PROBE.make("size").items("pocket")
