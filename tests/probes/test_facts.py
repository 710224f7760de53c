"""Facts completed from closed sets of candidates, next to the pseudo-log-likelihoods of whole sentences."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertology import probe
from bertology.activations.progress import silent
from bertology.cloze import pseudo_log_likelihood
from bertology.cloze.family import Asked
from bertology.encoders import load_encoder
from bertology.errors import BertologyError, CorpusError
from bertology.pocket import candidates, facts
from bertology_probes.facts import PROBE

BEAR = PROBE.make("bear")
LABELS = ["Rome", "New York City", "rome", "Rome"]
ORIGINAL = {"name": "masked_lm", "settings": {"form": "original"}}
TEMPLATES = ["The capital of [X] is [Y].", "[Y] rules [X]."]


@pytest.fixture
def bear(tmp_path: Path) -> Path:
    """One relation of one fact."""
    relation = {"templates": TEMPLATES, "answer_space_labels": LABELS, "answer_space_ids": ["Q1", "Q2", "Q3", "Q4"]}
    (tmp_path / "BEAR").mkdir()
    (tmp_path / "BEAR/metadata_relations.json").write_text(json.dumps({"P36": relation}))
    lines = [{"sub_label": "Italy", "answer_idx": 0}]
    (tmp_path / "BEAR/P36.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_every_fact_in_every_template_with_all_other_candidates(bear: Path) -> None:
    found = BEAR.items(str(bear))
    assert found == BEAR.items(str(bear / "BEAR")) == BEAR.items(str(bear / "BEAR/P36.jsonl"))
    found.check(BEAR.asks)
    first, second = found.items
    assert (first.id, first.cluster, first.group) == ("P36:1:1", "P36:1", "P36 template 1")
    assert (first.text, first.answer, first.rivals) == (
        "The capital of Italy is {mask}.",
        "Rome",
        ("New York City", "rome"),
    )
    assert (second.text, second.group) == ("{mask} rules Italy.", "P36 template 2")


def test_what_is_no_fact_of_bear(bear: Path, tmp_path: Path) -> None:
    file = bear / "BEAR/P36.jsonl"
    file.write_text('{"sub_label": "Italy", "answer_idx": 4}\n')
    with pytest.raises(CorpusError, match=r"P36.jsonl:1: .*answer_idx.* among 4 candidates"):
        BEAR.items(str(file))
    (bear / "BEAR/P37.jsonl").write_text('{"sub_label": "Italy", "answer_idx": 0}\n')
    with pytest.raises(CorpusError, match="P37"):
        BEAR.items(str(bear))
    (bear / "BEAR/metadata_relations.json").write_text("{")
    with pytest.raises(BertologyError, match="not readable as the relations of BEAR"):
        BEAR.items(str(bear))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="give BEAR's folder"):
        BEAR.items(str(tmp_path / "empty"))


@pytest.mark.parametrize("form", ["original", "within_word_l2r"])
def test_candidates_are_ranked_by_the_whole_sentence(form: str) -> None:
    items = BEAR.items("pocket")
    plain, longer = items.items[0], items.items[-1]
    rivals = (("a chrysanthemum", "the capital of Norland"), ("kingfishers", *longer.rivals[:2]))
    asked = tuple(replace(item, rivals=some) for item, some in zip((plain, longer), rivals, strict=True))
    encoder = load_encoder("pocket")
    found = Asked(encoder, (encoder.n_layers,), form).answers(  # type: ignore[arg-type]
        "statements", replace(items, items=asked), silent
    )
    for number, item in enumerate(asked):
        texts = [item.text.replace("{mask}", word) for word in (item.answer, *item.rivals)]
        whole = [text[0].upper() + text[1:] for text in texts]
        scores = pseudo_log_likelihood(encoder, whole, form=form).totals[0]  # type: ignore[arg-type]
        assert found.score[0, number] == pytest.approx(scores[0], abs=1e-3)
        assert found.rival[0, number] == pytest.approx(max(scores[1:]), abs=1e-3)
        assert found.first[0, number] == (item.answer, *item.rivals)[int(np.argmax(scores))]
        assert found.rank[0, number] == 1 + sum(score > scores[0] for score in scores[1:])


def test_a_fact_with_a_candidate_that_cannot_be_scored_is_left_out() -> None:
    items = BEAR.items("pocket")
    some = (replace(items.items[0], rivals=("[SEP]", "Norland")), items.items[1])
    found = Asked(load_encoder("pocket"), (4,)).answers("statements", replace(items, items=some), silent)
    assert [bool(reason) for reason in found.reason] == [True, False]
    assert "[SEP]" in found.reason[0]
    assert np.isnan(found.score[0, 0])


def test_pocket_bert_knows_what_it_was_told() -> None:
    items = BEAR.items("pocket")
    stated = [fact for fact in facts() if fact.n_stated]
    assert len(items) == 2 * len(stated)
    assert {item.answer for item in items.items if item.group.startswith("works")} <= {*candidates("works_as")}
    table = probe("facts:bear", layers=[0, 4], max_items=12, controls="none")
    frame = table.to_pandas()
    whole = frame[frame["group"].isna() | (frame["group"] == "")].set_index(["metric", "layer"])["value"]
    chance = np.mean([1 / len(candidates(fact.relation)) for fact in facts()])
    assert whole["choice_accuracy", 4] > 0.6
    assert whole["choice_accuracy", 0] < 4 * chance
    of_templates = [whole[f"micro_choice_accuracy template {n}", 4] for n in (1, 2)]
    assert whole["micro_choice_accuracy", 4] == pytest.approx(np.mean(of_templates))


def test_a_table_of_facts_and_their_candidates() -> None:
    rows = [
        {"text": f"The home of {fact.subject} is in [MASK].", "good": fact.object, "bad": [*others], "group": "home"}
        for fact in facts()[:20]
        if (others := [word for word in candidates("lives_in")[:9] if word != fact.object])
    ]
    frame = probe("facts:bear", corpus=rows, layers=[4], controls="none").to_pandas()
    own = probe("facts:bear", corpus=rows, layers=[4], controls="none", readout=ORIGINAL).to_pandas()
    for values in (frame, own):
        row = values[values["metric"] == "choice_accuracy"].iloc[0]
        assert (row["n_items"], row["value"] > 0.5) == (20, True)
    with pytest.raises(BertologyError, match="has no rival"):
        probe("facts:bear", corpus=[{**rows[0], "bad": []}], layers=[4], controls="none")


def test_the_same_facts_are_taken_in_every_template() -> None:
    from bertology.cloze.family import FAMILY

    items = FAMILY.items(BEAR, "pocket", most=5, columns=None)
    by_template = [{i.cluster for i in items.items if i.group == f"lives in template {n}"} for n in (1, 2)]
    assert len(by_template[0]) == 5
    assert by_template[0] == by_template[1]


def test_the_published_facts(real_data: Callable[[str], Path]) -> None:
    found = BEAR.items(str(real_data("bear")))
    assert len({item.cluster for item in found.items}) == 7_731
    assert len(found.items) == 3 * 7_731
    assert len(found.groups) == 3 * 60
    assert {len(item.rivals) for item in found.items if item.group.startswith("P36 ")} == {59}
