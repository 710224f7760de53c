from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import probe
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.errors import BertologyError, CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow

PROBE = get_probe("sentence_label:mood")


def labelled(words: str, *labels: Any, **more: Any) -> Sentence:
    sentence = Sentence.from_words(words.split(), id=words[:1], **more)
    return replace(sentence, targets={"mood": tuple(Target((0, len(sentence)), label) for label in labels)})


def test_every_sentence_with_a_label_is_asked_about() -> None:
    sentences = Sentences([labelled("dogs bark", "loud"), labelled("so"), labelled("a cat sleeps", "quiet")])
    found = PROBE.examples(sentences)
    assert found.spans.tolist() == [[[0, 2]], [[3, 6]]]
    assert [found.values[code] for code in found.codes] == ["loud", "quiet"]
    assert found.clusters.tolist() == [0, 2]
    assert found.skipped == {"no mood label": 1}


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (labelled("dogs bark", "a", "b"), "sentence d has several labels in column 'mood': give one a sentence"),
        (labelled("dogs bark", ("a", "b")), "sentence d has several labels in column 'mood'"),
        (replace(labelled("dogs bark"), targets={"mood": (Target((0, 1), "a"),)}), "labels parts of sentences .*d.: "),
        (replace(labelled("so so"), targets={"mood": (Target((0, 1), "a", (1, 2)),)}), "pairs of texts, .* pair_label"),
        (replace(labelled("so"), targets={"moods": (Target((0, 1), "a"),)}), r"'mood': did you mean moods\?$"),
        (
            Sentence.from_words(["so"], layers={"mood": ("a",)}),
            "column 'mood': it labels words; the columns of labels of that kind",
        ),
        (
            labelled("so", "0.25"),
            r"column 'mood' holds numbers \('0.25' among them\), not classes: take sentence_number:mood$",
        ),
    ],
)
def test_what_is_not_one_class_a_sentence_is_refused(sentence: Sentence, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        PROBE.examples(Sentences([sentence]))


def of_sentences(corpus: Corpus, *, signal: bool) -> Corpus:
    """The label of a sentence is that of the first word of a planted corpus, whose words all have it, or any."""
    draw = np.random.default_rng(3)
    words: dict[str, list[str]] = {"A": [], "B": []}
    for sentence in corpus["train"]:
        for word, tag in zip(sentence.words, sentence.layers["tag"], strict=True):
            words[str(tag)].append(word)

    def made(sentence: Sentence) -> Sentence:
        label = str(draw.choice(["A", "B"]))
        chosen = [str(word) for word in draw.choice(words[label] if signal else words["A"] + words["B"], 5)]
        return labelled(" ".join(chosen), label)

    return Corpus("planted", {name: Sentences(map(made, split)) for name, split in corpus.splits.items()})


def test_a_planted_label_is_found(planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]) -> None:
    assert (
        ask("sentence_label:mood", of_sentences(planted("tag", ("A", "B"), signal=True), signal=True))["accuracy"].value
        == 1
    )


def test_labels_drawn_at_random_stay_at_chance(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    found = ask("sentence_label:mood", of_sentences(planted("tag", ("A", "B"), signal=True), signal=False))["accuracy"]
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert found.ci_low < 1 / 2 < found.ci_high


def test_baselines_are_those_of_texts(planted: Callable[..., Corpus], tiny_bert: Path) -> None:
    corpus = of_sentences(planted("tag", ("A", "B"), signal=True), signal=True)
    found = probe("sentence_label:mood", model=tiny_bert, corpus=corpus, layers="0", random_draws=1)
    assert {(row.control, row.init) for row in found.rows} == {
        ("none", "pretrained"),
        ("none", "random"),
        ("control_task", "pretrained"),
        ("majority", None),
        ("length", None),
        ("lexical", None),
    }
    lexical = next(row for row in found.rows if row.control == "lexical")
    assert lexical.value == 1.0
    notes = found.view().to_markdown()
    assert "control: each text, however often it occurs, has a random label" in notes
    assert "word form" not in notes


def test_it_needs_the_name_of_a_column() -> None:
    with pytest.raises(BertologyError, match="needs a column of labels of sentences after a colon, such as"):
        get_probe("sentence_label")
