"""Whole sentences as items: which have a tree to find, which words count, and what is no tree."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bertology.corpora import MultiwordToken, Sentence, Sentences
from bertology.errors import CorpusError
from bertology.probing import tree_examples


def sentence(words: str, heads: Sequence[int] | None, name: str = "s", **layers: str) -> Sentence:
    values: dict[str, Any] = {
        layer: tuple(None if v == "-" else v for v in text.split()) for layer, text in layers.items()
    }
    return Sentence.from_words(words.split(), id=name, heads=None if heads is None else tuple(heads), layers=values)


DOGS = sentence(
    "dogs , cats sleep .",
    (4, 3, 1, 0, 4),
    "a",
    upos="NOUN PUNCT NOUN VERB PUNCT",
    deprel="nsubj punct conj:and root punct",
)


def marks_of(asks: Any, *sentences: Sentence) -> list[str]:
    found = tree_examples(Sentences(sentences), asks)
    return [found.values[code] for code in found.codes.tolist()]


@pytest.mark.parametrize(
    ("asks", "marks"),
    [
        ("distances", "4 _ 1 0 _"),
        ("depths", "1 _ 2 0 _"),
        ("arcs", "4:nsubj _ 1:conj 0:root _"),
    ],
)
def test_a_sentence_is_an_item(asks: Any, marks: str) -> None:
    other = sentence("we eat fish", (2, 0, 2), "b", upos="PRON VERB NOUN", deprel="nsubj root obj")
    found = tree_examples(Sentences([DOGS, other]), asks)
    assert next(found.values[code] for code in found.codes.tolist()) == marks
    assert found.asks == asks
    assert found.spans.tolist() == [[[0, 5]], [[5, 8]]]
    assert found.clusters.tolist() == [0, 1]
    assert found.heads.tolist() == [4, 3, 1, 0, 4, 2, 0, 2]
    assert found.scored.tolist() == [True, False, True, True, False, True, True, True]
    assert found.skipped == {}


# Words that count


def test_punctuation_by_tags_of_the_penn_treebank() -> None:
    words = "`` We ( they ) eat '' ; fish -LRB- - -RRB- $ ."
    tags = "`` PRP ( PRP ) VBP '' : NN -LRB- HYPH -RRB- $ ."
    (marks,) = marks_of("depths", sentence(words, (6, 6, 4, 2, 4, 0, 6, 6, 6, 9, 9, 9, 9, 6), xpos=tags))
    assert marks == "_ 1 _ 2 _ 0 _ _ 1 _ 2 _ _ _"


# Sentences that do not count


def test_sentences_without_a_tree_to_find_are_counted_apart() -> None:
    found = tree_examples(
        Sentences(
            [
                sentence("yes", (0,), "one", upos="INTJ"),
                sentence("oh no", (2, 0), "two", upos="INTJ INTJ"),
                sentence("! ! no", (2, 3, 0), "marks", upos="PUNCT PUNCT INTJ"),
                sentence("who knows that", None, "bare", upos="PRON VERB PRON"),
                replace(DOGS, layers={"upos": DOGS.layers["upos"]}),
                sentence("well", (0,), "another", upos="INTJ"),
            ]
        ),
        "distances",
    )
    assert found.skipped == {
        "sentence of one word": 2,
        "sentence of two words": 1,
        "sentence of punctuation": 1,
        "sentence without heads": 1,
    }
    assert found.clusters.tolist() == [4]
    assert found.spans.tolist() == [[[9, 14]]]


# What is no tree


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ((2, 3, 1), "sentence s-7: no root; a tree has one word with head 0"),
        ((0, 1, 0), "sentence s-7: several roots, words 1, 3; a tree has one word with head 0"),
        ((0, 3, 2), "sentence s-7: the heads of word 2 lead in a circle"),
        ((0, 2, 1), "sentence s-7: the heads of word 2 lead in a circle"),
        ((0, 1, 4), "sentence s-7: head 4 of word 3 is none of the 3 words; give 0 to 3"),
    ],
)
@pytest.mark.parametrize("asks", ["distances", "depths", "arcs"])
def test_what_is_no_tree(heads: tuple[int, ...], message: str, asks: Any) -> None:
    wrong = sentence("a b c", heads, "s-7", deprel="x y z")
    with pytest.raises(CorpusError) as caught:
        tree_examples(Sentences([wrong]), asks)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("asks", ["distances", "depths", "arcs"])
def test_what_is_no_tree_is_left_out_and_counted(asks: Any) -> None:
    wrong = [sentence("a b c", heads, deprel="x y z") for heads in [(2, 3, 1), (0, 1, 0), (0, 3, 2), (0, 2, 1)]]
    found, alone = (tree_examples(Sentences(some), asks) for some in ([*wrong[:2], DOGS, *wrong[2:]], [DOGS]))
    assert [found.values[code] for code in found.codes] == list(alone.values)
    assert found.clusters.tolist() == [2]
    assert found.skipped == {
        "sentence without a root": 1,
        "sentence with several roots": 1,
        "sentence whose heads form a circle": 2,
    }


def test_a_corpus_without_heads() -> None:
    bare = Sentences([sentence("a b c", None, upos="X X X", xpos="a b c")])
    with pytest.raises(CorpusError, match="no word has a head: give a treebank; the annotation layers are upos, xpos"):
        tree_examples(bare, "depths")
    with pytest.raises(CorpusError, match="the annotation layers are none"):
        tree_examples(Sentences([sentence("a b c", None)]), "depths")


@pytest.mark.parametrize("relations", [None, "det - root"])
def test_arcs_without_relations(relations: str | None) -> None:
    layers = {} if relations is None else {"deprel": relations}
    bare = Sentences([sentence("a b c", (2, 3, 0), "s-3", **layers)])
    tree_examples(bare, "distances")
    with pytest.raises(CorpusError, match=r"s-3.* no relation to its head: give a treebank with a deprel column"):
        tree_examples(bare, "arcs")


# Trees of all kinds


def test_multiword_tokens_are_as_many_words_as_gold_says() -> None:
    """*du* is *de* and *le*: two nodes, though one token."""
    layers: Any = {"upos": ("VERB", "ADP", "DET", "NOUN"), "deprel": ("root", "case", "det", "obl:arg")}
    token = MultiwordToken(1, 2, "du")
    parler = Sentence.from_words(
        ("parler", "de", "le", "vin"), id="fr", heads=(0, 4, 4, 1), layers=layers, multiword=(token,)
    )
    assert parler.text == "parler du vin"
    assert marks_of("arcs", parler) == ["0:root 4:case 4:det 1:obl"]
    assert marks_of("depths", parler) == ["0 2 2 1"]


def test_real_treebanks(real_data: Any) -> None:
    """Every sentence of a treebank is an item, or counted."""
    from bertology.corpora import load_corpus

    for name in ("ud_english_pud", "ud_french_sequoia"):
        sentences = load_corpus(str(real_data(name)))["test"]
        found = tree_examples(sentences, "arcs")
        assert len(found) + sum(found.skipped.values()) == len(sentences)
        assert set(found.skipped) <= {"sentence of one word", "sentence of two words", "sentence of punctuation"}
        punctuation = sentences.layers["upos"].values.index("PUNCT")
        np.testing.assert_array_equal(found.scored, sentences.layers["upos"].codes != punctuation)
        crossing = 0
        for item in range(0, len(found), 25):
            heads = found.heads[slice(*found.spans[item, 0])].tolist()
            arcs = [(min(w, h), max(w, h)) for w, h in enumerate(heads, start=1) if h]
            crossing += any(a < c < b < d for a, b in arcs for c, d in arcs)
            for head, mark in zip(heads, found.values[found.codes[item]].split(" "), strict=True):
                assert mark == "_" or mark.startswith(f"{head}:")
        assert len(found) > 400
