"""Minimal pairs of BLiMP and of Marvin & Linzen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bertology.corpora.prompts import LeftOut, MinimalPair, read_minimal_pairs
from bertology.errors import CorpusError

PAIR = {
    "sentence_good": "Dogs  bark.",
    "sentence_bad": "Dogs barks.",
    "UID": "agreement_1",
    "pairID": "7",
    "linguistics_term": "subject_verb_agreement",
    "field": "morphology",
}


def write(path: Path, *found: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in found), encoding="utf-8")
    return path


def test_a_pair_of_blimp(tmp_path):
    (pair,) = read_minimal_pairs(write(tmp_path / "a.jsonl", PAIR))
    assert pair == MinimalPair(
        "agreement_1-7", "blimp", "agreement_1", "Dogs bark.", "Dogs barks.", "agreement_1-7"
    )  # fmt: skip


def test_twice_the_same_sentence_cannot_be_asked(tmp_path):
    path = write(tmp_path / "a.jsonl", PAIR | {"sentence_bad": "Dogs bark."}, PAIR | {"pairID": 8})
    same, pair = read_minimal_pairs(path)
    assert same == LeftOut("agreement_1-7", "agreement_1", "the two sentences are the same")
    assert pair.id == "agreement_1-8"


def test_items_of_negative_polarity_are_two_pairs(tmp_path):
    sentences = ["no dogs that the cat likes ever bark", "the dogs that no cat likes ever bark"]
    item = {
        "case": "npi_across_anim",
        "condition": "past",
        "sentences": [*sentences, "most dogs that the cat likes ever bark"],
    }
    intrusive, other = read_minimal_pairs(write(tmp_path / "npi.jsonl", item))
    assert (intrusive.id, intrusive.group, intrusive.frame) == ("npi-1", "npi_across_anim (intrusive)", "dog no/the")
    assert (other.id, other.group, other.frame) == ("npi-1-third", "npi_across_anim (most, many)", "dog most/no")
    assert (intrusive.good, intrusive.bad) == tuple(sentences)
    assert (other.good, other.bad.split()[0]) == (sentences[0], "most")


def test_sentences_may_differ_in_length_and_stand_in_a_table(tmp_path):
    (tmp_path / "a.tsv").write_text("simple_agrmt\tsing\tthe dogs bark\tthe dogs do barks\n", encoding="utf-8")
    (pair,) = read_minimal_pairs(tmp_path)
    assert pair == MinimalPair(
        "a-1", "marvin_linzen", "simple_agrmt", "the dogs bark", "the dogs do barks", "dog bark/barks/do"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentence_good": None}, r"a.jsonl:2: column 'sentence_good' is empty; give a text, or leave the row out"),
        ({"sentence_bad": " "}, r"a.jsonl:2: column 'sentence_bad' is empty; give a text, or leave the row out"),
        ({"sentence_bad": 3}, r"a.jsonl:2: column 'sentence_bad' is 3, no text"),
        ({"UID": 3.5}, r"a.jsonl:2: column 'UID' is 3.5, no text"),
        ({"pairID": None}, r"a.jsonl:2: column 'pairID' is empty"),
        ({"pairID": True}, r"a.jsonl:2: column 'pairID' is True, no text"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, change, message):
    with pytest.raises(CorpusError, match=message):
        list(read_minimal_pairs(write(tmp_path / "a.jsonl", PAIR, PAIR | change)))


def test_stimuli_that_are_no_list(tmp_path):
    item = {"case": "prep_anim", "condition": "s", "sentences": "a"}
    with pytest.raises(CorpusError, match=r"a.jsonl:1: sentences should be a list"):
        list(read_minimal_pairs(write(tmp_path / "a.jsonl", item)))


def test_a_file_with_nothing_in_it(tmp_path):
    (tmp_path / "a.tsv").write_text("\n")
    with pytest.raises(CorpusError, match=r"a.tsv: no item in it; name a file of minimal pairs"):
        list(read_minimal_pairs(tmp_path))


def test_paradigms(real_data: Callable[[str], Path]) -> None:
    pairs = [pair for pair in read_minimal_pairs(real_data("blimp")) if isinstance(pair, MinimalPair)]
    groups = Counter(pair.group for pair in pairs)
    assert len(groups) == 23
    assert set(groups.values()) == {1_000}
    assert len({pair.id for pair in pairs}) == 23_000
    assert all(pair.frame == pair.id and pair.good != pair.bad for pair in pairs)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("simple_npi_anim", {"simple_npi_anim": 120, "simple_npi_anim (most, many)": 120}),
        ("simple_npi_inanim", {"simple_npi_inanim": 144, "simple_npi_inanim (most, many)": 144}),
        ("npi_across_anim", {"npi_across_anim (intrusive)": 4_800, "npi_across_anim (most, many)": 4_800}),
        ("npi_across_inanim", {"npi_across_inanim (intrusive)": 5_760, "npi_across_inanim (most, many)": 5_760}),
        ("simple_agrmt", {"simple_agrmt": 140}),
        ("sent_comp", {"sent_comp": 1_680}),
        ("reflexive_sent_comp", {"reflexive_sent_comp": 3_360}),
        ("obj_rel_across_inanim", {"obj_rel_across_inanim": 11_200}),
    ],
)
def test_cases(real_data: Callable[[str], Path], name: str, expected: dict[str, int]) -> None:
    pairs = list(read_minimal_pairs(real_data("marvin_linzen") / "emnlp2018" / f"{name}.jsonl"))
    assert Counter(pair.group for pair in pairs) == expected
    assert len({pair.id for pair in pairs}) == len(pairs)
    for pair in pairs:
        assert isinstance(pair, MinimalPair)
        assert pair.good != pair.bad
        assert ("(most, many)" in pair.group) == (pair.bad.split()[0] in ("most", "many"))
