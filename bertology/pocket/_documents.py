"""The pretraining text: documents of sentences that share people, things and a theme, with facts stated in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from bertology.pocket._clauses import Clauses
from bertology.pocket._dice import Dice
from bertology.pocket._lexicon import lexicon
from bertology.pocket._reading import text
from bertology.pocket._scene import N_THEMES, Scene
from bertology.pocket._statements import statement
from bertology.pocket._world import Fact, facts, people_by_name

_SHORTEST, _LONGEST = 5, 9
"""Sentences in a document."""


def pretraining_documents(
    n_documents: int, *, seed: int = 0, stated: Sequence[Fact] | None = None
) -> Iterator[list[str]]:
    """The pretraining text, document by document.

    Facts are spread over the documents at random; each is stated exactly ``n_stated`` times in all, however many
    documents there are, in its templates by turns.

    Args:
        n_documents: how many documents.
        seed: which text.
        stated: the facts to state (:func:`~bertology.pocket.facts` when left out; none for held-out text).

    Yields:
        The sentences of a document, in order.
    """
    schedule = _schedule(facts() if stated is None else stated, n_documents, seed)
    words = lexicon("all")
    for number in range(n_documents):
        dice = Dice(f"pocket document {seed} {number}")
        due = schedule.get(number, [])
        hero = people_by_name().get(due[0][0].subject) if due else None
        scene = Scene(dice, words, hero=hero, theme=dice.below(N_THEMES))
        clauses = Clauses(scene)
        length = _SHORTEST + dice.below(_LONGEST - _SHORTEST + 1)
        sentences = [text(clauses.sentence(1 if dice.chance(0.35) else 2)) for _ in range(length)]
        for fact, template in due:
            sentences.insert(dice.below(len(sentences) + 1), text(statement(fact, template).tree))
        yield sentences


def _schedule(stated: Sequence[Fact], n_documents: int, seed: int) -> dict[int, list[tuple[Fact, int]]]:
    """Which statements each document makes."""
    due = [(fact, turn % len(fact.templates)) for fact in stated for turn in range(fact.n_stated)]
    dice = Dice(f"pocket schedule {seed}")
    dice.shuffle(due)
    schedule: dict[int, list[tuple[Fact, int]]] = defaultdict(list)
    for place, statement_due in enumerate(due):
        schedule[place * n_documents // len(due)].append(statement_due)
    return schedule
