"""Whole sentences scored by a masked language model: each piece masked in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology.activations import Progress, silent
from bertology.cloze._answers import AnswerForm, Excluded, check_form
from bertology.cloze._copies import piece_copies
from bertology.cloze._encode import encode, too_long
from bertology.cloze._questions import Questions
from bertology.cloze._read import Wanted, read_questions
from bertology.cloze._scores import SentenceScores
from bertology.errors import ClozeError

if TYPE_CHECKING:
    from bertology.encoders import Encoder

_TEXTS_AT_ONCE = 256


def pseudo_log_likelihood(
    encoder: Encoder,
    sentences: Sequence[str],
    *,
    form: AnswerForm = "original",
    layers: Sequence[int] | None = None,
    pieces: int | None = None,
    progress: Progress = silent,
) -> SentenceScores:
    """Sum over a sentence's pieces of the log-probability of each where it is masked (Salazar et al. 2020, section 2).

    Masked copies of all sentences are batched together by length; equal ones, as in minimal pairs, are read once.

    Args:
        encoder: a masked language model.
        sentences: natural text.
        form: ``original`` leaves all other pieces in sight; ``within_word_l2r`` masks the later pieces of the same
            word too (Kauf & Ivanova 2023, section 2). A word is what the tokenizer parts a text into before it cuts
            pieces: where it parts at spaces alone (XLM-R), punctuation belongs to the word before it.
        layers: 0 for the embeddings, 1…L for the blocks; the last one when left out.
        pieces: in a batch, when what suits the device does not suit the task.
        progress: told of sentences read.

    Returns:
        Log-probabilities by piece and sentence, in nats. Sentences that cannot be read as they are (too long, empty,
        with special tokens in them) are NaN and listed with the reason.

    Raises:
        ModelError: no masked-LM head, no mask, or a layer that the model does not have.
        ClozeError: no sentence, one that is no text, or the form ``one_piece``.
        NameNotFoundError: no such form.
    """
    check_form(form)
    if form == "one_piece":
        raise ClozeError("sentences are scored as original or within_word_l2r: choose one of them")
    if not sentences:
        raise ClozeError("no sentence: give at least one")
    wanted = Wanted(layers=(encoder.n_layers,) if layers is None else tuple(sorted(set(layers))), pieces=pieces)
    reading = _Reading(encoder, form)
    different = list(dict.fromkeys(sentences))
    progress.start(len(different), unit="sentences")
    log_probs = []
    for batch in reading.batches(different):
        log_probs.append(read_questions(encoder, batch.questions, wanted).values)
        reading.n_inputs += len(batch.questions.inputs)
        progress.advance(batch.n_sentences)
    progress.finish()
    return _in_order(sentences, different, reading, np.concatenate(log_probs, axis=1), wanted)


@dataclass
class _Batch:
    questions: Questions = field(default_factory=Questions)
    n_sentences: int = 0


class _Reading:
    """Different sentences cut into pieces and masked."""

    def __init__(self, encoder: Encoder, form: AnswerForm) -> None:
        self._encoder, self.form = encoder, form
        self.unknown_id = encoder.tokenizer.unk_token_id
        self._special = frozenset(encoder.tokenizer.all_special_ids) - {self.unknown_id}
        self.ids: list[list[int]] = []
        """Of each sentence, without special tokens; empty where there is a reason."""
        self.reasons: list[str] = []
        self.n_inputs = 0

    def batches(self, sentences: Sequence[str]) -> Iterator[_Batch]:
        """Enough masked copies to be read together, whole sentences at a time, terms in the order of pieces."""
        batch = _Batch()
        for start in range(0, len(sentences), _TEXTS_AT_ONCE):
            for encoding in encode(self._encoder, sentences[start : start + _TEXTS_AT_ONCE]):
                self._add(batch, encoding)
                if batch.questions.is_full:
                    yield batch
                    batch = _Batch()
        yield batch

    def _add(self, batch: _Batch, encoding: Any) -> None:
        encoder = self._encoder
        inside = range(encoder.n_prefix, len(encoding.ids) - encoder.n_suffix)
        reason = self._unfit(encoding.ids, inside)
        self.reasons.append(reason)
        self.ids.append([] if reason else [encoding.ids[piece] for piece in inside])
        batch.n_sentences += 1
        if not reason:
            words = [encoding.word_ids[piece] for piece in inside]
            for ids, piece, entry in piece_copies(encoding.ids, inside, words, encoder.mask_id, self.form):
                batch.questions.term(batch.questions.place(ids, piece), entry)

    def _unfit(self, ids: Sequence[int], inside: range) -> str:
        if not len(inside):
            return "the tokenizer maps it to nothing"
        special = next((ids[piece] for piece in inside if ids[piece] in self._special), None)
        if special is not None:
            return f"it spells a special token, {self._encoder.tokenizer.convert_ids_to_tokens(special)}"
        return too_long(self._encoder, len(ids))


def _in_order(
    sentences: Sequence[str], different: Sequence[str], reading: _Reading, log_probs: Any, wanted: Wanted
) -> SentenceScores:
    """From different sentences to all that were given."""
    number_of = {text: number for number, text in enumerate(different)}
    numbers = [number_of[text] for text in sentences]
    lengths = np.array([len(ids) for ids in reading.ids])
    starts = np.cumsum(lengths) - lengths
    places = np.concatenate([np.arange(starts[number], starts[number] + lengths[number]) for number in numbers])
    ids = np.array([entry for number in numbers for entry in reading.ids[number]], dtype=np.int64)
    return SentenceScores(
        layers=wanted.layers,
        form=reading.form,
        piece_starts=np.cumsum([0, *lengths[numbers]]),
        piece_ids=ids,
        piece_log_probs=log_probs[:, places],
        n_unknown=np.array([reading.ids[number].count(reading.unknown_id) for number in numbers], dtype=np.int64),
        excluded=tuple(
            Excluded(item, None, reading.reasons[number])
            for item, number in enumerate(numbers)
            if reading.reasons[number]
        ),
        n_inputs=reading.n_inputs,
    )
