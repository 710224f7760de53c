"""Prompts about the pocket world: what they say is so, is so."""

from __future__ import annotations

import re

from bertology.pocket import candidates, fact_prompts, facts, role_prompts
from bertology.pocket._words import lexicon


def test_facts_and_their_negations():
    prompts = fact_prompts()
    assert len(prompts) == sum(fact.n_stated >= 16 for fact in facts()) == 99
    stated = {(fact.relation, fact.subject, fact.object) for fact in facts()}
    for prompt in prompts:
        fact = prompt.fact
        assert prompt.text.replace("{mask}", fact.object) in {fact.sentence(n) for n in range(len(fact.templates))}
        assert re.sub(r"(is|was) not", r"\1", prompt.negated) == prompt.text
        assert prompt.rival in candidates(fact.relation)
        assert (fact.relation, fact.subject, prompt.rival) not in stated
    assert fact_prompts(least_stated=0)[0].rival == next(p.rival for p in prompts if p.fact == facts()[0])


def test_no_frame_allows_the_roles_the_other_way_about():
    words = lexicon("known")
    kinds = {}
    for kind in ("person", "animal", "food", "stuff", "object", "tool", "place", "plant", "event"):
        for noun in words.nouns[kind].items:
            kinds.setdefault(noun.lemma, set()).add(kind)
    prompts = role_prompts()
    assert len({prompt.text + prompt.verb for prompt in prompts}) == len(prompts) == 424
    for prompt in prompts:
        subject, thing = re.fullmatch(r"The (\w+) will {mask} the (\w+)\.", prompt.text).groups()
        assert prompt.reversed == f"The {thing} will {{mask}} the {subject}."
        assert (prompt.without_subject, prompt.without_object) == (
            f"They will {{mask}} the {thing}.",
            f"The {subject} will {{mask}} them.",
        )
        (one,), (other,) = kinds[subject], kinds[thing]
        frames = [f for f in words.frames.items if f.verb.base.form == prompt.verb and f.pattern == "transitive"]
        assert any(one in frame.subjects and other in frame.objects for frame in frames)
        assert not any(other in frame.subjects and {one, subject} & {*frame.objects} for frame in frames)
