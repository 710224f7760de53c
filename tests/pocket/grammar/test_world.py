"""Facts are stated as often as they say, agreement items are minimal pairs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from bertology.pocket import agreement_items, candidates, facts, pretraining_documents
from bertology.pocket._world import EXPOSURES, people


@pytest.fixture(scope="module")
def documents() -> list[list[str]]:
    return list(pretraining_documents(250))


def test_facts_are_stated_exactly_as_often_as_they_say(documents: list[list[str]]) -> None:
    written = Counter(sentence for document in documents for sentence in document)
    for fact in facts():
        assert sum(written[fact.sentence(n)] for n in range(len(fact.templates))) == fact.n_stated, fact


def test_templates_take_turns(documents: list[list[str]]) -> None:
    written = Counter(sentence for document in documents for sentence in document)
    for fact in facts():
        counts = [written[fact.sentence(n)] for n in range(len(fact.templates))]
        assert max(counts) - min(counts) <= 1


def test_no_other_sentence_uses_the_words_of_statements(documents: list[list[str]]) -> None:
    stated = {fact.sentence(n) for fact in facts() for n in range(len(fact.templates))}
    marks = ("works as a", "by trade", "was born in", "comes from", "The home of", "The capital of", "rules in")
    names = {person.name for person in people()}
    for document in documents:
        for sentence in document:
            if any(mark in sentence for mark in marks):
                assert sentence in stated
            words = sentence.split()
            if words[0] in names and words[1:3] == ["lives", "in"]:
                assert sentence in stated


def test_exposures_are_balanced_within_each_relation() -> None:
    for relation in ("lives_in", "born_in", "works_as", "capital_of"):
        counts = Counter(fact.n_stated for fact in facts() if fact.relation == relation)
        assert set(counts) == set(EXPOSURES)
        assert max(counts.values()) - min(counts.values()) <= 1


def test_objects_are_spread_over_all_candidates() -> None:
    for relation in ("lives_in", "born_in", "works_as"):
        counts = Counter(fact.object for fact in facts() if fact.relation == relation)
        assert set(counts) <= set(candidates(relation))
        assert len(counts) > 0.75 * len(candidates(relation))
        assert max(counts.values()) <= 12


def test_pretraining_text_is_fixed_by_its_seed(documents: list[list[str]]) -> None:
    assert list(pretraining_documents(250))[:5] == documents[:5]
    assert list(pretraining_documents(5, seed=1)) != documents[:5]


def test_documents_keep_to_their_subject() -> None:
    """Sentences of one document share more names than sentences of two: that is what makes next sentences guessable."""
    documents = list(pretraining_documents(150, stated=()))
    names = {person.name for person in people()}

    def mentioned(document: list[str]) -> set[str]:
        return {word for sentence in document for word in sentence.replace(".", "").split() if word in names}

    halves = [(mentioned(d[: len(d) // 2]), mentioned(d[len(d) // 2 :])) for d in documents]
    same = sum(bool(first & second) for first, second in halves)
    other = sum(bool(first & second) for (first, _), (_, second) in pairwise(halves))
    assert same > 5 * max(1, other)


def test_words_kept_out_of_the_text_are_not_in_it(documents: list[list[str]]) -> None:
    words = {word.strip(".,?!").lower() for document in documents for sentence in document for word in sentence.split()}
    assert not words & {"wizard", "wizards", "otter", "otters", "kettle", "kettles", "juggle", "purple", "willow"}
    assert words & {"uncle", "uncles", "aunt", "aunts"}


def test_agreement_items_are_minimal_pairs() -> None:
    items = agreement_items(200)
    assert len({item.text for item in items}) == 200
    for item in items:
        assert item.text.count("[MASK]") == 1
        assert item.good != item.bad
        plural_forms = {"are", "have"}
        form = item.good if item.plural else item.bad
        assert form in plural_forms or not form.endswith("s")
    assert {item.n_attractors for item in items} == {0, 1, 2, 3}
    assert {item.structure for item in items} == {"simple", "prepositional", "subject_relative", "object_relative"}
    assert 0.4 < sum(item.plural for item in items) / len(items) < 0.6
    assert items == agreement_items(200)
