"""Syntax in heads: does what a head looks at most stand in one relation to the word that looks?

Five questions, all but the last of every head by itself:

- ``head_syntax``: by relation, the share of words whose most attended word is their head, and of those that their head
  looks at most, of all words (Clark et al. 2019, *What Does BERT Look At?*, §4.2). Baseline ``offset``: the word at a
  fixed place from here, by relation. The paper chose the best head on the text on which it reports it; here it is
  chosen on dev and scored on test.
- ``head_syntax:trees``: the share of undirected edges that a head's maxima find, and its maximum spanning tree from
  the true root (Htut et al. 2019, *Do Attention Heads in BERT Track Syntactic Dependencies?*, §3). Baseline
  ``offset``: each word joined to the next.
- ``head_syntax:coreference``: of mentions with an antecedent in their sentence, those that look at one of them more
  than at any other mention before (Clark et al. 2019, §4.3, who read whole passages). Baselines ``nearest``: the
  nearest mention; ``head_match``: the nearest with the same head word; ``rule``: the nearest of those with the same
  words, or else with the same head word, or else of the same number, gender and person, or else of all.
- ``head_syntax:roles``: by role, the share of predicates whose most attended word is the head word of a core argument
  in this role (``A0``, ``A1`` of PropBank), and of such words that look at their predicate most. After Kovaleva et al.
  (2019), *Revealing the Dark Secrets of BERT*, §4.2, who ask how much attention two heads of BERT give to words that
  evoke a frame and to its core elements. Baseline ``offset``, as above.

- ``head_syntax:parser``: how often all heads together name the syntactic head, by weights that are fitted to half of
  the sentences for the other half: one weight for each head, or weights that depend on the two words (Clark et al.
  2019, §5, who fit to a text of its own, with GloVe for the words where here are the model's vectors of layer 0).
  Beside it ``next word``, which is always the word to the right.

The word itself and special tokens do not compete; punctuation is not asked about.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from bertology import attention
from bertology.attention import GateProbe
from bertology.attention.arcs.questions import Arcs, TextTrees, antecedents, dependency_arcs, role_arcs
from bertology.attention.probes import ArcProbe, BestHeadProbe, ReadText
from bertology.corpora import Sentences
from bertology.measures import share_metric
from bertology.measures.sums import HeadRatios
from bertology.probing import ControlNote, ProbeFamily, RunningModel, tree_examples
from bertology.probing.items import scored_words

from .head_roles import OFFSET


def text_trees(sentences: Sentences, most: int) -> TextTrees:
    """The trees of at most so many sentences, punctuation left out."""
    found = tree_examples(sentences, "distances")
    return TextTrees(sentences.starts, found.heads, found.scored, found.clusters).some(most)


@dataclass(frozen=True)
class Relations(ArcProbe):
    """Does a head look at the syntactic head, or at a dependent in one relation?"""

    fewest_arcs: int = 20
    """Relations with fewer arcs are not shown."""
    downward: Literal["column", "row"] = "column"
    """``column``: of all words the head looks at its dependent most, as the authors' code has it; ``row``: a head word
    looks at one of its dependents most."""
    task = "head_syntax"
    reference = "Clark et al. 2019, §4.2"
    metrics = (share_metric("relation_accuracy", "share of words that attend most to their partner in the relation"),)
    baselines = (OFFSET,)

    def arcs(self, sentences: Sentences, use: str) -> Sequence[Arcs]:
        """Arcs by relation and direction."""
        fewest = 1 if use == "choice" else self.fewest_arcs
        scored = scored_words(sentences)
        return [dependency_arcs(sentences, scored=scored, downward=self.downward, fewest=fewest)]


@dataclass(frozen=True)
class Trees(BestHeadProbe):
    """Do the edges that a head's weights make form the tree?"""

    most_sentences: int = 1000
    """Sentences that are read at most, drawn at random."""
    task = "head_syntax:trees"
    reference = "Htut et al. 2019, §3"
    metrics = (share_metric("head_uuas", "share of undirected tree edges that the head finds, no punctuation"),)
    baselines = (OFFSET,)

    def statistics(self, sentences: Sentences) -> "Sequence[attention.maps.MakeStatistic]":
        """Edges of maxima and of spanning trees."""
        trees = text_trees(sentences, self.most_sentences)
        return [partial(attention.arcs.heads.TreeHits, trees=trees, metric=self.metrics[0].name)]

    def baseline(self, name: str, text: "ReadText", chosen_on: "ReadText") -> Sequence[HeadRatios]:
        """Each word joined to one at a fixed distance."""
        most = self.most_sentences
        own, other = (text_trees(one.sentences, most).read_from(one.windows) for one in (text, chosen_on))
        return [own.chain(text.sentences, chosen_on=other, metric=self.metrics[0].name)]


@dataclass(frozen=True)
class Coreference(ArcProbe):
    """Does a mention look at its antecedent more than at other mentions?"""

    mentions: str = "coref"
    """The layer of pairs of mentions; ``winograd`` is another."""
    mention_head: Literal["tree", "last_word"] = "tree"
    """The word that stands for a mention: the one whose head lies outside, or the last."""
    task = "head_syntax:coreference"
    fixed_fields = ("farthest",)
    reference = "Clark et al. 2019, §4.3"
    metrics = (share_metric("antecedent_accuracy", "share of mentions that attend most to one of their antecedents"),)
    baselines = (
        ControlNote("nearest", "nearest", "the candidate that stands nearest"),
        ControlNote("head_match", "same word", "the nearest candidate with the same word, else the nearest"),
        ControlNote("rule", "rule", "what the rules of the probe choose"),
    )

    def arcs(self, sentences: Sentences, use: str) -> Sequence[Arcs]:
        """Mentions, and those before them."""
        return [antecedents(sentences, self.mentions, mention_head=self.mention_head)]


@dataclass(frozen=True)
class SemanticRoles(ArcProbe):
    """Does a head look from a predicate at a core argument, or back?"""

    fewest_arcs: int = 20
    """Roles with fewer arcs are not shown."""
    task = "head_syntax:roles"
    reference = "cf. Kovaleva et al. 2019, §4.2"
    metrics = (share_metric("role_accuracy", "share of words that attend most to their predicate or core argument"),)
    baselines = (OFFSET,)

    def arcs(self, sentences: Sentences, use: str) -> Sequence[Arcs]:
        """Arcs by role and direction."""
        return [role_arcs(sentences, fewest=1 if use == "choice" else self.fewest_arcs)]


@dataclass(frozen=True)
class Parser(GateProbe):
    """Do all heads together say which word hangs from which?"""

    most_sentences: int = 1000
    """Sentences that are read at most, drawn at random."""
    learning_rate: float = 0.03
    max_epochs: int = 60
    task = "head_syntax:parser"
    reference = "Clark et al. 2019, §5"
    metrics = (share_metric("attention_uas", "share of words whose syntactic head is found, no roots or punctuation"),)

    def measure(self, model: RunningModel) -> Sequence[HeadRatios]:
        """Parsers with and without words, and what names the next word."""
        sentences = model.sentences["test"]
        trees = text_trees(sentences, self.most_sentences)
        windows = model.encoder.tokenize(sentences, on_long=model.on_long).word_window.astype(np.int64)
        how: dict[str, Any] = {"learning_rate": self.learning_rate, "max_epochs": self.max_epochs}
        how |= {"layers": model.layers, "on_long": model.on_long, "progress": model.progress}
        fitted = partial(attention.arcs.heads.crossfit_attention_parser, model.encoder, sentences, trees, **how)
        next_word = trees.next_word(sentences, metric=self.metrics[0].name, windows=windows)
        return [fitted(name="attention"), fitted(name="attention and words", with_words=True), next_word]


PROBE = ProbeFamily.among(
    [Trees(), Coreference(), SemanticRoles(), Parser()],
    argument="question about syntax",
    reference="Clark et al. 2019, §4; Htut et al. 2019",
    default=Relations(),
)
