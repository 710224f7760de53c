"""What the page says and shows of the model's own head: groups, prompts, and what was not scored."""

import dataclasses
import html
import re

import numpy as np
import pytest

from bertology.probing import get_probe
from bertology.results import Results, read_results
from bertology.results.predictions import read_outcomes
from bertology.results.report import write_report

from .conftest import HOSTILE, page_of, payload, renamed

LONG = "N-1 P413 position played on team / speciality"


@pytest.fixture(scope="session")
def cloze_runs(facts, pairs, made_up_cloze, pos, tmp_path_factory):
    """Folders of runs by name."""
    folder = tmp_path_factory.mktemp("cloze")
    negated = made_up_cloze("lama:negated", tally="changes", controls=False)
    one = made_up_cloze(groups=("all",), controls=False, left=0)
    both = Results((*facts.rows, *pos.rows), pos.comparisons, {**facts.kept, **pos.kept})
    kept = {
        cell: dataclasses.replace(
            found,
            labels=tuple(f"{label}{HOSTILE}" for label in found.labels),
            item_ids=[f"{HOSTILE}{name}" for name in found.item_ids],
            extra={**found.extra, "reason": [f"{why}{HOSTILE}" * bool(why) for why in found.extra["reason"]]},
        )
        for cell, found in facts.kept.items()
    }
    hostile = Results(renamed(facts, model=HOSTILE, group=HOSTILE, corpus=HOSTILE).rows, (), kept)
    # Items as the probe has them, by which their texts are found.
    items = get_probe("agreement").items("pocket")
    ids = [item.id for item in items.items[:80]]
    kept = {cell: dataclasses.replace(one, item_ids=ids) for cell, one in pairs.kept.items()}
    known = Results(renamed(pairs, corpus_fingerprint=items.fingerprint).rows, (), kept)
    found = {
        "known": known,
        "facts": facts,
        "pairs": pairs,
        "changes": negated,
        "one": one,
        "both": both,
        "hostile": hostile,
    }
    return {name: results.save(folder / name, tables=(), plots=()) for name, results in found.items()}


def details(folder, **options):
    return payload(page_of(folder, **options))["questions"][0]["entries"][0]["details"]


def cards(page):
    """The words before the table of scores."""
    section = re.search(r'<section id="about".*?(?=<section id="scores")', page, re.DOTALL)[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", section)).replace("\xa0", " ").split())


def test_groups_are_those_of_the_results(cloze_runs):
    found = details(cloze_runs["facts"])
    frames = [read_results(cloze_runs["facts"]).per_group("lama", layer) for layer in range(5)]
    # In the order of the task, which predictions keep.
    assert [group["name"] for group in found["groups"]] == ["stated 10 times", "stated 2 times", LONG]
    for group in found["groups"]:
        for frame, score in zip(frames, group["scores"], strict=True):
            line = frame.loc[group["name"]]
            assert [group[count] for count in ("items", "clusters", "skipped")] == line.iloc[:3].tolist()
            assert score == pytest.approx(line[["value", "ci_low", "ci_high"]].tolist(), abs=1e-6)


@pytest.mark.parametrize(("name", "task"), [("facts", "lama"), ("pairs", "agreement"), ("changes", "lama:negated")])
def test_items_are_told_right_from_wrong_as_scores_are(cloze_runs, name, task):
    found = details(cloze_runs[name])
    said = read_outcomes(cloze_runs[name], [f"{task}-none-{layer}" for layer in range(5)])
    wrong = said.score < said.rival if name == "pairs" else said.rank > 1
    assert found["nItems"] == wrong.shape[1]
    assert found["nWrong"] == wrong.any(axis=0).sum() == len(found["ids"])
    for a in range(5):
        for b in range(5):
            expected = wrong[a].sum() if a == b else (wrong[a] & ~wrong[b]).sum()
            assert found["wrongRight"][a][b] == expected
    np.testing.assert_array_equal(np.array(found["wrong"], dtype=bool), wrong[:, wrong.any(axis=0)])
    np.testing.assert_array_equal(found["rank"], said.rank[:, wrong.any(axis=0)])
    np.testing.assert_allclose(found["score"], said.score[:, wrong.any(axis=0)], atol=1e-4)


def test_what_was_not_scored_is_listed_with_its_reason(cloze_runs):
    found = details(cloze_runs["facts"])
    assert found["nExcluded"] == 3
    assert found["excluded"] == [[f"item-{n}", LONG, "'so-so' in several pieces: 3"] for n in (117, 118, 119)]
    assert not {"item-117", "item-118", "item-119"} & set(found["ids"])
    assert details(cloze_runs["one"])["excluded"] == []


def test_groups_are_shown_where_no_prediction_was_kept(facts, made_up_cloze, tmp_path):
    bare = dataclasses.replace(facts, kept={}).save(tmp_path / "bare", tables=(), plots=())
    found = details(bare)
    assert found["noItems"] == "the run kept no predictions of single items"
    assert len(found["groups"]) == 3
    one = dataclasses.replace(made_up_cloze(groups=("all",), controls=False), kept={})
    assert "missing" in details(one.save(tmp_path / "one", tables=(), plots=()))


def test_texts_are_left_out_where_none_may_stand_in_the_page(facts, made_up_cloze, tmp_path):
    """Sentences are told by several words; single words are answers, as labels are."""
    found = details(facts.save(tmp_path / "a", tables=(), plots=()), with_text=False)
    assert set(found["words"]) == {"right text", "no"}
    assert "answer 3" in details(tmp_path / "a")["words"]


def test_the_summary_speaks_of_a_head_that_nobody_trained(cloze_runs):
    page = page_of(cloze_runs["facts"])
    text = cards(page)
    (table,) = read_results(cloze_runs["facts"]).view().tables
    last = table.lines[-1]
    for said in (
        "Which word completes a fact? (task lama, v1)",
        "117 items in 59 clusters, 3 skipped (in several pieces 3)",
        "the model's own head; nothing is fitted",
        f"layer 4: P@1 {100 * last.main.value:.1f} ",
        f"blind {100 * last.blind.value:.1f}",
        f"random init {100 * last.random_init.value:.1f}",
        "the same texts without the words that decide the answer",
        "bootstrap over clusters",
    ):
        assert said in text, said
    assert "A probe shows what can be decoded" not in text
    assert "It was made to read the last layer alone" in text


def test_choices_are_held_against_chance(cloze_runs):
    assert "chance 37.5 %" in cards(page_of(cloze_runs["pairs"]))
    assert "chance" not in cards(page_of(cloze_runs["facts"]))


def test_of_changes_no_layer_is_the_best(cloze_runs):
    page = page_of(cloze_runs["changes"])
    values = [line.main.value for line in read_results(cloze_runs["changes"]).view().tables[0].lines]
    assert f"layer 4: predictions changed {100 * values[4]:.1f} " in cards(page)
    assert 'class="best"' not in page.partition('<section id="scores"')[0]


def test_probes_and_heads_in_one_page_have_both_caveats(cloze_runs):
    page = page_of(cloze_runs["both"])
    text = cards(page)
    assert "A probe shows what can be decoded" in text
    assert "It was made to read the last layer alone" in text
    labels = {q["task"]: q["entries"][0]["details"] for q in payload(page)["questions"]}
    assert "perLabel" in labels["pos"]
    assert labels["lama"]["cloze"]


@pytest.fixture(scope="session")
def files(cloze_runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cloze-pages")
    return {name: write_report([run], folder / f"{name}.html") for name, run in cloze_runs.items()}


def test_groups_and_prompts_in_a_browser(shown, files):
    page = shown("facts")
    assert page.locator("#cloze-body").is_visible()
    assert not page.locator("#detail-body").is_visible()
    head = [text.strip() for text in page.locator("#groups-table thead .name").all_inner_texts()]
    assert head == ["Group", "Items", "Clusters", "Skipped", "0", "1", "2", "3", "4"]
    found = payload(files["facts"].read_text(encoding="utf-8"))["questions"][0]["entries"][0]["details"]
    value, low, high = (f"{100 * number:.1f}" for number in found["groups"][1]["scores"][4])
    cell = page.locator("#groups-table tbody tr").nth(1).locator("td").last
    assert cell.inner_text().split() == [value, f"[{low},", f"{high}]"]
    page.locator('#groups-table th[data-key="group"] button').click()
    assert page.locator("#groups-table tbody th").first.inner_text() == LONG
    # It opens on what the lowest layer gets wrong and the best one right.
    assert page.locator("#prompts-title").inner_text() == "Prompts that layer 0 gets wrong and layer 4 gets right"
    n = found["wrongRight"][0][4]
    assert page.locator("#prompts-count").text_content() == f"{n} listed"
    assert page.locator("#prompts li").count() == min(20, n)
    first = page.locator("#prompts li").first.inner_text()
    assert re.search(r"item-\d+ stated 10 times\s+right: answer \d", first)
    assert re.search(r"layer 0: no \(rank \d+, p \d\.\d %, log p −\d\.\d\d\)", first)
    assert re.search(r"layer 4: answer \d \(rank 1, p \d\d\.\d %", first)
    page.locator("#prompts-more").click()
    assert page.locator("#prompts li").count() == min(40, n)
    page.locator("#prompts-group").select_option(label="stated 2 times")
    listed = [found["group"][i] for i in range(len(found["ids"])) if found["wrong"][0][i] and not found["wrong"][4][i]]
    assert page.locator("#prompts-count").text_content() == f"{listed.count(1)} listed"
    page.locator("#prompts-find").fill("no such item")
    assert page.locator("#prompts li").count() == 0
    page.locator("#prompts-swap").click()
    assert page.locator("#detail-layer").input_value() == "4"
    assert page.locator("#excluded-table tbody tr").count() == 3
    assert "'so-so' in several pieces: 3" in page.locator("#excluded-table").inner_text()
