"""Cloze items of the pocket world, whose truth is known: agreement, facts and their negations, and roles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import cycle, product

from bertology._names import by_key
from bertology.corpora.prompts import ClozeItem
from bertology.pocket import _function_words as fw
from bertology.pocket._words import PLURAL, SINGULAR, Agreement, Dice, Lexicon, Verb, lexicon
from bertology.pocket._world import Relation, candidates, facts

TEST_VERBS = ("see", "like", "watch", "run", "walk", "play", "want", "know", "say", "work", "talk", "dance")
"""Lexical verbs whose two present forms the test set compares; *be* and *have* come besides."""
_PREPOSITIONS = ("near", "behind", "beside")
_STRUCTURES = (
    *(("simple", 0), ("prepositional", 1), ("prepositional", 2), ("prepositional", 3)),
    *(("subject relative", 1), ("object relative", 1), ("subject relative", 2), ("object relative", 2)),
)
"""Constructions between subject and verb, each with the number of nouns of the other number in it."""


def tested_forms() -> list[str]:
    """Every verb form that is compared in the test set."""
    numbers = (SINGULAR, PLURAL)
    auxiliaries = [auxiliary.present[number].form for number in numbers for auxiliary in (fw.BE, fw.HAVE)]
    return auxiliaries + [v.present[number].form for v in lexicon("known").verbs(TEST_VERBS) for number in numbers]


def agreement_items(n_items: int = 600, *, seed: int = 0) -> tuple[ClozeItem, ...]:
    """A balanced test set of so many different items: both numbers, 0 to 3 attractors, four structures (``group``).

    The answer is the form of the verb that agrees with the subject, the rival that of the other number; ``blind`` lacks
    what tells the number. The variant ``singular`` or ``plural``, the text with its subject in the other number, calls
    for the rival; there is none where another verb agrees too.
    """
    dice, words = Dice(f"pocket agreement {seed}"), lexicon("known")
    items: dict[str, ClozeItem] = {}
    for (structure, n_attractors), subject in cycle(product(_STRUCTURES, (SINGULAR, PLURAL))):
        if len(items) == n_items:
            break
        item = _item(f"pocket-{len(items) + 1}", dice, words, structure, n_attractors, subject)
        items.setdefault(item.text, item)
    return tuple(items.values())


def _item(name: str, dice: Dice, words: Lexicon, structure: str, n_attractors: int, subject: Agreement) -> ClozeItem:
    other = PLURAL if subject == SINGULAR else SINGULAR
    kind = dice.one_of(("person", "animal"))
    opening, in_other = _noun_phrases(dice, words, kind, subject)
    between = hidden = _prepositional(dice, words, other, n_attractors) if structure == "prepositional" else ""
    if structure.endswith("relative"):
        verb = dice.one_of(words.verbs(("see", "like", "watch", "help", "follow", "fear")))
        relative = dice.one_of(("that", "who" if kind == "person" else "which"))
        attractor = _noun_phrases(dice, words, "person", other)[0]
        attractor += _prepositional(dice, words, other, n_attractors - 1)
        between = hidden = f" {relative} {attractor} {verb.present[other].form}"
        if structure == "subject relative":
            between, hidden = (f" {relative} {form} {attractor}" for form in (verb.present[subject].form, "{mask}"))
    good, bad, rest = _verb_and_rest(dice, words, subject, other)
    before = opening.rpartition(" ")[0]
    starts = opening + between, f"{before} {{mask}}{hidden}", in_other + between
    text, blind, exchanged = (f"{start[0].upper()}{start[1:]} {{mask}} {rest}." for start in starts)
    # The verb of a subject relative clause has the number of the subject as well.
    variants = {} if structure == "subject relative" else {"singular" if subject == PLURAL else "plural": exchanged}
    return ClozeItem(
        name, name, structure, text, good, rivals=(bad,), blind=blind, variants=variants, n_attractors=n_attractors
    )


def _prepositional(dice: Dice, words: Lexicon, agreement: Agreement, number: int) -> str:
    kinds = ("person", "place", "animal")
    return "".join(
        f" {dice.one_of(_PREPOSITIONS)} {_noun_phrases(dice, words, dice.one_of(kinds), agreement)[0]}"
        for _ in range(number)
    )


def _noun_phrases(dice: Dice, words: Lexicon, kind: str, agreement: Agreement) -> tuple[str, str]:
    """A noun phrase in one number, and in the other."""
    while True:
        noun = dice.choose(words.nouns[kind])
        if noun.plural and noun.plural.form != noun.singular.form:
            break
    forms = noun.singular.form, noun.plural.form
    adjective = f"{dice.choose(words.adjectives).form} " if dice.chance(0.25) else ""
    form, other = reversed(forms) if agreement == PLURAL else forms
    return f"the {adjective}{form}", f"the {adjective}{other}"


def _verb_and_rest(dice: Dice, words: Lexicon, subject: Agreement, other: Agreement) -> tuple[str, str, str]:
    share = dice.below(4)
    if share == 0:
        return fw.BE.present[subject].form, fw.BE.present[other].form, dice.choose(words.adjectives).form
    if share == 1:
        verb: Verb = dice.one_of(words.verbs(("see", "like", "watch")))
        return fw.HAVE.present[subject].form, fw.HAVE.present[other].form, f"{verb.participle.form} the dog"
    verb = dice.one_of(words.verbs(TEST_VERBS))
    rest = {
        "see": "the dog", "like": "the song", "watch": "the game", "want": "the book", "know": "the story",
        "say": "that the dog runs", "work": "well", "talk": "about the king", "dance": "slowly", "walk": "to the park",
        "run": "to the house", "play": "outside",
    }[verb.lemma]  # fmt: skip
    return verb.present[subject].form, verb.present[other].form, rest


_COPULAR: dict[Relation, int] = {"lives_in": 1, "born_in": 0, "works_as": 1, "capital_of": 0}
"""Number of the template of each relation that has *is* or *was*, which takes *not* with no other change."""
_KINDS = ("person", "animal", "food", "stuff", "object", "tool", "place", "plant", "event")
_SENTENCES_OF_A_VERB = 4


def fact_prompts(*, least_stated: int = 16) -> tuple[ClozeItem, ...]:
    """Facts that at least ``least_stated`` sentences of the pretraining text state; ``other`` is the negation.

    The answer makes *The home of Anna is in {mask}.* true; the rival, another object drawn at random, the negation.
    """
    dice = Dice("pocket negations")
    prompts = list[ClozeItem]()
    for fact in facts():
        rival = dice.one_of([name for name in candidates(fact.relation) if name != fact.object])
        if fact.n_stated >= least_stated:
            text = fact.templates[_COPULAR[fact.relation]].replace("[X]", fact.subject).replace("[Y]", "{mask}")
            copula = " was " if " was " in text else " is "
            name, negated = f"fact-{len(prompts) + 1}", text.replace(copula, f"{copula}not ", 1)
            item = ClozeItem(name, name, "facts", text, fact.object, rivals=(rival,), other=negated)
            prompts.append(replace(item, subject=fact.subject, kind=fact.relation))
    return tuple(prompts)


def role_prompts() -> tuple[ClozeItem, ...]:
    """Sentences whose two roles cannot be exchanged: four for every verb of the grammar that has such.

    ``other`` has the roles reversed: *The bread will {mask} the woman.* Variants have a pronoun for the subject
    (``no_subject``: *They will {mask} the bread.*) or the object (``no_object``).

    A verb is taken with a kind of subject and a kind of object if no frame of it allows these kinds the other way
    about. Nouns that belong to several kinds are not used.
    """
    words, dice = lexicon("known"), Dice("pocket roles")
    counts = Counter(noun.lemma for kind in _KINDS for noun in words.nouns[kind].items)
    nouns = {kind: [noun for noun in words.nouns[kind].items if counts[noun.lemma] == 1] for kind in _KINDS}
    prompts: dict[str, ClozeItem] = {}
    transitive = (frame for frame in words.frames.items if frame.pattern == "transitive")
    for frames in by_key((frame.verb.lemma, frame) for frame in transitive).values():
        pairs = {(one, other) for frame in frames for one in frame.subjects for other in frame.objects}
        kinds = {pair for pair in pairs if {*pair} <= {*_KINDS} and pair[::-1] not in pairs}
        subjects = [(kind, noun) for kind in sorted({one for one, _ in kinds}) for noun in nouns[kind]]
        verb, before = frames[0].verb, len(prompts)
        for _ in range(20 * _SENTENCES_OF_A_VERB) if subjects else ():
            kind, subject = dice.one_of(subjects)
            target = dice.one_of(sorted(other for one, other in kinds if one == kind))
            one, other = (f"the {noun.singular.form}" for noun in (subject, dice.one_of(nouns[target])))
            name, form, opening = f"role-{len(prompts) + 1}", verb.base.form, f"{one.capitalize()} will {{mask}}"
            text, turned = f"{opening} {other}.", f"{other.capitalize()} will {{mask}} {one}."
            without = {"no_subject": f"They will {{mask}} {other}.", "no_object": f"{opening} them."}
            item = ClozeItem(name, form, "role reversal", text, form, other=turned, variants=without)
            prompts.setdefault(text + verb.lemma, item)
            if len(prompts) - before == _SENTENCES_OF_A_VERB:
                break
    return tuple(prompts.values())


@dataclass(frozen=True)
class TruthItem:
    """A text whose decision is known to depend on one property, and not on another one that is there as well."""

    text: str
    cause: str
    """The text with the cause exchanged, which calls for ``bad``."""
    unused: str
    """The text with the property exchanged that decides nothing."""
    good: str
    """The word at the mask, or the label, that the text calls for."""
    bad: str
    values: tuple[str, ...]
    """Value of the cause in the text and in ``cause``, then of the unused property in the text and in ``unused``."""
    cluster: str


TRUTHS = ("agreement", "facts", "tense", "shortcut")
"""Decisions with a known cause: by the grammar and the facts at a mask; by labels in the others."""


def truth_items(of: str, n_items: int = 200, *, seed: int = 0) -> tuple[TruthItem, ...]:
    """Different texts with a known cause and a property that is not used; each word is exchanged for one other.

    - ``agreement``: the verb at the mask agrees with the subject; the number of the noun before it is independent.
    - ``facts``: the object at the mask is that of the subject; another person is spoken of in the sentence before.
    - ``tense``: the label is the tense of the verb; whether *here* or *there* follows is independent of it.
    - ``shortcut``: the label is 1 with a probability of 0.9 where the text ends in *today*, else with 0.1, whatever the
      sentence is; whether *here* or *there* comes before is independent. ``good`` is the label that the word calls for.
    """
    dice, words = Dice(f"pocket truth {of} {seed}"), lexicon("known")
    lives = [fact for fact in facts() if fact.relation == "lives_in" and fact.n_stated]
    items: dict[str, TruthItem] = {}
    while len(items) < n_items:
        both = (SINGULAR, PLURAL)
        one, of_near = dice.one_of(both), dice.one_of(both)
        subject, in_other = _noun_phrases(dice, words, dice.one_of(("person", "animal")), one)
        if of == "agreement":
            other = PLURAL if one == SINGULAR else SINGULAR
            good, bad, rest = _verb_and_rest(dice, words, one, other)
            pattern = f"{{subject}} {dice.one_of(_PREPOSITIONS)} {{near}} [MASK] {rest}."
            ways = {"subject": (subject, in_other), "near": _noun_phrases(dice, words, "animal", of_near)}
            numbers = [("singular", "plural")[:: 1 if each == SINGULAR else -1] for each in (one, of_near)]
            values = (*numbers[0], *numbers[1])
        elif of == "facts":
            known, another, first, second = (dice.one_of(lives) for _ in range(4))
            is_one_person = len({fact.subject for fact in (known, another, first, second)}) < 4
            if is_one_person or known.object == another.object or first.object == second.object:
                continue
            good, bad, pattern = known.object, another.object, "{near} runs. {subject} lives in [MASK]."
            ways = {"subject": (known.subject, another.subject), "near": (first.subject, second.subject)}
            values = known.object, another.object, first.object, second.object
        else:
            verb = dice.one_of(words.verbs(TEST_VERBS))
            is_past, there = dice.below(2), dice.below(2)
            forms = verb.past[one].form, verb.present[one].form
            places, days = ("here", "there"), ("today", "yesterday")
            place = places if there else places[::-1]
            day = days if dice.below(2) else days[::-1]
            if of == "tense":
                good, bad = ("past", "present") if is_past else ("present", "past")
                ways = {"subject": forms if is_past else forms[::-1], "near": place}
                pattern, values = f"{subject} {{subject}} {{near}}.", (good, bad, place[0], place[1])
            else:
                good, bad = ("1", "0") if day[0] == "today" else ("0", "1")
                ways = {"subject": day, "near": place}
                values = (day[0], day[1], place[0], place[1])
                pattern = f"{subject} {dice.one_of(forms)} {{near}} {{subject}}."
        texts = [pattern.format(subject=ways["subject"][a], near=ways["near"][b]) for a, b in ((0, 0), (1, 0), (0, 1))]
        text, cause, unused = (text[0].upper() + text[1:] for text in texts)
        items.setdefault(text, TruthItem(text, cause, unused, good, bad, values, f"{of}-{len(items)}"))
    return tuple(items.values())
