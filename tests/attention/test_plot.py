"""One head as a labelled heatmap: the map of transformers, cell by cell, under the words that it lies between."""

import re
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from bertology import Encoder, load_encoder
from bertology.errors import ResultsError, StoreError
from bertology.results.figures import plot_head

TEXT, SECOND = "The dogs chased $a cat.", "It slept."


@pytest.fixture(scope="module")
def tiny(tiny_bert: Path) -> Encoder:
    return load_encoder(str(tiny_bert), device="cpu")


def test_cells_are_the_weights_and_ticks_the_words(tiny: Encoder, tiny_bert: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    model = AutoModel.from_pretrained(tiny_bert, attn_implementation="eager").eval()
    encoded = tokenizer(TEXT, return_tensors="pt")
    with torch.inference_mode():
        expected = model(**encoded, output_attentions=True).attentions[1][0, 2].numpy()
    head = tiny.attention(TEXT, level="piece").at(layer=2, head=3)
    assert head.chosen == {"layer": 2, "head": 3}
    figure = head.plot()
    ax, bar = figure.axes
    (mesh,) = ax.collections
    np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(expected.shape), expected, atol=1e-6)
    assert mesh.get_clim() == (0, pytest.approx(expected.max(), abs=1e-6))
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [label.get_text() for label in ax.get_xticklabels()] == list(head.labels["from"])
    # Rows run down, as they are read, and what they are is stated.
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert (ax.get_ylabel(), ax.get_xlabel(), ax.get_title(loc="left")) == ("from (rows)", "to (columns)", "L2H3")
    assert bar.get_ylabel() == "attention weight"
    assert plot_head(head, title="mine").axes[0].get_title(loc="left") == "mine"
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_text_stays_text_and_margins_are_cropped(tiny: Encoder, tmp_path: Path) -> None:
    figure: Any = tiny.attention(TEXT).at(layer=1, head=1).plot()
    svg = figure.save(tmp_path / "new" / "head.svg").read_text(encoding="utf-8")
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    for word in ("chased", "$", "[SEP]"):
        assert drawn.count(word) == 2
    assert figure.save(tmp_path / "head.svg").read_text(encoding="utf-8") == svg
    picture = matplotlib.image.imread(figure.save(tmp_path / "head.png"))
    inked = (picture[..., :3] < 0.97).any(2)
    for lines in (inked.any(1), inked.any(0)):
        places = np.flatnonzero(lines)
        assert places[0] <= 0.1 * 200
        assert len(lines) - 1 - places[-1] <= 0.1 * 200
    assert b"/Type0" in figure.save(tmp_path / "head.pdf").read_bytes()
    with pytest.raises(StoreError, match=r"cannot draw 'head.bmp': name a file that ends in .svg, .pdf or .png"):
        figure.save(tmp_path / "head.bmp")


def test_a_pair_is_divided_and_several_share_a_scale(tiny: Encoder) -> None:
    pair, alone = tiny.attention(TEXT, SECOND).at(layer=1, head=2), tiny.attention(TEXT).at(layer=1, head=2)
    begins = list(pair.labels["from"]).index("It")
    assert pair.breaks == {"from": (begins,), "to": (begins,)}
    assert alone.breaks == {"from": (), "to": ()}
    first, second, _ = plot_head([pair, alone]).axes
    assert len(first.lines) == 2
    assert not second.lines
    assert first.collections[0].get_clim() == second.collections[0].get_clim()


def test_what_is_no_single_map_is_refused(tiny: Encoder) -> None:
    with pytest.raises(ResultsError, match=r"an array of layer, head, from, to is not the map of one head"):
        tiny.attention(TEXT).plot()
    with pytest.raises(ResultsError, match="not the map of one head"):
        tiny.vectors([TEXT]).at(layer=1).plot()
    long = tiny.attention(TEXT).at(layer=1, head=1)
    values = np.zeros((200, 200), dtype=np.float32)
    many = type(long)(values, dict.fromkeys(("from", "to"), ["a"] * 200), {})
    with pytest.raises(ResultsError, match="200 units are too many for a figure with room for 160"):
        plot_head(many)
