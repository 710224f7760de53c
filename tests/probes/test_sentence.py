"""The ten probing tasks of sentences on the embedded model."""

import pytest

from bertology import Corpus, Sentence, probe
from bertology.corpora import Sentences, Target, load_corpus
from bertology.errors import CorpusError
from bertology.probing import get_probe


def test_labels_are_those_of_the_corpus() -> None:
    targets = {"sentence:tense": (Target((0, 3), "past"),)}
    sentences = Sentences([Sentence.from_words(["No"]), Sentence.from_words(["It", "rained", "."], targets=targets)])
    examples = get_probe("sentence:tense").examples(sentences)  # type: ignore[attr-defined]
    assert examples.values == ("past",)
    assert examples.spans.tolist() == [[[1, 4]]]
    with pytest.raises(CorpusError, match="give a treebank as sentence_tasks:CORPUS"):
        get_probe("sentence:odd-word").examples(sentences)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus("sentence_tasks:pocket")


def test_layers_beat_the_most_frequent_label_where_it_can_be_known(corpus: Corpus) -> None:
    tasks = "sentence:length,sentence:depth,sentence:subject_number,sentence:shift"
    rows = probe(tasks, corpus=corpus, layers="0,2", controls="majority,length", progress=False).to_pandas()
    rows = rows[rows.metric == "accuracy"].set_index(["task", "control", "layer"]).value
    majority = {task: rows[task, "majority"].iloc[0] for task in tasks.split(",")}
    assert rows["sentence:length", "none", 0] > majority["sentence:length"] + 0.2
    assert rows["sentence:subject_number", "none", 2] > majority["sentence:subject_number"] + 0.2
    assert rows["sentence:length", "length"].iloc[0] == 1
    assert rows["sentence:depth", "length"].iloc[0] == pytest.approx(1 / 3)
    # a mean of vectors without context has no order
    assert abs(rows["sentence:shift", "none", 0] - 0.5) < 0.06
    assert rows["sentence:shift", "none", 2] > 0.8
