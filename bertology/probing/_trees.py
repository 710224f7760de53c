"""What a probe of whole sentences asks about: their trees."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertology.corpora import Sentences, WordLayer
from bertology.errors import CorpusError, listed
from bertology.measures import RELATION, UNSCORED, tree_depths
from bertology.measures.trees import check_tree
from bertology.probing._examples import Examples, Integers, coded

_SHORTEST = 3
# The tags that are punctuation, by layer: of the Penn treebank those that the authors leave out.
_PUNCTUATION = {
    "upos": frozenset({"PUNCT"}),
    "xpos": frozenset(("''", "``", ",", ".", ":", "-LRB-", "-RRB-", "(", ")", '"', "#", "$")),
}


@dataclass(frozen=True, kw_only=True)
class TreeExamples(Examples):
    """Items that are whole sentences, labelled by their trees written as text (see :mod:`bertology.measures`)."""

    asks: Literal["distances", "depths", "arcs"]
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
            # The reason of a word becomes that of its sentence.
            reasons[item] = f"sentence with too few words to read: {skipped[word].replace('its sentence', 'it')}"
        spans = self.spans[:, 0].tolist()
        counts = scored
        if self.asks == "arcs":
            words = np.concatenate([np.arange(start, end) for start, end in spans])
            heads = np.where(self.heads[words] > 0, np.repeat(first, last - first) + self.heads[words] - 1, words)
            counts = scored.copy()
            counts[words] &= read[heads]
        trees = [self.values[code].split(" ") for code in self.codes.tolist()]
        texts = [_written(marks, counts[start:end]) for marks, (start, end) in zip(trees, spans, strict=True)]
        values = {text: code for code, text in enumerate(dict.fromkeys((*self.values, *texts)))}
        codes = np.array([values[text] for text in texts], dtype=np.int64)
        kept = replace(self, codes=codes, values=tuple(values), scored=scored, read=read)
        for reason in dict.fromkeys(reasons[~long_enough].tolist()):
            keep = reasons != reason
            kept, reasons = kept.subset(keep, reason=reason), reasons[keep]
        return kept


def tree_examples(sentences: Sentences, asks: Literal["distances", "depths", "arcs"]) -> TreeExamples:
    """One item for each sentence of three words or more, its tree as gold has it, crossing arcs and all.

    Of shorter sentences there is no other tree to choose; they are counted as skipped, and so are sentences of several
    roots or none, and those whose heads form a circle. Words count that are not
    punctuation, by ``upos``, or else by the tags of the Penn treebank.

    Args:
        sentences: the split.
        asks: distances, depths, or arcs with their relations.

    Raises:
        CorpusError: the split has no heads, none make a tree, one is outside of its sentence, or (for arcs) a word has
            no relation.
    """
    if sentences.heads is None:
        layers = listed(sorted(sentences.layers))
        raise CorpusError(f"no word has a head: give a treebank; the annotation layers are {layers}")
    scored = scored_words(sentences)
    trees: list[str] = []
    kept: list[int] = []
    skipped: Counter[str] = Counter()
    no_tree: list[str] = []
    for number, (first, last) in enumerate(itertools.pairwise(sentences.starts.tolist())):
        heads, name = sentences.heads[first:last].tolist(), sentences.id(number) or number + 1
        if heads and heads[0] < 0:
            skipped["sentence without heads"] += 1
            continue
        try:
            check_tree(heads)
        except ValueError as error:
            no_tree.append(f"sentence {name}: {error}")
            if max(heads) > len(heads):
                raise CorpusError(no_tree[-1]) from error
            n_roots = heads.count(0)
            several = "with several roots" if n_roots else "without a root"
            skipped[f"sentence {'whose heads form a circle' if n_roots == 1 else several}"] += 1
            continue
        if len(heads) < _SHORTEST:
            skipped["sentence of one word" if len(heads) == 1 else "sentence of two words"] += 1
            continue
        if scored[first:last].sum() < 2:
            skipped["sentence of punctuation"] += 1
            continue
        marks = tree_depths(heads).tolist() if asks == "depths" else heads
        if asks == "arcs":
            relations = _relations(sentences.layers.get("deprel"), first, last, name)
            marks = [f"{head}{RELATION}{relation}" for head, relation in zip(heads, relations, strict=True)]
        trees.append(_written(map(str, marks), scored[first:last]))
        kept.append(number)
    if no_tree and not kept:
        raise CorpusError(no_tree[0])
    places = np.array(kept, dtype=np.int64)
    codes, values = coded(trees)
    return TreeExamples(
        spans=np.stack([sentences.starts[places], sentences.starts[places + 1]], axis=1)[:, None, :].astype(np.int64),
        codes=codes,
        values=values,
        clusters=places,
        skipped=dict(skipped),
        asks=asks,
        heads=sentences.heads.astype(np.int64),
        scored=scored,
        read=np.ones(sentences.n_words, dtype=np.bool_),
    )


def _written(marks: Iterable[str], scored: NDArray[np.bool_]) -> str:
    """A tree as text, without the marks of words that do not count."""
    return " ".join(mark if counts else UNSCORED for mark, counts in zip(marks, scored.tolist(), strict=True))


def scored_words(sentences: Sentences) -> NDArray[np.bool_]:
    """``[word]`` which words are no punctuation, by ``upos`` or else by Penn tags; without either, all are taken."""
    for name, punctuation in _PUNCTUATION.items():
        if name in sentences.layers:
            layer = sentences.layers[name]
            return ~np.isin(layer.codes, [code for code, value in enumerate(layer.values) if value in punctuation])
    return np.ones(sentences.n_words, dtype=np.bool_)


def _relations(layer: WordLayer | None, first: int, last: int, name: str | int) -> list[str]:
    """``[word]`` the relation to its head of each word of a sentence, without what languages add after a colon."""
    labels = [None] * (last - first) if layer is None else layer.decoded(first, last)
    if None in labels:
        word = labels.index(None) + 1
        problem = f"word {word} has no relation to its head"
        raise CorpusError(f"sentence {name}: {problem}: give a treebank with a deprel column")
    return [str(label).partition(RELATION)[0] for label in labels]
