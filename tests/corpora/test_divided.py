"""A corpus of one piece is divided 8 : 1 : 1: the same whatever its order, documents and texts whole."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from bertology import Corpus, load_corpus
from bertology.corpora import Sentence, Sentences
from bertology.errors import CorpusError


def texts(n: int, *, document: int = 0) -> list[Sentence]:
    """Sentences of different texts, so many in each document."""
    return [
        Sentence.from_words(
            ["dog", str(number)],
            id=str(number),
            layers={"upos": ("NOUN", "NUM")},
            group=f"d{number // document}" if document else "",
        )
        for number in range(n)
    ]


def parts(sentences: list[Sentence]) -> dict[str, set[str]]:
    corpus = Corpus("made", {"test": Sentences(sentences)}).divided()
    return {split: {sentence.text for sentence in part} for split, part in corpus.splits.items()}


@pytest.mark.parametrize("document", [0, 5])
def test_every_sentence_is_in_one_split_whatever_the_order(document: int) -> None:
    made = texts(200, document=document)
    found = parts(made)
    assert {split: len(part) for split, part in found.items()} == {"train": 160, "dev": 20, "test": 20}
    assert set.union(*found.values()) == {sentence.text for sentence in made}
    shuffled = random.Random(1).sample(made, len(made))
    assert parts(shuffled) == found
    assert parts([replace(sentence, id="") for sentence in made]) == found


def test_documents_are_whole_and_texts_in_one_split() -> None:
    corpus = Corpus("made", {"test": Sentences(texts(60, document=4))}).divided()
    groups = [{sentence.group for sentence in part} for part in corpus.splits.values()]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 15
    assert corpus.notes["splits"] == "made by a hash of document, 8 : 1 : 1 (train 44, dev 8, test 8)"
    doubled = parts(texts(30) * 2)
    assert sum(map(len, doubled.values())) == 30


def test_two_documents_are_too_few_to_keep_whole() -> None:
    corpus = Corpus("made", {"test": Sentences(texts(40, document=20))}).divided()
    note = "made by a hash of text (2 documents: too few to keep whole), 8 : 1 : 1 (train 32, dev 4, test 4)"
    assert corpus.notes["splits"] == note


def test_what_has_splits_is_left_and_too_little_is_refused() -> None:
    several = Corpus("made", {"train": Sentences(texts(20)), "test": Sentences(texts(20))})
    assert several.divided() is several
    with pytest.raises(CorpusError, match="made: 9 sentences, of which train, dev and test are made; give 10 or more"):
        Corpus("made", {"test": Sentences(texts(9))}).divided()


CONLLU = "# newdoc id = d{0}\n1\tdog\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbarks{0}\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
COLUMNS = "-DOCSTART-\tO\n\ndog\tNOUN\nbarks{0}\tVERB\n\n"


@pytest.mark.parametrize(("name", "lines"), [("mine.conllu", CONLLU), ("mine.conll", COLUMNS)])
def test_documents_of_files_are_groups(tmp_path: Path, name: str, lines: str) -> None:
    (tmp_path / name).write_text("".join(lines.format(number) for number in range(30)))
    whole = load_corpus(tmp_path / name)
    assert set(whole.splits) == {"test"}  # what is not fitted reads all of it
    assert len({sentence.group for sentence in whole["test"]}) == 30
    assert {split: len(part) for split, part in whole.divided().splits.items()} == {"train": 24, "dev": 3, "test": 3}
    assert "hash of document" in whole.divided().notes["splits"]
