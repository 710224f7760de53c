"""Sentences in the order of their documents, for questions about what follows what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertology._inputs import given_path
from bertology.corpora._files import files_in, line_blocks, split_files, suffix_of
from bertology.corpora._named import load_corpus
from bertology.corpora._sentence import Sentence
from bertology.corpora._sentences import document_starts
from bertology.corpora.formats.conllu import CONLLU_SUFFIXES, read_conllu
from bertology.corpora.formats.tables import JSON_SUFFIXES, looks_like_table
from bertology.corpora.prompts._item_tables import columns_of, not_items
from bertology.errors import CorpusError

_SPLITS = ("test", "dev")


@dataclass(frozen=True, slots=True)
class Document:
    """Sentences that follow one another."""

    id: str
    sentences: tuple[str, ...]


def read_documents(source: str | Path) -> tuple[Document, ...]:
    """The documents of a corpus, their sentences in order.

    In plain text (``.txt``, one sentence a line) a blank line parts documents. In any other corpus they are the
    groups of its sentences, such as ``# newdoc`` begins in Universal Dependencies; where there is none at all, they are
    told by what comes before the number in the names of sentences (``doc-3-0012``). Of a corpus with splits it is test,
    or dev where there is no test.

    Args:
        source: a file, folder or name of a corpus, as :func:`~bertology.corpora.load_corpus` takes it.

    Raises:
        NameNotFoundError: no corpus of that name.
        CorpusError: it cannot be read, or does not tell where documents begin.
    """
    path = given_path(source, error=CorpusError)
    if path.is_file() and (looks_like_table(path) or suffix_of(path) in JSON_SUFFIXES):
        raise not_items(path, columns_of(path), "next_sentence", nor="documents")
    if path.is_file() and suffix_of(path) == ".txt":
        documents = tuple(
            Document(f"{path.stem}-{number}", tuple(" ".join(line.split()) for line in lines))
            for number, lines in line_blocks(path)
        )
        remedy = "part documents by a blank line"
    else:
        documents = tuple(_of_sentences(_sentences(source, path)))
        remedy = "mark where documents begin by a comment # newdoc"
    if sum(len(document.sentences) > 1 for document in documents) < 2:
        raise CorpusError(f"{source}: no two documents of several sentences in it; {remedy}")
    return documents


def _sentences(source: str | Path, path: Path) -> list[Sentence]:
    """The sentences of the split that is asked about; of a treebank no other split is read."""
    if path.is_dir() and files_in(path, CONLLU_SUFFIXES):
        files = split_files(path, CONLLU_SUFFIXES, what="CoNLL-U")
        return [sentence for file in files[_chosen(files)] for sentence in read_conllu(file)]
    corpus = load_corpus(source)
    return list(corpus[_chosen(corpus.splits)])


def _chosen(splits: Iterable[str]) -> str:
    names = list(splits)
    return next((name for name in _SPLITS if name in names), names[0])


def _of_sentences(sentences: Sequence[Sentence]) -> Iterator[Document]:
    starts = document_starts([one.group for one in sentences], [one.id for one in sentences])
    ends = [*(start for start, _ in starts[1:]), len(sentences)]
    for number, ((start, name), end) in enumerate(zip(starts, ends, strict=True), 1):
        yield Document(name or f"document-{number}", tuple(s.text for s in sentences[start:end]))
