"""Ancestor tagging: which label does the N-th ancestor of a word have in the tree of its sentence?

After Blevins et al. (2018), *Deep RNNs Encode Soft Hierarchical Syntax*, §3, and Liu et al. (2019), *Linguistic
Knowledge and Transferability of Contextual Representations*, §4, who ask for the constituents above a word.

- In a corpus with constituents, such as bracketed trees, ``ancestors:1`` is the category of the constituent next above
  the word's own part of speech, ``ancestors:2`` that of the one above it, and so on. Of constituents over the same
  words the one that comes first in the corpus is above the others; each of them counts.
- In a corpus with dependencies only, ``ancestors:1`` is the relation of the word's head to its own head,
  ``ancestors:2`` the relation of the head's head to its own, and so on: universal relations, the part before the colon.
  The word's own relation is the task ``deprel``.

A word whose branch ends below the N-th ancestor has the label ``no ancestor``. An item is a word, its vector the mean
of its subwords' vectors. What to compare with: the most frequent label, the label that the word's form has most often
in train, random weights, and a control task. The higher the ancestor, the more words share it, and the more of them
have none: compare the scores of different N only with the most frequent label of each.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from bertology.corpora import Sentences, Target
from bertology.errors import CorpusError, NameNotFoundError, listed
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, word_examples
from bertology.probing.items import trees_of

NO_ANCESTOR = "no ancestor"
"""The label of a word that has no N-th ancestor."""
_HIGHEST = 20


@dataclass(frozen=True)
class Ancestors(RepresentationProbe):
    """Which label does the N-th ancestor of each word have?"""

    distance: int
    """Number N of steps upwards from the word."""
    tree: Literal["constituents", "dependencies"] | None = None
    """The kind of tree; constituents where the corpus has them, else dependencies, when left out."""
    subject = "syntax"
    question = "Which constituent, or which dependency relation, is the N-th above each word?"
    reference = "Blevins et al. 2018, §3; Liu et al. 2019, §4"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    @property
    def task(self) -> str:
        """``ancestors:`` and the number of steps."""
        return f"ancestors:{self.distance}"

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with the label of its N-th ancestor: the category of a constituent, or a dependency relation.

        Sentences without a tree, or with constituents that cross, are counted as skipped, word by word.

        Raises:
            CorpusError: the split has no trees of the kind.
        """
        has_constituents = "constituents" in sentences.target_layers
        if not has_constituents and (self.tree == "constituents" or sentences.heads is None):
            known = listed(sorted({*sentences.layers, *sentences.target_layers}))
            what = "constituents" if self.tree == "constituents" else "constituents or heads"
            raise CorpusError(f"no sentence has {what}: give a treebank with them; the annotation layers are {known}")
        of_tree = _relations if self.tree == "dependencies" or not has_constituents else _categories
        labels, skipped = of_tree(sentences, self.distance)
        return replace(word_examples(sentences, labels), skipped=dict(skipped))


_Labels = tuple[list[str | None], Counter[str]]
"""``[word]`` labels, None for words that are not asked about; and the numbers of these by reason."""


def _categories(sentences: Sentences, distance: int) -> _Labels:
    """The category of the constituent that is ``distance`` above the part of speech of each word."""
    labels: list[str | None] = [None] * sentences.n_words
    skipped: Counter[str] = Counter()
    targets = dict(sentences.targets("constituents"))
    for number, (first, last) in enumerate(pairwise(sentences.starts.tolist())):
        above = _constituents_above(targets.get(number, ()), last - first)
        if above is None or number not in targets:
            skipped[f"word of a sentence {'with crossing' if above is None else 'without'} constituents"] += (
                last - first
            )
        else:
            labels[first:last] = [own[-distance] if distance <= len(own) else NO_ANCESTOR for own in above]
    return labels, skipped


def _constituents_above(constituents: Sequence[Target], n_words: int) -> list[list[str]] | None:
    """The categories above each word of a sentence from the top downwards; None where two constituents cross.

    Raises:
        CorpusError: a constituent has several labels.
    """
    above: list[list[str]] = [[] for _ in range(n_words)]
    lowest = [-1] * n_words  # the number of the constituent that is lowest of those above each word so far
    in_order = sorted(constituents, key=lambda target: target.span1[0] - target.span1[1])  # the largest first, stably
    for number, target in enumerate(in_order):
        if not isinstance(target.label, str):
            raise CorpusError(f"a constituent has the labels {listed(target.label)}: give one category each")
        start, end = target.span1
        if len(set(lowest[start:end])) > 1:
            return None
        lowest[start:end] = [number] * (end - start)
        for word in range(start, end):
            above[word].append(target.label)
    return above


def _relations(sentences: Sentences, distance: int) -> _Labels:
    """The relation to its own head of the ``distance``-th head above each word."""
    if "deprel" not in sentences.layers:
        raise CorpusError("no word has a relation to its head: give a treebank with a deprel column")
    layer, skipped = sentences.layers["deprel"], Counter[str]()
    # Codes of the split's relations without subtypes; none (−1) reads the last place.
    relations = np.array([*(value.partition(":")[0] for value in layer.values), None], dtype=object)[layer.codes]
    heads, is_tree = np.full(sentences.n_words, -1), np.zeros(sentences.n_words, dtype=np.bool_)
    for _, first, last, of_sentence, problem in trees_of(sentences):
        if problem:
            skipped[f"word of a {problem}"] += last - first
            continue
        is_tree[first:last] = True
        heads[first:last] = [first + head - 1 if head else -1 for head in of_sentence]
    ancestors = np.arange(sentences.n_words)
    for _ in range(distance):
        ancestors = np.where(ancestors >= 0, heads[ancestors], -1)
    labels = np.where(ancestors >= 0, relations[ancestors], NO_ANCESTOR)
    labels[~is_tree] = None
    if n_without := int((is_tree & (labels == None)).sum()):  # noqa: E711
        skipped["ancestor without a deprel label"] = n_without
    return labels.tolist(), skipped


def _at_distance(argument: str) -> Ancestors:
    if not re.fullmatch(r"[0-9]{1,2}", argument) or not 1 <= int(argument) <= _HIGHEST:
        raise NameNotFoundError(f"task ancestors:{argument}: it should be a number of steps from 1 to {_HIGHEST}")
    return Ancestors(int(argument))


PROBE = ProbeFamily("number of steps upwards", ("1", "2", "3"), Ancestors.question, Ancestors.reference, _at_distance)
