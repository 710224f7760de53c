"""The page in a browser: it draws, is worked by mouse and keys, says nothing on the console and asks for nothing."""

import shutil
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoTokenizer, BertConfig, BertModel

from bertology.attention import view
from bertology.corpora import load_corpus
from bertology.encoders import load_encoder

from .conftest import HOSTILE, SECOND, SENTENCE, maps_of, page_of, values_of


@pytest.fixture(scope="session")
def wide_encoder(tiny_bert, tmp_path_factory):
    """12 layers of 12 heads with random weights, 512 pieces."""
    folder = tmp_path_factory.mktemp("models") / "wide"
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert, model_max_length=512)
    size = {"hidden_size": 48, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 48}
    with torch.random.fork_rng():
        torch.manual_seed(2)
        BertModel(BertConfig(vocab_size=len(tokenizer), **size)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return load_encoder(str(folder), device="cpu")


@pytest.fixture(scope="session")
def files(encoder, wide_encoder, of_family, tmp_path_factory):
    """Pages by name."""
    folder = tmp_path_factory.mktemp("views")
    gold = next(one for one in load_corpus("pocket")["test"] if len(one) > 8)
    views = {
        "plain": view(SENTENCE, model=encoder),
        "pair": view(SENTENCE, SECOND, model=encoder),
        "gold": view(gold, model=encoder),
        "hostile": view(HOSTILE, model=encoder),
        "all": view(gold, model=wide_encoder),
        "long": view("a " * 510, model=wide_encoder, level="piece"),
        "models": view(SENTENCE, model=[encoder, wide_encoder]),
        "texts": view([SENTENCE, SECOND], model=encoder),
        "target": view("The quick brown fox jumps.", target="Äpfel kosten 20 €.", model=of_family("t5")),
    }
    return {name: page.save(folder / f"{name}.html") for name, page in views.items()}


@pytest.fixture
def shown(opened, files):
    """Opens a page by its name, and waits until it is drawn."""

    def show(name, *, dots=1, **options):
        return drawn(opened(files[name], accept_downloads=True, device_scale_factor=dots, **options))

    return show


def drawn(page):
    """The page when its drawing is complete."""
    page.locator("html[data-drawn]").wait_for(state="attached")
    return page


def pixels(page):
    return drawn(page).evaluate("document.getElementById('canvas').toDataURL()")


def until(page, holds):
    """Wait until something holds; ``wait_for_function`` polls by code that the page's security policy refuses."""
    for _ in range(200):
        if holds():
            return
        page.wait_for_timeout(25)
    pytest.fail("it does not come to hold within five seconds")


def tab(page, name):
    page.locator(f'[data-view="{name}"]').click()
    return drawn(page)


def saved(page, ending, path):
    """The file that a button saves."""
    with page.expect_download() as got:
        page.locator(f"#save-{ending}").click()
    shutil.copy(got.value.path(), path)
    assert got.value.suggested_filename.startswith(f"attention-{state(page)['view']}")
    assert got.value.suggested_filename.endswith(path.suffix)
    return path


def lines_drawn(page):
    """``[(from, to)]`` heights of the lines between words, without the pixels of the screen."""
    return page.evaluate(
        """() => {
            const lines = [];
            const nothing = () => {};
            const pen = { rect: nothing, path: nothing, text: nothing, image: nothing };
            pen.curves = ({ blocks }) => blocks.forEach((block) => lines.push(...block.lines()));
            viewer.views.heads.draw(pen, { x: 0, y: 0, width: 1e5, height: 1e5 });
            return lines.map(({ from, to }) => [from, to]);
        }"""
    )


def point_at(page, found):
    """Where something stands in the drawing: its first place that ``hit`` finds it at."""
    return page.evaluate(
        """(found) => {
            const wanted = JSON.stringify(found);
            for (let y = 2; y < 1500; y += 5) for (let x = 2; x < 1200; x += 5) {
                if (JSON.stringify(viewer.stage.view().hit(x, y)) === wanted) return { x, y };
            }
        }""",
        found,
    )


def state(page):
    return page.evaluate("({...viewer.state, heads: [...viewer.state.heads]})")


@pytest.mark.parametrize("level", ["word", "piece"])
def test_the_script_reads_what_was_packed(shown, files, level):
    page = shown("plain")
    page.locator("#level").select_option(level)
    drawn(page)
    page.evaluate("viewer.maps.load(2).then(() => document.body.dataset.loaded = 1)")
    page.locator("body[data-loaded]").wait_for(state="attached")
    rows = page.evaluate(
        "Array.from({length: viewer.units().labels.length}, (_, i) => [...viewer.maps.of(2, 3).row(i)])"
    )
    columns = page.evaluate(
        "Array.from({length: viewer.units().labels.length}, (_, i) => [...viewer.maps.of(2, 3).to(i)])"
    )
    expected = maps_of(files["plain"].read_text(encoding="utf-8"), level, "raw", 2)[2]
    np.testing.assert_allclose(rows, expected, atol=1e-6)
    np.testing.assert_allclose(np.transpose(columns), expected, atol=1e-6)


def test_left_out_weights_are_read_as_nothing(shown, files):
    page = shown("long")
    expected = maps_of(files["long"].read_text(encoding="utf-8"), "piece", "raw", 1)[4]
    assert 0 < (expected[7] > 0).sum() < 512
    np.testing.assert_allclose(page.evaluate("[...viewer.maps.of(1, 5).row(7)]"), expected[7], atol=1e-6)
    np.testing.assert_allclose(page.evaluate("[...viewer.maps.of(1, 5).to(9)]"), expected[:, 9], atol=1e-6)
    assert "keeps the 54 strongest" in page.locator("#notice").inner_text()
    assert page.locator("#level").is_disabled()


def test_a_long_page_is_small_and_quickly_there(shown, files):
    assert files["long"].stat().st_size < 10e6
    page = shown("long")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted < 1000
    tab(page, "heads")
    before = pixels(page)
    page.evaluate("document.getElementById('stage').scrollTop = 4000")
    until(page, lambda: pixels(page) != before)
    # The canvas is as large as what is in sight, however long the text.
    assert page.evaluate("canvas.height <= 2 * innerHeight")


def test_hidden_special_tokens_and_the_rest_scaled_up(shown):
    page = shown("pair")
    tab(page, "word")
    sums = "viewer.shown().map((i) => viewer.maps.of(1, 1).row(i).reduce((a, b) => a + b, 0))"
    labels = "viewer.shown().map((i) => viewer.units().labels[i])"
    assert page.evaluate(labels).count("[SEP]") == 2
    page.locator("#specials").select_option("hidden")
    assert "[SEP]" not in page.evaluate(labels)
    assert max(page.evaluate(sums)) < 1
    page.locator("#specials").select_option("renormalised")
    np.testing.assert_allclose(page.evaluate(sums), 1, atol=0.01)  # of 8-bit weights


def test_a_word_can_be_pointed_at_and_kept(shown):
    page = shown("plain")
    assert state(page)["view"] == "heads"
    page.locator("#stage").scroll_into_view_if_needed()
    before = pixels(page)
    place = page.evaluate("""() => {
        for (let y = 40; y < 300; y += 4) for (let x = 0; x < 1100; x += 10) {
            const found = viewer.views.heads.hit(x, y);
            if (found && found.side === "from" && found.word === 3) return {x, y};
        }
    }""")
    page.locator("#stage").hover(position=place)
    assert pixels(page) != before
    said = page.locator("#readout").inner_text()
    assert said.startswith("farmers looks at ")
    assert "mean of 4 heads" in said
    page.locator("#stage").click(position=place)
    page.mouse.move(2, 2)
    assert drawn(page).locator("#readout").inner_text() == said
    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    assert drawn(page).locator("#readout").inner_text().startswith("farmers is looked at by ")
    page.keyboard.press("PageDown")
    assert page.locator("#layer").input_value() == "2"
    page.keyboard.press("Escape")
    page.locator("#layer").select_option("1")
    assert pixels(page) == before


def test_one_word_through_the_layers(shown, files):
    page = tab(shown("gold"), "word")
    values = values_of(files["gold"].read_text(encoding="utf-8"))["levels"]["word"]
    page.locator("#word").select_option("4")
    dependents = {word: (head, relation) for word, head, relation in values["arcs"]}
    if 4 in dependents:
        head, relation = dependents[4]
        assert f"gold head: {values['labels'][head]} ({relation})" in drawn(page).locator("#readout").inner_text()
    before = pixels(page)
    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#word").input_value() == "5"
    assert pixels(page) != before
    for choose in (
        lambda: page.locator("#one-head").select_option("2"),
        lambda: page.locator("#side").select_option("to"),
        lambda: page.locator("#gold").uncheck(),
    ):
        before = pixels(page)
        choose()
        assert pixels(page) != before
    assert page.locator("#readout").inner_text().count("gold head") == 0


def test_every_view_is_saved_as_svg_and_png(shown, tmp_path):
    page = shown("hostile")
    assert page.title().startswith("Attention: </script><img")
    assert HOSTILE in page.locator(".said").inner_text()
    for name in ("model", "heads", "matrix", "word"):
        tab(page, name)
        assert page.locator("img").count() == 0
        svg, png = (saved(page, ending, tmp_path / f"{name}.{ending}") for ending in ("svg", "png"))
        root = ElementTree.parse(svg).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert ("script" in "".join(root.itertext())) == (name != "model")
        addresses = [value for node in root.iter() for value in node.attrib.values() if "//" in value]
        assert all(value.startswith("data:image/png") for value in addresses)
        with Image.open(png) as picture:
            colours = np.asarray(picture.convert("RGB")).astype(int)
        assert len(np.unique(colours @ (1 << 16, 1 << 8, 1))) > 20
        # Margins are cropped on all sides to the same few dots, but for the room of a letter's ascenders.
        for inked in ((colours != colours[0, 0]).any(2), (colours != colours[0, 0]).any(2).T):
            drawn_rows = np.flatnonzero(inked.any(1))
            assert 14 <= drawn_rows[0] <= 40
            assert 14 <= len(inked) - 1 - drawn_rows[-1] <= 40
    assert page.locator("#saved").inner_text().startswith("Saved as attention-")


def test_theme_follows_the_system(shown):
    light, dark = pixels(shown("plain")), pixels(shown("plain", scheme="dark"))
    assert light != dark
    page = shown("plain", scheme="dark")
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Theme: light"
    assert pixels(page) == light


def test_nothing_sticks_out_on_a_phone(shown):
    page = shown("long", width=390, touch=True)
    for view_name in ("model", "heads", "word"):
        tab(page, view_name)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.locator("#stage").tap()


def test_everything_can_be_reached_and_is_named(shown):
    page = shown("pair")
    for name in ("model", "heads", "word"):
        tab(page, name)
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("button, select, input, [tabindex='0']")]
                .filter(it => it.checkVisibility())
                .filter(it => !(it.ariaLabel || it.getAttribute("aria-labelledby")))
                .filter(it => !(it.labels?.length || it.innerText.trim()))
                .map(it => it.outerHTML)"""
        )
        assert unnamed == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(it => it.id)")
    assert len(ids) == len(set(ids))


def test_a_head_as_a_labelled_matrix(shown, files, tmp_path):
    page = shown("pair", fragment="#view=matrix&layer=2&heads=3")
    assert page.locator('[data-view="matrix"]').get_attribute("aria-pressed") == "true"
    html = files["pair"].read_text(encoding="utf-8")
    weights = maps_of(html, "word", "raw", 2)[2]
    page.locator("#stage").hover(position=point_at(page, {"from": 3, "to": 5}))
    readout = page.locator("#readout")
    drawn(page)
    assert readout.inner_text().startswith("farmers looks at the ")
    told = float(readout.inner_text().split("the ")[1].split(" %")[0])
    assert told == pytest.approx(100 * weights[3, 5], abs=0.51)
    assert readout.inner_text().endswith("(L2H3)")
    page.locator("#stage").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    drawn(page)
    assert readout.inner_text().startswith("near looks at river ")
    page.keyboard.press("Enter")
    assert (state(page)["word"], state(page)["side"], state(page)["kept"]) == (4, "from", True)
    root = ElementTree.parse(saved(page, "svg", tmp_path / "matrix.svg")).getroot()
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    labels = values_of(html)["levels"]["word"]["labels"]
    assert all(texts.count(label) == 2 * labels.count(label) for label in labels)
    assert {"L2H3", "from ↓", "to →", "0.0 %"} <= set(texts)
    cells = root.findall("{http://www.w3.org/2000/svg}rect")
    assert len(cells) > len(labels) ** 2


def test_parts_of_a_pair_and_a_threshold(shown, files):
    page = tab(shown("pair"), "heads")
    html = files["pair"].read_text(encoding="utf-8")
    segment = np.array(values_of(html)["levels"]["word"]["segment"])
    maps = maps_of(html, "word", "raw", 1)
    first = int(np.flatnonzero(segment)[0])
    assert page.evaluate("['from', 'to'].map((side) => viewer.breaks(side))") == [[first], [first]]
    for name, (rows, columns) in {"aa": (0, 0), "ab": (0, 1), "ba": (1, 0), "bb": (1, 1)}.items():
        page.locator("#part").select_option(name)
        assert page.evaluate("viewer.shown('from')") == np.flatnonzero(segment == rows).tolist()
        assert page.evaluate("viewer.shown('to')") == np.flatnonzero(segment == columns).tolist()
        part = maps[:, segment == rows][:, :, segment == columns]
        drawn(page)
        assert page.evaluate("viewer.maps.of(1, 2).top()") == pytest.approx(part[1].max(), abs=1e-6)
        assert len(lines_drawn(page)) == (part > 0.03 * part.max()).sum()
        assert page.evaluate("viewer.breaks('from')") == []
    page.locator("#threshold").fill("20")
    assert page.locator("#threshold-told").inner_text() == "20 %"
    drawn(page)
    assert 0 < len(lines_drawn(page)) == (part >= 0.2).sum() < (part > 0.03 * part.max()).sum()
    for name in ("matrix", "word", "model"):
        before = pixels(tab(page, name))
        page.locator("#threshold").fill("0")
        assert pixels(page) != before
        page.locator("#threshold").fill("20")
        assert pixels(page) == before


def test_a_word_is_searched_for(shown):
    page = tab(shown("pair"), "heads")
    whole = pixels(page)
    page.locator("#search").fill("THE")
    assert page.locator("#found").inner_text() == "1 of 3"
    found = state(page)
    assert (found["word"], found["kept"]) == (1, True)
    assert drawn(page).locator("#readout").inner_text().startswith("The looks at ")
    page.locator("#search").press("Enter")
    assert page.locator("#found").inner_text() == "2 of 3"
    assert state(page)["word"] == 5
    page.mouse.move(300, 500)
    assert state(page)["word"] == 5
    page.locator("#search").fill("zebra")
    assert page.locator("#found").inner_text() == "not found"
    page.locator("#search").fill("")
    assert state(page)["word"] is None
    page.mouse.move(2, 2)
    assert pixels(page) == whole


def test_the_address_holds_what_is_looked_at(shown):
    page = shown("pair")
    tab(page, "heads")
    page.locator("#layer").select_option("2")
    page.locator("#part").select_option("ab")
    page.locator("#specials").select_option("hidden")
    page.locator('#head-chips [data-head="2"]').click()
    page.locator("#threshold").fill("3")
    page.locator("#search").fill("farmers")
    page.locator("#weights").select_option("norm")
    until(page, lambda: "weights=norm" in page.evaluate("location.hash"))
    address, looked_at, picture = page.evaluate("location.hash"), state(page), pixels(page)
    assert "part=ab" in address
    assert "heads=1,3,4" in page.evaluate("decodeURIComponent(location.hash)")
    again = shown("pair", fragment=address)
    assert state(again) == looked_at
    assert pixels(again) == picture
    assert again.locator("#search").input_value() == "farmers"
    # What is not there is left, and what is typed into the address is taken.
    again.evaluate("location.hash = '#layer=99&view=word&level=letters&word=2&kept=1&heads=7'")
    until(again, lambda: state(again)["view"] == "word")
    found = state(again)
    assert (found["layer"], found["level"], found["word"], found["part"]) == (1, "word", 2, "all")


def test_two_models_side_by_side(shown, tmp_path):
    page = shown("models")
    assert page.evaluate("viewer.panels.map((panel) => panel.about.model)") == ["tiny-bert", "wide"]
    # Layer 1 stands at the bottom, and a layer that one model has not is empty in it.
    rows = page.evaluate("viewer.panels.map((panel) => panel.layers().length)")
    assert rows == [3, 12]
    tab(page, "heads")
    page.locator("#layer").select_option("2")
    assert page.evaluate("viewer.panels.every((panel) => panel.maps.ready(2))") or drawn(page)
    page.locator("#stage").click(position=point_at(page, {"panel": 1, "found": {"word": 3, "side": "from"}}))
    drawn(page)
    # The same word of the same text in both.
    assert page.evaluate("viewer.panels.map((panel) => panel.word())") == [3, 3]
    readout = page.locator("#readout").inner_text()
    assert readout.count("farmers looks at") == 2
    assert "tiny-bert: " in readout
    assert "wide: " in readout
    root = ElementTree.parse(saved(page, "svg", tmp_path / "both.svg")).getroot()
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("farmers") == 4
    assert {"tiny-bert", "wide"} <= set(texts)
    # What is on the screen is what is saved: painting in tiles, panel by panel, leaves nothing out.
    before = pixels(page)
    page.evaluate("viewer.change({word: 5}); viewer.change({word: 3})")
    assert pixels(page) == before
    page.locator("#layer").select_option("12")
    assert drawn(page).evaluate("viewer.panels.map((panel) => panel.headsOf(12).length)") == [0, 12]
    for name in ("model", "matrix", "word", "heads"):
        tab(page, name)


def test_two_texts_side_by_side(shown):
    page = tab(shown("texts"), "heads")
    page.locator("#search").fill("tree")
    assert page.evaluate("viewer.panels.map((panel) => panel.word())") == [None, 5]
    readout = drawn(page).locator("#readout").inner_text()
    assert "tree looks at" in readout
    page.locator("#stage").focus()
    page.keyboard.press("ArrowUp")
    assert state(page)["word"] == 4
    # By its number the other panel is chosen, without a mouse.
    page.keyboard.press("1")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("viewer.panels.map((panel) => panel.word())") == [0, None]
    page.keyboard.press("2")
    tab(page, "word")
    words = page.locator("#word option").all_inner_texts()
    assert words == ["[CLS]", "It", "sleeps", "under", "a", "tree", ".", "[SEP]"]


def test_cross_attention_from_a_target_to_its_source(shown, files):
    page = tab(shown("target"), "heads")
    html = files["target"].read_text(encoding="utf-8")
    sheets = page_of(html)["panels"][0]["kinds"]
    assert state(page)["kind"] == "cross"
    rows, columns = (sheets["cross"][side]["word"]["labels"] for side in ("levels", "columns"))
    assert page.evaluate("['from', 'to'].map((side) => viewer.units(side).labels)") == [rows, columns]
    expected = maps_of(html, "word", "raw", 1, kind="cross")[1]
    assert expected.shape == (len(rows), len(columns))
    read = "Array.from({length: viewer.units().labels.length}, (_, i) => [...viewer.maps.of(1, 2).row(i)])"
    np.testing.assert_allclose(page.evaluate(read), expected, atol=1e-6)
    turned = "Array.from({length: viewer.units('to').labels.length}, (_, j) => [...viewer.maps.of(1, 2).to(j)])"
    np.testing.assert_allclose(np.transpose(page.evaluate(turned)), expected, atol=1e-6)
    page.locator("#stage").hover(position=point_at(page, {"word": 3, "side": "to"}))
    assert drawn(page).locator("#readout").inner_text().startswith(f"{columns[3]} is looked at by ")
    for name in ("model", "matrix", "word"):
        tab(page, name)
    page.locator("#side").select_option("from")
    assert page.locator("#word option").all_inner_texts() == rows
    page.locator("#kind").select_option("decoder")
    drawn(page)
    inside = np.array(page.evaluate(read))
    assert inside.shape == (len(rows), len(rows))
    assert not np.triu(inside, 1).any()
    page.locator("#kind").select_option("encoder")
    assert drawn(page).evaluate("viewer.units().labels") == sheets["encoder"]["levels"]["word"]["labels"]
    assert page.locator("#part-field").is_hidden()
