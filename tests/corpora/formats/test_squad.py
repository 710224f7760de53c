"""Files of SQuAD: questions, their paragraphs, and answers as words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertology.corpora import load_corpus, question_sentence
from bertology.errors import BertologyError

CONTEXT = "Ada Lovelace (1815–1852) wrote notes.\nShe lived in  London."


def article(*questions: dict[str, Any]) -> str:
    return json.dumps(
        {"version": "v2.0", "data": [{"title": "Ada", "paragraphs": [{"context": CONTEXT, "qas": questions}]}]}
    )


def question(number: int, *answers: str, impossible: bool = False) -> dict[str, Any]:
    places = [{"text": answer, "answer_start": CONTEXT.index(answer)} for answer in answers]
    return {"id": f"q{number}", "question": "Where did she live?", "answers": places, "is_impossible": impossible}


def test_questions_and_answers_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "train-v2.0.json").write_text(article(question(1, "London", "in  London")), encoding="utf-8")
    (tmp_path / "dev-v2.0.json").write_text(article(question(2, impossible=True)), encoding="utf-8")
    corpus = load_corpus(tmp_path)
    [sentence] = corpus["train"]
    assert sentence.id == "q1"
    assert [target.label for target in sentence.targets["answer"]] == ["London", "in  London"]
    words = [sentence.words[slice(*(target.span2 or ()))] for target in sentence.targets["answer"]]
    assert words == [("London",), ("in", "London")]
    assert sentence.words[slice(*sentence.targets["answer"][0].span1)] == ("Where", "did", "she", "live", "?")
    [unanswered] = corpus["dev"][0].targets["answer"]
    assert (unanswered.label, unanswered.span2) == ("", None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            article(question(1, "London") | {"answers": [{"text": "Paris", "answer_start": 3}]}),
            "train.*'q1': answer 'Paris'",
        ),
        (article({"id": "q1", "question": "Where?"}), r"qas\.0\.answers"),
        (article(question(1, "London") | {"question": " "}), "'q1': no word in its question"),
    ],
)
def test_a_file_that_is_not_as_it_should_be(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "train.json").write_text(content, encoding="utf-8")
    with pytest.raises(BertologyError, match=message):
        load_corpus(tmp_path)


def test_a_question_in_memory() -> None:
    sentence = question_sentence("Who?", "Ada wrote.", [("Ada", 0)])
    assert sentence.text == "Who? Ada wrote."
