"""Cloze probes from request to tables, beside plain loops over Hugging Face's own model."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bertology import load_corpus
from bertology.cloze import pseudo_log_likelihood
from bertology.corpora import write_conllu
from bertology.encoders import load_encoder
from bertology.errors import BertologyError, CorpusError, FitError
from bertology.families.request import ReadoutConfig
from bertology.results import ResultRow, Results
from bertology.results.predictions import read_outcomes, read_predictions
from bertology.results.views import layer_tables
from bertology.runner import ProbeRequest, run_probes

FACTS = [
    ("dog", "king"),
    ("cat", "dog"),
    ("king", "dog"),
    ("town", "house"),
    ("river", "chrysanthemum"),
    ("house", "dog"),
]
TEMPLATE = "The [X] sees the [Y] ."

Asking = Callable[..., Results]


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    """Two relations of facts whose objects the pocket world knows, but for one."""
    folder = tmp_path / "facts"
    (folder / "TREx").mkdir(parents=True)
    relations = [{"relation": f"P{n}", "template": TEMPLATE, "label": "sees", "type": "N-1"} for n in (1, 2)]
    (folder / "relations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in relations))
    for number, some in ((1, FACTS[:4]), (2, FACTS[4:])):
        lines = [{"sub_label": s, "obj_label": o, "uuid": f"{s}-{o}", "predicate_id": f"P{number}"} for s, o in some]
        (folder / "TREx" / f"P{number}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    def run(task: str, corpus: Path | str, **chosen: Any) -> Results:
        given: dict[str, Any] = {"model": "pocket", "controls": (), **chosen}
        return run_probes(ProbeRequest(tasks=(task,), corpus=str(corpus), **given), out=tmp_path / "run")

    return run


@cache
def own() -> tuple[Any, Any]:
    """Hugging Face's own model and tokenizer."""
    from bertology.pocket import model_folder

    model, tokenizer = (kind.from_pretrained(model_folder()) for kind in (AutoModelForMaskedLM, AutoTokenizer))
    return model.eval(), tokenizer


def own_log_probs(text: str) -> torch.Tensor:
    """``[entry]`` what Hugging Face's own model expects at the last mask."""
    model, tokenizer = own()
    given = tokenizer(text.replace("{mask}", tokenizer.mask_token), return_tensors="pt")
    with torch.inference_mode():
        logits = model(**given).logits[0]
    place = int((given["input_ids"][0] == tokenizer.mask_token_id).nonzero()[-1])
    log_probs: torch.Tensor = logits[place].log_softmax(-1)
    return log_probs


def entry(word: str) -> int:
    return int(own()[1].convert_tokens_to_ids(word))


def test_places_of_answers_are_those_of_a_plain_loop(asking: Asking, facts: Path, tmp_path: Path) -> None:
    found = asking("lama", facts, controls=("blind", "majority"))
    (cell,) = {row.cell_id for row in found.only(layer=4, control="none").rows}
    kept = read_predictions(tmp_path / "run", cell)
    asked = [(s, o) for s, o in FACTS if o != "chrysanthemum"]
    expected = []
    for subject, answer in asked:
        log_probs = own_log_probs(TEMPLATE.replace("[X]", subject).replace("[Y]", "{mask}"))
        of_answer = float(log_probs[entry(answer)])
        expected.append((1 + int((log_probs > of_answer).sum()), of_answer))
    scored = [place for place, reason in enumerate(kept.extra["reason"]) if not reason]
    assert [kept.labels[code] for code in kept.gold[scored]] == [answer for _, answer in asked]
    assert [kept.extra["rank"][place] for place in scored] == [rank for rank, _ in expected]
    np.testing.assert_allclose(kept.score[scored], [score for _, score in expected], atol=1e-5)
    ranks = np.array([rank for rank, _ in expected])
    rows = {row.metric: row for row in found.only(layer=4, control="none").rows if row.group is None}
    by_group = [ranks[:4], ranks[4:]]
    assert rows["p_at_10"].value == pytest.approx(np.mean([np.mean(some <= 10) for some in by_group]))
    assert rows["mrr"].value == pytest.approx(np.mean([np.mean(1 / some) for some in by_group]))
    assert rows["micro_p_at_1"].value == pytest.approx(np.mean(ranks == 1))
    assert (rows["mrr"].n_items, rows["mrr"].n_skipped) == (5, 1)
    assert json.loads(rows["mrr"].skip_reasons) == {"not in the vocabulary": 1}


def test_the_majority_answer_of_each_group(asking: Asking, facts: Path) -> None:
    found = asking("lama", facts, controls=("majority",), layers="-1")
    rows = majorities(found, None)
    # P1: king, dog, dog, house; P2: chrysanthemum, dog. The baseline asks no model, so that no word is too long for it.
    assert rows["p_at_1"].value == pytest.approx((2 / 4 + 1 / 2) / 2)
    assert rows["mrr"].value == pytest.approx(((1 / 2 + 1 + 1 + 1 / 3) / 4 + (1 + 1 / 2) / 2) / 2)
    assert rows["mrr"].n_items == 6


def majorities(found: Results, model: str | None) -> dict[str, ResultRow]:
    """The baseline of all items, or of those of a model, by metric."""
    every = [row for row in found.rows if row.control == "majority" and row.group is None and row.model == model]
    assert len({row.metric for row in every}) == len(every)
    return {row.metric: row for row in every}


def test_blind_texts_are_scored_on_the_items_of_the_layers(asking: Asking, facts: Path) -> None:
    # With its subject the text is too long, without it not.
    long = {"sub_label": "king of the old house of the dog", "obj_label": "house", "uuid": "long", "predicate_id": "P1"}
    with (facts / "TREx" / "P1.jsonl").open("a") as file:
        file.write(json.dumps(long) + "\n")
    found = asking("lama", facts, controls=("blind", "majority"), layers="4", max_pieces=12)
    rows = {row.control: row for row in found.rows if row.metric == "mrr" and row.group is None and row.model}
    assert rows["none"].n_items == 5
    for control in ("blind", "majority"):
        for count in ("n_items", "n_clusters", "n_skipped", "skip_reasons"):
            assert getattr(rows[control], count) == getattr(rows["none"], count), (control, count)
    log_probs = own_log_probs("The {mask} sees the {mask} .")
    own_ranks = {word: 1 + int((log_probs > log_probs[entry(word)]).sum()) for word in ("dog", "king", "house")}
    first, second = [[1 / own_ranks[o] for _, o in some if o in own_ranks] for some in (FACTS[:4], FACTS[4:])]
    assert rows["blind"].value == pytest.approx((np.mean(first) + np.mean(second)) / 2)
    by_group = {row.group: row.n_items for row in found.rows if row.control == "blind" and row.metric == "mrr"}
    assert by_group == {None: 5, "N-1 P1 sees": 4, "N-1 P2 sees": 1}


def pairs_file(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    path = folder / "toy_paradigm.jsonl"
    lines = [
        {
            "sentence_good": good,
            "sentence_bad": bad,
            "UID": "toy_paradigm",
            "pairID": str(number),
            "field": "toy",
            "linguistics_term": "toy",
        }
        for number, (good, bad) in enumerate(pairs)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


PAIRS = [
    ("The dog runs.", "The dog run."),
    ("The dogs run.", "The dogs runs."),
    ("The kings near the dog see the town.", "The kings near the dog sees the town."),
    ("The dog sleeps.", "The dog sleeps ."),
]


def test_sentences_are_compared_by_their_pseudo_log_likelihood(asking: Asking, tmp_path: Path) -> None:
    found = asking("minimal_pairs", pairs_file(tmp_path, PAIRS))
    encoder = load_encoder("pocket")
    for layer in (1, 4):
        (cell,) = {row.cell_id for row in found.only(layer=layer).rows}
        kept = read_predictions(tmp_path / "run", cell)
        own = pseudo_log_likelihood(encoder, [text for pair in PAIRS for text in pair], layers=[layer]).totals[0]
        np.testing.assert_allclose(kept.score, own[0::2], rtol=1e-5)
        np.testing.assert_allclose(kept.extra["rival"], own[1::2], rtol=1e-5)
        # the tokenizer reads both sentences of the last pair alike: a tie is no choice
        assert own[6] == own[7]
        outcomes = read_outcomes(tmp_path / "run", [cell])
        decided, right, scored, *_ = outcomes.items.count_choices(outcomes.score, outcomes.rival).sum(axis=(0, 1, 2))
        assert (decided, scored) == (3, 4)
        row = next(row for row in found.only(layer=layer, metric="choice_accuracy").rows)
        assert row.value == pytest.approx(right / 3)


def test_the_tuned_lens_stands_beside_the_logit_lens(
    asking: Asking, tmp_path: Path, counted_forwards: list[int]
) -> None:
    from bertology.cloze import ClozeProbe, Prompt, ask
    from bertology.cloze.lens import load_lens
    from bertology.probing import get_probe

    agreement = get_probe("agreement")
    assert isinstance(agreement, ClozeProbe)
    write_conllu(tmp_path / "text-ud-train.conllu", load_corpus("pocket")["train"][:150])
    corpus = tmp_path / "text-ud-train.conllu"
    lenses = (ReadoutConfig(), ReadoutConfig("tuned_lens", {"lens_corpus": str(corpus)}))
    found = asking("agreement", "pocket", max_items=5, configs={"agreement": lenses})
    plain, tuned = ({row.layer: row for row in found.rows if row.readout == name and row.metric == "choice_accuracy"
                     and row.group is None} for name in ("masked_lm", "tuned_lens"))  # fmt: skip
    assert set(plain) == set(tuned) == {0, 1, 2, 3, 4}
    encoder = load_encoder("pocket")
    (path,) = (tmp_path / "run" / "fits").glob("lens-*.safetensors")
    read_by = {"masked_lm": encoder, "tuned_lens": encoder.through(load_lens(path, encoder))}
    for row in (plain[1], tuned[1], tuned[4]):
        kept = read_predictions(tmp_path / "run", row.cell_id)
        items = {item.id: item for item in agreement.items("pocket").items}
        asked = [items[name] for name in kept.item_ids]
        own = ask(read_by[row.readout], [Prompt(one.text, (one.answer,)) for one in asked], layers=[row.layer])
        np.testing.assert_allclose(kept.score, own.values[0], rtol=1e-5)
    assert tuned[4].value == plain[4].value
    assert tuned[1].cell_id != plain[1].cell_id
    table = next(one for one in layer_tables(found.rows, ()) if one.about.reading.startswith("tuned_lens"))
    assert "text-ud-train.conllu" in table.about.reading
    counted_forwards.clear()
    again = asking("agreement", "pocket", max_items=5, configs={"agreement": lenses})
    assert not counted_forwards
    assert again.rows == found.rows


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"readout": "linear"}, "is about what a model says of texts, which linear.v1 cannot read"),
        ({"configs": {"lama": (ReadoutConfig(codelength="online"),)}}, "no readout is fitted"),
        ({"configs": {"lama": (ReadoutConfig(settings={"form": "original"}),)}}, "are no entries of a vocabulary"),
        (
            {"configs": {"lama": (ReadoutConfig(settings={"form": "backwards"}),)}},
            "setting form of task lama",
        ),
        ({"max_items": 0}, "max_items: should be at least 1, not 0"),
    ],
)
def test_mistakes_are_told_in_one_line(asking: Asking, facts: Path, chosen: dict[str, Any], told: str) -> None:
    with pytest.raises(BertologyError, match=told) as caught:
        asking("lama", facts, **chosen)
    assert "\n" not in str(caught.value)


def test_what_texts_are_about_cannot_be_erased(asking: Asking) -> None:
    with pytest.raises(FitError, match="puts texts to the model"):
        asking("pos", "pocket", configs={"pos": (ReadoutConfig(erase="lama"),)}, layers="0")


def test_a_corpus_without_anything_to_ask(asking: Asking, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"task lama: .*nowhere"):
        asking("lama", tmp_path / "nowhere")


def test_the_majority_among_the_items_that_are_asked_of_a_model(asking: Asking, facts: Path) -> None:
    found = asking("lama", facts, controls=("majority",), layers="0,4")
    rows = majorities(found, "pocket")
    # P1: king, dog, dog, house; P2: dog alone, as chrysanthemum has several pieces.
    assert rows["p_at_1"].value == pytest.approx((2 / 4 + 1 / 1) / 2)
    assert rows["mrr"].value == pytest.approx(((1 / 2 + 1 + 1 + 1 / 3) / 4 + 1 / 1) / 2)
    layer = next(row for row in found.only(layer=4, metric="mrr").rows if row.model and row.group is None)
    baseline = rows["mrr"]
    for count in ("n_items", "n_clusters", "n_skipped", "skip_reasons"):
        assert getattr(baseline, count) == getattr(layer, count)
    assert (baseline.n_items, baseline.n_skipped) == (5, 1)
    (table,) = found.view().tables
    (line,) = table.baselines
    assert (line.n_items, line.main.value) == (5, rows["p_at_1"].value)
    assert "over all" not in str(found.view().shown()[0].notes)
    by_group = found.per_group("lama", None, control="majority", metric="mrr")
    assert by_group["items"].to_dict() == {"N-1 P1 sees": 4, "N-1 P2 sees": 1}
    assert by_group["value"].to_dict() == pytest.approx({"N-1 P1 sees": (1 / 2 + 1 + 1 + 1 / 3) / 4, "N-1 P2 sees": 1})
    # The rows of the first layer, whose cell the baseline is counted from, are not among them.
    assert found.per_group("lama", 0, metric="mrr")["value"].to_dict() != by_group["value"].to_dict()
