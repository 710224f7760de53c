"""Files of claims: those of the primer are whole, and a mistake is one line with file, line, claim and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology.errors import BertologyError
from bertology.primer import load_claims
from bertology.primer.claims import DEFAULT, Claims

CLAIM = """claims:
  - id: pos.v1
    section: "3.1"
    statement: Parts of speech can be read off word vectors.
    sources: [Liu et al. 2019]
    measured_by: {task: pos, on: treebank}
    rule: {name: above, against: word_majority}
    margin: {value: 0.01, reason: One point.}
    how: A linear classifier.
    caveat: What can be read off need not be used.
"""
ON = "on: treebank"
RULE = "{name: above, against: word_majority}"


def load(folder: Path, content: str) -> Claims:
    path = folder / "claims.yaml"
    path.write_text(content, encoding="utf-8")
    return load_claims(path)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("task: pos", "task: poz", 2, "claim pos.v1: task: unknown task 'poz': did you mean pos or xpos?"),
        (ON, f"{ON}, metric: acuracy", 2, "claim pos.v1: metric: unknown metric of pos 'acuracy': did you mean accur"),
        ("name: above", "name: abov", 7, "claim pos.v1: rule.name: should be above, below,"),
        (ON, "on: tree", 2, "claim pos.v1: on: unknown role of a corpus 'tree': did you mean treebank"),
        ("word_majority", "word_majorty", 2, "claim pos.v1: against or control: unknown baseline of pos 'word_m"),
        ("caveat:", "caveats:", 10, "unknown key 'caveats' in claim pos.v1: did you mean caveat?"),
        (ON, f"{ON}, control: linear_chain", 2, "claim pos.v1: against or control: unknown baseline of pos"),
        (ON, f"{ON}, readout: lineer", 2, "claim pos.v1: readout: unknown readout 'lineer': did you mean linear"),
        (ON, f"{ON}, model: tund", 2, "claim pos.v1: model: unknown role of a model 'tund'"),
        (ON, f"{ON}, at: top", 6, "claim pos.v1: measured_by.at"),
        (f", {ON}", "", 2, "claim pos.v1: rule above has no on (the role of a corpus) in measured_by"),
        ("    margin: {value: 0.01, reason: One point.}\n", "", 2, "claim pos.v1: rule above has no margin"),
        (", reason: One point.", "", 8, "key 'margin.reason' of claim pos.v1 is missing"),
        (", against: word_majority", "", 7, "claim pos.v1: rule: rule above needs against"),
        (RULE, "{name: rises, from: 0.5, to: 0.4}", 7, "claim pos.v1: rule: from is 0.5, which should be below to"),
        (RULE, "{name: share, against: 0.5}", 7, "claim pos.v1: rule: rule share needs least"),
        (RULE, "{name: order, over: [pos]}", 7, "claim pos.v1: rule: rule order needs over"),
        (
            RULE,
            "{name: difference, a: {metric: accuracy}, b: {task: position, metric: moved_shift}}",
            2,
            "claim pos.v1: rule difference: accuracy (share of items",
        ),
        ('    section: "3.1"\n', "", 2, "key 'section' of claim pos.v1 is missing"),
        ("id: pos.v1", "id: pos", 2, "claim pos: id: 'pos' should be small letters, digits and - with a version"),
    ],
)
def test_a_mistake_is_one_line_with_file_line_claim_and_field(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    assert CLAIM.count(old) == 1
    with pytest.raises(BertologyError) as caught:
        load(tmp_path, CLAIM.replace(old, new))
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{tmp_path / 'claims.yaml'}:{line}: {message}"), text


def test_two_claims_need_two_ids(tmp_path: Path) -> None:
    with pytest.raises(BertologyError, match=r"claims\.yaml:\d+: claims: two claims are called 'pos\.v1'"):
        load(tmp_path, CLAIM + CLAIM.removeprefix("claims:\n"))


def test_a_file_without_roles_has_those_of_the_primer(tmp_path: Path) -> None:
    assert load(tmp_path, CLAIM).roles == load_claims().roles


def test_over_may_name_the_corpus_of_each_value(tmp_path: Path) -> None:
    rule = "{name: order, over: {pos: treebank, srl: srl}, measured_by: {task: 'edge_{x}'}}"
    (claim,) = load(tmp_path, CLAIM.replace(RULE, rule)).claims
    measured = [(one.task, one.on) for one in claim.measurements(claim.rule[0])]
    assert measured == [("edge_pos", "treebank"), ("edge_srl", "srl")]


def test_baselines_of_a_difference_are_measured_on_both_sides(tmp_path: Path) -> None:
    rule = "{name: difference, against: majority, a: {task: deprel}, b: {task: pos}}"
    (claim,) = load(tmp_path, CLAIM.replace(RULE, rule)).claims
    measured = {(one.task, one.control) for one in claim.measurements(claim.rule[0])}
    assert measured == {(task, control) for task in ("pos", "deprel") for control in ("none", "majority")}


def test_the_primers_claims_are_whole_and_in_the_order_of_their_sections() -> None:
    claims = load_claims()
    order = [list(claims.sections).index(claim.section) for claim in claims.claims]
    assert order == sorted(order)
    assert {role for roles in claims.roles.values() for role in roles} == {*claims.roles["pocket"]}
    assert {*claims.roles["pocket"]} == {*claims.roles["en"]}
    for claim in claims.claims:
        for text in (claim.statement, claim.how, claim.caveat, *((claim.margin.reason,) if claim.margin else ())):
            assert len(text) > 10, claim.id
            assert text.endswith("."), claim.id
        assert claim.statement.count(".") <= 1 + claim.statement.count("…"), claim.id


def test_every_role_serves_a_claim() -> None:
    claims = load_claims()
    served = {one.on for claim in claims.claims for rule in claim.rule for one in claim.measurements(rule)}
    assert {*claims.roles["pocket"]} <= served
    text = DEFAULT.read_text(encoding="utf-8")
    assert all(f"    {role}:" in text for role in claims.roles["pocket"])
