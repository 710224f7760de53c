"""Negated and misprimed LAMA."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from bertology.corpora.prompts import LeftOut, PrimedFact, read_primed
from bertology.errors import CorpusError


def plain(prime: str = "Kabul", **more: object) -> dict[str, object]:
    return {
        "sub_label": "Ada",
        "obj_label": "London",
        "masked_sentences": ["Ada was born in [MASK] ."],
        "masked_negations": ["Ada was  not born in [MASK] ."],
        "masked_misprimed": [f"{prime}? Ada was born in [MASK] ."],
        **more,
    }


def write(path: Path, *objects: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "data/TREx/high_ranked/P19.jsonl", plain())
    write(tmp_path / "data/TREx/random/P19_random.jsonl", plain("Paper", sub_label="Ada"))
    return tmp_path


def test_a_fact_with_several_primes_is_one_fact(folder: Path) -> None:
    facts, unasked = read_primed(folder)
    assert facts == (
        PrimedFact(
            id="T-REx:P19:1",
            set="T-REx",
            group="T-REx P19",
            subject="Ada",
            answer="London",
            text="Ada was born in {mask} .",
            negated="Ada was not born in {mask} .",
            misprimed={
                "high-ranked": "Kabul? Ada was born in {mask} .",
                "random": "Paper? Ada was born in {mask} .",
            },
        ),
    )
    assert facts[0].group == "T-REx P19"
    assert unasked == ()


@pytest.mark.parametrize(
    ("below", "kinds"),
    [
        ("data/TREx", ["high-ranked", "random"]),
        ("data/TREx/random", ["random"]),
        ("data/TREx/high_ranked/P19.jsonl", ["high-ranked"]),
    ],
)
def test_a_part_of_it(folder: Path, below: str, kinds: list[str]) -> None:
    ((fact,), _) = read_primed(folder / below)
    assert list(fact.misprimed) == kinds


def test_a_set_of_one_file_and_a_file_of_ones_own(tmp_path: Path) -> None:
    write(tmp_path / "SQUAD/random/Squad.jsonl", plain(sub_label="Squad"))
    ((squad,), _) = read_primed(tmp_path)
    assert (squad.id, squad.group, squad.subject) == ("SQuAD:1", "SQuAD", "")
    one = plain()
    del one["masked_misprimed"]
    ((own,), _) = read_primed(write(tmp_path / "mine/births.jsonl", one))
    assert (own.id, own.group, own.misprimed) == ("mine:births:1", "mine births", {})


def test_what_cannot_be_asked_is_listed_with_its_reason(folder: Path) -> None:
    write(
        folder / "data/TREx/low_ranked/P20.jsonl",
        plain(obj_label=""),
        plain(masked_sentences=["none"]),
        plain(masked_negations=["[MASK] and [MASK]"]),
    )
    facts, unasked = read_primed(folder)
    assert len(facts) == 1
    assert unasked == (
        LeftOut("T-REx:P20:1:low-ranked", "T-REx P20", "object without a label"),
        LeftOut("T-REx:P20:2:low-ranked", "T-REx P20", "no mask in the sentence"),
        LeftOut("T-REx:P20:3:low-ranked", "T-REx P20", "more than one mask in the sentence"),
    )


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (
            plain(masked_negations=["Ada was never born in [MASK] ."]),
            "P19.jsonl:1: 'Ada was .*' is negated in another way",
        ),
        (plain(masked_sentences=None), "P19.jsonl:1: masked_sentences is missing; write a list of sentences"),
        (plain(masked_misprimed=[1]), "P19.jsonl:1: masked_misprimed is .1.; write a list of sentences"),
        ({"obj_label": "a"}, "P19.jsonl:1: sub_label is missing"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, one: dict[str, object], message: str) -> None:
    write(folder / "data/TREx/low_ranked/P19.jsonl", one)
    with pytest.raises(CorpusError, match=message):
        read_primed(folder)


def test_one_prompt_primed_in_two_ways(folder: Path) -> None:
    write(folder / "data/TREx/high_ranked/P19.jsonl", plain(), plain("Paris"))
    with pytest.raises(CorpusError, match=r"P19.jsonl:2: 'Ada was .*' is primed in another way than before"):
        read_primed(folder)


def test_another_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no facts in it; give the data folder of negated and misprimed LAMA"):
        read_primed(tmp_path)
    with pytest.raises(CorpusError, match="no such file or folder"):
        read_primed(tmp_path / "nowhere")
    write(tmp_path / "relations.jsonl", {})
    with pytest.raises(CorpusError, match="LAMA as it was first, without negated or misprimed sentences"):
        read_primed(tmp_path)


def test_the_published_facts(real_data) -> None:
    facts, unasked = read_primed(real_data("lama_primed_negated"))
    assert unasked == ()
    assert Counter(fact.set for fact in facts) == {"T-REx": 10_469, "Google-RE": 499, "ConceptNet": 146, "SQuAD": 51}
    assert Counter((fact.set, kind) for fact in facts for kind in fact.misprimed) == {
        **{("T-REx", kind): 10_469 for kind in ("high-ranked", "low-ranked", "random")},
        **{("ConceptNet", kind): 146 for kind in ("high-ranked", "low-ranked", "random")},
        **{("Google-RE", "high-ranked"): 499, ("Google-RE", "low-ranked"): 485, ("Google-RE", "random"): 499},
        **{("SQuAD", "high-ranked"): 51, ("SQuAD", "random"): 51},
    }
    assert len({fact.group for fact in facts}) == 40 + 3 + 1 + 1
    assert all(text.endswith(fact.text) for fact in facts for text in fact.misprimed.values())
