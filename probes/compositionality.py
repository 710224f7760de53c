"""Compositionality: how near is the vector of a phrase in context to the mean of its words' vectors elsewhere?

The cosine of the vector of an expression with the mean of the vectors of its words is the direct composition
(Direct-pre) of Nandakumar et al. (2019), *How Well Do Embedding Models Capture Non-compositionality? A View from
Multiword Expressions*, there of one vector each by expression and by word. Of a model in context the vector of a phrase
is the mean of its words' vectors, as in Garcia et al. (2021), *Probing for Idiomaticity in Vector Space Models*: its
cosine with the mean of these would always be 1. Therefore the words are taken from other contexts: each is represented
by the mean vector of all its occurrences outside of the phrase.

Phrases are a word and its neighbours in a relation ``compound``, ``fixed`` or ``flat`` (with their subtypes), and
for comparison adjectives with their noun, ``amod``; each relation is a group. Vectors of a layer may all be alike:
from the cosine that with the words of another phrase of the relation is taken, drawn at random among those that share
no word with it. Intervals are over phrase types, which weigh alike. Low values mean that words have another vector in
the phrase than elsewhere, be it an idiom, a name, or any other context that words are found in: compare relations with
``amod``, and layers with the embeddings, where only the place of words in their sentences differs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bertology.activations.layers import Floats32, Groups, span_means, unit_vectors
from bertology.corpora import Sentences
from bertology.errors import CorpusError, listed
from bertology.geometry import GeometryProbe
from bertology.geometry.probes import TextItems
from bertology.measures import sum_metric
from bertology.measures.sums import Integers, LayerSums, mean_sums
from bertology.probing import GeometryCounts, Splits
from bertology.probing.items import SplitVectors, SplitWords, is_punctuation

_EXPRESSIONS = ("compound", "fixed", "flat")
_FREE = "amod"


class _Phrases(NamedTuple):
    """Phrases of a text and the occurrences of their words elsewhere; types are numbered from 0."""

    spans: Integers  # `[phrase, 2]` words of each occurrence, numbered through the split, end exclusive
    types: Integers  # `[phrase]`
    relations: tuple[str, ...]  # `[type]`
    others: Integers  # `[type]` another type of the same relation, drawn at random, that shares no word with it
    elsewhere: Integers  # `[occurrence]` words outside of the phrase, of all words of all types one after the other
    parts: Integers  # `[occurrence]` number of the word of a type that each is, numbered through all types
    bounds: Integers  # `[type, 2]` the words of each type among these numbers


@dataclass(frozen=True)
class Compositionality(GeometryProbe):
    """How near is a phrase in context to the mean of its words in other contexts?"""

    least_elsewhere: int = 2
    """Occurrences outside of the phrase that each of its words has to have."""
    task = "compositionality"
    reference = "cf. Nandakumar et al. 2019; Garcia et al. 2021"
    metrics = (
        sum_metric(
            "composition_adjusted",
            "cosine of a phrase and its words elsewhere, minus that with the words of another; groups: relations",
        ),
        sum_metric("composition", "cosine of a phrase's vector with the mean of its words' vectors elsewhere"),
        sum_metric("composition_baseline", "cosine of a phrase's vector with the words of another phrase elsewhere"),
    )

    def items(self, sentences: Splits, words: SplitWords | None = None) -> TextItems:
        """Phrases whose words all occur elsewhere, in random sentences of the test split.

        Raises:
            CorpusError: the text has no trees, or no relation has two types of such phrases.
        """
        every, text = super().items(sentences, words).words, sentences["test"]
        phrases, skipped = _phrases(text, every["test"], self.least_elsewhere)
        return TextItems(every, GeometryCounts(len(phrases.spans), skipped=skipped, unit="phrases"), phrases)

    def statistics(self, vectors: SplitVectors, sentences: Splits, items: TextItems) -> Iterator[LayerSums]:
        """Cosines by phrase type, of each relation and of all expressions but free ones."""
        phrases: _Phrases = items.data
        words, others = vectors["test"].words, phrases.others
        places, elsewhere = np.searchsorted(words, phrases.spans), np.searchsorted(words, phrases.elsewhere)
        weights = 1 / np.bincount(phrases.types)[phrases.types]
        groups = Groups(phrases.parts)
        of_phrase = np.array(phrases.relations, dtype=object)[phrases.types]

        def measure(number: int, layer: Floats32) -> Iterator[LayerSums]:
            inside = unit_vectors(span_means(layer, places), number)
            composed = unit_vectors(span_means(groups.means(layer[elsewhere]), phrases.bounds), number)
            own = np.einsum("pd,pd->p", inside, composed[phrases.types]).astype(np.float64)
            other = np.einsum("pd,pd->p", inside, composed[others[phrases.types]]).astype(np.float64)
            named = {"composition_adjusted": own - other, "composition": own, "composition_baseline": other}
            for metric, values in named.items():
                for group in ("", *dict.fromkeys(phrases.relations)):
                    is_in = of_phrase == group if group else of_phrase != _FREE
                    if is_in.any():
                        which = np.where(is_in, weights, 0.0)
                        yield mean_sums(metric, values, phrases.types, weights=which, kind="types", group=group)

        return vectors["test"].statistics(measure)


def _others(types: Sequence[tuple[str, ...]]) -> list[int | None]:
    """For each type, a relation and forms, another of the relation at random that shares no form; None without one."""
    places, others, dice = defaultdict[str, list[int]](list), list[int | None](), np.random.default_rng(0)
    for place, (relation, *_) in enumerate(types):
        places[relation].append(place)
    for relation, *forms in types:
        drawn = dice.permutation(places[relation]).tolist()
        others.append(next((one for one in drawn if not {*forms} & {*types[one][1:]}), None))
    return others


def _phrases(text: Sentences, words: Integers, least: int) -> tuple[_Phrases, Counter[str]]:
    """The phrases among some words of a text, and the numbers of those left out, by reason."""
    skipped, by_type = Counter[str](), defaultdict[tuple[str, ...], list[tuple[int, int]]](list)
    is_read, lower = np.zeros(text.n_words, dtype=np.bool_), [form.lower() for form in text.forms.values]
    is_read[words] = True
    of_form = defaultdict[str, list[int]](list)
    for word in words.tolist():
        of_form[lower[text.forms.codes[word]]].append(word)
    for (head, relation), dependents in _dependents(text).items():
        places = sorted([head, *dependents])
        first, last = places[0], places[-1] + 1
        if last - first != len(places):
            skipped["phrase with other words between"] += 1
        elif is_read[first:last].all() and not is_punctuation(text, np.arange(first, last)).any():
            by_type[relation, *(lower[text.forms.codes[word]] for word in places)].append((first, last))
    kept = dict[tuple[str, ...], list[list[int]]]()
    for (relation, *forms), spans in sorted(by_type.items()):
        inside = {word for first, last in spans for word in range(first, last)}
        elsewhere = [[word for word in of_form[form] if word not in inside] for form in forms]
        if min(map(len, elsewhere)) >= least:
            kept[relation, *forms] = elsewhere
        else:
            skipped[f"phrase with a word that occurs elsewhere fewer than {least} times"] += len(spans)
    # A type that is left out shares a word with all others, so that it is drawn for none of them.
    for one, other in zip([*kept], _others([*kept]), strict=True):
        if other is None:
            skipped["phrase without another of its relation and of other words"] += len(by_type[one])
            del kept[one]
    if not kept:
        raise CorpusError("no relation has two phrases whose words occur elsewhere: give a larger treebank")
    parts, ends = list(range(sum(len(one) - 1 for one in kept))), np.cumsum([len(one) - 1 for one in kept])
    every = [occurrences for elsewhere in kept.values() for occurrences in elsewhere]
    phrases = _Phrases(
        spans=np.array([span for one in kept for span in by_type[one]], dtype=np.int64),
        types=np.repeat(np.arange(len(kept)), [len(by_type[one]) for one in kept]),
        relations=tuple(relation for relation, *_ in kept),
        others=np.array(_others([*kept]), dtype=np.int64),
        elsewhere=np.concatenate(every),
        parts=np.repeat(parts, list(map(len, every))),
        bounds=np.stack([np.append(0, ends[:-1]), ends], axis=1),
    )
    return phrases, skipped


def _dependents(text: Sentences) -> dict[tuple[int, str], list[int]]:
    """The dependents of words by head and relation, of the relations asked about; words numbered through."""
    relations = text.layers.get("deprel")
    if text.heads is None or relations is None:
        raise CorpusError(f"no word has a head and a relation: the annotation layers are {listed(sorted(text.layers))}")
    is_asked = [value.partition(":")[0] in (*_EXPRESSIONS, _FREE) for value in (*relations.values, "")]
    dependents = np.flatnonzero(np.array(is_asked)[relations.codes] & (text.heads > 0))
    heads = (text.starts[text.sentence_of_word] + text.heads - 1)[dependents]
    found = defaultdict[tuple[int, str], list[int]](list)
    for word, head in zip(dependents.tolist(), heads.tolist(), strict=True):
        found[head, relations.values[relations.codes[word]]].append(word)
    return found


PROBE = Compositionality()
