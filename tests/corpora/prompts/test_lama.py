"""LAMA, ParaRel, and negated and misprimed LAMA."""

import json
from collections import Counter
from pathlib import Path

import pytest

from bertology.corpora.prompts import ClozeItem, LeftOut
from bertology.corpora.prompts.lama import read_lama, read_pararel, read_primed, read_relations
from bertology.errors import CorpusError

BORN = {"relation": "P19", "template": "[X] was born in [Y] .", "label": "place of birth", "type": "N-1"}
TEAM = {"relation": "P1923", "template": "[Y] participated in the [X] .", "type": "N-M"}


def write(path: Path, *objects: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(one) for one in objects) + "\n", encoding="utf-8")
    return path


def born(subject: str = "Ada", answer: str = "London", **more: object) -> dict[str, object]:
    return {"predicate_id": "P19", "sub_label": subject, "obj_label": answer, **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with its relations, as LAMA has it."""
    write(tmp_path / "data" / "relations.jsonl", BORN, TEAM)
    return tmp_path


def test_a_fact_is_put_into_the_template_of_its_relation(folder: Path) -> None:
    write(folder / "data/TREx/P19.jsonl", born(), born("Grace", " New York "))
    facts, unasked = read_lama(folder)
    assert facts[0] == ClozeItem(
        id="P19:1",
        cluster="Ada",
        group="N-1 P19 place of birth",
        subject="Ada",
        answer="London",
        text="Ada was born in {mask} .",
        blind="{mask} was born in {mask} .",
    )
    assert (facts[1].id, facts[1].answer) == ("P19:2", "New York")
    assert unasked == ()


@pytest.mark.parametrize("below", ["", "data", "data/TREx", "data/TREx/P19.jsonl"])
def test_folders_at_any_level_and_single_files(folder: Path, below: str) -> None:
    write(folder / "data/TREx/P19.jsonl", born())
    facts, _ = read_lama(folder / below)
    assert [fact.id for fact in facts] == ["P19:1"]


def test_a_subject_may_look_like_a_place_of_the_template(folder: Path) -> None:
    (found,), _ = read_lama(write(folder / "data/TREx/P19.jsonl", born("[Y] of [X]")))
    assert found.text == "[Y] of [X] was born in {mask} ."


def test_google_re_has_templates_of_its_own_and_keeps_years_as_written(tmp_path: Path) -> None:
    sentences = ["Ada (born [MASK]) was a countess ."]
    facts = [
        {
            "pred": "/people/person/date_of_birth",
            "sub_label": "Ada",
            "obj_label": "1815",
            "masked_sentences": sentences,
        },
        {"pred": "/people/deceased_person/place_of_death", "sub_label": "Ada", "obj_label": "1970s"},
    ]
    found, _ = read_lama(write(tmp_path / "Google_RE/date_of_birth_test.jsonl", *facts))
    assert [(fact.text, fact.blind, fact.answer) for fact in found] == [
        ("Ada (born {mask}).", "{mask} (born {mask}).", "1815"),
        ("Ada died in {mask} .", "{mask} died in {mask} .", "1970s"),
    ]
    assert [fact.group for fact in found] == ["date_of_birth (Google-RE)", "place_of_death (Google-RE)"]


def test_sentences_are_asked_as_they_stand(tmp_path: Path) -> None:
    write(
        tmp_path / "Squad/test.jsonl",
        {"masked_sentences": ["Iron  is a [MASK]."], "obj_label": "metal", "sub_label": "Squad", "id": "a_0"},
        {"masked_sentences": ["A first sentence.", "Then <mask> came."], "obj_label": "rain"},
    )
    write(
        tmp_path / "ConceptNet/test.jsonl",
        {"pred": "HasProperty", "masked_sentences": ["Ice is [MASK]."], "obj_label": "cold", "sub_label": "ice"},
    )
    facts, _ = read_lama(tmp_path)
    assert [(fact.id, fact.group, fact.subject, fact.answer, fact.text) for fact in facts] == [
        ("ConceptNet:1", "ConceptNet HasProperty", "ice", "cold", "Ice is {mask}."),
        ("Squad:1", "SQuAD", "", "metal", "Iron is a {mask}."),
        ("Squad:2", "SQuAD", "", "rain", "A first sentence. Then {mask} came."),
    ]
    assert [fact.cluster for fact in facts] == ["ice", "Squad:1", "Squad:2"]


def test_what_cannot_be_asked_is_listed_with_its_reason(folder: Path) -> None:
    write(folder / "data/TREx/P19.jsonl", born(" "), born(answer=""), born("A [MASK]"), born())
    write(
        folder / "data/Squad/test.jsonl",
        {"masked_sentences": ["No gap."], "obj_label": "gap"},
        {"masked_sentences": ["[MASK] is [MASK]."], "obj_label": "that"},
    )
    facts, unasked = read_lama(folder)
    assert [fact.id for fact in facts] == ["P19:4"]
    group = "N-1 P19 place of birth"
    assert unasked == (
        LeftOut("Squad:1", "SQuAD", "no mask in the sentence"),
        LeftOut("Squad:2", "SQuAD", "more than one mask in the sentence"),
        LeftOut("P19:1", group, "subject without a label"),
        LeftOut("P19:2", group, "object without a label"),
        LeftOut("P19:3", group, "more than one mask in the sentence"),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000, r"P19.jsonl:2: not JSON .recursion limit exceeded at line 1"),
        (json.dumps({"predicate_id": "P19", "sub_label": "Ada"}), "P19.jsonl:2: column 'obj_label': found nothing"),
        (json.dumps({"obj_label": "a", "masked_sentences": {}}), r"P19.jsonl:2: column 'masked_sentences': found \{\}"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(folder: Path, line: str, message: str) -> None:
    path = write(folder / "data/TREx/P19.jsonl", born())
    path.write_text(path.read_text() + line)
    with pytest.raises(CorpusError, match=message):
        read_lama(folder)


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        ({"relation": "P20", "template": "[X] died ."}, r"relations.jsonl:2: found '\[X\] died \.'"),
        ({"relation": "", "template": "[X] [Y]"}, "relations.jsonl:2: column 'relation': found nothing"),
        (BORN, "relations.jsonl:2: column 'relation': found 'P19'; expected a name of its own"),
    ],
)
def test_what_is_wrong_with_a_relation_is_named(tmp_path: Path, relation: dict[str, str], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read_relations(write(tmp_path / "relations.jsonl", BORN, relation))


def test_facts_without_their_relations_and_folders_without_facts(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(CorpusError, match="no facts in it; give LAMA's data folder"):
        read_lama(folder)
    with pytest.raises(CorpusError, match="no such file or folder; give LAMA's data folder"):
        read_lama(tmp_path / "nowhere")
    alone = write(tmp_path / "far/away/from/P19.jsonl", born())
    with pytest.raises(CorpusError, match=r"P19.jsonl:1: relation P19 has no template; expected a line with"):
        read_lama(alone)
    alone.write_text("")
    with pytest.raises(CorpusError, match=r"P19.jsonl: nothing in it"):
        read_lama(alone)


def test_two_files_of_one_relation(folder: Path) -> None:
    write(folder / "data/TREx/P19.jsonl", born())
    write(folder / "data/more/P19.jsonl", born())
    with pytest.raises(CorpusError, match=r"P19:1 is in .*P19.jsonl, too; give one of the two files"):
        read_lama(folder)


def test_the_published_facts(real_data) -> None:
    folder = real_data("lama")
    facts, unasked = read_lama(folder)
    sets = Counter("SQuAD" if not fact.blind else "Google-RE" if "_" in fact.id else "T-REx" for fact in facts)
    assert sets == {"T-REx": 14_334, "Google-RE": 5_528, "SQuAD": 302}
    assert [(one.id, one.reason) for one in unasked] == [
        (f"Squad:{line}", "more than one mask in the sentence") for line in (99, 110, 216)
    ]
    groups = Counter(fact.group for fact in facts)
    assert len(groups) == 18 + 3 + 1
    assert groups["N-1 P19 place of birth"] == 944
    assert groups["N-M P463 member of"] == 225
    assert groups["place_of_birth (Google-RE)"] == 2_937
    assert groups["date_of_birth (Google-RE)"] == 1_825
    # The paper counts 765 of death; the file has one of them twice.
    deaths = [(fact.subject, fact.answer) for fact in facts if fact.group == "place_of_death (Google-RE)"]
    assert (len(deaths), len(set(deaths))) == (766, 765)
    # Independently: as many facts as lines, each with its subject and one mask.
    n_lines = sum(len(path.read_bytes().splitlines()) for path in (folder / "data").glob("*/*.jsonl"))
    assert len(facts) + len(unasked) == n_lines
    assert all(fact.text.count("{mask}") == 1 and fact.subject in fact.text for fact in facts)
    assert all(fact.blind.count("{mask}") == 2 for fact in facts if fact.subject)


BARE = {"sub_label": "Ada", "obj_label": "London", "uuid": "1"}


def write_pararel(root: Path, relation: str, facts: list[dict[str, object]], patterns: list[str] | None) -> None:
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
    write_pararel(tmp_path / "data", "P19", [BARE], ["[X] was born in [Y].", "[Y] is where [X] comes from."])
    return tmp_path


@pytest.mark.parametrize("below", ["", "data", "data/trex_lms_vocab", "data/trex_lms_vocab/P19.jsonl"])
def test_a_fact_is_put_into_every_pattern(root: Path, below: str) -> None:
    facts, unasked = read_pararel(root / below)
    texts = ("Ada was born in {mask}.", "{mask} is where Ada comes from.")
    variants = {"1": texts[0], "2": texts[1]}
    assert facts == (ClozeItem("P19:1", "Ada", "P19", texts[0], answer="London", subject="Ada", variants=variants),)
    assert unasked == ()


def test_what_of_pararel_cannot_be_asked_is_listed(root: Path) -> None:
    write_pararel(root / "data", "P1", [BARE], ["[X] is [Y]."])
    write_pararel(root / "data", "P2", [BARE], None)
    write_pararel(root / "data", "P3", [{**BARE, "sub_label": "a <mask>"}], ["[X] is [Y].", "[X] was [Y]."])
    facts, unasked = read_pararel(root)
    assert [fact.id for fact in facts] == ["P19:1"]
    assert unasked == (
        LeftOut("P1:1", "P1", "relation with a single pattern"),
        LeftOut("P2:1", "P2", "relation without a pattern"),
        LeftOut("P3:1", "P3", "more than one mask in the sentence"),
    )


@pytest.mark.parametrize(
    ("facts", "patterns", "message"),
    [
        ([BARE], ["[X] is.", "[X] is [Y]."], r"P5.jsonl:1: found '\[X\] is\.'; expected \[Y\] once, where"),
        ([BARE], ["[X] [Y]", "[X] [Y]"], r"P5.jsonl:2: column 'pattern': found '\[X\] \[Y\]'"),
        ([], ["[X] [Y]", "[X], [Y]"], "trex_lms_vocab.P5.jsonl: nothing in it"),
    ],
)
def test_what_is_wrong_with_pararel_is_named(
    tmp_path: Path, facts: list[dict[str, object]], patterns: list[str], message: str
) -> None:
    write_pararel(tmp_path, "P5", facts, patterns)
    with pytest.raises(CorpusError, match=message):
        read_pararel(tmp_path)


def test_the_published_facts_of_pararel(real_data) -> None:
    facts, unasked = read_pararel(real_data("pararel"))
    assert len(facts) + len(unasked) == 29_411
    assert Counter((one.group, one.reason) for one in unasked) == {
        ("P1001", "relation with a single pattern"): 664,
        ("P31", "relation without a pattern"): 879,
        ("P527", "relation without a pattern"): 922,
    }
    patterns = {fact.group: len(fact.variants) for fact in facts}
    # As many as the paper has (section 3.1).
    assert (len(patterns), sum(patterns.values())) == (38, 328)
    assert sum(len(fact.variants) for fact in facts) == 224_010
    assert all(text.count("{mask}") == 1 and fact.subject in text for fact in facts for text in fact.variants.values())


def plain(prime: str = "Kabul", **more: object) -> dict[str, object]:
    return {
        "sub_label": "Ada",
        "obj_label": "London",
        "masked_sentences": ["Ada was born in [MASK] ."],
        "masked_negations": ["Ada was  not born in [MASK] ."],
        "masked_misprimed": [f"{prime}? Ada was born in [MASK] ."],
        **more,
    }


@pytest.fixture
def primed(tmp_path: Path) -> Path:
    write(tmp_path / "data/TREx/high_ranked/P19.jsonl", plain())
    write(tmp_path / "data/TREx/random/P19_random.jsonl", plain("Paper", sub_label="Ada"))
    return tmp_path


def test_a_fact_with_several_primes_is_one_fact(primed: Path) -> None:
    facts, unasked = read_primed(primed)
    assert facts == (
        ClozeItem(
            id="T-REx:P19:1",
            cluster="Ada",
            kind="T-REx",
            group="T-REx P19",
            subject="Ada",
            answer="London",
            text="Ada was born in {mask} .",
            other="Ada was not born in {mask} .",
            variants={"high-ranked": "Kabul? Ada was born in {mask} .", "random": "Paper? Ada was born in {mask} ."},
        ),
    )
    assert unasked == ()


def test_a_set_of_one_file_and_a_file_of_ones_own(tmp_path: Path) -> None:
    write(tmp_path / "SQUAD/random/Squad.jsonl", plain(sub_label="Squad"))
    ((squad,), _) = read_primed(tmp_path)
    assert (squad.id, squad.group, squad.subject) == ("SQuAD:1", "SQuAD", "")
    one = plain()
    del one["masked_misprimed"]
    ((own,), _) = read_primed(write(tmp_path / "mine/births.jsonl", one))
    assert (own.id, own.group, own.variants) == ("mine:births:1", "mine births", {})


def test_what_primed_cannot_be_asked_is_listed(primed: Path) -> None:
    write(primed / "data/TREx/low_ranked/P20.jsonl", plain(masked_negations=["[MASK] and [MASK]"]))
    facts, unasked = read_primed(primed)
    assert len(facts) == 1
    assert unasked == (LeftOut("T-REx:P20:1:low-ranked", "T-REx P20", "more than one mask in the sentence"),)


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (
            plain(masked_negations=["Ada was never born in [MASK] ."]),
            r"P19.jsonl:1: found 'Ada was born in \{mask\} \.'; expected the same fact",
        ),
        (plain(masked_misprimed=[1]), r"P19.jsonl:1: column 'masked_misprimed': found \[1\]; expected a list of"),
    ],
)
def test_what_is_wrong_is_named(primed: Path, one: dict[str, object], message: str) -> None:
    write(primed / "data/TREx/low_ranked/P19.jsonl", one)
    with pytest.raises(CorpusError, match=message):
        read_primed(primed)


def test_one_prompt_primed_in_two_ways(primed: Path) -> None:
    write(primed / "data/TREx/high_ranked/P19.jsonl", plain(), plain("Paris"))
    with pytest.raises(CorpusError, match=r"P19.jsonl:2: found 'Ada was born in \{mask\} \.'; expected the same fact"):
        read_primed(primed)


def test_another_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no facts in it; give the data folder of negated and misprimed LAMA"):
        read_primed(tmp_path)
    write(tmp_path / "relations.jsonl", {})
    write(tmp_path / "P19.jsonl", {})
    with pytest.raises(CorpusError, match="the original LAMA, without negated or misprimed sentences"):
        read_primed(tmp_path)


def test_the_published_primed_facts(real_data) -> None:
    facts, unasked = read_primed(real_data("lama_primed_negated"))
    assert unasked == ()
    assert Counter(fact.kind for fact in facts) == {"T-REx": 10_469, "Google-RE": 499, "ConceptNet": 146, "SQuAD": 51}
    assert Counter((fact.kind, kind) for fact in facts for kind in fact.variants) == {
        **{("T-REx", kind): 10_469 for kind in ("high-ranked", "low-ranked", "random")},
        **{("ConceptNet", kind): 146 for kind in ("high-ranked", "low-ranked", "random")},
        **{("Google-RE", "high-ranked"): 499, ("Google-RE", "low-ranked"): 485, ("Google-RE", "random"): 499},
        **{("SQuAD", "high-ranked"): 51, ("SQuAD", "random"): 51},
    }
    assert len({fact.group for fact in facts}) == 40 + 3 + 1 + 1
    assert all(text.endswith(fact.text) for fact in facts for text in fact.variants.values())


def test_a_fact_without_relation_has_that_of_its_file(folder: Path) -> None:
    (found,), _ = read_lama(write(folder / "data/TREx/P19.jsonl", {"sub_label": "Ada", "obj_label": "London"}))
    assert found.text == "Ada was born in {mask} ."
