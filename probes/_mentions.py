"""Mentions with their antecedents, as a probe of heads asks about them."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.attention.arcs import Candidates
from bertology.corpora import Sentences, Target
from bertology.errors import CorpusError, listed, quoted

MentionHead = Literal["tree", "last_word"]
"""The word that stands for a mention: the first whose head in the tree lies outside, or its last word."""
ALL = "all"
_KINDS = {"PRON": "pronoun", "PROPN": "proper", "NOUN": "nominal"}
_AGREEING = ("Number", "Gender", "Person")
_WORST = 3
_Span = tuple[int, int]


def antecedents(sentences: Sentences, layer: str, *, mention_head: MentionHead) -> Candidates:
    """Every mention that has an antecedent, with the heads of the mentions before it in its sentence as candidates.

    Groups are ``all`` and, where parts of speech are known, what the mention's head is: ``pronoun``, ``proper``,
    ``nominal``. Ranks are those of four sieves, as in Clark et al. (2019, section 4.3) after Lee et al. (2011): the
    same words, the same head word, heads whose number, gender and person are not known to differ, the rest.

    Args:
        sentences: the text.
        layer: pairs of spans with ``1`` where they mean the same: ``coref``, ``winograd``.
        mention_head: which word stands for a mention.

    Raises:
        CorpusError: there are no such pairs, none of them means the same, or no tree to find heads by.
    """
    if layer not in sentences.target_layers:
        there = listed(sentences.target_layers)
        raise CorpusError(
            f"no mention is joined to another in layer {quoted(layer)}: the span annotation there is {there}"
        )
    if mention_head == "tree" and sentences.heads is None:
        raise CorpusError("no tree to find the heads of mentions by: give a treebank, or set mention_head to last_word")
    asked: list[int] = []
    found: list[tuple[int, int, bool, int]] = []
    for number, targets in sentences.targets(layer):
        of_word = _antecedents_in(_Heads(sentences, number, mention_head), targets)
        for word, candidates in sorted(of_word.items()):
            if any(is_right for is_right, _ in candidates.values()):
                found += [(len(asked), other, *facts) for other, facts in sorted(candidates.items())]
                asked.append(word)
    if not asked:
        raise CorpusError(f"no two mentions of a sentence mean the same in layer {quoted(layer)}")
    questions, words, is_right, ranks = (np.array(column) for column in zip(*found, strict=True))
    words_asked = np.array(asked, dtype=np.int64)
    names, is_in = _groups(sentences, words_asked)
    return Candidates(words_asked, is_in, names, questions, words, is_right, ranks)


@dataclass(frozen=True)
class _Heads:
    """Mentions of one sentence and the words that stand for them, numbered through all sentences."""

    sentences: Sentences
    number: int
    mention_head: MentionHead

    @property
    def start(self) -> int:
        """Number of the sentence's first word."""
        return int(self.sentences.starts[self.number])

    def of(self, span: _Span) -> int:
        """The word that stands for a mention."""
        heads = self.sentences.heads
        if self.mention_head == "last_word" or heads is None:
            return self.start + span[1] - 1
        own = heads[self.start + span[0] : self.start + span[1]]
        return self.start + span[0] + int(np.argmax((own <= span[0]) | (own > span[1])))

    def rank(self, one: _Span, other: _Span) -> int:
        """Which of the sieves takes two mentions for the same, from 0."""
        if self._form(*one) == self._form(*other):
            return 0
        heads = [self.of(span) - self.start for span in (one, other)]
        if self._form(heads[0], heads[0] + 1) == self._form(heads[1], heads[1] + 1):
            return 1
        first, second = (self._features(head) for head in heads)
        return 3 if any(first[name] != second[name] for name in first.keys() & second.keys()) else 2

    def _form(self, first: int, last: int) -> str:
        return " ".join(self.sentences.word(self.start + place).casefold() for place in range(first, last))

    def _features(self, place: int) -> dict[str, str]:
        layer = self.sentences.layers.get("feats")
        (value,) = layer.decoded(self.start + place, self.start + place + 1) if layer else (None,)
        pairs = (pair.partition("=") for pair in (value or "").split("|"))
        return {name: held for name, _, held in pairs if name in _AGREEING}


def _antecedents_in(heads: _Heads, targets: tuple[Target, ...]) -> dict[int, dict[int, tuple[bool, int]]]:
    """By word that stands for a mention, and by word before it: whether they mean the same, and the rank."""
    found: dict[int, dict[int, tuple[bool, int]]] = defaultdict(dict)
    for target in targets:
        if target.span2 is not None:
            (first, one), (second, other) = sorted((heads.of(span), span) for span in (target.span1, target.span2))
            if first < second:
                # Mentions inside one another may have one head: it is right if any of them is.
                before = found[second].get(first, (False, _WORST))
                is_right = before[0] or "1" in target.labels
                found[second][first] = is_right, min(before[1], heads.rank(one, other))
    return found


def _groups(sentences: Sentences, asked: NDArray[np.int64]) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    layer = sentences.layers.get("upos")
    found = [None] * len(asked) if layer is None else [layer.decoded(word, word + 1)[0] for word in asked.tolist()]
    kinds = np.array([_KINDS.get(tag or "", "") for tag in found])
    names = (ALL, *(kind for kind in _KINDS.values() if (kinds == kind).any()))
    return names, np.stack([(kinds == name) | (name == ALL) for name in names], axis=1)
