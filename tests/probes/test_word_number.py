"""Numbers of words on the embedded model: what is there is found, what is not is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bertology import BertologyError, Corpus, load_corpus, probe
from bertology.corpora import Sentences


def with_numbers(corpus: Corpus, **layers: Any) -> Corpus:
    """The corpus with word layers, each made by a function of a sentence and a generator of random numbers."""

    def annotated(sentences: Sentences) -> Sentences:
        rng = np.random.default_rng(0)
        return Sentences(
            replace(one, layers={**one.layers, **{name: make(one, rng) for name, make in layers.items()}})
            for one in sentences
        )

    return replace(corpus, splits={name: annotated(split[:60]) for name, split in corpus.splits.items()})


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return with_numbers(
        load_corpus("pocket"),
        place=lambda sentence, rng: tuple(str(place) for place in range(len(sentence.words))),
        noise=lambda sentence, rng: tuple(repr(float(number)) for number in rng.normal(size=len(sentence.words))),
        tags=lambda sentence, rng: tuple("abc"[place % 3] for place in range(len(sentence.words))),
    )


def test_places_are_read_off_the_embeddings_and_noise_is_not(corpus: Corpus) -> None:
    tasks = ["word_number:place", "word_number:noise"]
    results = probe(tasks, corpus=corpus, layers="0,4", random_draws=1, progress=False)
    rows = results.to_pandas()
    own = rows[(rows.control == "none") & (rows.init == "pretrained") & (rows.metric == "r2")]
    value = {(row.task, row.layer): row.value for row in own.itertuples()}
    assert value["word_number:place", 0] > 0.6
    assert value["word_number:place", 0] > value["word_number:place", 4]
    assert abs(value["word_number:noise", 0]) < 0.1
    assert set(rows.control) == {"none", "control_task", "mean", "word_mean"}
    assert set(rows[rows.control == "none"].metric) == {"r2", "spearman", "selectivity"}
    mean = rows[(rows.control == "mean") & (rows.metric == "r2")]
    assert (mean.value <= 0).all()
    assert "each form has the number of a training item at random (Hewitt & Liang 2019)" in " ".join(
        str(results).split()
    )


def test_labels_that_are_no_numbers_are_named(corpus: Corpus) -> None:
    with pytest.raises(BertologyError, match="task word_number:tags: label 'a' is no finite number"):
        probe("word_number:tags", corpus=corpus, layers="0", progress=False)
    with pytest.raises(BertologyError, match="no word has a label in column 'nothing'"):
        probe("word_number:nothing", corpus=corpus, layers="0", progress=False)
    with pytest.raises(BertologyError, match="is about numbers"):
        probe("word_number:place", corpus=corpus, layers="0", readout="linear", progress=False)
