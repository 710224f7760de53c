"""The psycholinguistic diagnostics of Ettinger (2020): CPRAG-102, ROLE-88 and NEG-136, as she published them.

Ettinger 2020, *What BERT Is Not: Lessons from a New Suite of Psycholinguistic Diagnostics for Language Models*,
section 4. The items go back to Federmeier & Kutas (1999), Chow et al. (2016), Fischler et al. (1983) and Nieuwland &
Kuperberg (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from bertology._inputs import given_path
from bertology.corpora.prompts._item_tables import columns_of, not_items
from bertology.corpora.prompts._items import records
from bertology.errors import CorpusError, quoted

_ARTICLE = "(a|an)"
_CPRAG = ("item", "context_s1", "context_s2", "expected", "within_category", "between_category", "constraint")
_ROLE = ("item", "context", "expected", "exp_cloze", "target", "tgt_cloze", "tgt_cloze(strict)")
_SIMPLE = ("item", "context_aff", "context_neg", "target_aff", "target_neg")
_NATURAL = (*_SIMPLE, "licensing")
_SETS = {_CPRAG: "CPRAG-102", _ROLE: "ROLE-88", _SIMPLE: "NEG-136-SIMP", _NATURAL: "NEG-136-NAT"}
_CONSTRAINTS: Mapping[str, Literal["high", "low"]] = {"H": "high", "L": "low"}
_LICENSED = {"Y": True, "N": False}


@dataclass(frozen=True, slots=True)
class PragmaticItem:
    """An item of CPRAG-102: two sentences, the second without its last word, and three candidates for that word."""

    id: str
    first: str
    second: str
    """Up to the word to be predicted."""
    expected: str
    within_category: str
    between_category: str
    constraint: Literal["high", "low"]
    """How strongly the context constrains the word, by human judgements."""


@dataclass(frozen=True, slots=True)
class RoleItem:
    """An item of ROLE-88: a context up to its verb."""

    id: str
    """``61-a``; ``61-b`` has the same words with the roles reversed."""
    context: str
    expected: tuple[str, ...]
    """The most frequent human completions. Of a verb with its particle (*worked for*), both words."""
    target: str
    """The verb that fits the roles of ``a``, the same in both contexts."""

    @property
    def pair(self) -> str:
        """Identifier shared with the context of reversed roles."""
        return self.id.rpartition("-")[0]

    @property
    def reversed(self) -> bool:
        """Whether the roles are those that do not fit the target."""
        return self.id.endswith("-b")


@dataclass(frozen=True, slots=True)
class NegationItem:
    """An item of NEG-136: a context and its negation, with the word that makes each true and the other false."""

    id: str
    affirmative: str
    negated: str
    true_if_affirmative: str
    true_if_negated: str
    licensed: bool | None
    """Whether the negated sentence is pragmatically natural; None for the simple ones (*A robin is a bird*)."""


@dataclass(frozen=True)
class Diagnostics:
    """The items of the three sets; a missing set is empty."""

    pragmatic: tuple[PragmaticItem, ...] = ()
    roles: tuple[RoleItem, ...] = ()
    negation: tuple[NegationItem, ...] = ()
    """The simple ones, then the natural ones."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """The file of each set, by name."""


def read_diagnostics(path: str | Path, *, asks: str = "choices") -> Diagnostics:
    """The items at ``path``: one of the TSV files, or a folder that holds some of them, at any depth.

    A file is known by its first line, whatever its name. Files of other columns in a folder are passed over.

    Raises:
        CorpusError: there is no such file, two hold the same set, or a line is not as it should be; the message names
            file and line.
    """
    path = given_path(path, error=CorpusError)
    files = sorted(path.rglob("*.tsv")) if path.is_dir() else [path]
    by_set: dict[str, Path] = {}
    for file in files:
        name = _SETS.get(tuple(columns_of(file)))
        if name in by_set:
            raise CorpusError(f"{path}: {by_set[name]} and {file} both hold {name}; keep one of them")
        if name is not None:
            by_set[name] = file
    if not by_set:
        if path.is_file():
            raise not_items(path, columns_of(path), asks, nor=f"those of {', '.join(_SETS.values())}")
        raise CorpusError(
            f"{path}: none of {', '.join(_SETS.values())} there; give a TSV file of them with its column names, "
            "or the folder that has them"
        )
    simple, natural = (_items(by_set.get(name), columns, _negation) for columns, name in list(_SETS.items())[2:])
    return Diagnostics(
        pragmatic=_items(by_set.get("CPRAG-102"), _CPRAG, _pragmatic),
        roles=_items(by_set.get("ROLE-88"), _ROLE, _role),
        negation=simple + natural,
        files=by_set,
    )


def with_article(context: str, word: str) -> str:
    """A context in which ``(a|an)`` is the article that the word after it takes."""
    return context.replace(_ARTICLE, "an" if word[:1].lower() in ("a", "e", "i", "o", "u") else "a")


T = TypeVar("T")
Item = TypeVar("Item", PragmaticItem, RoleItem, NegationItem)


def _items(file: Path | None, columns: Sequence[str], make: Callable[[str, dict[str, str]], Item]) -> tuple[Item, ...]:
    """The items of a file, each made of the place of its row and the cells by column."""
    items: dict[str, Item] = {}
    for _, where, cells in records(file) if file else ():
        row = {column: str(cells.get(column, "")).strip() for column in columns}
        if empty := next((column for column in columns if not row[column]), ""):
            raise CorpusError(f"{where}: nothing in column {empty}; write it there")
        item = make(where, row)
        if item.id in items:
            raise CorpusError(f"{where}: a second item {quoted(item.id)}; give each a name of its own")
        items[item.id] = item
    if file and not items:
        raise CorpusError(f"{file}: no item in it, only column names; give the whole file")
    return tuple(items.values())


def _one_of(where: str, cells: Mapping[str, str], column: str, known: Mapping[str, T]) -> T:
    if cells[column] not in known:
        raise CorpusError(f"{where}: {quoted(cells[column])} in column {column}; it should be {' or '.join(known)}")
    return known[cells[column]]


def _pragmatic(where: str, cells: Mapping[str, str]) -> PragmaticItem:
    name, first, second, expected, within, between, _ = cells.values()
    constraint = _one_of(where, cells, "constraint", _CONSTRAINTS)
    return PragmaticItem(name, first, second, expected, within, between, constraint)


def _role(where: str, cells: Mapping[str, str]) -> RoleItem:
    if not cells["item"].endswith(("-a", "-b")):
        raise CorpusError(f"{where}: item {quoted(cells['item'])}; write a number and -a, or -b for the roles reversed")
    expected = tuple(word.strip() for word in cells["expected"].split("|") if word.strip())
    if not expected:
        raise CorpusError(f"{where}: no word in column expected; part words by |")
    return RoleItem(cells["item"], cells["context"], expected, cells["target"])


def _negation(where: str, cells: Mapping[str, str]) -> NegationItem:
    natural = "licensing" in cells
    name = f"{'natural' if natural else 'simple'}-{cells['item']}"
    licensed = _one_of(where, cells, "licensing", _LICENSED) if natural else None
    affirmative, negated, if_affirmative, if_negated = (cells[column] for column in _SIMPLE[1:])
    return NegationItem(name, affirmative, negated, if_affirmative, if_negated, licensed)
