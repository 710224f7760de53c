"""SemEval-2010 Task 8: relations between two nominals, ``<e1>`` and ``<e2>`` (Hendrickx et al. 2010)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bertology.corpora._corpus import Corpus, corpus_from_files
from bertology.corpora._files import Oddities, at_least_one, first_line, line_blocks
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora.formats._words import Span, sentence_of, text_words, words_within
from bertology.errors import CorpusError, cut, quoted

SEMEVAL_SUFFIXES = (".txt",)
_ITEM = re.compile(r'(\d+)\t"(.*)"\s*')
_LABEL = re.compile(r"Other|[A-Z][A-Za-z]*(-[A-Z][A-Za-z]*)+\((e1,e2|e2,e1)\)")
_TAG = re.compile(r"</?e[12]>")
_TAGS = ["<e1>", "</e1>", "<e2>", "</e2>"]
_COMMENT = "Comment"


def looks_like_semeval(path: Path) -> bool:
    """Whether the first line of a file is an item of this task."""
    first = first_line(path)
    return first[:1].isdigit() and any(tag in first for tag in _TAGS)


def read_semeval(path: Path, oddities: Oddities | None = None) -> Iterator[Sentence]:
    """The sentences of a file of SemEval-2010 Task 8, each with one target ``relations``.

    ``span1`` is the nominal in ``<e1>``, ``span2`` that in ``<e2>``, the label the directed relation as it stands in
    the file: ``Cause-Effect(e1,e2)``, ``Other``. Words are made by spaCy's English tokeniser; where a nominal is part
    of one (*<e1>tea</e1>-time*), the span is the word, which is noted in ``oddities``.

    Raises:
        CorpusError: the file or an item of it is not as it should be; the message names file and line.
    """
    oddities = oddities or Oddities()
    sentences = (_sentence(item, path, first, oddities) for first, item in line_blocks(path))
    return at_least_one(sentences, f"{path}: no item in it; give a file of SemEval-2010 Task 8 with labels")


def _sentence(item: list[str], path: Path, first: int, oddities: Oddities) -> Sentence:
    match = _ITEM.fullmatch(item[0])
    if match is None:
        raise CorpusError(f"{path}:{first}: {quoted(item[0])} where a number, a tab and a sentence in quotes were due")
    if len(item) < 2 or item[1].startswith(_COMMENT):
        raise CorpusError(f"{path}:{first}: item {cut(match[1])} has no label; give the file that has them")
    label = item[1].strip()
    if not _LABEL.fullmatch(label):
        raise CorpusError(f"{path}:{first + 1}: {quoted(label)} is no label; write Other or as Cause-Effect(e1,e2)")
    if len(item) > 3 or (len(item) == 3 and not item[2].startswith(_COMMENT)):
        raise CorpusError(f"{path}:{first + 2}: {quoted(item[2])} where a comment or a blank line was due")
    text, nominals = _untagged(match[2], f"{path}:{first}")
    words = text_words(text, "en")
    spans = [words_within(words, *nominal) for nominal in nominals]
    for span, nominal in zip(spans, nominals, strict=True):
        if (words[span[0]][0], words[span[1] - 1][1]) != nominal:
            oddities.note("nominals that are part of a word, given by the word", f"{path.name}:{first}")
    return sentence_of(text, words, match[1], {"relations": (Target(spans[0], label, spans[1]),)})


def _untagged(tagged: str, where: str) -> tuple[str, list[Span]]:
    """The sentence without tags, and where the two nominals stand in it."""
    tagged = re.sub(r"(<e[12]>)\s+", r" \1", re.sub(r"\s+(</e[12]>)", r"\1 ", tagged))  # white space goes outside
    tagged = " ".join(tagged.split())
    names = _TAG.findall(tagged)
    if names not in (_TAGS, _TAGS[2:] + _TAGS[:2]):
        seen = f"tags {cut(' '.join(names))}" if names else "no tags"
        raise CorpusError(f"{where}: {seen} where <e1> </e1> <e2> </e2> were due, one of each")
    taken = 0
    places: dict[str, int] = {}
    for match in _TAG.finditer(tagged):
        places[match[0]] = match.start() - taken
        taken += len(match[0])
    for opening, closing in (_TAGS[:2], _TAGS[2:]):
        if places[opening] == places[closing]:
            raise CorpusError(f"{where}: nothing between {opening} and {closing}; mark a nominal")
    return _TAG.sub("", tagged), [(places["<e1>"], places["</e1>"]), (places["<e2>"], places["</e2>"])]


def load_semeval(path: Path) -> Corpus:
    """The corpus in the folder of SemEval-2010 Task 8, or in one of its files."""
    return corpus_from_files(path, read_semeval, SEMEVAL_SUFFIXES, what="SemEval-2010 Task 8", language=lambda _: "en")
