"""The map in a browser: worked by mouse, touch and keys, says nothing on the console and asks for nothing."""

import numpy as np
import pytest

from bertology.activations.layers import LayerVectors
from bertology.corpora import Sentence, Sentences, Target
from bertology.geometry.neighbours import SearchedText, find_neighbours

LONG = "a" * 300


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The map of 40 sentences with two senses of *bank*, which part in the second of three layers; and one hostile."""
    folder = tmp_path_factory.mktemp("maps")
    sentences = []
    for number in range(40):
        words = ["the", "bank", "lends" if number % 2 else "floods", LONG if number == 7 else "now"]
        if number == 5:
            words[3] = "</script><img src=x onerror=document.title='owned'>"
        sense = {"sense": (Target((1, 2), "money" if number % 2 else "shore"),)}
        tags = ("DET", "NOUN", "VERB", "ADV")
        sentences.append(Sentence.from_words(words, id=f"s{number}", layers={"upos": tags}, targets=sense))
    text = Sentences(sentences)
    dice = np.random.default_rng(0)
    array = dice.normal(size=(3, text.n_words, 8)).astype(np.float32)
    places = np.arange(text.n_words)
    array[:, :, 0] += 6 * (places % 4 == 1)
    array[1, :, 1] += 8 * ((places % 4 == 1) & (places // 4 % 2 == 1))
    query = Sentence.from_words(["we", "sat", "on", "the", "bank"])
    own = array[:, 1] + dice.normal(size=(3, 8)).astype(np.float32) / 10

    def read(words):
        return LayerVectors.of_arrays(array[:, words], words=words)

    searched = SearchedText({"train": text}, {"train": read})
    found = find_neighbours(query, 4, own, searched, layers=(0, 1, 2), k=5, model="m", corpus="c")
    return {"senses": found.save(folder / "map.html")}


@pytest.fixture
def shown(opened, pages):
    """Opens a page by its name, and waits until it is drawn."""
    return lambda name="senses", **options: drawn(
        opened(pages[name], scheme="dark", reduced_motion="reduce", **options)
    )


def drawn(page):
    page.locator("html[data-ready][data-drawn]").wait_for(state="attached")
    return page


def place_of(page, point):
    """Where a point is in the window."""
    box = page.locator("#stage").bounding_box()
    x, y = page.evaluate("point => atlas.view.placeOf(point)", point)
    return box["x"] + 1 + x, box["y"] + 1 + y


def alone(page):
    """A point that no other is near, so that pointing at it is not pointing at another."""
    return page.evaluate("""() => {
        const points = [...atlas.layout().points];
        const { placeOf } = atlas.view;
        const away = (a, b) => Math.hypot(placeOf(a)[0] - placeOf(b)[0], placeOf(a)[1] - placeOf(b)[1]);
        const others = (point) => points.filter((other) => other !== point);
        const least = (point) => Math.min(...others(point).map((other) => away(point, other)));
        return points.filter((point) => point > 0).sort((a, b) => least(b) - least(a))[0];
    }""")


def test_layers_by_the_slider(shown):
    page = shown()
    assert page.locator("#near-title").text_content() == "Nearest in layer 2"
    assert "% of the variance" in page.locator("#share").text_content()
    before = page.evaluate("[...atlas.view.now.x.slice(0, 9)]")
    page.locator("#layer").focus()
    page.keyboard.press("ArrowLeft")
    drawn(page)
    assert page.locator("#near-title").text_content() == "Nearest in layer 1"
    assert page.locator("#layer").get_attribute("aria-valuetext") == "layer 1 of 2"
    assert page.evaluate("[...atlas.view.now.x.slice(0, 9)]") != before
    assert page.locator("#near li").count() == 5
    # Where the senses part the neighbours have one.
    assert set(page.locator("#near .near-facts").all_inner_texts()) == {
        text for text in page.locator("#near .near-facts").all_inner_texts() if text.endswith("shore")
    }
    page.keyboard.press("Home")
    assert page.locator("#layer-told").text_content() == "0 · embeddings"


def test_words_alone_and_among_all(shown):
    page = shown()
    # Senses are known, and so the word is shown by itself.
    assert page.locator("#layout option").all_text_contents() == ["all words", "“bank” alone"]
    assert page.locator("#layout").input_value() == "1"
    assert page.locator("#legend .chip").all_inner_texts() == ["shore\n20", "money\n20", "no sense\n1"]
    page.select_option("#layout", "0")
    drawn(page)
    assert "161" not in page.locator("#found").text_content()
    assert page.locator("#legend .chip").last.inner_text() == "no sense\n121"
    assert "160 of 160 words of the corpus, among them all 40 occurrences" in page.locator("#about").text_content()


def test_pointing_shows_the_sentence_with_the_word_marked(shown):
    page = shown()
    point = alone(page)
    page.mouse.move(*place_of(page, point))
    tip = page.locator("#tip")
    tip.wait_for()
    assert tip.locator("mark").text_content() == "bank"
    assert tip.locator(".tip-where").text_content() == f"train · s{(point - 2) // 4}"
    page.mouse.move(5, 5)
    tip.wait_for(state="hidden")
    page.mouse.click(*place_of(page, point))
    page.mouse.move(5, 5)
    tip.wait_for()
    assert "bank" in page.locator("#told").text_content()


def test_search_colour_and_legend(shown):
    page = shown()
    page.select_option("#layout", "0")
    page.locator("#search").fill("LEND")
    assert page.locator("#found").text_content() == "20 found"
    page.select_option("#part", "text")
    assert page.locator("#found").text_content() == "80 found"
    page.locator("#search").press("Enter")
    first = page.evaluate("atlas.state.chosen")
    assert "lends" in page.locator("#tip").inner_text()
    page.locator("#next").click()
    assert page.evaluate("atlas.state.chosen") == first + 1
    page.locator("#search").fill("nothing like it")
    assert page.locator("#found").text_content() == "0 found"
    assert page.locator("#next").is_hidden()
    page.locator("#search").fill("")
    page.select_option("#kind", "tag")
    chips = page.locator("#legend .chip")
    assert chips.all_inner_texts()[0] == "NOUN\n40"
    drawn(page)
    before = page.evaluate("document.getElementById('canvas').toDataURL()")
    chips.nth(1).click()
    assert page.locator("#legend .chip").nth(1).get_attribute("aria-pressed") == "false"
    drawn(page)
    assert page.evaluate("document.getElementById('canvas').toDataURL()") != before


def test_by_keys_alone(shown):
    page = shown()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "stage":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("atlas.state.chosen") == 0
    assert page.locator("#told").text_content().startswith("bank, the word itself: we sat on")
    seen = {0}
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowLeft"):
        before = page.evaluate("atlas.view.placeOf(atlas.state.chosen)")
        page.keyboard.press(key)
        after = page.evaluate("atlas.view.placeOf(atlas.state.chosen)")
        seen.add(page.evaluate("atlas.state.chosen"))
        axis, sign = {"ArrowRight": (0, 1), "ArrowLeft": (0, -1), "ArrowDown": (1, 1), "ArrowUp": (1, -1)}[key]
        assert after == before or sign * (after[axis] - before[axis]) > 0
    assert len(seen) > 2
    page.keyboard.press("n")
    assert "neighbour 1, cosine" in page.locator("#told").text_content()
    assert page.locator('#near [aria-current="true"]').count() == 1
    scale = page.evaluate("atlas.view.scale()")
    page.keyboard.press("+")
    assert page.evaluate("atlas.view.scale()") == pytest.approx(1.5 * scale)
    page.keyboard.press("0")
    assert page.evaluate("atlas.view.scale()") == pytest.approx(scale)
    page.keyboard.press("Escape")
    assert page.locator("#told").text_content() == ""
