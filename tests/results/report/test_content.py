"""What stands in the page, read without a browser."""

import base64
import dataclasses
import hashlib
import html
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from bertology._page import asset
from bertology.corpora import load_corpus
from bertology.results import Results, read_results
from bertology.results._items import confusion, per_label_scores
from bertology.results.rows import SCHEMA_VERSION

from .conftest import HOSTILE, page_of, payload, renamed


class Page(HTMLParser):
    """Elements of a page, and text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.inside, self.words = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self.inside[-1:]):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(run):
    return page_of(run)


def test_nothing_outside_the_file_is_named(page):
    for tag, attributes in Page(page).elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    assert "@import" not in page
    assert "url(" not in page


def test_the_policy_allows_this_style_and_these_scripts_only(page):
    policy = next(a["content"] for tag, a in Page(page).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    # What a drawing becomes a PNG by: it stands in the page, as all else.
    assert policy.endswith("; img-src data:")
    contents = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", page, re.DOTALL)
    assert len(contents) == 3
    for content in contents:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'" in policy


def test_summary_says_what_was_asked_found_and_how_sure(page, run):
    text = Page(page).text
    results = read_results(run)
    (table,) = results.only(task="pos").view().tables
    best = max(table.lines, key=lambda line: line.main.value)
    word_majority = next(line for line in table.baselines if line.control == "word_majority")
    said = text.replace("\xa0", " ")
    for fact in (
        "Which universal part of speech does each word have? (task pos, v1)",
        f"layer {best.layer}: ",
        f"{100 * best.main.value:.1f} [{100 * best.main.low:.1f}, {100 * best.main.high:.1f}]",
        f"word majority {100 * word_majority.main.value:.1f}",
        f"selectivity {100 * best.selectivity.value:.1f}",
        "no piece 2, too long 1",
        "bootstrap over test sentences",
    ):
        assert fact in said, fact


def test_the_page_opens_with_what_it_is_about(page, run):
    text = Page(page).text
    n_scores = sum(row.value is not None for row in read_results(run).rows)
    facts = f"Models pocket, 5 layers Corpora pocket test Tasks ner; pos Scores {n_scores} in 1 run"
    assert facts in text
    # Then the heatmap, prose after it, and the table.
    assert text.index(facts) < page.index('id="heatmap"')
    places = [page.index(f'id="{name}"') for name in ("about", "shown", "heatmap", "summary", "scores", "layers")]
    assert places == sorted(places)


def test_without_comparisons_no_layer_is_marked(made_up, tmp_path):
    bare = dataclasses.replace(made_up(("pos",), controls=False), comparisons=())
    text = Page(page_of(bare.save(tmp_path / "bare", tables=(), plots=()))).text
    assert "★" not in text.partition("Scores by layer")[0]


def test_table_holds_every_score(page, run):
    cells = [a for tag, a in Page(page).elements if tag == "td" and "data-good" in a]
    tables = read_results(run).view().tables
    assert len(cells) == sum(len(table.lines) for table in tables)
    shown = sorted(float(cell["data-value"]) for cell in cells)
    expected = sorted(line.main.value for table in tables for line in table.lines)
    np.testing.assert_allclose(shown, expected, atol=1e-6)
    starred = sum("data-best" in cell for cell in cells)
    assert starred == sum(bool(line.in_best_set) for table in tables for line in table.lines)


def test_details_are_those_of_the_predictions(page, run):
    results = read_results(run)
    for question in payload(page)["questions"]:
        (entry,) = question["entries"]
        found = entry["details"]
        for place, layer in enumerate(found["layers"]):
            frame = per_label_scores(results.kept[f"{question['task']}-0-{layer}"])
            labels = found["labels"]
            for name in ("precision", "recall", "f1"):
                shown = dict(zip(labels, found["perLabel"][name][place], strict=True))
                for label in frame.index:
                    value = frame.loc[label, name]
                    assert shown[label] == (None if np.isnan(value) else pytest.approx(value, abs=1e-4))
            pairs = {(labels[g], labels[p]): n for g, p, n in found["confusion"][place]}
            counts = confusion(results.kept[f"{question['task']}-0-{layer}"])
            assert pairs == {(g, p): counts.loc[g, p] for g in counts.index for p in counts.columns if counts.loc[g, p]}


def test_sentences_come_from_the_corpus_that_was_scored(pocket_run):
    plain = payload(page_of(pocket_run))
    found = plain["questions"][0]["entries"][0]["details"]
    test = load_corpus("pocket")["test"]
    by_id = {test.id(number): test[number] for number in range(len(test))}
    shown = [(name, place) for name, place in zip(found["ids"], found["places"], strict=True) if place]
    assert len(shown) > 10
    assert found["noText"] == ""
    for name, (sentence, start, end) in shown:
        sentence_id, _, word = name.rpartition(":")
        assert plain["sentences"][sentence][start:end] == by_id[sentence_id].words[int(word) - 1]
    # Items of words that there are not, in made-up runs, keep their ids.
    beyond = [name for name, place in zip(found["ids"], found["places"], strict=True) if not place]
    assert all(int(name.rpartition(":")[2]) > len(by_id[name.rpartition(":")[0]]) for name in beyond)


def test_corpora_are_found_as_the_run_asked_for_them(made_up, tiny_corpus, tmp_path):
    """By the path in the run's record, cut as it says."""
    whole = load_corpus(str(tiny_corpus))
    cut = dataclasses.replace(whole, splits={name: split[:12] for name, split in whole.splits.items()})
    results = renamed(made_up(("pos",), n_sentences=10), corpus="tiny", corpus_fingerprint=cut.fingerprint)
    ids = [f"{cut['test'].id(0)}:1"] * len(results.kept["pos-0-0"].gold)
    kept = {cell: dataclasses.replace(found, item_ids=ids) for cell, found in results.kept.items()}
    folder = Results(results.rows, results.comparisons, kept).save(tmp_path / "run", tables=(), plots=())

    def found():
        return payload(page_of(folder))

    assert (
        "corpus tiny is not on this machine: name the one that was scored with --corpus"
        in found()["questions"][0]["entries"][0]["details"]["noText"]
    )
    (folder / "experiment.yaml").write_text(f"corpora: [{{name: {tiny_corpus}, sentences: 12}}]")
    assert found()["sentences"] == [cut["test"].text(0)]
    (folder / "experiment.yaml").write_text(f"corpora: [{{name: {tiny_corpus}, sentences: 11}}]")
    assert (
        "is another one here: name the one that was scored with --corpus"
        in found()["questions"][0]["entries"][0]["details"]["noText"]
    )
    (folder / "experiment.yaml").write_text("corpora: [")
    assert found()["sentences"] == []


def test_nothing_breaks_out(hostile_run):
    page = page_of(hostile_run)
    assert HOSTILE not in page
    assert "<img" not in page
    assert page.count("</script>") == 3
    assert html.escape(HOSTILE) in page
    plain = payload(page)
    assert plain["questions"][0]["task"] == HOSTILE
    assert all(label.endswith(HOSTILE) for label in plain["questions"][0]["entries"][0]["details"]["labels"])


def test_runs_on_the_same_data_share_a_question(run, made_up, tmp_path):
    other = renamed(made_up(("pos",), n_seeds=2), model="other").save(tmp_path / "other", tables=(), plots=())
    plain = payload(page_of(run, other))
    by_task = {question["task"]: question for question in plain["questions"]}
    assert [entry["label"] for entry in by_task["pos"]["entries"]] == ["pocket", "other"]
    assert len(by_task["ner"]["entries"]) == 1


@pytest.mark.parametrize("field", ["corpus_fingerprint", "task_version", "split"])
def test_runs_on_other_data_are_never_mixed(run, made_up, tmp_path, field):
    other = renamed(made_up(("pos",)), **{field: "another"}).save(tmp_path / "other", tables=(), plots=())
    page = page_of(run, other)
    questions = [question for question in payload(page)["questions"] if question["task"] == "pos"]
    assert [len(question["entries"]) for question in questions] == [1, 1]
    assert len({question["label"] for question in questions}) == 2
    assert "their scores cannot be compared" in Page(page).text


def test_a_run_without_predictions_says_so(made_up, tmp_path):
    folder = dataclasses.replace(made_up(("pos",)), kept={}).save(tmp_path / "bare", tables=(), plots=())
    assert payload(page_of(folder))["questions"][0]["entries"][0]["details"] == {
        "missing": "the run kept no predictions of single items"
    }


def test_provenance_is_complete(page):
    text = Page(page).text.partition("Where the numbers come from")[2]
    for said in ("beef", "c0ffee", "linear.v1", "seeds 0; 1", f"schema {SCHEMA_VERSION}", "cluster-bootstrap-bca"):
        assert said in text


@pytest.mark.parametrize("theme", [":root {", '[data-theme="dark"] {'])
def test_a_star_can_be_read_on_the_deepest_shade(theme):
    block = asset("assets/page.css").partition(theme)[2].partition("}")[0]
    heat = re.search(r"--heat: ([\d ]+);", block)[1].split()
    star, behind = (bytes.fromhex(re.search(rf"--{name}: #(\w+);", block)[1]) for name in ("star", "ground"))
    shade = 0.72 * np.array([*behind]) + 0.28 * np.array(heat, dtype=float)
    shares = np.array([[*star], shade]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    lower, upper = sorted(linear @ (0.2126, 0.7152, 0.0722))
    assert (upper + 0.05) / (lower + 0.05) >= 4.5  # WCAG 2, level AA
