"""Which columns of a table hold what, as a person names them: ``text=sentence,label=stars+topic``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Self

from bertology._names import name_not_found
from bertology.errors import CorpusError, cut_path, listed, quoted

COLUMNS_REMEDY = "name the columns as in columns='text=sentence,label=label' (--columns)"
_LAYERS = ("upos", "xpos", "lemma", "feats", "deprel", "ner", "chunk")
_PAIRS = (("sentence1", "sentence2"), ("text1", "text2"), ("premise", "hypothesis"), ("text", "text2"))


@dataclass(frozen=True)
class StatedColumns:
    """Which columns of a table hold what: fields are keys, tuples those under which several columns may be named."""

    remedy: ClassVar[str] = COLUMNS_REMEDY
    synonyms: ClassVar[Mapping[str, str]] = {}
    """Other names of keys."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Keys that hold no column."""

    @classmethod
    def stated(cls, columns: str | Sequence[str]) -> Self:
        """As given by the user, ``"text=sentence,label=stars+topic"``.

        Raises:
            CorpusError: a part is not ``key=column``, or a key stands twice.
            NameNotFoundError: there is no such key.
        """
        keys = {item.name: isinstance(item.default, tuple) for item in cls._keys()}
        chosen: dict[str, Any] = {}
        for part in columns.split(",") if isinstance(columns, str) else columns:
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or not value:
                raise CorpusError(f"columns: {quoted(part)} is not key=column; {cls.remedy}")
            key = cls.synonyms.get(key, key)
            if key not in keys:
                raise name_not_found("key of columns", key, keys)
            if key in chosen:
                several = " and ".join(f"{name}=" for name in keys if keys[name])
                raise CorpusError(f"columns: {key}= stands twice; write {several} of several columns with +")
            names = tuple(name.strip() for name in value.split("+"))
            chosen[key] = names if keys[key] else value
        return cls(**chosen)

    @classmethod
    def _keys(cls) -> list[Field[Any]]:
        return [item for item in fields(cls) if item.name != "inferred"]

    @cached_property
    def by_key(self) -> dict[str, tuple[str, ...]]:
        """The columns of each key that has any."""
        values = {item.name: getattr(self, item.name) for item in self._keys()}
        return {key: value if isinstance(value, tuple) else (value,) for key, value in values.items() if value}

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are read."""
        return tuple(name for key, names in self.by_key.items() if key not in self.settings for name in names)

    @property
    def has_names(self) -> bool:
        """Whether columns are called by names that the first row of a file holds, not by their numbers alone."""
        return not all(name.isdecimal() for name in self.named)

    def __str__(self) -> str:
        return ",".join(f"{key}={'+'.join(names)}" for key, names in self.by_key.items())


@dataclass(frozen=True)
class TableColumns(StatedColumns):
    """Which columns of a table of sentences hold what."""

    settings: ClassVar[tuple[str, ...]] = ("language",)

    text: str | None = None
    """The text of a sentence, or of the first of a pair; words are found by :func:`sentence_of_text`."""
    text2: str | None = None
    """The second text of a pair."""
    at: str | None = None
    """The word, or words, that a label is about, if not all: its number from 0, or ``first-last``; words of a text are
    what spaces part."""
    at2: str | None = None
    """The same in the second text of a pair."""
    words: str | None = None
    """The words of a sentence: a list, or one text with spaces between them."""
    label: tuple[str, ...] = ()
    """Labels of the sentence, or of the pair: each column becomes targets of its name."""
    tags: tuple[str, ...] = ()
    """Labels of the words, a list as long as that of the words: each column becomes a layer of its name."""
    split: str | None = None
    group: str | None = None
    """What is never parted by splits that are made, such as a document."""
    id: str | None = None
    language: str | None = None
    """No column, but the language of all texts, by whose rules words are found."""
    inferred: bool = field(default=False, compare=False)

    @classmethod
    def stated(cls, columns: str | Sequence[str]) -> Self:
        """As of :class:`StatedColumns`; keys that need another one have it."""
        return super().stated(columns)._checked()

    @classmethod
    def recognised(cls, names: Collection[str]) -> TableColumns | None:
        """By the obvious names among those of a table; None where no column is known to hold texts or words."""
        of = {name.lower(): name for name in names}
        pair = next((pair for pair in _PAIRS if of.keys() >= set(pair)), None)
        first = pair or [name for name in ("text", "sentence") if name in of][:1]
        words = next((of[name] for name in ("words", "tokens") if name in of), None)
        if not first and words is None:
            return None
        tagged = [of[name] for name in of if name == "tags" or name.endswith("_tags") or name in _LAYERS]
        return cls(
            text=of[first[0]] if first else None,
            text2=of[pair[1]] if pair else None,
            words=words,
            label=(of["label"],) if "label" in of else (),
            tags=tuple(tagged) if words else (),
            split=of.get("split"),
            inferred=True,
        )

    def _checked(self) -> Self:
        if self.text is None and self.words is None:
            raise CorpusError(f"columns: neither text= nor words= is there; {COLUMNS_REMEDY}")
        if self.tags and self.words is None:
            raise CorpusError("columns: tags= are of words; name the column that has lists of words by words=")
        for name, of in (("at", "label"), ("at2", "text2"), ("language", "text")):
            if getattr(self, name) and not getattr(self, of):
                raise CorpusError(f"columns: {name}= stands without {of}=; name that column too, or leave it out")
        return self


def no_columns(columns: str | Sequence[str], name: str) -> CorpusError:
    """The error for column names given with a corpus that has no columns to name."""
    what = "tables" if is_of_table(columns) else "column files"
    return CorpusError(f"columns={quoted(columns)} is for {what}; leave it out for {cut_path(name)}")


def columns_found(names: Collection[str]) -> str:
    """The columns of a table for an error that says which are missing, with a remedy where they were not parted."""
    only = next(iter(names), "") if len(names) == 1 else ""
    part = next((what for mark, what in (("\t", "tabs"), (",", "commas"), (";", "semicolons")) if mark in only), "")
    hint = f" (it has {part}: name a file with tabs .tsv, one with commas or semicolons .csv)" if part else ""
    return f"among {listed(names)}{hint}"


def is_of_table(columns: str | Sequence[str]) -> bool:
    """Whether columns are those of a table, ``text=sentence``, not of a file with one word a line, ``form,xpos``."""
    return any("=" in part for part in ([columns] if isinstance(columns, str) else columns))
