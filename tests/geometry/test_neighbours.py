"""The nearest occurrences of a word, against scikit-learn and by hand."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

import bertology
from bertology.activations import _extract
from bertology.activations.layers import LayerVectors
from bertology.corpora import Corpus, Sentence, Sentences, Target, words_at
from bertology.errors import BertologyError, CorpusError, ModelError
from bertology.geometry.neighbours import SearchedText, find_neighbours, nearest_occurrences


def blocks(vectors, size):
    for first in range(0, vectors.shape[1], size):
        part = vectors[:, first : first + size]
        yield np.arange(first, first + part.shape[1]), part


def of_array(array, words):
    """The vectors of chosen words of an array, as those of a store."""
    return LayerVectors.of_arrays(array[:, words], words=words)


def searched(splits, chosen=None, dim=5):
    """Random vectors in two layers; those of chosen words in the first are near (1, 1 …), the first of them nearest."""
    dice = np.random.default_rng(0)
    arrays = {name: dice.normal(size=(2, one.n_words, dim)).astype(np.float32) for name, one in splits.items()}
    ordered = [(array, word) for array in arrays.values() for word in range(array.shape[1])]
    for rank, number in enumerate(chosen or ()):
        array, word = ordered[number]
        array[0, word] = 1 + 0.1 * (rank + 1) * np.eye(dim)[0]
    return SearchedText(splits, {name: partial(of_array, array) for name, array in arrays.items()}), arrays


@pytest.mark.parametrize("size", [1, 7, 300])
def test_search_in_blocks_is_that_of_scikit_learn(size):
    dice = np.random.default_rng(3)
    vectors = dice.normal(size=(3, 300, 8)).astype(np.float32)
    query = dice.normal(size=(3, 8)).astype(np.float32)
    numbers, cosines = nearest_occurrences(blocks(vectors, size), query, k=6)
    for layer in range(3):
        other = NearestNeighbors(n_neighbors=6, metric="cosine", algorithm="brute").fit(vectors[layer])
        distances, places = other.kneighbors(query[layer][None])
        assert numbers[layer].tolist() == places[0].tolist()
        np.testing.assert_allclose(cosines[layer], 1 - distances[0], atol=1e-5)


def test_equal_cosines_are_in_order_whatever_the_blocks_and_some_are_left_out():
    vectors = np.ones((1, 9, 4), dtype=np.float32)
    vectors[0, 4] = 0
    for size in (2, 9):
        numbers, cosines = nearest_occurrences(blocks(vectors, size), np.ones((1, 4)), k=8, left_out=[1])
        assert numbers.tolist() == [[0, 2, 3, 5, 6, 7, 8, 4]]
        assert cosines.tolist() == [[1.0] * 7 + [0.0]]


def test_vectors_without_a_direction_are_refused():
    vectors = np.ones((1, 3, 2), dtype=np.float32)
    with pytest.raises(ModelError, match="zero or not finite"):
        nearest_occurrences(blocks(vectors, 3), np.zeros((1, 2)), k=1)
    vectors[0, 1, 0] = np.nan
    with pytest.raises(ModelError, match="not finite"):
        nearest_occurrences(blocks(vectors, 3), np.ones((1, 2)), k=1)


def sentence(words, tags=None, sense=None, at=0, name=""):
    layers = {} if tags is None else {"upos": tuple(tags.split())}
    targets = {} if sense is None else {"sense": (Target((at, at + 1), sense),)}
    return Sentence.from_words(words.split(), id=name, layers=layers, targets=targets)


MONEY = sentence("the Bank lends", "DET NOUN VERB", "money", 1, "m")
RIVER = sentence("a bank is wet", "DET NOUN AUX ADJ", "shore", 1, "r")
VERB = sentence("they bank here", "PRON VERB ADV", None, name="v")


def test_shares_and_frame_are_those_counted_by_hand():
    """Words of two splits, the query one of them."""
    splits = {"train": Sentences([MONEY, RIVER]), "test": Sentences([VERB])}
    # In the first layer the shore, the money and the verb, in this order.
    text, _ = searched(splits, [4, 1, 8])
    query = np.ones((2, 5), dtype=np.float32)
    found = find_neighbours(MONEY, 1, query, text, layers=(0, 1), k=2)
    assert found.itself == (1,)
    assert (found.tag, found.sense) == ("NOUN", "money")
    assert found.numbers[0].tolist() == [4, 8]
    first = found.shares.iloc[0]
    assert first[["same_word", "same_tag", "same_sense"]].tolist() == [1.0, 0.5, 0.0]
    assert first[["sense", "sense_share", "tag_share"]].tolist() == ["shore", 0.5, 0.5]
    lines = found.frame[found.frame["layer"] == 0]
    assert lines["word"].tolist() == ["bank", "bank"]
    assert lines["split"].tolist() == ["train", "test"]
    assert lines["sentence"].tolist() == ["r", "v"]
    assert lines["same_sense"].tolist() == [False, False]
    assert [text[start:end] for text, start, end in lines[["text", "start", "end"]].itertuples(index=False)] == [
        "bank",
        "bank",
    ]
    unknown = find_neighbours(sentence("my bank"), 1, query, text, layers=(0, 1), k=3)
    assert unknown.itself == ()
    assert unknown.numbers[0].tolist() == [4, 1, 8]
    assert unknown.shares["same_tag"].isna().all()
    assert unknown.shares["tag"][0] == "NOUN"
    stated = find_neighbours(sentence("my bank"), 1, query, text, layers=(0, 1), k=3, tag="NOUN", sense="money")
    assert stated.shares.loc[0, ["same_tag", "same_sense"]].tolist() == pytest.approx([2 / 3, 1 / 3])


def test_words_phrases_and_spans_of_a_text():
    text = Sentence.from_words(["In", "the", "Big", "Apple", ",", "the", "big", "apple", "is", "big"])
    assert words_at(text, "Big Apple", occurrence=2) == range(6, 8)
    assert words_at(text, " the  BIG ", occurrence=1) == range(1, 3)
    assert words_at(text, span=(7, 16)) == range(2, 4)
    clitic = Sentence.from_words(["She", "don't", "."], space_after=[True, False, False])
    assert words_at(clitic, "don't.") == range(1, 3)
    repeated = Sentence.from_words(["ha", "ha", "ha"])
    for asked, message in (
        ({"word": "Big Apple"}, "phrase 'Big Apple' stands 2 times in the text: choose one with --occurrence 1 to 2"),
        ({"word": "Big Apple", "occurrence": 3}, "occurrence 3 of 'Big Apple': it stands 2 times in the text, from 1"),
        ({"word": "ig Apple"}, "phrase 'ig Apple' is not in the text; its words are 'In the Big Apple"),
        ({"word": "Apple ,  t"}, "phrase 'Apple ,  t' is not in the text"),
        ({"word": " "}, "is not in the text"),
        ({"span": (8, 16)}, "span 8 16 is 'ig Apple', which cuts a word or ends in a space: span 7 16 has whole words"),
        ({"span": (6, 7)}, "span 6 7 is ' ', which cuts a word or ends in a space: there is no word in it"),
        ({"span": (30, 99)}, "span 30 99 is outside of the text, or empty: it has 39 characters, counted from 0"),
        ({"span": (3, 3)}, "span 3 3 is outside of the text, or empty"),
        ({"span": (7, 16), "occurrence": 1}, "span 7 16 with occurrence 1: a span is one place"),
        ({"span": (7, 16), "word": "big"}, "give a word or phrase, or the span of its characters: one of them"),
    ):
        with pytest.raises(CorpusError) as error:
            words_at(text, **asked)
        assert message in str(error.value)
    with pytest.raises(CorpusError, match="phrase 'ha ha' stands 2 times"):
        words_at(repeated, "ha ha")


def test_a_phrase_has_the_mean_of_its_words_and_none_of_them_is_its_neighbour():
    corpus = Corpus("some", {"test": Sentences([MONEY, RIVER, VERB])})
    found = bertology.neighbours(MONEY, "bank lends", corpus=corpus, layers="0,2", k=2)
    alone = [bertology.neighbours(MONEY, word, corpus=corpus, layers="0,2", k=2) for word in ("bank", "lends")]
    np.testing.assert_allclose(found.vectors, (alone[0].vectors + alone[1].vectors) / 2, atol=1e-6)
    assert (found.word, found.span, found.itself, found.tag) == ("Bank lends", (4, 14), (1, 2), None)
    assert not {1, 2} & set(found.numbers.ravel().tolist())
    assert found.shares["same_word"].isna().all()
    assert found.frame["same_word"].isna().all()
    assert "<mark>Bank lends</mark>" in found.map(points=8).html


def test_vectors_of_chosen_words_come_from_their_splits_in_any_order():
    text, arrays = searched({"a": Sentences([MONEY, RIVER]), "b": Sentences([VERB])})
    every = np.concatenate([arrays["a"], arrays["b"]], axis=1)
    words = np.array([8, 0, 5, 7])
    np.testing.assert_array_equal(list(text.layers_of(words)), every[:, words])
    assert text.occurrence(8).word == "bank"
    assert text.occurrence(8).context(3) == ("…y ", " h…")


def test_mistakes_name_the_remedy():
    text, _ = searched({"a": Sentences([MONEY])})
    twice = sentence("the bank by the bank")
    with pytest.raises(CorpusError, match="stands 2 times in the text: choose one with --occurrence 1 to 2"):
        words_at(twice, "Bank")
    assert words_at(twice, "Bank", occurrence=2) == range(4, 5)
    with pytest.raises(CorpusError, match="occurrence 3 of 'bank': it stands 2 times"):
        words_at(twice, "bank", occurrence=3)
    with pytest.raises(CorpusError, match="word 'river' is not in the text; its words are"):
        words_at(twice, "river")
    query = np.ones((2, 5), dtype=np.float32)
    with pytest.raises(CorpusError, match="k is 9, but the text has 3 other words"):
        find_neighbours(twice, 1, query, text, layers=(0, 1), k=9)
    with pytest.raises(CorpusError, match="no word of the text has the sense 'gold'; there is money"):
        find_neighbours(twice, 1, query, text, layers=(0, 1), k=1, sense="gold")


def test_vectors_of_probes_are_searched_and_are_those_of_the_encoder(
    tiny_bert: Path, tiny_corpus: Path, monkeypatch: pytest.MonkeyPatch
):
    """After a probe nothing is extracted; neighbours are those by the vectors that the encoder itself gives."""
    corpus = bertology.load_corpus(str(tiny_corpus))
    query = next(one for one in corpus["test"] if len(one) > 5)
    word = next(form for form in query.words if query.words.count(form) == 1 and form.isalpha())
    asked = {"corpus": str(tiny_corpus), "model": str(tiny_bert)}
    bertology.probe("pos", **asked, controls="none")
    monkeypatch.setattr(_extract, "Extraction", None)
    found = bertology.neighbours(query, word, **asked, k=4, split="dev,test")
    assert len(found.itself) == 1
    assert found.tag == query.layers["upos"][found.place]
    every = bertology.load_encoder(str(tiny_bert)).vectors(Sentences([*corpus["dev"], *corpus["test"]])).values
    own = every[:, found.itself[0]]
    assert found.at(-1) == found.at(max(found.layers))
    for layer in found.layers:
        unit = every[layer] / np.linalg.norm(every[layer], axis=1, keepdims=True)
        cosines = unit @ (own[layer] / np.linalg.norm(own[layer]))
        np.testing.assert_allclose(found.cosines[layer], cosines[found.numbers[layer]], atol=2e-3)
        cosines[found.itself[0]] = -2
        np.testing.assert_allclose(found.cosines[layer], np.sort(cosines)[::-1][:4], atol=2e-3)
    with pytest.raises(BertologyError, match="layer '9'"):
        bertology.neighbours(query, word, layers="9", **asked)
