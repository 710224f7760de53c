"""Words of English text that comes without any: by the rules of spaCy's tokeniser, which knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from bertology.corpora._sentence import Sentence, Target

if TYPE_CHECKING:
    from spacy.tokenizer import Tokenizer

Span = tuple[int, int]

MASK = "[MASK]"


@lru_cache(maxsize=1)
def _tokenizer() -> Tokenizer:
    from spacy.attrs import ORTH
    from spacy.lang.en import English
    from spacy.tokenizer import Tokenizer

    tokenizer = English().tokenizer
    assert isinstance(tokenizer, Tokenizer)
    tokenizer.add_special_case(MASK, [{ORTH: MASK}])
    return tokenizer


def english_words(text: str) -> list[Span]:
    """Where each word of a text stands in it (code points, end exclusive); a masked place is one word."""
    return [(token.idx, token.idx + len(token)) for token in _tokenizer()(text) if not token.is_space]


def words_within(words: list[Span], start: int, end: int) -> Span:
    """The words that share a character with ``start`` to ``end``, as a span; empty where there is none."""
    inside = [index for index, (first, last) in enumerate(words) if first < end and start < last]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)


def sentence_of(text: str, words: list[Span], name: str, targets: Mapping[str, tuple[Target, ...]]) -> Sentence:
    """The sentence of a text and its words."""
    return Sentence(name, text, tuple(text[start:end] for start, end in words), tuple(words), targets=targets)
