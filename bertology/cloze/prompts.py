"""Prompts, forms in which candidates are scored, scores, and texts and answers in pieces. Needs no torch.

Whatever does not fit is refused with a reason, never cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from bertology._lazy import pd
from bertology._names import check_name
from bertology.corpora.prompts import with_masks
from bertology.errors import ClozeError, ModelError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MASK = "{mask}"
"""Stands in a prompt for whatever the model's own mask is."""
_NO_CHARACTER = "\ufffd"
_TEXTS_AT_ONCE = 1024
# A word to stand before an answer that follows a space: tokenizers that mark a word's beginning see it there.
_WORD_BEFORE = "a"

AnswerForm = Literal["one_piece", "original", "within_word_l2r", "appended_masks"]
"""Form in which candidates and sentences are scored.

``one_piece``: by the distribution at the mask; a candidate of several pieces is excluded. ``original``: by the sum
over its pieces of the log-probability of each with all others in sight (the pseudo-log-likelihood of Salazar et al.
2020, section 2). ``within_word_l2r``: the same with the later pieces of the same word masked too, so that a word does
not give itself away (Kauf & Ivanova 2023, section 2). A candidate of one piece scores the same in all three.
``appended_masks``: of whole sentences, each piece given those before it alone, with masks in its place and in the two
after it, where the text ends: a masked model reads left to right as it writes (Samuel 2024).
"""
Context = Literal["left", "cut", "whole"]
"""What a masked model has in sight where a subword is scored, besides the subwords before it. ``left``: masks in place
of all subwords after it; ``cut``: the end of the text right after it; ``whole``: all subwords after its word."""
_APPENDED = 3
"""Masks after the pieces that are given, in the form ``appended_masks``."""


def check_form(form: str) -> None:
    """Check that a name is an :data:`AnswerForm`."""
    check_name("form of answers", form, get_args(AnswerForm))


def check_answer_form(form: str) -> None:
    """Check that a name is a form in which a word at a mask can be scored."""
    check_form(form)
    if form == "appended_masks":
        raise ClozeError("appended_masks scores whole sentences, not words at a mask: take within_word_l2r")


@dataclass(frozen=True)
class Prompt:
    """A text with masks, and candidates for one of them; independent of any model."""

    text: str
    """Each mask written ``{mask}``, ``[MASK]`` or ``<mask>``, which mean the same to every model."""
    candidates: tuple[str | int, ...] = ()
    """Words to be scored at the mask, or at one of several; or the model's own numbers of vocabulary entries."""
    at: int | None = None
    """The mask that the candidates are for, of several, −1 for the last; the others stay masked."""

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The text around the masks, one more than there are masks."""
        return tuple(with_masks(self.text, MASK).split(MASK))

    @property
    def n_masks(self) -> int:
        """Number of masks."""
        return len(self.segments) - 1

    @property
    def asked(self) -> int | None:
        """The mask that candidates are for, counted from 0; None where several are possible, or there is none."""
        at = 0 if self.at is None and self.n_masks == 1 else self.at
        if at is None or not -self.n_masks <= at < self.n_masks:
            return None
        return at % self.n_masks

    def written(self, mask: str) -> str:
        """The text with every mask spelled as given, such as an encoder's ``mask_token``."""
        return mask.join(self.segments)


@dataclass(frozen=True)
class Excluded:
    """A prompt, candidate or sentence that has no score, and why."""

    item: int  # number of the prompt or sentence, in the order given
    candidate: str | int | None  # the candidate; None where the whole prompt or sentence is excluded
    reason: str


@dataclass(frozen=True, eq=False)
class ClozeScores:
    """Scores of the candidates of prompts, and the best entries at their masks, by layer."""

    prompts: tuple[Prompt, ...]
    layers: tuple[int, ...]
    form: AnswerForm  # form in which candidates are scored: part of what a score means
    candidate_starts: Integers  # [prompt + 1] where each prompt's candidates begin in values, and their end
    values: Floats  # [layer, candidate] of all prompts one after the other; NaN where one is excluded
    ranks: Integers | None
    """``[layer, candidate]`` rank of a candidate at its mask, 1 for the first: one more than the number of entries
    above it; 0 where it is excluded. None unless ranks were requested."""
    mask_starts: Integers  # [prompt + 1] where each prompt's masks begin in the arrays below, and their end
    top_ids: Integers  # [layer, mask, k] vocabulary numbers, the best first; −1 where the prompt is excluded
    top_values: Floats  # [layer, mask, k]
    excluded: tuple[Excluded, ...]  # candidates and prompts without a score, whose values are NaN
    top_words: Mapping[int, str] = field(default_factory=dict)  # spelling of the entries of top_ids

    def to_pandas(self) -> pd.DataFrame:
        """A line for each layer and candidate of a prompt, or each of the best entries where it has no candidates.

        Columns are ``prompt`` (its number), ``text``, ``mask`` (its number in the text), ``layer``, ``candidate``,
        ``log_prob``, ``rank`` (missing unless it was requested), and ``reason`` where it has no score.
        """
        reasons = {(one.item, one.candidate): one.reason for one in self.excluded}
        lines: list[tuple[Any, ...]] = []
        for (number, prompt), (place, layer) in itertools.product(enumerate(self.prompts), enumerate(self.layers)):
            (ids, best), whole = self.top_of(number), reasons.get((number, None))
            for at, word in enumerate(prompt.candidates, int(self.candidate_starts[number])):
                value, reason = float(self.values[place, at]), whole or reasons.get((number, word))
                known = None if self.ranks is None else int(self.ranks[place, at]) or None
                lines.append((number, prompt.text, prompt.asked, layer, word, value, known, reason))
            for mask, rank in () if prompt.candidates else np.ndindex(ids.shape[1:]):
                entry = self.top_words.get(int(ids[place, mask, rank]))
                lines.append((number, prompt.text, mask, layer, entry, float(best[place, mask, rank]), rank + 1, whole))
        names = ["prompt", "text", "mask", "layer", "candidate", "log_prob", "rank", "reason"]
        return pd.DataFrame(lines, columns=names).astype({"rank": "Int64"})

    def of(self, prompt: int) -> Floats:
        """``[layer, candidate]`` the values of one prompt's candidates, in its order."""
        return self.values[:, self.candidate_starts[prompt] : self.candidate_starts[prompt + 1]]

    def ranks_of(self, prompt: int) -> Integers:
        """``[layer, candidate]`` the ranks of one prompt's candidates, where they were requested."""
        if self.ranks is None:
            raise ValueError("no ranks here: ask for them with ranks=True")
        return self.ranks[:, self.candidate_starts[prompt] : self.candidate_starts[prompt + 1]]

    def top_of(self, prompt: int) -> tuple[Integers, Floats]:
        """``[layer, mask, k]`` vocabulary numbers and values of the best at one prompt's masks."""
        masks = slice(int(self.mask_starts[prompt]), int(self.mask_starts[prompt + 1]))
        return self.top_ids[:, masks], self.top_values[:, masks]


def encode(encoder: Encoder, texts: Sequence[str] | Sequence[tuple[str, str]], *, bare: bool = False) -> Iterator[Any]:
    """Texts, or pairs of them, in pieces, many at a time: ``tokenizers.Encoding`` objects, with special tokens unless
    ``bare``."""
    backend: Any = encoder.tokenizer.backend_tokenizer
    # Whoever called it with either left it so.
    backend.no_padding()
    backend.no_truncation()
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        some = list(texts[start : start + _TEXTS_AT_ONCE])
        for text in itertools.chain.from_iterable((one,) if isinstance(one, str) else one for one in some):
            if any("\ud800" <= letter <= "\udfff" for letter in text):
                problem = "half of a surrogate pair in it, which is no character: read the source as UTF-8"
                raise ClozeError(f"{text!a}: {problem}")
        yield from backend.encode_batch(some, add_special_tokens=not bare)


def too_long(encoder: Encoder, n_pieces: int) -> str:
    """Reason why an input of this many subwords, special tokens included, is too long; empty if it is not."""
    most = encoder.max_pieces
    return "" if n_pieces <= most else f"too long: {n_pieces} pieces, the model takes {most}"


def text_start(encoder: Encoder) -> list[int]:
    """The special tokens that a left-to-right model reads before a text: the tokenizer's own, or that for its
    beginning; a ModelError where there is none."""
    own = next(encode(encoder, ["a"])).ids[: encoder.n_prefix]
    if not own and encoder.tokenizer.bos_token_id is None:
        problem = "its tokenizer has no token for the beginning of a text"
        raise ModelError(f"model {encoder.name}: {problem}; leave the first piece out (first='exclude')")
    return own or [int(encoder.tokenizer.bos_token_id)]


def more_masks(form: AnswerForm) -> int:
    """Number of pieces by which the longest of :func:`masked_copies` exceeds the text."""
    return _APPENDED - 1 if form == "appended_masks" else 0


def masked_copies(
    ids: Sequence[int], pieces: range, words: Sequence[int | None], mask_id: int, form: AnswerForm
) -> Iterator[tuple[list[int], int, int]]:
    """A text once for each of some pieces in a row, with that piece masked and, for ``within_word_l2r``, the later
    pieces of the same of ``words``, for ``appended_masks`` without any later ones: the input, the piece that is scored,
    and the entry that belongs there."""
    for place, piece in enumerate(pieces):
        if form == "appended_masks":
            yield [*ids[:piece], *[mask_id] * _APPENDED, *ids[pieces.stop :]], piece, ids[piece]
            continue
        copy = list(ids)
        copy[piece] = mask_id
        for later in pieces[place + 1 :] if form == "within_word_l2r" else ():
            if words[later - pieces.start] != words[place]:
                break
            copy[later] = mask_id
        yield copy, piece, ids[piece]


class Answer(NamedTuple):
    """A word at the place of a mask, in pieces."""

    pieces: tuple[int, ...]  # vocabulary numbers
    words: tuple[int, ...]  # of each piece the number of its word, as the tokenizer splits a text before it cuts pieces
    reason: str = ""  # why it cannot be scored, without pieces; empty if it can


class AnswerReader:
    """Cuts answers into pieces, each once for each kind of place: the same word may be other pieces at the start of a
    text, after a space or in brackets."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._special = frozenset(encoder.tokenizer.all_special_ids)
        self._known: dict[tuple[str, str], Answer] = {}

    def read(self, before: str, words: Iterable[str | int]) -> list[Answer]:
        """The pieces of ``words`` (or entries) after a text, as they would be cut there if each ended a word."""
        words, anchor = list(words), anchor_of(before)
        new = [word for word in dict.fromkeys(words) if isinstance(word, str) and (anchor, word) not in self._known]
        # A space is cut with what follows it, so it is no part of the pieces before.
        head = next(encode(self._encoder, [anchor.rstrip()], bare=True)).ids if anchor and new else []
        encodings = encode(self._encoder, [anchor + word.strip() for word in new], bare=True)
        for word, encoding in zip(new, encodings, strict=True):
            pieces, n_before, reason = encoding.ids[len(head) :], len(head), ""
            if not word.strip():
                reason = "it is empty"
            elif encoding.ids[:n_before] != head:
                reason = f"it runs together with {anchor!r} before it"
            elif not pieces:
                reason = "the tokenizer maps it to nothing"
            elif self._encoder.tokenizer.unk_token_id in pieces:
                reason = "not in the vocabulary: it has characters that the tokenizer does not know"
            elif self._special & set(pieces):
                reason = "it spells a special token"
            found = ((), ()) if reason else (tuple(pieces), tuple(encoding.word_ids[n_before:]))
            self._known[anchor, word] = Answer(*found, reason)
        return [self._known[anchor, word] if isinstance(word, str) else Answer((int(word),), (0,)) for word in words]

    def unfit(self, answer: Answer) -> str:
        """Why an answer has no place in the distribution at one mask; empty if it has."""
        if answer.reason or len(answer.pieces) == 1:
            return answer.reason
        shown = " ".join(self._encoder.tokenizer.convert_ids_to_tokens(list(answer.pieces)))
        return f"not in the vocabulary: {len(answer.pieces)} pieces ({shown})"


def anchor_of(before: str) -> str:
    """The text that an answer is cut after, in place of all that stands before it."""
    if not before.strip():
        return ""
    return f"{_WORD_BEFORE} " if before[-1].isspace() else before.split()[-1]


def vocabulary_ids(encoder: Encoder, words: Sequence[str], *, before: str = "a ") -> Integers:
    """The entries of a vocabulary given in words that follow the text ``before``, for :func:`ask`.

    At the start of a text, after a space or a bracket a word may be another entry. Given are ``[entry]`` vocabulary
    numbers, ascending, each once; words that are no single piece are left out.
    """
    reader = AnswerReader(encoder)
    entries = {answer.pieces[0] for answer in reader.read(before, words) if not reader.unfit(answer)}
    return np.array(sorted(entries), dtype=np.int64)


def excluded(reasons: Sequence[str]) -> tuple[Excluded, ...]:
    """The items that have a reason why they are not scored, of all that were given."""
    return tuple(Excluded(number, None, reason) for number, reason in enumerate(reasons) if reason)


def spell_pieces(encoder: Encoder, ids: Sequence[int]) -> list[str]:
    """Vocabulary entries as a person reads them: marks of a word's beginning left out, those inside words kept."""
    spelled: dict[int, str] = {}
    for number in dict.fromkeys(map(int, ids)):
        token = encoder.tokenizer.convert_ids_to_tokens(number)
        text = token if token is None or token.startswith("##") else encoder.tokenizer.decode([number]).strip()
        # Bytes that are no character by themselves differ in the tokenizer's own spelling alone.
        spelled[number] = (token if text and _NO_CHARACTER in text else text) or token or f"<{number}>"
    return [spelled[number] for number in map(int, ids)]
