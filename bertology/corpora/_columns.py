"""Files of one word a line with its tags: two columns, CoNLL-2000, CoNLL-2003, IOB2 NER files."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertology.corpora._corpus import Corpus
from bertology.corpora._iob import NotIob, entities_in, to_iob2
from bertology.corpora._layout import Layout, layout_seen, layout_told
from bertology.corpora._lines import text_lines
from bertology.corpora._oddities import Oddities
from bertology.corpora._sentence import Sentence
from bertology.corpora._sentences import Sentences
from bertology.corpora._spacing import spacing_in
from bertology.corpora._splits import corpus_name, language_of, split_files
from bertology.errors import CorpusError, cut

COLUMN_SUFFIXES = (
    ".annotated",
    ".bio",
    ".col",
    ".conll",
    ".iob",
    ".iob2",
    ".testa",
    ".testb",
    ".train",
    ".tsv",
    ".txt",
)
"""Ends of the names of column files, for telling them from what else lies in a folder."""

_IOB_LAYERS = ("chunk", "ner")
_DOCUMENT = "-DOCSTART-"


def read_columns(
    path: str | Path, *, columns: str | Sequence[str] | None = None, oddities: Oddities | None = None
) -> Sentences:
    """The sentences of a file with one word and its tags a line and blank lines between sentences.

    Such files do not say where spaces are: the natural text is the words joined by single spaces, unless a
    ``# text`` comment holds just these words, as in the files of Universal NER. ``-DOCSTART-`` lines end a sentence
    and are left out. Layers ``ner`` and ``chunk`` are given in IOB2 (see :func:`~bertology.corpora._iob.to_iob2`);
    from ``ner`` follow the targets ``entities``.

    Args:
        path: the file.
        columns: what the columns hold, as ``"form,xpos,chunk"``: ``form``, ``id``, names of layers, ``_`` for a
            column of no use. Seen from the file when left out.
        oddities: collects what is unusual but no error.

    Raises:
        CorpusError: the file or a line of it is not as it should be; the message names file and line.
    """
    path = Path(path)
    return _read(path, _layout(path, columns), Oddities() if oddities is None else oddities)


def _layout(path: Path, columns: str | Sequence[str] | None) -> Layout:
    return layout_seen(path) if columns is None else layout_told(columns, path)


def _read(path: Path, layout: Layout, oddities: Oddities) -> Sentences:
    lines = array("q")
    sentences = Sentences(_sentences(path, layout, lines, oddities))
    if not len(sentences):
        raise CorpusError(f"{path}: no word in it; give a file with one word and its tags a line")
    repaired = {}
    for name in _IOB_LAYERS:
        if name in sentences.layers:
            try:
                repaired[name], changed = to_iob2(sentences.layers[name], sentences.starts)
            except NotIob as error:
                raise CorpusError(f"{path}:{lines[error.word]}: {name} {error}") from None
            if len(changed):
                where = f"{path.name}:{lines[int(changed[0])]}"
                oddities.note(f"{name} tags turned from IOB1 into IOB2", where, times=len(changed))
    sentences = sentences.with_layers(repaired)
    return sentences.with_derived("entities", entities_in(sentences)) if "ner" in sentences.layers else sentences


def _sentences(path: Path, layout: Layout, lines: array[int], oddities: Oddities) -> Iterator[Sentence]:
    """Sentences as they stand in the file; the line of each word is put into ``lines``."""
    rows: list[list[str]] = []
    comments: list[str] = []
    count = 0

    def finished() -> Iterator[Sentence]:
        nonlocal count
        if rows:
            count += 1
            first = lines[-len(rows)]
            yield _sentence(rows, comments, layout, count, f"{path.name}:{first}", oddities)
            rows.clear()
            comments.clear()

    for number, line in enumerate(text_lines(path), 1):
        if not line.strip():
            yield from finished()
        elif not rows and layout.is_comment(line):
            comments.append(line.rstrip("\r\n")[1:])
        else:
            row = layout.cells(line)
            if row[0] == _DOCUMENT:
                oddities.note(f"{_DOCUMENT} lines, left out", f"{path.name}:{number}")
                yield from finished()
                continue
            _check(row, layout, path, number, len(rows) + 1)
            rows.append(row)
            lines.append(number)
    yield from finished()


def _check(row: Sequence[str], layout: Layout, path: Path, number: int, due: int) -> None:
    names = layout.names
    if len(row) != len(names):
        columns = f"{len(row)} column{'s' if len(row) > 1 else ''}"
        parted = "tabs" if layout.tabbed else "spaces"
        raise CorpusError(
            f"{path}:{number}: {columns} where the file has {len(names)} ({cut(', '.join(names))}), parted by "
            f"{parted}; "
            "mend the line, or name the columns by --columns"
        )
    if "" in row:
        index = row.index("")
        raise CorpusError(f"{path}:{number}: column {index + 1} ({names[index]}) is empty; write _ for no value")
    if names[0] == "id" and row[0] != str(due):
        raise CorpusError(
            f"{path}:{number}: id {cut(row[0])} where {due} was due; number the words of a sentence from 1"
        )


def _sentence(
    rows: Sequence[Sequence[str]],
    comments: Sequence[str],
    layout: Layout,
    count: int,
    where: str,
    oddities: Oddities,
) -> Sentence:
    columns = list(zip(*rows, strict=True))
    forms = columns[layout.form]
    stated = {key.strip(): value.strip() for key, _, value in (comment.partition("=") for comment in comments)}
    space_after = None
    if "text" in stated:
        space_after = spacing_in(stated["text"], forms)
        if space_after is None:
            oddities.note("sentences whose words do not spell their `# text`, joined by single spaces", where)
    else:
        oddities.note("sentences without spacing, words joined by single spaces", where)
    layers = {
        name: tuple(None if value == "_" else value for value in columns[index])
        for name, index in layout.layers.items()
    }
    return Sentence.from_words(
        forms,
        id=stated.get("sent_id") or str(count),
        space_after=space_after,
        layers={name: values for name, values in layers.items() if any(values)},
        comments=tuple(comments),
    )


def load_columns(path: Path, *, columns: str | Sequence[str] | None = None) -> Corpus:
    """The corpus in a folder of column files, one a split, or in one file.

    One file is the split its name speaks of, else ``test``.

    Raises:
        CorpusError: no such file, or one that is not as it should be.
    """
    files = split_files(path, COLUMN_SUFFIXES, what="column")
    oddities = Oddities()
    layout: Layout | None = None
    splits = {}
    for split, paths in files.items():
        layout = layout or _layout(paths[0], columns)  # of the first, so that all splits have the same layers
        parts = [_read(file, layout, oddities) for file in paths]
        splits[split] = parts[0] if len(parts) == 1 else Sentences(s for part in parts for s in part)
    return Corpus(corpus_name(path), splits, language=language_of(files), notes=oddities.notes())
