import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from bertology import probe
from bertology.cloze import ClozeItem, ClozeItems, Prompt, ask
from bertology.encoders import load_encoder
from bertology.pocket import candidates, facts
from bertology.probing import LeftOut
from bertology_probes.lama import PROBE

LAMA = PROBE.default
EXPOSURES = (0, 1, 2, 4, 8, 16, 32, 64)


def items_of(argument: str, source: str | Path = "pocket") -> ClozeItems:
    return PROBE.make(argument).items(str(source))


def write(path: Path, *objects: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")
    return path


def primed(subject: str, prime: str, **more: object) -> dict[str, object]:
    text = f"{subject} was born in [MASK] ."
    return {
        "sub_label": subject,
        "obj_label": "London",
        "masked_sentences": [text],
        "masked_negations": [text.replace("was", "was not")],
        "masked_misprimed": [f"{prime}? {text}"],
        **more,
    }


def test_facts_that_a_name_gives_away_are_scored_apart(tmp_path: Path) -> None:
    best = ask(load_encoder("pocket"), [Prompt("Anna is a common name in the following city: {mask}.")], top=5)
    words = [best.top_words[entry] for entry in best.top_ids[0, 0].tolist()]
    relations = [
        {"relation": name, "template": "[X] lives in [Y] .", "label": name.lower(), "type": "N-1"}
        for name in ("P19", "P1")
    ]
    write(tmp_path / "relations.jsonl", *relations)
    places = ("Zz Anna", words[2]), ("Zz Anna", words[4]), (f"Anna {words[0].upper()}", words[0])
    lines = [{"predicate_id": "P19", "sub_label": subject, "obj_label": answer} for subject, answer in places]
    write(tmp_path / "TREx/P19.jsonl", *lines)
    write(tmp_path / "TREx/P1.jsonl", {**lines[0], "predicate_id": "P1"})
    task = PROBE.make("uhn")
    items = task.items(str(tmp_path))
    assert items == LAMA.items(str(tmp_path))
    found = {item.id: item.group for item in task.regrouped(items, load_encoder("pocket")).items}
    assert found == {
        "P19:1": "N-1 P19 p19, guessed from the name",
        "P19:2": "N-1 P19 p19",
        "P19:3": "N-1 P19 p19, object in the subject",
        "P1:1": "N-1 P1 p1",
    }
    assert [item.group for item in LAMA.regrouped(items, load_encoder("pocket")).items] == [
        i.group for i in items.items
    ]

    table = probe("lama:uhn", corpus=str(tmp_path), layers=[4], controls="none")
    frame = table.to_pandas()
    of_groups = frame[frame["group"].notna() & (frame["metric"] == "p_at_1")].set_index("group")["n_items"]
    assert of_groups.to_dict() == dict.fromkeys(found.values(), 1)
    ranks = {row["sentence"]: row["rank"] == 1 for _, row in table.predictions("lama:uhn", 4).iterrows()}
    whole = frame[frame["group"].isna()].set_index("metric")
    kept, every = (
        np.mean([np.mean([ranks[name] for name in names]) for names in by_relation])
        for by_relation in ((["P19:2"], ["P1:1"]), (["P19:1", "P19:2", "P19:3"], ["P1:1"]))
    )
    assert whole.loc["p_at_1", "value"] == pytest.approx(kept)
    assert whole.loc["p_at_1", "n_items"] == 2
    assert whole.loc["p_at_1 all", "value"] == pytest.approx(every)
    assert whole.loc["p_at_1 lost", "value"] == pytest.approx(every - kept)


def test_names_of_the_pocket_world_give_nothing_away() -> None:
    frames = [probe(task, layers=[4], controls="none", max_items=20).to_pandas() for task in ("lama", "lama:uhn")]
    plain, filtered = (frame[frame["group"].isna()].set_index("metric") for frame in frames)
    assert filtered.loc["p_at_1", "value"] == filtered.loc["p_at_1 all", "value"] == plain.loc["p_at_1", "value"]
    assert filtered.loc["p_at_1 lost", ["value", "ci_low", "ci_high"]].tolist() == [0, 0, 0]


def test_facts_of_a_file_by_relation(tmp_path: Path) -> None:
    relation = {"relation": "P19", "template": "[X] was born in [Y] .", "label": "place of birth", "type": "N-1"}
    write(tmp_path / "relations.jsonl", relation)
    fact = {"predicate_id": "P19", "sub_label": "Ada", "obj_label": "London"}
    write(tmp_path / "TREx/P19.jsonl", fact, {**fact, "obj_label": ""})
    write(tmp_path / "Squad/test.jsonl", {"masked_sentences": ["Iron is a [MASK]."], "obj_label": "metal"})
    found = LAMA.items(str(tmp_path))
    group = "N-1 P19 place of birth"
    text, blind = "Ada was born in {mask} .", "{mask} was born in {mask} ."

    assert found.items == (
        ClozeItem("Squad:1", "Squad:1", "SQuAD", "Iron is a {mask}.", answer="metal"),
        ClozeItem("P19:1", "Ada", group, text, answer="London", blind=blind, subject="Ada"),
    )
    assert found.left_out == (LeftOut("P19:2", group, "object without a label"),)
    assert found.vocabularies == {}


def test_paraphrases_of_a_file_are_answered_among_the_objects_of_their_relation(tmp_path: Path) -> None:
    named = [
        {"sub_label": name, "obj_label": town} for name, town in (("Ada", "London"), ("Bo", "Rome"), ("Cy", "Rome"))
    ]
    for relation, patterns in (("P19", ["[X] was born in [Y].", "[X] is from [Y]."]), ("P20", ["[X] died in [Y]."])):
        write(tmp_path / f"trex_lms_vocab/{relation}.jsonl", *named)
        write(tmp_path / f"pattern_data/graphs_json/{relation}.jsonl", *({"pattern": one} for one in patterns))
    found = items_of("paraphrases", tmp_path)

    assert len(found) == 6
    assert found.items[1] == ClozeItem("P19:1:2", "P19:1", "P19", "Ada is from {mask}.", answer="London")
    assert found.vocabularies == {"P19": ("London", "Rome")}
    assert found.reasons == {"relation with a single pattern": 3}


def test_negations_of_a_file(tmp_path: Path) -> None:
    same = primed("Cy", "Rome", masked_negations=["Cy was born in [MASK] ."])
    none = primed("Di", "Rome")
    del none["masked_negations"]
    write(tmp_path / "TREx/random/P19_random.jsonl", primed("Ada", "Rome"), same, none)
    found = items_of("negated", tmp_path)
    group = "T-REx P19"
    text, other = "Ada was born in {mask} .", "Ada was not born in {mask} ."

    assert found.items == (ClozeItem("T-REx:P19:1", "Ada", group, text, other=other),)
    assert found.left_out == (
        LeftOut("T-REx:P19:2", group, "negation that is the sentence itself"),
        LeftOut("T-REx:P19:3", group, "no negation in the source"),
    )


def test_primes_of_a_file(tmp_path: Path) -> None:
    write(tmp_path / "TREx/high_ranked/P19.jsonl", primed("Ada", "Rome"), primed("Bo", "london"))
    write(tmp_path / "TREx/random/P19_random.jsonl", primed("Ada", "Paper"))
    found = items_of("misprimed", tmp_path)

    assert [(item.cluster, item.group, item.text) for item in found.items] == [
        ("T-REx:P19:1", "T-REx plain", "Ada was born in {mask} ."),
        ("T-REx:P19:1", "T-REx misprimed high-ranked", "Rome? Ada was born in {mask} ."),
        ("T-REx:P19:1", "T-REx misprimed random", "Paper? Ada was born in {mask} ."),
        ("T-REx:P19:2", "T-REx plain", "Bo was born in {mask} ."),
    ]
    assert {item.answer for item in found.items} == {"London"}
    assert found.left_out == (
        LeftOut("T-REx:P19:2:high-ranked", "T-REx misprimed high-ranked", "prime that is the answer"),
        LeftOut("T-REx:P19:2:random", "T-REx misprimed random", "no such prime in the source"),
    )


def test_pocket_facts_come_by_how_often_they_are_stated() -> None:
    found = LAMA.items("pocket")
    assert found.groups == tuple(f"stated {n} time{'' if n == 1 else 's'}" for n in EXPOSURES)
    assert Counter(item.group for item in found.items) == dict.fromkeys(found.groups, 33)
    assert not found.left_out
    stated = {f"{fact.relation}:{fact.subject}": fact for fact in facts()}
    for item in found.items:
        fact = stated[item.id]
        assert item.text.replace("{mask}", fact.object) == fact.sentence()
        assert item.blind == item.text.replace(fact.subject, "{mask}")
        assert (item.answer, item.cluster) == (fact.object, fact.subject)
        assert item.group.split()[1] == str(fact.n_stated)


def test_pocket_negations_differ_by_one_word() -> None:
    found = items_of("negated")
    assert len(found) == 2 * 264
    for item in found.items:
        assert len(item.other.split()) == len(item.text.split()) + 1
        assert re.sub(r" (not|never)\b", "", item.other) == item.text
    assert {item.other for item in found.items if item.cluster == "Anna"} == {
        "Anna never lives in {mask}.",
        "The home of Anna is not in {mask}.",
        "Anna was not born in {mask}.",
        "Anna never comes from {mask}.",
        "Anna never works as a {mask}.",
        "Anna is not a {mask} by trade.",
    }


def test_pocket_primes_are_wrong_and_of_the_right_kind() -> None:
    found = items_of("misprimed")
    by_name = {f"{fact.relation}:{fact.subject}": fact for fact in facts()}
    pairs = defaultdict(list)
    for item in found.items:
        pairs[item.cluster].append(item)
    assert len(pairs) == 264 - 33
    assert found.reasons == {"never stated in the training text": 33}
    for name, (plain, primed_one) in pairs.items():
        prime, _, rest = primed_one.text.partition("? ")
        assert rest == plain.text
        assert prime != by_name[name].object
        assert prime.lower() in {word.lower() for word in candidates(by_name[name].relation)}
        assert (plain.group, primed_one.group) == (plain.group, plain.group.replace("plain", "misprimed"))
        assert by_name[name].n_stated > 0


def test_what_is_stated_is_recalled_and_what_is_not_stays_at_chance() -> None:
    rows = probe("lama", layers=[4], controls=[]).to_pandas()
    by_group = rows[(rows.metric == "p_at_1") & rows.group.notna()].set_index("group").value
    # 33 facts never stated, objects among 24 at least: more than 5 right by chance in fewer than 1 of 400 worlds.
    assert by_group["stated 0 times"] * 33 < 5.5
    assert 0.3 < by_group["stated 1 time"] < 0.95
    assert all(by_group[f"stated {n} times"] > 0.95 for n in EXPOSURES[2:])
