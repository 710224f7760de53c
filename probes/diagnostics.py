"""Psycholinguistic diagnostics: common sense, who did what to whom, negation, and what moves a prediction.

After Ettinger (2020), *What BERT Is Not: Lessons from a New Suite of Psycholinguistic Diagnostics for Language
Models*: CPRAG-102, ROLE-88 and NEG-136 with her measures (§5), and changes of their contexts (§6, §7): words are
shuffled (five times a context rather than once, so that the mean hangs less on chance), the context is cut short, a
role is taken out, a sentence is negated. NEG-136 is not shuffled or cut short: of *A robin is a* too little is left. As
there, a full stop follows the word that is asked for. Words of NEG-136-SIMP that take different articles (*an insect*,
*a vegetable*) are asked for after their own.

On ``pocket`` the pocket world gives facts and their negations, and verbs whose roles cannot be exchanged.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from bertology import pocket
from bertology.cloze import ClozeItem, ClozeItems, ClozeProbe
from bertology.cloze.probes import ClozeAsks
from bertology.corpora.prompts.sets import (
    Diagnostics,
    NegationItem,
    PragmaticItem,
    read_diagnostics,
    shuffled_words,
    with_article,
)
from bertology.errors import CorpusError
from bertology.probing import LeftOut, ProbeFamily

_CHOICE = ("choice_accuracy", "sensitivity", "micro_choice_accuracy")
_CHANGE = ("moved", "probability_lost")
_SHUFFLES = 5
_KEPT = 2
"""Words before the mask that are left of a context that is cut short."""
_ROLES = re.compile(r"\bwhich (?P<object>.+) the (?P<subject>.+) had$")
_CPRAG, _ROLE, _FACTS, _VERBS = "CPRAG-102", "ROLE-88", "facts", "verbs"
_NO_ROLES = "its form is not 'which … the … had'"
_Found = Iterator[ClozeItem | LeftOut]


@dataclass(frozen=True)
class _Kind:
    """One of the diagnostics, or one way of changing a context."""

    question: str
    asks: ClozeAsks
    metrics: tuple[str, ...]
    needs: str
    """Name of the set that the question is about."""
    of_sets: Callable[[Diagnostics], _Found]
    of_pocket: Callable[[], _Found] | None = None
    clusters: str = "contexts"
    """Name of the clusters of a published set."""


def _cprag(sets: Diagnostics) -> _Found:
    """The expected word against that of its own and that of another category; the last sentence alone is blind."""
    for item, cluster in zip(sets.pragmatic, _sharing_words(sets.pragmatic), strict=True):
        rivals, group = (item.within_category, item.between_category), f"{item.constraint} constraint"
        text, blind = f"{item.first} {item.second} {{mask}}.", f"{item.second} {{mask}}."
        yield ClozeItem(f"cprag-{item.id}", cluster, group, text, item.expected, rivals=rivals, blind=blind)


def _sharing_words(items: Sequence[PragmaticItem]) -> list[str]:
    """A cluster for each item: those that ask about one word, directly or by others between them, are one draw.

    In this set what is expected of one item is what is wrong in the next (*chess*, *monopoly*, *football*).
    """
    found: list[tuple[set[str], list[int]]] = []
    for place, item in enumerate(items):
        words, places = {item.expected, item.within_category, item.between_category}, [place]
        for other in [other for other in found if other[0] & words]:
            found.remove(other)
            words, places = words | other[0], other[1] + places
        found.append((words, places))
    cluster = {place: f"cprag-{items[min(places)].id}" for _, places in found for place in places}
    return [cluster[place] for place in range(len(items))]


def _role(sets: Diagnostics) -> _Found:
    """The target where the roles fit it, against the same words with the roles reversed."""
    by_id = {item.id: item for item in sets.roles}
    for item in sets.roles:
        partner = f"{item.pair}-{'a' if item.reversed else 'b'}"
        if partner not in by_id:
            yield LeftOut(f"role-{item.id}", "role reversal", "no item with the roles the other way about")
        elif not item.reversed:
            name, other = f"role-{item.pair}", f"{by_id[partner].context} {{mask}}."
            yield ClozeItem(name, name, "role reversal", f"{item.context} {{mask}}.", item.target, other=other)


def _role_words(sets: Diagnostics) -> _Found:
    """Words that people said most often; for a verb with its particle (*worked for*) the verb, as there is one mask."""
    for item in sets.roles:
        first, *others = (word.split()[0] for word in item.expected)
        group = "roles reversed" if item.reversed else "roles that fit"
        blind = f"{_without_object(_without_subject(item.context))} {{mask}}."
        text, accepted = f"{item.context} {{mask}}.", tuple(dict.fromkeys(others))
        yield ClozeItem(f"role-{item.id}", f"role-{item.pair}", group, text, first, accepted=accepted, blind=blind)


def _negation(sets: Diagnostics) -> _Found:
    """True against false completions, affirmed and negated. Items about the same words are one cluster."""
    for item in sets.negation:
        words = {item.true_if_affirmative, *(() if item.licensed is None else (item.true_if_negated,))}
        for polarity, context, right, wrong in (
            ("affirmative", item.affirmative, item.true_if_affirmative, item.true_if_negated),
            ("negated", item.negated, item.true_if_negated, item.true_if_affirmative),
        ):
            text, other = (f"{with_article(context, word)} {{mask}}." for word in (right, wrong))
            name, cluster, group = f"{item.id}-{polarity}", " ".join(sorted(words)), f"{polarity} {_condition(item)}"
            apart = other if other != text else ""
            yield ClozeItem(name, cluster, group, text, right, rivals=(wrong,), other=apart)


def _condition(item: NegationItem) -> str:
    if item.licensed is None:
        return "simple"
    return f"natural ({'licensed' if item.licensed else 'not licensed'})"


def _pocket_negation() -> _Found:
    """Facts the text states 16 times and more: what is so, and what is not so, against the other."""
    for number, prompt in enumerate(pocket.fact_prompts(), 1):
        cluster, true, false = f"fact-{number}", prompt.fact.object, prompt.rival
        yield ClozeItem(f"{cluster}-affirmative", cluster, "affirmative", prompt.text, true, rivals=(false,))
        yield ClozeItem(f"{cluster}-negated", cluster, "negated", prompt.negated, false, rivals=(true,))


def _pocket_role() -> _Found:
    """A verb between those who can do it and what it is done to. Sentences of one verb are one cluster."""
    for number, prompt in enumerate(pocket.role_prompts(), 1):
        yield ClozeItem(f"role-{number}", prompt.verb, "role reversal", prompt.text, prompt.verb, other=prompt.reversed)


# Changes of a context.


def _without_subject(context: str) -> str:
    """A context of ROLE-88 with *the other* for its subject: *which customer the other had*."""
    return _ROLES.sub(r"which \g<object> the other had", context)


def _without_object(context: str) -> str:
    """A context of ROLE-88 with *one* for its object: *which one the waitress had*."""
    return _ROLES.sub(r"which one the \g<subject> had", context)


def _change(name: str, cluster: str, group: str, context: str, other: str) -> ClozeItem:
    return ClozeItem(name, cluster, group, f"{context} {{mask}}.", other=f"{other} {{mask}}.")


def _shuffled(sets: Diagnostics) -> _Found:
    """The words of the first sentence, or of all the context but its last word."""
    for item in sets.pragmatic:
        name = f"cprag-{item.id}"
        words = item.first.removesuffix(".").split()
        for turn in range(_SHUFFLES):
            other = f"{' '.join(shuffled_words(words, f'{name} {turn}'))}. {item.second}"
            yield _change(f"{name}-{turn}", name, _CPRAG, f"{item.first} {item.second}", other)
    for role in sets.roles:
        for turn in range(_SHUFFLES):
            name = f"role-{role.id}-{turn}"
            yield _change(name, f"role-{role.pair}", _ROLE, role.context, _order_changed(role.context, name))


def _order_changed(context: str, seed: str) -> str:
    *words, last = context.split()
    return " ".join([*shuffled_words(words, seed), last])


def _truncated(sets: Diagnostics) -> _Found:
    """Without the first sentence, or with two words of the second; without the clause that asks *which*."""
    for item in sets.pragmatic:
        name, context = f"cprag-{item.id}", f"{item.first} {item.second}"
        end = " ".join(item.second.split()[-_KEPT:])
        yield _change(f"{name}-second", name, f"{_CPRAG}, last sentence alone", context, item.second)
        yield _change(f"{name}-end", name, f"{_CPRAG}, its last two words", context, f"{item.first} {end}")
    for role in sets.roles:
        name, group = f"role-{role.id}", f"{_ROLE}, last clause alone"
        if match := _ROLES.search(role.context):
            yield _change(name, f"role-{role.pair}", group, role.context, match[0])
        else:
            yield LeftOut(name, group, _NO_ROLES)


def _role_change(change: Callable[[str], str], sets: Diagnostics) -> _Found:
    """Variants made from every context of ROLE-88."""
    for role in sets.roles:
        name, other = f"role-{role.id}", change(role.context)
        if other == role.context:
            yield LeftOut(name, _ROLE, _NO_ROLES)
        else:
            yield _change(name, f"role-{role.pair}", _ROLE, role.context, other)


def _negated(sets: Diagnostics) -> _Found:
    for item in sets.negation:
        texts = (with_article(context, item.true_if_affirmative) for context in (item.affirmative, item.negated))
        yield _change(item.id, item.id, _condition(item), *texts)


def _facts(changes: Callable[[str], Iterable[str]]) -> _Found:
    """Variants made from the prompts of facts, given the words before the mask."""
    for number, prompt in enumerate(pocket.fact_prompts(), 1):
        context, _, rest = prompt.text.partition(" {mask}")
        for turn, other in enumerate(changes(context)):
            name = f"fact-{number}"
            yield ClozeItem(f"{name}-{turn}", name, _FACTS, prompt.text, other=f"{other} {{mask}}{rest}")


def _orders(context: str) -> Iterator[str]:
    for turn in range(_SHUFFLES):
        yield _order_changed(context, f"{context} {turn}")


def _last_words(context: str) -> list[str]:
    return [" ".join(context.split()[-_KEPT:])]


def _pocket_roles(part: Literal["subject", "object"]) -> _Found:
    for number, prompt in enumerate(pocket.role_prompts(), 1):
        other = prompt.without_subject if part == "subject" else prompt.without_object
        yield ClozeItem(f"role-{number}", prompt.verb, _VERBS, prompt.text, other=other)


def _pocket_negated() -> _Found:
    for number, prompt in enumerate(pocket.fact_prompts(), 1):
        yield ClozeItem(f"fact-{number}", f"fact-{number}", _FACTS, prompt.text, other=prompt.negated)


_KINDS: dict[str, _Kind] = {
    "cprag": _Kind(
        "Does common sense make the expected word more probable than others of its category and of another?",
        "choices", ("choice_accuracy", "sensitivity", "p_at_5", "p_at_1", "micro_choice_accuracy"), _CPRAG, _cprag,
        clusters="sets of words",
    ),
    "role": _Kind(
        "Is a verb more probable where the roles fit it than where they are reversed?",
        "contexts", _CHOICE, _ROLE, _role, _pocket_role, clusters="pairs of contexts",
    ),
    "role_words": _Kind(
        "Is the verb that people say after two roles among the first that are predicted?",
        "answers", ("p_at_5", "p_at_1", "mrr"), _ROLE, _role_words, clusters="pairs of contexts",
    ),
    "negation": _Kind(
        "Is the word that makes a sentence true more probable, affirmed and negated?",
        "choices", _CHOICE, "NEG-136", _negation, _pocket_negation, clusters="sets of words",
    ),
    "shuffled": _Kind(
        "How far does a prediction move when the words before it are shuffled?",
        "changes", _CHANGE, f"{_CPRAG} or {_ROLE}", _shuffled, partial(_facts, _orders),
    ),
    "truncated": _Kind(
        "How far does a prediction move when only the end of its context is left?",
        "changes", _CHANGE, f"{_CPRAG} or {_ROLE}", _truncated,
        partial(_facts, _last_words),
    ),
    "no_subject": _Kind(
        "How far does the predicted verb move when nothing is said of who does it?",
        "changes", _CHANGE, _ROLE, partial(_role_change, _without_subject), partial(_pocket_roles, "subject"),
    ),
    "no_object": _Kind(
        "How far does the predicted verb move when nothing is said of what it is done to?",
        "changes", _CHANGE, _ROLE, partial(_role_change, _without_object), partial(_pocket_roles, "object"),
    ),
    "negated": _Kind(
        "How far does a prediction move when its sentence is negated?",
        "changes", _CHANGE, "NEG-136", _negated, _pocket_negated,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class PsycholinguisticDiagnostics(ClozeProbe):
    """Does the model predict what people expect?"""

    kind: str
    subject = "meaning"
    reference = "Ettinger 2020"

    @property
    def task(self) -> str:
        """``diagnostics:cprag``, ``diagnostics:negation`` …."""
        return f"diagnostics:{self.kind}"

    @property
    def asks(self) -> ClozeAsks:
        """Kind of question about a text."""
        return _KINDS[self.kind].asks

    @property
    def question(self) -> str:
        """The question of its kind."""
        return _KINDS[self.kind].question

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of this kind of items."""
        return _KINDS[self.kind].metrics

    def items(self, source: str) -> ClozeItems:
        """The items of the kind. Clusters are what is one draw: the words asked about, two contexts, a verb, a fact."""
        kind = _KINDS[self.kind]
        if source == "pocket":
            if kind.of_pocket is None:
                raise CorpusError(f"the pocket world does not decide it; give {kind.needs}, its file or folder")
            made = ClozeItems.of(kind.of_pocket())
            return replace(made, clusters="facts" if made.items[0].cluster.startswith("fact-") else "verbs")
        sets = read_diagnostics(source, asks=self.asks)
        found = list(kind.of_sets(sets))
        if not found:
            raise CorpusError(f"{' and '.join(sets.files)} there, but {kind.needs} needed; give its file or folder")
        return ClozeItems.of(found, clusters=kind.clusters)


PROBE = ProbeFamily.among(
    [PsycholinguisticDiagnostics(name) for name in _KINDS],
    argument="name of a diagnostic",
    question="Does it predict what people expect: by common sense, by who did what to whom, under negation?",
)
