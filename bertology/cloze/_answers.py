"""Which pieces a word is at the place of a mask: the same word may be others at the start of a text or in brackets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from bertology._names import name_not_found
from bertology.cloze._encode import encode

if TYPE_CHECKING:
    from bertology.encoders import Encoder

AnswerForm = Literal["one_piece", "original", "within_word_l2r"]
"""How candidates are scored.

``one_piece``: by the distribution at the mask; a candidate of several pieces is excluded. ``original``: by the sum
over its pieces of the log-probability of each with all others in sight (the pseudo-log-likelihood of Salazar et al.
2020, section 2). ``within_word_l2r``: the same with the later pieces of the same word masked too, so that a word does
not give itself away (Kauf & Ivanova 2023, section 2). A candidate of one piece scores the same in all three.
"""
ANSWER_FORMS: tuple[AnswerForm, ...] = get_args(AnswerForm)

# A word to stand before an answer that follows a space: tokenizers that mark a word's beginning see it there.
_WORD_BEFORE = "a"


@dataclass(frozen=True)
class Excluded:
    """A prompt, candidate or sentence that has no score, and why."""

    item: int
    """Number of the prompt or sentence, in the order given."""
    candidate: str | int | None
    """The candidate; ``None`` where the whole prompt or sentence is excluded."""
    reason: str


@dataclass(frozen=True)
class Answer:
    """A word at the place of a mask, in pieces."""

    pieces: tuple[int, ...]
    """Vocabulary numbers; none where there is a reason."""
    words: tuple[int, ...]
    """Of each piece, the number of the word it belongs to: what the tokenizer parts a text into before it cuts it."""
    reason: str = ""
    """Why it cannot be scored; empty if it can."""


def check_form(form: str) -> None:
    """Refuse a name that is no :data:`AnswerForm`.

    Raises:
        NameNotFoundError: it is none.
    """
    if form not in ANSWER_FORMS:
        raise name_not_found("form of answers", form, ANSWER_FORMS)


class AnswerReader:
    """Cuts answers into pieces, each once for each kind of place."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._tokenizer: Any = encoder.tokenizer
        self._special = frozenset(encoder.tokenizer.all_special_ids)
        self._known: dict[tuple[str, str], Answer] = {}

    def read(self, before: str, words: Iterable[str | int]) -> list[Answer]:
        """The pieces of ``words`` after a text: as it would be cut if they stood there.

        What follows an answer is not looked at: it is taken to end a word. Numbers are those of entries.
        """
        words = list(words)
        anchor = anchor_of(before)
        new = [word for word in dict.fromkeys(words) if isinstance(word, str) and (anchor, word) not in self._known]
        if new:
            # A space is cut with what follows it, so it is no part of the pieces before.
            head = encode(self._encoder, [anchor.rstrip()], bare=True)[0] if anchor else None
            encodings = encode(self._encoder, [anchor + word.strip() for word in new], bare=True)
            for word, encoding in zip(new, encodings, strict=True):
                self._known[anchor, word] = self._answer(word, anchor, head, encoding)
        return [self._known[anchor, word] if isinstance(word, str) else Answer((int(word),), (0,)) for word in words]

    def _answer(self, word: str, anchor: str, head: Any | None, encoding: Any) -> Answer:
        if not word.strip():
            return Answer((), (), "it is empty")
        n_before = 0 if head is None else len(head.ids)
        if head is not None and encoding.ids[:n_before] != head.ids:
            return Answer((), (), f"it runs together with {anchor!r} before it")
        pieces, words = tuple(encoding.ids[n_before:]), tuple(encoding.word_ids[n_before:])
        if not pieces:
            return Answer((), (), "the tokenizer maps it to nothing")
        if self._tokenizer.unk_token_id in pieces:
            return Answer((), (), "not in the vocabulary: it has characters that the tokenizer does not know")
        if self._special & set(pieces):
            return Answer((), (), "it spells a special token")
        return Answer(pieces, words)

    def several_pieces(self, answer: Answer) -> str:
        """Why an answer of several pieces has no place in the distribution at one mask."""
        shown = " ".join(self._tokenizer.convert_ids_to_tokens(list(answer.pieces)))
        return f"not in the vocabulary: {len(answer.pieces)} pieces ({shown})"


def anchor_of(before: str) -> str:
    """What an answer is cut after, in place of all that stands before it."""
    if not before.strip():
        return ""
    return f"{_WORD_BEFORE} " if before[-1].isspace() else before.split()[-1]
