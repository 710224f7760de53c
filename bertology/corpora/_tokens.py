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
    from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex
    from spacy.vocab import Vocab

    rules = English.Defaults
    # A vocabulary that learns nothing of its words (shape, case …): that would take longer than to find them.
    tokenizer = Tokenizer(
        Vocab(),
        rules=rules.tokenizer_exceptions,
        prefix_search=compile_prefix_regex(rules.prefixes or ()).search,
        suffix_search=compile_suffix_regex(rules.suffixes or ()).search,
        infix_finditer=compile_infix_regex(rules.infixes or ()).finditer,
        token_match=rules.token_match,
        url_match=rules.url_match,
    )
    tokenizer.add_special_case(MASK, [{ORTH: MASK}])
    return tokenizer


def english_words(text: str) -> list[Span]:
    """Where each word of a text stands in it (code points, end exclusive); a masked place is one word."""
    return [(token.idx, token.idx + len(token)) for token in _tokenizer()(text) if not token.text.isspace()]


def english_sentence(text: str, *, name: str = "") -> Sentence:
    """A sentence without annotation, its words found by :func:`english_words`."""
    return sentence_of(text, english_words(text), name, {})


def words_within(words: list[Span], start: int, end: int) -> Span:
    """The words that share a character with ``start`` to ``end``, as a span; empty where there is none."""
    inside = [index for index, (first, last) in enumerate(words) if first < end and start < last]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)


def sentence_of(text: str, words: list[Span], name: str, targets: Mapping[str, tuple[Target, ...]]) -> Sentence:
    """The sentence of a text and its words."""
    return Sentence(name, text, tuple(text[start:end] for start, end in words), tuple(words), targets=targets)
