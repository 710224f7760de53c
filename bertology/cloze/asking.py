"""Prompts read by a masked language model: candidates scored in many prompts, or one followed through the layers."""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertology._machine import on_each_core
from bertology._names import by_key
from bertology.activations.progress import Progress, silent
from bertology.cloze import prompts as forms
from bertology.cloze.prompts import MASK, AnswerForm, ClozeScores, Floats, Integers, Prompt
from bertology.encoders import Encoder
from bertology.encoders.batching import padded_inputs, pieces_in_batch, plan_batches
from bertology.errors import ClozeError, ModelError, quoted

_INPUTS_AT_ONCE = 8192  # so many inputs are sorted by length and read together; memory does not grow beyond them
_PACKED_FROM = 8  # batches from which on it takes less time to pack the weights first
_LOGITS_AT_ONCE = 1 << 22
_GOES_ON = "words after the mask, which are hidden from a left-to-right model"


class Query(NamedTuple):
    """A place of an input, whose distribution is wanted."""

    ids: Sequence[int]  # the input, special tokens included
    piece: int
    entry: int = -1  # the vocabulary entry that is scored there; −1 for none


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The values that are taken from the distribution at each place."""

    layers: tuple[int, ...]
    ranks: bool = False
    top: int = 0  # number of the best entries
    vocabulary: Integers | None = None  # [entry] ascending: those that the distribution is over; None for all


def chosen_layers(encoder: Encoder, layers: Sequence[int] | None) -> tuple[int, ...]:
    """Ascending, each once; the last one when left out."""
    return (encoder.n_layers,) if layers is None else tuple(sorted(set(layers)))


def from_left(encoder: Encoder) -> Encoder:
    """A left-to-right model for :func:`read_places`, which reads what follows a place; a ModelError for any other."""
    if encoder.causal_head is None:
        raise ModelError(f"model {encoder.name}: it does not read left to right: choose such as gpt2, or masked_lm")
    reader = copy(encoder)
    reader.masked_head = encoder.causal_head
    return reader


class Read(NamedTuple):
    """The values that were taken from the distributions."""

    values: Floats  # [layer, query] natural logarithms of probabilities; NaN where no entry is scored
    ranks: Integers  # [layer, query]; 0 unless requested
    top_ids: Integers  # [layer, query, k]
    top_values: Floats  # [layer, query, k]


def read_places(encoder: Encoder, texts: Iterable[Iterable[Query]], wanted: Wanted, progress: Progress) -> Read:
    """Read the queries of texts, many texts at a time and equal inputs once; counts texts as progress."""
    parts: list[Read] = []
    inputs: dict[bytes, tuple[int, Integers]] = {}
    rows: list[tuple[int, int, int]] = []
    n_texts = 0

    def read() -> None:
        distinct = [ids for _, ids in inputs.values()]
        parts.append(_read(encoder, distinct, np.array(rows, dtype=np.int64).reshape(-1, 3), wanted))
        progress.advance(n_texts)
        inputs.clear()
        rows.clear()

    for queries in texts:
        for ids, piece, entry in queries:
            array = np.asarray(ids, dtype=np.int64)
            rows.append((inputs.setdefault(array.tobytes(), (len(inputs), array))[0], piece, entry))
        n_texts += 1
        if len(inputs) >= _INPUTS_AT_ONCE:
            read()
            n_texts = 0
    read()
    progress.finish()
    return Read(*(np.concatenate(column, axis=1) for column in zip(*parts, strict=True)))


def _read(encoder: Encoder, inputs: Sequence[Integers], rows: Integers, wanted: Wanted) -> Read:
    """Read inputs, in batches of about the same length; memory is that of a batch and of a few million logits.

    The rows ``[query, 3]`` are the number of an input, a piece of it and a vocabulary entry.
    """
    batches = plan_batches(np.array([len(ids) for ids in inputs]), pieces=pieces_in_batch(encoder.device))
    batch_of, row_of = np.zeros((2, len(inputs)), dtype=np.int64)
    for number, batch in enumerate(batches):
        batch_of[batch.windows], row_of[batch.windows] = number, np.arange(len(batch.windows))
    places, place_of = np.unique(rows[:, :2], axis=0, return_inverse=True)  # [place] input and piece
    order = np.lexsort((row_of[places[:, 0]], batch_of[places[:, 0]]))
    places, place_of = places[order], np.argsort(order)[place_of.ravel()]
    terms = np.flatnonzero(rows[:, 2] >= 0)
    terms = terms[np.argsort(place_of[terms], kind="stable")]
    starts = np.searchsorted(batch_of[places[:, 0]], np.arange(len(batches) + 1))
    term_starts = np.searchsorted(place_of[terms], starts)
    of_queries, of_top = (len(wanted.layers), len(rows)), (len(wanted.layers), len(places), wanted.top)
    values, ranks = np.full(of_queries, np.nan), np.zeros(of_queries, dtype=np.int64)
    top_ids, top_values = np.empty(of_top, dtype=np.int64), np.empty(of_top)

    def take(reader: Encoder, chosen: slice) -> None:
        for number, batch in list(enumerate(batches))[chosen]:
            some, of = slice(*starts[number : number + 2]), terms[slice(*term_starts[number : number + 2])]
            ids, mask = padded_inputs([inputs[window] for window in batch.windows], batch, reader.pad_id)
            positions = torch.from_numpy(np.stack([row_of[places[some, 0]], places[some, 1]], axis=1))
            features = reader.masked_features(ids, positions, attention_mask=mask, layers=wanted.layers)
            entries = place_of[of] - starts[number], rows[of, 2]
            for at, layer in enumerate(wanted.layers):
                for part, of_part, found in _reduced(reader, layer, features[layer], *entries, wanted):
                    values[at, of[of_part]], ranks[at, of[of_part]] = found[:2]
                    top_ids[at, some][part], top_values[at, some][part] = found[2:]

    # A batch on each core, rather than every operation on all of them; no twin has a head that reads from the left.
    if encoder.is_gated or encoder.causal_head:
        take(encoder, slice(None))
    else:
        fast = encoder.fast_twin() if len(batches) >= _PACKED_FROM else encoder
        on_each_core(fast, take, most=len(batches) or 1)
    return Read(values, ranks, top_ids[:, place_of], top_values[:, place_of])


@torch.inference_mode()
def _reduced(
    encoder: Encoder, layer: int, features: Tensor, place: Integers, entries: Integers, wanted: Wanted
) -> Iterator[tuple[slice, slice, Read]]:
    """Some places, as many as their logits fit into memory, their terms, and what is taken of both in one layer; of
    ``[place, feature]`` features, and of each term its place, ascending, and its vocabulary entry."""
    columns = wanted.vocabulary
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


@Encoder.comes_first
def ask(
    encoder: Encoder,
    prompts: Sequence[Prompt],
    *,
    layers: Sequence[int] | None = None,
    form: AnswerForm = "one_piece",
    ranks: bool = False,
    top: int = 0,
    vocabulary: Sequence[int] | None = None,
    left_alone: bool = False,
    progress: Progress = silent,
) -> ClozeScores:
    """Score the candidates of prompts with a masked language model, by layer through its own head (the logit lens).

    Prompts of the same text are read once; inputs are batched by length; only masks pass through the head.

    Args:
        encoder: a masked language model.
        prompts: texts with masks. Candidates are for one mask, which a prompt with several names in ``at``; each of
            several masks has its own distribution, with the others masked.
        layers: 0 for the embeddings, 1…L for the blocks; the last one when left out.
        form: how candidates are scored, above all those of several pieces.
        ranks: also the rank of a candidate in the distribution; for ``one_piece`` alone.
        top: number of the best entries returned at each mask.
        vocabulary: vocabulary numbers that the distribution is over, such as those that several models share
            (Petroni et al. 2019, section 4.1.2); for ``one_piece`` alone. All when left out.
        left_alone: put the prompts to a left-to-right model, which predicts the next piece after the text before the
            mask; for ``one_piece`` alone. Prompts with words after the mask, or several masks, are excluded.
        progress: counts texts.

    Returns:
        Scores of all candidates of all prompts; those that could not be scored are NaN and listed with the reason.

    Raises:
        ModelError: no masked-LM head, no mask, or a layer that the model does not have.
        ClozeError: a prompt without a mask, candidates for several masks, or nothing to do.
        NameNotFoundError: no such form.
    """
    forms.check_answer_form(form)
    if form != "one_piece" and (ranks or left_alone or vocabulary is not None):
        raise ClozeError(f"answers scored as {form} have no rank, vocabulary or left context: ask for one_piece")
    if not prompts or not (top or any(prompt.candidates for prompt in prompts)):
        raise ClozeError("nothing is asked: give at least one prompt with candidates, or ask for the top few")
    for number, prompt in enumerate(prompts):
        if not prompt.n_masks or (prompt.candidates and prompt.asked is None):
            problem = f"prompt {number} {quoted(prompt.text)}: {prompt.n_masks} masks in it"
            raise ClozeError(f"{problem}; write {MASK} once where a word is left out, or give one mask's number (at)")
    encoder = from_left(encoder) if left_alone else encoder
    n_entries = encoder.masked_head.n_entries
    entries: Integers | None = None if vocabulary is None else np.unique(np.asarray(vocabulary, dtype=np.int64))
    n_chosen = n_entries if entries is None else len(entries)
    if top > n_chosen or (entries is not None and not (len(entries) and 0 <= entries[0] <= entries[-1] < n_entries)):
        given = f"{n_chosen} vocabulary entries, of which the best {top} are asked for"
        raise ClozeError(f"{given}: give numbers from 0 to {n_entries - 1}, and ask for no more than there are")
    chosen = chosen_layers(encoder, layers)
    wanted = Wanted(layers=chosen, ranks=ranks, top=top, vocabulary=entries)
    return _scores(encoder, tuple(prompts), form, wanted, progress)


def _scores(
    encoder: Encoder, prompts: tuple[Prompt, ...], form: AnswerForm, wanted: Wanted, progress: Progress
) -> ClozeScores:
    answers, slots = forms.AnswerReader(encoder), list[int]()  # [query] its candidate, or −1 − its mask
    reasons: dict[tuple[int, int | None], str] = {}  # by number of the prompt and place of the candidate
    candidate_starts = np.cumsum([0, *(len(prompt.candidates) for prompt in prompts)])
    mask_starts = np.cumsum([0, *(prompt.n_masks for prompt in prompts)])
    # A left-to-right model reads the text before the mask.
    start, mask = ([], encoder.mask_token) if encoder.causal_head is None else (forms.text_start(encoder), MASK)
    written = (one.segments[0].rstrip() if start else one.written(mask) for one in prompts)
    by_text = by_key((text, number) for number, text in enumerate(written))

    def queries(numbers: list[int], encoding: Any) -> Iterator[Query]:
        """Those of all prompts of one text, so that it is read once."""
        ids: list[int] = [*start, *encoding.ids]
        masks = [len(ids) - 1] if start else [piece for piece, entry in enumerate(ids) if entry == encoder.mask_id]
        for number in numbers:
            prompt, asked = prompts[number], prompts[number].asked
            goes_on = prompt.n_masks > 1 or any(map(str.isalnum, prompt.segments[-1]))
            if reason := _GOES_ON if start and goes_on else forms.too_long(encoder, len(ids)):
                reasons[number, None] = reason
                continue
            if len(masks) != prompt.n_masks:
                problem = f"{prompt.n_masks} masks, of which the tokenizer reads {len(masks)} as {mask}"
                raise ClozeError(f"prompt {quoted(prompt.text)}: {problem}; put spaces around them")
            for piece, at in zip(masks, range(*mask_starts[number : number + 2]), strict=True) if wanted.top else ():
                slots.append(-1 - at)
                yield Query(ids, piece)
            if asked is None:
                continue
            before = mask.join(prompt.segments[: asked + 1])
            for place, answer in enumerate(answers.read(before, prompt.candidates)):
                if form != "one_piece":
                    reason = answer.reason or forms.too_long(encoder, len(ids) + len(answer.pieces) - 1)
                elif not (reason := answers.unfit(answer)) and wanted.vocabulary is not None:
                    is_in = answer.pieces[0] in wanted.vocabulary
                    reason = "" if is_in else "not in the vocabulary that was given"
                if reason:
                    reasons[number, place] = reason
                    continue
                piece = masks[asked]
                whole = [*ids[:piece], *answer.pieces, *ids[piece + 1 :]]
                of_answer = range(piece, piece + len(answer.pieces))
                for one in forms.masked_copies(whole, of_answer, answer.words, ids[piece], form):
                    slots.append(int(candidate_starts[number]) + place)
                    yield Query(*one)

    progress.start(len(by_text), unit="texts")
    encodings = forms.encode(encoder, list(by_text), bare=bool(start))
    read = read_places(encoder, map(queries, by_text.values(), encodings), wanted, progress)
    slot, n_candidates = np.array(slots, dtype=np.int64), int(candidate_starts[-1])
    terms, masks = np.flatnonzero(slot >= 0), np.flatnonzero(slot < 0)
    is_scored = np.bincount(slot[terms], minlength=n_candidates) > 0
    sums = [np.bincount(slot[terms], weights=of_layer[terms], minlength=n_candidates) for of_layer in read.values]
    ranks = np.zeros((len(wanted.layers), n_candidates), dtype=np.int64)
    ranks[:, slot[terms]] = read.ranks[:, terms]
    top_ids = np.full((len(wanted.layers), mask_starts[-1], wanted.top), -1, dtype=np.int64)
    top_values = np.full(top_ids.shape, np.nan)
    top_ids[:, -1 - slot[masks]], top_values[:, -1 - slot[masks]] = read.top_ids[:, masks], read.top_values[:, masks]
    every = [entry for entry in np.unique(top_ids).tolist() if entry >= 0]
    return ClozeScores(
        prompts=prompts,
        layers=wanted.layers,
        form=form,
        candidate_starts=candidate_starts,
        values=np.where(is_scored, np.stack(sums), np.nan),
        ranks=ranks if wanted.ranks else None,
        mask_starts=mask_starts,
        top_ids=top_ids,
        top_values=top_values,
        excluded=tuple(
            forms.Excluded(number, None if place is None else prompts[number].candidates[place], reason)
            for (number, place), reason in sorted(reasons.items(), key=lambda one: (one[0][0], one[0][1] or 0))
        ),
        top_words=dict(zip(every, forms.spell_pieces(encoder, every), strict=True)),
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
    excluded: tuple[forms.Excluded, ...]  # candidates without a score
    lens: Literal["logit", "tuned"] = "logit"
    """Input of the head from lower layers: their states as they are (logit), or translated (tuned)."""


@Encoder.comes_first
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
    forms.check_answer_form(form)
    if prompt.n_masks > 1:
        which = f"{prompt.n_masks} masks in {quoted(prompt.text)}"
        raise ClozeError(f"{which}: one is read at a time, write out the others")
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
        words=tuple(word if isinstance(word, str) else forms.spell_pieces(encoder, [word])[0] for word in scored),
        log_probs=scores.values[:, kept],
        ranks=None if scores.ranks is None else scores.ranks[:, kept],
        first=tuple(forms.spell_pieces(encoder, best.top_ids[:, 0, 0].tolist())),
        first_log_probs=best.top_values[:, 0, 0],
        excluded=scores.excluded,
        lens="tuned" if encoder.lens is not None else "logit",
    )
