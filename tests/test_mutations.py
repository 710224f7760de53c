"""Seeded damage is repeatable, differs from what it is made of, and counts only refusals in one line."""

import pickle

import pytest

from bertology.errors import BertologyError
from tests.mutations import accepted, mutated_bytes, mutated_tree


def test_the_same_seed_gives_the_same_mutants() -> None:
    content, tree = b"1\tthe\tDET\n2\tdog\tNOUN\n" * 5, {"a": [1, {"b": 2}], "c": "text"}
    assert list(mutated_bytes(content, seed=3, count=50)) == list(mutated_bytes(content, seed=3, count=50))
    first, second = (pickle.dumps(list(mutated_tree(tree, seed=3, count=50))) for _ in range(2))
    assert first == second


def test_mutants_differ_and_leave_the_original_alone() -> None:
    tree = {"a": [1, {"b": 2}], "c": "text"}
    mutants = list(mutated_tree(tree, seed=1, count=100))
    assert tree == {"a": [1, {"b": 2}], "c": "text"}
    assert sum(mutant != tree for mutant in mutants) > 95
    assert sum(mutant != b"abc" * 30 for mutant in mutated_bytes(b"abc" * 30, seed=1, count=100)) > 80


def _refuse(message: str) -> None:
    raise BertologyError(message)


def test_what_counts_as_a_refusal() -> None:
    assert accepted(lambda: None)
    assert not accepted(lambda: _refuse("file.conllu, line 3: not a number: 'x'"))
    with pytest.raises(AssertionError, match="several lines"):
        accepted(lambda: _refuse("a\nb"))
    with pytest.raises(AssertionError, match="characters"):
        accepted(lambda: _refuse("x" * 5000))
    with pytest.raises(ZeroDivisionError):
        accepted(lambda: 1 / 0)
