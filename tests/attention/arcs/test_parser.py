"""The parser made of attention maps: its score by hand, what it finds, and what it does not."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bertology.attention.arcs.heads import _fit, _read, _score, crossfit_attention_parser
from bertology.attention.arcs.questions import TextTrees
from bertology.corpora import Sentences
from bertology.encoders import Encoder, load_encoder
from bertology.errors import CorpusError, FitError
from bertology.pocket import load_corpus
from tests.attention.planted import random_trees

FEW: dict[str, Any] = {"max_epochs": 25, "learning_rate": 0.1}


def parsed(sentences: Sentences, heads: list[list[int]] | None = None) -> tuple[Sentences, TextTrees]:
    """A text with its own trees, or others; all words count."""
    own = heads or [list(sentence.heads or ()) for sentence in sentences]
    scored = np.ones(sentences.n_words, dtype=bool)
    several = np.flatnonzero(np.diff(sentences.starts) > 1)
    return sentences, TextTrees(sentences.starts, np.array(list(itertools.chain(*own))), scored, several)


def test_the_score_is_that_of_the_weights(
    encoder: Callable[..., Encoder], sentences: Sentences, word_maps: Callable[..., Any]
) -> None:
    loaded, heads = encoder("bert"), random_trees(sentences, 0)
    examples = _read(loaded, *parsed(sentences, heads), on_long="skip")
    parser = _fit(examples, examples, learning_rate=0.03, max_epochs=3)
    up, down = parser.plain.detach().double().numpy().reshape(2, loaded.n_layers, loaded.n_heads)
    right, asked = np.zeros(len(sentences)), np.zeros(len(sentences))
    for number, sentence in enumerate(sentences):
        maps = word_maps(loaded, sentence).maps[:, :, 1:-1, 1:-1].astype(np.float16).astype(np.float64)
        scores = np.einsum("lhde,lh->de", maps, up) + np.einsum("lhed,lh->de", maps, down)
        np.fill_diagonal(scores, -np.inf)
        for word, head in enumerate(heads[number]):
            if head and len(sentence) > 1:
                right[number] += scores[word].argmax() == head - 1
                asked[number] += 1
    found_right, found_asked, numbers = _score(parser, examples)
    assert sorted(numbers.tolist()) == np.flatnonzero(asked).tolist()
    np.testing.assert_array_equal(found_asked, asked[numbers])
    # Maps are kept with eleven bits, by which near ties may fall otherwise.
    assert abs(found_right.sum() - right.sum()) <= 2


@pytest.mark.parametrize("with_words", [False, True])
def test_trees_are_found_and_trees_by_lot_are_not(with_words: bool) -> None:
    text, encoder = load_corpus()["test"][:240], load_encoder("pocket", device="cpu")
    settings: dict[str, Any] = {"with_words": with_words, "max_epochs": 12, "learning_rate": 0.1}
    found = crossfit_attention_parser(encoder, *parsed(text), name="all", **settings)
    interval = found.intervals("all")
    next_word = 0.4
    assert interval.ci_low[0] > next_word
    drawn = parsed(text, random_trees(text, 5))
    lost = crossfit_attention_parser(encoder, *drawn, name="all", **settings)
    # Of a sentence of n words n − 1 are asked, each with n − 1 others to choose from.
    chance = np.count_nonzero(lost.under) / lost.under.sum()
    assert lost.intervals("all").ci_low[0] < 1.5 * chance
    assert lost.values.max() < interval.ci_low[0]


def test_each_half_is_parsed_by_the_other(encoder: Callable[..., Encoder]) -> None:
    text = load_corpus()["test"][:100]
    trees = parsed(text)[1].some(60)
    settings: dict[str, Any] = {"max_epochs": 10, "learning_rate": 0.1}
    pocket = load_encoder("pocket", device="cpu")
    found = crossfit_attention_parser(pocket, text, trees, name="all heads", **settings)
    assert (found.names, found.metric, found.unit) == (("all heads",), "attention_uas", "model")
    asked = [sum(head > 0 for head in text[int(number)].heads or ()) for number in trees.sentences]
    assert found.under[0, 0, 0, trees.sentences].tolist() == asked
    assert found.under.sum() == sum(asked)
    nearby = trees.next_word(text, metric="attention_uas")
    assert nearby.under.sum() == sum(asked)
    right = [
        head == place + 2 for number in trees.sentences for place, head in enumerate(text[int(number)].heads or ())
    ]
    assert nearby.over.sum() == sum(right)
    assert found.intervals("all heads").ci_low[0] > nearby.of("next word")[0, 0]
    one_layer = crossfit_attention_parser(pocket, text, trees, name="all heads", **settings, layers=[4])
    assert one_layer.values[0, 0, 0] < found.values[0, 0, 0]
    with pytest.raises(CorpusError, match="9 sentences with a tree are read whole: give at least 10"):
        crossfit_attention_parser(encoder("bert"), text, trees.some(9), name="x", **settings)


def test_nothing_to_parse(encoder: Callable[..., Encoder], sentences: Sentences) -> None:
    _, trees = parsed(sentences, random_trees(sentences, 0))
    longest = replace(trees, sentences=np.array([int(np.argmax(np.diff(sentences.starts)))]))
    with pytest.raises(CorpusError, match="0 sentences with a tree are read whole"):
        crossfit_attention_parser(encoder("bert", max_pieces=16), sentences, longest, name="all", **FEW)
    with pytest.raises(FitError, match="max_epochs 0: give at least 1"):
        crossfit_attention_parser(encoder("bert"), sentences, trees, name="all", max_epochs=0)
