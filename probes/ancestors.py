"""Ancestor tagging: which label does the N-th ancestor of a word have in the tree of its sentence?

After Blevins et al. (2018), *Deep RNNs Encode Soft Hierarchical Syntax*, §3, and Liu et al. (2019), *Linguistic
Knowledge and Transferability of Contextual Representations*, §4, who ask for the constituents above a word.

- In a corpus with constituents, such as bracketed trees, ``ancestors:1`` is the category of the constituent next above
  the word's own part of speech, ``ancestors:2`` that of the one above it, and so on. Of constituents over the same
  words the one that comes first in the corpus is above the others; each of them counts. Several labels of one
  constituent are one, joined by ``+``.
- In a corpus with dependencies only, ``ancestors:1`` is the relation of the word's head to its own head,
  ``ancestors:2`` the relation of the head's head to its own, and so on: universal relations, the part before the colon.
  The word's own relation is the task ``deprel``.

``edge_ancestors:N`` asks the same with the readout and the metrics of edge probing, next to its other tasks.

A word whose branch ends below the N-th ancestor has the label ``no ancestor``. An item is a word, its vector the mean
of its subwords' vectors. What to compare with: the most frequent label, the label that the word's form has most often
in train, random weights, and a control task. The higher the ancestor, the more words share it, and the more of them
have none: compare the scores of different N only with the most frequent label of each.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from bertology.corpora import Sentence, Sentences
from bertology.errors import CorpusError, listed
from bertology.measures.trees import check_tree
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, word_examples

NO_ANCESTOR = "no ancestor"
"""The label of a word that has no N-th ancestor."""
_HIGHEST = 20


@dataclass(frozen=True)
class Ancestors(RepresentationProbe):
    """Which constituent, or which dependency relation, is the N-th above each word?"""

    distance: int
    """Number N of steps upwards from the word."""
    tree: Literal["constituents", "dependencies"] | None = None
    """The kind of tree; constituents where the corpus has them, else dependencies, when left out."""
    task_form = "ancestors:{distance}"
    subject = "syntax"
    reference = "Blevins et al. 2018, §3; Liu et al. 2019, §4"
    readout = "linear.v1"
    metrics = ("accuracy", "macro_f1")

    def examples(self, sentences: Sentences) -> Examples:
        """Every word with the label of its N-th ancestor: the category of a constituent, or a dependency relation.

        Words of sentences without a tree, or with constituents that cross, are counted as skipped.

        Raises:
            CorpusError: the split has no trees of the kind.
        """
        labels_of = _categories if "constituents" in sentences.target_layers else _relations
        if self.tree is not None:
            labels_of = _categories if self.tree == "constituents" else _relations
        labels, skipped = list[str | None](), Counter[str]()
        for sentence in sentences:
            try:
                labels += labels_of(sentence, self.distance)
            except CorpusError as error:
                labels += [None] * len(sentence)
                skipped[f"word of a sentence {error}"] += len(sentence)
        if not any(labels):
            known = listed(sorted({*sentences.layers, *sentences.target_layers}))
            why = listed([reason.removeprefix("word of a ") for reason in skipped])
            raise CorpusError(f"no tree ({why}): give a treebank; the annotation layers are {known}")
        if n_without := labels.count(None) - skipped.total():
            skipped["ancestor without a relation"] = n_without
        return replace(word_examples(sentences, labels), skipped=dict(skipped))


def _categories(sentence: Sentence, distance: int) -> Iterator[str]:
    """The category of the constituent that is ``distance`` above the part of speech of each word."""
    above: list[list[str]] = [[] for _ in sentence.words]  # categories above each word, from the top downwards
    lowest = [-1] * len(sentence)  # number of the constituent that is the lowest above each word so far
    constituents = sentence.targets.get("constituents", ())
    if not constituents:
        raise CorpusError("without constituents")
    for number, target in enumerate(sorted(constituents, key=lambda one: one.span1[0] - one.span1[1])):  # largest first
        (start, end), label = target.span1, "+".join(target.labels)
        if len(set(lowest[start:end])) > 1:
            raise CorpusError("with constituents that cross")
        lowest[start:end] = [number] * (end - start)
        for word in range(start, end):
            above[word].append(label)
    return (own[-distance] if distance <= len(own) else NO_ANCESTOR for own in above)


def _relations(sentence: Sentence, distance: int) -> Iterator[str | None]:
    """The relation to its own head of the ``distance``-th head above each word."""
    relations, heads = sentence.layers.get("deprel"), sentence.heads
    if heads is None or relations is None:
        raise CorpusError("without heads and relations")
    try:
        check_tree(heads)
    except ValueError as error:
        raise CorpusError("whose heads make no tree") from error
    ancestors = list(range(1, len(heads) + 1))  # 0 above the root
    for _ in range(distance):
        ancestors = [heads[word - 1] if word else 0 for word in ancestors]
    found = (relations[word - 1] if word else NO_ANCESTOR for word in ancestors)
    return (label and label.partition(":")[0] for label in found)


class EdgeAncestors(Ancestors):
    """As an edge probe: which constituent or relation is the N-th above each word?"""

    task_form = "edge_ancestors:{distance}"
    reference = "Blevins et al. 2018, §3; Tenney et al. 2019a, §2.1"
    readout = "edge.v1"
    metrics = ("micro_f1", "macro_f1")


def _among(kind: type[Ancestors]) -> ProbeFamily:
    return ProbeFamily.among(
        [kind(1), kind(2), kind(3)],
        argument=f"number of steps from 1 to {_HIGHEST}",
        further=lambda number: kind(int(number)) if number in map(str, range(1, _HIGHEST + 1)) else None,
    )


PROBE = _among(Ancestors)
EDGE = _among(EdgeAncestors)
