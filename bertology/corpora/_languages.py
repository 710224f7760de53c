"""Corpora of several languages: marks of languages and translations, parallel text, gold links of words."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from bertology._files import exists, given_path
from bertology.corpora._corpus import Corpus
from bertology.corpora._data import data_path
from bertology.corpora._files import Oddities, corpus_name, numbered_lines, split_files, split_of, text_lines, wrong
from bertology.corpora._sentences import Sentence, Sentences, Target
from bertology.corpora._words import sentence_of_text
from bertology.corpora.formats.columns import Text, looks_like_columns
from bertology.errors import CorpusError, cut_path, listed, quoted

LANGUAGE: Final = "language"
"""The target over a whole sentence whose label is its language, such as ``de``."""
TRANSLATION: Final = "translation"
"""The target over a whole sentence whose label names what it has in common with its translations, such as ``n01001``.
"""
_LINKS = "links:"
_POSSIBLE = "p"
Pairs = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Links:
    """A gold word alignment of two sentences: pairs of places of words, each from 0.

    A word in no pair is linked with none; one may be in many. Where annotators were not of one mind a link is only
    *possible* (Och & Ney 2003): an aligner need not find it, and may.
    """

    sure: Pairs
    possible: Pairs = frozenset()
    """Links that are possible without being sure."""

    def turned(self) -> "Links":
        """The same links from the second sentence to the first."""
        return Links(*(frozenset((j, i) for i, j in pairs) for pairs in (self.sure, self.possible)))

    def fits(self, n_first: int, n_second: int) -> bool:
        """Whether every pair is of words that sentences of so many words have."""
        return all(0 <= i < n_first and 0 <= j < n_second for i, j in self.sure | self.possible)


def translations(
    sentences: Mapping[str, Sentence], *, unit: str | None = None, links: Mapping[tuple[str, str], Links] | None = None
) -> list[Sentence]:
    """Sentences of several languages as a corpus of several languages holds them: one after the other, and marked.

    Every sentence gets the target ``language`` and, where they translate each other, ``translation``, both over the
    whole of it, and the id ``UNIT/LANGUAGE``. Gold links of two languages become a layer of the second: ``links:en``
    holds for each word the places of the English words that it is linked with (``"3"``, ``"2 3"``; of possible links
    ``"p4"``), and ``""`` where it is linked with none.

    Args:
        sentences: a sentence for each language.
        unit: names what they have in common; None for sentences that do not translate each other.
        links: gold links by pair of languages.

    Raises:
        ValueError: links of a language that is not there, or of words that are not.
    """
    marked = {}
    for language, sentence in sentences.items():
        whole = (0, len(sentence))
        marks = {LANGUAGE: (Target(whole, language),)}
        if unit is not None:
            marks[TRANSLATION] = (Target(whole, unit),)
        name = sentence.id if unit is None else unit
        marked[language] = replace(sentence, id=f"{name}/{language}", targets={**sentence.targets, **marks})
    for (first, second), of_pair in (links or {}).items():
        if first not in marked or second not in marked:
            raise ValueError(f"links of {first} and {second}, but sentences of {listed(marked)}")
        one, other = marked[first], marked[second]
        if not of_pair.fits(len(one), len(other)):
            raise ValueError(f"{one.id}, {other.id}: links of words that these sentences do not have")
        cells: list[list[str]] = [[] for _ in other.words]
        for prefix, pairs in (("", of_pair.sure), (_POSSIBLE, of_pair.possible - of_pair.sure)):
            for i, j in sorted(pairs):
                cells[j].append(f"{prefix}{i}")
        marked[second] = replace(other, layers={**other.layers, _LINKS + first: tuple(map(" ".join, cells))})
    return list(marked.values())


@dataclass(frozen=True, eq=False)
class ParallelText:
    """The sentences of a split by language, and those that translate each other."""

    sentences: Sentences
    languages: tuple[str, ...]
    """Languages in order of first appearance."""
    language: NDArray[np.int64]
    """``[sentence]`` number of its language, −1 for none."""
    unit: NDArray[np.int64]
    """``[sentence]`` number of what it has in common with its translations, −1 for none."""

    @classmethod
    def of(cls, sentences: Sentences) -> "ParallelText":
        """The text of a split.

        Raises:
            CorpusError: no sentence states its language, or one states two; fewer than two languages, one with a single
                sentence, or two sentences of a language that translate the same.
        """
        language, languages = _labels(sentences, LANGUAGE)
        unit, units = _labels(sentences, TRANSLATION)
        if len(languages) < 2:
            what = f"all sentences are {languages[0]}" if languages else "no sentence states its language"
            raise CorpusError(f"{what}: give parallel:en=path/to/one,de=path/to/other, or multilingual:… alike")
        counts = np.bincount(language[language >= 0], minlength=len(languages))
        if (counts < 2).any():
            lone = languages[int(counts.argmin())]
            raise CorpusError(f"language {lone} has one sentence: give two or more")
        both = np.stack([language, unit])[:, (language >= 0) & (unit >= 0)]
        distinct, times = np.unique(both, axis=1, return_counts=True)
        if (times > 1).any():
            where, what = distinct[:, times.argmax()]
            raise CorpusError(
                f"{times.max()} sentences of {languages[where]} have the translation {quoted(units[what])}: give one"
            )
        return cls(sentences, languages, language, unit)

    def numbers(self, language: str) -> NDArray[np.int64]:
        """``[sentence]`` numbers of the sentences of a language."""
        return np.flatnonzero(self.language == self.languages.index(language))

    def alone(self, language: str) -> Sentences:
        """The sentences of a language, with the id that they have in common with their translations."""
        texts = (self.sentences[number] for number in self.numbers(language).tolist())
        return Sentences(replace(text, id=text.id.removesuffix(f"/{language}")) for text in texts)

    def pairs(self, source: str, target: str) -> NDArray[np.int64]:
        """``[pair, 2]`` numbers of a sentence and its translation, in order of the first; none where none is known."""
        first, second = (one[self.unit[one] >= 0] for one in map(self.numbers, (source, target)))
        _, ours, theirs = np.intersect1d(self.unit[first], self.unit[second], return_indices=True)
        pairs = np.stack([first[ours], second[theirs]], axis=1)
        return np.asarray(pairs[np.argsort(pairs[:, 0])])

    def links(self, source: str, target: str) -> list[Links | None]:
        """The gold alignment of each of :meth:`pairs`, None where there is none."""
        found: list[Links | None] = []
        for first, second in self.pairs(source, target).tolist():
            of_second = self._links_in(second, source)
            of_first = self._links_in(first, target) if of_second is None else None
            found.append(of_second if of_first is None else of_first.turned())
        return found

    def _links_in(self, number: int, language: str) -> Links | None:
        """The links from the words of a language that a sentence holds in its layer of that language."""
        layer = self.sentences.layers.get(_LINKS + language)
        start, end = self.sentences.starts[number : number + 2].tolist()
        cells = layer.decoded(start, end) if layer is not None else (None,)
        if cells[0] is None:
            return None
        links = [(one, j) for j, cell in enumerate(cells) for one in (cell or "").split()]
        sure = frozenset((int(one), j) for one, j in links if not one.startswith(_POSSIBLE))
        return Links(sure, frozenset((int(one[1:]), j) for one, j in links if one.startswith(_POSSIBLE)))


def _labels(sentences: Sentences, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """``[sentence]`` the number of the label of each, −1 for none, and the labels."""
    numbers, known = np.full(len(sentences), -1, dtype=np.int64), dict[str, Any]()
    for number, targets in sentences.targets(name):
        if len(targets) > 1 or len(targets[0].labels) != 1:
            raise CorpusError(f"sentence {quoted(sentences.id(number))} has several labels in {quoted(name)}: give one")
        numbers[number] = known.setdefault(targets[0].labels[0], len(known))
    return numbers, tuple(known)


_BETWEEN = "|||"
_LINK = re.compile(r"([0-9]{1,6})([-p])([0-9]{1,6})")
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,19}")
LinkStart = Literal[0, 1]
PARALLEL, MULTILINGUAL = "parallel:", "multilingual:"
_STARTS: Final[Mapping[str, LinkStart | None]] = {"links": None, "links0": 0, "links1": 1}
_MOST_OUT_OF_RANGE = 10
"""One alignment in so many may have a link of words that are not there; of more the texts are not those of the file."""
_HELD_OUT = 10
"""Step between units of train that become dev where there is none."""


def parallel_corpus(
    corpora: Mapping[str, Corpus], *, links: Mapping[tuple[str, str], Mapping[str, Links]] | None = None
) -> Corpus:
    """Sentences of several languages that translate each other, joined by their ids (``parallel:en=PATH,de=PATH``).

    In each split the sentences of one id follow one another, marked as :func:`translations` marks them, in the order of
    the first corpus. Left out, and counted with their ids, are sentences that some language lacks, further ones of
    an id, and those of a treebank without ``sent_id``. Where there is train and no dev, every tenth id of train
    is dev.

    Args:
        corpora: a corpus for each language.
        links: gold word alignments by pair of languages, then by id. One with a link of words that are not there is
            left out and counted.

    Raises:
        CorpusError: fewer than two languages, no sentence that all have, or more than a tenth of the alignments with
            links of words that are not there.
    """
    oddities, name = Oddities(), PARALLEL + ",".join(corpora)
    splits: dict[str, list[list[Sentence]]] = {}
    n_out_of_range = n_links = 0
    for split in next(iter(corpora.values())).splits:
        if not all(split in corpus for corpus in corpora.values()):
            continue
        by_id = {language: _by_id(corpus[split], language, oddities) for language, corpus in corpora.items()}
        for unit in dict.fromkeys(unit for ids in by_id.values() for unit in ids):
            if lacking := [language for language, ids in by_id.items() if unit not in ids]:
                oddities.skip(f"sentences that {listed(lacking)} does not have", unit)
                continue
            sentences = {language: ids[unit] for language, ids in by_id.items()}
            stated = {pair: by_unit[unit] for pair, by_unit in (links or {}).items() if unit in by_unit}
            gold = {pair: of for pair, of in stated.items() if of.fits(*(len(sentences[one]) for one in pair))}
            for _ in stated.keys() - gold.keys():
                oddities.skip("gold alignments with links of words that are not there", unit)
            n_links, n_out_of_range = n_links + len(stated), n_out_of_range + len(stated) - len(gold)
            splits.setdefault(split, []).append(translations(sentences, unit=unit, links=gold))
    if not splits and len(corpora) > 1:
        due = "texts that translate each other line by line, or treebanks with the same sent_id"
        raise wrong(name, f"no sentence with the same id in all of {listed(corpora)}", due)
    if n_out_of_range * _MOST_OUT_OF_RANGE > n_links:
        due = (
            "words that the sentences have; check the order of languages, and write links0= or links1= for first words"
        )
        raise wrong(f"{name}: gold alignments", f"{n_out_of_range:,} of {n_links:,} of other words", due)
    return _corpus(corpora, splits, oddities, name)


def _by_id(sentences: Sentences, language: str, oddities: Oddities) -> dict[str, Sentence]:
    found: dict[str, Sentence] = {}
    for number, sentence in enumerate(sentences, 1):
        # The id of a sentence of a treebank that states none is its number.
        is_stated = any(comment.partition("=")[0].strip() == "sent_id" for comment in sentence.comments)
        is_read = bool(sentence.comments) or sentence.heads is not None
        if is_read and not is_stated and sentence.id == str(number):
            oddities.skip(f"sentences of {language} without sent_id", str(number))
        elif found.setdefault(sentence.id, sentence) is not sentence:
            oddities.skip(f"further sentences of {language} with one id", sentence.id)
    return found


def multilingual_corpus(corpora: Mapping[str, Corpus]) -> Corpus:
    """Sentences of several languages, none of which is the translation of another (``multilingual:en=…,fr=…``).

    In each split languages alternate; a split that some language lacks is of the others. Where a language has train
    and no dev, every tenth sentence of train is dev.

    Args:
        corpora: a corpus for each language.

    Raises:
        CorpusError: fewer than two languages.
    """
    splits: dict[str, list[list[Sentence]]] = {}
    for split in dict.fromkeys(split for corpus in corpora.values() for split in corpus.splits):
        of_split = {language: corpus[split] for language, corpus in corpora.items() if split in corpus}
        for row in zip_longest(*of_split.values()):
            some = {language: one for language, one in zip(of_split, row, strict=True) if one is not None}
            splits.setdefault(split, []).append(translations(some))
    return _corpus(corpora, splits, Oddities(), MULTILINGUAL + ",".join(corpora))


def _corpus(
    corpora: Mapping[str, Corpus], splits: dict[str, list[list[Sentence]]], oddities: Oddities, name: str
) -> Corpus:
    if len(corpora) < 2:
        raise CorpusError(f"{listed(corpora)}: a corpus of several languages needs two or more")
    notes, skipped = dict(oddities.notes()), oddities.skipped()
    if "dev" not in splits and (held_out := splits.get("train", [])[_HELD_OUT - 1 :: _HELD_OUT]):
        splits["dev"] = held_out
        splits["train"] = [unit for number, unit in enumerate(splits["train"], 1) if number % _HELD_OUT]
        notes["dev"] = f"every {_HELD_OUT}th of train, with its translations"
    for language, corpus in corpora.items():
        notes |= {f"{language}: {kind}": note for kind, note in corpus.notes.items()}
        skipped |= {f"{language}: {kind}": places for kind, places in corpus.skipped.items()}
    return Corpus(
        name,
        {split: Sentences(chain.from_iterable(units)) for split, units in splits.items()},
        language="+".join(corpora),
        licence=", ".join(dict.fromkeys(one.licence for one in corpora.values() if one.licence)) or None,
        annotator=", ".join(dict.fromkeys(one.annotator for one in corpora.values() if one.annotator)) or None,
        notes=notes,
        skipped=skipped,
    )


@dataclass(frozen=True)
class LanguageParts:
    """The parts of a name of a corpus of several languages: ``parallel:en=one.txt,de=other.txt,links=gold``."""

    name: str
    corpora: Mapping[tuple[str, ...], str]
    """Corpus by language, or by the languages of one file; languages to be inferred are empty."""
    links: str | None
    start: LinkStart | None

    @classmethod
    def of(cls, name: str | Path) -> "LanguageParts | None":
        """The parts of such a name; None for another one, and where there is a path of that name."""
        text = str(name)
        prefix = next((one for one in (PARALLEL, MULTILINGUAL) if text.startswith(one)), None)
        if prefix is None or exists(name):
            return None
        corpora, links = dict[tuple[str, ...], str](), list[tuple[str, LinkStart | None]]()
        for part in text.removeprefix(prefix).split(","):
            key, equals, value = part.partition("=")
            if equals and key in _STARTS and prefix == PARALLEL:
                links.append((value, _STARTS[key]))
                continue
            languages, value = (tuple(key.split("+")), value) if equals else ((f"?{len(corpora)}",), part)
            if not value or (equals and not all(map(_LANGUAGE.fullmatch, languages))):
                raise wrong(cut_path(text), part, "LANGUAGE=path/to/one, the language by its code, as en or zh-Hant")
            if any(one in known for known in corpora for one in languages):
                raise wrong(cut_path(text), part, "each language once")
            corpora[languages] = value
        return cls(text, corpora, *(links[-1] if links else (None, None)))

    def load(self, load: Callable[[str], Corpus]) -> Corpus:
        """The corpus; ``load`` reads the one of a language by its name or path."""
        corpora: dict[str, Corpus] = {}
        lengths: dict[str, tuple[Path, int]] = {}
        for languages, value in self.corpora.items():
            path, language = given_path(value, error=CorpusError), languages[0]
            if len(languages) > 1:
                corpora |= _load_bitext(data_path(value), languages)
                continue
            is_text = path.exists() and _is_text(path, language)
            corpus = Text().load(path) if is_text else load(value)
            language = (corpus.language or "") if language.startswith("?") else language
            if not language or language in corpora:
                raise wrong(cut_path(value), f"language {language or 'unknown'}", "another one, as by en=path/to/it")
            corpora[language] = corpus
            if not is_text or self.name.startswith(MULTILINGUAL):
                continue
            for split, files in split_files(path, [".txt"], what="text").items():
                length = sum(1 for file in files for _ in text_lines(file))
                other, expected = lengths.setdefault(split, (path, length))
                if length != expected:
                    raise wrong(path, f"{length:,} lines", f"{expected:,} as in {other}, each a translation")
        if self.name.startswith(MULTILINGUAL):
            return multilingual_corpus(corpora)
        return parallel_corpus(corpora, links=self._links(corpora) if self.links and len(corpora) > 1 else None)

    def _links(self, corpora: Mapping[str, Corpus]) -> dict[tuple[str, str], dict[str, Links]]:
        """Gold alignments, one line a pair of sentences: ``i-j`` links word i of the first with word j of the second.

        ``ipj`` is a possible link. Words are numbered from 0 or from 1; which of both is inferred, unless it is stated,
        where a 0 occurs, or a number that is as high as its sentence is long.
        """
        (first, one), (second, other), *_ = corpora.items()
        path = data_path(self.links or "")
        some = [sentence for corpus in (one, other) for of_split in corpus.splits.values() for sentence in of_split]
        if len({*one.splits, *other.splits}) > 1 or not all(sentence.id.isdecimal() for sentence in some):
            raise wrong(path, "links of other corpora", "two .txt files of one sentence a line for links")
        ((of_one,), (of_other,)) = (corpus.splits.values() for corpus in (one, other))
        n_first, n_second = ({int(each.id): len(each) for each in sentences} for sentences in (of_one, of_other))
        by_line: dict[int, list[tuple[str, int, int]]] = {}
        n_lines, last = 0, max(n_first.keys() & n_second, default=0)
        for n_lines, line in enumerate(text_lines(path), 1):
            matches = [_LINK.fullmatch(text) for text in line.split()]
            if None in matches:
                raise wrong(f"{path}:{n_lines}", line.strip(), "links as 3-4, or 3p4 for a possible one")
            if n_lines in n_first and n_lines in n_second:
                by_line[n_lines] = [(match[2], int(match[1]), int(match[3])) for match in matches if match]
        if last > n_lines:
            raise wrong(path, f"{n_lines:,} lines", f"{last:,}, one for each line of the texts")
        start, every = self.start, [(number, i, j) for number, links in by_line.items() for _, i, j in links]
        if start is None:
            start = 0 if any(min(i, j) == 0 for _, i, j in every) else 1
            if start and not any(i == n_first[number] or j == n_second[number] for number, i, j in every):
                due = "a word 0, or as many as a sentence has; write links0= or links1= for the number of a first word"
                raise wrong(path, "no number that tells whether words are counted from 0 or 1", due)
        gold: dict[str, Links] = {}
        for number, links in by_line.items():
            kinds = (frozenset((i - start, j - start) for kind, i, j in links if kind == which) for which in "-p")
            gold[str(number)] = Links(*kinds)
        return {(first, second): gold}


def _is_text(path: Path, language: str) -> bool:
    """Whether a file is one of text, as its suffix ``.txt`` or ``.LANGUAGE`` shows; or all files of a folder are."""
    if path.is_dir():
        visible = [file for file in path.iterdir() if not file.name.startswith(".")]
        return bool(visible) and all(file.suffix == ".txt" and _is_text(file, language) for file in visible)
    may_be_text = path.suffix in (".txt", "") and path.is_file() and not looks_like_columns(path)
    return path.suffix == f".{language}" or may_be_text


def _load_bitext(path: Path, languages: Sequence[str]) -> dict[str, Corpus]:
    """Corpora by language of one file whose lines hold a sentence in each, with ``|||`` between."""
    texts: dict[str, list[Sentence]] = {language: [] for language in languages}
    for number, line in numbered_lines(path):
        if len(parts := line.split(_BETWEEN)) != len(languages):
            raise wrong(f"{path}:{number}", line, f"{len(languages)} sentences with {_BETWEEN} between")
        for language, text in zip(languages, parts, strict=True):
            if text.strip():
                texts[language].append(sentence_of_text(text, split_at_spaces=True, name=str(number)))
    split = split_of(path) or "test"
    return {language: Corpus(corpus_name(path), {split: Sentences(of)}) for language, of in texts.items()}
