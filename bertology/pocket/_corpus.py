"""The probing corpus: annotated sentences of the pocket world, in splits that share none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from bertology.corpora import Corpus, Sentence, Sentences
from bertology.pocket._clauses import Clauses
from bertology.pocket._dice import Dice
from bertology.pocket._lexicon import Reach, lexicon
from bertology.pocket._reading import Line, read
from bertology.pocket._scene import Scene
from bertology.pocket._statements import statement
from bertology.pocket._world import facts

SIZES: Mapping[str, int] = MappingProxyType({"train": 3000, "dev": 500, "test": 800, "unseen": 300})
"""Sentences in each split."""
_STATEMENT_SHARE = 0.07
_LONGEST = 40
"""Words; longer sentences are left out, for the model reads 64 pieces at a time."""


def generate_corpus(*, seed: int = 0, sizes: Mapping[str, int] = SIZES) -> Corpus:
    """The pocket corpus from its grammar.

    Args:
        seed: which sentences.
        sizes: how many of them in each split; a split called ``unseen`` gets only sentences with a word that no
            other split holds.
    """
    used: set[str] = set()
    splits = {}
    for split, size in sizes.items():
        sentences = sentences_of(split, seed, used)
        splits[split] = Sentences(next(sentences) for _ in range(size))
    return corpus_of(splits)


def corpus_of(splits: Mapping[str, Sentences]) -> Corpus:
    """The splits with what is known of where they come from."""
    return Corpus(
        name="pocket",
        splits=splits,
        language="en",
        licence="Apache-2.0",
        notes={
            "source": "made by the grammar in bertology.pocket, annotation and all",
            "unseen": "every sentence holds a content word that no other split holds",
        },
    )


def sentences_of(split: str, seed: int, used: set[str]) -> Iterator[Sentence]:
    """The sentences of a split, without end; ``used`` are texts to leave out, to which theirs are added."""
    reach: Reach = "unseen" if split == "unseen" else "known"
    dice = Dice(f"pocket {split} {seed}")
    words = lexicon(reach)
    known_facts = facts()
    number = 0
    while True:
        if reach == "known" and dice.chance(_STATEMENT_SHARE):
            fact = dice.one_of(known_facts)
            line = statement(fact, dice.below(len(fact.templates)))
        else:
            line = Line(Clauses(Scene(dice, words)).sentence())
        sentence = read(line, id=f"{split}-{number + 1}")
        if sentence.text in used or len(sentence) > _LONGEST:
            continue
        if reach == "unseen" and "misc" not in sentence.layers:
            continue
        used.add(sentence.text)
        number += 1
        yield sentence
