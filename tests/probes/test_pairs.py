"""Arcs and number of pairs of words, against trees done by hand and with labels that are planted or drawn."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bertology import probe
from bertology.corpora import Corpus, Sentence, Sentences, load_corpus
from bertology.errors import BertologyError, CorpusError
from bertology.probing import Examples, get_probe
from bertology.results import ResultRow
from tests.probes.conftest import BRIEF, check_chance

SING, PLUR = "Number=Sing", "Number=Plur"
FINITE = "|VerbForm=Fin"


def items(examples: Examples) -> list[tuple[int, int, str]]:
    """First and second word, and the label, of each item."""
    assert (examples.spans[..., 1] == examples.spans[..., 0] + 1).all()
    words = examples.spans[..., 0].tolist()
    return [(*pair, examples.values[code]) for pair, code in zip(words, examples.codes.tolist(), strict=True)]


def tree(words: str, upos: str, heads: tuple[int, ...], relations: str = "", feats: str = "") -> Sentence:
    columns = {"upos": upos.split(), "deprel": relations.split(), "feats": feats.split()}
    layers = {name: [None if one == "_" else one for one in values] for name, values in columns.items() if values}
    return Sentence.from_words(words.split(), layers=layers, heads=heads)


def test_arcs_have_as_many_other_pairs_as_far_apart() -> None:
    sentence = tree("the dogs chased a cat .", "DET NOUN VERB DET NOUN PUNCT", (2, 3, 0, 5, 3, 3))
    found = get_probe("edge_arcs").examples(Sentences([sentence, sentence]))
    in_second = [(one - 6, two - 6, label) for one, two, label in items(found) if one >= 6]
    # Distance −2: of two pairs that are no arcs one is drawn; +1: chased–a alone is none, for three arcs.
    assert in_second[0] == (4, 2, "1")
    assert in_second[1] in {(2, 0, "0"), (3, 1, "0")}
    assert in_second[2] in {(0, 1, "1"), (1, 2, "1"), (3, 4, "1")}
    assert in_second[3:] == [(2, 3, "0")]
    assert found.skipped == {"arc without a pair as far apart that is no arc": 4}
    assert items(get_probe("edge_arcs").examples(Sentences([sentence] * 2))) == items(found)
    with pytest.raises(CorpusError, match="no word has a head: give a treebank; the layers are upos"):
        get_probe("edge_arcs").examples(Sentences([replace(sentence, heads=None)]))


def test_in_a_treebank_distance_does_not_tell_arcs() -> None:
    text = load_corpus("pocket")["test"]
    found = items(get_probe("edge_arcs").examples(text))
    by_distance = [Counter(two - one for one, two, label in found if label == kind) for kind in "01"]
    assert by_distance[0] == by_distance[1]
    assert text.heads is not None
    for one, two, label in found:
        first = int(text.starts[text.sentence_of_word[one]])
        assert (text.heads[one] == two - first + 1) == (label == "1")


def test_the_number_of_a_subject_and_its_finite_verb() -> None:
    feats = f"{PLUR} {PLUR}{FINITE} VerbForm=Part {SING}"
    seen = tree("dogs have seen her", "NOUN AUX VERB PRON", (3, 3, 0, 3), "nsubj aux root obj", feats)
    police = tree("police are here", "NOUN AUX ADV", (3, 3, 0), "nsubj:pass cop root", f"{SING} {PLUR}{FINITE} _")
    past = tree("dogs ran", "NOUN VERB", (2, 0), "nsubj root", f"{PLUR} VerbForm=Fin")
    found = get_probe("pair_number").examples(Sentences([seen, police, past]))
    assert items(found) == [(0, 1, "Plur")]
    assert found.skipped == {"subject and verb of two numbers": 1, "no number": 1}
    with pytest.raises(CorpusError, match=r"no word has a number \(feats Number=Sing\): give a treebank with features"):
        get_probe("pair_number").examples(Sentences([replace(seen, layers={"upos": seen.layers["upos"]})]))


def test_verbs_and_nouns_that_are_not_their_subjects() -> None:
    upos, relations = "NOUN VERB DET NOUN ADP NOUN", "nsubj root det obj case nmod"
    feats = f"{PLUR} {PLUR}{FINITE} _ {SING} _ {PLUR}"
    one = tree("dogs see a cat with bones", upos, (2, 0, 4, 2, 6, 4), relations, feats)
    two = replace(one, layers={**one.layers, "feats": (SING, f"{SING}{FINITE}", None, SING, None, PLUR)})
    probe = get_probe("pair_number:shared")
    found = probe.examples(Sentences([one, two, two]))
    # One plural verb, of the singular ones therefore one.
    assert sorted(items(found)[2:]) == [(3, 1, "different"), (5, 1, "same")]
    assert sorted(label for *_, label in items(found)[:2]) == ["different", "same"]
    assert found.skipped == {"verb of the more frequent number": 1}
    text = load_corpus("pocket")["test"]
    every = items(probe.examples(text))
    features = text.layers["feats"].decoded(0, text.n_words)
    times = Counter(("Sing" in str(features[noun]), "Sing" in str(features[verb])) for noun, verb, _ in every)
    assert len(set(times.values())) == 1  # neither number alone tells
    with pytest.raises(BertologyError, match="pair_number:no: it should be one of shared; or pair_number alone"):
        get_probe("pair_number:no")


@pytest.mark.parametrize("task", ["edge_arcs", "pair_number"])
def test_what_is_planted_is_found_and_nothing_else(
    task: str, planted: Callable[..., Corpus], ask: Callable[..., dict[str, ResultRow]]
) -> None:
    """A word has an arc to the next one, or it and the next one are singular, by its own label or by a drawn one."""

    def corpus(*, signal: bool) -> Corpus:
        def with_tree(one: Sentence) -> Sentence:
            tags, n = one.layers["tag"], len(one)
            if task == "edge_arcs":
                heads = tuple(place + 2 if tags[place] == "1" and place + 1 < n else 0 for place in range(n))
                return replace(one, layers={}, heads=heads)
            numbers = [(PLUR, SING)[int(tags[place - place % 2] or 0)] + FINITE * (place % 2) for place in range(n)]
            layers = {
                "feats": tuple(numbers),
                "upos": ("NOUN", "VERB") * (n // 2),
                "deprel": ("nsubj", "root") * (n // 2),
            }
            return replace(one, layers=layers, heads=tuple(0 if place % 2 else place + 2 for place in range(n)))

        whole = planted("tag", ("1", "0"), signal=signal)
        return Corpus("trees", {name: Sentences(map(with_tree, text)) for name, text in whole.splits.items()})

    value = ask(task, corpus(signal=True), **BRIEF)["accuracy"].value
    assert value is not None
    assert value > 0.9
    check_chance(ask(task, corpus(signal=False), **BRIEF)["accuracy"], 0.5)


def test_shared_number_is_found_where_forms_show_it() -> None:
    """In the pocket world forms show number, but neither word of a pair alone; numbers that are drawn are not found."""
    pocket, dice = load_corpus("pocket"), np.random.default_rng(1)

    def drawn(one: Sentence) -> Sentence:
        feats = [(value or "").replace(SING, "*").replace(PLUR, "*") for value in one.layers["feats"]]
        numbered = tuple(value.replace("*", (SING, PLUR)[dice.integers(2)]) or None for value in feats)
        return replace(one, layers={**one.layers, "feats": numbered})

    def accuracy(make: Callable[[Sentence], Sentence]) -> ResultRow:
        sizes = {"train": 900, "dev": 200, "test": 300}
        text = {split: Sentences(map(make, pocket[split][:size])) for split, size in sizes.items()}
        found = probe("pair_number:shared", corpus=Corpus("some", text), layers=[0], controls="none")
        return next(row for row in found.rows if row.metric == "accuracy")

    value = accuracy(lambda one: one).value
    assert value is not None
    assert value > 0.7
    check_chance(accuracy(drawn), 0.5)
