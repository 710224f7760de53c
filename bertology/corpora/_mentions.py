"""Mentions in CoNLL-U: ``Entity=`` in MISC, as GUM and CorefUD write it (Zeldes 2017; Nedoluzhko et al. 2022)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from bertology.corpora._conllu_block import Block, Row
from bertology.corpora._oddities import Oddities
from bertology.corpora._sentence import Target
from bertology.errors import cut, quoted

_MISC = 9
_KEY = "Entity="
_HEADER = "global.Entity"
_BRACKET = re.compile(r"\((?P<opened>[^()]+)(?P<closed_at_once>\))?|(?P<closed>[^()]+)\)")
_PART = re.compile(r"\[(\d+)/(\d+)\]$")
_IDS, _TYPES = ("eid", "GRP"), ("etype", "entity")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of words that speaks of something."""

    span: Span
    entity: str
    """The same for all mentions of the same thing."""
    type: str = ""


@dataclass
class EntityFields:
    """Which field of ``Entity=(e1-person-…`` is what; a file's ``# global.Entity`` comment may say otherwise."""

    id: int = 0
    type: int | None = 1

    def read(self, comments: Iterable[str]) -> None:
        """Take the order of fields from a comment, if there is one."""
        for comment in comments:
            if comment.strip().startswith(_HEADER):
                _, _, value = comment.partition("=")
                names = value.strip().split("-")
                self.id = next((names.index(name) for name in _IDS if name in names), 0)
                self.type = next((names.index(name) for name in _TYPES if name in names), None)


def coreference(mentions: Iterable[Mention]) -> tuple[Target, ...]:
    """Every pair of mentions in a sentence, the earlier first: ``"1"`` where they mean the same thing, else ``"0"``.

    Mentions inside one another are pairs too, as in Tenney et al. 2019 (section 3).
    """
    entity_of: dict[Span, set[str]] = {}
    for mention in mentions:
        entity_of.setdefault(mention.span, set()).add(mention.entity)
    return tuple(
        Target(one, "1" if entity_of[one] & entity_of[other] else "0", other)
        for one, other in combinations(sorted(entity_of), 2)
    )


def mention_targets(
    block: Block, rows: Sequence[Row], fields: EntityFields, oddities: Oddities
) -> Mapping[str, tuple[Target, ...]]:
    """Targets ``entities`` and ``coref`` of a sentence whose MISC column holds ``Entity=``.

    Args:
        block: the sentence, for the place of what is wrong.
        rows: all its lines, those of tokens and empty nodes too.
        fields: what ``Entity=`` holds in what order.
        oddities: counts mentions that are not spans of words: discontinuous ones, and those of empty nodes alone.

    Raises:
        CorpusError: a bracket closes that was not opened, or does not close in the sentence.
    """
    mentions: list[Mention] = []
    opened: dict[str, list[tuple[int, int, str]]] = {}
    n_words = 0
    for place, row in enumerate(rows):
        n_words += row[0].isdecimal()
        first = n_words - 1 if row[0].isdecimal() else n_words
        for value in row[_MISC].split("|") if _KEY in row[_MISC] else ():
            if value.startswith(_KEY):
                for name, start, kind in _closed(value.removeprefix(_KEY), opened, fields, first, block, place):
                    where = f"{block.path.name}:{block.first_line + place}"
                    if _PART.search(name):
                        oddities.skip("discontinuous mentions", where)
                    elif start == n_words:
                        oddities.skip("mentions of empty nodes alone", where)
                    else:
                        mentions.append(Mention((start, n_words), name, kind))
    for name, (_, place, _) in ((name, stack[-1]) for name, stack in opened.items() if stack):
        raise block.error(place, f"Entity opens ({cut(name)} here, which does not close in the sentence; close it")
    entities = sorted({(mention.span, mention.type) for mention in mentions if mention.type})
    targets = {"entities": tuple(Target(span, kind) for span, kind in entities), "coref": coreference(mentions)}
    return {name: found for name, found in targets.items() if found}


def _closed(
    value: str,
    opened: dict[str, list[tuple[int, int, str]]],
    fields: EntityFields,
    first: int,
    block: Block,
    place: int,
) -> list[tuple[str, int, str]]:
    """The mentions that end in one MISC value: name, first word, type; those that begin are put into ``opened``."""
    ended: list[tuple[str, int, str]] = []
    reach = 0
    for match in _BRACKET.finditer(value):
        if match.start() != reach:
            break
        reach = match.end()
        if match["opened"]:
            cells = match["opened"].split("-")
            name = cells[fields.id] if fields.id < len(cells) else cells[0]
            kind = cells[fields.type] if fields.type is not None and fields.type < len(cells) else ""
            opened.setdefault(name, []).append((first, place, kind))
        else:
            cells = match["closed"].split("-")
            # A closing bracket names the entity alone, or in older releases of GUM type and number.
            name = cells[fields.id] if len(cells) > max(fields.id, 1) else cells[-1]
        if match["closed_at_once"] or match["closed"]:
            if not opened.get(name):
                raise block.error(place, f"Entity closes {cut(name)}), which is not open; open it in this sentence")
            start, _, kind = opened[name].pop()
            ended.append((name, start, kind))
    if reach != len(value):
        raise block.error(
            place, f"Entity={cut(value)} is not brackets as in (e1-person … e1); check it from {quoted(value[reach:])}"
        )
    return ended
