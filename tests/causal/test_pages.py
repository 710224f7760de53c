"""The pages of patching and attribution: what stands on them, and how they are worked in a browser."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from bertology.causal import Attributions, PatchingMap, PatchPair, attribute, patch
from bertology.causal.items import read_facts
from bertology.causal.patching import known_facts, trace
from bertology.encoders import Encoder

HOSTILE = "</script><img src=x onerror=document.title='owned'>"
PAIR = PatchPair("The guards near the dog [MASK] open.", "The guard near the dog [MASK] open.", "are", "is")
PAIRS = [
    PatchPair(f"The {noun}s near the dog [MASK] open.", f"The {noun} near the dog [MASK] open.", "are", "is")
    for noun in ("guard", "cook", "farmer")
]
NO_PAIR = PatchPair("The cooks [MASK] open.", "The cook over there [MASK] open.", "are", "is")


@pytest.fixture(scope="module")
def one(encoder: Encoder) -> PatchingMap:
    return patch(encoder, PAIR)


@pytest.fixture(scope="module")
def scores(encoder: Encoder) -> Attributions:
    methods = ["integrated_gradients", "leave_one_out", "attention"]
    return attribute(
        encoder, [PAIR, PatchPair("The dog [MASK] here.", "", "is", "are")], methods=methods, layers=[1, 4]
    )


def data_of(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, flags=re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def visible(html: str) -> str:
    """The text of a page, without its style, scripts and tags."""
    body = re.sub(r"<(style|script)\b.*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def asks_no_network(html: str) -> bool:
    return "default-src 'none'" in html and not re.search(r"(src|href)=\"(?!#)", html) and "http" not in visible(html)


def test_both_texts_and_their_differences_stand_on_the_page(one: PatchingMap) -> None:
    html = one.to_html()
    assert asks_no_network(html)
    base, source = (f"{value:.2f}".replace("-", "−") for value in (one.base[0], one.base[0] + one.whole[0]))
    text = visible(html)
    ends = f"{base} in the base text, which is patched (effect 0), {source} in the source text (effect 1)"
    assert f"logit of are − logit of is: {ends}. Pairs: 1" in text
    table = data_of(html)["tables"]["texts"]
    assert table["columns"] == ["text", "words", "logit of are − logit of is"]
    assert table["rows"] == ["effect 0: in the base text, which is patched", "effect 1: in the source text"]
    for row, marked, number in zip(table["cells"], ("guard", "guards"), (base, source), strict=True):
        assert "".join(part for part, _ in row[0]["parts"]) == f"The {marked} near the dog [MASK] open."
        assert [part for part, is_marked in row[0]["parts"] if is_marked] == [marked]
        assert [cell["text"] for cell in row[1:]] == ["are / is", number]


def test_the_table_has_all_effects_from_the_bottom_up(one: PatchingMap) -> None:
    table = data_of(one.to_html())["tables"]["effects"]
    assert table["rows"] == ["4", "3", "2", "1", "0 · embeddings"]
    assert table["columns"] == list(one.places)
    assert [table["columns"][number] for number in table["marked"]] == ["2 guards/guard"]
    shares = np.array([[cell["share"] for cell in row] for row in table["cells"]])
    np.testing.assert_allclose(shares[::-1], one.effects)
    cell = table["cells"][-1][1]
    assert cell["text"] == "1.00"
    assert cell["more"] == ""
    assert cell["says"].startswith("Layer 0 · embeddings, 2 guards/guard: effect 1.00; logit of are − logit of is")


def test_several_pairs_have_intervals_and_those_left_out_are_named(encoder: Encoder) -> None:
    found = patch(encoder, [*PAIRS, NO_PAIR])
    html = found.to_html()
    frame = found.to_pandas().set_index(["layer", "place"])
    cells = data_of(html)["tables"]["effects"]["cells"]
    low, high = (f"{frame.loc[(3, 'mask'), bound]:.2f}" for bound in ("ci_low", "ci_high"))
    cell = cells[1][found.places.index("mask")]
    assert cell["more"] == f"[{low}, {high}]"
    assert cell["more"] in cell["says"]
    assert cell["says"].endswith("; pairs: 3")
    assert "Pairs left out: 1" in visible(html)
    assert "1 × the texts have 5 and 7 words" in visible(html)


def test_restored_facts_are_of_probabilities(encoder: Encoder) -> None:
    known = known_facts(encoder, read_facts("pocket")[:200], most=3)
    html = trace(encoder, known, n_draws=2, layers=[0]).to_html()
    assert "hidden state restored" in visible(html)
    assert "probability of the object: " in visible(html)
    names = ["effect 0: with the subject noised", "effect 1: as it is"]
    assert data_of(html)["tables"]["texts"]["rows"] == names * 3


def test_scores_and_faithfulness_stand_on_the_page(scores: Attributions) -> None:
    html = scores.to_html()
    assert asks_no_network(html)
    data = data_of(html)
    assert [text["words"] for text in data["texts"]] == [list(one.words) for one in scores.found]
    assert [method["title"] for method in data["methods"]] == [
        "integrated gradients",
        "leave one out",
        "attention, layer 1",
        "attention, layer 4",
    ]
    first = scores.found[0]
    for place, key in enumerate(scores.methods):
        assert data["texts"][0]["scores"][place] == pytest.approx(first.scores[key].tolist())
    assert "integrated gradients miss" in data["texts"][0]["completeness"]
    table = data["tables"]["faithfulness"]
    by_hand = scores.faithfulness()["leave_one_out", 0].comprehensiveness.mean()
    assert table["cells"][1][0]["text"] == f"{by_hand:.2f}"
    assert table["cells"][1][2]["text"] == "1.00"
    assert table["cells"][1][0]["more"].startswith("[")


@pytest.fixture
def shown(opened: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens the page of a result."""
    return lambda found, **options: opened(found.save(tmp_path / "page.html"), **options)


def test_arrow_keys_go_over_the_effects(shown: Callable[..., Any], one: PatchingMap) -> None:
    page = shown(one)
    assert page.locator("#texts mark").all_text_contents() == ["guard", "guards"]
    readout = page.locator("#effects-readout")
    hint = readout.text_content()
    cells = page.locator("#effects td")
    assert cells.count() == one.effects.size
    # The tab key goes to one cell alone: that of the embeddings and the first word.
    assert page.locator('#effects td[tabindex="0"]').count() == 1
    page.locator('#effects td[tabindex="0"]').focus()
    assert readout.text_content().startswith("Layer 0 · embeddings, 1 The: effect 0.00")
    page.keyboard.press("ArrowRight")
    assert readout.text_content().startswith("Layer 0 · embeddings, 2 guards/guard: effect 1.00")
    page.keyboard.press("ArrowUp")
    assert readout.text_content().startswith("Layer 1, 2 guards/guard")
    page.keyboard.press("End")
    assert readout.text_content().startswith("Layer 1, all: effect 1.00")
    page.keyboard.press("ArrowRight")
    assert readout.text_content().startswith("Layer 1, all")
    assert page.locator('#effects td[aria-selected="true"]').count() == 1
    assert page.locator("#effects th.near").all_text_contents() == ["all", "1"]
    # Another cell is read while the pointer is over it, then the selected one again.
    cells.first.hover()
    assert readout.text_content().startswith("Layer 4, 1 The")
    page.locator("h1").hover()
    assert readout.text_content().startswith("Layer 1, all")
    assert hint.startswith("Point at a cell")


def test_method_layer_and_text_are_chosen(shown: Callable[..., Any], scores: Attributions) -> None:
    page = shown(scores)
    words = page.locator("#words [role=option]")
    first = scores.found[0]
    assert words.nth(1).inner_text().split() == ["guards", f"{first.scores['integrated_gradients', 0][1]:.3f}"]
    assert "integrated gradients miss" in page.locator("#note").text_content()
    assert page.locator("#meaning").text_content().strip() == "evidence for “are”;  evidence for “is”."
    assert page.locator("#layer-field").is_hidden()
    page.select_option("#method", "attention")
    assert page.locator("#layer-field").is_visible()
    assert page.locator("#layer option").all_text_contents() == ["1", "4"]
    page.select_option("#layer", label="1")
    assert words.nth(1).inner_text().split() == ["guards", f"{first.scores['attention', 1][1]:.3f}"]
    assert "are not of evidence for “are” or for “is”" in page.locator("#meaning").text_content()
    assert page.locator("#note").text_content() == ""
    assert page.locator("#faithfulness tr.shown th").text_content() == "attention, layer 1"
    words.first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#readout").text_content().startswith("attention, layer 1: guards ")
    page.select_option("#text", "1")
    assert page.locator("#difference").text_content().startswith("logit of is − logit of are = ")
    assert [text.split("\n")[0] for text in words.all_inner_texts()] == list(scores.found[1].words)
    assert page.locator("#readout").text_content().startswith("Point at a word")
    assert page.locator("#scores td").count() == 4 * len(scores.found[1].words)


def test_what_a_text_holds_is_never_taken_for_a_page(shown: Callable[..., Any], encoder: Encoder) -> None:
    question = PatchPair(f"{HOSTILE} The dog [MASK] here.", f"{HOSTILE} The dogs [MASK] here.", "is", "are")
    for found in (patch(encoder, question), attribute(encoder, [question], methods=["leave_one_out"])):
        page = shown(found)
        assert page.title() != "owned"
        assert page.locator("img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_row_is_in_sight_and_a_table_can_be_had_as_csv(
    shown: Callable[..., Any], scores: Attributions, one: PatchingMap, scheme: str
) -> None:
    for found, table in ((scores, "scores"), (one, "effects")):
        page = shown(found, width=390, scheme=scheme)
        box = page.locator(f".scroll:has(> #{table})")
        assert box.evaluate("box => box.scrollHeight - box.clientHeight") <= 0
        assert "scroll" in box.evaluate("box => getComputedStyle(box).backgroundAttachment")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        with page.expect_download() as download:
            box.locator("+ .downloads button:text('CSV')").click()
        rows = list(csv.reader(Path(download.value.path()).read_text(encoding="utf-8").splitlines()))
        assert len(rows) == page.locator(f"#{table} tr").count()
        cells = page.locator(f"#{table} tr").nth(1).locator("th, td").all_text_contents()
        assert rows[1] == [cell.replace("−", "-") for cell in cells]
        with page.expect_download() as download:
            box.locator("+ .downloads button:text('SVG')").click()
        drawing = ElementTree.parse(download.value.path()).getroot()
        assert set(" ".join(cells).split()) <= {word for text in drawing.itertext() for word in text.split()}
        assert float(drawing.get("width", 0)) >= box.locator("table").evaluate("table => table.offsetWidth")
