"""The page as a file: whole, closed, small enough; what is asked wrongly is one line."""

import re

import pytest

from bertology.attention import view
from bertology.attention.viewer import payload, read_attention
from bertology.corpora import Sentence, load_corpus, sentence_of_text
from bertology.encoders import Encoder
from bertology.errors import BertologyError, ModelError, NameNotFoundError, ResultsError

from .conftest import HOSTILE, SENTENCE, page_of, values_of


def test_nothing_is_asked_of_a_network(encoder: Encoder) -> None:
    html = view("See https://example.org now.", "It sleeps.", model=encoder).html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    shell = html.replace(html[html.index('id="data">') : html.index("</script>", html.index('id="data">'))], "")
    addresses = {found for found in re.findall(r"https?://[^\s\"'`<)]+", shell) if "example.org" not in found}
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"<(link|img|iframe|object|embed)\b|@import|url\(|fetch\(|XMLHttpRequest|import\(", shell)
    assert not re.search(r"\b(src|href)=\"(?!#)", shell)


def test_html_in_a_sentence_is_escaped(encoder: Encoder) -> None:
    html = view("dog", HOSTILE, model=encoder).html
    assert "<img" not in html
    assert html.count("</script>") == html.count("<script")
    values = values_of(html)
    assert values["texts"] == ["dog", HOSTILE]
    assert "&lt;/script&gt;&lt;img" in html


def test_gold_dependencies_at_both_levels(encoder: Encoder) -> None:
    sentence = next(one for one in load_corpus("pocket")["test"] if len(one) > 6)
    values = values_of(view(sentence, model=encoder).html)
    words = values["levels"]["word"]
    relations = sentence.layers["deprel"]
    expected = [
        [word + 1, head, relations[word]] for word, head in enumerate(sentence.heads) if head > 0
    ]  # [CLS] stands first, so that places are numbers of words
    assert words["arcs"] == expected
    pieces = values["levels"]["piece"]
    firsts = [pieces["labels"][dependent] for dependent, _, _ in pieces["arcs"]]
    assert all(not label.startswith("##") for label in firsts)
    assert len(pieces["arcs"]) == len(expected)


def test_a_word_without_pieces_is_named(encoder: Encoder) -> None:
    sentence = Sentence.from_words(["the", "\u200b", "dog"])
    values = values_of(view(sentence, model=encoder).html)
    assert values["leftOut"] == ["\u200b"]
    assert values["levels"]["word"]["labels"] == ["[CLS]", "the", "dog", "[SEP]"]


def test_long_texts_keep_what_is_asked_for(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertology.attention.viewer.MOST_CELLS", 100)
    reading = read_attention(encoder, [sentence_of_text(SENTENCE)], norms=True)
    values = payload([[reading]], level="piece", weights="norm")[0]
    assert list(values["panels"][0]["kinds"]["encoder"]["sets"]) == ["piece-norm"]
    assert values["isPart"]


@pytest.mark.parametrize("texts", [("",), ("dog", "  \n")])
def test_an_empty_sentence_is_refused(encoder: Encoder, texts: tuple[str, ...]) -> None:
    with pytest.raises(BertologyError, match="no word in the sentence"):
        view(*texts, model=encoder)


def test_what_is_too_long_is_told_with_the_limit(encoder: Encoder) -> None:
    with pytest.raises(ModelError, match=r"\d+ pieces .* takes 64: shorten it"):
        view("dog " * 80, model=encoder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": (0,)}, "layer 0: the model has 3, so layers are 1…3"),
        ({"layers": ()}, "no layers asked for"),
        ({"heads": "L4H1"}, "layer 4: the model has 3"),
        ({"heads": "L1H5"}, "head L1H5: there are layers 1 of 4 heads"),
        ({"heads": "L1H1", "layers": (2,)}, "head L1H1: there are layers 2 of 4 heads"),
    ],
)
def test_layers_and_heads_that_are_not_there(encoder: Encoder, options: dict, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        view(SENTENCE, model=encoder, **options)


def test_unknown_level_and_weights(encoder: Encoder) -> None:
    with pytest.raises(NameNotFoundError, match="unknown level 'words': did you mean word"):
        view(SENTENCE, model=encoder, level="words")  # type: ignore[arg-type]
    with pytest.raises(NameNotFoundError, match="unknown weights 'norms': did you mean norm"):
        view(SENTENCE, model=encoder, weights="norms")  # type: ignore[arg-type]


def test_two_of_one_and_one_of_the_other(encoder: Encoder) -> None:
    page = view([SENTENCE, "It sleeps."], model=encoder)
    assert [one["texts"] for one in page_of(page.html)["panels"]] == [[SENTENCE], ["It sleeps."]]
    assert "<q>It sleeps.</q>" in page.html
    for given, options, message in (
        ([SENTENCE] * 2, {"second": "It sleeps."}, "exclude one another"),
        ([SENTENCE] * 2, {"target": "It sleeps."}, "exclude one another"),
        ([SENTENCE] * 2, {"model": [encoder, encoder]}, "2 texts and 2 models: give one of each"),
        ([SENTENCE] * 3, {}, "3 texts and 1 models"),
        ([], {}, "0 texts and 1 models"),
        (SENTENCE, {"model": [encoder] * 3}, "1 texts and 3 models"),
        (SENTENCE, {"threshold": -0.1}, r"threshold -0.1: give a share from 0 to 1"),
    ):
        with pytest.raises(BertologyError, match=message):
            view(given, **{"model": encoder, **options})  # type: ignore[arg-type]
    with pytest.raises(ResultsError, match="12 heads: a figure shows one head"):
        page.plot()
    figure = view([SENTENCE, "It sleeps."], model=encoder, heads="L2H1").plot()
    assert [ax.get_title(loc="left") for ax in figure.axes[:2]] == ["L2H1 of tiny-bert"] * 2
