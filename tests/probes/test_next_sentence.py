from collections import Counter

import pytest

from bertology.errors import CorpusError
from bertology.pocket import pretraining_documents
from bertology_probes.next_sentence import PROBE


def test_pairs_of_a_text(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("A1\nA2\nA3\nA4\nA5\n\nB1\n\nC1\nC2\n")
    items = PROBE.items(str(path))
    found = {(item.group, item.text, item.other, item.answer) for item in items.items if item.group != "random"}
    neighbours = (("A1", "A2"), ("A3", "A4"), ("C1", "C2"))
    assert found == {
        *(("true next", one, other, "next") for one, other in neighbours),
        *(("swapped", other, one, "other") for one, other in neighbours),
    }
    random = [item for item in items.items if item.group == "random"]
    assert [item.text for item in random] == ["A1", "A3", "C1"]
    assert all(item.text[0] != item.other[0] and item.answer == "other" for item in random)
    assert [item.cluster for item in random] == ["1-book-1", "1-book-1", "3-book-9"]
    assert items.reasons == {"a document of one sentence": 1}


def test_the_pocket_world_has_no_order_but_topics():
    items = PROBE.items("pocket")
    counts = Counter(item.group for item in items.items)
    assert counts == {"true next": 335, "random": 335}
    assert items.reasons == {"nothing tells which of the two came first": 335}
    assert len({item.cluster for item in items.items}) == 100
    trained = {sentence for document in pretraining_documents(300, stated=()) for sentence in document}
    assert sum(item.text in trained for item in items.items) < 0.05 * len(items)


def test_what_has_no_documents(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("A1\nA2\nA3\n")
    with pytest.raises(CorpusError, match="part documents by a blank line"):
        PROBE.items(str(path))


def test_a_treebank(real_data):
    items = PROBE.items(str(real_data("ud_english_ewt")))
    assert Counter(item.group for item in items.items) == {"true next": 956, "random": 956, "swapped": 956}
    assert items.reasons == {"a document of one sentence": 33}
