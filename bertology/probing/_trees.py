"""What a probe of whole sentences asks about: their trees."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences, WordLayer
from bertology.errors import CorpusError, listed
from bertology.measures import RELATION, UNSCORED, check_tree, tree_depths
from bertology.probing._examples import Examples, Integers

TreeAsks = Literal["distances", "depths", "arcs"]
_SHORTEST = 3
_PUNCTUATION = "PUNCT"
# The tags of the Penn treebank that are punctuation, which the authors leave out.
_PENN_PUNCTUATION = frozenset(("''", "``", ",", ".", ":", "-LRB-", "-RRB-", "(", ")", '"', "#", "$"))


@dataclass(frozen=True, kw_only=True)
class TreeExamples(Examples):
    """Items that are whole sentences, labelled by their trees written as text (see :mod:`bertology.measures`)."""

    asks: TreeAsks
    """What is asked of vectors: how far two words are apart, how deep a word lies; or both, and relations."""
    heads: Integers
    """``[word]`` heads of all words of the split, from 1 in their sentence, 0 for the root."""
    scored: NDArray[np.bool_]
    """``[word]`` which words count: all but punctuation, and of a model's text those that it can read."""
    read: NDArray[np.bool_]
    """``[word]`` which words have vectors: all, before a model is known."""

    def without_words(self, skipped: Mapping[int, str]) -> TreeExamples:
        """The same trees of a text some of whose words have no vector.

        Such words are treated as the authors treat punctuation when they score (Hewitt & Manning 2019, section 4.2):
        they are in no predicted tree, and edges or arcs to them are not asked about. The distances and depths of the
        other words are those of the whole tree. A sentence is left out where fewer than three of its words, or fewer
        than two that count, have vectors, as other sentences of that length are.

        Args:
            skipped: words, and the reason why each has no vector.
        """
        if not skipped:
            return self
        read = self.read.copy()
        read[list(skipped)] = False
        scored = self.scored & read
        first, last = self.spans[:, 0].T
        n_read, n_scored = (np.append(0, np.cumsum(which)) for which in (read, scored))
        long_enough = (n_read[last] - n_read[first] >= _SHORTEST) & (n_scored[last] - n_scored[first] >= 2)
        reasons = np.full(len(self), "", dtype=object)
        for item in np.flatnonzero(~long_enough).tolist():
            word = next(word for word in range(first[item], last[item]) if not read[word])
            # What is told of a word is told of a sentence here.
            reasons[item] = f"sentence with too few words to read: {skipped[word].replace('its sentence', 'it')}"
        asked = scored
        if self.asks == "arcs":
            of_word = np.repeat(np.arange(len(self)), last - first)
            words = np.concatenate([np.arange(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)])
            heads = np.where(self.heads[words] > 0, first[of_word] + self.heads[words] - 1, words)
            asked = scored.copy()
            asked[words] &= read[heads]
        texts = [
            " ".join(
                mark if counts else UNSCORED
                for mark, counts in zip(self.values[code].split(" "), asked[start:end].tolist(), strict=True)
            )
            for code, start, end in zip(self.codes.tolist(), first.tolist(), last.tolist(), strict=True)
        ]
        values = {text: code for code, text in enumerate(dict.fromkeys((*self.values, *texts)))}
        codes = np.array([values[text] for text in texts], dtype=np.int64)
        found: Examples = replace(self, codes=codes, values=tuple(values), scored=scored, read=read)
        for reason in dict.fromkeys(reasons[~long_enough].tolist()):
            keep = reasons != reason
            found, reasons = found.subset(keep, reason=reason), reasons[keep]
        assert isinstance(found, TreeExamples)
        return found


def tree_examples(sentences: Sentences, asks: TreeAsks) -> TreeExamples:
    """One item for each sentence of three words or more, its tree as gold has it, crossing arcs and all.

    Of shorter sentences there is no other tree to choose; they are counted as skipped. Words count that are not
    punctuation, by ``upos``, or else by the tags of the Penn treebank.

    Args:
        sentences: the split.
        asks: distances, depths, or arcs with their relations.

    Raises:
        CorpusError: the split has no heads, some do not make a tree, or (for arcs) a word has no relation.
    """
    if sentences.heads is None:
        there = listed(sorted(sentences.layers))
        raise CorpusError(f"no word has a head: give a treebank; the annotation layers are {there}")
    scored = scored_words(sentences)
    layer = sentences.layers.get("deprel")
    marks: list[str] = []
    kept: list[int] = []
    skipped: Counter[str] = Counter()
    for number, (first, last) in enumerate(itertools.pairwise(sentences.starts.tolist())):
        heads = sentences.heads[first:last].tolist()
        if heads and heads[0] < 0:
            skipped["sentence without heads"] += 1
            continue
        try:
            check_tree(heads)
        except ValueError as error:
            raise CorpusError(f"sentence {sentences.id(number) or number + 1}: {error}") from error
        if len(heads) < _SHORTEST:
            skipped["sentence of one word" if len(heads) == 1 else "sentence of two words"] += 1
            continue
        if scored[first:last].sum() < 2:
            skipped["sentence of punctuation"] += 1
            continue
        own = _relations(layer, first, last, sentences.id(number) or number + 1) if asks == "arcs" else None
        marks.append(tree_marks(heads, scored[first:last].tolist(), asks=asks, relations=own))
        kept.append(number)
    places = np.array(kept, dtype=np.int64)
    values = {mark: code for code, mark in enumerate(dict.fromkeys(marks))}
    return TreeExamples(
        spans=np.stack([sentences.starts[places], sentences.starts[places + 1]], axis=1)[:, None, :].astype(np.int64),
        codes=np.array([values[mark] for mark in marks], dtype=np.int64),
        values=tuple(values),
        clusters=places,
        skipped=dict(skipped),
        asks=asks,
        heads=sentences.heads.astype(np.int64),
        scored=scored,
        read=np.ones(sentences.n_words, dtype=np.bool_),
    )


def tree_marks(heads: list[int], scored: list[bool], *, asks: TreeAsks, relations: list[str] | None = None) -> str:
    """A tree as text: heads, depths, or heads with their relations, by word."""
    if asks == "depths":
        plain = [str(depth) for depth in tree_depths(heads).tolist()]
    elif relations is not None:
        plain = [f"{head}{RELATION}{relation}" for head, relation in zip(heads, relations, strict=True)]
    else:
        plain = [str(head) for head in heads]
    return " ".join(mark if counts else UNSCORED for mark, counts in zip(plain, scored, strict=True))


def scored_words(sentences: Sentences) -> NDArray[np.bool_]:
    """``[word]`` which words are no punctuation, by ``upos`` or else by Penn tags; without either, all are taken."""
    for layer, names in (("upos", {_PUNCTUATION}), ("xpos", _PENN_PUNCTUATION)):
        found = sentences.layers.get(layer)
        if found is not None:
            left_out = [code for code, value in enumerate(found.values) if value in names]
            return ~np.isin(found.codes, left_out)
    return np.ones(sentences.n_words, dtype=np.bool_)


def _relations(layer: WordLayer | None, first: int, last: int, name: str | int) -> list[str]:
    """``[word]`` the relation to its head of each word of a sentence, without what languages add after a colon."""
    found = [None] * (last - first) if layer is None else layer.decoded(first, last)
    relations = [value.partition(RELATION)[0] for value in found if value is not None]
    if len(relations) < len(found):
        word = found.index(None) + 1
        raise CorpusError(
            f"sentence {name}: word {word} has no relation to its head: give a treebank with a deprel column"
        )
    return relations
