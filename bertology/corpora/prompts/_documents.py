"""Sentences in the order of their documents, for questions about what follows what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertology._inputs import given_path
from bertology.corpora._files import files_in, split_files, text_lines
from bertology.corpora._named import load_corpus
from bertology.corpora._sentence import Sentence
from bertology.corpora.formats.conllu import read_conllu
from bertology.errors import CorpusError

_NEW_DOCUMENT = re.compile(r"\s*newdoc\b(\s+id\s*=\s*(?P<id>.+?)\s*$)?")
_NUMBER_AT_END = re.compile(r"[-._:]?s?\d+$")
_SPLITS = ("test", "dev")


@dataclass(frozen=True, slots=True)
class Document:
    """Sentences that follow one another."""

    id: str
    sentences: tuple[str, ...]


def read_documents(source: str | Path) -> tuple[Document, ...]:
    """The documents of a corpus, their sentences in order.

    In plain text (``.txt``, one sentence a line) a blank line parts documents. In any other corpus they are told by
    the comment ``# newdoc``, as in Universal Dependencies; where there is none at all, by what comes before the number
    in the names of sentences (``doc-3-0012``). Of a corpus with splits it is test, or dev where there is no test.

    Args:
        source: a file, folder or name of a corpus, as :func:`~bertology.corpora.load_corpus` takes it.

    Raises:
        NameNotFoundError: no corpus of that name.
        CorpusError: it cannot be read, or does not tell where documents begin.
    """
    path = given_path(source, error=CorpusError)
    if path.is_file() and path.suffix.lower() == ".txt":
        found = tuple(_of_text(path))
        remedy = "part documents by a blank line"
    else:
        found = tuple(_of_sentences(_sentences(source, path)))
        remedy = "mark where documents begin by a comment # newdoc"
    if sum(len(document.sentences) > 1 for document in found) < 2:
        raise CorpusError(f"{source}: no two documents of several sentences in it; {remedy}")
    return found


def _sentences(source: str | Path, path: Path) -> list[Sentence]:
    """The sentences of the split that is asked about; of a treebank no other split is read."""
    if path.is_dir() and files_in(path, [".conllu"]):
        files = split_files(path, [".conllu"], what="CoNLL-U")
        return [sentence for file in files[_chosen(files)] for sentence in read_conllu(file)]
    corpus = load_corpus(source)
    return list(corpus[_chosen(corpus.splits)])


def _chosen(splits: Iterable[str]) -> str:
    names = list(splits)
    return next((name for name in _SPLITS if name in names), names[0])


def _of_text(path: Path) -> Iterator[Document]:
    sentences: list[str] = []
    number = 0
    for number, line in enumerate(text_lines(path), 1):
        if line.strip():
            sentences.append(" ".join(line.split()))
        elif sentences:
            yield Document(f"{path.stem}-{number - len(sentences)}", tuple(sentences))
            sentences = []
    if sentences:
        yield Document(f"{path.stem}-{number - len(sentences) + 1}", tuple(sentences))


def _of_sentences(held: Sequence[Sentence]) -> Iterator[Document]:
    marks = [_marked(sentence) for sentence in held]
    stems = [_NUMBER_AT_END.sub("", sentence.id) for sentence in held]
    if any(mark is not None for mark in marks):
        starts = [place for place, mark in enumerate(marks) if mark is not None or not place]
        names = [marks[place] for place in starts]
    else:
        starts = [place for place, stem in enumerate(stems) if not place or stem != stems[place - 1]]
        names = [stems[place] for place in starts]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(held)], strict=True), 1):
        yield Document(names[number - 1] or f"document-{number}", tuple(held[i].text for i in range(start, end)))


def _marked(sentence: Sentence) -> str | None:
    """What the document is called that begins with a sentence; None if none does, empty if it has no name."""
    for comment in sentence.comments:
        if match := _NEW_DOCUMENT.match(comment):
            return match["id"] or ""
    return None
