"""Annotation of spans: IOB2 tags of words, how IOB1 becomes IOB2, and mentions of the same thing."""

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
_OTHER_SCHEMES = re.compile(r"[SELUMW]-\S+")


class NotIob(ValueError):  # noqa: N818 - turned into a CorpusError by whoever knows file and line
    """A tag that fits no scheme, with the number of its ``word``."""

    def __init__(self, word: int, message: str) -> None:
        super().__init__(message)
        self.word = word


def to_iob2(layer: WordLayer, starts: Integers) -> tuple[WordLayer, NDArray[np.int64]]:
    """The layer in IOB2, where each span begins with B-.

    A layer that has B- only where a span follows another of its type is IOB1 (Ramshaw & Marcus 1995), as CoNLL-2003
    is: the I- that begin spans become B-. In any other layer an I- that begins a span (after O, after another type,
    or at a sentence's start) is an error, for it may as well be a lost B- as a lost word.

    No value, and −100, which losses ignore, count as outside; ``starts [sentence + 1]`` is the first word of each
    sentence.

    Returns:
        The layer, and the numbers of the words whose I- became B- (none where it was IOB2).

    Raises:
        NotIob: a tag is malformed, or I- begins a span in a layer that is not IOB1.
    """
    for code, value in enumerate(layer.values):
        if not IOB_TAG.fullmatch(value) and value not in IGNORED:
            scheme = " (IOBES or BILOU: convert them)" if _OTHER_SCHEMES.fullmatch(value) else ""
            word = int(np.argmax(layer.codes == code))
            raise NotIob(word, f"tag {quoted(value)} is not O, B-TYPE or I-TYPE{scheme}")
    begins = np.array([value.startswith("B") for value in layer.values] + [False])[layer.codes]
    types = {value[2:]: number for number, value in enumerate(layer.values, 1) if value not in {"O", *IGNORED}}
    type_of = np.array([types.get(value[2:], 0) for value in layer.values] + [0])[layer.codes]  # 0: outside
    before = np.concatenate([[0], type_of[:-1]])
    before[starts[:-1]] = 0
    opens = (type_of > 0) & (type_of != before)
    bare = np.flatnonzero(opens & ~begins)
    if len(bare) and np.any(opens & begins):
        tag = layer.values[layer.codes[bare[0]]]
        reason = f"tag {cut(tag)} begins a span in a file that is IOB2 elsewhere; write B-{cut(tag[2:])}"
        raise NotIob(int(bare[0]), reason)
    return _with_b(layer, bare), bare


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

    ``place`` gives where a word stands, as ``file:line``, for errors; notes have the name of the file alone.

    Raises:
        CorpusError: a tag is malformed, or I- begins a span in a layer that is not IOB1.
    """
    repaired = {}
    for name in [name for name in _IOB_LAYERS if name in sentences.layers]:
        try:
            repaired[name], changed = to_iob2(sentences.layers[name], sentences.starts)
        except NotIob as error:
            raise CorpusError(f"{place(error.word)}: {name} {error}") from None
        if len(changed):
            where = PurePath(place(int(changed[0]))).name
            oddities.note(f"{name} tags turned from IOB1 into IOB2", where, times=len(changed))
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
