"""Words with their senses in context: CoarseWSD-20, WiC and WiC-TSV, and the lexical samples of Senseval."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

from bertology._files import NotJson, parsed_json
from bertology.corpora._corpus import SENSE, Corpus, Format, corpus_at
from bertology.corpora._files import Oddities, at_least_one, corpus_name, files_in, first_line, text_lines
from bertology.corpora._sentences import Sentence, Target
from bertology.corpora._tables import corpus_of_rows, joined
from bertology.corpora._words import Span, penn_words
from bertology.errors import CorpusError, listed, quoted

_DATA, _EXAMPLES, _GOLD = ".data.txt", "_examples.txt", ".gold.txt"
_SPLITS = {"train": "train", "training": "train", "dev": "dev", "development": "dev", "test": "test"}


class Senses(Format):
    """CoarseWSD-20 (or one of its words), WiC, or WiC-TSV.

    In CoarseWSD-20 the target ``sense`` over the word has a label such as ``bank:bank_(geography)``. In WiC and WiC-TSV
    a sentence holds two texts, and the target ``label`` is a pair as of tables with ``text2``: a word in both texts, or
    a word and its definition, labelled ``T`` where the senses are the same. Texts are tokenised, and words stay as they
    are, with single spaces between them.
    """

    title, suffixes, described = "word senses", (".txt",), "senses of CoarseWSD-20, WiC and WiC-TSV"

    def files(self, path: Path) -> list[Path]:
        """The files of these sets in a folder and in its own folders, in order of name."""
        files = files_in(path, self.suffixes, below=True) if path.is_dir() else []
        return list(filter(_split_of, files))

    def load(self, path: Path) -> Corpus:
        """The corpus in a folder."""
        splits: dict[str, list[Sentence]] = {"train": [], "dev": [], "test": []}
        references = set()
        for file in self.files(path):
            n_fields = first_line(file).count("\t") + 1
            if not file.name.endswith(_EXAMPLES) and n_fields not in (2, 5):
                due = "a place, TAB and a sentence (CoarseWSD-20), or word, class, places and two sentences (WiC)"
                raise CorpusError(f"{file}:1: {quoted(first_line(file).strip())} where {due} were due")
            reference = _TSV if file.name.endswith(_EXAMPLES) else _COARSE if n_fields == 2 else _WIC
            references.add(reference)
            read = at_least_one(_READERS[reference](file), f"{file}: nothing in it; give a file with sentences")
            splits[str(_split_of(file))] += read
        if len(references) > 1:
            raise CorpusError(f"{path}: holds files of several sets; give the folder of one of them")
        (reference,) = references
        return corpus_at(path, splits, language=None if reference == _TSV else "en", reference=reference)


def _split_of(path: Path) -> str | None:
    """``train`` of ``train.data.txt`` and ``train_examples.txt``."""
    ends = (end for end in (_DATA, _EXAMPLES) if path.name.endswith(end))
    return next((_SPLITS.get(path.name.removesuffix(end)) for end in ends), None)


def _rows(file: Path, ending: str, others: list[str], n: int, due: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """The number of each line, its fields, and the lines of other files that belong to it."""
    files = [file, *(file.with_name(file.name.removesuffix(ending) + other) for other in others)]
    if missing := next((other for other in files if not other.is_file()), None):
        raise CorpusError(f"{missing}: no such file, which should have a line for each of {file.name}")
    for number, lines in enumerate(zip_longest(*map(text_lines, files)), 1):
        if None in lines:
            short = files[lines.index(None)]
            what = "missing line, which another file has; give all files the same number of lines"
            raise CorpusError(f"{short}:{number}: {what}")
        line, *more = (one.rstrip("\r\n") for one in lines)
        fields = line.split("\t")
        if len(fields) != n or not all(map(str.strip, fields)):
            raise CorpusError(f"{file}:{number}: {quoted(line)} where {due} were due, with tabs between them")
        yield number, fields, more


def _word_at(place: str, words: list[str], where: str) -> Span:
    if not re.fullmatch(r"[0-9]{1,9}", place) or int(place) >= len(words):
        raise CorpusError(f"{where}: {quoted(place)} is no word index; give 0 to {len(words) - 1}")
    return int(place), int(place) + 1


def _coarse(file: Path) -> Iterator[Sentence]:
    """The sentences of one word of CoarseWSD-20, which is what its folder is called."""
    word, classes = file.resolve().parent.name, file.with_name("classes_map.txt")
    remedy = 'it should name the senses by their numbers, as in {"0": "bank_bank"}'
    try:
        names = parsed_json("".join(text_lines(classes)))
    except NotJson as error:
        raise CorpusError(f"{classes}: not JSON ({error}); {remedy}") from None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise CorpusError(f"{classes}: no object of texts; {remedy}")
    for number, (place, text), (code,) in _rows(file, _DATA, [_GOLD], 2, "a place and a sentence"):
        if code.strip() not in names:
            raise CorpusError(f"{file}:{number} (gold): {quoted(code)} is none of {listed(names)}")
        words, sense = text.split(), names[code.strip()].removeprefix(f"{word}_")
        target = Target(_word_at(place, words, f"{file}:{number}"), f"{word}:{sense}")
        yield Sentence.from_words(words, id=f"{word}-{_split_of(file)}-{number}", targets={SENSE: (target,)})


def _wic(file: Path) -> Iterator[Sentence]:
    due = "word, class, places (2-5) and two sentences"
    for number, (_, _, places, *texts), (label,) in _rows(file, _DATA, [_GOLD], 5, due):
        at, _, at2 = places.partition("-")
        yield _pair(file, number, texts, (at, at2), label)


def _wic_tsv(file: Path) -> Iterator[Sentence]:
    """Pairs of a word in context and a definition; the hypernyms that come with it are a comment."""
    others = [f"_{kind}.txt" for kind in ("definitions", "labels", "hypernyms")]
    for number, (_, place, text), more in _rows(file, _EXAMPLES, others, 3, "word, place and sentence"):
        definition, label, hypernyms = more
        pair = _pair(file, number, [text, definition], (place, None), label)
        yield replace(pair, comments=(f"hypernyms = {', '.join(hypernyms.split(chr(9)))}",))


def _pair(file: Path, number: int, texts: list[str], places: tuple[str, str | None], label: str) -> Sentence:
    """Two texts, and the words in them that a label is about; all words where there is no place."""
    where, (first, second) = f"{file}:{number}", (text.split() for text in texts)
    if label.strip() not in ("T", "F") or not second:
        what = f"label {quoted(label)} where T or F was due" if second else "no definition in another file of this line"
        raise CorpusError(f"{where}: {what}")
    spans = [
        _word_at(place, words, where) if place is not None else (0, len(words))
        for place, words in zip(places, (first, second), strict=True)
    ]
    n, name = len(first), f"{_split_of(file)}-{number}"
    both = joined(Sentence.from_words(first, id=name), Sentence.from_words(second))
    target = Target(spans[0], label.strip(), (spans[1][0] + n, spans[1][1] + n))
    return replace(both, targets={**both.targets, "label": (target,)})


_COARSE, _WIC, _TSV = "Loureiro et al. 2021", "Pilehvar & Camacho-Collados 2019", "Breit et al. 2021"
_READERS = {_COARSE: _coarse, _WIC: _wic, _TSV: _wic_tsv}


class Senseval(Format):
    """Lexical samples of Senseval, as ``hard.pos``.

    They look like XML and are none: words stand in them as they are, ``&`` and ``<`` among them. The target ``sense``
    over the word between ``<head>`` and ``</head>`` has a label such as ``hard:HARD1``; tags are the layer ``xpos``.
    Spaces are restored by the rules of the Penn Treebank. They have no splits: split 8 : 1 : 1 by a hash of the text.
    """

    title, suffixes, described = "lexical sample", (".pos",), "senses of Senseval (.pos)"
    _instance = re.compile(r'<instance id="([^"]*)"')
    _answer = re.compile(r'<answer .*senseid="([^"]*)"')
    _item = re.compile(r'<lexelt item="([^"]*)"')
    _token: Final = re.compile(r'<(/?head)>|<wf pos="([^"]*)">(.*?)</wf>')

    def recognises(self, file: Path) -> bool:
        """Whether the first line is that of a lexical sample."""
        return first_line(file).lstrip().startswith(("<corpus", "<lexelt"))

    def load(self, path: Path) -> Corpus:
        """The corpus of one lexical sample, or of a folder of lexical samples."""
        oddities = Oddities()
        read = self.read_all(filter(self.recognises, self.files(path)), oddities)
        return corpus_of_rows(corpus_name(path), [(None, one) for one in read], oddities=oddities)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence an instance."""
        word, name, sense, first = "", "", "", 0
        context: list[str] = []
        for number, line in enumerate(text_lines(file), 1):
            if item := self._item.search(line):
                word = item[1].rpartition("-")[0] or item[1]
            elif instance := self._instance.search(line):
                name, sense, first, context = instance[1], "", number, []
            elif answer := self._answer.search(line):
                sense = answer[1]
            elif "</instance" in line:
                if context:
                    yield self._sentence(" ".join(context), name, f"{word}:{sense}", f"{file}:{first}")
                else:
                    oddities.skip("instances without words", f"{file.name}:{first}")
                name = ""
            elif "<wf " in line:
                if not (name and word and sense):
                    due = '<answer … senseid="…">' if name and word else '<lexelt item="…"> and <instance id="…">'
                    raise CorpusError(f"{file}:{number}: words without {due} before them")
                context.append(line)
        if name:
            raise CorpusError(f"{file}:{first}: instance {quoted(name)} does not end; </instance> was due after it")

    def _sentence(self, context: str, name: str, label: str, where: str) -> Sentence:
        forms, tags, bounds = list[str](), list[str | None](), list[int]()
        for token in self._token.finditer(context):
            if token[1]:
                bounds.append(len(forms))
            else:
                forms.append(token[3])
                tags.append(token[2])
        if len(bounds) != 2 or bounds[0] == bounds[1]:
            raise CorpusError(f"{where}: instance {quoted(name)} should have its word once between <head> and </head>")
        words, spaced = penn_words(forms, tags)
        targets = {SENSE: (Target((bounds[0], bounds[1]), label),)}
        return Sentence.from_words(words, id=name, space_after=spaced, layers={"xpos": tags}, targets=targets)
