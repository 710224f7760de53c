"""Annotation of spans: IOB2 tags of words, how IOB1, BIOES and BILOU become IOB2, and mentions of the same thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from bertology.corpora._files import Oddities
from bertology.corpora._sentence import IGNORED, Target
from bertology.corpora._sentences import Integers, Sentences, WordLayer
from bertology.corpora.formats._words import Span
from bertology.errors import CorpusError, cut, quoted

IOB_TAG = re.compile(r"O|[BI]-\S+")
_IOB_LAYERS = ("chunk", "ner")
SPAN_TAG = re.compile(r"O|[BIESLUMW]-\S+")
"""A tag of any scheme: IOB; or those with marks of last words (E, L) and single ones (S, U, W), as BIOES and BILOU."""
_LAST, _SINGLE = ("E", "L"), ("S", "U", "W")
_WITH_ENDS = (*_LAST, *_SINGLE, "M")


class NotIob(ValueError):  # noqa: N818 - turned into a CorpusError by whoever knows file and line
    """A tag that fits no scheme, with the number of its ``word``."""

    def __init__(self, word: int, message: str) -> None:
        super().__init__(message)
        self.word = word


def to_iob2(layer: WordLayer, starts: Integers) -> tuple[WordLayer, NDArray[np.int64]]:
    """The layer in IOB2, where each span begins with B-.

    A layer that marks last or single words of spans (BIOES, BILOU) has to do so throughout.

    A layer that has B- only where a span follows another of its type is IOB1 (Ramshaw & Marcus 1995), as CoNLL-2003
    is: the I- that begin spans become B-. In any other layer an I- that begins a span (after O, after another type,
    or at a sentence's start) is an error, for it may as well be a lost B- as a lost word.

    No value, and −100, which losses ignore, count as outside; ``starts [sentence + 1]`` is the first word of each
    sentence.

    Returns:
        The layer, and the numbers of the words whose tags are others now (none where it was IOB2).

    Raises:
        NotIob: a tag is malformed, I- begins a span in a layer that is not IOB1, or a span has no end in one with ends.
    """
    for code, value in enumerate(layer.values):
        if not SPAN_TAG.fullmatch(value) and value not in IGNORED:
            word = int(np.argmax(layer.codes == code))
            raise NotIob(word, f"tag {quoted(value)} is not O, B-TYPE or I-TYPE")
    types = {value[2:]: number for number, value in enumerate(layer.values, 1) if value not in {"O", *IGNORED}}
    type_of = np.array([types.get(value[2:], 0) for value in layer.values] + [0])[layer.codes]  # 0: outside
    before = np.concatenate([[0], type_of[:-1]])
    before[starts[:-1]] = 0
    if has_ends(layer):
        return _without_ends(layer, type_of, before)
    begins = np.array([value.startswith("B") for value in layer.values] + [False])[layer.codes]
    opens = (type_of > 0) & (type_of != before)
    bare = np.flatnonzero(opens & ~begins)
    if len(bare) and np.any(opens & begins):
        tag = layer.values[layer.codes[bare[0]]]
        reason = f"tag {cut(tag)} begins a span in a file that is IOB2 elsewhere; write B-{cut(tag[2:])}"
        raise NotIob(int(bare[0]), reason)
    return _with_b(layer, bare), bare


def has_ends(layer: WordLayer) -> bool:
    """Whether a layer is of a scheme that marks the last or the single words of spans, as BIOES and BILOU do."""
    values = [value for value in layer.values if value not in IGNORED]
    return all(map(SPAN_TAG.fullmatch, values)) and any(value.startswith(_WITH_ENDS) for value in values)


def _without_ends(layer: WordLayer, type_of: Integers, before: Integers) -> tuple[WordLayer, NDArray[np.int64]]:
    """The layer in IOB2, of a scheme with ends; by word its type and that of the word before, 0 for none."""
    marks = np.array([value[0] for value in layer.values] + ["O"])[layer.codes]
    begins, ends = np.isin(marks, ("B", *_SINGLE)), np.isin(marks, (*_LAST, *_SINGLE))
    continues, stays_open = (type_of > 0) & ~begins, (type_of > 0) & ~ends
    was_open = np.concatenate([[False], stays_open[:-1]]) & (before == type_of)
    goes_on = np.append((continues & was_open)[1:], False)
    wrong = np.flatnonzero((continues & ~was_open) | (stays_open & ~goes_on))
    if len(wrong):
        tag = layer.values[layer.codes[wrong[0]]]
        is_orphan = continues[wrong[0]] and not was_open[wrong[0]]
        what = "continues no span" if is_orphan else "begins or continues a span that has no end"
        marked = "BILOU" if any(value.startswith(("L", "U")) for value in layer.values) else "BIOES"
        raise NotIob(int(wrong[0]), f"tag {cut(tag)} {what} in a file that is {marked}; mend the tags of this sentence")
    tags = [
        value if value in {"O", *IGNORED} else f"{'B' if value[0] in ('B', *_SINGLE) else 'I'}{value[1:]}"
        for value in layer.values
    ]
    values = tuple(dict.fromkeys(tags))
    codes = np.array([*map(values.index, tags), -1], dtype=layer.codes.dtype)[layer.codes]
    return WordLayer(codes, values), np.flatnonzero(np.isin(marks, _WITH_ENDS))


def _with_b(layer: WordLayer, words: NDArray[np.int64]) -> WordLayer:
    """The layer with the I- of ``words`` made B-."""
    if not len(words):
        return layer
    code_of = {value: code for code, value in enumerate(layer.values)}
    codes = layer.codes.copy()
    for code in np.unique(layer.codes[words]):
        begin = "B-" + layer.values[code][2:]
        codes[words[layer.codes[words] == code]] = code_of.setdefault(begin, len(code_of))
    return WordLayer(codes, tuple(code_of))


def entities_of(tags: Sequence[str | None]) -> tuple[Target, ...]:
    """The spans that the IOB2 tags of one sentence mark, in order, each labelled by its type; no tag means outside.

    Raises:
        CorpusError: a tag is malformed, or I- begins a span.
    """
    spans: list[Target] = []
    start, kind = 0, ""
    for place, tag in enumerate((*tags, "O")):
        tag = "O" if tag is None or tag in IGNORED else tag
        if not IOB_TAG.fullmatch(tag):
            raise CorpusError(f"word {place + 1}: tag {quoted(tag)} is not O, B-TYPE or I-TYPE")
        if tag[0] == "I" and tag[2:] != kind:
            raise CorpusError(f"word {place + 1}: tag {cut(tag)} begins a span; write B-{cut(tag[2:])}")
        if tag[0] != "I":
            if kind:
                spans.append(Target((start, place), kind))
            start, kind = place, tag[2:]
    return tuple(spans)


def entities_in(sentences: Sentences) -> dict[int, tuple[Target, ...]]:
    """The entities that the IOB2 layer ``ner`` marks, by number of sentence; those without any are left out."""
    layer = sentences.layers["ner"]
    begins = np.array([value.startswith("B") for value in layer.values] + [False])[layer.codes]
    with_some = np.unique(sentences.sentence_of_word[begins]).tolist()
    starts = sentences.starts
    return {number: entities_of(layer.decoded(starts[number], starts[number + 1])) for number in with_some}


def with_iob2(sentences: Sentences, place: Callable[[int], str], oddities: Oddities) -> Sentences:
    """The sentences with the layers ``ner`` and ``chunk`` in IOB2, and the ``entities`` that follow from ``ner``.

    So are any other layers of a scheme with ends.

    ``place`` gives where a word stands, as ``file:line``, for errors; notes have the name of the file alone.

    Raises:
        CorpusError: a tag is malformed, or a span does not begin or end as the scheme has it.
    """
    repaired = {}
    for name, layer in sentences.layers.items():
        if name not in _IOB_LAYERS and not has_ends(layer):
            continue
        try:
            repaired[name], changed = to_iob2(layer, sentences.starts)
        except NotIob as error:
            raise CorpusError(f"{place(error.word)}: {name} {error}") from None
        if len(changed):
            where = PurePath(place(int(changed[0]))).name
            scheme = "BIOES or BILOU" if has_ends(layer) else "IOB1"
            oddities.note(f"{name} tags turned from {scheme} into IOB2", where, times=len(changed))
    sentences = sentences.with_layers(repaired)
    return sentences.with_derived("entities", entities_in(sentences)) if "ner" in sentences.layers else sentences


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of words that refers to an entity."""

    span: Span
    entity: str
    """Identifier shared by all mentions of the entity."""
    type: str = ""


def coreference(mentions: Iterable[Mention]) -> tuple[Target, ...]:
    """Every pair of mentions in a sentence, the earlier first: ``"1"`` if they corefer, else ``"0"``.

    Mentions inside one another are pairs too, as in Tenney et al. 2019 (section 3).
    """
    entity_of: dict[Span, set[str]] = {}
    for mention in mentions:
        entity_of.setdefault(mention.span, set()).add(mention.entity)
    return tuple(
        Target(one, "1" if entity_of[one] & entity_of[other] else "0", other)
        for one, other in combinations(sorted(entity_of), 2)
    )
