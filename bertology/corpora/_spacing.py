"""Where spaces stand between words: seen in a text that holds them, or by the rules of Penn tokens."""

from __future__ import annotations

from collections.abc import Sequence

_ESCAPED = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LCB-": "{",
    "-RCB-": "}",
    "-LSB-": "[",
    "-RSB-": "]",
    "``": '"',
    "''": '"',
    "`": "'",
}
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
    of money, none around the hyphens that OntoNotes splits off.

    Args:
        tokens: as they stand in the treebank.
        tags: their parts of speech, as far as known, which tell a clitic from an opening quotation mark.
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
    return [_unescaped(token) for token in tokens], spaced


def _lone_mark(token: str) -> str:
    """The mark that OntoNotes writes with a slash when it is a token of its own: ``/.``, ``/?``."""
    return token[1] if len(token) == 2 and token[0] == "/" and not token[1].isalnum() else token


def _unescaped(token: str) -> str:
    return _ESCAPED.get(token) or token.replace("\\/", "/").replace("\\*", "*")
