"""Words with their senses in context: CoarseWSD-20, WiC and WiC-TSV, and the lexical samples of Senseval."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from bertology._files import read_json
from bertology.corpora._corpus import SENSE, Corpus, Format, corpus_at
from bertology.corpora._files import Oddities, corpus_name, files_in, first_line, text_lines, wrong
from bertology.corpora._sentences import Sentence, Target
from bertology.corpora._tables import Row, corpus_of_rows, joined, read_table
from bertology.corpora._words import Span, penn_words
from bertology.errors import CorpusError, listed

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
        references, oddities = set(), Oddities()
        for file in self.files(path):
            is_pair = first_line(file).count("\t") != 1
            references.add(_TSV if file.name.endswith(_EXAMPLES) else _WIC if is_pair else _COARSE)
            splits[str(_split_of(file))] += self.read(file, oddities)
        if len(references) > 1:
            raise CorpusError(f"{path}: holds files of several sets; give the folder of one of them")
        (reference,) = references
        return corpus_at(path, splits, language=None if reference == _TSV else "en", reference=reference)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """Sentences of a file, one a line, with the senses of their marked words."""
        if file.name.endswith(_EXAMPLES):
            # Pairs of a word in context and a definition; the hypernyms that come with it are a comment.
            others = [f"_{kind}.txt" for kind in ("definitions", "labels", "hypernyms")]
            for row, (definition, label, hypernyms) in _rows(file, _EXAMPLES, others, 3):
                pair = _pair(file, row, [row.text("3"), definition], (row.text("2"), None), label)
                yield replace(pair, comments=(f"hypernyms = {', '.join(hypernyms.split(chr(9)))}",))
        elif first_line(file).count("\t") != 1:
            for row, (label,) in _rows(file, _DATA, [_GOLD], 5):
                at, _, at2 = row.text("3").partition("-")
                yield _pair(file, row, [row.text("4"), row.text("5")], (at, at2), label)
        else:
            word, classes = file.resolve().parent.name, file.with_name("classes_map.txt")  # a folder for each word
            what, remedy = "names of senses by their numbers", 'write them as in {"0": "bank_bank"}'
            names: dict[str, str] = read_json(classes, what=what, form=dict[str, str], remedy=remedy)
            for row, (code,) in _rows(file, _DATA, [_GOLD], 2):
                if code not in names:
                    raise wrong(f"{file}:{row.number} (gold)", code, f"one of {listed(names)}")
                words = row.text("2").split()
                target = Target(_word_at(row.text("1"), words, row), f"{word}:{names[code].removeprefix(f'{word}_')}")
                name = f"{word}-{_split_of(file)}-{row.number}"
                yield Sentence.from_words(words, id=name, targets={SENSE: (target,)})


def _split_of(path: Path) -> str | None:
    """``train`` of ``train.data.txt`` and ``train_examples.txt``."""
    ends = (end for end in (_DATA, _EXAMPLES) if path.name.endswith(end))
    return next((_SPLITS.get(path.name.removesuffix(end)) for end in ends), None)


def _rows(file: Path, ending: str, others: list[str], n: int) -> Iterator[tuple[Row, list[str]]]:
    """The rows of a file with ``n`` values parted by tabs, and the lines of other files that belong to them."""
    table = read_table(file, has_names=False)
    if len(table.columns) != n:
        raise wrong(f"{file}:1", f"{len(table.columns)} values", f"{n}, parted by tabs")
    lines = []
    for other in (file.with_name(file.name.removesuffix(ending) + other) for other in others):
        every = [line.strip() for line in text_lines(other)]
        # A line may be blank where there is nothing to state: no hypernyms of a definition.
        has_blank = len(every) == len(table) or not any(every[len(table) :])
        lines.append(every[: len(table)] if has_blank else list(filter(None, every)))
        if len(lines[-1]) != len(table):
            raise wrong(other, f"{len(lines[-1]):,} lines", f"{len(table):,}, one for each of {file.name}")
    yield from zip(table.rows(), map(list, zip(*lines, strict=True)), strict=True)


def _word_at(place: str, words: list[str], row: Row) -> Span:
    if not re.fullmatch(r"[0-9]{1,9}", place) or int(place) >= len(words):
        raise wrong(row.where, place, f"the index of a word, 0 to {len(words) - 1}")
    return int(place), int(place) + 1


def _pair(file: Path, row: Row, texts: list[str], places: tuple[str, str | None], label: str) -> Sentence:
    """Two texts, and the words in them that a label is about; all words where there is no place."""
    first, second = (text.split() for text in texts)
    if label not in ("T", "F"):
        raise wrong(f"{row.where}: label", label, "T or F")
    sides = zip(places, (first, second), strict=True)
    spans = [_word_at(place, words, row) if place is not None else (0, len(words)) for place, words in sides]
    n, name = len(first), f"{_split_of(file)}-{row.number}"
    both = joined(Sentence.from_words(first, id=name), Sentence.from_words(second))
    target = Target(spans[0], label, (spans[1][0] + n, spans[1][1] + n))
    return replace(both, targets={**both.targets, "label": (target,)})


_COARSE, _WIC, _TSV = "Loureiro et al. 2021", "Pilehvar & Camacho-Collados 2019", "Breit et al. 2021"


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
                    due = '<lexelt item="…">, <instance id="…"> and <answer … senseid="…"> before words'
                    raise wrong(f"{file}:{number}", line.strip(), due)
                context.append(line)
        if name:
            raise wrong(f"{file}:{first}", f"instance {name}", "</instance> after it")

    def _sentence(self, context: str, name: str, label: str, where: str) -> Sentence:
        forms, tags, bounds = list[str](), list[str | None](), list[int]()
        for token in self._token.finditer(context):
            if token[1]:
                bounds.append(len(forms))
            else:
                forms.append(token[3])
                tags.append(token[2])
        if len(bounds) != 2 or bounds[0] == bounds[1]:
            raise wrong(where, f"instance {name}", "its word once between <head> and </head>")
        words, spaced = penn_words(forms, tags)
        targets = {SENSE: (Target((bounds[0], bounds[1]), label),)}
        return Sentence.from_words(words, id=name, space_after=spaced, layers={"xpos": tags}, targets=targets)
