"""The page in a browser: it draws, filters, sorts and drills down, says nothing on the console and asks for nothing."""

import csv
import io
from xml.etree import ElementTree

import pytest

from bertology.results import read_results
from bertology.results._items import confusion
from bertology.results.report import write_report

from .conftest import HOSTILE, payload, renamed


@pytest.fixture(scope="session")
def files(run, pocket_run, hostile_run, made_up, facts, tmp_path_factory):
    """Pages by name."""
    folder = tmp_path_factory.mktemp("pages")
    other = renamed(made_up(("pos", "ner"), n_seeds=2), model="other").save(folder / "other", tables=(), plots=())
    of_one_name = [
        renamed(made_up(tasks), model=f"/{place}/tiny", model_fingerprint=place).save(
            folder / place, tables=(), plots=()
        )
        for place, tasks in (("a", ("pos", "ner")), ("b", ("pos",)))
    ]
    asked = facts.save(folder / "facts", tables=(), plots=())
    about = {"one": [run], "text": [pocket_run], "two": [run, other], "hostile": [hostile_run]}
    about["three"] = [asked, *of_one_name]
    return {name: write_report(runs, folder / f"{name}.html") for name, runs in about.items()}


def values(page, column):
    """The values of a column of the overview, as they are seen from top to bottom."""
    cells = page.locator(f'#overview-table tbody tr:visible td[data-key="{column}"]')
    return [float(value) for value in cells.evaluate_all("cells => cells.map(cell => cell.dataset.value)")]


def test_sorting_by_click_and_by_keyboard(shown):
    page = shown("one")
    assert page.locator("#overview-table tbody tr").count() == 6
    head = page.locator('#overview-table th[data-key="q1"]')
    before = values(page, "q1")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert values(page, "q1") == sorted(before, reverse=True) != before
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert values(page, "q1") == sorted(before)
    page.locator('#overview-table th[data-key="layer"] button').click()
    assert head.get_attribute("aria-sort") == "none"
    assert values(page, "q1") == before


def test_filtering(shown):
    page = shown("two")
    rows, count = page.locator("#overview-table tbody tr:visible"), page.locator("#count")
    assert count.text_content() == "12 of 12 rows"
    page.locator("#filter-text").fill("3")
    assert rows.count() == 2
    page.locator("#filter-text").fill("OTHER")
    assert rows.count() == 6
    assert count.text_content() == "6 of 12 rows"
    page.locator("#filter-text").fill("")
    page.locator("#models").get_by_label("other").uncheck()
    assert rows.count() == 6
    page.locator("#filter-best").check()
    starred = page.locator("#overview-table tbody tr:visible:has([data-best])").count()
    assert rows.count() == starred < 6
    page.locator('#columns input[data-column="q0"]').uncheck()
    assert page.locator('#overview-table [data-key="q0"]:visible').count() == 0
    assert page.locator('#overview-table [data-key="q1"]:visible').count() > 0


def test_chart_tells_numbers_on_hover_and_by_keys(shown, files):
    page = shown("one")
    chart, tip = page.locator("#chart"), page.locator("#tip")
    (entry,) = payload(files["one"].read_text(encoding="utf-8"))["questions"][0]["entries"]
    assert chart.locator("svg").count() == 1
    assert not tip.is_visible()
    chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    value, low, high = (f"{100 * number:.1f}" for number in entry["lines"][4]["main"])
    assert "layer 4" in tip.inner_text()
    assert value in tip.inner_text()
    assert f"[{low}, {high}]" in tip.inner_text()
    assert "word majority" in tip.inner_text()
    assert f"layer 4, accuracy: probe {value}" in page.locator("#chart-says").text_content()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.locator("#chart").hover(position={"x": 100, "y": 100})
    assert "layer 0 · embeddings" in tip.inner_text()


def test_a_score_leads_to_what_is_behind_it(shown, run):
    page = shown("one")
    questions = page.evaluate("report.data.questions.map(q => q.task)")
    place = questions.index("pos")
    page.locator(f'.score[data-question="{place}"][data-layer="3"]').click()
    assert page.locator("#detail-layer").input_value() == "3"
    assert page.locator("#chart-question").input_value() == str(place)
    expected = confusion(read_results(run).kept["pos-0-3"])
    shown_counts = page.locator("#confusion-table tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(td => Number(td.textContent.replace(',', ''))))"
    )
    labels = page.locator("#confusion-table tbody th").all_inner_texts()
    columns = page.locator("#confusion-table thead th.turned").evaluate_all("all => all.map(head => head.title)")
    assert labels == columns
    for label, counts in zip(labels, shown_counts, strict=True):
        known = [name for name in columns if name in expected.columns]
        assert [counts[columns.index(name)] for name in known] == (
            expected.loc[label, known].tolist() if label in expected.index else [0] * len(known)
        )
    assert page.locator("#labels-table tbody tr").count() == len(labels)


def test_words_wrong_in_one_layer_and_right_in_another(shown):
    page = shown("text")
    page.locator("#detail-layer").select_option("1")
    page.locator("#detail-other").select_option("2")
    assert page.locator("#words-title").inner_text() == "Words that layer 1 got wrong and layer 2 right"
    counts = page.evaluate("report.data.questions[0].entries[0].details.wrongRight")
    listed = page.locator("#words-count")
    assert listed.text_content() == f"{counts[1][2]} listed"
    first = page.locator("#words li").first
    label, here, there = [text.split(": ")[1] for text in first.locator(".answers span").all_inner_texts()[:3]]
    assert label == there != here
    assert page.locator("#words li mark").count() == page.locator("#words li").count() == min(20, counts[1][2])
    page.locator("#words-swap").click()
    assert listed.text_content() == f"{counts[2][1]} listed"
    assert page.locator("#detail-layer").input_value() == "2"


@pytest.mark.parametrize("name", ["two", "hostile"])
def test_nothing_sticks_out_on_a_phone(shown, name):
    page = shown(name, width=390, touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.locator("#chart").tap()
    assert page.locator("#tip").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_hostile_names_are_shown_and_do_nothing(shown):
    page = shown("hostile")
    assert page.title().startswith("bertology report")
    assert HOSTILE in page.locator("#summary").inner_text()
    assert page.locator("img").count() == 0
    page.locator("#chart").focus()
    page.locator("#confusion-table td.mistake button").first.click()
    assert HOSTILE in page.locator("#words").inner_text()
    assert page.locator("img").count() == 0


def test_everything_can_be_reached_and_is_named(shown):
    page = shown("two")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, [tabindex='0']")]
            .filter(it => it.checkVisibility())
            .filter(it => !(it.ariaLabel || it.getAttribute("aria-labelledby")))
            .filter(it => !(it.labels?.length || it.innerText.trim()))
            .map(it => it.outerHTML)"""
    )
    assert unnamed == []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(it => it.id)")
    assert len(ids) == len(set(ids))
    references = page.evaluate(
        "[...document.querySelectorAll('[aria-labelledby]')].map(it => it.getAttribute('aria-labelledby'))"
    )
    assert set(references) <= set(ids)


def test_the_heatmap_holds_every_score_and_speaks(shown, files):
    """Models stand next to each other; the star set is marked; arrow keys tell intervals, Enter leads on."""
    page = shown("two")
    questions = payload(files["two"].read_text(encoding="utf-8"))["questions"]
    lines = [line for question in questions for entry in question["entries"] for line in entry["lines"]]
    heatmap = page.locator("#heatmap")
    assert heatmap.locator("[data-cell]").count() == len(lines) == 24
    texts = heatmap.locator("text").all_text_contents()
    starred = [text for text in texts if text.endswith(" ★")]
    assert len(starred) == sum(line["best"] for line in lines) > 0
    columns = [question["label"] for question in questions]
    assert [text for text in texts if text in columns] == columns
    assert [text for text in texts if text in ("pocket", "other")] == ["pocket", "other"] * 2
    # Layers from the bottom up.
    assert [text for text in texts if text in "12345"] == list("54321")
    assert texts[-1] != "0 embeddings" in texts
    heatmap.locator(".drawing").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    value, low, high = (f"{100 * number:.1f}" for number in questions[0]["entries"][1]["lines"][1]["main"])
    said = f"{columns[0]} · other, layer 1: accuracy {value} % [{low}, {high}]"
    assert heatmap.locator(".tip").inner_text().startswith(said)
    assert heatmap.locator("[role=status]").text_content().startswith(said)
    page.keyboard.press("Enter")
    assert page.locator("#detail-entry").input_value() == "0/1"
    assert page.locator("#detail-layer").input_value() == "1"
    heatmap.locator('[data-cell="0,0"]').hover()
    assert "layer 5" in heatmap.locator(".tip").inner_text()


def test_a_hidden_model_is_gone_everywhere_and_the_address_says_so(shown, files):
    """What is chosen stands in the fragment: it comes back with the back button, and in a page opened by the link."""
    page = shown("two")

    def seen():
        listed = "all => all.filter(one => one.checkVisibility()).map(one => one.innerText.split('\\n')[0].trim())"
        return {
            "heatmap": page.locator("#heatmap text", has_text="other").count(),
            **{
                name: page.locator(where).evaluate_all(listed)
                for name, where in {
                    "rows": "#overview-table tbody [data-key=reader]",
                    "cards": ".card h3",
                    "lines": "#chart-series button",
                    "behind": "#detail-entry option",
                }.items()
            },
        }

    whole = seen()
    assert whole["heatmap"] == 2
    page.locator("#models").get_by_label("other").uncheck()
    less = seen()
    assert less["heatmap"] == 0
    assert "other" not in str(less)
    assert "pocket" in str(less)
    assert page.url.endswith("#hide=other")
    page.locator("#columns input").first.uncheck()
    page.locator("#score").select_option("selectivity")
    assert "selectivity" in page.locator("#overview-table thead").inner_text()
    page.locator('#overview-table th[data-key="q1"] button').click()
    page.locator("#filter-text").press_sequentially("pock")
    page.locator("#chart-zero").check()
    page.locator("#numbers summary").click()
    # A browser tells of an opened part later: a choice made at once would be in the same step of its history.
    page.wait_for_url(lambda url: "open=numbers" in url)
    page.locator("#detail-layer").select_option("2")
    page.locator("nav a", has_text="Provenance").click()
    address, last, order = page.url, seen(), values(page, "q1")
    assert order == sorted(order, reverse=True)
    fields = (
        "hide=other",
        "without=",
        "score=selectivity",
        "sort-overview-table=q1",
        "filter-text=pock",
        "open=numbers",
    )
    assert [field for field in fields if field not in address] == []
    page.go_back()
    assert page.locator("#detail-layer").input_value() != "2"
    for _ in range(5):
        page.go_back()
    # A word that was typed is one step.
    assert page.locator("#filter-text").input_value() == ""
    assert page.locator("#score").input_value() == "main"
    assert page.locator("#columns input").first.is_checked() is False
    page.go_back()
    assert seen() == less
    page.go_back()
    assert seen() == whole
    page.goto(address)
    page.reload()
    assert seen() == last
    assert values(page, "q1") == order
    assert page.locator("#detail-layer").input_value() == "2"
    assert page.locator("#numbers-table").is_visible()
    assert page.locator("#chart-zero").is_checked()


def saved(page, name):
    """What a button for a download saves."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    return download.value.path().read_bytes()


def test_tables_and_drawings_can_be_had_as_files(shown, run):
    page = shown("one")
    tables = {table.task: table for table in read_results(run).view().tables}
    table = list(csv.reader(io.StringIO(saved(page, "Scores by layer and task: download as CSV").decode())))
    head, *rows = table
    assert {"pos · accuracy, %", "ner · accuracy, %"} < set(head)
    place = next(place for place, name in enumerate(head) if name.startswith("pos"))
    assert head[place + 1 : place + 4] == [f"{head[place]} low", f"{head[place]} high", f"{head[place]} in best set"]
    for row, line in zip(rows, tables["pos"].lines, strict=False):
        numbers = [float(text) for text in row[place : place + 3]]
        assert numbers == pytest.approx([line.main.value, line.main.low, line.main.high], abs=1e-5)
        assert row[place + 3] == str(line.in_best_set).lower()
    for row, line in zip(rows[6:], tables["pos"].baselines, strict=True):
        assert row[0] == line.label
        assert [float(text) for text in row[place : place + 2]] == pytest.approx(
            [line.main.value, line.main.low], abs=1e-5
        )
    text = saved(page, "Scores by layer and task: download as LaTeX").decode()
    assert "\\toprule" in text
    best = next(line.main for line in tables["pos"].lines if line.in_best_set)
    assert f"\\textbf{{{100 * best.value:.1f}}} {{\\footnotesize [{100 * best.low:.1f}" in text
    assert text.count("&") == (1 + 6 + 2) * 2
    # All tables and drawings in sight have their own.
    assert (
        page.locator("main .scroll > table:visible").count()
        == page.locator("main .downloads:has-text('CSV'):visible").count()
    )
    for name in ("Layers by tasks", "Score by layer"):
        drawing = ElementTree.fromstring(saved(page, f"{name}: download as SVG"))
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(drawing.iter("{http://www.w3.org/2000/svg}text"))) > 8
        assert saved(page, f"{name}: download as PNG").startswith(b"\x89PNG")
