"""Word order: what is planted as place, or as a role in the tree, and what parts them."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bertology import Corpus, Sentence, load_corpus, probe
from bertology.activations.layers import LayerVectors
from bertology.corpora import Sentences, Target
from bertology.corpora._derived import word_order
from bertology.errors import BertologyError
from bertology.geometry import GeometryProbe
from bertology.probing import get_probe

AGREE = ("my dog will V", "my A dog can V", "my dog will V the cat that can V", "my A A dog can V the cat who will V")
PART = ("my dog that can V will V", "my dog who will V the cat can V", "my dog that can V will V the cat who can V")
"""Sentences in which the first auxiliary is the main one; in which it is the second one, of three in the last."""


def marked(texts: tuple[str, ...], n: int, *, main: int | None = None) -> list[Sentence]:
    """Copies of sentences whose first auxiliary is the main one, or the second."""
    sentences = []
    for number in range(n):
        words = texts[number % len(texts)].split()
        places = [place for place, word in enumerate(words) if word in ("will", "can")]
        gold = places[0 if main is None else main]
        targets = tuple(Target((place, place + 1), "yes" if place == gold else "no") for place in places)
        sentences.append(Sentence.from_words(words, id=f"{number}", targets={"main_auxiliary": targets}))
    return sentences


def splits(n_train: int = 80) -> dict[str, Sentences]:
    return {
        "train": Sentences(marked(AGREE, n_train)),
        "dev": Sentences(marked(AGREE, 20)),
        "test": Sentences([*marked(PART, 30, main=1), *marked(AGREE, 20)]),
    }


def task(name: str = "main_auxiliary") -> GeometryProbe:
    found = get_probe(f"word_order:{name}")
    assert isinstance(found, GeometryProbe)
    return found


def one_hot(codes: NDArray[np.int64], dim: int = 16) -> NDArray[np.float32]:
    return np.eye(dim, dtype=np.float32)[codes.clip(max=dim - 1)]


def features(sentences: Sentences) -> dict[str, NDArray[np.float32]]:
    """Vectors that are the place, the place among auxiliaries, the role in the tree, and nothing."""
    places = np.arange(sentences.n_words) - np.repeat(sentences.starts[:-1], np.diff(sentences.starts))
    ranks, roles = np.zeros(sentences.n_words, np.int64), np.zeros(sentences.n_words, np.int64)
    for number, targets in sentences.targets("main_auxiliary"):
        for rank, target in enumerate(targets):
            word = sentences.starts[number] + target.span1[0]
            ranks[word], roles[word] = rank + 1, 1 if target.label == "yes" else 2
    return {"place": one_hot(places), "rank": one_hot(ranks), "role": one_hot(roles), "none": one_hot(roles * 0)}


def values(
    vectors: dict[str, NDArray[np.float32]], text: dict[str, Sentences], name: str = "main_auxiliary"
) -> dict[str, NDArray[np.float64]]:
    """By group, the scores of each layer; vectors are ``[layer, word, dim]`` of all words."""
    read, items = {}, task(name).items(text)
    for split, words in items.words.items():
        read[split] = LayerVectors.of_arrays(vectors[split][:, words], words=words)
    return {sums.group: sums.values for sums in task(name).statistics(read, text, items)}


def test_places_fail_where_order_and_structure_part_and_roles_do_not() -> None:
    text = splits()
    vectors = {split: np.stack(list(features(some).values())) for split, some in text.items()}
    found = values(vectors, text)
    place, rank, role, none = found[""]
    assert (place, rank, role) == (0, 0, 1)
    # All words are alike without a signal: each has its share.
    assert none == pytest.approx(np.mean([1 / len(sentence) for sentence in text["test"][:30]]))
    assert found["order and structure agree"][[0, 1, 2]].tolist() == [0.5, 1, 1]  # as often as the most frequent place
    assert found["last is wrong too"][[0, 2]].tolist() == [0, 1]
    assert found["words alone are wrong"][[0, 1, 2]].tolist() == [0, 0, 1]


def test_nth_word_is_in_its_place_alone() -> None:
    text = splits()
    vectors = {split: np.stack(list(features(some).values())) for split, some in text.items()}
    place, rank, role, none = values(vectors, text, "3")[""]
    assert place == 1
    assert max(rank, role) < 1
    assert none == pytest.approx(np.mean([1 / len(sentence) for sentence in text["test"]]))


def test_the_word_is_that_of_the_highest_logit_of_scikit_learn() -> None:
    text, dice = splits(40), np.random.default_rng(1)
    vectors, labels = {}, {}
    for split, some in text.items():
        labels[split] = features(some)["role"][:, 1]
        vectors[split] = dice.normal(size=(some.n_words, 6)).astype(np.float32)
        vectors[split][:, 0] += labels[split]
    scale = StandardScaler().fit(vectors["train"])
    x = {split: scale.transform(some) for split, some in vectors.items()}
    fits = [
        LogisticRegression(C=c, tol=1e-8, max_iter=1000).fit(x["train"], labels["train"])
        for c in np.logspace(-7, 3, 11)
    ]
    best = max(fits, key=lambda fit: fit.score(x["dev"], labels["dev"]))
    logits = best.decision_function(x["test"])
    starts = text["test"].starts
    right = [labels["test"][first:last][logits[first:last].argmax()] for first, last in pairwise(starts[:31])]
    found = values({split: some[None] for split, some in vectors.items()}, text)
    assert found[""] == pytest.approx(np.mean(right))
    assert 0.1 < found[""][0] < 0.9


def test_baselines_by_hand() -> None:
    text = splits()
    items = task().items(text)
    found = {
        name: {sums.group: sums.values[0] for sums in task().baseline(name, text, items)}
        for name, *_ in task().baselines
    }
    assert {name: one[""] for name, one in found.items()} == {
        "majority": 0, "first": 0, "last": pytest.approx(2 / 3), "lexical": 0,
    }  # fmt: skip
    agreeing = {name: one["order and structure agree"] for name, one in found.items()}
    assert agreeing == {"majority": 0.5, "first": 1, "last": 0.5, "lexical": 1}
    assert found["last"]["last is wrong too"] == 0
    assert task("2").baselines == ()
    counts = items.counts
    assert (counts.n_items, counts.n_train, dict(counts.skipped)) == (30, 80, {})
    assert dict(task("7").items(text).counts.skipped) == {"sentence of fewer than 7 words": 10}


def test_a_treebank_from_the_pocket_world(tiny_bert: Path) -> None:
    whole = load_corpus("pocket")
    corpus = word_order(
        Corpus("small", {name: whole[name][:n] for name, n in (("train", 300), ("dev", 80), ("test", 60))})
    )
    tasks = ["word_order:main_auxiliary", "word_order:subject_noun", "word_order:2"]
    results = probe(
        tasks, model=tiny_bert, corpus=corpus, layers="0,2", controls=["majority", "first", "last", "lexical"]
    )
    rows = results.to_pandas()
    main = rows[rows.group.isna()].set_index(["task", "control", "layer"]).value.sort_index()
    for name in tasks[:2]:
        assert main[name, "first"].item() == 0
        assert main[name, "none", 2] < 1
    assert main["word_order:2", "none", 0] > 0.5  # positions are part of embeddings
    assert "the first auxiliary of the sentence" in results.to_markdown()
    assert set(rows.group.dropna()) == {"order and structure agree", "last is wrong too", "words alone are wrong"}
    of_words = rows[(rows.control == "lexical") & (rows.group == "words alone are wrong")]
    assert (of_words.value == 0).all()
    assert len(of_words) == 2


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("subject_noun", {}, "no sentence of train has its subject noun marked: give a treebank as word_order:CORPUS"),
        ("main_auxiliary", {"test": marked(AGREE, 8)}, "in every sentence of test the first auxiliary is the main aux"),
        ("main_auxiliary", {"train": marked(PART, 8, main=1)}, "in no sentence of train the first auxiliary is the"),
        ("60", {}, "no sentence of train has 60 words: give a smaller number"),
    ],
)
def test_what_cannot_be_asked_of_a_text(
    tiny_bert: Path, name: str, changed: dict[str, list[Sentence]], message: str
) -> None:
    corpus = Corpus("bad", splits() | {split: Sentences(some) for split, some in changed.items()})
    with pytest.raises(BertologyError, match=f"task word_order:{name}: {message}") as error:
        probe(f"word_order:{name}", model=tiny_bert, corpus=corpus, layers="0")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["0", "-1", "x", "main_verb", "²"])
def test_unknown_questions(name: str) -> None:
    with pytest.raises(BertologyError, match="it should be a kind of word or a number, such as main_auxiliary, subj"):
        get_probe(f"word_order:{name}")


def test_attention_to_the_subject(tiny_bert: Path) -> None:
    whole = load_corpus("pocket")
    corpus = word_order(Corpus("small", {name: whole[name][:80] for name in ("train", "dev", "test")}))
    rows = probe("word_order:attention", model=tiny_bert, corpus=corpus, controls="none").to_pandas()
    assert set(rows.metric) == {"confusion_bits", "confusion_above_chance_bits"}
    of_layers = rows[rows["head"].isna() & (rows.metric == "confusion_above_chance_bits") & (rows.group == "all")]
    assert of_layers.layer.tolist() == [1, 2, 3]
    assert of_layers.value.between(-0.2, 0.2).all()  # the weights of this encoder are random
    sizes = rows[(rows.metric == "confusion_bits") & (rows.layer == 1) & rows["head"].isna()].set_index("group").n_items
    assert sizes["all"] == sizes["first noun is the subject"] + sizes["first noun is not the subject"]
    with pytest.raises(BertologyError, match="task word_order:attention: no sentence has its main auxiliary and its"):
        probe("word_order:attention", model=tiny_bert, corpus="pocket", controls="none")
