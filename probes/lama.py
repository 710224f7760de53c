"""Facts: which word does the model put where the object of a fact is left out?

``lama`` is the probe of Petroni et al. (2019), *Language Models as Knowledge Bases?*: facts of T-REx and Google-RE put
into one template a relation, and the sentences of SQuAD and ConceptNet. Three others ask how firm such knowledge is:

- ``lama:paraphrases``: is the answer the same in other words? ParaRel, Elazar et al. (2021), *Measuring and Improving
  Consistency in Pretrained Language Models*. As there, answers are chosen among all objects of the relation.
- ``lama:negated``: does the best word change when the sentence is negated? Kassner & Schütze (2020), *Negated and
  Misprimed Probes for Pretrained Language Models*.
- ``lama:misprimed``: is the answer still found after a wrong one and a question mark? From the same paper. Its facts
  are those that one model knew: compare the groups, do not take ``plain`` for a score on all facts.

In the pocket world it is known how often the training text states each fact: the groups of ``lama`` are these numbers,
so that its table is recall by exposure. What is never stated cannot be known.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertology import pocket
from bertology.cloze import MASK, ClozeItem, ClozeItems, ClozeProbe
from bertology.cloze.probes import with_ignored
from bertology.corpora.prompts.lama import read_lama, read_pararel, read_primed
from bertology.measures import find_metric
from bertology.measures.metrics import mean_over_groups
from bertology.probing import LeftOut, ProbeFamily

if TYPE_CHECKING:
    from bertology.pocket import Fact

_POCKET = "pocket"
_BY_TYPE = tuple(
    mean_over_groups(
        f"p_at_1 {kind}",
        f"share of answers that come first, its mean over {kind} relations",
        of=find_metric("p_at_1"),
        which=lambda group, kind=kind: group.startswith(f"{kind} "),  # type: ignore[misc]
    )
    for kind in ("1-1", "N-1", "N-M")
)
"""Numbers of subjects for an object, and of objects for a subject (Petroni et al., table 2)."""
_NEVER_STATED = "never stated in the training text"


@dataclass(frozen=True)
class Lama(ClozeProbe):
    """Which word completes a fact?"""

    task = "lama"
    question = "Which word completes a fact?"
    reference = "Petroni et al. 2019"
    asks = "answers"
    metrics = ("p_at_1", "p_at_10", "mrr", "micro_p_at_1", *_BY_TYPE)

    def items(self, source: str) -> ClozeItems:
        """Every fact, by relation; of the pocket world by how often it is stated.

        Facts about one subject are one cluster: what a name alone gives away (Poerner et al. 2020), it gives to all.
        Where a subject has several objects, the others take no place before the one that is asked for (Petroni et al.,
        section 4.4).
        """
        if source == _POCKET:
            return ClozeItems.of(_by_exposure(), clusters="subjects")
        found, unasked = read_lama(source)
        return ClozeItems.of([*with_ignored(found), *unasked], clusters="subjects")


@dataclass(frozen=True)
class Paraphrases(ClozeProbe):
    """Is a fact completed alike, however it is put?"""

    task = "lama:paraphrases"
    question = "Is a fact completed by the same word, however it is put?"
    reference = "Elazar et al. 2021"
    asks = "answers"
    metrics = ("consistency", "p_at_1", "all_right")

    def items(self, source: str) -> ClozeItems:
        """Every fact in every pattern of its relation, a fact a cluster; answers are among the relation's objects."""
        if source == _POCKET:
            worded = (
                ClozeItem(f"{_name(fact)}:{n}", _name(fact), _group(fact), _put(template, fact), answer=fact.object)
                for fact, n, template in _templates()
            )
            words = {_group(fact): pocket.candidates(fact.relation) for fact in pocket.facts()}
            return ClozeItems.of(worded, vocabularies=words, clusters="facts")
        found, unasked = read_pararel(source)
        # No blind text: patterns that begin with the object have none, and items of a fact are compared as a whole.
        items = (
            ClozeItem(f"{fact.id}:{number}", fact.id, fact.group, text, answer=fact.answer)
            for fact in found
            for number, text in fact.variants.items()
        )
        objects: dict[str, dict[str, None]] = {}
        for fact in found:
            objects.setdefault(fact.group, {})[fact.answer] = None
        vocabularies = {relation: tuple(words) for relation, words in objects.items()}
        return ClozeItems.of([*items, *unasked], vocabularies=vocabularies, clusters="facts")


@dataclass(frozen=True)
class Negated(ClozeProbe):
    """Does another word complete a fact when it is negated?"""

    task = "lama:negated"
    question = "Does another word complete a fact when it is negated?"
    reference = "Kassner & Schütze 2020"
    asks = "changes"
    metrics = ("moved", "probability_lost")

    def items(self, source: str) -> ClozeItems:
        """Every fact and its negation, by relation, facts about one subject a cluster."""
        if source == _POCKET:
            texts = ((fact, n, _put(template, fact), _put(_not(template), fact)) for fact, n, template in _templates())
            worded = (
                ClozeItem(f"{_name(fact)}:{n}", fact.subject, _group(fact), text, other=negated)
                for fact, n, text, negated in texts
            )
            return ClozeItems.of(worded, clusters="subjects")
        found, unasked = read_primed(source)
        return ClozeItems.of([*unasked, *map(_negation, found)], clusters="subjects")


def _negation(fact: ClozeItem) -> ClozeItem | LeftOut:
    if not fact.other:
        return LeftOut(fact.id, fact.group, "no negation in the source")
    if fact.other == fact.text:
        return LeftOut(fact.id, fact.group, "negation that is the sentence itself")
    return ClozeItem(fact.id, fact.cluster, fact.group, fact.text, other=fact.other)


@dataclass(frozen=True)
class Misprimed(ClozeProbe):
    """Is a fact completed rightly after a wrong word?"""

    task = "lama:misprimed"
    question = "Is a fact completed rightly after a wrong word and a question mark?"
    reference = "Kassner & Schütze 2020"
    asks = "answers"
    metrics = ("p_at_1", "micro_p_at_1")

    def items(self, source: str) -> ClozeItems:
        """Every fact as it is and after each word that misleads, a fact a cluster.

        Relations, some of three facts, are taken together by set: what is compared is ``plain`` with ``misprimed``.
        """
        if source == _POCKET:
            stated = [fact for fact in pocket.facts() if fact.n_stated]
            pairs = (item for number, fact in enumerate(stated) for item in _pocket_pair(fact, number))
            never = (
                LeftOut(_name(fact), f"{_group(fact)} plain", _NEVER_STATED)
                for fact in pocket.facts()
                if not fact.n_stated
            )
            return ClozeItems.of([*pairs, *never], clusters="facts")
        found, unasked = read_primed(source)
        kinds: dict[str, dict[str, None]] = {}
        for fact in found:
            kinds.setdefault(fact.kind, {}).update(dict.fromkeys(fact.variants))
        asked = (one for fact in found for one in _with_primes(fact, tuple(kinds[fact.kind])))
        return ClozeItems.of([*unasked, *asked], clusters="facts")


def _with_primes(fact: ClozeItem, kinds: tuple[str, ...]) -> Iterator[ClozeItem | LeftOut]:
    """A fact as it is, and after each kind of prime that its set has."""
    yield ClozeItem(f"{fact.id}:plain", fact.id, f"{fact.kind} plain", fact.text, answer=fact.answer)
    for kind in kinds:
        name, group = f"{fact.id}:{kind or 'misprimed'}", f"{fact.kind} misprimed {kind}".strip()
        text = fact.variants.get(kind, "")
        if not text:
            yield LeftOut(name, group, "no such prime in the source")
        elif text.partition("?")[0].strip().lower() == fact.answer.lower():
            yield LeftOut(name, group, "prime that is the answer")
        else:
            yield ClozeItem(name, fact.id, group, text, answer=fact.answer)


# The pocket world.


def _templates() -> Iterator[tuple["Fact", int, str]]:
    """Every fact with each template, and the template's number from 1."""
    return ((fact, n, template) for fact in pocket.facts() for n, template in enumerate(fact.templates, 1))


def _by_exposure() -> Iterator[ClozeItem]:
    """The facts of the pocket world from those never stated to those stated most."""
    for fact in sorted(pocket.facts(), key=lambda fact: fact.n_stated):
        group = f"stated {fact.n_stated} time{'' if fact.n_stated == 1 else 's'}"
        template = fact.templates[0]
        blind = template.replace("[X]", MASK).replace("[Y]", MASK)
        yield ClozeItem(_name(fact), fact.subject, group, _put(template, fact), answer=fact.object, blind=blind)


def _pocket_pair(fact: "Fact", number: int) -> tuple[ClozeItem, ClozeItem]:
    """A fact as it is, and after a wrong object of its relation, another one from fact to fact."""
    wrong = [word for word in pocket.candidates(fact.relation) if word != fact.object]
    prime, text = wrong[number % len(wrong)], _put(fact.templates[0], fact)
    primed = f"{prime[0].upper()}{prime[1:]}? {text}"
    return (
        ClozeItem(f"{_name(fact)}:plain", _name(fact), f"{_group(fact)} plain", text, answer=fact.object),
        ClozeItem(f"{_name(fact)}:misprimed", _name(fact), f"{_group(fact)} misprimed", primed, answer=fact.object),
    )


def _not(template: str) -> str:
    """A template negated in words that the pocket world has: *is not*, *was not*, *never lives*."""
    negated, copulas = re.subn(r"\b(is|was)\b", r"\1 not", template, count=1)
    return negated if copulas else re.sub(r"\b(lives|comes|works|rules)\b", r"never \1", template, count=1)


def _put(template: str, fact: "Fact") -> str:
    return template.replace("[X]", fact.subject).replace("[Y]", MASK)


def _name(fact: "Fact") -> str:
    return f"{fact.relation}:{fact.subject}"


def _group(fact: "Fact") -> str:
    return fact.relation.replace("_", " ")


PROBE = ProbeFamily.among([Paraphrases(), Negated(), Misprimed()], argument="way of asking", default=Lama())
