"""Cloze items: tables with a row an item, and what readers of published sets share: fields, masks, templates."""

import contextlib
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertology.corpora import _tables
from bertology.corpora._data import data_path, data_set, is_data_name
from bertology.corpora._files import corpus_name, suffix_of, wrong
from bertology.corpora._named import check_here
from bertology.corpora._tables import Columns, Form, Row, Stated, Table, Tables
from bertology.corpora._words import MASKS
from bertology.errors import CorpusError, quoted

MADE = "made"
"""The name, in place of a path, of items that are made by rule."""
MASK = "{mask}"
"""The mask in the texts that readers return."""
SUBJECT, OBJECT = "[X]", "[Y]"


def sentences_in(row: Row, column: str) -> str:
    """The sentences in a column, a list of strings or one string, joined by spaces, masks written ``{mask}``.

    White space is made single: in published sets some sentences have two spaces where a word was put in, which
    byte-level tokenizers would read as another text.
    """
    value = row.values.get(column)
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise row.error(column, "a list of sentences with a mask, [MASK]")
    return " ".join(with_masks(" ".join(parts), MASK).split())


def with_masks(text: str, mask: str) -> str:
    """A text whose masks, however they are spelled, are those of a model."""
    return MASKS.sub(lambda _: mask, text)


def mask_trouble(text: str) -> str:
    """Why the word at the mask of a text cannot be predicted; empty if it can."""
    count = len(MASKS.findall(text))
    return {0: "no mask in the sentence", 1: ""}.get(count, "more than one mask in the sentence")


def files_of(path: str | Path, *more: str, what: str) -> list[Path]:
    """A file, or the files of a folder with a suffix of tables, or one ``more``; of its subfolders if it has none."""
    path, suffixes = data_path(path), (*ITEM_SUFFIXES, *more)
    for some in ([path], *(sorted(path.glob(pattern)) for pattern in ("*", "*/*"))):
        if files := [file for file in some if file.is_file() and suffix_of(file) in suffixes]:
            return files
    trouble = f"no {what} there" if path.exists() else "no such file or folder"
    raise CorpusError(f"{path}: {trouble}; {what} are in files of {' or '.join(suffixes)}")


def checked_template(template: str, where: str) -> str:
    """The template, which must have ``[X]`` and ``[Y]`` once each."""
    for place, what in ((SUBJECT, "subject"), (OBJECT, "object")):
        if template.count(place) != 1:
            raise wrong(where, template, f"{place} once, where the {what} stands")
    return template


def prompt_of(template: str, subject: str | None = None) -> str:
    """The template with its subject, and a mask for its object; without a subject a mask for that, too.

    The answer to such a blind text is read at its last mask. The text is empty where that would be the subject's.
    """
    if subject is None and template.index(OBJECT) < template.index(SUBJECT):
        return ""
    # Cut before anything is put in: a subject may itself hold [Y].
    before, after = template.split(SUBJECT)
    return (MASK if subject is None else subject).join(part.replace(OBJECT, MASK) for part in (before, after))


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
    """The distractors at the mask, for ``choices`` and ``statements``."""
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


STATISTICS = Form(("occupation", "bls_pct_female"))
_SHARE, NO_SHARE = "share_female", "no statistics of the occupation"
BY_SHARE = re.compile(r", ([0-9.e-]+) % women$")
"""The end of the groups of :func:`share_group`, with the number."""


def share_group(known: dict[str, str], occupation: str, row: Row, column: str) -> str:
    """The group of an occupation with its share of women, ``nurse, 89.6 % women``; empty where the cell has none.

    Those of other rows are ``known``, by occupation; a :class:`CorpusError` where they differ, or it is no percentage.
    """
    share = row.as_float(column)
    group = "" if math.isnan(share) else f"{occupation}, {share:g} % women"
    if known.setdefault(occupation, group) != group or (group and not 0 <= share <= 100):
        raise row.error(column, "one percentage, from 0 to 100, for each occupation, or NA where there is none")
    return group


ITEM_SUFFIXES = (*Tables.suffixes, ".json")
_NO_TABLE = ("pocket", MADE)


@dataclass(frozen=True)
class ItemForm(Form):
    """The columns that items of one kind of question have.

    ``text`` has a mask, ``{mask}``, ``[MASK]`` or ``<mask>``; or, where there is a ``subject``, it is a template with
    ``[X]`` for the subject and ``[Y]`` for the mask. ``other`` is the text that it is compared with, ``blind`` the text
    without what decides. ``good`` is what is right: the grammatical sentence, the word at the mask, or of next
    sentences ``next`` or ``other``; ``bad`` is what is wrong, of words several columns, or a list in one. Scores are
    told apart by ``group``, and items of one ``cluster`` are drawn together where intervals are made: those of one
    subject, unless clusters are named. A group of ``choices`` with ``share_female`` is an occupation and a cluster.
    """

    masked: tuple[str, ...] = ()
    """Columns that have one mask."""
    same: str = ""
    """Reason why an item cannot be scored in which two of its columns are the same."""

    def recognised(self, names: Collection[str]) -> Columns | None:
        """As of every form; a table with a column ``good`` and a column ``answer`` is refused."""
        if "good" in self.keys and {"good", "answer"} <= {name.lower() for name in names}:
            raise wrong("columns", "good and answer", f"one of them; {self.remedy}")
        return super().recognised(names)


def _form(needs: str, may: str = "", masked: str = "", same: str = "", **aliases: tuple[str, ...]) -> ItemForm:
    return ItemForm(
        tuple(needs.split()),
        ("group", "cluster", "id", *may.split()),
        several=("bad",) if masked else (),
        aliases={"good": ("good", "answer"), **aliases},
        masked=tuple(masked.split()),
        same=same,
    )


ITEM_FORMS: Mapping[str, ItemForm] = {
    "sentences": _form(
        "good bad",
        same="the two sentences are the same",
        # Those of BLiMP and MultiBLiMP are known as well.
        good=("good", "answer", "sentence_good", "sen"),
        bad=("bad", "sentence_bad", "wrong_sen"),
        group=("group", "uid", "phenomenon"),
        id=("id", "pairid"),
    ),
    "choices": _form("text good bad", f"other blind subject {_SHARE}", "text other", "the two forms are the same"),
    "statements": _form("text good bad", "subject", "text", "the two answers are the same"),
    "answers": _form("text good", "blind subject", "text"),
    "facts": _form("text good subject", "blind", "text"),
    "contexts": _form("text other good", "blind subject", "text other", "the two texts are the same"),
    "changes": _form("text other", "subject", "text other", "the two texts are the same"),
    "next_sentence": _form("text other good"),
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
    form = ITEM_FORMS[asks]
    tables = item_tables(source, form, columns=columns)
    return None if tables is None else (item for table, chosen in tables for item in items_in(table, chosen, form))


def item_tables(source: Any, form: Form, *, columns: Stated | None = None) -> Iterator[tuple[Table, Columns]] | None:
    """The tables of a source with their columns of a form; None where it is no such table.

    Arguments and errors are those of :func:`read_item_table`.
    """
    is_name = isinstance(source, str | Path)
    if columns is not None and (not _tables.is_of_table(columns) or (is_name and str(source) in _NO_TABLE)):
        raise _tables.no_columns(columns, source)
    columns, _ = _tables.split_language(columns)
    table = _tables.known_table(str(source)) if is_name else _tables.table_of_data(source)
    if table is not None:
        numbered = [f"{key}={number}" for number, key in enumerate(form.needs, 1)]
        if columns is None and list(table.columns) == [part.partition("=")[2] for part in numbered]:
            columns = numbered
        if (chosen := table.chosen(form, columns)) is None:
            raise form.unknown(_tables.IN_MEMORY, table.columns)
        return iter([(table, chosen)])
    if not is_name:
        raise wrong(_tables.IN_MEMORY, "sentences", "a table of items: a DataFrame, records or tuples")
    if str(source) in _NO_TABLE:
        return None
    check_here(source)
    path = data_path(source)
    if columns is None and is_data_name(source) and (of_data := data_set(source)[0].columns) and names_items(of_data):
        columns = of_data
    if columns is None:
        names: Collection[str] = ()
        if path.is_file() and suffix_of(path) in ITEM_SUFFIXES:
            with contextlib.suppress(CorpusError):
                names = _tables.names_of_columns(path)
        if form.recognised(names) is None:
            return None
    files = [path] if path.is_file() else files_of(path, what="tables of items")
    tables = (_tables.read_table(file, form.has_names(columns)) for file in files)
    return ((one, one.chosen(form, columns) or {}) for one in tables)


def required_tables(source: Any, form: Form, *, columns: Stated | None = None) -> Iterator[tuple[Table, Columns]]:
    """As :func:`item_tables`, also those of a folder by the names of their columns; an error for any other source."""
    if (tables := item_tables(source, form, columns=columns)) is not None:
        yield from tables
        return
    for file in files_of(source, what="tables"):
        table = _tables.read_table(file)
        if (chosen := table.chosen(form, None)) is None:
            raise form.unknown(file, table.columns)
        yield table, chosen


def names_items(columns: Stated) -> bool:
    """Whether columns have keys that only tables of items have, not those of sentences."""
    parts = columns.split(",") if isinstance(columns, str) else columns
    return not {"good", "answer", "bad", "other"}.isdisjoint(part.partition("=")[0].strip() for part in parts)


def source_name(source: Any) -> str:
    """Name of a source of items in messages."""
    return str(source) if isinstance(source, str | Path) else _tables.IN_MEMORY


def items_in(table: Table, columns: Columns, form: ItemForm) -> Iterator[ClozeItem | LeftOut]:
    """The items of one table, which is a file's or in memory; errors as of :func:`read_item_table`."""
    if not len(table):
        raise CorpusError(f"{table.source}: no item in it, only names of columns; give the whole table")
    stem = corpus_name(table.source) if isinstance(table.source, Path) else table.source
    shares = dict[str, str]()
    is_pair = "bad" in form.needs and not form.masked  # of two sentences
    has_languages = is_pair and len({*table.columns.get("lang", ())}) > 1
    # Texts are no numbers, as groups and words at a mask may be.
    texts = ("text", "other", "blind", *(("good", "bad") if is_pair else ()))
    for row in table.rows():
        cells, bad = dict[str, str](), list[str]()
        for key, column in ((key, column) for key, names in columns.items() if key != _SHARE for column in names):
            value, may_be_number = row.values[column], key not in texts
            if key == "bad" and not is_pair and (_tables.is_list(value) or re.fullmatch(r"\[.*\]", str(value))):
                bad += [row.text(column, numbers=True, found=one) for one in row.list(column)]
            else:
                cells[key] = row.text(column, numbers=may_be_number)
                bad += [cells.pop(key)] if key == "bad" else []
        group, subject = cells.pop("group", stem), cells.get("subject", "")
        group = f"{row.text('lang')} {group}" if has_languages else group
        name = f"{group}-{cells.pop('id')}" if "id" in cells else f"{stem}-{row.number}"
        cluster = cells.pop("cluster", "") or subject or name
        if _SHARE in columns:
            cluster, group = group, share_group(shares, group, row, columns[_SHARE][0])
        for key, text in ((key, cells[key]) for key in ("text", "other", "blind") if key in cells):
            column = columns[key][0]
            if subject and SUBJECT in text:
                text = prompt_of(checked_template(text, f"{row.where}: column {quoted(column)}"), subject)
            cells[key] = text = with_masks(text, MASK)
            if key in form.masked and mask_trouble(text):
                raise row.error(column, f"one mask, {MASK}, where the word is left out", found=text)
        if not group:
            yield LeftOut(name, cluster, NO_SHARE)
        elif form.same and (cells.get("good") in bad or ("other" in form.needs and cells["text"] == cells["other"])):
            yield LeftOut(name, group, form.same)
        elif is_pair:
            yield ClozeItem(name, cluster, group, cells["good"], other=bad[0])
        else:
            more: dict[str, Any] = {"answer" if key == "good" else key: text for key, text in cells.items()}
            yield ClozeItem(name, cluster, group, rivals=tuple(bad), **more)
