"""Words and the spaces between them: spacing as a text shows it, rules of Penn tokens, and English tokenisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from bertology.corpora._sentence import Sentence, Target

if TYPE_CHECKING:
    from spacy.tokenizer import Tokenizer

Span = tuple[int, int]
MASK = "[MASK]"
JOINED = "sentences without spacing, words joined by single spaces"
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}
_ESCAPED = {**_BRACKETS, "``": '"', "''": '"', "`": "'"}
_OPENING = frozenset(["``", "`", "-LRB-", "-LCB-", "-LSB-", "(", "[", "{", "$", "#", "US$", "C$", "A$", "HK$"])
_CLOSING = frozenset([",", ".", ";", ":", "?", "!", "%", "''", "-RRB-", "-RCB-", "-RSB-", ")", "]", "}", "n't", "N'T"])
_CLITICS = frozenset(["'s", "'S", "'", "'re", "'ve", "'m", "'ll", "'d"])


def spacing_in(text: str, words: Sequence[str]) -> list[bool] | None:
    """Whether white space follows each word in ``text``; ``None`` when it does not hold just these words."""
    spaced: list[bool] = []
    place = 0
    for word in words:
        if not text.startswith(word, place):
            return None
        place += len(word)
        gap = len(text[place:]) - len(text[place:].lstrip())
        spaced.append(gap > 0)
        place += gap
    return spaced if place == len(text) else None


def penn_words(tokens: Sequence[str], tags: Sequence[str | None]) -> tuple[list[str], list[bool]]:
    r"""Words as people write them, and whether a space follows each, from the tokens of the Penn Treebank.

    Brackets, slashes and quotation marks are written plainly again (``-LRB-`` as ``(``, ``\/`` as ``/``, two
    backquotes as ``"``). Treebanks do not say where spaces were; the rules here are those that tokenisation undoes:
    none before closing punctuation and clitics (*'s*, *n't*), none after what opens a quotation or bracket or a sum
    of money, none around the hyphens that OntoNotes splits off. ``tags``, the parts of speech as far as known, tell a
    clitic from an opening quotation mark.
    """
    tokens = [_lone_mark(token) for token in tokens]
    spaced = [True] * len(tokens)
    for index, (token, tag) in enumerate(zip(tokens, tags, strict=True)):
        clitic = token in _CLITICS and tag not in ("``", "CD")
        if index and (token in _CLOSING or clitic or tag == "HYPH"):
            spaced[index - 1] = False
        if token in _OPENING or tag == "HYPH":
            spaced[index] = False
    if spaced:
        spaced[-1] = True
    return [_ESCAPED.get(token) or token.replace("\\/", "/").replace("\\*", "*") for token in tokens], spaced


def _lone_mark(token: str) -> str:
    """The mark that OntoNotes writes with a slash when it is a token of its own: ``/.``, ``/?``."""
    return token[1] if len(token) == 2 and token[0] == "/" and not token[1].isalnum() else token


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
    """The position of each word in a text (code points, end exclusive); a mask is one word."""
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
