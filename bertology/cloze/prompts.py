"""Prompts, forms in which candidates are scored, scores, and texts and answers in pieces. Needs no torch.

Whatever does not fit is refused with a reason, never cut.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from bertology._names import name_not_found
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    import pandas as pd

    from bertology.encoders import Encoder

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MASK = "{mask}"
"""Stands in a prompt for whatever the model's own mask is."""
_SPELLINGS = re.compile(r"\{mask\}|\[MASK\]|<mask>")
_NO_CHARACTER = "\ufffd"
_TEXTS_AT_ONCE = 1024
# A word to stand before an answer that follows a space: tokenizers that mark a word's beginning see it there.
_WORD_BEFORE = "a"

AnswerForm = Literal["one_piece", "original", "within_word_l2r"]
"""Form in which candidates are scored.

``one_piece``: by the distribution at the mask; a candidate of several pieces is excluded. ``original``: by the sum
over its pieces of the log-probability of each with all others in sight (the pseudo-log-likelihood of Salazar et al.
2020, section 2). ``within_word_l2r``: the same with the later pieces of the same word masked too, so that a word does
not give itself away (Kauf & Ivanova 2023, section 2). A candidate of one piece scores the same in all three.
"""


def check_form(form: str) -> None:
    """Raise :class:`NameNotFoundError` for a name that is no :data:`AnswerForm`."""
    if form not in get_args(AnswerForm):
        raise name_not_found("form of answers", form, get_args(AnswerForm))


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
        return tuple(_SPELLINGS.split(self.text))

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
    normalized: bool
    """Whether values are natural logarithms of probabilities; logits if not, which compare only within a prompt."""
    candidate_starts: Integers  # [prompt + 1] where each prompt's candidates begin in values, and their end
    values: Floats  # [layer, candidate] of all prompts one after the other; NaN where one is excluded
    ranks: Integers | None
    """``[layer, candidate]`` rank of a candidate at its mask, 1 for the first: one more than the number of entries
    above it; 0 where it is excluded. None unless ranks were requested."""
    mask_starts: Integers  # [prompt + 1] where each prompt's masks begin in the arrays below, and their end
    top_ids: Integers  # [layer, mask, k] vocabulary numbers, the best first; −1 where the prompt is excluded
    top_values: Floats  # [layer, mask, k]
    excluded: tuple[Excluded, ...]  # candidates and prompts without a score, whose values are NaN
    n_inputs: int  # number of different inputs that the model read
    top_words: Mapping[int, str] = field(default_factory=dict)  # spelling of the entries of top_ids

    def to_pandas(self) -> pd.DataFrame:
        """A line for each layer and candidate of a prompt, or each of the best entries where it has no candidates.

        Columns are ``prompt`` (its number), ``text``, ``mask`` (its number in the text), ``layer``, ``candidate``,
        ``log_prob`` (or ``logit``), ``rank`` (missing unless it was requested), and ``reason`` where it has no score.
        """
        import pandas as pd

        reasons = {(one.item, one.candidate): one.reason for one in self.excluded}
        lines: list[tuple[Any, ...]] = []
        for number, prompt in enumerate(self.prompts):
            ids, best = self.top_of(number)
            about, whole = (number, prompt.text), reasons.get((number, None))
            for place, layer in enumerate(self.layers):
                for one, word in enumerate(prompt.candidates):
                    at = int(self.candidate_starts[number]) + one
                    rank = None if self.ranks is None or not self.ranks[place, at] else int(self.ranks[place, at])
                    reason = whole or reasons.get((number, word))
                    lines.append((*about, prompt.asked, layer, word, float(self.values[place, at]), rank, reason))
                for mask, rank in () if prompt.candidates else np.ndindex(ids.shape[1:]):
                    entry = self.top_words.get(int(ids[place, mask, rank]))
                    lines.append((*about, mask, layer, entry, float(best[place, mask, rank]), rank + 1, whole))
        value = "log_prob" if self.normalized else "logit"
        names = ["prompt", "text", "mask", "layer", "candidate", value, "rank", "reason"]
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


def encode(encoder: Encoder, texts: Sequence[str] | Sequence[tuple[str, str]], *, bare: bool = False) -> list[Any]:
    """Texts, or pairs of them, in pieces: ``tokenizers.Encoding`` objects, with special tokens unless ``bare``."""
    single = itertools.chain.from_iterable((text,) if isinstance(text, str) else text for text in texts)
    broken = next((text for text in single if any("\ud800" <= letter <= "\udfff" for letter in text)), None)
    if broken is not None:
        raise ClozeError(f"{broken!a}: half of a surrogate pair in it, which is no character: read the source as UTF-8")
    backend: Any = encoder.tokenizer.backend_tokenizer
    # Whoever called it with either left it so.
    backend.no_padding()
    backend.no_truncation()
    return list(backend.encode_batch(list(texts), add_special_tokens=not bare))


def encode_each(encoder: Encoder, texts: Sequence[str]) -> Iterator[Any]:
    """The encodings of :func:`encode`, made for many texts at a time, but not for all of them."""
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        yield from encode(encoder, texts[start : start + _TEXTS_AT_ONCE])


def too_long(encoder: Encoder, n_pieces: int) -> str:
    """Reason why an input of this many subwords, special tokens included, is too long; empty if it is not."""
    most = encoder.max_pieces
    return "" if n_pieces <= most else f"too long: {n_pieces} pieces, the model takes {most}"


def mask_places(encoder: Encoder, prompt: Prompt, ids: Sequence[int]) -> list[int]:
    """The pieces of an encoded prompt that are its masks; a :class:`ClozeError` where they are not as many."""
    places = [piece for piece, entry in enumerate(ids) if entry == encoder.mask_id]
    if len(places) != prompt.n_masks:
        raise ClozeError(
            f"prompt {quoted(prompt.text)}: {prompt.n_masks} masks, of which the tokenizer reads {len(places)} as "
            f"{encoder.mask_token}; put spaces around them"
        )
    return places


def masked_copies(
    ids: Sequence[int], pieces: range, words: Sequence[int | None], mask_id: int, form: AnswerForm
) -> Iterator[tuple[list[int], int, int]]:
    """A text once for each of some pieces in a row, with that piece masked and, for ``within_word_l2r``, the later
    pieces of the same of ``words``: the input, the piece that is scored, and the entry that belongs there."""
    for place, piece in enumerate(pieces):
        copy = list(ids)
        copy[piece] = mask_id
        if form == "within_word_l2r":
            for later in range(place + 1, len(pieces)):
                if words[later] != words[place]:
                    break
                copy[pieces[later]] = mask_id
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
        words = list(words)
        anchor = anchor_of(before)
        new = [word for word in dict.fromkeys(words) if isinstance(word, str) and (anchor, word) not in self._known]
        if new:
            # A space is cut with what follows it, so it is no part of the pieces before.
            head = encode(self._encoder, [anchor.rstrip()], bare=True)[0].ids if anchor else []
            encodings = encode(self._encoder, [anchor + word.strip() for word in new], bare=True)
            for word, encoding in zip(new, encodings, strict=True):
                self._known[anchor, word] = self._answer(word, anchor, head, encoding)
        return [self._known[anchor, word] if isinstance(word, str) else Answer((int(word),), (0,)) for word in words]

    def _answer(self, word: str, anchor: str, head: list[int], encoding: Any) -> Answer:
        if not word.strip():
            return Answer((), (), "it is empty")
        if encoding.ids[: len(head)] != head:
            return Answer((), (), f"it runs together with {anchor!r} before it")
        pieces, words = tuple(encoding.ids[len(head) :]), tuple(encoding.word_ids[len(head) :])
        if not pieces:
            return Answer((), (), "the tokenizer maps it to nothing")
        if self._encoder.tokenizer.unk_token_id in pieces:
            return Answer((), (), "not in the vocabulary: it has characters that the tokenizer does not know")
        if self._special & set(pieces):
            return Answer((), (), "it spells a special token")
        return Answer(pieces, words)

    def several_pieces(self, answer: Answer) -> str:
        """Why an answer of several pieces has no place in the distribution at one mask."""
        shown = " ".join(self._encoder.tokenizer.convert_ids_to_tokens(list(answer.pieces)))
        return f"not in the vocabulary: {len(answer.pieces)} pieces ({shown})"


def anchor_of(before: str) -> str:
    """The text that an answer is cut after, in place of all that stands before it."""
    if not before.strip():
        return ""
    return f"{_WORD_BEFORE} " if before[-1].isspace() else before.split()[-1]


def vocabulary_ids(
    encoder: Encoder, words: Sequence[str], *, before: str = "a "
) -> tuple[Integers, tuple[Excluded, ...]]:
    """The entries of a vocabulary given in words that follow the text ``before``, for :func:`ask`.

    At the start of a text, after a space or a bracket a word may be another entry. Given are ``[entry]`` vocabulary
    numbers, ascending, each once, and the words that are no single piece, with the reason.
    """
    reader = AnswerReader(encoder)
    answers = reader.read(before, words)
    reasons = [one.reason or (reader.several_pieces(one) if len(one.pieces) > 1 else "") for one in answers]
    entries = {answer.pieces[0] for answer, reason in zip(answers, reasons, strict=True) if not reason}
    excluded = (Excluded(number, words[number], reason) for number, reason in enumerate(reasons) if reason)
    return np.array(sorted(entries), dtype=np.int64), tuple(excluded)


def spell_pieces(encoder: Encoder, ids: Sequence[int]) -> list[str]:
    """Vocabulary entries as a person reads them: marks of a word's beginning left out, those inside words kept."""
    shown = []
    for number in ids:
        token = encoder.tokenizer.convert_ids_to_tokens(int(number))
        text = token if token is None or token.startswith("##") else encoder.tokenizer.decode([int(number)]).strip()
        if text is not None and _NO_CHARACTER in text:
            # Bytes that are no character by themselves differ in the tokenizer's own spelling alone.
            text = token
        shown.append(text or token or f"<{number}>")
    return shown
