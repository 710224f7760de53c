"""The map of nearest occurrences: places as of scikit-learn, what a page holds, and that no word breaks out of it."""

import base64
import gzip
import json
import re
from functools import partial

import numpy as np
import pytest
from sklearn.decomposition import PCA

from bertology.activations.layers import LayerVectors
from bertology.corpora import Sentence, Sentences
from bertology.errors import BertologyError, CorpusError, StoreError
from bertology.geometry.neighbours import SearchedText, find_neighbours, planes

HOSTILE = "</script><img src=x onerror=document.title='owned'>{{data}}"


@pytest.fixture
def vectors():
    """Three layers whose two largest variances are 9 and 4, the second layer turned, the third other points."""
    dice = np.random.default_rng(5)
    made = dice.normal(size=(3, 90, 6)) * [3, 2, 1, 0.5, 0.5, 0.1] + 10
    turn, _ = np.linalg.qr(dice.normal(size=(6, 6)))
    made[1] = 4 * made[0] @ turn
    return made.astype(np.float32)


def test_places_are_the_components_of_scikit_learn_turned_onto_the_layer_before(vectors):
    found, shares = planes(vectors)
    assert found.shape == (3, 90, 2)
    for layer in range(3):
        pca = PCA(2).fit(vectors[layer])
        expected = pca.transform(vectors[layer])
        expected /= np.sqrt((expected**2).sum(axis=1).mean())
        assert shares[layer] == pytest.approx(pca.explained_variance_ratio_.sum(), abs=1e-5)
        places = found[layer]
        if layer == 0:
            signs = np.sign((places * expected).sum(axis=0))
            np.testing.assert_allclose(places, expected * signs, atol=1e-4)
        # Turned or mirrored: all distances are those of the components.
        np.testing.assert_allclose(places @ places.T, expected @ expected.T, atol=1e-3)
    # The same points turned lie where they lay, and no other turn brings the third layer nearer to the second.
    np.testing.assert_allclose(found[1], found[0], atol=1e-3)
    cross = found[2].T @ found[1]
    assert np.trace(cross) == pytest.approx(np.linalg.svd(cross, compute_uv=False).sum(), rel=1e-4)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_tsne_keeps_clusters_apart_and_is_that_of_its_seed():
    dice = np.random.default_rng(1)
    made = (dice.normal(size=(2, 60, 5)) + 30 * (np.arange(60)[:, None] % 2)).astype(np.float32)
    found, shares = planes(made, projection="tsne", seed=3)
    assert shares is None
    for places in found:
        middles = [places[start::2].mean(axis=0) for start in (0, 1)]
        spread = max(np.linalg.norm(places[start::2] - middles[start], axis=1).max() for start in (0, 1))
        assert np.linalg.norm(middles[0] - middles[1]) > 2 * spread
    assert (planes(made, projection="tsne", seed=3)[0] == found).all()


def found_in(sentences, query, place, *, k=2, dim=6, n_layers=2):
    """Neighbours among the words of sentences, whose vectors are drawn."""
    text = Sentences(sentences)
    array = np.random.default_rng(0).normal(size=(n_layers, text.n_words, dim)).astype(np.float32)

    def read(words):
        return LayerVectors.of_arrays(array[:, words], words=words)

    own = np.random.default_rng(1).normal(size=(n_layers, dim)).astype(np.float32)
    return find_neighbours(
        query, place, own, SearchedText({"train": text}, {"train": partial(read)}), layers=tuple(range(n_layers)), k=k,
        model="m", corpus="c",
    )  # fmt: skip


def tagged(words, name=""):
    words = words.split()
    return Sentence.from_words(words, id=name, layers={"upos": tuple("NOUN" if len(w) > 3 else "X" for w in words)})


def unpacked(html):
    """What the script of a page is given."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])
    packed = re.search(r'<script type="text/plain" id="packed-points">(.*?)</script>', html)[1]
    return data, json.loads(gzip.decompress(base64.b64decode(packed)))


SENTENCES = [tagged(f"the bank {word} 😀 bank", word) for word in ("lends", "opens", "floods", "is")]


def test_a_page_holds_places_words_and_values():
    found = found_in(SENTENCES, tagged("my Bank"), 1, k=3)
    data, packed = unpacked(found.map().html)
    n = data["nPoints"]
    assert n == 21
    assert [len(one["points"]) for one in packed["layouts"]] == [21, 9]
    assert (data["nWords"], data["nOfForm"]) == (20, 8)
    for about, layout, drawn in zip(data["layouts"], packed["layouts"], found.map().layouts, strict=True):
        numbers, places = layout["points"], (np.array(layout["places"]) / 65535 * 2 - 1) * about["limit"]
        np.testing.assert_allclose(places.transpose(0, 2, 1), drawn.places, atol=about["limit"] / 60_000)
        np.testing.assert_allclose(about["shares"], drawn.shares, atol=1e-6)
    texts, of_text, words, tags = packed["texts"], packed["textOf"], packed["values"]["word"], packed["values"]["tag"]

    def form(point):
        # Places count UTF-16 units.
        text = texts[of_text[point]][0].encode("utf-16-le")
        return text[2 * packed["begin"][point] : 2 * packed["end"][point]].decode("utf-16-le")

    assert form(0) == "Bank"
    assert [form(point) for point in range(1, 6)] == ["the", "bank", "lends", "😀", "bank"]
    assert texts[of_text[1]] == ["the bank lends 😀 bank", "train · lends"]
    for point in range(n):
        assert data["kinds"]["word"][words[point]] == form(point).lower()
        assert point == 0 or data["kinds"]["tag"][tags[point]] == ("NOUN" if len(form(point)) > 3 else "X")
    assert data["kinds"]["word"][0] == "bank"
    assert {form(point).lower() for point in numbers} == {"bank"}
    for row, layer in enumerate(data["layers"]):
        assert [form(point) for point in layer["near"]] == [one.word for one, _ in found.at(row)]
        assert layer["cosines"] == pytest.approx(found.cosines[row], abs=1e-4)


def test_a_sample_has_the_neighbours_and_the_form_before_other_words():
    found = found_in(SENTENCES, tagged("my bank"), 1, k=3)
    of_form = set(np.flatnonzero(found.text.codes["word"] == "bank").tolist())
    near = set(found.numbers.ravel().tolist())
    assert set(found.map(others=False).words.tolist()) == {-1} | near | of_form
    few = found.map(points=len(near) + 3)
    assert near < set(few.words.tolist())
    assert set(few.words.tolist()) - near <= {-1} | of_form
    assert (few.words == found.map(points=len(near) + 3).words).all()
    # A word of the text is drawn once, as the query.
    itself = found_in(SENTENCES, SENTENCES[0], 1, k=3)
    assert itself.itself[0] not in itself.map().words
    assert len(itself.map().words) == 20


def test_words_cannot_break_out_of_the_page():
    hostile = Sentence.from_words(['"quoted"', HOSTILE, "bank"], id=HOSTILE, layers={"upos": (HOSTILE,) * 3})
    html = found_in([hostile, *SENTENCES], hostile, 1).map().html
    assert html.count("</script>") == html.count("<script")
    assert "<img" not in html
    assert HOSTILE in json.dumps(unpacked(html)[1]["texts"], ensure_ascii=False)
    assert "connect-src" not in html
    assert "default-src 'none'" in html
    assert not re.search(r"(src|href)=\"(?!#)", html)


def test_mistakes_name_the_remedy(tmp_path):
    found = found_in(SENTENCES, tagged("my bank"), 1, k=3)
    with pytest.raises(CorpusError, match=r"50,001 points: give from . to 50,000, what pca takes"):
        found.map(points=50_001)
    with pytest.raises(CorpusError, match="to 5,000, what tsne takes"):
        found.map(points=5_001, projection="tsne")
    with pytest.raises(CorpusError, match=r"3 points: give from . to 50,000, the word and its . neighbours"):
        found.map(points=3)
    with pytest.raises(BertologyError, match="projection 'pcs'"):
        found.map(projection="pcs")
    with pytest.raises(StoreError, match="is a folder; name a file"):
        found.save(tmp_path)
    assert found.save(tmp_path / "page.html").read_text(encoding="utf-8") == found.map().html
    assert "<iframe srcdoc=" in found.map()._repr_html_()
