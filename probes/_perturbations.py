"""Changes of a context that leave most of its words and take something else: order, length, a role, polarity.

What Ettinger (2020, §6.1 and §7.1) does to CPRAG-102 and ROLE-88 is done here in the same way, but for the shuffling,
of which there are five a context rather than one: their mean hangs less on chance. NEG-136 is not shuffled or cut
short: of *A robin is a* too little is left.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from bertology.corpora.prompts import Diagnostics, shuffled_words, with_article
from bertology.pocket import fact_prompts, role_prompts
from bertology.probing import ClozeItem, LeftOut

_SHUFFLES = 5
_KEPT = 2
"""Words before the mask that are left of a context that is cut short."""
_ROLES = re.compile(r"\bwhich (?P<object>.+) the (?P<subject>.+) had$")
_CPRAG, _ROLE, _FACTS, _VERBS = "CPRAG-102", "ROLE-88", "facts", "verbs"
_NO_ROLES = "its form is not 'which … the … had'"
_Found = tuple[list[ClozeItem], list[LeftOut]]


@dataclass(frozen=True)
class Perturbation:
    """One way of changing a context."""

    question: str
    needs: str
    of_sets: Callable[[Diagnostics], _Found]
    of_pocket: Callable[[], list[ClozeItem]] | None


def without_subject(context: str) -> str:
    """A context of ROLE-88 with *the other* for its subject: *which customer the other had*."""
    return _ROLES.sub(r"which \g<object> the other had", context)


def without_object(context: str) -> str:
    """A context of ROLE-88 with *one* for its object: *which one the waitress had*."""
    return _ROLES.sub(r"which one the \g<subject> had", context)


def without_subject_and_object(context: str) -> str:
    """A context of ROLE-88 with neither: *which one the other had*."""
    return without_subject(without_object(context))


def _change(name: str, cluster: str, group: str, context: str, other: str) -> ClozeItem:
    return ClozeItem(name, cluster, group, f"{context} {{mask}}.", other=f"{other} {{mask}}.")


def _shuffled(sets: Diagnostics) -> _Found:
    """The words of the first sentence, or of all the context but its last word."""
    items = []
    for item in sets.pragmatic:
        name = f"cprag-{item.id}"
        words = item.first.removesuffix(".").split()
        for turn in range(_SHUFFLES):
            other = f"{' '.join(shuffled_words(words, f'{name} {turn}'))}. {item.second}"
            items.append(_change(f"{name}-{turn}", name, _CPRAG, f"{item.first} {item.second}", other))
    for role in sets.roles:
        for turn in range(_SHUFFLES):
            name = f"role-{role.id}-{turn}"
            items.append(_change(name, f"role-{role.pair}", _ROLE, role.context, _order_changed(role.context, name)))
    return items, []


def _order_changed(context: str, seed: str) -> str:
    *words, last = context.split()
    return " ".join([*shuffled_words(words, seed), last])


def _truncated(sets: Diagnostics) -> _Found:
    """Without the first sentence, or with two words of the second; without the clause that asks *which*."""
    items = []
    for item in sets.pragmatic:
        name, context = f"cprag-{item.id}", f"{item.first} {item.second}"
        end = " ".join(item.second.split()[-_KEPT:])
        items.append(_change(f"{name}-second", name, f"{_CPRAG}, last sentence alone", context, item.second))
        items.append(_change(f"{name}-end", name, f"{_CPRAG}, its last two words", context, f"{item.first} {end}"))
    left = []
    for role in sets.roles:
        name, group = f"role-{role.id}", f"{_ROLE}, last clause alone"
        if match := _ROLES.search(role.context):
            items.append(_change(name, f"role-{role.pair}", group, role.context, match[0]))
        else:
            left.append(LeftOut(name, group, _NO_ROLES))
    return items, left


def _role_change(change: Callable[[str], str]) -> Callable[[Diagnostics], _Found]:
    """What is made of every context of ROLE-88."""

    def found(sets: Diagnostics) -> _Found:
        items, left = [], []
        for role in sets.roles:
            name, group, other = f"role-{role.id}", _ROLE, change(role.context)
            if other == role.context:
                left.append(LeftOut(name, group, _NO_ROLES))
            else:
                items.append(_change(name, f"role-{role.pair}", group, role.context, other))
        return items, left

    return found


def _negated(sets: Diagnostics) -> _Found:
    items = []
    for item in sets.negation:
        condition = {None: "simple", True: "natural (licensed)", False: "natural (not licensed)"}[item.licensed]
        texts = (with_article(context, item.true_if_affirmative) for context in (item.affirmative, item.negated))
        items.append(_change(item.id, item.id, condition, *texts))
    return items, []


def _facts(changes: Callable[[str], Iterable[str]]) -> Callable[[], list[ClozeItem]]:
    """What is made of the prompts of facts, given what stands before the mask."""

    def found() -> list[ClozeItem]:
        items = []
        for number, prompt in enumerate(fact_prompts(), 1):
            context, _, rest = prompt.text.partition(" {mask}")
            for turn, other in enumerate(changes(context)):
                name = f"fact-{number}"
                items.append(ClozeItem(f"{name}-{turn}", name, _FACTS, prompt.text, other=f"{other} {{mask}}{rest}"))
        return items

    return found


def _orders(context: str) -> Iterator[str]:
    for turn in range(_SHUFFLES):
        yield _order_changed(context, f"{context} {turn}")


def _pocket_roles(part: Literal["subject", "object"]) -> Callable[[], list[ClozeItem]]:
    def found() -> list[ClozeItem]:
        return [
            ClozeItem(
                f"role-{number}",
                prompt.verb,
                _VERBS,
                prompt.text,
                other=prompt.without_subject if part == "subject" else prompt.without_object,
            )
            for number, prompt in enumerate(role_prompts(), 1)
        ]

    return found


def _pocket_negated() -> list[ClozeItem]:
    return [
        ClozeItem(f"fact-{number}", f"fact-{number}", _FACTS, prompt.text, other=prompt.negated)
        for number, prompt in enumerate(fact_prompts(), 1)
    ]


PERTURBATIONS: dict[str, Perturbation] = {
    "shuffled": Perturbation(
        "How far does a prediction move when the words before it are shuffled?",
        "CPRAG-102 or ROLE-88",
        _shuffled,
        _facts(_orders),
    ),
    "truncated": Perturbation(
        "How far does a prediction move when only the end of its context is left?",
        "CPRAG-102 or ROLE-88",
        _truncated,
        _facts(lambda context: [" ".join(context.split()[-_KEPT:])]),
    ),
    "no_subject": Perturbation(
        "How far does the predicted verb move when nothing is said of who does it?",
        "ROLE-88",
        _role_change(without_subject),
        _pocket_roles("subject"),
    ),
    "no_object": Perturbation(
        "How far does the predicted verb move when nothing is said of what it is done to?",
        "ROLE-88",
        _role_change(without_object),
        _pocket_roles("object"),
    ),
    "negated": Perturbation(
        "How far does a prediction move when its sentence is negated?",
        "NEG-136",
        _negated,
        _pocket_negated,
    ),
}
