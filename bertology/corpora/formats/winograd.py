"""Hard pronouns: Definite Pronoun Resolution (Rahman & Ng 2012) and the Winograd schemas (Levesque et al. 2012)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bertology.corpora._corpus import Corpus
from bertology.corpora._files import Oddities, at_least_one, corpus_name, files_in, line_blocks, split_of, text_lines
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._sentences import Sentences
from bertology.corpora.formats._words import MASK, Span, sentence_of, text_words, words_within
from bertology.errors import CorpusError, quoted

_DETERMINERS = frozenset(
    ["the", "a", "an", "my", "your", "his", "her", "its", "our", "their", "this", "that", "these", "those", "some"]
)
WINOGRAD_SUFFIXES = (".txt", ".c")
_DEV_EVERY = 10
_GAP = re.compile(r"\[MASK\] (?=[.,;:!?'])")
_LINES = "the sentence, its pronoun, two candidates parted by a comma, and the one that is right"


def looks_like_winograd(path: Path) -> bool:
    """Whether the first lines of a file are an item: a sentence, a word of it, two names, one of these again."""
    lines = [line.strip() for line, _ in zip(text_lines(path), range(4), strict=False)]
    if len(lines) < 4 or not all(lines):
        return False
    text, pronoun, written, answer = lines
    names = [name.strip() for name in written.split(",")]
    return pronoun in text and answer in names and len(names) == 2


def read_winograd(path: Path, oddities: Oddities | None = None) -> Iterator[Sentence]:
    """The sentences of a file of hard pronouns, each with two targets ``winograd``: candidate, pronoun, right or not.

    An item is four lines and a blank one: the sentence, its pronoun, two candidates parted by a comma, and the right
    one. The label is ``"1"`` where the pronoun (``span2``) means the candidate (``span1``), else ``"0"``. The pronoun
    may be written ``[MASK]``, as in a release of the 273 schemas that does not tell which it was; it stays so in the
    text. Files say no places. A candidate is the first stretch of words that spells it, whatever the case; where none
    does, it may differ by its determiner (*the gap* for *a gap*, *Anne's daughter* for *her daughter*). A pronoun that
    occurs more than once is the first after both candidates. Items with a candidate or pronoun that is nowhere are
    left out, counted and listed in ``oddities``.

    Raises:
        CorpusError: the file or an item of it is not as it should be; the message names file and line.
    """
    oddities = oddities or Oddities()
    items = at_least_one(line_blocks(path), f"{path}: no item in it; an item is {_LINES}, and a blank line")
    for count, (first, item) in enumerate(items, 1):
        sentence = _sentence(item, path, first, f"{path.name.partition('.')[0]}-{count}", oddities)
        if sentence is not None:
            yield sentence


def _sentence(item: list[str], path: Path, first: int, name: str, oddities: Oddities) -> Sentence | None:
    if len(item) != 4:
        raise CorpusError(f"{path}:{first}: an item of {len(item)} lines; it should be {_LINES}")
    text, pronoun, written, answer = (" ".join(line.split()) for line in item)
    text = _GAP.sub(MASK, text)
    candidates = [candidate.strip() for candidate in written.split(",")]
    if len(candidates) != 2 or not all(candidates) or candidates[0] == candidates[1]:
        raise CorpusError(f"{path}:{first + 2}: {quoted(written)} where two candidates, parted by a comma, were due")
    if answer not in candidates:
        raise CorpusError(
            f"{path}:{first + 3}: {quoted(answer)} is neither {quoted(candidates[0])} nor {quoted(candidates[1])}"
        )
    where = f"{path.name}:{first}"
    spans = _candidates(text, candidates)
    if spans is None:
        oddities.skip("items with a candidate that is not in the sentence", where)
        return None
    place = _pronoun(text, pronoun, spans, where, oddities)
    if place is None:
        oddities.skip("items whose pronoun is not in the sentence", where)
        return None
    words = text_words(text, "en")
    targets = [
        Target(words_within(words, *span), "1" if candidate == answer else "0", words_within(words, *place))
        for candidate, span in zip(candidates, spans, strict=True)
    ]
    targets.sort(key=lambda target: target.span1)
    return sentence_of(text, words, name, {"winograd": tuple(targets)})


def _matches(text: str, phrase: str) -> list[Span]:
    """Where a phrase stands in a text as whole words, whatever the case."""
    pattern = rf"(?<!\w){re.escape(phrase)}(?!\w)"
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def _candidates(text: str, candidates: list[str]) -> list[Span] | None:
    """Where both candidates stand, apart from one another; the longer is looked for first, it may hold the other."""
    spans: dict[str, Span] = {}
    for candidate in sorted(candidates, key=len, reverse=True):
        (other,) = (name for name in candidates if name != candidate)
        places = _matches(text, candidate) or _without_determiner(text, candidate, f"{other}'s")
        free = [span for span in places if not any(_overlap(span, taken) for taken in spans.values())]
        if not free:
            return None
        spans[candidate] = free[0]
    return [spans[candidate] for candidate in candidates]


def _without_determiner(text: str, candidate: str, owner: str) -> list[Span]:
    """Where a candidate stands with another determiner, or with none right before it.

    The other candidate as ``owner`` counts as one: *Anne's daughter* for *a daughter*, *her daughter*.
    """
    determiner, _, rest = candidate.partition(" ")
    if determiner.lower() not in {*_DETERMINERS, owner.lower()} or not rest:
        return []
    places = []
    for start, end in _matches(text, rest):
        before = re.search(r"(\w+) $", text[:start])
        places.append((before.start() if before and before[1].lower() in _DETERMINERS else start, end))
    return places


def _pronoun(text: str, pronoun: str, candidates: list[Span], where: str, oddities: Oddities) -> Span | None:
    places = [(text.find(MASK), text.find(MASK) + len(MASK))] if pronoun == MASK else _matches(text, pronoun)
    places = [span for span in places if span[0] >= 0 and not any(_overlap(span, other) for other in candidates)]
    after = [span for span in places if span[0] >= max(end for _, end in candidates)]
    if pronoun == MASK and places:
        oddities.note(f"pronouns written {MASK} in the file, and so in the text", where)
    if len(places) > 1:
        oddities.note("sentences with their pronoun more than once, the first after both candidates taken", where)
    return next(iter(after or places), None)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def load_winograd(path: Path) -> Corpus:
    """The corpus in a folder of such files (``train.c``, ``test.c``), or in one file.

    A file whose name speaks of no split is one of that name in a folder (``wsc273``), so that one may train on one set
    and test on another; alone it is ``test``. Of a set without dev every tenth schema of train is dev, with both its
    sentences: they hardly differ and have opposite answers, so that one of them held out alone would be answered by
    its twin, and wrongly.

    Raises:
        CorpusError: no such file, or one that is not as it should be.
    """
    oddities = Oddities()
    files = [path]
    if path.is_dir():
        files = [file for file in files_in(path, WINOGRAD_SUFFIXES) if looks_like_winograd(file)]
    splits: dict[str, Sentences] = {}
    for file in files:
        split = split_of(file) or ("test" if len(files) == 1 else file.name.partition(".")[0].lower())
        if split in splits:
            raise CorpusError(f"{path}: {file.name} and another file would both be the {split} split; keep one of them")
        splits[split] = Sentences(read_winograd(file, oddities))
    if "train" in splits and "dev" not in splits:
        splits = _with_dev(splits)
    return Corpus(corpus_name(path), splits, language="en", notes=oddities.notes(), skipped=oddities.skipped())


def _with_dev(splits: dict[str, Sentences]) -> dict[str, Sentences]:
    """With the schemas of train divided between train and dev; a schema is two neighbouring items of the file."""
    parts: dict[str, list[Sentence]] = {"train": [], "dev": []}
    for sentence in splits["train"]:
        schema = (int(str(sentence.id).rpartition("-")[2]) - 1) // 2
        parts["dev" if schema % _DEV_EVERY == _DEV_EVERY - 1 else "train"].append(sentence)
    if not parts["dev"]:
        return splits
    return {**splits, **{name: Sentences(part) for name, part in parts.items()}}
