"""Prompts put to a masked language model: candidates scored in many of them, or one followed through the layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.activations import Progress, silent
from bertology.cloze._prompts import (
    MASK,
    Answer,
    AnswerForm,
    AnswerReader,
    ClozeScores,
    Excluded,
    Floats,
    Integers,
    Prompt,
    check_form,
    encode,
    encode_each,
    mask_places,
    masked_copies,
    spell_pieces,
    too_long,
)
from bertology.cloze._read import Questions, Wanted, chosen_layers, question_batches, read_questions
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder


def ask(
    encoder: Encoder,
    prompts: Sequence[Prompt],
    *,
    layers: Sequence[int] | None = None,
    form: AnswerForm = "one_piece",
    normalized: bool = True,
    ranks: bool = False,
    top: int = 0,
    vocabulary: Sequence[int] | None = None,
    pieces: int | None = None,
    progress: Progress = silent,
) -> ClozeScores:
    """Score the candidates of prompts with a masked language model, by layer through its own head (the logit lens).

    Prompts of the same text are read once; inputs are batched by length; only masks pass through the head, and where
    neither log-probabilities, ranks nor the best entries are requested, only the candidates are scored.

    Args:
        encoder: a masked language model.
        prompts: texts with masks. Candidates are for one mask, which a prompt with several names in ``at``; each of
            several masks has its own distribution, with the others masked.
        layers: 0 for the embeddings, 1…L for the blocks; the last one when left out.
        form: how candidates are scored, above all those of several pieces.
        normalized: give natural logarithms of probabilities; logits if not.
        ranks: also the rank of a candidate in the distribution; for ``one_piece`` alone.
        top: number of the best entries returned at each mask.
        vocabulary: vocabulary numbers that the distribution is over, such as those that several models share
            (Petroni et al. 2019, section 4.1.2); for ``one_piece`` alone. All when left out.
        pieces: in a batch; as suits the device when left out.
        progress: counts texts.

    Returns:
        Scores of all candidates of all prompts; those that could not be scored are NaN and listed with the reason.

    Raises:
        ModelError: no masked-LM head, no mask, or a layer that the model does not have.
        ClozeError: a prompt without a mask, candidates for several masks, or nothing to do.
        NameNotFoundError: no such form.
    """
    check_form(form)
    _check(prompts, form, ranks=ranks, top=top, limited=vocabulary is not None)
    entries = None if vocabulary is None else _entries(encoder, vocabulary)
    n_entries = encoder.masked_head.n_entries if entries is None else len(entries)
    if top > n_entries:
        raise ClozeError(f"the best {top} are asked for: the vocabulary has {n_entries} entries")
    chosen = chosen_layers(encoder, layers)
    wanted = Wanted(layers=chosen, normalized=normalized, ranks=ranks, top=top, vocabulary=entries, pieces=pieces)
    return _Asking(encoder, tuple(prompts), form, wanted).scores(progress)


def _check(prompts: Sequence[Prompt], form: AnswerForm, *, ranks: bool, top: int, limited: bool) -> None:
    if not prompts:
        raise ClozeError("no prompt: give at least one")
    if form != "one_piece" and (ranks or limited):
        raise ClozeError(f"answers scored as {form} have no rank and no vocabulary of their own: ask for one_piece")
    if not top and not any(prompt.candidates for prompt in prompts):
        raise ClozeError("nothing is asked: give prompts candidates, or ask for the top few")
    for number, prompt in enumerate(prompts):
        which = f"prompt {number} {quoted(prompt.text)}"
        if not prompt.n_masks:
            raise ClozeError(f"{which}: no mask in it; write {MASK} where a word is left out")
        if prompt.candidates and prompt.asked is None:
            raise ClozeError(
                f"{which}: {prompt.n_masks} masks, and candidates are for one; leave one mask, leave out the "
                f"candidates, or say which mask (at) from 0 to {prompt.n_masks - 1}"
            )


def _entries(encoder: Encoder, vocabulary: Sequence[int]) -> Integers:
    entries = np.unique(np.asarray(vocabulary, dtype=np.int64))
    if not len(entries) or entries[0] < 0 or entries[-1] >= encoder.masked_head.n_entries:
        raise ClozeError(f"vocabulary: give numbers from 0 to {encoder.masked_head.n_entries - 1}")
    return entries


@dataclass
class _Text:
    """A text that is read once, for all prompts that have it and candidates at the same mask."""

    prompt: Prompt  # the first that has it
    masks: range  # their numbers among the masks of all texts
    slots: dict[str | int, int]  # the number of each candidate among those of all texts
    reason: str = ""  # why it is not read


class _Asking:
    def __init__(self, encoder: Encoder, prompts: tuple[Prompt, ...], form: AnswerForm, wanted: Wanted) -> None:
        self._encoder, self._prompts, self._form, self._wanted = encoder, prompts, form, wanted
        self._answers = AnswerReader(encoder)
        # By what the model reads and the mask that is asked about, in the order they first come.
        self._texts: dict[tuple[str, int | None], _Text] = {}
        self._of_prompts: list[tuple[_Text, list[int]]] = []
        n_layers, n_masks, n_words = len(wanted.layers), 0, 0
        for prompt in prompts:
            key = prompt.written(encoder.mask_token), prompt.asked
            if key not in self._texts:
                self._texts[key] = _Text(prompt, range(n_masks, n_masks + prompt.n_masks), {})
                n_masks += prompt.n_masks
            slots = self._texts[key].slots
            for word in prompt.candidates:
                if word not in slots:
                    slots[word] = n_words
                    n_words += 1
            self._of_prompts.append((self._texts[key], [slots[word] for word in prompt.candidates]))
        self._values = np.full((n_layers, n_words), np.nan)
        self._ranks = np.zeros((n_layers, n_words), dtype=np.int64)
        self._top_ids = np.full((n_layers, n_masks, wanted.top), -1, dtype=np.int64)
        self._top_values = np.full((n_layers, n_masks, wanted.top), np.nan)
        self._reasons: dict[int, str] = {}
        self._n_inputs = 0

    def scores(self, progress: Progress) -> ClozeScores:
        progress.start(len(self._texts), unit="texts")
        encodings = encode_each(self._encoder, [written for written, _ in self._texts])
        for questions in question_batches(zip(self._texts.values(), encodings, strict=True), self._add):
            self._take(questions)
            progress.advance(questions.n_texts)
        progress.finish()
        return self._distributed()

    def _add(self, questions: Questions, encoded: tuple[_Text, Any]) -> None:
        (text, encoding), encoder = encoded, self._encoder
        prompt, text.reason = text.prompt, too_long(encoder, len(encoding.ids))
        if text.reason:
            return
        masks = mask_places(encoder, prompt, encoding.ids)
        if self._wanted.top:
            for number, mask in zip(text.masks, masks, strict=True):
                questions.masks.append((questions.place(encoding.ids, mask), number))
        if prompt.asked is None:
            return
        before = encoder.mask_token.join(prompt.segments[: prompt.asked + 1])
        mask = masks[prompt.asked]
        for slot, answer in zip(text.slots.values(), self._answers.read(before, text.slots), strict=True):
            reason = answer.reason or self._unfit(answer, len(encoding.ids))
            if reason:
                self._reasons[slot] = reason
                continue
            whole = [*encoding.ids[:mask], *answer.pieces, *encoding.ids[mask + 1 :]]
            pieces = range(mask, mask + len(answer.pieces))
            for copy in masked_copies(whole, pieces, answer.words, encoder.mask_id, self._form):
                questions.term(*copy, slot=slot)

    def _unfit(self, answer: Answer, n_pieces: int) -> str:
        if self._form == "one_piece":
            if len(answer.pieces) > 1:
                return self._answers.several_pieces(answer)
            limit = self._wanted.vocabulary
            return "" if limit is None or answer.pieces[0] in limit else "not in the vocabulary that was given"
        return too_long(self._encoder, n_pieces + len(answer.pieces) - 1)

    def _take(self, questions: Questions) -> None:
        read = read_questions(self._encoder, questions, self._wanted)
        self._n_inputs += len(questions.inputs)
        slots, term_slot = np.unique(np.array(questions.slots, dtype=np.int64), return_inverse=True)
        for layer in range(len(self._wanted.layers)):
            self._values[layer, slots] = np.bincount(term_slot, weights=read.values[layer], minlength=len(slots))
        if self._wanted.ranks:
            self._ranks[:, questions.slots] = read.ranks
        if questions.masks:
            places, masks = np.array(questions.masks, dtype=np.int64).T
            self._top_ids[:, masks] = read.top_ids[:, places]
            self._top_values[:, masks] = read.top_values[:, places]

    def _distributed(self) -> ClozeScores:
        """The scores of prompts, from those of their texts."""
        excluded = []
        for number, (prompt, (text, slots)) in enumerate(zip(self._prompts, self._of_prompts, strict=True)):
            if text.reason:
                excluded.append(Excluded(number, None, text.reason))
                continue
            pairs = zip(prompt.candidates, slots, strict=True)
            excluded += [Excluded(number, word, self._reasons[slot]) for word, slot in pairs if slot in self._reasons]
        slot = np.array([slot for _, slots in self._of_prompts for slot in slots], dtype=np.int64)
        mask = np.array([mask for text, _ in self._of_prompts for mask in text.masks], dtype=np.int64)
        entries = [entry for entry in np.unique(self._top_ids).tolist() if entry >= 0]
        return ClozeScores(
            prompts=self._prompts,
            layers=self._wanted.layers,
            form=self._form,
            normalized=self._wanted.normalized,
            candidate_starts=np.cumsum([0, *(len(slots) for _, slots in self._of_prompts)]),
            values=self._values[:, slot],
            ranks=self._ranks[:, slot] if self._wanted.ranks else None,
            mask_starts=np.cumsum([0, *(len(text.masks) for text, _ in self._of_prompts)]),
            top_ids=self._top_ids[:, mask],
            top_values=self._top_values[:, mask],
            excluded=tuple(excluded),
            n_inputs=self._n_inputs,
            top_words=dict(zip(entries, spell_pieces(self._encoder, entries), strict=True)),
        )


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distributions of a masked language model at the masks of one prompt, by layer."""

    layers: tuple[int, ...]
    log_probs: NDArray[np.float32]
    """``[layer, mask, entry]`` natural logarithms over the whole vocabulary."""

    def top(self, k: int) -> Integers:
        """``[layer, mask, k]`` vocabulary numbers of the most probable entries, the first one first."""
        return np.asarray(np.argsort(-self.log_probs, axis=-1, kind="stable")[..., :k])


def distribution(encoder: Encoder, prompt: Prompt, *, layers: Sequence[int] | None = None) -> Distribution:
    """The distribution at each mask of a prompt, all masks masked at once, by layer as those of :func:`ask`, which
    takes many prompts and keeps less. Candidates are ignored.

    Raises:
        ModelError: no masked-LM head, no mask, or a layer that the model does not have.
        ClozeError: a prompt without a mask, or too long.
    """
    if not prompt.n_masks:
        raise ClozeError(f"prompt {quoted(prompt.text)}: no mask in it; write {MASK} where a word is left out")
    encoding = encode(encoder, [prompt.written(encoder.mask_token)])[0]
    reason = too_long(encoder, len(encoding.ids))
    if reason:
        raise ClozeError(f"prompt {quoted(prompt.text)} is {reason}; shorten it")
    masks = mask_places(encoder, prompt, encoding.ids)
    positions = torch.tensor([[0, piece] for piece in masks])
    logits = encoder.masked_logits(torch.tensor([encoding.ids]), positions, layers=layers)
    log_probs = torch.stack([part.float().log_softmax(-1) for part in logits.values()])
    return Distribution(tuple(logits), log_probs.cpu().numpy())


@dataclass(frozen=True, eq=False)
class ClozeReading:
    """Words at the mask of one prompt, in every layer."""

    text: str
    """The prompt as the model reads it."""
    model: str
    layers: tuple[int, ...]
    form: AnswerForm
    words: tuple[str, ...]
    """The candidates that could be scored; without candidates, the best of the deepest layer, the first one first."""
    log_probs: Floats
    """``[layer, word]`` natural logarithms, over the whole vocabulary."""
    ranks: Integers | None
    """``[layer, word]`` 1 for the most probable entry; None where candidates may have several pieces."""
    first: tuple[str, ...]
    """``[layer]`` the most probable entry of each layer, of the whole vocabulary."""
    first_log_probs: Floats
    """``[layer]`` its natural logarithm."""
    excluded: tuple[Excluded, ...]
    """Candidates without a score."""
    lens: Literal["logit", "tuned"] = "logit"
    """How the head reads lower layers: as they are, or translated."""


def read_cloze(
    encoder: Encoder,
    prompt: Prompt,
    *,
    layers: Sequence[int] | None = None,
    top: int = 5,
    form: AnswerForm = "one_piece",
) -> ClozeReading:
    """Follow words at the mask of a prompt through the layers, each read by the masked-LM head (the logit lens).

    Args:
        encoder: a masked language model.
        prompt: with one mask. Its candidates are followed; without any, the best of the deepest layer asked for.
        layers: 0 for the embeddings, 1…L for the blocks; all when left out.
        top: number of entries that are followed where there are no candidates.
        form: how candidates are scored, above all those of several pieces.

    Raises:
        ModelError: no masked-LM head, no mask, or a layer that the model does not have.
        ClozeError: no mask, more than one, a text that is too long, or none of the candidates can be scored.
    """
    if prompt.n_masks > 1:
        which = f"{prompt.n_masks} masks in {quoted(prompt.text)}"
        raise ClozeError(f"{which}: one is read at a time, write out the others")
    chosen = chosen_layers(encoder, range(encoder.n_layers + 1) if layers is None else layers)
    expected = distribution(encoder, prompt, layers=chosen)
    log_probs = expected.log_probs[:, 0].astype(np.float64)
    if not 1 <= top <= log_probs.shape[1]:
        raise ClozeError(f"the best {top} are asked for: give a number from 1 to {log_probs.shape[1]}")
    best = expected.top(1)[:, 0, 0]
    ranks: Integers | None
    if prompt.candidates:
        words, word_log_probs, ranks, excluded = _candidates(encoder, prompt, chosen, form)
    else:
        entries = expected.top(top)[-1, 0]
        words, excluded = tuple(spell_pieces(encoder, entries.tolist())), ()
        word_log_probs = log_probs[:, entries]
        ranks = np.stack([1 + (log_probs > column[:, None]).sum(1) for column in word_log_probs.T], axis=1)
    return ClozeReading(
        text=prompt.written(encoder.mask_token),
        model=encoder.name,
        layers=chosen,
        form=form,
        words=words,
        log_probs=word_log_probs,
        ranks=ranks,
        first=tuple(spell_pieces(encoder, best.tolist())),
        first_log_probs=log_probs[np.arange(len(chosen)), best],
        excluded=excluded,
        lens="tuned" if encoder.lens is not None else "logit",
    )


def _candidates(
    encoder: Encoder, prompt: Prompt, layers: Sequence[int], form: AnswerForm
) -> tuple[tuple[str, ...], Floats, Integers | None, tuple[Excluded, ...]]:
    """The candidates that can be scored, ``[layer, word]`` log-probabilities and ranks, and those without a score."""
    words = tuple(dict.fromkeys(word.strip() if isinstance(word, str) else word for word in prompt.candidates))
    scores = ask(encoder, [Prompt(prompt.text, words)], layers=layers, form=form, ranks=form == "one_piece")
    reasons = {excluded.candidate: excluded.reason for excluded in scores.excluded}
    kept = [number for number, word in enumerate(words) if word not in reasons]
    if not kept:
        listed = "; ".join(f"{quoted(word)} {reason}" for word, reason in reasons.items())
        raise ClozeError(f"no candidate is left: {listed}")
    scored = (words[number] for number in kept)
    spelled = (word if isinstance(word, str) else spell_pieces(encoder, [word])[0] for word in scored)
    ranks = None if scores.ranks is None else scores.ranks_of(0)[:, kept]
    return tuple(spelled), scores.of(0)[:, kept], ranks, scores.excluded
