"""The files of the ten probing tasks of Conneau et al. (2018): a split, a label and a sentence in each line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bertology.corpora._corpus import Corpus
from bertology.corpora._files import at_least_one, corpus_name, files_in, first_line, text_lines
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora.formats._words import sentence_of_text
from bertology.corpora.sentence_tasks import sentence_target
from bertology.errors import CorpusError, listed, quoted

SENTEVAL_SUFFIXES = (".txt",)
_SPLITS = {"tr": "train", "va": "dev", "te": "test"}
_TASKS = {
    "sentence_length": "length",
    "word_content": "words",
    "tree_depth": "depth",
    "top_constituents": "top",
    "bigram_shift": "shift",
    "past_present": "tense",
    "subj_number": "subject_number",
    "obj_number": "object_number",
    "odd_man_out": "odd_word",
    "coordination_inversion": "coordination",
}


def looks_like_senteval(path: Path) -> bool:
    """Whether a file is one of these, by its first line."""
    split, *values = first_line(path).split("\t")
    return split in _SPLITS and len(values) == 2


def load_senteval(path: Path) -> Corpus:
    """The corpus in one of the files, or in a folder with some of them: the task is what the file's name states.

    Each sentence has one target over all of its words, such as ``sentence:tense`` in ``past_present.txt``, whose label
    is that of the file (``PAST``). Words are as the file separates them, by spaces.

    Raises:
        CorpusError: a file is called otherwise, or a line is not as it should be; the message names file and line.
    """
    files = files_in(path, SENTEVAL_SUFFIXES) if path.is_dir() else [path]
    splits: dict[str, list[Sentence]] = {split: [] for split in _SPLITS.values()}
    for file in filter(looks_like_senteval, files):
        for split, sentence in at_least_one(_sentences(file), f"{file}: nothing in it; give a file with sentences"):
            splits[split].append(sentence)
    made = {split: Sentences(sentences) for split, sentences in splits.items() if sentences}
    return Corpus(corpus_name(path), made, language="en", reference="Conneau et al. 2018")


def _sentences(path: Path) -> Iterator[tuple[str, Sentence]]:
    if path.stem not in _TASKS:
        raise CorpusError(f"{path}: a task of sentences by no known name; call the file {listed(_TASKS)} (.txt)")
    target = sentence_target(_TASKS[path.stem])
    for number, line in enumerate(text_lines(path), 1):
        if not line.strip():
            continue
        values = line.rstrip("\r\n").split("\t")
        if len(values) != 3 or values[0] not in _SPLITS or not all(map(str.strip, values)):
            due = "tr, va or te, a label and a sentence were due, with tabs between them"
            raise CorpusError(f"{path}:{number}: {quoted(line.strip())} where {due}")
        sentence = sentence_of_text(values[2], split_at_spaces=True, name=f"{path.stem}:{number}")
        yield _SPLITS[values[0]], replace(sentence, targets={target: (Target((0, len(sentence)), values[1]),)})
