"""Sentences with a sense, each followed by another one of the same word: in another sense, and in the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bertology.corpora._corpus import Corpus
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora.formats.senses import SENSE
from bertology.errors import CorpusError

ADDED = "added"
"""The target of the word in the sentence that follows."""
_JOINT = " and "
_ENDS = frozenset(".!?…")


@dataclass(frozen=True)
class _Item:
    sentence: Sentence
    span: tuple[int, int]
    word: str
    sense: str


def concatenated(corpus: Corpus, *, seed: int = 0) -> Corpus:
    """Test sentences alone, and joined by *and* with one of the same word (``concatenated:CORPUS``; Reif et al. 2019).

    Each sentence of the test whose first word with a sense has another sense elsewhere in the test becomes up to three,
    whose ids end in ``/alone``, ``/other`` and ``/same``: as it is, followed by a sentence with another sense of the
    word, and by one with the same sense, where there is any. Sentences that follow are drawn at random; their word has
    the target ``added``. A full stop before *and* is taken out. Train is not changed.

    Args:
        corpus: with senses.
        seed: of what is drawn.

    Raises:
        CorpusError: it has no test, or no word with two senses there.
    """
    name = f"concatenated:{corpus.name}"
    if "test" not in corpus:
        raise CorpusError(f"{name}: no split test; give a corpus with train and test")
    by_word: dict[str, dict[str, list[_Item]]] = defaultdict(lambda: defaultdict(list))
    items = list(_items(corpus["test"]))
    for item in items:
        by_word[item.word][item.sense].append(item)
    dice, made = np.random.default_rng(seed), []
    for item in items:
        of_word = by_word[item.word]
        others = [other for sense, some in of_word.items() if sense != item.sense for other in some]
        if not others:
            continue
        alike = [other for other in of_word[item.sense] if other.sentence.text != item.sentence.text]
        alone = Target(item.span, f"{item.word}:{item.sense}")
        base = replace(item.sentence, targets={SENSE: (alone,)}, multiword=(), comments=(), empty_nodes=())
        made.append(replace(base, id=f"{base.id}/alone"))
        for kind, some in (("other", others), ("same", alike)):
            if some:
                made.append(_joined(base, some[int(dice.integers(len(some)))], kind))
    if not made:
        raise CorpusError(f"{name}: no word has two senses in test; give CoarseWSD-20, or pseudowords:CORPUS")
    return replace(corpus, name=name, splits={**corpus.splits, "test": Sentences(made)})


def _items(sentences: Sentences) -> Iterator[_Item]:
    """The first word with a sense of each sentence."""
    for number, targets in sentences.targets(SENSE):
        sentence, target = sentences[number], targets[0]
        first, last = target.span1
        if len(target.labels) != 1 or first >= last:
            continue  # the task of senses reports it
        word, colon, sense = target.labels[0].partition(":")
        if not colon:
            word, sense = " ".join(sentence.words[first:last]).casefold(), word
        named = replace(sentence, id=f"{sentence.id or 'sentence'}#{number + 1}")
        yield _Item(named, (first, last), word, sense)


def _joined(base: Sentence, added: _Item, kind: str) -> Sentence:
    n_kept = len(base) - (base.words[-1] in _ENDS and base.targets[SENSE][0].span1[1] < len(base))
    text = base.text[: base.spans[n_kept - 1][1]] + _JOINT
    words = (*base.words[:n_kept], _JOINT.strip(), *added.sentence.words)
    start = len(text)
    spans = (
        *base.spans[:n_kept],
        (start - len(_JOINT) + 1, start - 1),
        *((first + start, last + start) for first, last in added.sentence.spans),
    )
    layers = {
        name: (*values[:n_kept], None, *added.sentence.layers[name])
        for name, values in base.layers.items()
        if name in added.sentence.layers
    }
    place = (added.span[0] + n_kept + 1, added.span[1] + n_kept + 1)
    targets = {**base.targets, ADDED: (Target(place, f"{added.word}:{added.sense}"),)}
    return Sentence(f"{base.id}/{kind}", text + added.sentence.text, words, spans, layers=layers, targets=targets)
