"""Corpora of several languages, made of one for each: sentences joined by what they translate, or put together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from bertology._inputs import exists, given_path
from bertology.corpora._corpus import Corpus
from bertology.corpora._files import Oddities
from bertology.corpora._parallel import Links, translations
from bertology.corpora._sentence import Sentence
from bertology.corpora._sentences import Sentences
from bertology.corpora.formats.parallel import LinkStart, is_text, load_bitext, load_lines, read_links
from bertology.corpora.formats.text import load_text
from bertology.errors import CorpusError, cut, cut_path, listed, quoted

PARALLEL, MULTILINGUAL = "parallel:", "multilingual:"
_STARTS: Final[Mapping[str, LinkStart | None]] = {"links": None, "links0": 0, "links1": 1}
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,19}")
_MOST_OUT_OF_RANGE = 10
"""One alignment in so many may have a link of words that are not there; of more the texts are not those of the file."""
_HELD_OUT = 10
"""Where there is train and no dev, every so manieth unit of train is dev."""


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
        corpora: by language.
        links: by pair of languages, then by id, gold word alignments. One with a link of words that are not there is
            left out and counted.
        name: what to call it; ``parallel:en,de`` when left out.

    Raises:
        CorpusError: fewer than two languages, no sentence that all have, or more than a tenth of the alignments with
            links of words that are not there.
    """
    oddities = Oddities()
    splits: dict[str, list[list[Sentence]]] = {}
    _check_number(corpora)
    shared = [split for split in next(iter(corpora.values())).splits if all(split in one for one in corpora.values())]
    n_out_of_range = n_links = 0
    for split in shared:
        by_id = {language: _by_id(language, corpus[split], oddities) for language, corpus in corpora.items()}
        for unit in dict.fromkeys(unit for ids in by_id.values() for unit in ids):
            lacking = [language for language, ids in by_id.items() if unit not in ids]
            if lacking:
                oddities.skip(f"sentences that {listed(lacking)} does not have", unit)
                continue
            sentences = {language: ids[unit] for language, ids in by_id.items()}
            gold = {pair: by_unit[unit] for pair, by_unit in (links or {}).items() if unit in by_unit}
            for pair, of_pair in list(gold.items()):
                n_links += 1
                if not of_pair.fits(*(len(sentences[language]) for language in pair)):
                    n_out_of_range += 1
                    oddities.skip("gold alignments with links of words that are not there", unit)
                    del gold[pair]
            splits.setdefault(split, []).append(translations(sentences, unit=unit, links=gold))
    if not splits:
        raise CorpusError(
            f"{name or PARALLEL + ','.join(corpora)}: no sentence has the same id in all of {listed(corpora)}; give "
            "texts that translate each other line by line, or treebanks with the same sent_id"
        )
    if n_out_of_range * _MOST_OUT_OF_RANGE > n_links:
        raise CorpusError(
            f"{n_out_of_range:,} of {n_links:,} gold alignments have links of words that are not there: check the "
            "order of the languages, and whether words are numbered from 0 (links0=) or from 1 (links1=)"
        )
    return _corpus(corpora, splits, oddities, name or PARALLEL + ",".join(corpora))


def multilingual_corpus(corpora: Mapping[str, Corpus], *, name: str | None = None) -> Corpus:
    """Sentences of several languages, none of which is the translation of another (``multilingual:en=…,fr=…``).

    In each split languages alternate; a split that some language lacks is of the others. Where a language has train
    and no dev, every tenth sentence of train is dev.

    Args:
        corpora: by language.
        name: what to call it; ``multilingual:en,fr`` when left out.

    Raises:
        CorpusError: fewer than two languages.
    """
    _check_number(corpora)
    splits: dict[str, list[list[Sentence]]] = {}
    for split in dict.fromkeys(split for corpus in corpora.values() for split in corpus.splits):
        of_split = {language: corpus[split] for language, corpus in corpora.items() if split in corpus}
        for row in zip_longest(*of_split.values()):
            some = {language: one for language, one in zip(of_split, row, strict=True) if one is not None}
            splits.setdefault(split, []).append(translations(some))
    return _corpus(corpora, splits, Oddities(), name or MULTILINGUAL + ",".join(corpora))


def _check_number(corpora: Mapping[str, Corpus]) -> None:
    if len(corpora) < 2:
        raise CorpusError(f"{listed(corpora)}: a corpus of several languages needs two or more")


def _by_id(language: str, sentences: Sentences, oddities: Oddities) -> dict[str, Sentence]:
    """The sentences of a language by id, without those of a treebank that state none, whose id is their number."""
    found: dict[str, Sentence] = {}
    for number, sentence in enumerate(sentences, 1):
        is_stated = any(comment.partition("=")[0].strip() == "sent_id" for comment in sentence.comments)
        is_read = bool(sentence.comments) or sentence.heads is not None
        if is_read and not is_stated and sentence.id == str(number):
            oddities.skip(f"sentences of {language} without sent_id", str(number))
        elif sentence.id in found:
            oddities.skip(f"further sentences of {language} with one id", sentence.id)
        else:
            found[sentence.id] = sentence
    return found


def _corpus(
    corpora: Mapping[str, Corpus], splits: dict[str, list[list[Sentence]]], oddities: Oddities, name: str
) -> Corpus:
    notes = dict(oddities.notes())
    if "train" in splits and "dev" not in splits:
        held_out = splits["train"][_HELD_OUT - 1 :: _HELD_OUT]
        if held_out:
            splits["dev"] = held_out
            splits["train"] = [unit for number, unit in enumerate(splits["train"], 1) if number % _HELD_OUT]
            notes["dev"] = f"every {_HELD_OUT}th of train, with its translations"
    for language, corpus in corpora.items():
        notes |= {f"{language}: {kind}": note for kind, note in corpus.notes.items()}
    skipped = {
        f"{language}: {kind}": places for language, one in corpora.items() for kind, places in one.skipped.items()
    }
    licences = dict.fromkeys(corpus.licence for corpus in corpora.values() if corpus.licence)
    annotators = dict.fromkeys(corpus.annotator for corpus in corpora.values() if corpus.annotator)
    return Corpus(
        name,
        {split: Sentences(sentence for unit in units for sentence in unit) for split, units in splits.items()},
        language="+".join(corpora),
        licence=", ".join(licences) or None,
        annotator=", ".join(annotators) or None,
        notes=notes,
        skipped={**skipped, **oddities.skipped()},
    )


@dataclass(frozen=True)
class LanguageParts:
    """What the name of a corpus of several languages states, as in ``parallel:en=one.txt,de=other.txt,links=gold``."""

    name: str
    corpora: Mapping[tuple[str, ...], str]
    """By language, or by the languages of one file, the corpus; languages to be inferred are empty."""
    links: str | None
    start: LinkStart | None

    @classmethod
    def of(cls, name: str | Path) -> LanguageParts | None:
        """The parts of such a name; None for another one, and where there is a path of that name.

        Raises:
            CorpusError: it is none that can be read.
        """
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
            if not value:
                raise CorpusError(f"{cut_path(text)}: write {prefix}en=path/to/one,de=path/to/other")
            if key in _STARTS and prefix == PARALLEL:
                links, start = value, _STARTS[key]
            elif key and (bad := next((one for one in languages if not _LANGUAGE.fullmatch(one)), None)) is not None:
                raise CorpusError(f"{cut_path(text)}: {quoted(bad)} is no code of a language, such as en or zh-Hant")
            elif any(one in known for known in corpora for one in languages):
                raise CorpusError(f"{cut_path(text)}: language {cut(key)} is given twice; give each once")
            else:
                corpora[languages] = value
        return cls(text, corpora, links, start)

    def load(self, load: Callable[[str], Corpus]) -> Corpus:
        """The corpus; ``load`` reads the one of a language by its name or path.

        Raises:
            CorpusError: files cannot be read, or do not belong together.
        """
        corpora: dict[str, Corpus] = {}
        texts: dict[str, Path] = {}
        for languages, value in self.corpora.items():
            path = given_path(value, error=CorpusError)
            if len(languages) > 1:
                corpora |= load_bitext(path, languages)
            elif path.exists() and is_text(path, languages[0]):
                texts[languages[0]] = path
                corpora[languages[0]] = Corpus("", {})  # keeps its place
            else:
                corpus = load(value)
                language = _language(languages[0], corpus, value)
                if language in corpora:
                    raise CorpusError(f"{cut_path(self.name)}: language {language} is given twice; give each once")
                corpora[language] = corpus
        if self.name.startswith(MULTILINGUAL):
            return multilingual_corpus(corpora | {language: load_text(path) for language, path in texts.items()})
        corpora |= load_lines(texts)
        return parallel_corpus(corpora, links=self._links(corpora) if self.links else None)

    def _links(self, corpora: Mapping[str, Corpus]) -> dict[tuple[str, str], dict[str, Links]]:
        first, second, *_ = corpora
        path = given_path(self.links or "", error=CorpusError)
        splits = set(corpora[first].splits) | set(corpora[second].splits)
        if len(splits) > 1:
            raise CorpusError(f"{path}: links are of one file of each language, but there are {listed(sorted(splits))}")
        one, other = (dict(_numbered(corpora[language], path)) for language in (first, second))
        lengths = {number: (one[number], other[number]) for number in sorted(one.keys() & other.keys())}
        found = read_links(path, lengths, start=self.start)
        return {(first, second): {str(number): links for number, links in found.items()}}


def _numbered(corpus: Corpus, path: Path) -> Iterator[tuple[int, int]]:
    """The line of each sentence, and how many words it has."""
    for sentences in corpus.splits.values():
        for sentence in sentences:
            if not sentence.id.isdecimal():
                raise CorpusError(f"{path}: links are of texts of one sentence a line; give the texts as .txt files")
            yield int(sentence.id), len(sentence)


def _language(stated: str, corpus: Corpus, value: str) -> str:
    if not stated.startswith("?"):
        return stated
    if corpus.language is None:
        raise CorpusError(f"{cut_path(value)}: its name does not state its language; write en={cut_path(value)}")
    return corpus.language
