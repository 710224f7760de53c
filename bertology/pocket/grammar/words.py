"""The word lists of the pocket world, from ``words.toml``, which documents how they are written."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_LISTS: Final[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def _listed(name: str) -> list[str]:
    words: str = _LISTS[name]
    return words.split()


TRADES = _listed("trades")
"""What people work as."""
NOUNS: Mapping[str, str] = {**_LISTS["nouns"], "person": f"{_LISTS['trades']} {_LISTS['nouns']['person']}"}
"""Nouns by kind; ``/`` gives an irregular plural, or none at all for mass nouns."""
VERBS: str = _LISTS["verbs"]
"""Verbs, one a line: principal parts, kind of subject, frames."""
ADJECTIVES = _listed("adjectives")
ADVERBS: Mapping[str, list[str]] = {use: words.split() for use, words in _LISTS["adverbs"].items()}
WOMEN = _listed("women")
MEN = _listed("men")
SURNAMES = _listed("surnames")
TOWNS = _listed("towns")
COUNTRIES = _listed("countries")
COMPANIES = _listed("companies")
"""What a town's name is put before to name a company."""
