"""Words and the spaces between them: words of raw text, spacing as a text shows it, and rules of Penn tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pkgutil import iter_modules
from typing import TYPE_CHECKING

import regex

from bertology._names import name_not_found
from bertology.corpora._sentence import Sentence, Target
from bertology.errors import CorpusError, quoted

if TYPE_CHECKING:
    from spacy.tokenizer import Tokenizer
    from spacy.tokens import Doc

Span = tuple[int, int]
MASK = "[MASK]"
JOINED = "sentences without spacing, words joined by single spaces"
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}
_ESCAPED = {**_BRACKETS, "``": '"', "''": '"', "`": "'"}
_OPENING = frozenset(["``", "`", "-LRB-", "-LCB-", "-LSB-", "(", "[", "{", "$", "#", "US$", "C$", "A$", "HK$"])
_CLOSING = frozenset([",", ".", ";", ":", "?", "!", "%", "''", "-RRB-", "-RCB-", "-RSB-", ")", "]", "}", "n't", "N'T"])
_CLITICS = frozenset(["'s", "'S", "'", "'re", "'ve", "'m", "'ll", "'d"])
_MASK = re.compile(r"\{mask\}|\[MASK\]|<mask>")
_WORD_BOUNDARIES = regex.V1 | regex.WORD
"""``\\b`` is a word boundary of Unicode Standard Annex 29."""
_LETTER = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Line_Break=SA}]"
_UNSPACED = rf"{_LETTER}\b{_LETTER}"
"""Two letters of scripts without spaces, of which no rule says whether a word ends between them; those of the line
breaking class SA are Thai, Lao, Khmer, Burmese and their kin."""
_SEGMENTED = {"zh": "pip install jieba", "ja": "pip install sudachipy sudachidict_core", "th": "pip install pythainlp"}
"""Languages without spaces between words that spaCy has a tokenizer for, and what that needs."""
_WRITTEN_AS_ONE = frozenset(["cannot", "gonna", "gotta"])


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


def sentence_of_text(
    text: str, *, language: str | None = None, split_at_spaces: bool = False, name: str = "", where: str = ""
) -> Sentence:
    """A text as a sentence without annotation.

    Words are what stands between the word boundaries of Unicode Standard Annex 29, in whatever language: *don't*,
    *aujourd'hui*, an emoji, a flag and a mark of punctuation are one word each. Where the language is named, spaCy's
    rules for it find them instead; those of English cut *don't* into *do* and *n't*, as treebanks do.

    >>> sentence_of_text("Ich bin im Haus: geht's?").words
    ('Ich', 'bin', 'im', 'Haus', ':', "geht's", '?')
    >>> sentence_of_text("We don't know his id.", language="en").words
    ('We', 'do', "n't", 'know', 'his', 'id', '.')

    Args:
        text: white space around it is left out.
        language: its code, such as ``en``, ``fr`` or ``zh``.
        split_at_spaces: words are what white space parts.
        name: identifier of the sentence.
        where: what error messages begin with.

    Raises:
        CorpusError: there is no word in the text; it is of a script without spaces between words and its language is
            not named; or what finds words of the language is not installed.
        NameNotFoundError: spaCy has no language of that code.
    """
    text = text.strip()
    if split_at_spaces and language is not None:
        raise CorpusError(f"{where}words split at spaces need no language ({quoted(language)}): choose one of both")
    words = [match.span() for match in re.finditer(r"\S+", text)]
    if not split_at_spaces:
        words = text_words(text, language, where=where)
    if not words:
        raise CorpusError(f"{where}there is no word in the sentence: give some text")
    return sentence_of(text, words, name, {})


def text_words(text: str, language: str | None = None, *, where: str = "") -> list[Span]:
    """The position of each word in a text (code points, end exclusive), found as by :func:`sentence_of_text`; a mask is
    one word."""
    if language not in _SEGMENTED and (found := regex.search(_UNSPACED, text, _WORD_BOUNDARIES)):
        run = re.split(r"\s", text[: found.start()])[-1] + re.split(r"\s", text[found.start() :])[0]
        raise CorpusError(
            f"{where}{quoted(run)} has no spaces between its words: name the language (language='zh', 'ja' or 'th'; "
            "--language), give lists of words, or split at spaces (--split-at-spaces)"
        )
    words: list[Span] = []
    start = 0
    for mask in (*_MASK.finditer(text), None):
        end = len(text) if mask is None else mask.start()
        inside = _unicode_words if language is None else _tokenizer(language)
        words += ((start + first, start + last) for first, last in inside(text[start:end]))
        if mask is not None:
            words.append(mask.span())
            start = mask.end()
    return words


def _unicode_words(text: str) -> list[Span]:
    matches = regex.finditer(r".+?\b", text, _WORD_BOUNDARIES | regex.DOTALL)
    return [match.span() for match in matches if not match[0].isspace()]


@lru_cache
def _tokenizer(language: str) -> Callable[[str], list[Span]]:
    """The words of texts by spaCy's rules for a language; a character of several code points is never cut."""
    tokenizer = _english() if language == "en" else _of_language(language)

    def words(text: str) -> list[Span]:
        found = [(token.idx, token.idx + len(token)) for token in tokenizer(text) if not token.text.isspace()]
        if text.isascii():
            return found
        inside = {place for match in regex.finditer(r"\X", text) for place in range(match.start() + 1, match.end())}
        whole: list[Span] = []
        for start, end in found:
            first = whole.pop()[0] if start in inside and whole and whole[-1][1] == start else start
            whole.append((first, end))
        return whole

    return words


def _of_language(language: str) -> Callable[[str], Doc]:
    import spacy
    import spacy.lang

    names = [module.name for module in iter_modules(spacy.lang.__path__) if module.ispkg]
    if language not in names:
        raise name_not_found("language", language, names)
    config = {"nlp": {"tokenizer": {"segmenter": "jieba"}}} if language == "zh" else {}
    try:
        tokenizer: Callable[[str], Doc] = spacy.blank(language, config=config).tokenizer
    except ImportError as error:
        needed = _SEGMENTED.get(language) or " ".join(str(error).split())
        raise CorpusError(
            f"words of language {language!r} are found by a package that is not installed ({needed}): install it, give "
            "lists of words, or split at spaces"
        ) from None
    return tokenizer


def _english() -> Tokenizer:
    from spacy.lang.en import English
    from spacy.tokenizer import Tokenizer
    from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex
    from spacy.vocab import Vocab

    rules = English.Defaults
    # Spellings without an apostrophe are words of their own as well: id, wed, cant, im.
    exceptions = {
        form: parts
        for form, parts in rules.tokenizer_exceptions.items()
        if len(parts) == 1 or not form.isalpha() or form.lower() in _WRITTEN_AS_ONE
    }
    # A vocabulary that learns nothing of its words (shape, case …): that would take longer than to find them.
    return Tokenizer(
        Vocab(),
        rules=exceptions,
        prefix_search=compile_prefix_regex(rules.prefixes or ()).search,
        suffix_search=compile_suffix_regex(rules.suffixes or ()).search,
        infix_finditer=compile_infix_regex(rules.infixes or ()).finditer,
        token_match=rules.token_match,
        url_match=rules.url_match,
    )


def words_within(words: list[Span], start: int, end: int) -> Span:
    """The words that share a character with ``start`` to ``end``, as a span; empty where there is none."""
    inside = [index for index, (first, last) in enumerate(words) if first < end and start < last]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)


def sentence_of(text: str, words: list[Span], name: str, targets: Mapping[str, tuple[Target, ...]]) -> Sentence:
    """The sentence of a text and its words."""
    return Sentence(name, text, tuple(text[start:end] for start, end in words), tuple(words), targets=targets)
