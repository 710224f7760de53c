from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, confusion_matrix, f1_score, precision_recall_fscore_support

from benchmarks.head_patterns.card import read_card_scores
from benchmarks.head_patterns.labels import labelled_maps, read_labels, read_second_labels
from benchmarks.head_patterns.maps import draw_places, layout_of, stacked
from benchmarks.head_patterns.rule import COLUMN, LINE, SQUARES, fit_questions, likely_classes
from benchmarks.head_patterns.score import agreement, score_classes
from benchmarks.head_patterns.score import score_classifier as score
from bertology.attention.patterns import KINDS, PATTERNS, SEP, features
from bertology.corpora import Sentences, load_corpus
from bertology.encoders import Encoder, load_encoder
from bertology.errors import CorpusError, FitError, ModelError, ResultsError

QUESTIONS = (COLUMN, LINE, SQUARES)


def half(initial: str, part: str = "test"):
    return [one for one in read_labels() if one.map.startswith(initial) and one.part == part]


def test_the_label_file():
    labels = read_labels()
    assert Counter((one.model, one.part) for one in labels) == {
        ("minilm-mlm", "adjust"): 50,
        ("minilm-mlm", "test"): 100,
        ("pocket", "adjust"): 50,
        ("pocket", "test"): 100,
    }
    assert len({(one.fingerprint, one.sentence, one.pair_with, one.layer, one.head) for one in labels}) == 300
    assert {one.label for one in labels} == set(PATTERNS)
    assert all(one.label != one.second for one in labels)
    # A name of a sentence is no text.
    assert all(" " not in one.sentence + one.pair_with for one in labels)


@cache
def opened(model: str, corpus: str) -> tuple[Encoder, Sentences]:
    """Read once for all tests of this file."""
    return load_encoder(model, device="cpu", attention="eager"), load_corpus(corpus)["test"]


def check_half(initial: str, name: str, model: str, corpus: str) -> None:
    labels = half(initial)
    encoder, sentences = opened(model, corpus)
    maps = labelled_maps(encoder, sentences, labels)
    written = read_card_scores()
    for kind in KINDS:
        found = score(kind, maps, labels)
        assert found.macro_f1 == pytest.approx(written[kind, name], abs=0.03)
        low, high = found.interval
        assert low < found.macro_f1 < high
    places = draw_places(encoder, sentences, 150, seed=7)
    drawn = [(sentences[p.sentences[0]].id, p.layer, p.head) for p in places]
    assert drawn == [(one.sentence, one.layer, one.head) for one in read_labels() if one.map.startswith(initial)]


def test_the_card_on_pocket_maps():
    check_half("p", "Pocket BERT", "pocket", "pocket")


def test_the_card_on_real_maps(real_model, real_data):
    check_half("m", "MiniLM", str(real_model), str(real_data("ud_english_ewt")))


def measured(maps):
    return features(stacked(maps), layout_of(maps))[:, 0].numpy()


def test_the_rule_in_numbers_is_of_the_labels(real_model, real_data):
    places = {"m": (str(real_model), str(real_data("ud_english_ewt"))), "p": ("pocket", "pocket")}
    labels = {initial: half(initial, "adjust") for initial in places}
    maps = [one for initial, own in labels.items() for one in labelled_maps(*opened(*places[initial]), own)]
    found = fit_questions(measured(maps), [one.label for own in labels.values() for one in own])
    for question, stated in zip(found, QUESTIONS, strict=True):
        assert question.features == stated.features
        np.testing.assert_allclose((*question.weights, question.bias), (*stated.weights, stated.bias), atol=0.02)


def test_the_rule_finds_planted_patterns(plant):
    patterns = ("vertical", "diagonal", "vertical+diagonal", "block", "even")
    maps = [plant(pattern, n) for pattern in patterns for n in (16, 24, 60)]
    likely = likely_classes(measured(maps))
    np.testing.assert_allclose(likely.sum(1), 1)
    assert likely.argmax(1).tolist() == [number for number in range(5) for _ in range(3)]
    single = [one for one in maps if (one.kinds == SEP).sum() == 1]
    assert (likely_classes(measured(single))[:, 3] == 0).all()
    with pytest.raises(FitError, match="same answer"):
        fit_questions(measured(maps[:3]), ["vertical"] * 3)


def test_two_labellers_as_scikit_learn_has_them(tmp_path):
    labels = [one for one in read_labels() if one.part == "test"]
    other = read_second_labels(labels)
    assert [one.map for one in other] == [one.map for one in labels]
    found = agreement(labels, other)
    one, two = ([each.label for each in own] for own in (labels, other))
    assert found.same == pytest.approx(np.mean([a == b for a, b in zip(one, two, strict=True)]))
    assert found.kappa == pytest.approx(cohen_kappa_score(one, two))
    assert found.macro_f1 == pytest.approx(f1_score(one, two, average="macro", labels=PATTERNS, zero_division=0))
    np.testing.assert_array_equal(found.confusion, confusion_matrix(one, two, labels=PATTERNS))
    assert found.same <= found.either <= 1
    assert agreement(labels, labels).kappa == agreement(labels[:1], labels[:1]).kappa == 1
    with pytest.raises(ResultsError, match="missing"):
        read_second_labels(labels, tmp_path / "none.csv")
    few = tmp_path / "second.csv"
    few.write_text("map,label,second\nm0,vertical,\n")
    with pytest.raises(ResultsError, match="has no line of map m1"):
        read_second_labels(labels, few)
    few.write_text("map,label,second\nm0,round,\n")
    with pytest.raises(ResultsError, match="line 2: columns should be map, label, second"):
        read_second_labels(labels, few)


def test_scores_as_scikit_learn_has_them():
    labels = half("p")
    generator = np.random.default_rng(1)
    likely = generator.dirichlet(np.full(5, 0.5), size=len(labels))
    found, gold = likely.argmax(1), np.array([PATTERNS.index(one.label) for one in labels])
    scored = score_classes(found, likely, labels)
    np.testing.assert_array_equal(scored.confusion, confusion_matrix(gold, found, labels=range(5)))
    present = sorted(set(gold.tolist()))
    assert scored.macro_f1 == pytest.approx(f1_score(gold, found, labels=present, average="macro", zero_division=0))
    assert scored.accuracy == (gold == found).mean()
    expected = precision_recall_fscore_support(gold, found, labels=present, zero_division=0)
    for place, number in enumerate(present):
        own = scored.of_classes()[PATTERNS[number]]
        assert own == pytest.approx(tuple(float(column[place]) for column in expected))
    edges, error = (0.2, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), 0.0
    for low, high in pairwise(edges):
        inside = (likely.max(1) > low) & (likely.max(1) <= high)
        if inside.any():
            gap = likely.max(1)[inside].mean() - (found == gold)[inside].mean()
            error += inside.mean() * abs(gap)
    assert scored.calibration_error == pytest.approx(error)
    assert scored.interval[1] < 0.5  # drawn classes are not the labels


def test_labels_of_another_model(tiny_bert):
    labels = half("p")[:1]
    pocket, sentences = opened("pocket", "pocket")
    with pytest.raises(ModelError, match="give the model that was labelled"):
        labelled_maps(load_encoder(str(tiny_bert), device="cpu"), sentences, labels)
    with pytest.raises(CorpusError, match=r"map p\d+: there is no sentence 'test-\d+'"):
        labelled_maps(pocket, sentences[:0], labels)


def test_label_files_that_are_wrong(tmp_path):
    with pytest.raises(ResultsError, match="missing"):
        read_labels(tmp_path / "none.csv")
    wrong = tmp_path / "labels.csv"
    wrong.write_text(
        "map,model,fingerprint,sentence,pair_with,layer,head,part,label,second\na,b,c,d,,1,1,test,round,\n"
    )
    with pytest.raises(ResultsError, match="line 2: columns should be map, model"):
        read_labels(wrong)
