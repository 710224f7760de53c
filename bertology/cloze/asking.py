"""Prompts read by a masked language model: candidates scored in many prompts, or one followed through the layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._machine import Workers
from bertology.activations.progress import Progress, silent
from bertology.cloze.prompts import (
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
from bertology.encoders.batching import padded_inputs, pieces_in_batch, plan_batches
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder

_INPUTS_AT_ONCE = 8192
"""So many inputs are sorted by length and read together; memory does not grow beyond them."""
_LOGITS_AT_ONCE = 1 << 22

Text = TypeVar("Text")


class Questions:
    """Distinct inputs with masks, distinct places in them, and vocabulary entries there, to be read together."""

    def __init__(self) -> None:
        self.inputs: list[Integers] = []  # distinct ones, special tokens included
        self.slots: list[int] = []  # [term] number of the answer that it is part of
        self.masks: list[tuple[int, int]] = []  # places whose best entries are wanted, each with the number of its mask
        self.n_texts = 0
        self._known: dict[bytes, int] = {}
        self._places: dict[tuple[int, int], int] = {}
        self._terms: list[tuple[int, int]] = []

    def place(self, ids: Sequence[int], piece: int) -> int:
        """The number of a place: one piece of an input."""
        array = np.asarray(ids, dtype=np.int64)
        number = self._known.setdefault(array.tobytes(), len(self.inputs))
        if number == len(self.inputs):
            self.inputs.append(array)
        return self._places.setdefault((number, piece), len(self._places))

    def term(self, ids: Sequence[int], piece: int, entry: int, *, slot: int = 0) -> None:
        """Add a term: the score of an entry at a piece of an input, for the answer with number ``slot``."""
        self._terms.append((self.place(ids, piece), entry))
        self.slots.append(slot)

    @property
    def places(self) -> Integers:
        """``[place, 2]`` input and piece."""
        return np.array(list(self._places), dtype=np.int64).reshape(-1, 2)

    @property
    def terms(self) -> Integers:
        """``[term, 2]`` place and vocabulary entry."""
        return np.array(self._terms, dtype=np.int64).reshape(-1, 2)


def question_batches(texts: Iterable[Text], add: Callable[[Questions, Text], None]) -> Iterator[Questions]:
    """Questions about enough texts to be read together, each added whole; the last ones may be fewer, or none."""
    questions = Questions()
    for text in texts:
        add(questions, text)
        questions.n_texts += 1
        if len(questions.inputs) >= _INPUTS_AT_ONCE:
            yield questions
            questions = Questions()
    yield questions


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The values that are taken from the distribution at each place."""

    layers: tuple[int, ...]
    normalized: bool = True  # log-probabilities; logits if not, which saves the sum over the vocabulary
    ranks: bool = False
    top: int = 0  # number of the best entries
    vocabulary: Integers | None = None  # [entry] ascending: those that the distribution is over; None for all
    pieces: int | None = None  # in a batch; None for as many as suit the device


def chosen_layers(encoder: Encoder, layers: Sequence[int] | None) -> tuple[int, ...]:
    """Ascending, each once; the last one when left out."""
    return (encoder.n_layers,) if layers is None else tuple(sorted(set(layers)))


class Read(NamedTuple):
    """The values that were taken from the distributions."""

    values: Floats  # [layer, term]
    ranks: Integers  # [layer, term]; 0 unless requested
    top_ids: Integers  # [layer, place, k]
    top_values: Floats  # [layer, place, k]


def read_questions(encoder: Encoder, questions: Questions, wanted: Wanted) -> Read:
    """Read all inputs, in batches of about the same length; memory is that of a batch and of a few million logits."""
    n_layers, places, terms = len(wanted.layers), questions.places, questions.terms
    read = Read(
        values=np.empty((n_layers, len(terms))),
        ranks=np.zeros((n_layers, len(terms)), dtype=np.int64),
        top_ids=np.empty((n_layers, len(places), wanted.top), dtype=np.int64),
        top_values=np.empty((n_layers, len(places), wanted.top)),
    )
    places_of = _members(places[:, 0], len(questions.inputs))
    terms_of = _members(terms[:, 0], len(places))
    lengths = np.array([len(ids) for ids in questions.inputs], dtype=np.int64)
    batches = plan_batches(lengths, pieces=wanted.pieces or pieces_in_batch(encoder.device))
    free: SimpleQueue[Encoder] = SimpleQueue()

    def take(number: int) -> None:
        batch, reader = batches[number], free.get()
        try:
            chosen, row = places_of(batch.windows)
            of_term, place = terms_of(chosen)
            ids, mask = padded_inputs([questions.inputs[window] for window in batch.windows], batch, reader.pad_id)
            positions = torch.from_numpy(np.stack([row, places[chosen, 1]], axis=1))
            features = reader.masked_features(ids, positions, attention_mask=mask, layers=wanted.layers)
            for number, layer in enumerate(wanted.layers):
                for some, of_some, part in _reduced(reader, layer, features[layer], place, terms[of_term, 1], wanted):
                    read.values[number, of_term[of_some]] = part.values
                    read.ranks[number, of_term[of_some]] = part.ranks
                    read.top_ids[number, chosen[some]] = part.top_ids
                    read.top_values[number, chosen[some]] = part.top_values
        finally:
            free.put(reader)

    # A batch on each core, rather than every operation on all of them.
    most = 1 if encoder.is_gated else len(batches) or 1
    with Workers(torch.device(encoder.device), most=most) as workers:
        for each in (encoder, *(encoder.twin() for _ in range(workers.n - 1))):
            free.put(each)
        workers.map(take, len(batches))
    return read


def _members(group: Integers, n_groups: int) -> Callable[[Integers], tuple[Integers, Integers]]:
    """A function from numbers of groups to their members and, of each, the place of its group among those numbers; made
    of the group ``[member]`` of each."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(n_groups + 1))

    def of(groups: Integers) -> tuple[Integers, Integers]:
        counts = starts[groups + 1] - starts[groups]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return order[np.repeat(starts[groups], counts) + within], np.repeat(np.arange(len(groups)), counts)

    return of


@torch.inference_mode()
def _reduced(
    encoder: Encoder, layer: int, features: Tensor, place: Integers, entries: Integers, wanted: Wanted
) -> Iterator[tuple[slice, slice, Read]]:
    """Some places, as many as their logits fit into memory, their terms, and what is taken of both in one layer; of
    ``[place, feature]`` features, and of each term its place, ascending, and its vocabulary entry."""
    needs_vocabulary = wanted.normalized or wanted.ranks or wanted.top > 0
    columns = wanted.vocabulary if needs_vocabulary else np.unique(entries)
    column = entries if columns is None else np.searchsorted(columns, entries)
    chosen = None if columns is None else torch.from_numpy(columns).to(features.device)
    n_columns = len(columns) if columns is not None else encoder.masked_head.n_entries
    step = max(1, _LOGITS_AT_ONCE // max(1, n_columns))
    for start in range(0, len(features), step):
        part = slice(start, start + step)
        terms = slice(*np.searchsorted(place, [start, start + step]).tolist())
        logits = encoder.vocabulary_logits(features[part], chosen, layer=layer).float()
        rows = torch.from_numpy(place[terms] - start).to(logits.device)
        scores = logits[rows, torch.from_numpy(column[terms]).to(logits.device)]
        best = logits.topk(wanted.top, dim=1)
        ranks = _ranks(logits, rows, scores) if wanted.ranks else np.zeros(1, dtype=np.int64)
        values, top_values = scores, best.values
        if wanted.normalized:
            total = logits.logsumexp(1)
            values, top_values = scores - total[rows], best.values - total[:, None]
        indices = best.indices.cpu().numpy()
        top_ids = indices if columns is None else columns[indices]
        yield part, terms, Read(values.cpu().double().numpy(), ranks, top_ids, top_values.cpu().double().numpy())


def _ranks(logits: Tensor, rows: Tensor, scores: Tensor) -> Integers:
    """``[term]`` one more than the entries that score higher; equal ones do not count."""
    # Mostly there is one term at a place, which needs no copy of its logits.
    if torch.equal(rows, torch.arange(len(logits), device=rows.device)):
        return _n_above(logits, scores).cpu().numpy() + 1
    step = max(1, _LOGITS_AT_ONCE // logits.shape[1])
    parts = zip(torch.split(rows, step), torch.split(scores, step), strict=True)
    return torch.cat([_n_above(logits[some], of_some) for some, of_some in parts]).cpu().numpy() + 1


def _n_above(logits: Tensor, scores: Tensor) -> Tensor:
    """``[term]`` how many of each row's logits are above its score."""
    # Ones and zeros in float32 add up exactly, and several times faster than truth values.
    return torch.gt(logits, scores[:, None], out=torch.empty_like(logits)).sum(1).long()


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
                f"{which}: {prompt.n_masks} masks, but candidates belong to one; keep one mask, leave out the "
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
        self._reasons: dict[int, str] = {}
        n_masks = n_words = 0
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
        self._n_masks, self._n_words = n_masks, n_words

    def scores(self, progress: Progress) -> ClozeScores:
        wanted, n_layers, n_inputs = self._wanted, len(self._wanted.layers), 0
        values = np.full((n_layers, self._n_words), np.nan)
        ranks = np.zeros((n_layers, self._n_words), dtype=np.int64)
        top_ids = np.full((n_layers, self._n_masks, wanted.top), -1, dtype=np.int64)
        top_values = np.full((n_layers, self._n_masks, wanted.top), np.nan)
        progress.start(len(self._texts), unit="texts")
        encodings = encode_each(self._encoder, [written for written, _ in self._texts])
        for questions in question_batches(zip(self._texts.values(), encodings, strict=True), self._add):
            read = read_questions(self._encoder, questions, wanted)
            n_inputs += len(questions.inputs)
            slots, term_slot = np.unique(np.array(questions.slots, dtype=np.int64), return_inverse=True)
            for layer in range(n_layers):
                values[layer, slots] = np.bincount(term_slot, weights=read.values[layer], minlength=len(slots))
            if wanted.ranks:
                ranks[:, questions.slots] = read.ranks
            if questions.masks:
                places, masks = np.array(questions.masks, dtype=np.int64).T
                top_ids[:, masks], top_values[:, masks] = read.top_ids[:, places], read.top_values[:, places]
            progress.advance(questions.n_texts)
        progress.finish()
        # The scores of prompts, from those of their texts.
        slot = np.array([slot for _, slots in self._of_prompts for slot in slots], dtype=np.int64)
        mask = np.array([mask for text, _ in self._of_prompts for mask in text.masks], dtype=np.int64)
        entries = [entry for entry in np.unique(top_ids).tolist() if entry >= 0]
        return ClozeScores(
            prompts=self._prompts,
            layers=wanted.layers,
            form=self._form,
            normalized=wanted.normalized,
            candidate_starts=np.cumsum([0, *(len(slots) for _, slots in self._of_prompts)]),
            values=values[:, slot],
            ranks=ranks[:, slot] if wanted.ranks else None,
            mask_starts=np.cumsum([0, *(len(text.masks) for text, _ in self._of_prompts)]),
            top_ids=top_ids[:, mask],
            top_values=top_values[:, mask],
            excluded=tuple(self._excluded()),
            n_inputs=n_inputs,
            top_words=dict(zip(entries, spell_pieces(self._encoder, entries), strict=True)),
        )

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
        if self._form != "one_piece":
            return too_long(self._encoder, n_pieces + len(answer.pieces) - 1)
        if len(answer.pieces) > 1:
            return self._answers.several_pieces(answer)
        limit = self._wanted.vocabulary
        return "" if limit is None or answer.pieces[0] in limit else "not in the vocabulary that was given"

    def _excluded(self) -> Iterator[Excluded]:
        for number, (prompt, (text, slots)) in enumerate(zip(self._prompts, self._of_prompts, strict=True)):
            if text.reason:
                yield Excluded(number, None, text.reason)
                continue
            for word, slot in zip(prompt.candidates, slots, strict=True):
                if slot in self._reasons:
                    yield Excluded(number, word, self._reasons[slot])


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

    text: str  # the prompt as the model reads it
    model: str
    layers: tuple[int, ...]
    form: AnswerForm
    words: tuple[str, ...]
    """The candidates that could be scored; without candidates, the best of the deepest layer, the first one first."""
    log_probs: Floats  # [layer, word] natural logarithms, over the whole vocabulary
    ranks: Integers | None  # [layer, word] 1 for the most probable entry; None where candidates may have several pieces
    first: tuple[str, ...]  # [layer] the most probable entry of each layer, of the whole vocabulary
    first_log_probs: Floats  # [layer] its natural logarithm
    excluded: tuple[Excluded, ...]  # candidates without a score
    lens: Literal["logit", "tuned"] = "logit"
    """Input of the head from lower layers: their states as they are (logit), or translated (tuned)."""


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
    n_entries = encoder.masked_head.n_entries
    if not 1 <= top <= n_entries:
        raise ClozeError(f"the best {top} are asked for: give a number from 1 to {n_entries}")
    words = tuple(dict.fromkeys(word.strip() if isinstance(word, str) else word for word in prompt.candidates))
    chosen = chosen_layers(encoder, range(encoder.n_layers + 1) if layers is None else layers)
    best = ask(encoder, [Prompt(prompt.text)], layers=chosen, top=1 if words else top)
    if best.excluded:
        raise ClozeError(f"prompt {quoted(prompt.text)} is {best.excluded[0].reason}; shorten it")
    way: AnswerForm = form if words else "one_piece"
    words = words or tuple(best.top_ids[-1, 0].tolist())
    scores = ask(encoder, [Prompt(prompt.text, words)], layers=chosen, form=way, ranks=way == "one_piece")
    reasons = {excluded.candidate: excluded.reason for excluded in scores.excluded}
    kept = [number for number, word in enumerate(words) if word not in reasons]
    if not kept:
        listed = "; ".join(f"{quoted(word)} {reason}" for word, reason in reasons.items())
        raise ClozeError(f"no candidate is left: {listed}")
    scored = (words[number] for number in kept)
    return ClozeReading(
        text=prompt.written(encoder.mask_token),
        model=encoder.name,
        layers=chosen,
        form=form,
        words=tuple(word if isinstance(word, str) else spell_pieces(encoder, [word])[0] for word in scored),
        log_probs=scores.of(0)[:, kept],
        ranks=None if scores.ranks is None else scores.ranks_of(0)[:, kept],
        first=tuple(spell_pieces(encoder, best.top_ids[:, 0, 0].tolist())),
        first_log_probs=best.top_values[:, 0, 0],
        excluded=scores.excluded,
        lens="tuned" if encoder.lens is not None else "logit",
    )
