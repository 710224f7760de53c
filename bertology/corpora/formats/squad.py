"""Questions about a text whose answers are parts of it: files of SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertology._files import parse_json
from bertology._inputs import opened, read_text
from bertology.corpora._corpus import Corpus, corpus_from_files
from bertology.corpora._files import Oddities
from bertology.corpora._sentence import Sentence, Target
from bertology.corpora._tables import joined
from bertology.corpora.formats._words import sentence_of_text, words_within
from bertology.errors import CorpusError, quoted

SQUAD_SUFFIXES = (".json",)
_LANGUAGE = "en"
ANSWERS = "answer"
"""Name of the targets that are answers: ``span1`` is the question, ``span2`` the answer in the text, the label the
answer as it is written. A question without an answer has one target, with an empty label and no ``span2``."""
_LOOKED_AT = 1 << 16


@dataclass(frozen=True)
class _Answer:
    text: str
    answer_start: int


@dataclass(frozen=True)
class _Question:
    id: str
    question: str
    answers: list[_Answer]
    is_impossible: bool = False


@dataclass(frozen=True)
class _Paragraph:
    context: str
    qas: list[_Question]


@dataclass(frozen=True)
class _Article:
    paragraphs: list[_Paragraph]


@dataclass(frozen=True)
class _File:
    data: list[_Article]


def question_sentence(question: str, text: str, answers: Sequence[tuple[str, int]], *, name: str = "") -> Sentence:
    """A question and the text that it is about as one sentence, with targets ``answer``.

    Args:
        question: the question.
        text: the text that holds the answers.
        answers: each as it is written and the place of its first character in the text; none where the text does not
            answer the question.
        name: identifier of the question.

    Raises:
        CorpusError: question or text has no word, or an answer is not at its place.
    """
    for what, of in (("question", question), ("text", text)):
        if not of.strip():
            raise CorpusError(f"question {quoted(name)}: no word in its {what}; leave it out")
    where = f"question {quoted(name)}: "
    asked = sentence_of_text(question, language=_LANGUAGE, name=name, where=where)
    about = sentence_of_text(text, language=_LANGUAGE, where=where)
    n = len(asked)
    targets = []
    for answer, start in answers:
        if not answer or text[start : start + len(answer)] != answer or start < 0:
            raise CorpusError(
                f"question {quoted(name)}: answer {quoted(answer)} is not in the text at character {start}; "
                "answer_start counts characters from 0"
            )
        first, last = words_within(list(about.spans), start, start + len(answer))
        targets.append(Target((0, n), answer, (first + n, last + n)))
    sentence = joined(asked, about)
    return replace(sentence, targets={**sentence.targets, ANSWERS: tuple(targets) or (Target((0, n), ""),)})


def looks_like_squad(path: Path) -> bool:
    """Whether a file has the keys of SQuAD near its beginning."""
    with opened(path, error=CorpusError) as file:
        head = file.read(_LOOKED_AT)
    return b'"data"' in head and b'"paragraphs"' in head


def load_squad(path: Path) -> Corpus:
    """The corpus in a file of SQuAD, or in a folder with one for each split.

    A sentence is a question followed by its paragraph (:func:`question_sentence`); its id is that of the question.

    Raises:
        BertologyError: a file is not as it should be; the message names the field or question.
    """
    corpus = corpus_from_files(
        path, _sentences, SQUAD_SUFFIXES, what="questions in SQuAD's JSON", language=lambda _: _LANGUAGE
    )
    return replace(corpus, reference="Rajpurkar et al. 2016, 2018")


def _sentences(path: Path, oddities: Oddities) -> Iterator[Sentence]:
    text = read_text(path, error=CorpusError)
    whole: _File = parse_json(text, where=str(path), what="questions of SQuAD", form=_File, remedy="check the file")
    for article in whole.data:
        for paragraph in article.paragraphs:
            for question in paragraph.qas:
                answers = [] if question.is_impossible else [(a.text, a.answer_start) for a in question.answers]
                try:
                    yield question_sentence(question.question, paragraph.context, answers, name=question.id)
                except CorpusError as error:
                    raise CorpusError(f"{path}: {error}") from None
