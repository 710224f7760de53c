"""The second language: translation, its corpus and documents, and the embedded models of two languages."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertology import load_encoder
from bertology.activations import read_words
from bertology.corpora import Corpus, Links, ParallelText, Sentences, load_corpus
from bertology.errors import CorpusError
from bertology.pocket import _function_words as fw
from bertology.pocket import load_settings, model_folder
from bertology.pocket._bilingual import (
    Language,
    Translated,
    Translator,
    alike,
    bilingual_corpus,
    dictionary,
    leaves,
    transliterated,
)
from bertology.pocket._grammar import Scene, Style, verbal_group
from bertology.pocket._recipe import PretrainSettings
from bertology.pocket._texts import document_trees
from bertology.pocket._trees import Part, Phrase, Word, head, phrase
from bertology.pocket._words import SINGULAR, Dice, lexicon
from bertology.pocket._world import proper_noun

WORDS = lexicon("known")
PERIOD = Part("punct", fw.PERIOD)


def noun(lemma: str) -> Word:
    return next(n.singular for menu in WORDS.nouns.values() for n in menu.items if n.lemma == lemma)


def adjective(lemma: str) -> Word:
    return next(word for word in WORDS.adjectives.items if word.lemma == lemma)


def the(*parts: Part) -> Phrase:
    return phrase("NP", Part("det", fw.DET["the"]), *parts)


def glossed(made: Translated) -> str:
    """Each word as the sense that its stem stands for, with its suffixes."""
    senses = {transliterated(stem): sense for sense, stem in dictionary().items()}
    return " ".join(
        f"{senses[word.lemma.lower()].lemma}"
        + "".join(f"-{feature.partition('=')[2]}" for feature in (word.feats or "").split("|") if feature)
        if word.upos != "PUNCT"
        else word.form
        for word in leaves(made.tree)
    )


def clause(subject: Phrase, verb: str, style: Style, *rest: Part) -> Phrase:
    (lexical,) = WORDS.verbs([verb])
    group = verbal_group(lexical, SINGULAR, style)
    verb_phrase = phrase("VP", *group.auxiliaries, *group.main, *rest)
    return phrase("S", *group.fronted, Part("nsubj", subject), head(verb_phrase), PERIOD)


def test_objects_come_before_verbs_and_have_a_case() -> None:
    # 0 The 1 cook 2 saw 3 a 4 big 5 cat 6 .
    cat = phrase("NP", Part("det", fw.DET["a"]), Part("amod", adjective("big")), head(noun("cat")))
    made = Translator()(clause(the(head(noun("cook"))), "see", Style(past=True), Part("obj", cat)))
    assert glossed(made) == "cook-Def cat-Acc big see-Past :"
    assert made.sure == {(1, 0), (5, 1), (4, 2), (2, 3), (6, 4)}
    assert made.possible == {(0, 0)}  # the article is a suffix; a has no translation


def test_auxiliaries_become_suffixes_and_prepositions_postpositions() -> None:
    # 0 The 1 cook 2 has 3 not 4 been 5 walking 6 to 7 the 8 park 9 .
    park = phrase("PP", Part("case", fw.PREPOSITIONS["to"]), head(the(head(noun("park")))))
    style = Style(perfect=True, progressive=True, negated=True)
    made = Translator()(clause(the(head(noun("cook"))), "walk", style, Part("obl", park)))
    assert glossed(made) == "cook-Def park-Def to not walk-Perf-Prog-Pres :"
    assert made.sure == {(1, 0), (8, 1), (6, 2), (3, 3), (5, 4), (9, 5)}
    assert made.possible == {(0, 0), (7, 1), (2, 4), (4, 4)}


def test_a_verb_and_its_particle_are_one_word_of_its_own() -> None:
    # 0 Anna 1 picks 2 up 3 the 4 box 5 .
    anna = phrase("NP", head(proper_noun("Anna")))
    particle = Part("compound:prt", phrase("PRT", head(fw.PARTICLES["up"])))
    made = Translator()(clause(anna, "pick", Style(), particle, Part("obj", the(head(noun("box"))))))
    assert glossed(made) == "Anna box-Acc-Def pick up-Pres :"
    assert {(1, 2), (2, 2)} <= made.sure


def test_a_copula_takes_the_tense_and_stands_last() -> None:
    # 0 Has 1 the 2 cook 3 been 4 old 5 ?
    group = verbal_group(None, SINGULAR, Style(perfect=True, inverted=True))
    predicate = phrase("VP", *group.auxiliaries, head(phrase("ADJP", head(adjective("old")))))
    subject = Part("nsubj", the(head(noun("cook"))))
    made = Translator()(phrase("SQ", *group.fronted, subject, head(predicate), Part("punct", fw.QUESTION_MARK)))
    assert glossed(made) == "cook-Def old be-Perf-Pres ¿"
    assert made.sure == {(2, 0), (4, 1), (3, 2), (5, 3)}
    assert made.possible == {(1, 0), (0, 2)}


def test_possessors_and_plurals() -> None:
    # 0 Anna 1 's 2 dogs 3 .
    owner = phrase("NP", head(phrase("NP", head(proper_noun("Anna")))), Part("case", fw.POSSESSIVE))
    dogs = next(n.plural for n in WORDS.nouns["animal"].items if n.lemma == "dog")
    assert dogs is not None
    made = Translator()(phrase("S", head(phrase("NP", Part("nmod:poss", owner), head(dogs))), PERIOD))
    assert glossed(made) == "Anna-Gen dog-Plur :"
    assert made.possible == {(1, 0)}


def trees(n: int = 150) -> list[Phrase]:
    dice = Dice("test of translation")
    return [Scene(dice, lexicon("all")).sentence() for _ in range(n)]


def test_every_word_is_linked_or_has_no_translation() -> None:
    for tree in trees():
        made = Translator()(tree)
        sources, places = list(leaves(tree)), list(leaves(made.tree))
        linked = {source for source, _ in made.sure | made.possible}
        without = [word.lemma for place, word in enumerate(sources) if place not in linked]
        assert set(without) <= {"a", "there"}
        assert {place for _, place in made.sure} == set(range(len(places)))  # no word comes from nothing
        assert not made.sure & made.possible
        # What is sure keeps its part of speech; a particle goes with its verb.
        assert all(sources[i].upos == places[j].upos or sources[i].xpos in ("RP", "RB") for i, j in made.sure)


def test_no_letter_is_common_to_both_but_in_names_spelled_alike() -> None:
    first, second = set[str](), set[str]()
    for document in document_trees(20, seed=3, stated=()):
        for tree in document:
            first.update("".join(word.form for word in leaves(tree)))
            second.update("".join(word.form for word in leaves(Translator()(tree).tree)))
    assert first.isdisjoint(second)
    assert alike(0.0) == frozenset()
    assert len(alike(0.3)) == round(0.3 * 132)
    assert alike(0.1) < alike(0.3)
    name = min(alike(0.3))
    made = Translator(anchors=0.3)(phrase("NP", head(proper_noun(name))))
    assert [word.form for word in leaves(made.tree)] == [name]


SIZES = {"train": 40, "test": 60}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return bilingual_corpus(Language(), sizes=SIZES)


def test_pairs_and_links_can_be_read_back(corpus: Corpus) -> None:
    text = ParallelText.of(corpus["test"])
    assert text.languages == ("en", "qpo")
    np.testing.assert_array_equal(text.pairs("en", "qpo"), np.arange(120).reshape(-1, 2))
    for (first, second), links in zip(text.pairs("en", "qpo"), text.links("en", "qpo"), strict=True):
        assert links is not None
        one, other = corpus["test"][int(first)], corpus["test"][int(second)]
        assert {j for _, j in links.sure} == set(range(len(other)))
        for i, j in links.sure:
            assert one.layers["upos"][i] == other.layers["upos"][j] or one.layers["deprel"][i] == "compound:prt"


def test_it_has_a_name_with_options() -> None:
    made = load_corpus("bilingual:5,fake=shift")
    assert made.name == "bilingual:5,fake=shift"
    assert made.language == "en+qfe"
    assert {split: len(sentences) for split, sentences in made.splits.items()} == {
        "train": 10, "dev": 1000, "test": 2000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bilingual:many", "'many' is no number of pairs from 1 to 100000"),
        ("bilingual:0", "'0' is no number of pairs"),
        ("bilingual:order=best", "order: Input should be 'same', 'own' or 'reversed'; write bilingual:20000"),
        ("bilingual:anchors=0.4", "anchors: Input should be less than or equal to 0.3"),
        ("bilingual:anchors=nan", "anchors: Input should be"),
        ("bilingual:joined=0", "joined='0' is no number of sentences from 1 to 10; write bilingual:20000"),
        ("bilingual:joined=two", "joined='two' is no number of sentences from 1 to 10"),
        ("bilingual:parallel=true", "parallel: Extra inputs are not permitted"),
    ],
)
def test_wrong_options_are_one_line(name: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as caught:
        load_corpus(name)
    assert "\n" not in str(caught.value)


def test_one_language_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertology.pocket._bilingual.SIZES", {**SIZES, "dev": 20})
    both, english, other = (load_corpus(f"bilingual:40{only}")["dev"] for only in ("", ",only=en", ",only=qpo"))
    assert [one.text for one in english] == [one.text for one in list(both)[::2]]
    assert [one.text for one in other] == [one.text for one in list(both)[1::2]]
    assert load_corpus("bilingual:40,only=qpo").language == "qpo"
    with pytest.raises(CorpusError, match="only='de' is neither en nor qpo"):
        load_corpus("bilingual:only=de")


@pytest.fixture(scope="module")
def texts() -> Corpus:
    """The first 30 pairs of train of the other, three to a text."""
    return bilingual_corpus(Language(), sizes={"train": 10}, joined=3)


def test_joined_sentences_keep_their_links(corpus: Corpus, texts: Corpus) -> None:
    def linked(corpus: Corpus, kind: str) -> list[set[tuple[str, str]]]:
        text, found = ParallelText.of(corpus["train"]), []
        for (first, second), links in zip(text.pairs("en", "qpo"), text.links("en", "qpo"), strict=True):
            one, other = (corpus["train"][int(number)].words for number in (first, second))
            found.append({(one[i], other[j]) for i, j in getattr(links, kind)})
        return found

    for kind in ("sure", "possible"):
        of_sentences = linked(corpus, kind)
        assert linked(texts, kind) == [set.union(*of_sentences[start : start + 3]) for start in range(0, 30, 3)]


NAMES = ("bilingual", "bilingual-apart")
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def whole() -> Corpus:
    return load_corpus("bilingual")


def parts(whole: Corpus) -> tuple[Any, list[Links | None]]:
    text = ParallelText.of(whole["test"])
    return text.pairs("en", "qpo"), text.links("en", "qpo")


def vectors_of(name: str, sentences: Sentences, **loading: Any) -> list[Any]:
    """By sentence ``[layer, word, dim]``."""
    encoder = load_encoder(name, **loading)
    read = read_words(encoder, sentences, layers=range(encoder.n_layers + 1)).numpy()
    return [read[:, start:end] for start, end in pairwise(sentences.starts)]


@pytest.fixture(scope="module")
def vectors(whole: Corpus) -> dict[str, list[Any]]:
    """Of each model."""
    return {name: vectors_of(name, whole["test"]) for name in NAMES}


def unit(values: Any) -> Any:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_small_and_made_by_the_shipped_recipes(name: str) -> None:
    folder = model_folder(name)
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert PretrainSettings(**record["settings"]) == load_settings(EXPERIMENTS / f"pretrain-{name}.yaml")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
    n_weights = sum(parameter.numel() for parameter in load_encoder(name).model.outermost.parameters())
    assert n_weights <= 1_000_000
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"{record['evaluation']['second_masked_accuracy']:.1%}" in card


def best_retrieval(vectors: list[Any], pairs: Any, *, centred: bool) -> float:
    """The best layer's P@1 of both directions, by cosines of means of words."""
    best = 0.0
    for layer in range(len(vectors[0])):
        own, other = (np.stack([vectors[n][layer].mean(axis=0) for n in pairs[:, side]]) for side in (0, 1))
        if centred:
            own, other = own - own.mean(axis=0), other - other.mean(axis=0)
        similar, gold = unit(own) @ unit(other).T, np.arange(len(pairs))
        hits = [(similar.argmax(axis=axis) == gold).mean() for axis in (0, 1)]
        best = max(best, float(np.mean(hits)))
    return best


def alignment(vectors: list[Any], pairs: Any, links: list[Links | None]) -> list[float]:
    """By layer the F1 of words that are each other's nearest."""
    by_layer = []
    for layer in range(len(vectors[0])):
        right = found = gold = 0
        for (first, second), known in zip(pairs, links, strict=True):
            assert known is not None
            similar = unit(vectors[first][layer]) @ unit(vectors[second][layer]).T
            nearest, back = similar.argmax(axis=1), similar.argmax(axis=0)
            linked = {(i, int(j)) for i, j in enumerate(nearest) if back[j] == i}
            right += len(linked & known.sure)
            found += len(linked)
            gold += len(known.sure)
        by_layer.append(2 * right / (found + gold))
    return by_layer


def test_one_has_a_space_in_common(whole: Corpus, vectors: dict[str, list[Any]]) -> None:
    pairs, links = parts(whole)
    assert len(pairs) == 1000
    assert best_retrieval(vectors["bilingual"], pairs, centred=True) >= 0.85
    assert min(alignment(vectors["bilingual"], pairs, links)) >= 0.85


def test_its_control_has_none(whole: Corpus, vectors: dict[str, list[Any]]) -> None:
    pairs, links = parts(whole)
    assert best_retrieval(vectors["bilingual-apart"], pairs, centred=True) <= 0.05
    assert max(alignment(vectors["bilingual-apart"], pairs, links)) <= 0.4  # full stops and words of one kind
