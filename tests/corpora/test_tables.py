"""Data in memory and tables on disk as corpora."""

from __future__ import annotations

from typing import Any

import pandas as pd

from bertology.corpora import Sentences, Target, english_sentence, load_corpus

N = 40
TEXTS = [f"The dogs don't chase cat {number}." for number in range(N)]
LABELS = ["good" if number % 3 else "bad" for number in range(N)]
FRAME = pd.DataFrame({"text": TEXTS, "label": LABELS})


def labels(sentences: Sentences, column: str = "label") -> list[Any]:
    """The label of each sentence, or of its pair, None where it has none."""
    of = {number: target.label for number, (target,) in sentences.targets(column)}
    return [of.get(number) for number in range(len(sentences))]


def test_a_text_with_a_label_is_a_sentence_with_a_target_of_all_its_words():
    corpus = load_corpus(FRAME)
    assert corpus.name == "data in memory"
    assert {split: len(part) for split, part in corpus.splits.items()} == {"train": 32, "dev": 4, "test": 4}
    assert corpus.notes["splits"] == "made by a hash of text, 8 : 1 : 1 (train 32, dev 4, test 4)"
    for sentences in corpus.splits.values():
        for sentence, label in zip(sentences, labels(sentences), strict=True):
            expected = english_sentence(TEXTS[int(sentence.id)])
            assert (sentence.text, sentence.words, sentence.spans) == (expected.text, expected.words, expected.spans)
            assert label == LABELS[int(sentence.id)]
            assert sentence.targets["label"] == (Target((0, len(sentence)), label),)


def test_a_pair_is_one_sentence_with_two_spans():
    rows = [("He  sleeps.", f"She sleeps {number}.", "yes" if number % 2 else "no") for number in range(N)]
    sentence = load_corpus(rows)["train"][0]
    assert sentence.text == f"He sleeps. She sleeps {sentence.id}."
    assert sentence.words == ("He", "sleeps", ".", "She", "sleeps", sentence.id, ".")
    assert tuple(sentence.text[start:end] for start, end in sentence.spans) == sentence.words
    (target,) = sentence.targets["label"]
    assert (target.span1, target.span2) == ((0, 3), (3, 7))


def test_words_stay_as_they_are_and_their_labels_are_layers():
    frame = pd.DataFrame(
        {
            "tokens": [["New York", "isn't", str(i)] for i in range(N)],
            "upos": [["PROPN", None, "NUM"]] * N,
            "mine": [[1, 2, 3]] * N,
        }
    )
    corpus = load_corpus(frame, columns="words=tokens,tags=upos+mine")
    sentence = corpus["dev"][0]
    assert sentence.text == f"New York isn't {sentence.id}"
    assert sentence.layers == {"upos": ("PROPN", None, "NUM"), "mine": ("1", "2", "3")}
    assert load_corpus([(list(words), list(tags)) for words, tags in zip(frame["tokens"], frame["upos"], strict=True)])[
        "dev"
    ].layers["tags"].values == ("PROPN", "NUM")
