"""Facts: which word does the model put where the object of a fact is left out?

``lama`` is the probe of Petroni et al. (2019), *Language Models as Knowledge Bases?*: facts of T-REx and Google-RE put
into one template a relation, and the sentences of SQuAD and ConceptNet. Four others ask how firm such knowledge is:

- ``lama:uhn``: how much of it is no more than a guess from a name? Poerner et al. (2020), *E-BERT: Efficient-Yet-
  Effective Entity Embeddings for BERT*, §3 (LAMA-UHN): the same facts, scored without those whose object is part of the
  subject's name, and those about a person whose object is among the model's first three words for a part of the name:
  *Jean is a common name in the following language:* (city, country). ``p_at_1`` is of the facts that are left,
  ``p_at_1 all`` of all, and ``p_at_1 lost`` the difference, with an interval over the same subjects. What a filter
  leaves out are groups of their own. The authors asked one model, BERT-base cased; here the model in question is asked.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertology import cloze, encoders, pocket
from bertology.cloze import MASK, ClozeItem, ClozeItems, ClozeProbe, Prompt
from bertology.cloze.probes import with_ignored
from bertology.corpora.prompts.lama import read_lama, read_pararel, read_primed
from bertology.measures import Metric, find_metric
from bertology.measures.metrics import mean_over_groups
from bertology.probing import LeftOut, ProbeFamily

_BY_TYPE = tuple(
    mean_over_groups(
        f"p_at_1 {kind}",
        f"share of answers that are predicted first, mean over {kind} relations",
        of=find_metric("p_at_1"),
        which=lambda group, kind=kind: group.startswith(f"{kind} "),  # type: ignore[misc]
    )
    for kind in ("1-1", "N-1", "N-M")
)
"""Numbers of subjects for an object, and of objects for a subject (Petroni et al., table 2)."""


@dataclass(frozen=True)
class Lama(ClozeProbe):
    """Which word completes a fact?"""

    task = "lama"
    reference = "Petroni et al. 2019"
    asks = "answers"
    metrics = ("p_at_1", "p_at_10", "mrr", "micro_p_at_1", *_BY_TYPE)

    def items(self, source: str) -> ClozeItems:
        """Every fact, by relation; of the pocket world by how often it is stated.

        Facts about one subject are one cluster: what a name alone gives away (Poerner et al. 2020), it gives to all.
        Where a subject has several objects, the others take no place before the one that is asked for (Petroni et al.,
        section 4.4).
        """
        if source == "pocket":
            pairs = sorted(zip(pocket_facts(), pocket.facts(), strict=True), key=lambda pair: pair[1].n_stated)
            times = ((item, fact.n_stated) for item, fact in pairs)
            exposed = (replace(item, group=f"stated {n} time{'' if n == 1 else 's'}") for item, n in times)
            return ClozeItems.of(exposed, clusters="subjects")
        found, unasked = read_lama(source)
        return ClozeItems.of([*with_ignored(found), *unasked], clusters="subjects")


_GUESSABLE = {
    **dict.fromkeys(("place_of_birth", "place_of_death", "P19", "P20"), "city"),
    **{"P27": "country", "P1412": "language", "P103": "language"},
}
"""Relations of persons whose objects a name may give away, and the kind of the objects."""
_FIRST = 3  # of the model's words for a name
_LEFT_OUT = (", object in the subject", ", guessed from the name")
"""Ends of the names of groups that the filters leave out."""
_P_AT_1 = find_metric("p_at_1")


def _is_kept(group: str) -> bool:
    return not group.endswith(_LEFT_OUT)


def _of_kept(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.float64]:
    """P@1 over the groups that no filter leaves out; of such a group alone its own."""
    kept = [number for number, label in enumerate(labels) if _is_kept(label)]
    return _P_AT_1(counts[..., kept or range(len(labels)), :])


def _of_all(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.float64]:
    """P@1 with the facts that filters leave out in the groups that they belong to."""
    whole = [label.removesuffix(next(filter(label.endswith, _LEFT_OUT), "")) for label in labels]
    places = ([number for number, one in enumerate(whole) if one == group] for group in dict.fromkeys(whole))
    return _P_AT_1(np.stack([counts[..., some, :].sum(axis=-2) for some in places], axis=-2))


def _lost(counts: NDArray[Any], labels: Sequence[str]) -> NDArray[np.float64]:
    return _of_all(counts, labels) - _of_kept(counts, labels)


_WITHOUT, _ALL = "share of answers predicted first, without guessable facts", "the same share, of all facts"


@dataclass(frozen=True)
class Unguessed(Lama):
    """Which word completes a fact that the subject's name does not give away?"""

    task = "lama:uhn"
    reference = "Poerner et al. 2020"
    metrics = (
        Metric("p_at_1", True, _WITHOUT, _of_kept, "answers", _is_kept),
        Metric("p_at_1 lost", True, f"{_ALL}, minus that without guessable ones", _lost, "answers", bounds="none"),
        Metric("p_at_1 all", True, _ALL, _of_all, "answers"),
    )
    baselines = ()
    most_draws = 1

    def regrouped(self, items: ClozeItems, encoder: "encoders.Encoder") -> ClozeItems:
        """Facts that a filter leaves out in groups of their own; the name is asked about those that the first keeps."""
        is_part = [bool(item.subject) and item.answer.lower() in item.subject.lower() for item in items.items]
        prompts, owners = list[Prompt](), list[int]()
        for number, item in enumerate(items.items):
            kind = "" if is_part[number] else _GUESSABLE.get(item.id.partition(":")[0], "")
            for name in item.subject.split() if kind else ():
                text = f"{name} is a common name in the following {kind}: {MASK}."
                prompts.append(Prompt(text, (item.answer,)))
                owners.append(number)
        from_left = encoder.causal_head is not None
        scores = cloze.ask(encoder, prompts, ranks=True, left_alone=from_left) if prompts else None
        ranks = () if scores is None else (int(scores.ranks_of(number)[0, 0]) for number in range(len(prompts)))
        guessed = {owner for owner, rank in zip(owners, ranks, strict=True) if 0 < rank <= _FIRST}
        ends = [_LEFT_OUT[0] if part else _LEFT_OUT[1] if n in guessed else "" for n, part in enumerate(is_part)]
        marked = (replace(item, group=item.group + end) for item, end in zip(items.items, ends, strict=True))
        return replace(items, items=tuple(marked))


@dataclass(frozen=True)
class Paraphrases(ClozeProbe):
    """Is a fact completed by the same word, however it is put?"""

    task = "lama:paraphrases"
    reference = "Elazar et al. 2021b"
    asks = "answers"
    metrics = ("consistency", "p_at_1", "all_right")

    def items(self, source: str) -> ClozeItems:
        """Every fact in every pattern of its relation, a fact a cluster; answers are among the relation's objects."""
        found, unasked = (pocket_facts(), ()) if source == "pocket" else read_pararel(source)
        # No blind text: patterns that begin with the object have none, and items of a fact are compared as a whole.
        items = (
            ClozeItem(f"{fact.id}:{number}", fact.id, fact.group, text, answer=fact.answer)
            for fact in found
            for number, text in fact.variants.items()
        )
        if source == "pocket":
            vocabularies = {
                fact.relation.replace("_", " "): pocket.candidates(fact.relation) for fact in pocket.facts()
            }
        else:
            objects = dict.fromkeys((fact.group, fact.answer) for fact in found)
            groups = dict.fromkeys(group for group, _ in objects)
            vocabularies = {one: tuple(word for group, word in objects if group == one) for one in groups}
        return ClozeItems.of([*items, *unasked], vocabularies=vocabularies, clusters="facts")


@dataclass(frozen=True)
class Negated(ClozeProbe):
    """Does another word complete a fact when it is negated?"""

    task = "lama:negated"
    reference = "Kassner & Schütze 2020"
    asks = "changes"
    metrics = ("moved", "probability_lost")

    def items(self, source: str) -> ClozeItems:
        """Every fact and its negation, by relation, facts about one subject a cluster."""
        if source == "pocket":
            worded = (
                ClozeItem(f"{fact.id}:{n}", fact.cluster, fact.group, text, other=_not(text))
                for fact in pocket_facts()
                for n, text in fact.variants.items()
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
    """Is a fact completed rightly after a wrong word and a question mark?"""

    task = "lama:misprimed"
    reference = "Kassner & Schütze 2020"
    asks = "answers"
    metrics = ("p_at_1", "micro_p_at_1")

    def items(self, source: str) -> ClozeItems:
        """Every fact as it is and after each word that misleads, a fact a cluster.

        Relations, some of three facts, are taken together by set: what is compared is ``plain`` with ``misprimed``.
        """
        found, unasked = _pocket_primed() if source == "pocket" else read_primed(source)
        kinds = dict.fromkeys((fact.kind, prime) for fact in found for prime in fact.variants)
        primes = {one: tuple(prime for kind, prime in kinds if kind == one) for one, _ in kinds}
        asked = (one for fact in found for one in _with_primes(fact, primes.get(fact.kind, ())))
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


def pocket_facts() -> tuple[ClozeItem, ...]:
    """The facts of the pocket world; their variants are all their templates, by number."""
    found = []
    for fact in pocket.facts():
        texts = [one.replace("[X]", fact.subject).replace("[Y]", MASK) for one in fact.templates]
        blind, group = fact.templates[0].replace("[X]", MASK).replace("[Y]", MASK), fact.relation.replace("_", " ")
        item = ClozeItem(f"{fact.relation}:{fact.subject}", fact.subject, group, texts[0], fact.object, blind=blind)
        found.append(replace(item, kind=group, variants={str(n): text for n, text in enumerate(texts, 1)}))
    return tuple(found)


def _pocket_primed() -> tuple[tuple[ClozeItem, ...], tuple[LeftOut, ...]]:
    """The stated facts, each with a wrong object of its relation before it, another one from fact to fact."""
    primed, never = list[ClozeItem](), list[LeftOut]()
    for item, fact in zip(pocket_facts(), pocket.facts(), strict=True):
        if not fact.n_stated:
            never.append(LeftOut(item.id, f"{item.group} plain", "never stated in the training text"))
            continue
        wrong = [word for word in pocket.candidates(fact.relation) if word != fact.object]
        prime = wrong[len(primed) % len(wrong)]
        primed.append(replace(item, variants={"": f"{prime[0].upper()}{prime[1:]}? {item.text}"}))
    return tuple(primed), tuple(never)


def _not(text: str) -> str:
    """A text negated in words that the pocket world has: *is not*, *was not*, *never lives*."""
    negated, copulas = re.subn(r"\b(is|was)\b", r"\1 not", text, count=1)
    return negated if copulas else re.sub(r"\b(lives|comes|works|rules)\b", r"never \1", text, count=1)


PROBE = ProbeFamily.among(
    [Paraphrases(), Negated(), Misprimed(), Unguessed()], argument="way of asking", default=Lama()
)
