"""Reading times: how long people read each word of a text, with the length and frequency of the word."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bertology.corpora._tables import Columns, Form, Row, Stated
from bertology.corpora.prompts._items import required_tables, source_name
from bertology.errors import CorpusError

READING_MEASURES: Mapping[str, str] = {
    "self_paced": "self_paced_reading_time",
    "first_fixation": "RTfirstfix",
    "first_pass": "RTfirstpass",
    "right_bounded": "RTrightbound",
    "go_past": "RTgopast",
    "n400": "N400",
}
"""Measures, each with its column in the table of de Varda, Marelli & Amenta (2023)."""


@dataclass(frozen=True, slots=True)
class ReadWord:
    """One word as people read it; a value is NaN where the table has none."""

    place: int
    """Number of the word in its text, from 0."""
    time: float
    """The measure: of times mean milliseconds, of the N400 a mean amplitude."""
    length: float
    """Number of characters."""
    frequency: float
    """Logarithm of its frequency in some corpus."""


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text of words between spaces, with those of its words that a table has, by place."""

    text: str
    words: tuple[ReadWord, ...]


def read_reading_times(source: Any, measure: str, *, columns: Stated | None = None) -> tuple[ReadText, ...]:
    """The texts of a table with a word in each row.

    Columns are ``text`` (or ``sentence``), ``at``, the number from 0 of the word among those between spaces
    (``context_length``), ``frequency``, a logarithm (``Subtlex_log10``), and the measure, by its name or as in
    :data:`READING_MEASURES`. The ``word`` itself is checked where there is such a column; its ``length`` is the number
    of its characters where there is none. Values may be missing: empty, ``NA`` or ``NaN``.

    Raises:
        CorpusError: a value is no number, a place not in the text, a word another one or there twice.
        NameNotFoundError: there is no such column.
    """
    form = Form(
        needs=("text", "at", "frequency", measure),
        may=("word", "length"),
        aliases={
            "text": ("text", "sentence"),
            "at": ("at", "context_length"),
            "frequency": ("frequency", "subtlex_log10"),
            measure: (measure, READING_MEASURES[measure].lower()),
        },
    )
    found: dict[str, dict[int, ReadWord]] = {}
    for table, chosen in required_tables(source, form, columns=columns):
        for row in table.rows():
            text, word = _word(row, chosen, measure)
            if found.setdefault(text, {}).setdefault(word.place, word) is not word:
                raise row.error(chosen["at"][0], f"each word of a text once; average over people: {text!r}")
    if not found:
        raise CorpusError(f"{source_name(source)}: no word in it, only names of columns; give the whole table")
    return tuple(ReadText(text, tuple(words[place] for place in sorted(words))) for text, words in found.items())


def _word(row: Row, columns: Columns, measure: str) -> tuple[str, ReadWord]:
    """The text and the word of a row."""
    text, column = row.text(columns["text"][0]), columns["at"][0]
    words, place = text.split(), row.as_float(column)
    if not place.is_integer() or not 0 <= place < len(words):
        raise row.error(column, f"the number of a word from 0, at most {len(words) - 1}")
    word = words[int(place)]
    if "word" in columns and row.text(columns["word"][0], numbers=True) != word:
        raise row.error(columns["word"][0], f"{word!r}, the word {int(place)} of the text, counted from 0")
    length = row.as_float(columns["length"][0]) if "length" in columns else float(len(word))
    time, frequency = (row.as_float(columns[key][0]) for key in (measure, "frequency"))
    return text, ReadWord(int(place), time, length, frequency)
