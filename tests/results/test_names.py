"""What models are called where people read, and which tables one reader gives."""

import dataclasses
import re

import pytest

from bertology._names import short_names
from bertology.results import Results
from bertology.results.report._page import group_questions, read_runs, render_report
from bertology.results.table import number
from tests.results.conftest import made_up_cloze_results, made_up_results

HERE, THERE = "/data/shared/models/minilm", "/home/me/minilm"


def of_model(results, model, fingerprint="beef"):
    """The results as those of another model."""
    rows = [
        dataclasses.replace(
            row, model=model, model_fingerprint=fingerprint if row.init == "pretrained" else row.model_fingerprint
        )
        if row.model
        else row
        for row in results.rows
    ]
    return Results(tuple(rows), results.comparisons, results.kept)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["pocket", "bert-base-cased", "google/electra-base"], ["pocket", "bert-base-cased", "google/electra-base"]),
        ([HERE, "./models/tuned", "~/tuned2", "runs/7/model/"], ["minilm", "tuned", "tuned2", "model"]),
        ([HERE, THERE], ["models/minilm", "me/minilm"]),
        ([HERE, "minilm"], ["models/minilm", "minilm"]),
        ([HERE, THERE, "/srv/me/minilm", "gpt2"], ["shared/models/minilm", "home/me/minilm", "srv/me/minilm", "gpt2"]),
        (["runs/cola/seed-1", "runs/cola/seed-2", "google/electra-base"], ["seed-1", "seed-2", "google/electra-base"]),
        (["/m/bert", "/n/m/bert"], ["/m/bert", "n/m/bert"]),
        (["bert", "./bert", "/data/models/minilm"], ["bert", "./bert", "minilm"]),
        ([".", "/"], [".", "/"]),
    ],
)
def test_folders_are_called_by_as_many_parts_of_their_paths_as_tell_them_apart(names, short):
    assert short_names(names) == dict(zip(names, short, strict=True))
    assert short_names([*names, None, *names]) == short_names(names)


@pytest.fixture(scope="module")
def mixed():
    """One model that was probed and asked in one run."""
    probed, asked = made_up_results(("pos",)), made_up_cloze_results("lama")
    rows = [dataclasses.replace(row, pooling=None) for row in asked.rows]
    return of_model(Results((*probed.rows, *rows), probed.comparisons, {**probed.kept, **asked.kept}), HERE)


def test_probing_and_cloze_tasks_of_one_model_are_one_reader(mixed, tmp_path):
    view = mixed.view()
    for text in (view.to_text(width=160), view.to_markdown(), view.to_html(), view.to_latex(), view.to_csv()):
        assert "None" not in text
        assert "/data" not in text
    (models,) = view.models().tables
    assert [line.label for line in models.lines if not line.baseline] == ["minilm"]
    runs = read_runs([mixed.save(tmp_path, tables=("md", "csv", "tex"))])
    assert {entry.label for question in group_questions(runs) for entry in question.entries} == {"minilm"}
    page = render_report(runs)
    assert "None of pieces" not in page
    shown, _, provenance = page.partition('<section id="provenance"')
    assert HERE not in shown
    assert f"{HERE}, pretrained: beef" in provenance
    assert all(HERE not in (tmp_path / f"layers.{ending}").read_text() for ending in ("md", "csv", "tex"))


HOSTILE = "<img src=x onerror=alert(1)>|*b* `c`\n\n# heading [a](javascript:b) &lt;"


def test_names_are_text_in_markdown(pos):
    """Nothing in a name becomes HTML, a column, a heading, emphasis or a link."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    text = of_model(pos, HOSTILE).view().to_markdown()
    tokens = parser.parse(text)
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
    assert not {kind for kind in kinds if "html" in kind or "link" in kind or "image" in kind or "heading" in kind}
    words = [child.content for token in tokens for child in token.children or () if child.type == "text"]
    assert HOSTILE.replace("\n\n", " ") in " ".join("".join(words).split())
    # In headers and labels of rows as well.
    other = of_model(made_up_results(("ner",)), "plain", "0ther")
    both = Results((*of_model(pos, HOSTILE).rows, *other.rows), pos.comparisons)
    for table in (both.view().to_markdown(), both.view().models().to_markdown()):
        assert "<img" not in table
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows[: len(rows) // 2]}) == 1


def test_fractions_are_shown_in_percent_and_numbers_as_they_are():
    assert number(0.74, metric="mutual_neighbours") == number(0.74) == "74.0"
    assert number(12, metric="chosen_neighbours") == "12.00"
