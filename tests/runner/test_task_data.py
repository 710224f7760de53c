from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bertology.corpora import Corpus, Sentence, Sentences, Target
from bertology.errors import CorpusError, FitError
from bertology.families.contract import Problem
from bertology.families.model_corpus import Splits, choose_splits
from bertology.families.vectors import TaskData, targets_of
from bertology.probing import get_probe


def sentence(name: str, words: str, tags: Sequence[str | None]) -> Sentence:
    return Sentence.from_words(words.split(), id=name, layers={"upos": tuple(tags)})


@pytest.fixture
def splits() -> Splits:
    return Splits(
        train=Sentences(
            [
                sentence("t1", "dogs bark", ["NOUN", "VERB"]),
                sentence("t2", "big dogs bark", ["ADJ", "NOUN", "VERB"]),
                sentence("t3", "the bark", [None, "NOUN"]),
            ]
        ),
        dev=Sentences([sentence("d1", "oh dogs", ["INTJ", "NOUN"])]),
        test=Sentences([sentence("e1", "bark bark", ["VERB", "NOUN"]), sentence("e2", "wow cats", ["X", "NOUN"])]),
        notes=(),
    )


@pytest.fixture
def data(splits: Splits) -> TaskData:
    return TaskData.of(get_probe("pos"), splits)


def test_labels_of_train_come_first_then_those_seen_elsewhere(data: TaskData) -> None:
    assert data.labels == ("NOUN", "VERB", "ADJ", "INTJ", "X")
    assert data.n_train_labels == 3
    assert data.train.codes.tolist() == [0, 1, 2, 0, 1, 0]
    assert data.items["dev"].codes.tolist() == [3, 0]
    assert data.test.codes.tolist() == [1, 0, 4, 0]


def test_a_label_never_seen_in_train_is_counted_and_cannot_be_fitted_to(data: TaskData) -> None:
    assert data.counts()["n_unseen_label"] == 1
    assert data.targets("dev").tolist() == [-1, 0]
    assert data.targets("test").tolist() == [1, 0, -1, 0]
    assert data.targets("train").tolist() == data.train.codes.tolist()


def test_a_control_task_of_few_forms_has_two_labels(splits: Splits) -> None:
    tags = {"a": "X", "b": "Y"}
    text = [
        sentence(str(n), " ".join(words), [tags[w] for w in words]) for n, words in enumerate(["aab", "aba", "aaa"])
    ]
    data = TaskData.of(get_probe("pos"), Splits(*[Sentences(text)] * 3))
    for seed in range(20):
        labels = [data.control(split, seed=seed).tolist() for split in ("train", "test")]
        assert labels[0] == labels[1]
        assert set(labels[0]) == {0, 1}


def test_control_labels_are_one_a_word_form_in_all_splits(data: TaskData) -> None:
    # Hewitt & Liang 2019, §2.1: a type has one label wherever it stands.
    label_of: dict[str, set[int]] = {}
    for split in ("train", "dev", "test"):
        forms = data.splits.by_name[split].forms
        words = forms.codes[data.items[split].words]
        for word, label in zip(words, data.control(split, seed=3), strict=True):
            label_of.setdefault(forms.values[word], set()).add(int(label))
    assert all(len(labels) == 1 for labels in label_of.values())
    assert set().union(*label_of.values()) <= set(range(data.n_train_labels))


def test_items_without_a_vector_are_left_out_and_counted_by_reason(data: TaskData) -> None:
    fewer = data.without(
        {"train": {4: "nothing", 5: "no item anyway"}, "dev": {}, "test": {0: "too long", 1: "too long", 2: "nothing"}}
    )
    assert fewer.train.words.tolist() == [0, 1, 2, 3, 6]
    assert fewer.train.skipped == {"no upos label": 1, "nothing": 1}
    assert fewer.test.words.tolist() == [3]
    assert fewer.test.skipped == {"nothing": 1, "too long": 2}
    assert fewer.counts()["n_unseen_label"] == 0
    with pytest.raises(CorpusError, match=r"task pos: no word of the test split has a vector \(too long\)"):
        data.without({"train": {}, "dev": {}, "test": dict.fromkeys(range(4), "too long")})


def test_one_label_is_nothing_to_learn(splits: Splits) -> None:
    one = Sentences([sentence("s", "dogs cats", ["NOUN", "NOUN"])])
    with pytest.raises(FitError, match="task pos: train has the one label 'NOUN'"):
        TaskData.of(get_probe("pos"), Splits(one, one, one, ()))


def withtargets_of(name: str, words: str, *targets: Target) -> Sentence:
    return replace(sentence(name, words, [None] * len(words.split())), targets={"coref": targets})


@pytest.fixture
def pairs() -> Splits:
    def pair(first: tuple[int, int], second: tuple[int, int], label: str) -> Target:
        return Target(first, label, second)

    one = withtargets_of("a", "the dog saw it run", pair((0, 2), (3, 4), "1"), pair((3, 4), (4, 5), "0"))
    two = withtargets_of("b", "um the dog saw it run", pair((1, 3), (4, 5), "0"), pair((4, 5), (5, 6), "0"))
    return Splits(Sentences([one, two]), Sentences([two]), Sentences([two, one]), ())


def test_the_form_of_a_pair_of_spans_is_both_of_them(pairs: Splits) -> None:
    data = TaskData.of(get_probe("edge_coreference"), pairs)
    assert data.train.spans.tolist() == [[[0, 2], [3, 4]], [[3, 4], [4, 5]], [[6, 8], [9, 10]], [[9, 10], [10, 11]]]
    train, test, n_forms = data.word_forms()
    assert train.tolist() == [0, 1, 0, 1]
    assert test.tolist() == [0, 1, 0, 1]
    assert n_forms == 2
    control = data.control("test", seed=3)
    assert control[0] == control[2]
    assert control[1] == control[3]


def test_an_item_is_left_out_with_any_of_its_words(pairs: Splits) -> None:
    data = TaskData.of(get_probe("edge_coreference"), pairs)
    fewer = data.without({"train": {1: "long", 10: "odd"}, "dev": {}, "test": {4: "long"}})
    assert fewer.train.spans[:, 0].tolist() == [[3, 4], [6, 8]]
    assert dict(fewer.train.skipped) == {"long": 1, "odd": 1}
    assert len(fewer.items["dev"]) == 2
    # Both items of the first test sentence need its fifth word.
    assert fewer.test.spans[:, 0].tolist() == [[6, 8], [9, 10]]


def test_items_may_have_any_number_of_labels(pairs: Splits) -> None:
    def labelled(number: int, *labels: tuple[str, ...]) -> Sentence:
        found = (Target((0, 1), names, (1, 2)) for names in labels)
        return replace(sentence(f"s{number}", "dogs bark", [None, None]), targets={"proto_roles": tuple(found)})

    train = Sentences([labelled(0, ("aware", "moves"), ()), labelled(1, ("moves",))])
    test = Sentences([labelled(2, ("moves", "burns"), ("aware",))])
    data = TaskData.of(get_probe("edge_proto_roles"), Splits(train, train, test, ()))
    assert data.labels == ("aware", "moves", "burns")
    assert data.targets("train").tolist() == [[True, True], [False, False], [False, True]]
    assert data.targets("test").tolist() == [[False, True], [True, False]]
    assert data.counts()["n_unseen_label"] == 1
    control = data.control("train", seed=0)
    assert control.shape == (3, 2)
    assert (control == control[0]).all()
    assert any((control[0] == row).all() for row in data.targets("train"))


@pytest.mark.parametrize("test_split", ["test", "dev"])
def test_without_a_dev_split_every_tenth_training_sentence_is_held_out(test_split: str) -> None:
    whole = Sentences([sentence(f"s{number}", "dogs bark", ["NOUN", "VERB"]) for number in range(25)])
    # The dev split is not there, or is what is scored on.
    corpus = Corpus("c", {"train": whole, test_split: whole[:3]})
    chosen = choose_splits(corpus, train="train", test=test_split)
    assert [found.id for found in chosen.dev] == ["s9", "s19"]
    assert len(chosen.train) == 23
    assert not {found.id for found in chosen.train} & {"s9", "s19"}
    assert chosen.test is corpus[test_split]
    assert "every 10th sentence of train is held out" in chosen.notes[0]


def test_seeds_draw_whole_sentences_with_replacement(splits: Splits) -> None:
    many = Sentences([sentence(f"s{number}", "dogs bark loud", ["NOUN", "VERB", "ADV"]) for number in range(200)])
    data = TaskData.of(get_probe("pos"), Splits(many, splits.dev, splits.test, ()))
    weights = targets_of(data, [Problem("none", seed) for seed in (0, 1, 2)], "train").weights
    assert weights is not None
    assert (weights[0] == 1).all()
    for seed in (1, 2):
        drawn = np.bincount(np.random.default_rng(seed).integers(0, 200, 200), minlength=200)
        assert weights[seed].tolist() == np.repeat(drawn, 3).tolist()
        # Of n drawn from n with replacement, a share of 1/e is never drawn.
        assert np.mean(drawn == 0) == pytest.approx(np.exp(-1), abs=0.1)
    assert (weights[1] != weights[2]).any()
