"""Mentions with their antecedents, as a probe of heads asks about them."""

from collections import defaultdict
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.attention.arcs import Candidates
from bertology.corpora import Sentences
from bertology.errors import CorpusError

MentionHead = Literal["tree", "last_word"]
"""The word that stands for a mention: the first whose head in the tree lies outside, or its last word."""
ALL = "all"
_KINDS = {"PRON": "pronoun", "PROPN": "proper", "NOUN": "nominal"}
_Span = tuple[int, int]


def antecedents(sentences: Sentences, layer: str, *, mention_head: MentionHead) -> Candidates:
    """Every mention that has an antecedent, with the heads of the mentions before it in its sentence as candidates.

    Groups are ``all`` and, where parts of speech are known, what the mention's head is: ``pronoun``, ``proper``,
    ``nominal``.

    Args:
        sentences: the text.
        layer: pairs of spans with ``1`` where they mean the same: ``coref``, ``winograd``.
        mention_head: which word stands for a mention.

    Raises:
        CorpusError: there are no such pairs, none of them means the same, or no tree to find heads by.
    """
    if layer not in sentences.target_layers:
        there = ", ".join(sentences.target_layers) or "none"
        raise CorpusError(f"no mention is joined to another in layer {layer!r}: the span annotation there is {there}")
    if mention_head == "tree" and sentences.heads is None:
        raise CorpusError("no tree to find the heads of mentions by: give a treebank, or set mention_head to last_word")
    questions: list[tuple[int, dict[int, bool]]] = []
    for number, targets in sentences.targets(layer):
        before: dict[int, dict[int, bool]] = defaultdict(dict)
        heads = {}
        for target in targets:
            for span in (target.span1, target.span2):
                if span is not None and span not in heads:
                    heads[span] = _head(sentences, number, span, mention_head)
            if target.span2 is not None:
                first, second = sorted((heads[target.span1], heads[target.span2]))
                if first < second:
                    # Mentions inside one another may have one head: it is right if any of them is.
                    before[second][first] = before[second].get(first, False) or "1" in target.labels
        questions += [(asked, found) for asked, found in sorted(before.items()) if any(found.values())]
    if not questions:
        raise CorpusError(f"no two mentions of a sentence mean the same in layer {layer!r}")
    asked = np.array([word for word, _ in questions], dtype=np.int64)
    names, is_in = _groups(sentences, asked)
    return Candidates(
        asked=asked,
        is_in=is_in,
        names=names,
        questions=np.repeat(np.arange(len(questions)), [len(found) for _, found in questions]),
        words=np.array([word for _, found in questions for word in sorted(found)], dtype=np.int64),
        is_right=np.array([found[word] for _, found in questions for word in sorted(found)], dtype=bool),
    )


def _head(sentences: Sentences, number: int, span: _Span, mention_head: MentionHead) -> int:
    """Number of the word that stands for a mention."""
    start = int(sentences.starts[number])
    if mention_head == "last_word":
        return start + span[1] - 1
    assert sentences.heads is not None
    heads = sentences.heads[start + span[0] : start + span[1]]
    return start + span[0] + int(np.argmax((heads <= span[0]) | (heads > span[1])))


def _groups(sentences: Sentences, asked: NDArray[np.int64]) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    layer = sentences.layers.get("upos")
    found = [None] * len(asked) if layer is None else [layer.decoded(word, word + 1)[0] for word in asked.tolist()]
    kinds = np.array([_KINDS.get(tag or "", "") for tag in found])
    names = (ALL, *(kind for kind in _KINDS.values() if (kinds == kind).any()))
    return names, np.stack([(kinds == name) | (name == ALL) for name in names], axis=1)
