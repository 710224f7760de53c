"""Roles of heads: does one look at a neighbour, along one relation, or at rare words?

After Voita et al. (2019), *Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can
Be Pruned*, §5. What is measured are shares of words whose maximum lies on the previous word, on the next one, on a
word to which a relation joins them (``nsubj``, ``obj``, ``amod``, ``advmod``, in both directions: on the head, or on
any such dependent), or on the rarest word of the sentence. Special tokens do not compete; the word itself does.

``PROBE.by_head`` says which head plays which role by the paper's thresholds, which are settings: positional if 90 % of
maxima lie at one place, syntactic if a relation's share is 10 % above that of the best fixed offset. The paper sets no
threshold for rare words; here it is half of all words, and above the offset by the same 10 %.

A word is as rare as its form, whatever its case, in the text that is read, or, better, in the train split of the
corpus that ``frequencies`` names. Words of equal frequency are all the rarest.

Baselines: ``offset``, the word at a fixed place from here; and a model with random weights, above all for rare words.
These tend to have most pieces, whose attention is summed, so that a head that looks nowhere may give them most.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertology.attention.arcs.questions import Arcs, dependency_arcs
from bertology.attention.probes import ArcProbe
from bertology.corpora import Sentences, load_corpus
from bertology.measures import share_metric
from bertology.measures.sums import HeadRatios
from bertology.probing import ControlNote
from bertology.probing.items import scored_words

OFFSET = ControlNote(
    "offset", "best offset", "the word at the fixed distance that is most often right where heads are chosen"
)
RAREST = "rarest word"
POSITIONS = {"previous": -1, "next": 1}


@dataclass(frozen=True)
class Roles(ArcProbe):
    """Does a head look at a neighbour, along one relation, or at rare words?"""

    relations: tuple[str, ...] = ("nsubj", "obj", "amod", "advmod")
    """Relations of syntactic heads."""
    positional: float = 0.9
    """The least share of maxima at one place."""
    gain: float = 0.1
    """Least difference of a share from that of the best offset."""
    relative: bool = False
    """Whether ``gain`` is a part of the offset's share, or else is added to it."""
    rare: float = 0.5
    """The least share of maxima on the rarest word."""
    frequencies: str = ""
    """Name or path of the corpus in whose train split words are counted; the text itself if empty."""
    task = "head_roles"
    reference = "Voita et al. 2019, §5"
    metrics = (share_metric("role_share", "share of words that attend most to the word that the role names"),)
    self_competes = True
    baselines = (OFFSET,)

    def arcs(self, sentences: Sentences, use: str) -> Sequence[Arcs]:
        """Neighbours, which no offset is compared with, as they are one; relations; and rare words.

        Every word of a sentence of several is joined to the rarest of its sentence, itself too, or to all that are as
        rare. Forms are counted, whatever their case.
        """
        scored, words = scored_words(sentences), np.arange(sentences.n_words)[1:]
        after = words[np.diff(sentences.sentence_of_word) == 0]
        neighbours = Arcs.of([("previous", after, after - 1), ("next", after - 1, after)])
        counted, often = load_corpus(self.frequencies)["train"] if self.frequencies else sentences, Counter[str]()
        for form, times in zip(counted.forms.values, np.bincount(counted.forms.codes).tolist(), strict=True):
            often[form.casefold()] += times
        of_word = np.array([often[form.casefold()] for form in sentences.forms.values])[sentences.forms.codes]
        asked, found = [words[:0]], [words[:0]]
        for first, last in zip(sentences.starts[:-1].tolist(), sentences.starts[1:].tolist(), strict=True):
            if last - first > 1:
                own = of_word[first:last]
                rarest = first + np.flatnonzero(own == own.min())
                asked.append(np.repeat(np.arange(first, last), len(rarest)))
                found.append(np.tile(rarest, last - first))
        return [
            *([neighbours] if use == "heads" else []),
            dependency_arcs(sentences, scored=scored, downward="row", relations=self.relations),
            Arcs.of([(RAREST, np.concatenate(asked), np.concatenate(found))]),
        ]

    def named(self, shares: Mapping[str, float], offsets: Mapping[str, float]) -> tuple[str, ...]:
        """The roles of a head: ``positional: previous``, ``syntactic: nsubj: dependent → head``, ``rare words``.

        Args:
            shares: of one head, by group.
            offsets: of the baseline, by group.
        """
        roles = [f"positional: {name}" for name in POSITIONS if shares.get(name, 0.0) >= self.positional]
        for name, offset in offsets.items():
            least = offset * (1 + self.gain) if self.relative else offset + self.gain
            if name == RAREST:
                roles += ["rare words"] * (shares.get(name, 0.0) >= max(least, self.rare))
            elif shares.get(name, 0.0) >= least:
                roles.append(f"syntactic: {name}")
        return tuple(roles)

    def by_head(self, found: Sequence[HeadRatios], offsets: Sequence[HeadRatios]) -> dict[str, tuple[str, ...]]:
        """The roles of every head that plays one, by its name (``L3H5``).

        Args:
            found: what :meth:`statistics` finish to.
            offsets: what :meth:`baseline` gives.
        """
        beside = {name: float(one.of(name)[0, 0]) for one in offsets for name in one.names}
        shares = {name: one.of(name) for one in found for name in one.names}
        roles = {}
        for place, layer in enumerate(found[0].layers):
            for head in range(found[0].over.shape[2]):
                own = {name: float(values[place, head]) for name, values in shares.items()}
                roles[f"L{layer}H{head + 1}"] = self.named(own, beside)
        return {head: own for head, own in roles.items() if own}


PROBE = Roles()
