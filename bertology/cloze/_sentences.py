"""Whole sentences scored: by pseudo-log-likelihood, each piece masked in turn; and pairs, by the next-sentence head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from bertology._names import name_not_found
from bertology.activations import Progress, silent
from bertology.cloze._prompts import (
    AnswerForm,
    Excluded,
    Floats,
    Integers,
    check_form,
    encode,
    encode_each,
    masked_copies,
    spell_pieces,
    too_long,
)
from bertology.cloze._read import Questions, Wanted, chosen_layers, question_batches, read_questions
from bertology.encoders.batching import padded, padded_inputs, pieces_in_batch, plan_batches
from bertology.errors import ClozeError

if TYPE_CHECKING:
    import pandas as pd

    from bertology.encoders import Encoder


@dataclass(frozen=True, eq=False)
class SentenceScores:
    """Pseudo-log-likelihoods of sentences, by layer."""

    layers: tuple[int, ...]
    form: AnswerForm
    """``original`` or ``within_word_l2r``: part of what a score means."""
    piece_starts: Integers
    """``[sentence + 1]`` where each sentence's pieces begin, and their end; an excluded one has none."""
    piece_ids: Integers
    """``[piece]`` vocabulary numbers, special tokens left out."""
    piece_log_probs: Floats
    """``[layer, piece]`` natural logarithms."""
    n_unknown: Integers
    """``[sentence]`` number of unknown pieces, which are scored like any other."""
    excluded: tuple[Excluded, ...]
    n_inputs: int
    """Number of different inputs that the model read."""
    sentences: tuple[str, ...]
    pieces: tuple[str, ...]
    """``[piece]`` how each is written."""

    def to_pandas(self, by: Literal["sentence", "piece"] = "sentence") -> pd.DataFrame:
        """A line for each layer and sentence, or each of its pieces.

        Columns are ``sentence`` (its number), ``text``, ``layer``, of pieces ``place`` (from 1) and ``piece``,
        ``log_prob`` in nats (of sentences the sum over pieces, next to their number ``n_pieces``), and ``reason`` where
        a sentence has no score.

        Raises:
            NameNotFoundError: ``by`` is neither.
        """
        import pandas as pd

        if by not in ("sentence", "piece"):
            raise name_not_found("unit of scores", by, ("sentence", "piece"))
        reasons = {one.item: one.reason for one in self.excluded}
        lines: list[tuple[Any, ...]] = []
        for number, text in enumerate(self.sentences):
            first, last = self.piece_starts[number : number + 2].tolist()
            for layer, values, total in zip(self.layers, self.piece_log_probs, self.totals[:, number], strict=True):
                about = (number, text, layer)
                if by == "sentence":
                    lines.append((*about, last - first, float(total), reasons.get(number)))
                else:
                    lines += [(*about, k - first + 1, self.pieces[k], float(values[k])) for k in range(first, last)]
        more = ["n_pieces", "log_prob", "reason"] if by == "sentence" else ["place", "piece", "log_prob"]
        return pd.DataFrame(lines, columns=["sentence", "text", "layer", *more])

    @property
    def n_pieces(self) -> Integers:
        """``[sentence]`` number of pieces, special tokens left out."""
        return np.diff(self.piece_starts)

    @property
    def totals(self) -> Floats:
        """``[layer, sentence]`` the pseudo-log-likelihood: the sum over pieces; NaN where a sentence is excluded."""
        sums = np.concatenate([np.zeros((len(self.layers), 1)), np.cumsum(self.piece_log_probs, axis=1)], axis=1)
        totals: Floats = sums[:, self.piece_starts[1:]] - sums[:, self.piece_starts[:-1]]
        totals[:, self.n_pieces == 0] = np.nan
        return totals


def pseudo_log_likelihood(
    encoder: Encoder,
    sentences: Sequence[str],
    *,
    form: AnswerForm = "original",
    layers: Sequence[int] | None = None,
    pieces: int | None = None,
    progress: Progress = silent,
) -> SentenceScores:
    """The sum over a sentence's pieces of the log-probability of each where it is masked (Salazar et al. 2020, §2).

    Masked copies of all sentences are batched together by length; equal ones, as in minimal pairs, are read once.

    Args:
        encoder: a masked language model.
        sentences: natural text.
        form: ``original`` leaves all other pieces in sight; ``within_word_l2r`` masks the later pieces of the same
            word too (Kauf & Ivanova 2023, section 2). Words are what the tokenizer splits a text into before it cuts
            pieces: where it splits at spaces alone (XLM-R), punctuation belongs to the word before it.
        layers: 0 for the embeddings, 1…L for the blocks; the last one when left out.
        pieces: in a batch; as suits the device when left out.
        progress: counts sentences.

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
    wanted = Wanted(layers=chosen_layers(encoder, layers), pieces=pieces)
    distinct = {text: number for number, text in enumerate(dict.fromkeys(sentences))}
    cut = _Cut(encoder, form)
    log_probs, n_inputs = [], 0
    progress.start(len(distinct), unit="sentences")
    for questions in question_batches(encode_each(encoder, list(distinct)), cut.add):
        log_probs.append(read_questions(encoder, questions, wanted).values)
        n_inputs += len(questions.inputs)
        progress.advance(questions.n_texts)
    progress.finish()
    numbers = [distinct[text] for text in sentences]
    lengths = [len(ids) for ids in cut.ids]
    starts = np.cumsum([0, *lengths])
    places = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])
    ids = [entry for number in numbers for entry in cut.ids[number]]
    written = dict(zip(distinct_ids := sorted(set(ids)), spell_pieces(encoder, distinct_ids), strict=True))
    return SentenceScores(
        layers=wanted.layers,
        form=form,
        piece_starts=np.cumsum([0, *(lengths[number] for number in numbers)]),
        piece_ids=np.array(ids, dtype=np.int64),
        piece_log_probs=np.concatenate(log_probs, axis=1)[:, places],
        n_unknown=np.array([cut.ids[number].count(cut.unknown_id) for number in numbers], dtype=np.int64),
        excluded=_excluded([cut.reasons[number] for number in numbers]),
        n_inputs=n_inputs,
        sentences=tuple(sentences),
        pieces=tuple(written[entry] for entry in ids),
    )


class _Cut:
    """Different sentences in pieces, each masked in turn."""

    def __init__(self, encoder: Encoder, form: AnswerForm) -> None:
        self._encoder, self._form = encoder, form
        self.unknown_id = encoder.tokenizer.unk_token_id
        self._special = frozenset(encoder.tokenizer.all_special_ids) - {self.unknown_id}
        self.ids: list[list[int]] = []  # of each sentence, without special tokens; empty where there is a reason
        self.reasons: list[str] = []  # of each sentence, why it has no score; empty if it has one

    def add(self, questions: Questions, encoding: Any) -> None:
        encoder = self._encoder
        pieces = range(encoder.n_prefix, len(encoding.ids) - encoder.n_suffix)
        ids, words = (every[pieces.start : pieces.stop] for every in (encoding.ids, encoding.word_ids))
        reason = self._unfit(ids) or too_long(encoder, len(encoding.ids))
        self.reasons.append(reason)
        self.ids.append([] if reason else ids)
        for copy in () if reason else masked_copies(encoding.ids, pieces, words, encoder.mask_id, self._form):
            questions.term(*copy)

    def _unfit(self, ids: Sequence[int]) -> str:
        if not ids:
            return "the tokenizer maps it to nothing"
        special = next((entry for entry in ids if entry in self._special), None)
        if special is None:
            return ""
        return f"it spells a special token, {self._encoder.tokenizer.convert_ids_to_tokens(special)}"


@dataclass(frozen=True, eq=False)
class NextSentenceScores:
    """The probability that the second sentence of each pair follows the first, by layer."""

    layers: tuple[int, ...]
    log_probs: Floats
    """``[layer, pair, 2]`` natural logarithms that the second follows, and that it does not; NaN where a pair is
    excluded."""
    excluded: tuple[Excluded, ...]


def next_sentence(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str]],
    *,
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> NextSentenceScores:
    """Whether the second sentence of each pair follows the first, by the model's own head (Devlin et al. 2019).

    Args:
        encoder: a model that was trained for next-sentence prediction.
        pairs: natural text.
        layers: whose first piece the head is applied to; the last one, for which it was trained, when left out.
        progress: counts pairs.

    Raises:
        ModelError: the model has no such head, or not such a layer.
        ClozeError: no pair.
    """
    if not pairs:
        raise ClozeError("no pair of sentences: give at least one")
    wanted = chosen_layers(encoder, layers)
    head = encoder.next_sentence_head
    encodings = encode(encoder, pairs)
    reasons = [too_long(encoder, len(encoding.ids)) for encoding in encodings]
    kept = np.array([number for number, reason in enumerate(reasons) if not reason], dtype=np.int64)
    log_probs = np.full((len(wanted), len(pairs), 2), np.nan)
    progress.start(len(pairs), unit="pairs")
    lengths = np.array([len(encodings[number].ids) for number in kept], dtype=np.int64)
    for batch in plan_batches(lengths, pieces=pieces_in_batch(encoder.device)) if len(kept) else ():
        here = kept[batch.windows]
        ids, mask = padded_inputs([encodings[number].ids for number in here], batch, encoder.pad_id)
        types = torch.from_numpy(padded([encodings[number].type_ids for number in here], batch.length, 0))
        states = encoder.hidden_states(ids, mask, layers=wanted, token_type_ids=types)
        for place, layer in enumerate(wanted):
            log_probs[place, here] = head.log_probs(states[layer], layer=layer).double().cpu().numpy()
        progress.advance(len(here))
    progress.finish()
    return NextSentenceScores(wanted, log_probs, _excluded(reasons))


def _excluded(reasons: Sequence[str]) -> tuple[Excluded, ...]:
    return tuple(Excluded(number, None, reason) for number, reason in enumerate(reasons) if reason)
