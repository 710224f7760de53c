"""Tags of spans by word: IOB2, and how IOB1 becomes it."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from bertology.corpora._sentences import Integers
from bertology.corpora._storage import WordLayer

IOB_TAG = re.compile(r"O|[BI]-\S+")
_OTHER_SCHEMES = re.compile(r"[SELUMW]-\S+")


class NotIob(ValueError):  # noqa: N818 - turned into a CorpusError by whoever knows file and line
    """A tag that fits no scheme: ``word`` is its number, the message says why."""

    def __init__(self, word: int, message: str) -> None:
        super().__init__(message)
        self.word = word


def to_iob2(layer: WordLayer, starts: Integers) -> tuple[WordLayer, NDArray[np.int64]]:
    """The layer in IOB2, where each span begins with B-.

    A layer that has B- only where a span follows another of its type is IOB1 (Ramshaw & Marcus 1995), as CoNLL-2003
    is: the I- that begin spans become B-. In any other layer an I- that begins a span (after O, after another type,
    or at a sentence's start) is an error, for it may as well be a lost B- as a lost word.

    Args:
        layer: tags of all words; no value counts as outside.
        starts: ``[sentence + 1]`` first word of each sentence.

    Returns:
        The layer, and the numbers of the words whose I- became B- (none where it was IOB2).

    Raises:
        NotIob: a tag is malformed, or I- begins a span in a layer that is not IOB1.
    """
    for code, value in enumerate(layer.values):
        if not IOB_TAG.fullmatch(value):
            scheme = " (IOBES or BILOU: convert them)" if _OTHER_SCHEMES.fullmatch(value) else ""
            word = int(np.argmax(layer.codes == code))
            raise NotIob(word, f"tag {value!r} is not O, B-TYPE or I-TYPE{scheme}")
    begins = np.array([value.startswith("B") for value in layer.values] + [False])[layer.codes]
    types = {value[2:]: number for number, value in enumerate(layer.values, 1) if value != "O"}
    type_of = np.array([types.get(value[2:], 0) for value in layer.values] + [0])[layer.codes]  # 0: outside
    before = np.concatenate([[0], type_of[:-1]])
    before[starts[:-1]] = 0
    opens = (type_of > 0) & (type_of != before)
    bare = np.flatnonzero(opens & ~begins)
    if len(bare) and np.any(opens & begins):
        tag = layer.values[layer.codes[bare[0]]]
        raise NotIob(int(bare[0]), f"tag {tag} begins a span in a file that is IOB2 elsewhere; write B-{tag[2:]}")
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
