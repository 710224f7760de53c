"""Regular English inflection, and the exceptions that the pocket world needs."""

from __future__ import annotations

import re

_SIBILANT = re.compile(r"(s|x|z|ch|sh|[^aeiou]o)$")
_SHORT = re.compile(r"^[^aeiou]*[aeiou][^aeiouwxy]$")
_THIRD_PERSON = {"have": "has", "do": "does", "be": "is"}
_DOUBLING = {"forget"}


def with_s(base: str) -> str:
    """The plural of a regular noun: *box* → *boxes*, *story* → *stories*."""
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if _SIBILANT.search(base) else "s")


def third_person(base: str) -> str:
    """The third person singular present of a verb."""
    return _THIRD_PERSON.get(base) or with_s(base)


def with_ed(base: str) -> str:
    """The regular past: *stop* → *stopped*, *try* → *tried*, *like* → *liked*."""
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return _doubled(base) + "ed"


def with_ing(base: str) -> str:
    """The present participle: *run* → *running*, *lie* → *lying*, *like* → *liking*."""
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")) and base != "be":
        return base[:-1] + "ing"
    return _doubled(base) + "ing"


def _doubled(base: str) -> str:
    return base + base[-1] if _SHORT.match(base) or base in _DOUBLING else base
