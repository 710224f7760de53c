"""Cloze items: tables with a row an item, and what readers of published sets share: fields, masks, templates."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertology._files import described, given_path
from bertology.corpora._files import corpus_name, suffix_of
from bertology.corpora._named import check_here
from bertology.corpora._tables import (
    IN_MEMORY,
    Columns,
    Stated,
    Table,
    Tables,
    columns_found,
    is_list,
    is_of_table,
    known_table,
    list_cell,
    name_cell,
    names_of_columns,
    no_columns,
    parts_of,
    read_table,
    split_language,
    stated_columns,
    table_of_data,
    text_cell,
)
from bertology.errors import CorpusError, listed, quoted

MADE = "made"
"""The name, in place of a path, of items that are made by rule."""
MASK = "{mask}"
"""The mask in the texts that readers return."""
SUBJECT, OBJECT = "[X]", "[Y]"
_SPELLINGS = re.compile(r"\{mask\}|\[MASK\]|<mask>")


def records(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Rows of a table with a header: row number from 1, place for messages, and the values that are not empty."""
    table = read_table(path)
    for row in range(len(table)):
        values = {name: column[row] for name, column in table.columns.items() if column[row] is not None}
        yield table.number(row), table.place(row), values


def text_field(plain: Mapping[str, Any], field: str, where: str, *, default: str | None = None) -> str:
    """The string in a field, without white space around it; it may be empty, and lacking where there is a default."""
    value = plain.get(field, default)
    if not isinstance(value, str):
        raise CorpusError(f"{where}: {field} is {described(value)}; write a string")
    return value.strip()


def sentences_field(plain: Mapping[str, Any], field: str, where: str) -> str:
    """The sentences in a field, a list of strings or one string, joined by spaces, masks written ``{mask}``.

    White space is made single: in published sets some sentences have two spaces where a word was put in, which
    byte-level tokenizers would read as another text.
    """
    value = plain.get(field)
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise CorpusError(f"{where}: {field} is {described(value)}; write a list of sentences with a mask, [MASK]")
    return " ".join(with_masks(" ".join(parts), MASK).split())


def with_masks(text: str, mask: str) -> str:
    """A text whose masks, however they are spelled, are those of a model."""
    return _SPELLINGS.sub(lambda _: mask, text)


def mask_trouble(text: str) -> str:
    """Why the word at the mask of a text cannot be predicted; empty if it can."""
    count = len(_SPELLINGS.findall(text))
    return {0: "no mask in the sentence", 1: ""}.get(count, "more than one mask in the sentence")


def files_of(path: str | Path, suffixes: Sequence[str], *, what: str) -> list[Path]:
    """A file, or the files of a folder with one of the suffixes, by name; those of its subfolders if it has none."""
    path = given_path(path, error=CorpusError)
    for some in ([path], *(sorted(path.glob(pattern)) for pattern in ("*", "*/*"))):
        if files := [file for file in some if file.is_file() and suffix_of(file) in suffixes]:
            return files
    trouble = f"no {what} there" if path.exists() else "no such file or folder"
    raise CorpusError(f"{path}: {trouble}; {what} are in files of {' or '.join(suffixes)}")


def checked_template(template: str, where: str) -> str:
    """The template, which must have ``[X]`` and ``[Y]`` once each."""
    for place, what in ((SUBJECT, "subject"), (OBJECT, "object")):
        if (count := template.count(place)) != 1:
            reason = f"{f'{count} times' if count else 'no'} {place} in {quoted(template)}"
            raise CorpusError(f"{where}: {reason}; write {place} once, where the {what} stands")
    return template


def prompt_of(template: str, subject: str) -> str:
    """The template with its subject, and a mask for its object."""
    # Cut before anything is put in: a subject may itself hold [Y].
    before, after = template.split(SUBJECT)
    return subject.join(part.replace(OBJECT, MASK) for part in (before, after))


def blind_prompt_of(template: str) -> str:
    """The template with a mask for its subject, too; empty where the object comes first.

    The answer to a blind text is read at its last mask, which would then be that of the subject.
    """
    return prompt_of(template, MASK) if template.index(SUBJECT) < template.index(OBJECT) else ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An item of a source that cannot be asked, whatever the model, and why."""

    id: str
    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClozeItem:
    """One thing that is asked: of a table or published set, or made by rule. Masks are written ``{mask}``."""

    id: str
    """No two items of a task have the same."""
    cluster: str
    """Items of one cluster are drawn together where intervals are made: those about one fact, or from one frame."""
    group: str
    """The relation, construction or condition, by which scores are told apart and over which they are averaged."""
    text: str
    """A prompt with one mask, or a sentence."""
    answer: str = ""
    """The correct word at the mask."""
    accepted: tuple[str, ...] = ()
    """Other words that are as right (for ``answers``): the best of all counts."""
    ignored: tuple[str, ...] = ()
    """Words that are right in another item (for ``answers``), which are left out of ranks."""
    rivals: tuple[str, ...] = ()
    """The distractors at the mask, for ``choices``."""
    other: str = ""
    """The text that it is compared with; of ``choices`` the one in which the rivals are asked, if it is another."""
    blind: str = ""
    """The text without what decides; its last mask is the one that is asked about. Empty if there is none."""
    # What the source tells besides is not asked: fingerprints are made of the fields that ``repr`` shows.
    subject: str = field(default="", repr=False)
    """What a fact is about."""
    kind: str = field(default="table", repr=False)
    """The published set, or ``table``."""
    variants: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Other texts of the same fact: its wordings in ParaRel by number; primed ones by how the prime was chosen."""
    n_attractors: int | None = field(default=None, repr=False)
    """Number of nouns of the other number between subject and form; None if the source does not state it."""

    @property
    def attractors(self) -> str:
        """``0 attractors``, ``1 attractor`` …; empty if the source does not state it."""
        return "" if self.n_attractors is None else f"{self.n_attractors} attractor{'s' * (self.n_attractors != 1)}"


ITEM_SUFFIXES = (*Tables.suffixes, ".json")
_NO_TABLE = ("pocket", MADE)
_REMEDY = "name the columns as in columns='good=sentence,bad=other,group=phenomenon' (--columns)"
_KEYS = ("text", "other", "good", "bad", "blind", "subject", "group", "cluster", "id")
"""Keys of tables of items; ``answer`` is another name of ``good``.

``text`` has a mask, ``{mask}``, ``[MASK]`` or ``<mask>``; or, where there is a ``subject``, it is a template with
``[X]`` for the subject and ``[Y]`` for the mask. ``other`` is the text that it is compared with, ``blind`` the text
without what decides. ``good`` is what is right: the grammatical sentence, the word at the mask, or of next sentences
``next`` or ``other``; ``bad`` is what is wrong, of words several columns, or a list in one. Scores are told apart by
``group``, and items of one ``cluster`` are drawn together where intervals are made: those of one subject, unless
clusters are named.
"""


@dataclass(frozen=True)
class ItemForm:
    """The columns that items of one kind of question have."""

    needs: tuple[str, ...]
    may: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    """Columns that have one mask."""
    same: str = ""
    """Reason why an item cannot be scored in which two of its columns are the same."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all columns that are read."""
        return (*self.needs, *self.may, "group", "cluster", "id")

    @property
    def has_one_bad(self) -> bool:
        """Whether what is wrong is one text, not any number of words."""
        return "bad" in self.needs and not self.masked

    @property
    def example(self) -> str:
        """An example of stated columns."""
        return ",".join(f"{key}=COLUMN" for key in (*self.needs, "group"))

    def recognised(self, names: Collection[str]) -> Columns | None:
        """The columns that are called as the keys are, in whatever case; None where one that is needed is lacking."""
        known: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            known.setdefault(name.lower() if name.lower() != "answer" else "good", []).append(name)
        if not known.keys() >= set(self.needs):
            return None
        if double := next((key for key in self.keys if len(known.get(key, ())) > 1), None):
            raise CorpusError(f"columns {listed(known[double])} may each be {double}=; {_REMEDY}")
        return Columns({key: (known[key][0],) for key in self.keys if key in known})

    def stated(self, columns: Stated) -> Columns:
        """The columns that a person names; errors also where one is lacking or of no use."""
        parts = [f"good={part.partition('=')[2]}" if key == "answer" else part for key, _, _, part in parts_of(columns)]
        chosen = stated_columns(parts, _KEYS, ("bad",), _REMEDY)
        trouble = [f"no {key}= is there" for key in self.needs if not chosen[key]]
        trouble += [f"{key}= is not asked about" for key in chosen.by_key if key not in self.keys]
        if len(chosen["bad"]) > 1 and self.has_one_bad:
            trouble.append("bad= names several columns, where a pair has one wrong sentence")
        if trouble:
            raise CorpusError(f"columns: {trouble[0]}; name the columns as in --columns {self.example}")
        return chosen


_BOTH, _SAME_TEXTS = ("text", "other"), "the two texts are the same"
ITEM_FORMS: Mapping[str, ItemForm] = {
    "sentences": ItemForm(("good", "bad"), same="the two sentences are the same"),
    "choices": ItemForm(("text", "good", "bad"), ("other", "blind", "subject"), _BOTH, "the two forms are the same"),
    "answers": ItemForm(("text", "good"), ("blind", "subject"), ("text",)),
    "facts": ItemForm(("text", "good", "subject"), ("blind",), ("text",)),
    "contexts": ItemForm(("text", "other", "good"), ("blind", "subject"), _BOTH, _SAME_TEXTS),
    "changes": ItemForm(_BOTH, ("subject",), _BOTH, _SAME_TEXTS),
    "next_sentence": ItemForm(("text", "other", "good")),
}
"""Forms by kind of question (``ClozeAsks`` of cloze probes); ``facts`` are answers whose subject is known."""


def read_item_table(source: Any, asks: str, *, columns: Stated | None = None) -> Iterator[ClozeItem | LeftOut] | None:
    """The items of a table, in its order; None where the source is something else, such as a published set.

    Columns are named by a person, or called ``text``, ``other``, ``good`` (``answer``), ``bad``, ``blind``,
    ``subject``, ``group``, ``cluster`` and ``id``; columns of tuples in memory are those that the question needs, in
    their order. An item is called by its group and ``id``, or by the name of its file and the number of its row;
    without a column of groups the file is its group.

    Args:
        source: a file or folder of files (CSV, TSV, JSON, JSON Lines, Parquet); the name of a table in memory, or the
            table itself: a DataFrame, a data set, records, tuples, a dict of columns.
        asks: the one of :data:`ITEM_FORMS` that its rows have.
        columns: ``"good=sen,bad=wrong_sen,group=phenomenon"``; by number, from 1, of a file without a row of names. A
            ``language`` among them names no column (:func:`split_language`).

    Raises:
        CorpusError: a row or value is not as it should be, or columns are lacking.
        NameNotFoundError: there is no such column.
    """
    form, is_name = ITEM_FORMS[asks], isinstance(source, str | Path)
    if columns is not None and (not is_of_table(columns) or (is_name and str(source) in _NO_TABLE)):
        raise no_columns(columns, str(source))
    columns, _ = split_language(columns)
    chosen = None if columns is None else form.stated(columns)
    table = known_table(str(source)) if is_name else table_of_data(source)
    if table is not None:
        chosen = chosen or form.recognised(table.columns)
        if chosen is None and list(table.columns) == [str(number) for number in range(1, len(form.needs) + 1)]:
            chosen = Columns({key: (str(number),) for number, key in enumerate(form.needs, 1)})
        if chosen is None:
            raise not_items(IN_MEMORY, table.columns, asks)
        return table_items(table, chosen, form)
    if not is_name:
        raise CorpusError(f"{IN_MEMORY}: sentences where a table of items was due; give a DataFrame, records or tuples")
    if str(source) in _NO_TABLE:
        return None
    check_here(source)
    path = given_path(source, error=CorpusError)
    if chosen is not None:
        files = [path] if path.is_file() else files_of(path, ITEM_SUFFIXES, what="tables of items")
        tables = (read_table(file, has_header=chosen.has_names) for file in files)
        return (item for table in tables for item in table_items(table, chosen, form))
    if not path.is_file() or suffix_of(path) not in ITEM_SUFFIXES or not form.recognised(names_of_columns(path) or ()):
        return None
    table = read_table(path)
    return table_items(table, form.recognised(table.columns) or Columns({}), form)


def names_items(columns: Stated) -> bool:
    """Whether columns have keys that only tables of items have, not those of sentences."""
    return not {"good", "answer", "bad", "other"}.isdisjoint(key for key, *_ in parts_of(columns))


def source_name(source: Any) -> str:
    """Name of a source of items in messages."""
    return str(source) if isinstance(source, str | Path) else IN_MEMORY


def columns_of(path: Path) -> Collection[str]:
    """The first row of a table; errors where it cannot be read."""
    names = names_of_columns(path)
    return read_table(path).columns if names is None else names


def not_items(source: object, names: Collection[str], asks: str, *, nor: str = "") -> CorpusError:
    """The error for a table with no known columns: those that it has, and how to name them."""
    form = ITEM_FORMS[asks]
    remedy = f"name them as in --columns {form.example} (by number, from 1, where the first row holds no names)"
    needed = f"{', '.join(form.needs[:-1])} and {form.needs[-1]}"
    what = f"no columns {needed} {columns_found(names)}{nor and f', nor {nor}'}"
    return CorpusError(f"{source}: {what}; {remedy}")


def table_items(table: Table, columns: Columns, form: ItemForm) -> Iterator[ClozeItem | LeftOut]:
    """The items of one table, which is a file's or in memory; errors as of :func:`read_item_table`."""
    table.check(columns)
    if not len(table):
        raise CorpusError(f"{table.source}: no item in it, only names of columns; give the whole table")
    stem = corpus_name(table.source) if isinstance(table.source, Path) else table.source
    # Texts are no numbers, as groups and words at a mask may be.
    texts = ("text", "other", "blind", *(("good", "bad") if form.has_one_bad else ()))
    for row in range(len(table)):
        where, bad, cells = table.place(row), list[str](), dict[str, str]()
        for key, column in ((key, column) for key, names in columns.by_key.items() for column in names):
            value, read = table.columns[column][row], text_cell if key in texts else name_cell
            if key == "bad":
                is_text_of_list = isinstance(value, str) and value.startswith("[") and value.endswith("]")
                is_several = not form.has_one_bad and (is_list(value) or is_text_of_list)
                some = list_cell(value, where, column) if is_several else [value]
                bad += [read(one, where, column) for one in some]
            else:
                cells[key] = read(value, where, column)
        group, subject = cells.pop("group", stem), cells.get("subject", "")
        name = f"{group}-{cells.pop('id')}" if "id" in cells else f"{stem}-{table.number(row)}"
        cluster = cells.pop("cluster", "") or subject or name
        for key, text in ((key, cells[key]) for key in ("text", "other", "blind") if key in cells):
            if subject and SUBJECT in text:
                text = prompt_of(checked_template(text, f"{where}: column {quoted(columns.one(key))}"), subject)
            cells[key] = text = with_masks(text, MASK)
            if key in form.masked and (trouble := mask_trouble(text)):
                remedy = f"write {MASK} once, where the word is left out"
                raise CorpusError(f"{where}: column {quoted(columns.one(key))}: {trouble} {quoted(text)}; {remedy}")
        if form.same and (cells.get("good") in bad or ("other" in form.needs and cells["text"] == cells["other"])):
            yield LeftOut(name, group, form.same)
        elif form.has_one_bad:
            yield ClozeItem(name, cluster, group, cells["good"], other=bad[0])
        else:
            more: dict[str, Any] = {"answer" if key == "good" else key: text for key, text in cells.items()}
            yield ClozeItem(name, cluster, group, rivals=tuple(bad), **more)
