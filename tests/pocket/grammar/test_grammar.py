"""Gold annotation is valid, and means what it says."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from bertology.corpora import Corpus, Sentence
from bertology.pocket import _function_words as fw
from bertology.pocket import load_corpus
from bertology.pocket._grammar import Style, verbal_group
from bertology.pocket._texts import chunks, generate_corpus
from bertology.pocket._words import (
    PLURAL,
    SINGULAR,
    Part,
    Phrase,
    Word,
    head,
    lexicon,
    phrase,
    third_person,
    with_ed,
    with_ing,
    with_s,
)

UPOS = {
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "VERB",
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus()


@pytest.fixture(scope="module")
def sentences(corpus: Corpus) -> list[Sentence]:
    return [*corpus["train"][:700], *corpus["unseen"][:100]]


def test_heads_form_one_projective_tree(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        assert sentence.heads is not None
        assert sentence.heads.count(0) == 1
        for word in range(1, len(sentence) + 1):
            seen = set()
            while word:
                assert word not in seen, f"cycle in {sentence.text}"
                seen.add(word)
                word = sentence.heads[word - 1]
        relations = sentence.layers["deprel"]
        assert [relation == "root" for relation in relations] == [top == 0 for top in sentence.heads]


def test_function_words_and_punctuation_have_no_dependents(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        for top in sentence.heads or ():
            if top:
                assert sentence.layers["deprel"][top - 1] not in ("punct", "det", "case", "aux", "cop", "cc")


def test_text_is_natural_and_words_stand_in_it(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        assert [sentence.text[start:end] for start, end in sentence.spans] == list(sentence.words)
        assert "  " not in sentence.text
        assert not any(f" {mark}" in sentence.text for mark in (".", ",", "?", "!", "n't", "'s"))
        assert sentence.text[0].isupper()
        assert sentence.text[-1] in ".?!"


def test_every_layer_covers_every_word(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        for name in ("lemma", "upos", "xpos", "deprel", "ner", "chunk"):
            assert len(sentence.layers[name]) == len(sentence)
            assert None not in sentence.layers[name]
        assert set(sentence.layers["upos"]) <= UPOS
        for feats in filter(None, sentence.layers["feats"]):
            pairs = [pair.split("=") for pair in feats.split("|")]
            assert all(len(pair) == 2 for pair in pairs)
            assert [key for key, _ in pairs] == sorted({key for key, _ in pairs}, key=str.lower), feats


@pytest.mark.parametrize("layer", ["ner", "chunk"])
def test_iob2_is_well_formed(sentences: list[Sentence], layer: str) -> None:
    for sentence in sentences:
        before = "O"
        for tag in sentence.layers[layer]:
            assert tag is not None
            if tag.startswith("I-"):
                assert before[2:] == tag[2:], f"{tag} after {before} in {sentence.text}"
            before = tag


def test_spans_lie_in_the_sentence_and_constituents_nest(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        for targets in sentence.targets.values():
            for target in targets:
                for first, end in filter(None, (target.span1, target.span2)):
                    assert 0 <= first < end <= len(sentence)
        spans = [target.span1 for target in sentence.targets["constituents"]]
        for first, end in spans:
            assert not any(first < a < end < b for a, b in spans), sentence.text


def test_entities_agree_with_their_tags(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        tags = ["O"] * len(sentence)
        for entity in sentence.targets.get("entities", ()):
            for place in range(*entity.span1):
                tags[place] = f"{'B' if place == entity.span1[0] else 'I'}-{entity.label}"
        assert tuple(tags) == sentence.layers["ner"]


def test_roles_belong_to_verbs_and_do_not_repeat(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        core = Counter()
        for target in sentence.targets.get("srl", ()):
            (predicate, end) = target.span1
            assert end == predicate + 1
            assert sentence.layers["upos"][predicate] == "VERB"
            assert target.span2 is not None
            assert not target.span2[0] <= predicate < target.span2[1]
            core[predicate, target.label] += target.label in ("A0", "A1", "A2")
        assert max(core.values(), default=0) <= 1, sentence.text


def test_finite_verbs_agree_with_their_subjects(sentences: list[Sentence]) -> None:
    checked = 0
    for sentence in sentences:
        heads, relations = sentence.heads or (), sentence.layers["deprel"]
        for place, relation in enumerate(relations):
            if relation not in ("nsubj", "nsubj:pass") or "conj" in _dependents(sentence, place):
                continue
            subject, predicate = sentence.layers["feats"][place] or "", heads[place] - 1
            group = [predicate] + [i for i, top in enumerate(heads) if top - 1 == predicate and _is_finite(sentence, i)]
            for verb in group:
                feats = sentence.layers["feats"][verb] or ""
                if "Mood=Ind" in feats and "Number=" in subject and "Number=" in feats:
                    assert _value(feats, "Number") == _value(subject, "Number"), sentence.text
                    checked += 1
    assert checked > 200


def _dependents(sentence: Sentence, place: int) -> set[str | None]:
    return {r for r, top in zip(sentence.layers["deprel"], sentence.heads or (), strict=True) if top == place + 1}


def _is_finite(sentence: Sentence, place: int) -> bool:
    return sentence.layers["deprel"][place] in ("aux", "aux:pass", "cop")


def _value(feats: str, key: str) -> str:
    return dict(pair.split("=") for pair in feats.split("|"))[key]


def test_coreference_pairs_hold_a_pronoun_and_agree(sentences: list[Sentence]) -> None:
    labels = Counter()
    for sentence in sentences:
        pairs = sentence.targets.get("coref", ())
        labels.update(pair.label for pair in pairs)
        for pair in pairs:
            assert pair.span2 is not None
            spans = [pair.span1, pair.span2]
            assert any(end - first == 1 and sentence.layers["upos"][first] == "PRON" for first, end in spans)
        assert not pairs or any(pair.label == "1" for pair in pairs)
    assert labels["1"] > 40
    assert labels["0"] > 40


def test_at_least_forty_words_are_ambiguous_out_of_context(corpus: Corpus) -> None:
    counts: dict[str, Counter[str | None]] = defaultdict(Counter)
    for sentence in corpus["train"]:
        for word, tag in zip(sentence.words, sentence.layers["upos"], strict=True):
            counts[word.lower()][tag] += 1
    balanced = [word for word, tags in counts.items() if sum(tags.values()) >= 15 and _majority(tags) < 0.85]
    assert len(balanced) >= 40
    assert {"light", "watch", "that", "to", "like", "back"} <= set(balanced)
    overall = sum(max(tags.values()) for tags in counts.values()) / sum(sum(tags.values()) for tags in counts.values())
    assert 0.85 < overall < 0.93


def _majority(tags: Counter[str | None]) -> float:
    return max(tags.values()) / sum(tags.values())


def test_splits_share_no_sentence(corpus: Corpus) -> None:
    texts = [sentence.text for split in corpus.splits.values() for sentence in split]
    assert len(texts) == len(set(texts)) == 4600


def test_unseen_words_are_unseen(corpus: Corpus) -> None:
    known = {word.lower() for split in ("train", "dev", "test") for s in corpus[split] for word in s.words}
    novelties = set()
    for sentence in corpus["unseen"]:
        marks = dict(zip(sentence.words, sentence.layers["misc"], strict=True))
        novel = {word.lower(): mark for word, mark in marks.items() if mark}
        assert novel
        assert not set(novel) & known
        novelties |= set(novel.values())
    assert novelties == {"Novelty=held", "Novelty=new"}


def test_generation_is_fixed_by_its_seed() -> None:
    sizes = {"train": 60, "test": 30}
    one, again = generate_corpus(seed=3, sizes=sizes), generate_corpus(seed=3, sizes=sizes)
    assert one.fingerprint == again.fingerprint
    assert one.fingerprint != generate_corpus(seed=4, sizes=sizes).fingerprint


def test_the_packed_corpus_is_what_the_grammar_generates(corpus: Corpus) -> None:
    generated = generate_corpus()
    assert generated.fingerprint == corpus.fingerprint
    assert generated["unseen"][7] == corpus["unseen"][7]


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (Style(), "sees"),
        (Style(past=True), "saw"),
        (Style(negated=True), "does not see"),
        (Style(negated=True, contracted=True), "does n't see"),
        (Style(modal=fw.MODALS[1], negated=True, contracted=True), "wo n't see"),
        (Style(perfect=True, progressive=True), "has been seeing"),
        (Style(modal=fw.MODALS[3], perfect=True, passive=True), "must have been seen"),
        (Style(progressive=True, passive=True, past=True), "was being seen"),
        (Style(form="base"), "see"),
    ],
)
def test_affix_hopping(style: Style, expected: str) -> None:
    (see,) = lexicon("known").verbs(["see"])
    group = verbal_group(see, SINGULAR, style)
    words = [part.tree for part in (*group.fronted, *group.auxiliaries, *group.main)]
    assert " ".join(word.form for word in words if isinstance(word, Word)) == expected


def test_questions_front_the_first_auxiliary() -> None:
    (see,) = lexicon("known").verbs(["see"])
    group = verbal_group(see, PLURAL, Style(inverted=True, negated=True, contracted=True))
    assert [part.tree.form for part in group.fronted if isinstance(part.tree, Word)] == ["do", "n't"]
    assert group.auxiliaries == ()


@pytest.mark.parametrize(
    ("function", "base", "form"),
    [
        (with_s, "box", "boxes"),
        (with_s, "story", "stories"),
        (with_s, "play", "plays"),
        (third_person, "have", "has"),
        (with_ed, "stop", "stopped"),
        (with_ed, "like", "liked"),
        (with_ed, "tidy", "tidied"),
        (with_ed, "play", "played"),
        (with_ed, "visit", "visited"),
        (with_ed, "box", "boxed"),
        (with_ing, "lie", "lying"),
        (with_ing, "run", "running"),
        (with_ing, "free", "freeing"),
        (with_ing, "forget", "forgetting"),
        (with_ing, "cook", "cooking"),
    ],
)
def test_morphology(function: object, base: str, form: str) -> None:
    assert callable(function)
    assert function(base) == form


def test_a_sentence_read_by_hand() -> None:
    """*The dog that Anna saw isn't Tom 's.*-like structure: chunks, heads and roles against hand annotation."""
    words = [
        fw.DET["the"],
        Word("judges", "judge", "NOUN", "NNS"),
        fw.POSSESSIVE_PLURAL,
        Word("old", "old", "ADJ", "JJ"),
        Word("dog", "dog", "NOUN", "NN"),
        fw.DO.present[SINGULAR],
        fw.NT,
        Word("like", "like", "VERB", "VB"),
        Word("Anna", "Anna", "PROPN", "NNP"),
        fw.PERIOD,
    ]
    heads = (2, 5, 2, 5, 8, 8, 8, 0, 8, 8)
    relations = ("det", "nmod:poss", "case", "amod", "nsubj", "aux", "advmod", "root", "obj", "punct")
    assert chunks(words, heads, relations) == (
        "B-NP", "I-NP", "B-NP", "I-NP", "I-NP", "B-VP", "I-VP", "I-VP", "B-NP", "O",
    )  # fmt: skip


def test_dependencies_follow_the_heads_of_phrases() -> None:
    from bertology.pocket._texts import Line, read

    dog, see = Word("dog", "dog", "NOUN", "NN"), Word("saw", "see", "VERB", "VBD")
    park = phrase("PP", Part("case", fw.PREPOSITIONS["in"]), head(Word("Arbury", "Arbury", "PROPN", "NNP")))
    subject = phrase("NP", Part("det", fw.DET["the"]), head(dog))
    tree = phrase("S", Part("nsubj", subject, "A0"), head(phrase("VP", head(see), Part("obl", park, "AM-LOC"))))
    sentence = read(Line(Phrase("S", (*tree.parts, Part("punct", fw.PERIOD)))), id="x")
    assert sentence.text == "The dog saw in Arbury."
    assert sentence.heads == (2, 3, 0, 5, 3, 3)
    assert [(t.span1, t.label, t.span2) for t in sentence.targets["srl"]] == [
        ((2, 3), "A0", (0, 2)),
        ((2, 3), "AM-LOC", (3, 5)),
    ]
