"""Prompts put to a masked language model: distributions at masks, candidates scored, each different input read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology.activations import Progress, silent
from bertology.cloze._answers import Answer, AnswerForm, AnswerReader, Excluded, check_form
from bertology.cloze._copies import masked_copies
from bertology.cloze._encode import encode, mask_places, too_long
from bertology.cloze._prompts import MASK, Prompt
from bertology.cloze._questions import Integers, Questions
from bertology.cloze._read import Read, Wanted, read_questions
from bertology.cloze._scores import ClozeScores
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder

_TEXTS_AT_ONCE = 1024


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
    """Put prompts to a masked language model, by layer through its own head (the logit lens).

    Prompts of the same text are read once; inputs are batched by length; only masks pass through the head, and
    where neither log-probabilities, ranks nor the best entries are asked for, only the candidates are scored.

    Args:
        encoder: a masked language model.
        prompts: what to ask. Candidates are for one mask, which a prompt of several names; several masks are each given
            their own distribution, with the others masked.
        layers: 0 for the embeddings, 1…L for the blocks; the last one when left out.
        form: how candidates are scored, above all those of several pieces.
        normalized: give natural logarithms of probabilities; logits if not.
        ranks: say at which place of the distribution a candidate stands; for ``one_piece`` alone.
        top: how many of the best entries to give at each mask.
        vocabulary: vocabulary numbers that the distribution is over, such as those that several models share
            (Petroni et al. 2019, section 4.1.2); for ``one_piece`` alone. All when left out.
        pieces: in a batch, when what suits the device does not suit the task.
        progress: told of inputs read.

    Returns:
        Scores of all candidates of all prompts; what could not be scored is NaN and listed with its reason.

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
    wanted = Wanted(
        layers=(encoder.n_layers,) if layers is None else tuple(sorted(set(layers))),
        normalized=normalized,
        ranks=ranks,
        top=top,
        vocabulary=entries,
        pieces=pieces,
    )
    return _Asking(encoder, tuple(prompts), form, wanted).scores(progress)


def _check(prompts: Sequence[Prompt], form: AnswerForm, *, ranks: bool, top: int, limited: bool) -> None:
    if not prompts:
        raise ClozeError("no prompt: give at least one")
    if form != "one_piece" and (ranks or limited):
        raise ClozeError(f"answers scored as {form} have no rank and no vocabulary of their own: ask for one_piece")
    if not top and not any(prompt.candidates for prompt in prompts):
        raise ClozeError("nothing is asked: give prompts candidates, or ask for the top few")
    for number, prompt in enumerate(prompts):
        if not prompt.n_masks:
            raise ClozeError(
                f"prompt {number} {quoted(prompt.text)}: no mask in it; write {MASK} where a word is left out"
            )
        if prompt.candidates and prompt.asked is None:
            raise ClozeError(
                f"prompt {number} {quoted(prompt.text)}: {prompt.n_masks} masks, and candidates are for one; "
                f"leave one mask, leave out the candidates, or say which mask (at) from 0 to {prompt.n_masks - 1}"
            )


def _entries(encoder: Encoder, vocabulary: Sequence[int]) -> Integers:
    entries = np.unique(np.asarray(vocabulary, dtype=np.int64))
    if not len(entries) or entries[0] < 0 or entries[-1] >= encoder.masked_head.n_entries:
        raise ClozeError(f"vocabulary: give numbers from 0 to {encoder.masked_head.n_entries - 1}")
    return entries


_Key = tuple[str, int | None]


@dataclass
class _Text:
    """A text that is read, with all that its prompts ask of it."""

    prompts: list[int]
    words: list[str | int]
    reason: str = ""
    """Why it is not read."""
    first_mask: int = 0
    first_word: int = 0


class _Asking:
    """One call of :func:`ask`."""

    def __init__(self, encoder: Encoder, prompts: tuple[Prompt, ...], form: AnswerForm, wanted: Wanted) -> None:
        self._encoder, self._prompts, self._form, self._wanted = encoder, prompts, form, wanted
        self._answers = AnswerReader(encoder)
        self._texts = self._gather()
        last = [text.first_mask + prompts[text.prompts[0]].n_masks for text in self._texts.values()]
        n_masks, n_words = max(last), sum(len(text.words) for text in self._texts.values())
        n_layers = len(wanted.layers)
        self._values = np.full((n_layers, n_words), np.nan)
        self._ranks = np.zeros((n_layers, n_words), dtype=np.int64)
        self._top_ids = np.full((n_layers, n_masks, wanted.top), -1, dtype=np.int64)
        self._top_values = np.full((n_layers, n_masks, wanted.top), np.nan)
        self._reasons: dict[int, str] = {}
        self._n_inputs = 0

    def _gather(self) -> dict[_Key, _Text]:
        """Texts by what the model reads, in the order they first come."""
        texts: dict[_Key, _Text] = {}
        words: dict[_Key, dict[str | int, None]] = {}
        for number, prompt in enumerate(self._prompts):
            key = prompt.written(self._encoder.mask_token), prompt.asked
            texts.setdefault(key, _Text([], [])).prompts.append(number)
            words.setdefault(key, {}).update(dict.fromkeys(prompt.candidates))
        masks = entries = 0
        for key, text in texts.items():
            text.words = list(words[key])
            text.first_mask, text.first_word = masks, entries
            masks += self._prompts[text.prompts[0]].n_masks
            entries += len(text.words)
        return texts

    def scores(self, progress: Progress) -> ClozeScores:
        """Read everything, and give each prompt its own."""
        progress.start(len(self._texts), unit="texts")
        for batch in self._batches():
            batch.finish(self._wanted, self)
            progress.advance(batch.n_texts)
        progress.finish()
        return self._distributed()

    def _batches(self) -> Iterator[_Batch]:
        """Enough texts to be read together."""
        keys = list(self._texts)
        batch = _Batch(self._encoder)
        for start in range(0, len(keys), _TEXTS_AT_ONCE):
            some = keys[start : start + _TEXTS_AT_ONCE]
            for key, encoding in zip(some, encode(self._encoder, [written for written, _ in some]), strict=True):
                self._add(batch, self._texts[key], encoding)
                if batch.questions.is_full:
                    yield batch
                    batch = _Batch(self._encoder)
        yield batch

    def _add(self, batch: _Batch, text: _Text, encoding: Any) -> None:
        batch.n_texts += 1
        prompt = self._prompts[text.prompts[0]]
        text.reason = too_long(self._encoder, len(encoding.ids))
        if text.reason:
            return
        masks = mask_places(self._encoder, prompt, encoding.ids)
        if self._wanted.top:
            for number, mask in enumerate(masks):
                batch.masks.append((batch.questions.place(encoding.ids, mask), text.first_mask + number))
        if prompt.asked is None:
            return
        before = self._encoder.mask_token.join(prompt.segments[: prompt.asked + 1])
        for number, answer in enumerate(self._answers.read(before, text.words)):
            slot = text.first_word + number
            reason = answer.reason or self._unfit(answer, len(encoding.ids))
            if reason:
                self._reasons[slot] = reason
                continue
            for ids, piece, entry in masked_copies(
                encoding.ids, masks[prompt.asked], answer, self._encoder.mask_id, self._form
            ):
                batch.term(ids, piece, entry, slot)

    def _unfit(self, answer: Answer, n_pieces: int) -> str:
        """Why an answer cannot be scored as asked."""
        if self._form == "one_piece":
            if len(answer.pieces) > 1:
                return self._answers.several_pieces(answer)
            limit = self._wanted.vocabulary
            return "" if limit is None or answer.pieces[0] in limit else "not in the vocabulary that was given"
        return too_long(self._encoder, n_pieces + len(answer.pieces) - 1)

    def take(self, read: Read, batch: _Batch) -> None:
        """Keep what was read: the terms of an answer summed."""
        self._n_inputs += len(batch.questions.inputs)
        slots, term_slot = np.unique(np.array(batch.slots, dtype=np.int64), return_inverse=True)
        for layer in range(len(self._wanted.layers)):
            self._values[layer, slots] = np.bincount(term_slot, weights=read.values[layer], minlength=len(slots))
        if self._wanted.ranks:
            self._ranks[:, batch.slots] = read.ranks
        if batch.masks:
            places, masks = np.array(batch.masks, dtype=np.int64).T
            self._top_ids[:, masks] = read.top_ids[:, places]
            self._top_values[:, masks] = read.top_values[:, places]

    def _distributed(self) -> ClozeScores:
        """From texts, which are read once, to prompts."""
        text_of = {number: text for text in self._texts.values() for number in text.prompts}
        candidates, masks, excluded = [], [], []
        for number, prompt in enumerate(self._prompts):
            text = text_of[number]
            masks.append(np.arange(text.first_mask, text.first_mask + prompt.n_masks))
            place = {word: text.first_word + i for i, word in enumerate(text.words)} if prompt.candidates else {}
            slots = [place[word] for word in prompt.candidates]
            candidates.append(np.array(slots, dtype=np.int64))
            if text.reason:
                excluded.append(Excluded(number, None, text.reason))
                continue
            pairs = zip(prompt.candidates, slots, strict=True)
            excluded += [Excluded(number, word, self._reasons[slot]) for word, slot in pairs if slot in self._reasons]
        slot, mask = np.concatenate(candidates), np.concatenate(masks)
        return ClozeScores(
            prompts=self._prompts,
            layers=self._wanted.layers,
            form=self._form,
            normalized=self._wanted.normalized,
            candidate_starts=np.cumsum([0, *map(len, candidates)]),
            values=self._values[:, slot],
            ranks=self._ranks[:, slot] if self._wanted.ranks else None,
            mask_starts=np.cumsum([0, *map(len, masks)]),
            top_ids=self._top_ids[:, mask],
            top_values=self._top_values[:, mask],
            excluded=tuple(excluded),
            n_inputs=self._n_inputs,
        )


class _Batch:
    """Texts that are read together, and where what the model says of them belongs."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.questions = Questions()
        self.slots: list[int] = []
        """``[term]`` the answer that a term is part of."""
        self.masks: list[tuple[int, int]] = []
        """Places, and the masks they are."""
        self.n_texts = 0

    def term(self, ids: Sequence[int], piece: int, entry: int, slot: int) -> None:
        """Ask for an entry at a piece of an input."""
        self.questions.term(self.questions.place(ids, piece), entry)
        self.slots.append(slot)

    def finish(self, wanted: Wanted, asking: _Asking) -> None:
        """Read, and hand over what was read."""
        asking.take(read_questions(self._encoder, self.questions, wanted), self)
