"""Generated sentences of Lin, Tan & Frank (2019): the main auxiliary or the subject noun of each is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bertology.corpora._corpus import Corpus
from bertology.corpora._files import at_least_one, corpus_name, files_in, text_lines
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora._word_order import MAIN_AUXILIARY, SUBJECT_NOUN, alternating
from bertology.errors import CorpusError, quoted

_TARGETS: Final = {"aux": MAIN_AUXILIARY, "sbjn": SUBJECT_NOUN}
_SUFFIXES = (".train", ".test", ".gen")
_DEV = 10
"""One in so many sentences of the training file is for dev, which the authors do not have apart."""
_MODIFIERS: Final = frozenset({"queen", "worker", "house", "race", "german"})
"""First words of the compounds in sentences for generalisation, which their training files lack: *queen bee*."""


def open_sesame_files(path: Path) -> list[Path]:
    """The files of a folder, or of the folders in it, that are called as theirs: ``aux.train``, ``sbjn.gen``."""
    inside = [path, *sorted(one for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))]
    return [file for place in inside for file in files_in(place, _SUFFIXES) if file.stem in _TARGETS]


def load_open_sesame(path: Path) -> Corpus:
    """The corpus in a folder with the files of one of their questions, or of both.

    Every auxiliary of a sentence of ``aux.*`` is a target ``main_auxiliary``, every noun of one of ``sbjn.*`` a target
    ``subject_noun``, with the label ``yes`` for the one that is asked for and ``no`` for others. ``train`` and ``dev``
    are of the file ``train``, of which one sentence in ten is for dev. In ``test`` the sentences of the files ``test``,
    where the first auxiliary or noun is the one, and ``gen``, where it is not, alternate. Of two questions the
    sentences alternate as well, so that any part from the beginning has some of all. Files ``.pos`` are not read:
    those of the subject noun do not belong to its sentences.

    Raises:
        CorpusError: a file is missing, or a line is not as it should be; the message names file and line.
    """
    files = open_sesame_files(path)
    read = {file.name: _read(file) for file in files}
    stems = sorted({file.stem for file in files})
    for name in (f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES):
        if name not in read:
            raise CorpusError(f"{path}: there is {files[0].name} but no {name}; give the folder with all three files")
    nouns = {stem: _asked_for(read[f"{stem}.train"]) | _MODIFIERS for stem in stems}

    def marked(name: str) -> Iterator[Sentence]:
        stem, _, split = name.partition(".")
        for number, (words, place) in read[name].items():
            others = (at for at, word in enumerate(words) if word in nouns[stem] or at == place)
            targets = tuple(Target((at, at + 1), "yes" if at == place else "no") for at in others)
            yield Sentence.from_words(words, id=f"{stem}-{split}-{number}", targets={_TARGETS[stem]: targets})

    train = [list(marked(f"{stem}.train")) for stem in stems]
    splits = {
        "train": alternating(*([one for n, one in enumerate(some) if n % _DEV != _DEV - 1] for some in train)),
        "dev": alternating(*(some[_DEV - 1 :: _DEV] for some in train)),
        "test": alternating(*(marked(f"{stem}{suffix}") for suffix in (".test", ".gen") for stem in stems)),
    }
    made = {name: Sentences(sentences) for name, sentences in splits.items()}
    return Corpus(corpus_name(path), made, language="en", reference="Lin et al. 2019")


_Lines = Mapping[int, tuple[list[str], int]]


def _read(file: Path) -> _Lines:
    """By number of line the words, and the place of the one that is asked for."""
    return dict(at_least_one(_lines(file), f"{file}: nothing in it; give a file with sentences"))


def _lines(file: Path) -> Iterator[tuple[int, tuple[list[str], int]]]:
    for number, line in enumerate(text_lines(file), 1):
        if not line.strip():
            continue
        text, _, place = line.rstrip("\r\n").partition("\t")
        words = text.split()
        if not re.fullmatch(r"[0-9]{1,9}", place) or int(place) >= len(words):
            due = "a sentence, TAB and the place of one of its words were due"
            raise CorpusError(f"{file}:{number}: {quoted(line.strip())} where {due}")
        yield number, (words, int(place))


def _asked_for(lines: _Lines) -> frozenset[str]:
    """The words that are the answer somewhere: all auxiliaries, or all nouns, of the grammar."""
    return frozenset(words[place] for words, place in lines.values())
