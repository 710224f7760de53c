"""Corpora of several languages: marks of languages and translations, parallel text, gold links of words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from bertology._files import exists, given_path
from bertology.corpora._corpus import Corpus
from bertology.corpora._files import Oddities, corpus_name, split_files, split_of, text_lines
from bertology.corpora._sentences import Sentence, Sentences, Target
from bertology.corpora._words import sentence_of_text
from bertology.corpora.formats.columns import Text, looks_like_columns
from bertology.errors import CorpusError, cut, cut_path, listed, quoted

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

    def turned(self) -> Links:
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
    def of(cls, sentences: Sentences) -> ParallelText:
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
LinkStart = Literal[0, 1]


def _is_text(path: Path, language: str) -> bool:
    """Whether a file is one of text, as its suffix ``.txt`` or ``.LANGUAGE`` shows; or all files of a folder are."""
    if path.is_dir():
        visible = [file for file in path.iterdir() if not file.name.startswith(".")]
        return bool(visible) and all(file.suffix == ".txt" and _is_text(file, language) for file in visible)
    may_be_text = path.suffix in (".txt", "") and path.is_file() and not looks_like_columns(path)
    return path.suffix == f".{language}" or may_be_text


def read_links(
    path: Path, lengths: Mapping[int, tuple[int, int]], *, start: LinkStart | None = None
) -> dict[int, Links]:
    """Gold alignments, one line a pair of sentences: ``i-j`` links word i of the first with word j of the second.

    ``ipj`` is a possible link. Words are numbered from 0 or from 1; which of both is inferred where a 0 occurs, or a
    number that is as high as its sentence is long.

    Args:
        path: the file.
        lengths: numbers of words of both sentences by line, from 1; lines without both are left out.
        start: the number of a first word; inferred when left out.

    Returns:
        By line the links, words from 0; those of words that sentences do not have included.
    """
    by_line: dict[int, list[tuple[str, int, int]]] = {}
    n_lines = 0
    for n_lines, line in enumerate(text_lines(path), 1):
        matches = [(text, _LINK.fullmatch(text)) for text in line.split()]
        if (wrong := next((text for text, match in matches if match is None), None)) is not None:
            raise CorpusError(f"{path}:{n_lines}: {quoted(wrong)} is no link: write 3-4, or 3p4 for a possible one")
        if n_lines in lengths:
            by_line[n_lines] = [(match[2], int(match[1]), int(match[3])) for _, match in matches if match]
    if lengths and max(lengths) > n_lines:
        raise CorpusError(f"{path}: {n_lines:,} lines, but the texts have {max(lengths):,}; give a line for each")
    if start is None:
        every = [(i, j, *lengths[number]) for number, links in by_line.items() for _, i, j in links]
        start = 0 if any(min(i, j) == 0 for i, j, *_ in every) else 1
        if start and not any(i == n_first or j == n_second for i, j, n_first, n_second in every):
            what = "no word is numbered 0, and no number equals a sentence length"
            raise CorpusError(f"{path}: {what}: write links0= or links1= to state the number of a first word")
    return {
        number: Links(*(frozenset((i - start, j - start) for kind, i, j in links if kind == which) for which in "-p"))
        for number, links in by_line.items()
    }


PARALLEL, MULTILINGUAL = "parallel:", "multilingual:"
_STARTS: Final[Mapping[str, LinkStart | None]] = {"links": None, "links0": 0, "links1": 1}
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,19}")
_MOST_OUT_OF_RANGE = 10
"""One alignment in so many may have a link of words that are not there; of more the texts are not those of the file."""
_HELD_OUT = 10
"""Step between units of train that become dev where there is none."""


def parallel_corpus(
    corpora: Mapping[str, Corpus],
    *,
    links: Mapping[tuple[str, str], Mapping[str, Links]] | None = None,
    name: str | None = None,
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
        name: its name; ``parallel:en,de`` when left out.

    Raises:
        CorpusError: fewer than two languages, no sentence that all have, or more than a tenth of the alignments with
            links of words that are not there.
    """
    oddities, name = Oddities(), name or PARALLEL + ",".join(corpora)
    splits: dict[str, list[list[Sentence]]] = {}
    n_out_of_range = n_links = 0
    for split in next(iter(corpora.values())).splits:
        if not all(split in corpus for corpus in corpora.values()):
            continue
        by_id: dict[str, dict[str, Sentence]] = {language: {} for language in corpora}
        for language, number, sentence in ((one, *of) for one in by_id for of in enumerate(corpora[one][split], 1)):
            # The id of a sentence of a treebank that states none is its number.
            is_stated = any(comment.partition("=")[0].strip() == "sent_id" for comment in sentence.comments)
            is_read = bool(sentence.comments) or sentence.heads is not None
            if is_read and not is_stated and sentence.id == str(number):
                oddities.skip(f"sentences of {language} without sent_id", str(number))
            elif sentence.id in by_id[language]:
                oddities.skip(f"further sentences of {language} with one id", sentence.id)
            else:
                by_id[language][sentence.id] = sentence
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
        raise CorpusError(
            f"{name}: no sentence has the same id in all of {listed(corpora)}; give texts that translate each other "
            "line by line, or treebanks with the same sent_id"
        )
    if n_out_of_range * _MOST_OUT_OF_RANGE > n_links:
        raise CorpusError(
            f"{n_out_of_range:,} of {n_links:,} gold alignments have links of words that are not there: check the "
            "order of the languages, and whether words are numbered from 0 (links0=) or from 1 (links1=)"
        )
    return _corpus(corpora, splits, oddities, name)


def multilingual_corpus(corpora: Mapping[str, Corpus], *, name: str | None = None) -> Corpus:
    """Sentences of several languages, none of which is the translation of another (``multilingual:en=…,fr=…``).

    In each split languages alternate; a split that some language lacks is of the others. Where a language has train
    and no dev, every tenth sentence of train is dev.

    Args:
        corpora: a corpus for each language.
        name: its name; ``multilingual:en,fr`` when left out.

    Raises:
        CorpusError: fewer than two languages.
    """
    splits: dict[str, list[list[Sentence]]] = {}
    for split in dict.fromkeys(split for corpus in corpora.values() for split in corpus.splits):
        of_split = {language: corpus[split] for language, corpus in corpora.items() if split in corpus}
        for row in zip_longest(*of_split.values()):
            some = {language: one for language, one in zip(of_split, row, strict=True) if one is not None}
            splits.setdefault(split, []).append(translations(some))
    return _corpus(corpora, splits, Oddities(), name or MULTILINGUAL + ",".join(corpora))


def _corpus(
    corpora: Mapping[str, Corpus], splits: dict[str, list[list[Sentence]]], oddities: Oddities, name: str
) -> Corpus:
    if len(corpora) < 2:
        raise CorpusError(f"{listed(corpora)}: a corpus of several languages needs two or more")
    notes = dict(oddities.notes())
    if "dev" not in splits and (held_out := splits.get("train", [])[_HELD_OUT - 1 :: _HELD_OUT]):
        splits["dev"] = held_out
        splits["train"] = [unit for number, unit in enumerate(splits["train"], 1) if number % _HELD_OUT]
        notes["dev"] = f"every {_HELD_OUT}th of train, with its translations"
    skipped: dict[str, tuple[str, ...]] = {}
    for language, corpus in corpora.items():
        notes |= {f"{language}: {kind}": note for kind, note in corpus.notes.items()}
        skipped |= {f"{language}: {kind}": places for kind, places in corpus.skipped.items()}
    return Corpus(
        name,
        {split: Sentences(sentence for unit in units for sentence in unit) for split, units in splits.items()},
        language="+".join(corpora),
        licence=", ".join(dict.fromkeys(one.licence for one in corpora.values() if one.licence)) or None,
        annotator=", ".join(dict.fromkeys(one.annotator for one in corpora.values() if one.annotator)) or None,
        notes=notes,
        skipped={**skipped, **oddities.skipped()},
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
    def of(cls, name: str | Path) -> LanguageParts | None:
        """The parts of such a name; None for another one, and where there is a path of that name."""
        text = str(name)
        prefix = next((one for one in (PARALLEL, MULTILINGUAL) if text.startswith(one)), None)
        if prefix is None or exists(name):
            return None
        corpora: dict[tuple[str, ...], str] = {}
        links: str | None = None
        start: LinkStart | None = None
        for part in text.removeprefix(prefix).split(","):
            key, _, value = part.partition("=") if "=" in part else ("", "=", part)
            languages = tuple(key.split("+")) if key else (f"?{len(corpora)}",)
            bad = next((one for one in languages if key and not _LANGUAGE.fullmatch(one)), None)
            if not value:
                raise CorpusError(f"{cut_path(text)}: write {prefix}en=path/to/one,de=path/to/other")
            if key in _STARTS and prefix == PARALLEL:
                links, start = value, _STARTS[key]
                continue
            if bad is not None:
                raise CorpusError(f"{cut_path(text)}: {quoted(bad)} is no code of a language, such as en or zh-Hant")
            if any(one in known for known in corpora for one in languages):
                raise CorpusError(f"{cut_path(text)}: language {cut(key)} is given twice; give each once")
            corpora[languages] = value
        return cls(text, corpora, links, start)

    def load(self, load: Callable[[str], Corpus]) -> Corpus:
        """The corpus; ``load`` reads the one of a language by its name or path."""
        corpora: dict[str, Corpus] = {}
        texts: dict[str, Path] = {}
        for languages, value in self.corpora.items():
            path, language = given_path(value, error=CorpusError), languages[0]
            if len(languages) > 1:
                corpora |= _load_bitext(path, languages)
            elif path.exists() and _is_text(path, language):
                texts[language], corpora[language] = path, Text().load(path)
            else:
                corpus = load(value)
                language = (corpus.language or "") if language.startswith("?") else language
                if not language or language in corpora:
                    what = f"language {language} is given twice; give each once"
                    unstated = f"its name does not state its language; write en={cut_path(value)}"
                    raise CorpusError(f"{cut_path(value)}: {what if language else unstated}")
                corpora[language] = corpus
        if self.name.startswith(MULTILINGUAL):
            return multilingual_corpus(corpora)
        lengths: dict[str, tuple[Path, int]] = {}
        for path in texts.values():
            for split, files in split_files(path, [".txt"], what="text").items():
                length = sum(1 for file in files for _ in text_lines(file))
                other, expected = lengths.setdefault(split, (path, length))
                if length != expected:
                    what = f"{length:,} lines, but {other} has {expected:,}"
                    due = "line N of one should translate line N of the other; give texts of the same length"
                    raise CorpusError(f"{path}: {what}: {due}")
        return parallel_corpus(corpora, links=self._links(corpora) if self.links and len(corpora) > 1 else None)

    def _links(self, corpora: Mapping[str, Corpus]) -> dict[tuple[str, str], dict[str, Links]]:
        (first, one), (second, other), *_ = corpora.items()
        path = given_path(self.links or "", error=CorpusError)
        some = [sentence for corpus in (one, other) for of_split in corpus.splits.values() for sentence in of_split]
        if len({*one.splits, *other.splits}) > 1 or not all(sentence.id.isdecimal() for sentence in some):
            due = "links are of one file of each language with one sentence a line; give two .txt files"
            raise CorpusError(f"{path}: {due}")
        ((of_one,), (of_other,)) = (corpus.splits.values() for corpus in (one, other))
        numbered = [{int(each.id): len(each) for each in sentences} for sentences in (of_one, of_other)]
        both = sorted(numbered[0].keys() & numbered[1])
        lengths = {number: (numbered[0][number], numbered[1][number]) for number in both}
        found = read_links(path, lengths, start=self.start)
        return {(first, second): {str(number): links for number, links in found.items()}}


def _load_bitext(path: Path, languages: Sequence[str]) -> dict[str, Corpus]:
    """Corpora by language of one file whose lines hold a sentence in each, with ``|||`` between."""
    texts: dict[str, list[Sentence]] = {language: [] for language in languages}
    for number, line in enumerate(text_lines(path), 1):
        parts = line.split(_BETWEEN)
        if len(parts) != len(languages) and line.strip():
            what = f"{len(parts)} sentences with {_BETWEEN} between"
            raise CorpusError(f"{path}:{number}: {what}, but {len(languages)} languages: {'+'.join(languages)}")
        for language, text in zip(languages, parts, strict=False):
            if text.strip():
                texts[language].append(sentence_of_text(text, split_at_spaces=True, name=str(number)))
    split = split_of(path) or "test"
    return {language: Corpus(corpus_name(path), {split: Sentences(of)}) for language, of in texts.items()}
