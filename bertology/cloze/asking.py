"""Prompts read by a masked language model: candidates scored in many prompts, or one followed through the layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from bertology._machine import Workers
from bertology.activations.progress import Progress, silent
from bertology.cloze.prompts import (
    MASK,
    AnswerForm,
    AnswerReader,
    ClozeScores,
    Excluded,
    Floats,
    Integers,
    Prompt,
    check_form,
    encode,
    masked_copies,
    spell_pieces,
    too_long,
)
from bertology.encoders.batching import padded_inputs, pieces_in_batch, plan_batches
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder

_INPUTS_AT_ONCE = 8192  # so many inputs are sorted by length and read together; memory does not grow beyond them
_LOGITS_AT_ONCE = 1 << 22

Text = TypeVar("Text")


class Questions:
    """Distinct inputs with masks, distinct places in them, and vocabulary entries there, to be read together."""

    def __init__(self) -> None:
        self.inputs: list[Integers] = []  # distinct ones, special tokens included
        self.slots: list[int] = []  # [term] number of the answer that it is part of
        self.masks: list[tuple[int, int]] = []  # places whose best entries are wanted, each with the number of its mask
        self.terms: list[tuple[int, int]] = []  # [term] place and vocabulary entry
        self.places: dict[tuple[int, int], int] = {}  # number of each place: a piece of an input
        self._known: dict[bytes, int] = {}

    def place(self, ids: Sequence[int], piece: int) -> int:
        """The number of a place: one piece of an input."""
        array = np.asarray(ids, dtype=np.int64)
        number = self._known.setdefault(array.tobytes(), len(self.inputs))
        if number == len(self.inputs):
            self.inputs.append(array)
        return self.places.setdefault((number, piece), len(self.places))

    def term(self, ids: Sequence[int], piece: int, entry: int, *, slot: int = 0) -> None:
        """Add a term: the score of an entry at a piece of an input, for the answer with number ``slot``."""
        self.terms.append((self.place(ids, piece), entry))
        self.slots.append(slot)


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


def read_texts(
    encoder: Encoder, texts: Iterable[Text], add: Callable[[Questions, Text], None], wanted: Wanted, progress: Progress
) -> Iterator[tuple[Questions, Read]]:
    """Read the questions that ``add`` makes of texts, those of many texts at a time; counts texts as progress."""
    questions, n_texts = Questions(), 0
    for text in texts:
        add(questions, text)
        n_texts += 1
        if len(questions.inputs) >= _INPUTS_AT_ONCE:
            yield questions, _read(encoder, questions, wanted)
            progress.advance(n_texts)
            questions, n_texts = Questions(), 0
    yield questions, _read(encoder, questions, wanted)
    progress.advance(n_texts)
    progress.finish()


def _read(encoder: Encoder, questions: Questions, wanted: Wanted) -> Read:
    """Read all inputs, in batches of about the same length; memory is that of a batch and of a few million logits."""
    places = np.array(list(questions.places), dtype=np.int64).reshape(-1, 2)  # [place] input and piece
    terms = np.array(questions.terms, dtype=np.int64).reshape(-1, 2)
    of_terms, of_top = (len(wanted.layers), len(terms)), (len(wanted.layers), len(places), wanted.top)
    whole = Read(np.empty(of_terms), np.zeros(of_terms, np.int64), np.empty(of_top, np.int64), np.empty(of_top))
    places_of, terms_of = _members(places[:, 0], len(questions.inputs)), _members(terms[:, 0], len(places))
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
                    whole.values[number, of_term[of_some]], whole.ranks[number, of_term[of_some]] = part[:2]
                    whole.top_ids[number, chosen[some]], whole.top_values[number, chosen[some]] = part[2:]
        finally:
            free.put(reader)

    # A batch on each core, rather than every operation on all of them.
    with Workers(torch.device(encoder.device), most=1 if encoder.is_gated else len(batches) or 1) as workers:
        for each in (encoder, *(encoder.twin() for _ in range(workers.n - 1))):
            free.put(each)
        workers.map(take, len(batches))
    return whole


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
    columns = wanted.vocabulary if wanted.normalized or wanted.ranks or wanted.top else np.unique(entries)
    column = entries if columns is None else np.searchsorted(columns, entries)
    chosen = None if columns is None else torch.from_numpy(columns).to(features.device)
    step = max(1, _LOGITS_AT_ONCE // max(1, encoder.masked_head.n_entries if columns is None else len(columns)))
    for start in range(0, len(features), step):
        part = slice(start, start + step)
        terms = slice(*np.searchsorted(place, [start, start + step]).tolist())
        logits = encoder.vocabulary_logits(features[part], chosen, layer=layer).float()
        rows = torch.from_numpy(place[terms] - start).to(logits.device)
        values = logits[rows, torch.from_numpy(column[terms]).to(logits.device)]
        top_values, indices = logits.topk(wanted.top, dim=1)
        ranks = _ranks(logits, rows, values) if wanted.ranks else np.zeros(1, dtype=np.int64)
        if wanted.normalized:
            total = logits.logsumexp(1)
            values, top_values = values - total[rows], top_values - total[:, None]
        top_ids = indices.cpu().numpy() if columns is None else columns[indices.cpu().numpy()]
        yield part, terms, Read(values.cpu().double().numpy(), ranks, top_ids, top_values.cpu().double().numpy())


def _ranks(logits: Tensor, rows: Tensor, scores: Tensor) -> Integers:
    """``[term]`` one more than the entries that score higher; equal ones do not count."""
    # Mostly there is one term at a place, which needs no copy of its logits.
    is_alone = torch.equal(rows, torch.arange(len(logits), device=rows.device))
    step, above = len(rows) if is_alone else max(1, _LOGITS_AT_ONCE // logits.shape[1]), []
    for some, of_some in zip(torch.split(rows, step), torch.split(scores, step), strict=True):
        chosen = logits if is_alone else logits[some]
        # Ones and zeros in float32 add up exactly, and several times faster than truth values.
        above.append(torch.gt(chosen, of_some[:, None], out=torch.empty_like(chosen)).sum(1).long())
    return torch.cat(above).cpu().numpy() + 1


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
    if not prompts:
        raise ClozeError("no prompt: give at least one")
    if form != "one_piece" and (ranks or vocabulary is not None):
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
    n_entries, entries = encoder.masked_head.n_entries, None
    if vocabulary is not None:
        entries = np.unique(np.asarray(vocabulary, dtype=np.int64))
        if not len(entries) or entries[0] < 0 or entries[-1] >= n_entries:
            raise ClozeError(f"vocabulary: give numbers from 0 to {n_entries - 1}")
        n_entries = len(entries)
    if top > n_entries:
        raise ClozeError(f"the best {top} are asked for: the vocabulary has {n_entries} entries")
    chosen = chosen_layers(encoder, layers)
    wanted = Wanted(layers=chosen, normalized=normalized, ranks=ranks, top=top, vocabulary=entries, pieces=pieces)
    return _scores(encoder, tuple(prompts), form, wanted, progress)


def _scores(
    encoder: Encoder, prompts: tuple[Prompt, ...], form: AnswerForm, wanted: Wanted, progress: Progress
) -> ClozeScores:
    n_layers, n_inputs, answers = len(wanted.layers), 0, AnswerReader(encoder)
    reasons: dict[tuple[int, int | None], str] = {}  # by number of the prompt and place of the candidate
    candidate_starts = np.cumsum([0, *(len(prompt.candidates) for prompt in prompts)])
    mask_starts = np.cumsum([0, *(prompt.n_masks for prompt in prompts)])
    values, ranks = np.full((n_layers, candidate_starts[-1]), np.nan), None
    if wanted.ranks:
        ranks = np.zeros(values.shape, dtype=np.int64)
    top_ids = np.full((n_layers, mask_starts[-1], wanted.top), -1, dtype=np.int64)
    top_values = np.full(top_ids.shape, np.nan)
    by_text: dict[str, list[int]] = {}
    for number, prompt in enumerate(prompts):
        by_text.setdefault(prompt.written(encoder.mask_token), []).append(number)

    def add(questions: Questions, text: tuple[list[int], Any]) -> None:
        """All prompts of one text, so that it is read once."""
        numbers, encoding = text
        ids: list[int] = encoding.ids
        masks = [piece for piece, entry in enumerate(ids) if entry == encoder.mask_id]
        for number in numbers:
            prompt, asked = prompts[number], prompts[number].asked
            if reason := too_long(encoder, len(ids)):
                reasons[number, None] = reason
                continue
            if len(masks) != prompt.n_masks:
                problem = f"{prompt.n_masks} masks, of which the tokenizer reads {len(masks)} as {encoder.mask_token}"
                raise ClozeError(f"prompt {quoted(prompt.text)}: {problem}; put spaces around them")
            for mask, at in zip(masks, range(*mask_starts[number : number + 2]), strict=True) if wanted.top else ():
                questions.masks.append((questions.place(ids, mask), at))
            if asked is None:
                continue
            before = encoder.mask_token.join(prompt.segments[: asked + 1])
            for place, answer in enumerate(answers.read(before, prompt.candidates)):
                if form != "one_piece":
                    reason = answer.reason or too_long(encoder, len(ids) + len(answer.pieces) - 1)
                elif not (reason := answers.unfit(answer)) and wanted.vocabulary is not None:
                    is_in = answer.pieces[0] in wanted.vocabulary
                    reason = "" if is_in else "not in the vocabulary that was given"
                if reason:
                    reasons[number, place] = reason
                    continue
                mask, slot = masks[asked], int(candidate_starts[number]) + place
                whole = [*ids[:mask], *answer.pieces, *ids[mask + 1 :]]
                of_answer = range(mask, mask + len(answer.pieces))
                for copy in masked_copies(whole, of_answer, answer.words, encoder.mask_id, form):
                    questions.term(*copy, slot=slot)

    progress.start(len(by_text), unit="texts")
    texts = zip(by_text.values(), encode(encoder, list(by_text)), strict=True)
    for questions, read in read_texts(encoder, texts, add, wanted, progress):
        n_inputs += len(questions.inputs)
        slots, term_slot = np.unique(np.array(questions.slots, dtype=np.int64), return_inverse=True)
        for layer in range(n_layers):
            values[layer, slots] = np.bincount(term_slot, weights=read.values[layer], minlength=len(slots))
        if ranks is not None:
            ranks[:, questions.slots] = read.ranks
        if questions.masks:
            places, masks = np.array(questions.masks, dtype=np.int64).T
            top_ids[:, masks], top_values[:, masks] = read.top_ids[:, places], read.top_values[:, places]
    every = [entry for entry in np.unique(top_ids).tolist() if entry >= 0]
    return ClozeScores(
        prompts=prompts,
        layers=wanted.layers,
        form=form,
        normalized=wanted.normalized,
        candidate_starts=candidate_starts,
        values=values,
        ranks=ranks,
        mask_starts=mask_starts,
        top_ids=top_ids,
        top_values=top_values,
        excluded=tuple(
            Excluded(number, None if place is None else prompts[number].candidates[place], reason)
            for (number, place), reason in sorted(reasons.items(), key=lambda one: (one[0][0], one[0][1] or 0))
        ),
        n_inputs=n_inputs,
        top_words=dict(zip(every, spell_pieces(encoder, every), strict=True)),
    )


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
        log_probs=scores.values[:, kept],
        ranks=None if scores.ranks is None else scores.ranks[:, kept],
        first=tuple(spell_pieces(encoder, best.top_ids[:, 0, 0].tolist())),
        first_log_probs=best.top_values[:, 0, 0],
        excluded=scores.excluded,
        lens="tuned" if encoder.lens is not None else "logit",
    )
