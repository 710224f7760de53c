"""Compositionality: against sums done by hand, phrases that are their words, that are not, or nothing."""

from typing import Any

import numpy as np
import pytest

from bertology import probe
from bertology.activations.layers import LayerVectors
from bertology.corpora import Corpus, Sentence, Sentences, load_corpus
from bertology.errors import BertologyError, CorpusError
from bertology.probing import get_probe

WORDS = ("hot", "dog", "soap", "box", "old", "cat", "red", "pen")
PROBE: Any = get_probe("compositionality")


def phrase(words: str, relation: str) -> Sentence:
    """Two words, the second one the head of the first; words of *x* are alone."""
    heads, relations = ((2, 0), (relation, "root")) if relation else ((0, 1), ("root", "dep"))
    return Sentence.from_words(words.split(), heads=heads, layers={"deprel": relations})


def text() -> Sentences:
    """Two compounds and two pairs with adjectives, each word three times elsewhere."""
    pairs = [phrase("hot dog", "compound"), phrase("Hot dog", "compound"), phrase("soap box", "compound")]
    pairs += [phrase("old cat", "amod"), phrase("red pen", "amod"), phrase("rare word", "amod")]
    alone = [phrase(f"{word} x", "") for word in WORDS for _ in range(3)]
    return Sentences([*pairs, *alone])


def measured(vectors: np.ndarray) -> dict[tuple[str, str], float]:
    splits = {"test": text()}
    found = PROBE.statistics({"test": LayerVectors.of_arrays(vectors)}, splits, PROBE.items(splits))
    return {(one.metric, one.group): float(one.values[0]) for one in found}


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_the_phrases_and_what_is_left_out() -> None:
    found = PROBE.items({"test": text()})
    assert found.data.relations == ("amod", "amod", "compound", "compound")
    assert found.data.spans.tolist() == [[6, 8], [8, 10], [0, 2], [2, 4], [4, 6]]
    assert found.counts.n_items == 5
    assert found.counts.skipped == {"phrase with a word that occurs elsewhere fewer than 2 times": 1}
    alike = [phrase("hot soap", "compound"), phrase("red cat", "compound")]
    of_two = PROBE.items({"test": Sentences([*text()[3:], *alike, phrase("hot cat", "compound")])})
    assert of_two.data.relations == ("amod", "amod", "compound", "compound")
    assert of_two.counts.skipped["phrase without another of its relation and of other words"] == 1
    apart = Sentence.from_words(["hot", "x", "dog"], heads=(3, 3, 0), layers={"deprel": ("compound", "dep", "root")})
    skipped = PROBE.items({"test": Sentences([*text(), apart])}).counts.skipped
    assert skipped["phrase with other words between"] == 1
    with pytest.raises(CorpusError, match="no relation has two phrases whose words occur elsewhere: give a larger"):
        PROBE.items({"test": text()[:6]})
    with pytest.raises(BertologyError, match="no word has a head and a relation: the annotation layers are"):
        probe("compositionality", corpus=Corpus("plain", {"test": Sentences([Sentence.from_words(["a", "b"])])}))


def test_cosines_are_those_done_by_hand() -> None:
    vectors = np.random.default_rng(0).normal(size=(1, text().n_words, 6)).astype(np.float32)
    found, one = measured(vectors), vectors[0].astype(np.float64)
    # Words alone stand at 12, 14 …, three of each form.
    elsewhere = [one[12 + 6 * number : 18 + 6 * number : 2].mean(axis=0) for number in range(8)]
    composed = [(elsewhere[first] + elsewhere[first + 1]) / 2 for first in (0, 2)]
    inside = [one[first : first + 2].mean(axis=0) for first in (0, 2, 4)]
    hot_dog = (cosine(inside[0], composed[0]) + cosine(inside[1], composed[0])) / 2
    own = (hot_dog + cosine(inside[2], composed[1])) / 2
    other = (cosine(inside[0], composed[1]) + cosine(inside[1], composed[1])) / 4 + cosine(inside[2], composed[0]) / 2
    assert found["composition", "compound"] == pytest.approx(own, abs=1e-5)
    assert found["composition", ""] == found["composition", "compound"]
    assert found["composition_baseline", "compound"] == pytest.approx(other, abs=1e-5)
    assert found["composition_adjusted", "compound"] == pytest.approx(own - other, abs=1e-5)


def test_what_is_planted_is_found_and_nothing_else() -> None:
    dice, sentences = np.random.default_rng(1), text()
    of_form = {form: dice.normal(size=300) for form in sorted({form.lower() for form in sentences.forms.values})}
    vectors = np.array([[of_form[sentences.word(word).lower()] for word in range(sentences.n_words)]], dtype=np.float32)
    found = measured(vectors)
    assert found["composition", "compound"] == pytest.approx(1, abs=1e-5)
    # Compounds with a meaning of their own: other vectors in the phrase.
    vectors[0, :6] += 2 * dice.normal(size=(6, 300))
    idioms = measured(vectors)
    assert idioms["composition", "compound"] < 0.7
    assert idioms["composition", "amod"] == pytest.approx(1, abs=1e-5)
    nothing = measured(dice.normal(size=(1, sentences.n_words, 300)).astype(np.float32))
    assert abs(nothing["composition_adjusted", ""]) < 0.25


def test_the_task_on_the_embedded_corpus() -> None:
    corpus = Corpus("small", {"test": load_corpus("pocket")["test"][:200]})
    table = probe("compositionality", corpus=corpus, layers="0,2", controls="none").to_pandas()
    main = table[table["metric"] == "composition_adjusted"]
    assert {0, 2} == set(main["layer"])
    assert (main["ci_low"] <= main["value"]).all()
