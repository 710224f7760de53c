"""ParaRel."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from bertology.corpora.prompts import LeftOut, read_pararel
from bertology.corpora.prompts._lama import LamaFact
from bertology.errors import CorpusError

FACT = {"sub_label": "Ada", "obj_label": "London", "uuid": "1"}


def write(root: Path, relation: str, facts: list[dict[str, object]], patterns: list[str] | None) -> None:
    for name, objects in (
        ("trex_lms_vocab", facts),
        ("pattern_data/graphs_json", None if patterns is None else [{"pattern": pattern} for pattern in patterns]),
    ):
        (root / name).mkdir(parents=True, exist_ok=True)
        if objects is not None:
            lines = "".join(json.dumps(one) + "\n" for one in objects)
            (root / name / f"{relation}.jsonl").write_text(lines, encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "data", "P19", [FACT], ["[X] was born in [Y].", "[Y] is where [X] comes from."])
    return tmp_path


@pytest.mark.parametrize("below", ["", "data", "data/trex_lms_vocab", "data/trex_lms_vocab/P19.jsonl"])
def test_a_fact_is_put_into_every_pattern(root: Path, below: str) -> None:
    facts, unasked = read_pararel(root / below)
    texts = ("Ada was born in {mask}.", "{mask} is where Ada comes from.")
    assert facts == (LamaFact("P19:1", "P19", "Ada", "London", texts[0], texts=texts),)
    assert unasked == ()


def test_what_cannot_be_asked_is_listed_with_its_reason(root: Path) -> None:
    write(root / "data", "P1", [FACT], ["[X] is [Y]."])
    write(root / "data", "P2", [FACT], None)
    broken = [{**FACT, "sub_label": ""}, {**FACT, "obj_label": " "}, {**FACT, "sub_label": "a <mask>"}]
    write(root / "data", "P3", broken, ["[X] is [Y].", "[X] was [Y]."])
    facts, unasked = read_pararel(root)
    assert [fact.id for fact in facts] == ["P19:1"]
    assert unasked == (
        LeftOut("P1:1", "P1", "relation with a single pattern"),
        LeftOut("P2:1", "P2", "relation without a pattern"),
        LeftOut("P3:1", "P3", "subject without a label"),
        LeftOut("P3:2", "P3", "object without a label"),
        LeftOut("P3:3", "P3", "more than one mask in the sentence"),
    )


@pytest.mark.parametrize(
    ("facts", "patterns", "message"),
    [
        ([FACT], ["[X] is.", "[X] is [Y]."], r"graphs_json.P5.jsonl:1: no \[Y\] in '\[X\] is.'"),
        ([FACT], ["[X] is [Y].", "is [Y]."], r"graphs_json.P5.jsonl:2: no \[X\] in"),
        ([FACT], ["[X] [Y]", "[X] [Y]"], r"graphs_json.P5.jsonl:2: the pattern of line 1 once more"),
        ([{"sub_label": "Ada"}], ["[X] [Y]", "[X], [Y]"], "trex_lms_vocab.P5.jsonl:1: obj_label is missing"),
        ([], ["[X] [Y]", "[X], [Y]"], "trex_lms_vocab.P5.jsonl: nothing in it"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, facts: list[dict[str, object]], patterns: list[str], message: str
) -> None:
    write(tmp_path, "P5", facts, patterns)
    with pytest.raises(CorpusError, match=message):
        read_pararel(tmp_path)


def test_another_folder(tmp_path: Path, root: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere: no such file or folder; give ParaRel's data folder"):
        read_pararel(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="empty: not ParaRel; give ParaRel's data folder"):
        read_pararel(tmp_path / "empty")
    (root / "data/trex_lms_vocab/P19.jsonl").unlink()
    with pytest.raises(CorpusError, match="trex_lms_vocab: no facts in it"):
        read_pararel(root)


def test_the_published_facts(real_data) -> None:
    facts, unasked = read_pararel(real_data("pararel"))
    assert len(facts) + len(unasked) == 29_411
    assert Counter((one.group, one.reason) for one in unasked) == {
        ("P1001", "relation with a single pattern"): 664,
        ("P31", "relation without a pattern"): 879,
        ("P527", "relation without a pattern"): 922,
    }
    patterns = {fact.group: len(fact.texts) for fact in facts}
    # As many as the paper has (section 3.1).
    assert (len(patterns), sum(patterns.values())) == (38, 328)
    assert sum(len(fact.texts) for fact in facts) == 224_010
    assert all(text.count("{mask}") == 1 and fact.subject in text for fact in facts for text in fact.texts)
