"""Files of the probing tasks of Conneau et al. (2018)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertology import load_corpus
from bertology.corpora import Target
from bertology.errors import CorpusError

TENSE = "tr\tPAST\tHe did n't say .\nva\tPRES\tHe says so .\nte\tPAST\tShe said `` no '' .\n"
SHIFT = "tr\tI\tHe not did .\nte\tO\tHe did .\n"


def test_every_line_is_a_sentence_with_the_label_of_its_task(tmp_path: Path) -> None:
    (tmp_path / "past_present.txt").write_text(TENSE, encoding="utf-8")
    (tmp_path / "bigram_shift.txt").write_text(SHIFT, encoding="utf-8")
    corpus = load_corpus(tmp_path)
    assert {split: len(sentences) for split, sentences in corpus.splits.items()} == {"train": 2, "dev": 1, "test": 2}
    swapped, said = corpus["train"]
    assert swapped.targets == {"sentence:shift": (Target((0, 4), "I"),)}
    assert said.targets == {"sentence:tense": (Target((0, 5), "PAST"),)}
    assert (said.text, said.words) == ("He did n't say .", ("He", "did", "n't", "say", "."))
    assert load_corpus(tmp_path / "past_present.txt")["test"][0].id == "past_present:3"


def test_mistakes_are_said_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "past_present.txt"
    path.write_text(TENSE + "te\tPAST\n", encoding="utf-8")
    with pytest.raises(
        CorpusError, match=r"past_present.txt:4: .* where tr, va or te, a label and a sentence were due"
    ):
        load_corpus(path)
    other = tmp_path / "other.txt"
    other.write_text(TENSE, encoding="utf-8")
    with pytest.raises(CorpusError, match=r"a task of sentences by no known name; call the file sentence_length, "):
        load_corpus(other)
