"""Roles and fillers: is the vector of a sentence a sum over its words of word ⊗ role, and of which roles?

McCoy et al. (2019), *RNNs Implicitly Implement Tensor-Product Representations*, and for BERT Jawahar et al. (2019),
*What Does BERT Learn about the Structure of Language?*, §6. A role is a place in the sentence: ``left_to_right``,
``right_to_left``, ``bidirectional`` (both), ``tree`` (the path from the root of the tree), or one for all words
(``bag_of_words``); what to compare the tree with is ``shuffled_tree``, the tree of another sentence of the same length,
and ``random_tree``. All schemes have as many roles, the most frequent ones. Fillers are mean vectors of a word form in
layer 0, less the mean of their position; with ``fillers=forms`` each form is a filler of its own.

Scores are of test sentences: R², which is 1 − MSE / variance, so that layers can be compared, and what a scheme has
more than the bag of words, which it includes. Ridge regression is fitted on train, its strength and the weight of roles
chosen on dev; ``fit=low_rank`` trains fillers, roles and map as the papers do, where the bag is not included. The
vector of a sentence is the mean over its words, or with the pool ``cls`` that of the special token before the text.
Means of products are taken in place of the papers' sums, and length is an input of every scheme.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from bertology.errors import FitError, NameNotFoundError, listed, quoted
from bertology.geometry import GeometryProbe, roles
from bertology.geometry.probes import TextItems
from bertology.measures import Metric, sum_metric
from bertology.measures.sums import LayerSums
from bertology.probing import GeometryCounts, Splits
from bertology.probing.items import SplitVectors, SplitWords

_TREES = ("tree", "shuffled_tree", "random_tree")
_SCHEMES = {
    "tree": "the tree as roles",
    "shuffled_tree": "another sentence's tree as roles",
    "random_tree": "a random tree as roles",
    "left_to_right": "places from the left as roles",
    "right_to_left": "places from the right as roles",
    "bidirectional": "places from both ends as roles",
}


@dataclass(frozen=True)
class RolesAndFillers(GeometryProbe):
    """Is the vector of a sentence a sum over its words of word times role, and of which roles?"""

    schemes: str = ",".join(_SCHEMES)
    """Schemes of roles with commas between, besides the bag of words; the first gives the main score."""
    n_roles: Annotated[int, Field(ge=2)] = 36
    """Roles of each scheme."""
    fillers: Literal["embeddings", "forms"] = "embeddings"
    """``embeddings`` (of layer 0) or ``forms``."""
    trees: Literal["dependencies", "constituents"] = "dependencies"
    fit: Literal["ridge", "low_rank"] = "ridge"
    most_sentences: Annotated[int, Field(ge=40)] = 2000
    """Training sentences that are read at most, drawn at random; of dev and test half as many each."""
    seed: int = 0
    """Seed of random trees, and of the start of ``low_rank``."""
    task = "roles_and_fillers"
    reference = "McCoy et al. 2019b"
    reads = ("train", "dev", "test")
    fits = "regressions of sentence vectors on words and roles"
    pools: ClassVar[tuple[str, ...]] = ("mean", "cls")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The gain of the first scheme over the bag of words, then the other gains, R², and trees against controls."""
        names = self._names
        trees = [other for other in _TREES[1:] if other in names and "tree" in names]
        return (
            *(sum_metric(f"gain_{name}", f"R² with {_SCHEMES[name]} minus that of a bag of words") for name in names),
            *(sum_metric(f"tree_over_{name}", f"R² with the tree minus that with {_SCHEMES[name]}") for name in trees),
            sum_metric("r2_bag", "share of the variance of sentence vectors that a bag of words predicts"),
            *(sum_metric(f"r2_{name}", f"R² of sentence vectors by words with {_SCHEMES[name]}") for name in names),
        )

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """All words of random sentences, which have trees where these are asked about."""
        if words is None:
            for name in self._names:
                if name not in _SCHEMES:
                    raise NameNotFoundError(f"unknown scheme of roles {quoted(name)}: there are {listed(_SCHEMES)}")
            chosen = {}
            for split, text in sentences.items():
                most = self.most_sentences if split == "train" else self.most_sentences // 2
                chosen[split] = np.sort(np.random.default_rng(0).permutation(len(text))[:most])
            for split, numbers in chosen.items() if self._has_trees else ():
                roles.tree_paths(sentences[split], numbers.tolist(), trees=self.trees)
            of_words = {split: text.sentence_of_word for split, text in sentences.items()}
            words = {split: np.flatnonzero(np.isin(of_words[split], numbers)) for split, numbers in chosen.items()}
        n = {split: len(roles.complete_sentences(text, words[split])) for split, text in sentences.items()}
        return TextItems(words, GeometryCounts(n["test"], n["train"]))

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Errors of every scheme of roles."""
        layers, has_embeddings = vectors["test"].layers, self.fillers == "embeddings"
        if has_embeddings and 0 not in layers:
            raise FitError("fillers are vectors of layer 0, which is not read: read it too, or set fillers=forms")
        trees = self.trees if self._has_trees else ""
        fillers, targets = roles.role_items(
            vectors, sentences, self._names, self.n_roles, trees=trees, has_embeddings=has_embeddings, seed=self.seed
        )
        return roles.role_scores(layers, fillers, targets, is_trained=self.fit == "low_rank", seed=self.seed)

    @property
    def _names(self) -> list[str]:
        """The schemes, without the bag of words."""
        names = self.schemes.replace(" ", "").replace("-", "_").split(",")
        return [name for name in dict.fromkeys(names) if name not in ("", "bag_of_words")]

    @property
    def _has_trees(self) -> bool:
        return any(name in _TREES for name in self._names)


PROBE = RolesAndFillers()
