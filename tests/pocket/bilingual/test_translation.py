"""The second language: sentences by hand, links, trees, and what its dictionary promises."""

from __future__ import annotations

from collections import Counter

import pytest

from bertology.pocket import _function_words as fw
from bertology.pocket._bilingual import (
    SUFFIXES,
    Translated,
    Translator,
    alike,
    dictionary,
    leaves,
    sense_of,
    transliterated,
)
from bertology.pocket._grammar import Clauses, Style, verbal_group
from bertology.pocket._texts import document_trees
from bertology.pocket._words import PLURAL, SINGULAR, Dice, Part, Phrase, Word, head, lexicon, phrase
from bertology.pocket._world import Scene, proper_noun

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
    return [Clauses(Scene(dice, lexicon("all"))).sentence() for _ in range(n)]


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


def test_order_is_the_same_or_reversed_but_for_what_has_no_word() -> None:
    for tree in trees(40):
        for order, sign in (("same", 1), ("reversed", -1)):
            made = Translator(order=order)(tree)
            sources = [min(word.sure) for word in leaves(made.tree)]
            assert sources == sorted(sources, key=lambda place: sign * place)


def test_a_shifted_language_is_the_first_word_by_word() -> None:
    for tree in trees(20):
        made = Translator(shifted=True)(tree)
        n_words = len(list(leaves(tree)))
        assert made.sure == {(place, place) for place in range(n_words)}
        assert not made.possible
        assert [word.form for word in leaves(made.tree)] == [transliterated(word.form) for word in leaves(tree)]


def test_stems_are_one_for_each_sense() -> None:
    stems = dictionary()
    assert len(set(stems.values())) == len(stems) > 800
    of_watch = {sense.upos: stem for sense, stem in stems.items() if sense.lemma == "watch"}
    assert set(of_watch) == {"NOUN", "VERB"}
    assert of_watch["NOUN"] != of_watch["VERB"]
    assert len({stem for sense, stem in stems.items() if sense.lemma == "that"}) == 4  # DET, SCONJ, two pronouns


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


def test_a_form_has_one_analysis() -> None:
    analyses: dict[str, set[tuple[str, str | None, str]]] = {}
    for tree in trees():
        for word in leaves(Translator()(tree).tree):
            if word.upos != "PUNCT":
                analyses.setdefault(word.form, set()).add((word.lemma, word.feats, word.upos))
    assert Counter(len(found) for found in analyses.values()).keys() == {1}
    assert len({*SUFFIXES.values()}) == len(SUFFIXES)


@pytest.mark.parametrize("particle", ["", "up"])
def test_senses_of_what_the_grammar_uses(particle: str) -> None:
    (pick,) = WORDS.verbs(["pick"])
    assert sense_of(pick.present[PLURAL], particle) in dictionary()
