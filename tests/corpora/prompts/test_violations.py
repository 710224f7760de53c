"""Minimal pairs made of a treebank: only what its own forms show to be a violation is one."""

from collections import Counter
from pathlib import Path

import pytest

from bertology.corpora import load_corpus
from bertology.corpora.prompts import ClozeItem, LeftOut
from bertology.corpora.prompts.violations import agreement_pairs, perturbed_pairs
from bertology.errors import CorpusError
from bertology.pocket._words import third_person

SING, PLUR = "Gender={}|Number=Sing", "Gender={}|Number=Plur"
VERB = "Mood=Ind|Number={}|Person={}|Tense=Pres|VerbForm=Fin"


def sentence(number: int, *words: str) -> str:
    """``form lemma upos features head relation`` of each word."""
    lines = [f"# sent_id = s{number}"]
    for place, word in enumerate(words, 1):
        form, lemma, upos, features, head, relation, *after = word.split()
        lines.append("\t".join([str(place), form, lemma, upos, "_", features, head, relation, "_", *(after or "_")]))
    return "\n".join(lines) + "\n\n"


def noun_phrase(noun: str, lemma: str, gender: str, adjective: str, number: str = "Sing") -> list[str]:
    features = f"Gender={gender}|Number={number}"
    verb = "come" if number == "Sing" else "comen"
    return [
        f"{noun} {lemma} NOUN {features} 3 nsubj",
        f"{adjective} {adjective[:-1].removesuffix('o').removesuffix('a')}o ADJ {features} 1 amod",
        f"{verb} comer VERB {VERB.format(number, 3)} 0 root",
    ]


MANY = [
    noun_phrase("Perro", "perro", "Masc", "negro"),
    noun_phrase("Perra", "perra", "Fem", "negra"),
    noun_phrase("Perros", "perro", "Masc", "negros", "Plur"),
    noun_phrase("Perras", "perra", "Fem", "negras", "Plur"),
] * 4


def pairs_of(path: Path, *sentences: list[str]) -> tuple[list[ClozeItem], Counter[tuple[str, str]]]:
    """The pairs of some sentences of test, and why others are left out; train has a treebank that agrees."""
    (path / "a-train.conllu").write_text("".join(sentence(n, *one) for n, one in enumerate(MANY)), encoding="utf-8")
    asked = "".join(sentence(100 + n, *one) for n, one in enumerate(sentences))
    (path / "a-test.conllu").write_text(asked, encoding="utf-8")
    found = list(agreement_pairs(load_corpus(path)))
    left = Counter((one.group, one.reason) for one in found if isinstance(one, LeftOut))
    return [one for one in found if isinstance(one, ClozeItem)], left


def test_what_does_not_agree_is_spelled_by_the_treebank(tmp_path: Path) -> None:
    items, left = pairs_of(tmp_path, noun_phrase("Gata", "gata", "Fem", "negra"))
    assert {(item.group, item.text, item.other) for item in items} == {
        ("subject–verb number", "Gata negra come", "Gata negra comen"),
        ("adjective–noun gender", "Gata negra come", "Gata negro come"),
        ("adjective–noun number", "Gata negra come", "Gata negras come"),
    }
    assert {item.id for item in items} == {"s100:2:gender", "s100:2:number", "s100:3:number"}
    assert left == {("subject–verb person", "agreement in 9 of 9 word pairs"): 1}


def test_words_that_do_not_tell_are_left_out(tmp_path: Path) -> None:
    both = [noun_phrase("Crisis", "crisis", "Fem", "negra"), noun_phrase("Crisis", "crisis", "Fem", "negras", "Plur")]
    items, left = pairs_of(tmp_path, *both)
    assert {item.group for item in items} == {"adjective–noun gender"}
    assert left["subject–verb number", "no form of a violation"] == 2
    joined = noun_phrase("Gata", "gata", "Fem", "negra")
    joined[1] += " SpaceAfter=No"
    items, left = pairs_of(tmp_path, [*joined, "- - PUNCT _ 3 punct", "y y CCONJ _ 6 cc", "perro perro NOUN _ 1 conj"])
    assert (items, sum(left.values())) == ([], 0)  # a coordinated subject
    name = noun_phrase("Gata", "gata", "Fem", "negra")
    items, left = pairs_of(tmp_path, [name[0].replace("NOUN", "PROPN"), *name[1:]])
    assert left["subject–verb number", "number of a name"] == 1


def test_an_adjective_may_belong_to_a_noun_further_up(tmp_path: Path) -> None:
    adjective, verb = noun_phrase("Perra", "perra", "Fem", "negra")[1:]
    up = "Perro perro NOUN Gender=Masc|Number=Sing 4 nsubj"
    items, left = pairs_of(
        tmp_path, [up, "perra perra NOUN Gender=Fem|Number=Sing 1 nmod", adjective.replace("1 amod", "2 amod"), verb]
    )
    assert left["adjective–noun gender", "adjective of another noun"] == 1
    assert {item.group for item in items} == {"subject–verb number", "adjective–noun number"}


def test_where_a_treebank_does_not_agree_nothing_is_asked(tmp_path: Path) -> None:
    wrong = [noun_phrase("Gato", "gato", "Masc", "negra") for _ in range(4)]
    for one in wrong:
        one[1] = one[1].replace("Masc", "Fem")
    items, left = pairs_of(tmp_path, *wrong, noun_phrase("Gata", "gata", "Fem", "negra"))
    assert "adjective–noun gender" not in {item.group for item in items}
    assert left["adjective–noun gender", "agreement in 17 of 21 word pairs"] == 1


def test_pairs_of_the_pocket_world_follow_its_grammar() -> None:
    corpus = load_corpus("pocket")
    sentences = {one.id: one for split in corpus.splits.values() for one in split}
    items = [one for one in agreement_pairs(corpus) if isinstance(one, ClozeItem)]
    assert {item.group for item in items} == {"subject–verb number", "subject–verb person"}
    assert len(items) > 300
    of_be = {("1", "Sing"): ("am", "was"), ("3", "Sing"): ("is", "was")}
    for item in items:
        one, place = sentences[item.cluster], int(item.id.split(":")[1]) - 1
        heads, relations = one.heads or (), one.layers["deprel"]
        above = place if relations[place] not in ("aux", "aux:pass", "cop") else heads[place] - 1
        subjects = (n for n, head in enumerate(heads) if head - 1 == above and (relations[n] or "").startswith("nsubj"))
        features = dict(part.split("=") for part in (one.layers["feats"][next(subjects)] or "").split("|"))
        lemma, number = one.layers["lemma"][place] or "", (features.get("Person", "3"), features["Number"])
        start = one.spans[place][0]
        old, new = (text[start:].split()[0].strip(".,?!;:").lower() for text in (item.text, item.other))
        old, new = (form.removesuffix("n't") for form in (old, new))
        right = of_be.get(number, ("are", "were")) if lemma == "be" else (third_person(lemma),)
        is_third = number == ("3", "Sing") or lemma == "be"
        assert (old in right) == is_third, item
        assert (new in right) != is_third, item


def test_perturbed_sentences_keep_spaces_capitals_and_marks() -> None:
    found = list(perturbed_pairs(load_corpus("pocket")))
    by_group = {group: [one for one in found if one.group == group] for group in {one.group for one in found}}
    assert {group: len(of) > 500 for group, of in by_group.items()} == dict.fromkeys(
        ("words scrambled", "word exchanged with its head", "words as lemmas"), True
    )
    for item in by_group["words scrambled"]:
        assert sorted(item.text.lower()) == sorted(item.other.lower())
        assert [len(part) for part in (item.text, item.other)] == [len(item.text)] * 2
    assert found == list(perturbed_pairs(load_corpus("pocket")))


def test_moved_words_keep_their_capitals(tmp_path: Path) -> None:
    words = ["Gata gata NOUN _ 2 nsubj", "ama amar VERB _ 0 root", "Oscar Oscar PROPN _ 2 obj SpaceAfter=No"]
    (tmp_path / "a.conllu").write_text(sentence(1, *words, ". . PUNCT _ 2 punct"), encoding="utf-8")
    found = {item.group: item.other for item in perturbed_pairs(load_corpus(tmp_path))}
    assert found["words as lemmas"] == "Gata amar Oscar."
    swapped = {"Ama gata Oscar.", "Gata Oscar ama."}
    assert found["word exchanged with its head"] in swapped
    assert found["words scrambled"] in {*swapped, "Ama Oscar gata.", "Oscar gata ama.", "Oscar ama gata."}


def test_a_corpus_without_features_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(sentence(1, "Perro perro NOUN _ 0 root"), encoding="utf-8")
    with pytest.raises(CorpusError, match=r"no feats: pairs are made of a treebank, such as CoNLL-U"):
        list(agreement_pairs(load_corpus(tmp_path)))
