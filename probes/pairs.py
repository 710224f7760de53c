"""Pairs of words of a treebank: is one the head of the other, and which number do a subject and its verb have?

- ``edge_arcs``: arc prediction, after Liu et al. (2019), *Linguistic Knowledge and Transferability of Contextual
  Representations*, §4. Their pairs without an arc are drawn at random, so that most are far apart and distance alone
  answers. Here each is as far apart as an arc of its sentence, in the same direction: of every signed distance each
  sentence has as many arcs as other pairs, so that accuracy by distance, or by the sentence, is 50 % by construction.
  Arcs read in the wrong direction are pairs without an arc too.
- ``pair_number``: the number (``Sing``, ``Plur``) that a subject and its finite verb, or auxiliary, have in common, by
  the feature Number of the treebank; the pairs are those of subject–verb agreement in Linzen et al. (2016), *Assessing
  the Ability of LSTMs to Learn Syntax-Sensitive Dependencies*. The form of either word may show it: compare with
  ``lexical``.
- ``pair_number:shared``: do a finite verb and a noun that is not its subject have the same number? Each verb stands in
  two items, with a noun of its number and with one of the other, drawn at random, and as many verbs are singular as
  plural: the number of one word, or that one is the subject of the other, predicts nothing, only both numbers do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bertology.corpora import Sentence, Sentences
from bertology.corpora.prompts.sets import drawn_order
from bertology.errors import CorpusError, listed
from bertology.probing import Examples, ProbeFamily, RepresentationProbe, pair_examples
from bertology.probing.items import scored_words

_NUMBERS = ("Sing", "Plur")
_NOUNS = frozenset({"NOUN", "PROPN", "PRON"})


class _Pair(NamedTuple):
    first: int  # word of the first span, numbered through the split
    second: int
    label: str


def _examples(sentences: Sentences, pairs: list[_Pair], skipped: Counter[str]) -> Examples:
    first, second = (np.array([pair[place] for pair in pairs], dtype=np.int64) for place in (0, 1))
    return pair_examples(sentences, first, second, [pair.label for pair in pairs], skipped=skipped)


@dataclass(frozen=True)
class _OfPairs(RepresentationProbe):
    subject = "syntax"
    reference = "cf. Linzen et al. 2016"
    readout = "edge.v1"
    metrics = ("accuracy", "macro_f1")


class Arcs(_OfPairs):
    """Is the second of two words the syntactic head of the first?"""

    task = "edge_arcs"
    reference = "Liu et al. 2019, §4"

    def examples(self, sentences: Sentences) -> Examples:
        """Arcs between words that are no punctuation, and as many other pairs of the same sentence and signed distance.

        Of what there is more of, arcs or other pairs, some are drawn at random by the text and the distance; arcs that
        are left out are counted.

        Raises:
            CorpusError: no word has a head.
        """
        if sentences.heads is None:
            raise CorpusError(f"no word has a head: give a treebank; the layers are {listed(sorted(sentences.layers))}")
        counted, pairs, skipped = scored_words(sentences), list[_Pair](), Counter[str]()
        for number, start in enumerate(sentences.starts[:-1].tolist()):
            words = slice(start, int(sentences.starts[number + 1]))
            heads, counts = sentences.heads[words] - 1, counted[words]
            dependents = np.flatnonzero((heads >= 0) & counts)
            dependents = dependents[counts[heads[dependents]]]
            distances = heads[dependents] - dependents
            for distance in np.unique(distances).tolist():
                arcs = dependents[distances == distance].tolist()
                places = np.arange(max(0, -distance), len(heads) - max(0, distance))
                other = places[counts[places] & counts[places + distance] & (heads[places] != places + distance)]
                n = min(len(arcs), len(other))
                skipped["arc without a pair as far apart that is no arc"] += len(arcs) - n
                seed = f"{sentences.text(number)} {distance}"
                for label, some in (("1", arcs), ("0", other.tolist())):
                    drawn = drawn_order(some, seed)[:n]
                    pairs += [_Pair(start + one, start + one + distance, label) for one in drawn]
        return _examples(sentences, pairs, +skipped)


class PairNumber(_OfPairs):
    """Which number do a subject and its verb have?"""

    task = "pair_number"

    def examples(self, sentences: Sentences) -> Examples:
        """Every subject and its finite verb or auxiliary, with the number of both.

        Pairs of two numbers, as of coordinated and collective subjects (*she and I are*, *the police are*), are counted
        as skipped, as are those in which a word has no number.

        Raises:
            CorpusError: no word has a feature Number, a head and a relation.
        """
        pairs, skipped = list[_Pair](), Counter[str]()
        for start, tree in _trees(sentences):
            for subject, verb in tree.subjects:
                own, other = tree.numbers[verb], tree.numbers[subject]
                if own and own == other:
                    pairs.append(_Pair(start + subject, start + verb, own))
                else:
                    skipped["subject and verb of two numbers" if own and other else "no number"] += 1
        return _examples(sentences, pairs, skipped)


class SharedNumber(_OfPairs):
    """Do a verb and a noun that is not its subject have the same number?"""

    task = "pair_number:shared"

    def examples(self, sentences: Sentences) -> Examples:
        """Finite verbs, each with a noun of the same number and with one of the other, neither its subject.

        Verbs whose sentence lacks such a noun, and of the more frequent number those beyond as many as have the other,
        are counted as skipped.

        Raises:
            CorpusError: no word has a feature Number, a head and a relation.
        """
        by_number, skipped = defaultdict[str, list[tuple[_Pair, _Pair]]](list), Counter[str]()
        for start, tree in _trees(sentences):
            for verb in tree.verbs:
                own = tree.numbers[verb]
                places = [one for one in tree.nouns if (one, verb) not in tree.subjects]
                some = [one for one in places if tree.numbers[one] == own]
                other = [one for one in places if tree.numbers[one] not in ("", own)]
                if not (own and some and other):
                    skipped["verb without a noun of each number"] += 1
                    continue
                same, different = (drawn_order(nouns, f"{tree.text} {verb}")[0] for nouns in (some, other))
                one = _Pair(start + same, start + verb, "same")
                two = _Pair(start + different, start + verb, "different")
                by_number[own].append((one, two))
        n = min(len(by_number[number]) for number in _NUMBERS)
        pairs = list[_Pair]()
        for number in _NUMBERS:
            skipped["verb of the more frequent number"] += len(by_number[number]) - n
            pairs += [pair for both in drawn_order(by_number[number], number)[:n] for pair in both]
        return _examples(sentences, pairs, +skipped)


class _Tree(NamedTuple):
    """What the number of words is asked of; places of words in their sentence, from 0."""

    text: str
    numbers: list[str]  # number of each word, empty for none or another than singular and plural
    verbs: list[int]  # finite verbs and auxiliaries
    nouns: list[int]
    subjects: set[tuple[int, int]]
    """Each subject with the last finite verb of its clause."""


def _trees(sentences: Sentences) -> Iterator[tuple[int, _Tree]]:
    """The number of the first word of each sentence, and its tree; an error where there is none with numbers."""
    found = 0
    for start, sentence in zip(sentences.starts.tolist(), sentences, strict=False):
        if sentence.heads is not None and {"feats", "upos", "deprel"} <= sentence.layers.keys():
            tree = _tree(sentence, sentence.heads)
            found += any(tree.numbers)
            yield start, tree
    if not found:
        there = listed(sorted(sentences.layers))
        raise CorpusError(f"no word has a number (feats Number=Sing): give a treebank with features; layers: {there}")


def _tree(sentence: Sentence, heads: tuple[int, ...]) -> _Tree:
    features = [{*(one or "").split("|")} for one in sentence.layers["feats"]]
    numbers = [next((one for one in _NUMBERS if f"Number={one}" in some), "") for some in features]
    upos, relations = sentence.layers["upos"], [one or "" for one in sentence.layers["deprel"]]
    verbs = [place for place, tag in enumerate(upos) if tag in ("VERB", "AUX") and "VerbForm=Fin" in features[place]]
    subjects = set[tuple[int, int]]()
    for place, (head, relation) in enumerate(zip(heads, relations, strict=True)):
        if head and relation.partition(":")[0] == "nsubj" and relation != "nsubj:outer":
            finite = [one for one in verbs if one == head - 1 or (heads[one] == head and upos[one] == "AUX")]
            subjects |= {(place, one) for one in finite[-1:]}
    nouns = [place for place, tag in enumerate(upos) if tag in _NOUNS]
    return _Tree(sentence.text, numbers, verbs, nouns, subjects)


ARCS = Arcs()
NUMBER = ProbeFamily.among([SharedNumber()], argument="question about pairs", default=PairNumber())
