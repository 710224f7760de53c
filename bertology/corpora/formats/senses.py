"""Words with their senses in context: CoarseWSD-20, the lexical samples of Senseval, WiC and WiC-TSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from bertology._inputs import NotJson, parsed_json
from bertology.corpora._corpus import Corpus
from bertology.corpora._files import Oddities, at_least_one, corpus_name, files_in, first_line, text_lines
from bertology.corpora._sentences import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora._tables import Row, corpus_of_rows, joined
from bertology.corpora._words import Span, penn_words
from bertology.errors import CorpusError, listed, quoted

SENSE = "sense"
"""Name of the targets that hold the sense of a word, ``word:sense``."""
_PAIR = "label"
"""Name of the targets of pairs, as of tables."""
SENSEVAL_LEXICAL_SUFFIXES = (".pos",)
_DATA, _EXAMPLES = ".data.txt", "_examples.txt"
_SPLITS = {"train": "train", "training": "train", "dev": "dev", "development": "dev", "test": "test"}


def sense_files(folder: Path) -> list[Path]:
    """The files of CoarseWSD-20, WiC or WiC-TSV in a folder and in its own folders, in order of name."""
    inside = [folder, *sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))]
    return [file for place in inside for file in files_in(place, (".txt",)) if _split_of(file)]


def _split_of(path: Path) -> str | None:
    """``train`` of ``train.data.txt`` and ``train_examples.txt``."""
    return next(
        (_SPLITS.get(path.name.removesuffix(end)) for end in (_DATA, _EXAMPLES) if path.name.endswith(end)), None
    )


def load_senses(path: Path) -> Corpus:
    """The corpus in a folder of CoarseWSD-20 (or of one of its words), of WiC, or of WiC-TSV.

    In CoarseWSD-20 the target ``sense`` over the word has a label such as ``bank:bank_(geography)``. In WiC and WiC-TSV
    a sentence holds two texts, and the target ``label`` is a pair as of tables with ``text2``: a word in both texts, or
    a word and its definition, labelled ``T`` where the senses are the same. Texts are tokenised, and words stay as they
    are, with single spaces between them.

    Raises:
        CorpusError: a file is missing, or a line is not as it should be; the message names file and line.
    """
    splits: dict[str, list[Sentence]] = {"train": [], "dev": [], "test": []}
    references = set()
    for file in sense_files(path):
        read, reference = _read_as(file)
        references.add(reference)
        sentences = at_least_one(read(file), f"{file}: nothing in it; give a file with sentences")
        splits[str(_split_of(file))] += sentences
    if len(references) > 1:
        raise CorpusError(f"{path}: holds files of several sets; give the folder of one of them")
    made = {split: Sentences(sentences) for split, sentences in splits.items() if sentences}
    (reference,) = references
    return Corpus(corpus_name(path), made, language=None if reference == _OF_TSV else "en", reference=reference)


_Read = Callable[[Path], Iterator[Sentence]]


_OF_TSV = "Breit et al. 2021"


def _read_as(file: Path) -> tuple[_Read, str]:
    """The reader of a file, and the paper that its set comes from."""
    if file.name.endswith(_EXAMPLES):
        return _wic_tsv, _OF_TSV
    n_fields = first_line(file).count("\t") + 1
    if n_fields not in (2, 5):
        due = "a place, TAB and a sentence (CoarseWSD-20), or word, class, places and two sentences (WiC)"
        raise CorpusError(f"{file}:1: {quoted(first_line(file).strip())} where {due} were due")
    return (_coarse, "Loureiro et al. 2021") if n_fields == 2 else (_wic, "Pilehvar & Camacho-Collados 2019")


def _with_gold(file: Path, ending: str, gold: str) -> Iterator[tuple[int, str, str]]:
    """The number of each line, the line, and the line of another file that goes with it."""
    other = file.with_name(file.name.removesuffix(ending) + gold)
    if not other.is_file():
        raise CorpusError(f"{other}: no such file, which should have a line for each of {file.name}")
    for number, (line, value) in enumerate(zip_longest(text_lines(file), text_lines(other)), 1):
        if line is None or value is None:
            short, long = (file, other) if line is None else (other, file)
            raise CorpusError(f"{short}:{number}: no such line, but {long.name} has one; both should be as long")
        yield number, line.rstrip("\r\n"), value.rstrip("\r\n")


def _fields(line: str, n: int, where: str, due: str) -> list[str]:
    values = line.split("\t")
    if len(values) != n or not all(map(str.strip, values)):
        raise CorpusError(f"{where}: {quoted(line)} where {due} were due, with tabs between them")
    return values


def _word_at(place: str, words: list[str], where: str) -> Span:
    if not re.fullmatch(r"[0-9]{1,9}", place) or int(place) >= len(words):
        raise CorpusError(f"{where}: {quoted(place)} is no place of a word; give 0 to {len(words) - 1}")
    return int(place), int(place) + 1


def _coarse(file: Path) -> Iterator[Sentence]:
    """Of one word of CoarseWSD-20, which is what its folder is called."""
    word, names = file.resolve().parent.name, _classes(file.with_name("classes_map.txt"))
    for number, line, code in _with_gold(file, _DATA, ".gold.txt"):
        where = f"{file}:{number}"
        place, text = _fields(line, 2, where, "a place and a sentence")
        if code.strip() not in names:
            gold = file.name.replace(_DATA, ".gold.txt")
            raise CorpusError(f"{file.with_name(gold)}:{number}: {quoted(code)} is none of {listed(names)}")
        words = text.split()
        target = Target(_word_at(place, words, where), f"{word}:{names[code.strip()].removeprefix(f'{word}_')}")
        yield Sentence.from_words(words, id=f"{word}-{_split_of(file)}-{number}", targets={SENSE: (target,)})


def _classes(path: Path) -> Mapping[str, str]:
    """What the numbers of classes stand for."""
    if not path.is_file():
        raise CorpusError(f"{path}: no such file, which should name the senses by their numbers")
    try:
        names = parsed_json("".join(text_lines(path)))
    except NotJson as error:
        raise CorpusError(f"{path}: not JSON ({error})") from None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise CorpusError(f'{path}: an object such as {{"0": "bank_bank"}} was due')
    return names


def _wic(file: Path) -> Iterator[Sentence]:
    for number, line, label in _with_gold(file, _DATA, ".gold.txt"):
        where = f"{file}:{number}"
        word, _, places, *texts = _fields(line, 5, where, "word, class, places and two sentences")
        if places.count("-") != 1:
            raise CorpusError(f"{where}: {quoted(places)} where the places of {quoted(word)}, such as 2-5, were due")
        first, second = (text.split() for text in texts)
        at, at2 = places.split("-")
        span1, span2 = _word_at(at, first, where), _word_at(at2, second, where)
        yield _pair(f"{_split_of(file)}-{number}", first, second, span1, span2, label, f"{where} (gold)")


def _wic_tsv(file: Path) -> Iterator[Sentence]:
    """A word in context and a definition; the hypernyms that come with it are a comment."""
    beside = [_with_gold(file, _EXAMPLES, f"_{kind}.txt") for kind in ("definitions", "labels", "hypernyms")]
    for (number, line, definition), (_, _, label), (_, _, hypernyms) in zip(*beside, strict=True):
        where = f"{file}:{number}"
        _, place, text = _fields(line, 3, where, "word, place and sentence")
        words, second = text.split(), definition.split()
        if not second:
            raise CorpusError(f"{where}: no definition in line {number} of {_split_of(file)}_definitions.txt")
        span = _word_at(place, words, where)
        pair = _pair(f"{_split_of(file)}-{number}", words, second, span, (0, len(second)), label, f"{where} (labels)")
        yield replace(pair, comments=(f"hypernyms = {', '.join(hypernyms.split(chr(9)))}",))


def _pair(name: str, first: list[str], second: list[str], span1: Span, span2: Span, label: str, where: str) -> Sentence:
    if label.strip() not in ("T", "F"):
        raise CorpusError(f"{where}: {quoted(label)} where T or F was due")
    n = len(first)
    both = joined(Sentence.from_words(first, id=name), Sentence.from_words(second))
    target = Target(span1, label.strip(), (span2[0] + n, span2[1] + n))
    return replace(both, targets={**both.targets, _PAIR: (target,)})


_INSTANCE = re.compile(r'<instance id="([^"]*)"')
_ANSWER = re.compile(r'<answer .*senseid="([^"]*)"')
_ITEM = re.compile(r'<lexelt item="([^"]*)"')
_TOKEN = re.compile(r'<(/?head)>|<wf pos="([^"]*)">(.*?)</wf>')


def looks_like_senseval_lexical(path: Path) -> bool:
    """Whether a file is a lexical sample of Senseval, by its first line."""
    return path.suffix.lower() in SENSEVAL_LEXICAL_SUFFIXES and first_line(path).lstrip().startswith(
        ("<corpus", "<lexelt")
    )


def load_senseval_lexical(path: Path) -> Corpus:
    """The corpus in a lexical sample of Senseval, as ``hard.pos``, or in a folder of some.

    They look like XML and are none: words stand in them as they are, ``&`` and ``<`` among them. The target ``sense``
    over the word between ``<head>`` and ``</head>`` has a label such as ``hard:HARD1``; tags are the layer ``xpos``.
    Spaces are restored by the rules of the Penn Treebank. They have no splits: split 8 : 1 : 1 by a hash of the text.

    Raises:
        CorpusError: an instance is not as it should be; the message names file and line.
    """
    files = files_in(path, SENSEVAL_LEXICAL_SUFFIXES) if path.is_dir() else [path]
    oddities = Oddities()
    sentences = [
        sentence
        for file in filter(looks_like_senseval_lexical, files)
        for sentence in at_least_one(_instances(file, oddities), f"{file}: no instance in it; give a lexical sample")
    ]
    rows = [Row(sentence, None) for sentence in sentences]
    return corpus_of_rows(corpus_name(path), rows, notes={}, oddities=oddities)


def _instances(path: Path, oddities: Oddities) -> Iterator[Sentence]:
    word, name, sense, first = "", "", "", 0
    context: list[str] = []
    for number, line in enumerate(text_lines(path), 1):
        if item := _ITEM.search(line):
            word = item[1].rpartition("-")[0] or item[1]
        elif instance := _INSTANCE.search(line):
            name, sense, first, context = instance[1], "", number, []
        elif answer := _ANSWER.search(line):
            sense = answer[1]
        elif "</instance" in line:
            if context:
                yield _instance(" ".join(context), name, f"{word}:{sense}", f"{path}:{first}")
            else:
                oddities.skip("instances without words", f"{path.name}:{first}")
            name = ""
        elif "<wf " in line:
            if not (name and word and sense):
                due = '<answer … senseid="…">' if name and word else '<lexelt item="…"> and <instance id="…">'
                raise CorpusError(f"{path}:{number}: words without {due} before them")
            context.append(line)
    if name:
        raise CorpusError(f"{path}:{first}: instance {quoted(name)} does not end; </instance> was due after it")


def _instance(context: str, name: str, label: str, where: str) -> Sentence:
    forms: list[str] = []
    tags: list[str | None] = []
    bounds: list[int] = []
    for token in _TOKEN.finditer(context):
        if token[1]:
            bounds.append(len(forms))
        else:
            forms.append(token[3])
            tags.append(token[2])
    if len(bounds) != 2 or bounds[0] == bounds[1]:
        raise CorpusError(f"{where}: instance {quoted(name)} should have its word once between <head> and </head>")
    words, spaced = penn_words(forms, tags)
    targets = {SENSE: (Target((bounds[0], bounds[1]), label),)}
    return Sentence.from_words(words, id=name, space_after=spaced, layers={"xpos": tuple(tags)}, targets=targets)
