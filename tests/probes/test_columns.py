"""Labels and numbers of words, sentences and pairs of texts by the name of a column."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import load_corpus, probe
from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.errors import BertologyError, CorpusError
from bertology.probing import get_probe
from bertology.results import ResultRow
from tests.probes.conftest import check_chance

WORD, SENTENCE, PAIR = (get_probe(name) for name in ("word_label:tag", "sentence_label:mood", "pair_label:same"))
LABELS, YES_NO = ("one", "two", "three"), ("yes", "no")


def test_every_word_with_a_label_is_asked_about(sentences_of: Callable[..., Sentences]) -> None:
    found = WORD.examples(sentences_of("the dogs , see", tag=["a", "b", None, "a"]))
    assert [found.values[code] for code in found.codes] == ["a", "b", "a"]
    assert found.words.tolist() == [0, 1, 3]
    assert found.skipped == {"no tag label": 1}


def test_an_unknown_column_is_answered_with_the_nearest(sentences_of: Callable[..., Sentences]) -> None:
    sentences = sentences_of("the dog", tags=["a", "b"], lemma=["the", "dog"])
    with pytest.raises(CorpusError, match=r"^no word has a label in column 'tag': did you mean tags\?$"):
        WORD.examples(sentences)
    with pytest.raises(CorpusError, match=r"in column 'sense': the columns of labels of that kind are lemma, tags$"):
        get_probe("word_label:sense").examples(sentences)
    with pytest.raises(CorpusError, match="column 'lemma' holds an open class: 304 of 565 labels occur fewer"):
        get_probe("word_label:lemma").examples(load_corpus("pocket")["dev"])


@pytest.mark.parametrize(
    ("values", "what"),
    [(["0.5", "1"], "'0.5' among them"), (["1", "1e3"], "'1e3' among them"), (["nan", "2"], "'nan' among them")],
)
def test_numbers_are_no_classes(sentences_of: Callable[..., Sentences], values: list[str], what: str) -> None:
    with pytest.raises(
        CorpusError, match=rf"^column 'tag' holds numbers \({what}\), not classes: take word_number:tag$"
    ):
        WORD.examples(sentences_of("the dog", tag=values))


def test_a_few_whole_numbers_are_classes(sentences_of: Callable[..., Sentences]) -> None:
    words = " ".join(["dog"] * 21)
    ratings = [str(number % 20 - 3) for number in range(21)]
    assert len(WORD.examples(sentences_of(words, tag=ratings)).values) == 20
    with pytest.raises(CorpusError, match=r"holds numbers \(21 distinct ones\)"):
        WORD.examples(sentences_of(words, tag=[str(number) for number in range(21)]))
    assert len(WORD.examples(sentences_of(words, tag=[f"w{number}" for number in range(21)])).values) == 21


def test_a_planted_label_of_words_is_found_and_nothing_else(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    scores = ask("word_label:tag", planted("tag", LABELS, signal=True))
    assert scores["accuracy"].value == scores["macro_f1"].value == 1.0
    assert scores["accuracy"].task == "word_label:tag"
    check_chance(ask("word_label:tag", planted("tag", LABELS, signal=False))["accuracy"], 1 / 3)


def labelled(words: str, *labels: Any, **more: Any) -> Sentence:
    sentence = Sentence.from_words(words.split(), id=words[:1], **more)
    return replace(sentence, targets={"mood": tuple(Target((0, len(sentence)), label) for label in labels)})


def test_every_sentence_with_a_label_is_asked_about() -> None:
    sentences = Sentences([labelled("dogs bark", "loud"), labelled("so"), labelled("a cat sleeps", "quiet")])
    found = SENTENCE.examples(sentences)
    assert found.spans.tolist() == [[[0, 2]], [[3, 6]]]
    assert [found.values[code] for code in found.codes] == ["loud", "quiet"]
    assert found.clusters.tolist() == [0, 2]
    assert found.skipped == {"no mood label": 1}


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (labelled("dogs bark", "a", "b"), "sentence d has several labels in column 'mood': give one a sentence"),
        (labelled("dogs bark", ("a", "b")), "sentence d has several labels in column 'mood'"),
        (
            replace(labelled("dogs bark"), targets={"mood": (Target((0, 1), "a"),)}),
            "labels parts of sentences .*d.: take span_label",
        ),
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
        SENTENCE.examples(Sentences([sentence]))


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


def test_a_planted_label_of_sentences_is_found_and_nothing_else(
    planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    words = planted("tag", ("A", "B"), signal=True)
    assert ask("sentence_label:mood", of_sentences(words, signal=True))["accuracy"].value == 1
    check_chance(ask("sentence_label:mood", of_sentences(words, signal=False))["accuracy"], 1 / 2)


def test_baselines_of_sentences_are_those_of_texts(planted: Callable[..., Corpus], tiny_bert: Path) -> None:
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


def test_a_planted_label_of_spans_is_found_and_nothing_else(check_spans: Callable[..., Any]) -> None:
    check_spans("span_label:kind", "kind", LABELS, pairs=False, chance=1 / 3)


def test_spans_of_a_table_are_asked_about_with_their_baselines(tiny_bert: Path, tmp_path: Path) -> None:
    table = tmp_path / "spans.csv"
    rows = [
        f"the {one} {number} near a {two},{one} {number},{one}\nthe {one} {number} near a {two},{two},{two}"
        for one, two in (("dog", "king"), ("king", "dog"))
        for number in range(30)
    ]
    table.write_text("\n".join(["text,phrase,kind", *rows]))
    found = probe(
        "span_label:kind",
        model=tiny_bert,
        corpus=table,
        columns="text=text,phrase=phrase,label=kind",
        layers=[0],
        controls="majority,lexical",
    )
    of = {row.control: row for row in found.rows if row.metric == "accuracy"}
    assert of["none"].n_items == 2 * of["none"].n_clusters
    assert of["lexical"].value == of["none"].value == 1 > of["majority"].ci_high


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([Target((0, 2), "a")], "'kind' labels whole sentences, not spans: take sentence_label, or name"),
        ([Target((0, 1), "a", (1, 2))], "layer 'kind' has two spans a target where one is asked about"),
        ([Target((0, 1), ("a", "b"))], "'kind' has several labels a span: give one"),
        ([Target((0, 1), "0.5")], r"'kind' holds numbers \('0.5' among them\), not classes: name classes"),
    ],
)
def test_what_is_not_one_class_a_span_is_refused(targets: list[Target], message: str) -> None:
    sentence = replace(Sentence.from_words(["so", "so"]), targets={"kind": tuple(targets)})
    with pytest.raises(CorpusError, match=message):
        get_probe("span_label:kind").examples(Sentences([sentence]))
    with pytest.raises(CorpusError, match="no span of words has a label in column 'kinds': did you mean kind"):
        get_probe("span_label:kinds").examples(Sentences([sentence]))


def pair(one: str, other: str, label: Any, **more: Any) -> Sentence:
    n, words = len(one.split()), f"{one} {other}".split()
    sentence = Sentence.from_words(words, id=one[:1], **more)
    return replace(sentence, targets={"same": (Target((0, n), label, (n, len(words))),)})


def test_every_pair_with_a_label_is_asked_about() -> None:
    sentences = Sentences([pair("a b", "c", "yes"), Sentence.from_words(["d"]), pair("e", "f g", "no")])
    found = PAIR.examples(sentences)
    assert found.spans.tolist() == [[[0, 2], [2, 3]], [[4, 5], [5, 7]]]
    assert [found.values[code] for code in found.codes] == ["yes", "no"]
    assert found.clusters.tolist() == [0, 2]
    assert found.skipped == {"no same label": 1}


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (replace(pair("a", "b", ""), targets={"same": (Target((0, 1), "a"),)}), "has one span a target where two are"),
        (replace(pair("a", "b", ""), targets={"some": (Target((0, 1), "a"),)}), r"'same': did you mean some\?$"),
        (pair("a", "b", ("yes", "no")), "column 'same' has several labels a pair: give one"),
        (pair("a", "b", "4.5"), "column 'same' holds numbers"),
    ],
)
def test_what_is_not_one_class_a_pair_is_refused(sentence: Sentence, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        PAIR.examples(Sentences([sentence]))


def test_whether_two_texts_are_alike_is_read_off_their_vectors_and_off_new_texts(tiny_bert: Path) -> None:
    """Neither text alone says it, nor any sum of a score of the one and a score of the other."""
    dice = np.random.default_rng(2)
    nouns = ["dogs", "cats", "birds", "boys", "girls", "farmers"]

    def draw() -> Sentence:
        one = str(dice.choice(nouns))
        other = one if dice.random() < 0.5 else str(dice.choice([noun for noun in nouns if noun != one]))
        return pair(f"the {one} saw", f"the {other} saw", "yes" if one == other else "no")

    splits = {
        name: Sentences(draw() for _ in range(size)) for name, size in (("train", 300), ("dev", 60), ("test", 90))
    }
    table = probe("pair_label:same", model=tiny_bert, corpus=Corpus("alike", splits), layers="0", controls="none")
    assert next(row.value for row in table.rows if row.metric == "accuracy") > 0.95
    assert "90 items in 90 pairs" in str(table)
    assert "over test pairs" in str(table)
    found = table.fitted("pair_label:same", 0).predict(
        [("the dogs saw", "the dogs saw"), ("the boys saw", "the cats saw")]
    )
    assert list(found["label"]) == ["yes", "no"]


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
def numbered() -> Corpus:
    return with_numbers(
        load_corpus("pocket"),
        place=lambda sentence, rng: tuple(str(place) for place in range(len(sentence.words))),
        noise=lambda sentence, rng: tuple(repr(float(number)) for number in rng.normal(size=len(sentence.words))),
        tags=lambda sentence, rng: tuple("abc"[place % 3] for place in range(len(sentence.words))),
    )


def test_places_are_read_off_the_embeddings_and_noise_is_not(numbered: Corpus) -> None:
    tasks = ["word_number:place", "word_number:noise"]
    results = probe(tasks, corpus=numbered, layers="0,4", random_draws=1, progress=False)
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
    assert "each form has the number of a random training item (Hewitt & Liang 2019)" in " ".join(str(results).split())


def test_labels_that_are_no_numbers_are_named(numbered: Corpus) -> None:
    with pytest.raises(BertologyError, match="task word_number:tags: label 'a' is no finite number"):
        probe("word_number:tags", corpus=numbered, layers="0", progress=False)
    with pytest.raises(BertologyError, match="no word has a label in column 'nothing'"):
        probe("word_number:nothing", corpus=numbered, layers="0", progress=False)
    with pytest.raises(BertologyError, match="is about numbers"):
        probe("word_number:place", corpus=numbered, layers="0", readout="linear", progress=False)


def with_lengths(corpus: Corpus) -> Corpus:
    def annotated(sentences: Sentences) -> Sentences:
        return Sentences(
            replace(one, targets={**one.targets, "words": (Target((0, len(one.words)), str(len(one.words))),)})
            for one in sentences
        )

    return replace(corpus, splits={name: annotated(split[:150]) for name, split in corpus.splits.items()})


def test_the_length_of_a_sentence_is_read_off_the_mean_of_its_words() -> None:
    corpus = with_lengths(load_corpus("pocket"))
    rows = probe("sentence_number:words", corpus=corpus, layers="0,4", controls="mean", progress=False).to_pandas()
    own = rows[(rows.control == "none") & (rows.metric == "r2")]
    assert (own.value > 0.5).all()
    assert (own.n_items == 150).all()
    assert (own.n_clusters == 150).all()
