"""The page in a browser: it draws, filters, sorts and drills down, says nothing on the console and asks for nothing."""

import re

import pytest

from bertology.results import read_results
from bertology.results.report import write_report
from bertology.results.views.frames import confusion

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
    page.locator("#filter-reader").select_option("pocket")
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
    assert chart.locator("canvas").count() == 1
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
    page.locator("#chart .u-over").hover(position={"x": 40, "y": 100})
    assert "layer 0 · embeddings" in tip.inner_text()


def pixels(page):
    return page.evaluate("document.querySelector('#chart canvas').toDataURL()")


def test_chart_lines_come_and_go(shown):
    page = shown("one")
    chips = page.locator("#chart-series button")
    assert [text.strip() for text in chips.all_inner_texts()] == ["probe", "random init", "control task"]
    before = pixels(page)
    chips.nth(1).press("Space")
    assert chips.nth(1).get_attribute("aria-pressed") == "false"
    assert pixels(page) != before
    chips.nth(1).click()
    assert pixels(page) == before
    page.locator("#chart-zero").check()
    assert pixels(page) != before
    page.locator("#chart-question").select_option("1")
    assert page.locator("#detail-entry").input_value() == "1/0"
    page.locator("#numbers summary").click()
    assert page.locator("#numbers-table tbody tr").count() == 6


def test_controls_of_many_models_are_a_click_away(shown):
    page = shown("two")
    pressed = page.locator("#chart-series button").evaluate_all("all => all.map(b => b.ariaPressed)")
    assert pressed == ["true", "false", "false"] * 2


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


def test_a_mistake_leads_to_its_words(shown):
    page = shown("text")
    page.locator("#detail-layer").select_option("0")
    cell = page.locator("#confusion-table td.mistake button").first
    total = int(cell.inner_text())
    gold, pred = re.match(r"(\w+) taken for (\w+)", cell.get_attribute("aria-label")).groups()
    cell.press("Enter")
    assert page.locator("#words-count").text_content() == f"{total} listed"
    before = page.locator("#words li").count()
    assert before == min(20, total) > 0
    said = page.locator("#words li .answers").first.inner_text()
    assert f"label: {gold}" in said
    assert f"layer 0: {pred}" in said
    if total > 20:
        page.locator("#words-more").click()
        assert page.locator("#words li").count() == min(40, total)
    page.locator("#words-find").fill("no such word anywhere")
    assert page.locator("#words li").count() == 0


def test_theme_follows_the_system_until_it_is_chosen(shown):
    page = shown("one", scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark, drawn = page.evaluate(ground), pixels(page)
    button = page.locator("#theme")
    button.click()
    assert button.inner_text() == "Theme: light"
    light = page.evaluate(ground)
    assert light != dark
    assert pixels(page) != drawn
    page.emulate_media(color_scheme="light")
    button.click()
    assert button.inner_text() == "Theme: dark"
    assert page.evaluate(ground) == dark
    button.click()
    assert button.inner_text() == "Theme: system"
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("name", ["one", "two", "text", "hostile"])
def test_nothing_sticks_out_on_a_phone(shown, name):
    page = shown(name, width=390, touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.locator("#chart .u-over").tap()
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


def test_three_runs_show_what_the_models_in_sight_have(shown):
    """A model that is filtered out takes its tasks and baselines along, and scrolling keeps the names in sight."""
    page = shown("three")
    heads, rows = page.locator("#overview-table thead th:visible"), page.locator("#overview-table tbody tr:visible")
    whole = heads.count()
    page.locator("#filter-reader").select_option("b/tiny")
    assert rows.count() == 6
    assert [head.split("\n")[0].strip(" ↕") for head in heads.all_inner_texts()] == ["Model", "Layer", "pos"]
    assert page.locator("#overview-table tbody td.nothing:visible").count() == 0
    assert page.locator("#overview-table tfoot tr:visible th").all_inner_texts() == ["majority", "word majority"]
    page.locator("#filter-reader").select_option("pocket")
    assert page.locator("#overview-table tfoot tr:visible th").all_inner_texts() == ["majority (oracle)"]
    page.locator("#filter-reader").select_option("")
    assert heads.count() == whole
    page.set_viewport_size({"width": 700, "height": 800})
    region = page.locator("#scores .scroll")
    region.evaluate("region => { region.scrollLeft = region.scrollWidth; }")
    edge = region.bounding_box()["x"]
    name, layer = (rows.first.locator(f'[data-key="{key}"]').bounding_box() for key in ("reader", "layer"))
    assert name["x"] == pytest.approx(edge, abs=1)
    assert layer["x"] == pytest.approx(edge + name["width"], abs=1)


def test_the_numbers_of_a_chart_are_those_of_the_models_it_shows(shown):
    page = shown("three")
    page.locator("#chart-question").select_option(label="pos")
    page.locator("#numbers summary").click()
    names = page.locator('#numbers-table tbody th[data-key="reader"]')
    assert set(names.all_inner_texts()) == {"a/tiny", "b/tiny"}
    page.locator("#chart-series button", has_text="a/tiny").first.click()
    assert set(names.all_inner_texts()) == {"b/tiny"}
    page.locator("#chart-series button", has_text="a/tiny").first.click()
    assert set(names.all_inner_texts()) == {"a/tiny", "b/tiny"}
