"""Word senses: nearest occurrences, clusters, pairs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, roc_auc_score

from bertology import Corpus, Sentence, load_corpus, probe
from bertology.activations.layers import LayerVectors
from bertology.corpora import Sentences, Target
from bertology.corpora._derived import apart, concatenated
from bertology.encoders import load_encoder
from bertology.errors import BertologyError
from bertology.families.request import ReadoutConfig
from bertology.probing import get_probe
from bertology.runner import ProbeRequest, run_probes


@pytest.fixture(scope="module")
def nouns() -> Corpus:
    """Pseudowords: layer 0 has the noun itself, so that all senses are told apart but those of a coin."""
    corpus = load_corpus("pseudowords:pocket")
    return Corpus("nouns", {name: corpus[name][:size] for name, size in (("train", 1500), ("dev", 200), ("test", 800))})


def labelled(texts: list[tuple[str, str]]) -> Sentences:
    """Of each sentence the second word, with a label."""
    return Sentences(
        Sentence.from_words(text.split(), id=str(n), targets={"sense": (Target((1, 2), label),)})
        for n, (text, label) in enumerate(texts)
    )


def test_pseudowords_are_told_apart_and_a_coin_is_not(nouns: Corpus) -> None:
    table = probe("senses", corpus=nouns, layers="0", controls=["majority", "lexical"])
    rows = table.to_pandas()
    groups = rows[rows.group.notna() & (rows.control == "none")].set_index(["metric", "group"]).sort_index()
    words = sorted({group for _, group in groups.index})
    assert len(words) == 10
    for word in words:
        if "coin" not in word:
            assert (
                groups.loc["accuracy_by_centroid", word].value == 1 == groups.loc["accuracy_by_occurrences", word].value
            )
    coins = groups.loc["accuracy_by_centroid"].loc[[word for word in words if "coin" in word]]
    n_right, n_items = round((coins.value * coins.n_items).sum()), int(coins.n_items.sum())
    assert binomtest(n_right, n_items).pvalue > 0.01
    mean = rows[(rows.metric == "accuracy_by_centroid") & rows.group.isna()].set_index("control").value
    assert mean["none"] == pytest.approx(groups.loc["accuracy_by_centroid"].value.mean(), abs=1e-5)
    assert groups.loc["accuracy_by_centroid"].n_items.sum() == rows.n_items.max()
    assert mean["majority"] < mean["lexical"] < mean["none"]
    assert [column in table.to_markdown() for column in ("accuracy by centroid", "accuracy by occurrences")] == [
        True
    ] * 2
    assert "the same rules on the words of the context (TF-IDF)" in table.to_markdown()


def test_senses_of_a_table_and_what_is_left_out(tiny_bert: Path) -> None:
    """Columns of any name; words without a prefix are as they are written; counts of what cannot be told."""
    rows = [
        *((f"a bank {n} w", "money" if n % 2 else "river", "train") for n in range(8)),
        *((f"a cell {n} w", "prison", "train") for n in range(8)),
        *((f"a {word} {n} v", sense, "test") for n in range(4) for word, sense in (
            ("bank", "money"), ("Bank", "shore"), ("cell", "prison"), ("crane", "bird")
        )),
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["sentence", "meaning", "part"]).assign(at=1)
    frame = frame.rename(columns={"meaning": "sense"})
    table = probe(
        "senses", model=tiny_bert, corpus=frame, columns="text=sentence,label=sense,at=at,split=part", layers="0,1",
        controls=["majority"],
    )  # fmt: skip
    results = table.to_pandas()
    row = results[(results.metric == "accuracy_by_centroid") & (results.control == "none") & results.group.isna()].iloc[
        0
    ]
    assert (row.n_items, row.n_unseen_label, row.n_skipped, row.n_classes) == (8, 4, 8, 2)
    assert row.skip_reasons == '{"word not in train": 4, "word with one sense": 4}'
    assert row.value <= 0.5  # the shores are mistaken
    majority = results[(results.metric == "accuracy_by_centroid") & (results.control == "majority")].iloc[0]
    assert majority.value == 0.5
    assert majority.n_items == 8


def test_layers_are_summed(tiny_bert: Path, nouns: Corpus) -> None:
    few = Corpus("few", {name: text[:60] for name, text in nouns.splits.items()})
    configs = {"senses": (ReadoutConfig(), ReadoutConfig(settings={"layers_summed": 2}))}
    request = ProbeRequest(tasks=("senses",), model=str(tiny_bert), controls=("majority",), configs=configs)
    frame = run_probes(request, corpus=few).to_pandas()
    main = frame[(frame.metric == "accuracy_by_centroid") & frame.group.isna() & (frame.control == "none")]
    by_setting = {key: rows.set_index("layer").value for key, rows in main.groupby("params_json")}
    assert len(by_setting) == 2
    plain, summed = by_setting.values()
    assert plain[0] == summed[0]
    configs = {"senses": (ReadoutConfig(settings={"layers_summed": 0}),)}
    with pytest.raises(BertologyError, match="layers_summed=0: give 1 layer or more"):
        run_probes(ProbeRequest(tasks=("senses",), model=str(tiny_bert), configs=configs), corpus=few)


def pairs(n: int, seed: int) -> Sentences:
    """The same noun in two texts, where ``T`` stands for the same verb before it."""
    dice = np.random.default_rng(seed)
    sentences = []
    for number in range(n):
        verbs = dice.choice(["see", "chase"], 2)
        words = ["we", verbs[0], "dogs", "they", verbs[1], "dogs"]
        spans = tuple(Sentence.from_words(words).spans)
        label = Target((2, 3), "T" if verbs[0] == verbs[1] else "F", (5, 6))
        texts = (Target((0, 3), "1"), Target((3, 6), "2"))
        sentences.append(
            Sentence(str(number), " ".join(words), tuple(words), spans, targets={"label": (label,), "texts": texts},
                     derived=frozenset({"texts"}))
        )  # fmt: skip
    return Sentences(sentences)


@pytest.mark.parametrize("make", [lambda corpus: corpus, apart], ids=["together", "apart"])
def test_pairs_are_cosines_of_the_encoders_vectors(tiny_bert: Path, make: Callable[[Corpus], Corpus]) -> None:
    corpus = make(Corpus("pairs", {"train": pairs(40, 1), "dev": pairs(9, 3), "test": pairs(50, 2)}))
    table = probe("senses:pairs", model=tiny_bert, corpus=corpus, layers="0,2", controls=["majority", "lexical"])
    rows = table.to_pandas()
    got = rows[rows.group.isna()].set_index(["control", "metric", "layer"]).value.sort_index()
    encoder, same = load_encoder(str(tiny_bert), device="cpu"), {}
    cosines = {}
    for split, text in corpus.splits.items():
        vectors = np.asarray(encoder.vectors(text).values)[2]
        of_noun = vectors[text.forms.codes == text.forms.values.index("dogs")].reshape(-1, 2, vectors.shape[-1])
        lengths = np.linalg.norm(of_noun, axis=2)
        cosines[split] = (of_noun[:, 0] * of_noun[:, 1]).sum(axis=1) / lengths.prod(axis=1)
        labels = [targets[0].label for _, targets in text.targets("label")]
        same[split] = np.array(labels[:: len(labels) // len(of_noun)]) == "T"
    assert got["none", "area_under_curve", 2] == pytest.approx(roc_auc_score(same["test"], cosines["test"]), abs=0.02)
    best = max(accuracy_score(same["train"], cosines["train"] >= one) for one in cosines["train"])
    assert best >= 0.5
    assert got["lexical", "accuracy"].item() == 1  # the context is the verb
    majority = max(same["train"].mean(), 1 - same["train"].mean())
    assert got["majority", "area_under_curve"].item() == 0.5
    assert got["majority", "accuracy"].item() == (
        same["test"].mean() if same["train"].mean() == majority else 1 - same["test"].mean()
    )


@pytest.mark.parametrize(
    ("task", "train", "test", "message"),
    [
        ("senses", [("a b", "b:1"), ("a b", "b:2")], [("a c", "c:1")], "no word with a sense in test, such as 'c'"),
        (
            "senses",
            [("a b", "b:1"), ("a c", "b:1")],
            [("a b", "b:1")],
            "no word with a sense in test, such as 'b', has two",
        ),
        ("senses:clusters", [], [("a b", "b:1"), ("c b", "b:1")], "no word with a sense in test, such as 'b', has two"),
        ("senses:pairs", [("a b", "b:1")], [("a b", "b:1")], "no pair of words has a label in column 'label'"),
    ],
)
def test_what_cannot_be_asked_is_told(
    tiny_bert: Path, task: str, train: list[tuple[str, str]], test: list[tuple[str, str]], message: str
) -> None:
    splits = {"train": labelled([*train, ("x y", "y:1")]), "dev": labelled([("x y", "y:1")]), "test": labelled(test)}
    with pytest.raises(BertologyError, match=f"task {task}: {message}"):
        probe(task, model=tiny_bert, corpus=Corpus("bad", splits), layers="0")


def test_text_without_senses_is_refused(tiny_bert: Path) -> None:
    with pytest.raises(BertologyError, match="task senses: no word has a sense: give CoarseWSD-20"):
        probe("senses", model=tiny_bert, corpus="pocket", layers="0")
    with pytest.raises(
        BertologyError, match="task senses:cluster: it should be one of clusters, pairs, concatenation; or senses alone"
    ):
        probe("senses:cluster", model=tiny_bert, corpus="pocket", layers="0")


def test_a_following_sentence_pulls_a_word_to_its_sense() -> None:
    """Of planted vectors: alone a word is its sense, then half of it is what follows."""
    train = labelled([("a bank", f"bank:{sense}") for sense in ("money", "river") for _ in range(3)])
    test = [("a bank .", f"bank:{sense}") for sense in ("money", "money", "river", "river")]
    test = [(f"a bank {number} .", label) for number, (_, label) in enumerate(test)]
    corpus = concatenated(Corpus("banks", {"train": train, "test": labelled([*test, ("a cell", "cell:prison")])}))
    kinds = [corpus["test"].id(number).rpartition("/")[2] for number in range(len(corpus["test"]))]
    assert kinds == ["alone", "other", "same"] * 4
    joined = corpus["test"][1]
    assert joined.words == ("a", "bank", "0", "and", "a", "bank", joined.words[6], ".")
    assert [joined.text[first:last] for first, last in joined.spans] == list(joined.words)
    assert joined.targets["added"] == (Target((5, 6), "bank:river"),)

    axis = {"money": np.array([1.0, 0.2]), "river": np.array([0.2, 1.0])}
    vectors = {}
    for split, text in corpus.splits.items():
        values = np.ones((1, text.n_words, 2))
        for number, (target,) in text.targets("sense"):
            own = target.label.partition(":")[2]
            added = text[number].targets.get("added")
            value = axis[own] if added is None else (axis[own] + axis[added[0].label.partition(":")[2]]) / 2
            values[0, text.starts[number] + target.span1[0]] = value
        vectors[split] = LayerVectors.of_arrays(values)
    asked: Any = get_probe("senses:concatenation")
    statistics = asked.statistics(vectors, corpus.splits, asked.items(corpus.splits))
    found = {one.metric: one.values[0] for one in statistics}
    cosine = 0.4 / 1.04
    assert found["ratio_alone"] == found["ratio_same"] == pytest.approx(1 / cosine, rel=1e-4)
    assert found["ratio_other"] == pytest.approx(1, rel=1e-4)
    assert found["fall"] == found["fall_beyond_same"] == pytest.approx(1 / cosine - 1, rel=1e-4)
    assert found["own_share_alone"] == 1


def test_concatenation_needs_other_senses(tiny_bert: Path) -> None:
    one = Corpus("one", {split: labelled([("a b", "b:1")]) for split in ("train", "dev", "test")})
    with pytest.raises(BertologyError, match="concatenated:one: no word has two senses in test"):
        concatenated(one)
    with pytest.raises(BertologyError, match="give concatenated:CORPUS"):
        probe("senses:concatenation", model=tiny_bert, corpus=one)
    other = Corpus("other", {**one.splits, "test": labelled([("a c", "c:1"), ("a c", "c:2")])})
    with pytest.raises(BertologyError, match="train has no example of senses of the test, such as c:1"):
        probe("senses:concatenation", model=tiny_bert, corpus=concatenated(other))
