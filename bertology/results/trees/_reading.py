"""What a probe reads of one sentence: edges, distances, depths, and the gold tree beside them where there is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology.measures import check_tree, tree_depths, tree_distances, tree_edges


@dataclass(frozen=True, eq=False)
class TreeReading:
    """One sentence as a structural probe reads it (Hewitt & Manning 2019), ready to be drawn.

    A notebook shows it as arcs over the words.

    Raises:
        ValueError: the parts do not fit each other; the message says which word or edge does not.
    """

    words: tuple[str, ...]
    layer: int
    """The layer that was read; 0 is the embeddings."""
    model: str
    gold: tuple[int, ...] | None
    """Gold head of each word: 0 for the root, otherwise the 1-based index of the head, as in CoNLL-U; None for a
    sentence without annotation."""
    edges: tuple[tuple[int, int], ...]
    """Predicted edges without direction, places of words from 0, the smaller first: the minimum spanning tree."""
    distances: NDArray[np.floating] | None
    """``[word, word]`` predicted squared distances, on the scale of edges between two words."""
    depths: tuple[float, ...] | None
    """Predicted depth of each word, on the scale of edges below the root."""
    heads: tuple[int, ...] | None
    """Predicted heads as in CoNLL-U, where depth gave the edges a direction. What
    stands there for words that are not scored, such as -1, says nothing."""
    relations: tuple[str | None, ...] | None
    """Predicted relation of each word to its head, None where nothing is said of it."""
    scored: tuple[bool, ...]
    """False for punctuation, which no edge touches."""
    gold_relations: tuple[str | None, ...] | None = None
    """Gold relation of each word to its head, None where nothing is said of it."""

    def __post_init__(self) -> None:
        if not self.words:
            raise ValueError("a sentence without words has no tree")
        size = len(self.words)
        for name in ("gold", "depths", "heads", "relations", "scored", "gold_relations"):
            values = getattr(self, name)
            if values is not None and len(values) != size:
                raise ValueError(f"{size} words but {len(values)} values of {name}")
        if self.distances is not None and self.distances.shape != (size, size):
            raise ValueError(f"{size} words but distances of shape {self.distances.shape}: it must be ({size}, {size})")
        for name, values in (("distances", self.distances), ("depths", self.depths)):
            if values is not None and not np.isfinite(values).all():
                raise ValueError(f"{name} holds a value that is not finite")
        self._check_edges()
        self._check_heads()

    def _check_edges(self) -> None:
        for left, right in self.edges:
            if not 0 <= left < right < len(self.words):
                raise ValueError(
                    f"edge ({left}, {right}): places run from 0 to {len(self.words) - 1}, the smaller first"
                )
            if not (self.scored[left] and self.scored[right]):
                raise ValueError(f"edge ({left}, {right}) touches a word that is not scored")
        if len(set(self.edges)) < len(self.edges):
            raise ValueError("an edge is given twice")

    def _check_heads(self) -> None:
        if self.gold is not None:
            try:
                check_tree(self.gold)
            except ValueError as error:
                raise ValueError(f"gold: {error}") from None
        if self.heads is None:
            return
        size = len(self.words)
        outside = [place for place, head in enumerate(self.heads) if self.scored[place] and not 0 <= head <= size]
        if outside:
            raise ValueError(
                f"heads: head {self.heads[outside[0]]} of word {outside[0] + 1} is none of the {size} words"
            )
        if different := tree_edges(self.heads, self.scored) ^ set(self.edges):
            raise ValueError(f"heads and edges are not the same tree: they differ in edge {min(different)}")

    @property
    def gold_edges(self) -> tuple[tuple[int, int], ...] | None:
        """Gold edges between scored words, without direction, places from 0, the smaller first, in order."""
        return None if self.gold is None else tuple(sorted(tree_edges(self.gold, self.scored)))

    @property
    def shared_edges(self) -> tuple[tuple[int, int], ...]:
        """Edges both gold and predicted."""
        return tuple(sorted(set(self.edges) & set(self.gold_edges or ())))

    @property
    def uuas(self) -> float | None:
        """Share of the gold edges found, 0 to 1; None without a gold edge (Hewitt & Manning 2019, section 4.1)."""
        gold = self.gold_edges
        return len(self.shared_edges) / len(gold) if gold else None

    @property
    def gold_distances(self) -> NDArray[np.integer] | None:
        """``[word, word]`` edges between two words in the gold tree."""
        return None if self.gold is None else tree_distances(self.gold)

    @property
    def gold_depths(self) -> tuple[int, ...] | None:
        """Edges between each word and the gold root."""
        return None if self.gold is None else tuple(tree_depths(self.gold).tolist())

    def __repr__(self) -> str:
        shown = " ".join(self.words)
        found = "" if self.uuas is None else f", UUAS {100 * self.uuas:.0f} %"
        return f"<{type(self).__name__} of {shown!r}: {self.model}, layer {self.layer}{found}>"

    def _repr_svg_(self) -> str:
        from bertology.results.trees._pictures import to_svg

        return to_svg(self).decode("utf-8")
