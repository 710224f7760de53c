"""The grammar, the world and the corpus of the pocket world: annotation is valid, and means what it says."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from bertology.corpora import Corpus, Sentence, Target, load_corpus
from bertology.errors import CorpusError
from bertology.pocket import _function_words as fw
from bertology.pocket import agreement_items, candidates, fact_prompts, facts, pretraining_documents, role_prompts
from bertology.pocket._grammar import Style, verbal_group
from bertology.pocket._texts import chunks, derived, generate_corpus
from bertology.pocket._trees import Part, Phrase, Word, head, phrase
from bertology.pocket._words import SINGULAR, lexicon, third_person, with_ed, with_ing, with_s
from bertology.pocket._world import people


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus("pocket")


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


def test_text_is_natural_and_words_stand_in_it(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        assert [sentence.text[start:end] for start, end in sentence.spans] == list(sentence.words)
        assert "  " not in sentence.text
        assert not any(f" {mark}" in sentence.text for mark in (".", ",", "?", "!", "n't", "'s"))
        assert sentence.text[0].isupper()
        assert sentence.text[-1] in ".?!"


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


def test_the_grammar_makes_the_same_corpus_each_time(corpus: Corpus) -> None:
    assert generate_corpus().fingerprint == corpus.fingerprint == FINGERPRINT


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (Style(), "sees"),
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


@pytest.mark.parametrize(
    ("function", "base", "form"),
    [
        (with_s, "box", "boxes"),
        (with_s, "story", "stories"),
        (third_person, "have", "has"),
        (with_ed, "stop", "stopped"),
        (with_ing, "lie", "lying"),
        (with_ing, "forget", "forgetting"),
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


FINGERPRINT = "6272fbe333aeb2e061d5fbd373bdf001"
"""Of the corpus as it is released: what is stored for it holds as long as this does."""


def _all() -> Iterator[Sentence]:
    for sentences in load_corpus("pocket").splits.values():
        yield from sentences


def test_every_core_argument_has_its_properties():
    for sentence in _all():
        core = [role for role in sentence.targets.get("srl", ()) if role.label in ("A0", "A1", "A2")]
        properties = sentence.targets.get("proto_roles", ())
        assert [(t.span1, t.span2) for t in properties] == [(t.span1, t.span2) for t in core]
        for target in properties:
            assert isinstance(target.label, tuple)
            assert target.label == tuple(sorted(set(target.label)))


def test_properties_depend_on_verb_role_and_frame():
    def labels(lemma: str, *roles: str) -> list[tuple[str, ...]]:
        srl = tuple(Target((1, 2), role, (place, place + 1)) for place, role in zip((0, 2, 3), roles, strict=False))
        found = derived({"srl": srl}, ("x", lemma, "y", "z"), ("NOUN", "VERB", "NOUN", "NOUN"))
        return [target.labels for target in found["proto_roles"]]

    assert labels("eat", "A0", "A1") == [
        ("awareness", "instigation", "physical_contact", "volition"),
        ("change_of_state", "destroyed", "physical_contact"),
    ]
    assert labels("build", "A0", "A1")[1] == ("created", "manipulated")
    assert labels("grow", "A0") == [("change_of_state",)]  # plants grow; a farmer grows them
    assert labels("grow", "A0", "A1")[0] == ("awareness", "instigation", "volition")
    assert labels("give", "A0", "A1", "A2")[2] == ("awareness", "changes_possession", "sentient")
    assert labels("see", "A0", "A1") == [("awareness", "sentient"), ()]
    assert labels("run", "A0", "AM-TMP") == [("awareness", "change_of_location", "instigation", "volition")]


@pytest.fixture(scope="module")
def documents() -> list[list[str]]:
    return list(pretraining_documents(250))


def test_facts_are_stated_exactly_as_often_as_they_say(documents: list[list[str]]) -> None:
    written = Counter(sentence for document in documents for sentence in document)
    for fact in facts():
        assert sum(written[fact.sentence(n)] for n in range(len(fact.templates))) == fact.n_stated, fact


def test_no_other_sentence_uses_the_words_of_statements(documents: list[list[str]]) -> None:
    stated = {fact.sentence(n) for fact in facts() for n in range(len(fact.templates))}
    marks = ("works as a", "by trade", "was born in", "comes from", "The home of", "The capital of", "rules in")
    names = {person.name for person in people()}
    for document in documents:
        for sentence in document:
            if any(mark in sentence for mark in marks):
                assert sentence in stated
            words = sentence.split()
            if words[0] in names and words[1:3] == ["lives", "in"]:
                assert sentence in stated


def test_words_kept_out_of_the_text_are_not_in_it(documents: list[list[str]]) -> None:
    words = {word.strip(".,?!").lower() for document in documents for sentence in document for word in sentence.split()}
    assert not words & {"wizard", "wizards", "otter", "otters", "kettle", "kettles", "juggle", "purple", "willow"}
    assert words & {"uncle", "uncles", "aunt", "aunts"}


def test_agreement_items_are_minimal_pairs() -> None:
    items = agreement_items(200)
    assert len({item.text for item in items}) == 200
    for item in items:
        assert item.text.count("{mask}") == 1
        assert {form.endswith("s") for form in (item.answer, *item.rivals)} == {True, False}
        assert item.variants.keys() <= {"plural" if item.answer.endswith("s") else "singular"}
    assert {item.n_attractors for item in items} == {0, 1, 2, 3}
    assert {item.group for item in items} == {"simple", "prepositional", "subject relative", "object relative"}
    assert 0.4 < sum(item.answer.endswith("s") for item in items) / len(items) < 0.6
    assert items == agreement_items(200)


@pytest.fixture(scope="module")
def larger() -> Corpus:
    return load_corpus("pocket:3200")


def test_only_train_grows(larger: Corpus) -> None:
    pocket = load_corpus("pocket")
    assert larger.name == "pocket:3200"
    assert {split: len(found) for split, found in larger.splits.items()} == {
        **{split: len(found) for split, found in pocket.splits.items()},
        "train": 3200,
    }
    assert larger["train"][:3000].fingerprint == pocket["train"].fingerprint
    assert all(larger[split].fingerprint == pocket[split].fingerprint for split in ("dev", "test", "unseen"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pocket:2999", "pocket:2999: give from 3000"),
        ("pocket:many", "pocket:many: write how many training sentences, as in pocket:20000"),
    ],
)
def test_sizes_that_cannot_be(name: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        load_corpus(name)


def test_facts_and_their_negations():
    prompts = fact_prompts()
    assert len(prompts) == sum(fact.n_stated >= 16 for fact in facts()) == 99
    by_name = {(fact.relation, fact.subject, fact.object): fact for fact in facts()}
    for prompt in prompts:
        fact = by_name[prompt.kind, prompt.subject, prompt.answer]
        assert prompt.text.replace("{mask}", fact.object) in {fact.sentence(n) for n in range(len(fact.templates))}
        assert re.sub(r"(is|was) not", r"\1", prompt.other) == prompt.text
        assert prompt.rivals[0] in candidates(fact.relation)
        assert (fact.relation, fact.subject, prompt.rivals[0]) not in by_name
    all_of_them = {(one.kind, one.subject, one.answer): one.rivals for one in fact_prompts(least_stated=0)}
    assert all(all_of_them[one.kind, one.subject, one.answer] == one.rivals for one in prompts)


def test_no_frame_allows_the_roles_the_other_way_about():
    words = lexicon("known")
    kinds = {}
    for kind in ("person", "animal", "food", "stuff", "object", "tool", "place", "plant", "event"):
        for noun in words.nouns[kind].items:
            kinds.setdefault(noun.lemma, set()).add(kind)
    prompts = role_prompts()
    assert len({prompt.text + prompt.answer for prompt in prompts}) == len(prompts) == 424
    for prompt in prompts:
        subject, thing = re.fullmatch(r"The (\w+) will {mask} the (\w+)\.", prompt.text).groups()
        assert prompt.other == f"The {thing} will {{mask}} the {subject}."
        assert tuple(prompt.variants.values()) == (
            f"They will {{mask}} the {thing}.",
            f"The {subject} will {{mask}} them.",
        )
        (one,), (other,) = kinds[subject], kinds[thing]
        frames = [f for f in words.frames.items if f.verb.base.form == prompt.answer and f.pattern == "transitive"]
        assert any(one in frame.subjects and other in frame.objects for frame in frames)
        assert not any(other in frame.subjects and {one, subject} & {*frame.objects} for frame in frames)
