"""Proto-roles and hard pronouns of the pocket world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bertology.corpora import Sentence, Target
from bertology.pocket import load_corpus
from bertology.pocket._texts import derived, generate_corpus, pack, verb_classes
from bertology.pocket._words import lexicon

FINGERPRINT = "6272fbe333aeb2e061d5fbd373bdf001"
"""Of the corpus as it is released: what is stored for it holds as long as this does."""


def _all() -> Iterator[Sentence]:
    for sentences in load_corpus().splits.values():
        yield from sentences


def test_the_corpus_is_the_one_it_was():
    assert load_corpus().fingerprint == FINGERPRINT


def test_what_is_read_is_what_is_made_and_the_file_holds_none_of_it():
    made = generate_corpus(sizes={"dev": 40})
    assert any("proto_roles" in sentence.targets for sentence in made["dev"])
    bare = {name for sentence in made["dev"] for name in sentence.targets.keys() - sentence.derived}
    assert bare <= {"constituents", "entities", "srl", "coref", "relations"}
    assert pack(made) == pack(generate_corpus(sizes={"dev": 40}))
    assert {name for sentence in _all() for name in sentence.derived} == {"proto_roles", "winograd"}


def test_every_verb_has_one_class():
    lemmas = {frame.verb.lemma for reach in ("all", "unseen") for frame in lexicon(reach).frames.items}
    assert lemmas <= set(verb_classes())


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


def test_every_property_can_be_learnt():
    train = load_corpus()["train"]
    counts = Counter(label for s in train for t in s.targets.get("proto_roles", ()) for label in t.labels)
    assert len(counts) == 12
    assert min(counts.values()) >= 25


def test_hard_pronouns_come_in_pairs():
    found = dict.fromkeys(load_corpus().splits, 0)
    for split, sentences in load_corpus().splits.items():
        for sentence in sentences:
            targets = sentence.targets.get("winograd", ())
            by_pronoun: dict[object, list[Target]] = {}
            for target in targets:
                by_pronoun.setdefault(target.span2, []).append(target)
                assert target in sentence.targets["coref"]
                assert target.span2 is not None
                assert sentence.layers["upos"][target.span2[0]] == "PRON"
                assert target.span1[1] <= target.span2[0]
            for pair in by_pronoun.values():
                assert sorted(str(target.label) for target in pair) == ["0", "1"]
            found[split] += len(by_pronoun)
    assert found == {"train": 111, "dev": 21, "test": 37, "unseen": 13}


def test_a_rival_is_the_phrase_nearest_to_the_pronoun():
    pairs = (
        Target((0, 1), "1", (6, 7)),
        Target((2, 3), "0", (6, 7)),
        Target((4, 5), "0", (6, 7)),
        Target((5, 6), "0", (6, 7)),  # itself a pronoun
    )
    upos = ("PROPN", "VERB", "NOUN", "ADP", "NOUN", "PRON", "PRON")
    assert derived({"coref": pairs}, upos, upos)["winograd"] == (pairs[0], pairs[2])
    assert derived({"coref": pairs[1:]}, upos, upos) == {}
