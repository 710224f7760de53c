"""Arcs of a treebank by relation, in both directions, as probes of heads ask about them."""

from typing import Literal

import numpy as np

from bertology.attention.arcs import Arcs
from bertology.corpora import Sentences
from bertology.errors import CorpusError, NameNotFoundError, listed, quoted
from bertology.probing import ControlNote, scored_words

ALL = "all"
OFFSET = ControlNote(
    "offset", "best offset", "the word at that distance which is right most often where heads are chosen"
)
UP, DOWN = "dependent → head", "head → dependent"
_UNIVERSAL = frozenset(
    [
        *("acl", "advcl", "advmod", "amod", "appos", "aux", "case", "cc", "ccomp", "clf", "compound", "conj", "cop"),
        *("csubj", "dep", "det", "discourse", "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list"),
        *("mark", "nmod", "nsubj", "nummod", "obj", "obl", "orphan", "parataxis", "punct", "reparandum", "root"),
        *("vocative", "xcomp"),
    ]
)
"""The relations of Universal Dependencies (Nivre et al. 2020)."""
Downward = Literal["column", "row"]
"""How a head is to show that it looks from heads to dependents: the dependent's column (of all words its head looks at
it most), or the head's row (it looks at one of its dependents most)."""


def dependency_arcs(
    sentences: Sentences, *, downward: Downward, fewest: int = 1, relations: tuple[str, ...] = ()
) -> Arcs:
    """Arcs grouped as ``nsubj: dependent → head`` and ``nsubj: head → dependent``, the largest relations first.

    Relations are the universal ones, the part before the colon; ``all`` takes them together. Roots have no head among
    the words, and punctuation is not asked about.

    Args:
        sentences: the text.
        downward: how the second direction is asked.
        fewest: relations with fewer arcs are not shown.
        relations: which ones; any, and ``all``, when left out.

    Raises:
        CorpusError: the text has no heads, no relations, or none of those asked for.
        NameNotFoundError: there is no such relation.
    """
    layer = sentences.layers.get("deprel")
    if sentences.heads is None or layer is None:
        there = listed(sorted(sentences.layers))
        raise CorpusError(
            f"no word has a head and a relation to it: give a treebank; the annotation layers are {there}"
        )
    dependents = np.flatnonzero((sentences.heads > 0) & (layer.codes >= 0) & scored_words(sentences))
    heads = sentences.starts[sentences.sentence_of_word[dependents]] + sentences.heads[dependents] - 1
    universal = np.array([value.partition(":")[0] for value in layer.values])
    own = universal[layer.codes[dependents]]
    names, counts = np.unique(own, return_counts=True)
    by_size = [str(name) for name in names[np.argsort(-counts, kind="stable")] if name in relations or not relations]
    for name in relations:
        # One that is rare may be missing from a small split; one that is in no text is a slip.
        if name not in _UNIVERSAL and name not in by_size:
            raise NameNotFoundError(f"unknown relation {quoted(name)}: the text has {listed(map(str, names))}")
    groups = []
    for name in [ALL] * (not relations) + by_size:
        which = np.ones(len(own), dtype=bool) if name == ALL else own == name
        if which.sum() >= fewest:
            groups.append((f"{name}: {UP}", dependents[which], heads[which]))
            ends = (heads, dependents) if downward == "row" else (dependents, heads)
            groups.append((f"{name}: {DOWN}", ends[0][which], ends[1][which]))
    if not groups:
        wanted = f" of {', '.join(relations)}" if relations else ""
        raise CorpusError(f"no relation{wanted} has {fewest} arcs: give more text, or ask for fewer")
    columns = frozenset(name for name, _, _ in groups if downward == "column" and name.endswith(DOWN))
    return Arcs.of(groups, looked_at=columns)
