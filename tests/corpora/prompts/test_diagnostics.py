"""Ettinger's three sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology.corpora.prompts import NegationItem, PragmaticItem, RoleItem, read_diagnostics, with_article
from bertology.errors import CorpusError

CPRAG = "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n"
ROLE = "item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)\n"
SIMPLE = "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n"
NATURAL = SIMPLE.replace("\n", "\tlicensing\n")


def _written(folder: Path, text: str, name: str = "any.tsv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_items_of_each_set(tmp_path):
    _written(tmp_path, CPRAG + "0\tIt rained.\tShe took an\tumbrella\tcoat\tdog\tH\r\n", "a/cprag.tsv")
    _written(tmp_path, ROLE + "6-a\twhich man the dog had \tbitten|worked for\t0.5\tbitten\t0.5\t0\n", "b/x.tsv")
    _written(tmp_path, SIMPLE + "3\tAn ant is (a|an)\tAn ant is not (a|an)\tinsect\tbird\n\n", "b/y.tsv")
    _written(tmp_path, NATURAL + "3\tTea is\tTea isn't\tgood\tbad\tN\n", "b/z.tsv")
    _written(tmp_path, "0\tno column names\n", "b/explanations.tsv")
    found = read_diagnostics(tmp_path)
    assert found.pragmatic == (PragmaticItem("0", "It rained.", "She took an", "umbrella", "coat", "dog", "high"),)
    assert found.roles == (RoleItem("6-a", "which man the dog had", ("bitten", "worked for"), "bitten"),)
    assert (found.roles[0].pair, found.roles[0].reversed) == ("6", False)
    assert found.negation == (
        NegationItem("simple-3", "An ant is (a|an)", "An ant is not (a|an)", "insect", "bird", None),
        NegationItem("natural-3", "Tea is", "Tea isn't", "good", "bad", False),
    )
    assert sorted(found.files) == ["CPRAG-102", "NEG-136-NAT", "NEG-136-SIMP", "ROLE-88"]
    alone = read_diagnostics(tmp_path / "b" / "y.tsv")
    assert (alone.pragmatic, alone.roles, len(alone.negation)) == ((), (), 1)


def test_the_article_is_that_of_the_word():
    assert with_article("A pea is (a|an)", "insect") == "A pea is an"
    assert with_article("A pea is (a|an)", "vegetable") == "A pea is a"
    assert with_article("Tea is very", "old") == "Tea is very"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CPRAG + "0\tA.\tb\tc\td\te\n", r"any.tsv:2: 6 values where the table has 7 columns; mend"),
        (CPRAG + "0\tA.\tb\tc\td\te\tM\n", r"any.tsv:2: 'M' in column constraint; it should be H or L"),
        (CPRAG + "0\tA.\tb\tc\t\te\tH\n", r"any.tsv:2: nothing in column within_category; write it there"),
        (CPRAG + 2 * "0\tA.\tb\tc\td\te\tH\n", r"any.tsv:3: a second item '0'; give each a name"),
        (CPRAG, r"any.tsv: no item in it, only column names"),
        (ROLE + "6\ta had\tb\t1\tb\t1\t1\n", r"any.tsv:2: item '6'; write a number and -a, or -b for the roles rev"),
        (ROLE + "6-a\ta had\t|\t1\tb\t1\t1\n", r"any.tsv:2: no word in column expected; part words by \|"),
        (
            NATURAL + "3\tTea is\tTea isn't\tgood\tbad\tyes\n",
            r"any.tsv:2: 'yes' in column licensing; it should be Y or",
        ),
        (
            "item\tcontext\n",
            r"any.tsv: no columns .* among item, context, nor those of CPRAG-102, ROLE-88, .*; name them",
        ),
        ("", r"any.tsv: no columns .* among none, nor those of CPRAG-102"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        read_diagnostics(_written(tmp_path, text))


def test_two_files_of_one_set_and_no_file(tmp_path):
    for name in ("one.tsv", "two.tsv"):
        _written(tmp_path, SIMPLE + "3\tA is (a|an)\tA is not (a|an)\tb\tc\n", name)
    with pytest.raises(CorpusError, match=r"one.tsv and .*two.tsv both hold NEG-136-SIMP; keep one"):
        read_diagnostics(tmp_path)
    with pytest.raises(CorpusError, match=r"three.tsv: no such file"):
        read_diagnostics(tmp_path / "three.tsv")


def test_the_sets(real_data):
    found = read_diagnostics(real_data("lm_diagnostics"))
    assert (len(found.pragmatic), len(found.roles), len(found.negation)) == (34, 88, 34)
    assert sum(item.constraint == "high" for item in found.pragmatic) == 18
    assert [sum(item.licensed is kind for item in found.negation) for kind in (None, True, False)] == [18, 8, 8]
    targets = {item.id: item.target for item in found.roles}
    assert all(targets[f"{item.pair}-a"] == targets[f"{item.pair}-b"] for item in found.roles)
    assert all({*first.context.split()} == {*second.context.split()} for first, second in _pairs(found.roles))


def _pairs(roles: tuple[RoleItem, ...]) -> list[tuple[RoleItem, RoleItem]]:
    by_id = {item.id: item for item in roles}
    return [(by_id[f"{item.pair}-a"], item) for item in roles if item.reversed]
