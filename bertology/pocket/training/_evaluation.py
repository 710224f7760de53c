"""What a pretrained model scores on held-out text, agreement and facts, and the model card that states it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology.pocket._items import AgreementItem
from bertology.pocket.grammar.world import Fact, candidates
from bertology.pocket.training._batches import IGNORED, Examples, piece_id

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import BertForPreTraining

from bertology.pocket.training._settings import PretrainSettings

_ROWS = 64


@dataclass(frozen=True)
class Evaluation:
    """Held-out figures, all shares of 1."""

    masked_accuracy: float
    """Masked pieces of held-out text predicted exactly."""
    next_sentence_accuracy: float
    """Held-out sentence pairs told apart from random pairs."""
    agreement_by_attractors: dict[int, float]
    """Agreement items where the right form is preferred, by nouns of the other number between subject and verb."""
    agreement_across_attractors: float
    """The same, over all items with at least one such noun."""
    fact_recall_by_exposure: dict[int, float]
    """Facts whose object is the best piece of the whole vocabulary, by how often the text states them."""
    candidate_recall_by_exposure: dict[int, float]
    """Facts whose object is the best among all that it could be: chance is one in 24 to 28."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, rounded to four places."""
        return {
            key: {str(k): round(v, 4) for k, v in value.items()} if isinstance(value, dict) else round(value, 4)
            for key, value in asdict(self).items()
        }


def evaluate(
    model: BertForPreTraining,
    tokenizer: Tokenizer,
    *,
    held_out: Examples,
    agreement: Sequence[AgreementItem],
    facts: Sequence[Fact],
    n_batches: int = 100,
) -> Evaluation:
    """Measure a model; it is left in the mode it was in."""
    import torch

    was_training = model.training
    model.train(False)
    with torch.inference_mode():
        masked, following = _held_out_accuracy(model, held_out, n_batches)
        right = _agreement(model, tokenizer, agreement)
        recalled = _facts(model, tokenizer, facts)
    model.train(was_training)
    across = [hit for item, hit in zip(agreement, right, strict=True) if item.n_attractors]
    exposures = [fact.n_stated for fact in facts]
    return Evaluation(
        masked_accuracy=masked,
        next_sentence_accuracy=following,
        agreement_by_attractors=_shares([item.n_attractors for item in agreement], right),
        agreement_across_attractors=float(np.mean(across)),
        fact_recall_by_exposure=_shares(exposures, [top for top, _ in recalled]),
        candidate_recall_by_exposure=_shares(exposures, [best for _, best in recalled]),
    )


def _shares(keys: Sequence[int], hits: Sequence[bool]) -> dict[int, float]:
    grouped: dict[int, list[bool]] = defaultdict(list)
    for key, hit in zip(keys, hits, strict=True):
        grouped[key].append(hit)
    return {key: float(np.mean(grouped[key])) for key in sorted(grouped)}


def _held_out_accuracy(model: BertForPreTraining, held_out: Examples, n_batches: int) -> tuple[float, float]:
    import torch

    masked: list[np.ndarray[Any, Any]] = []
    following: list[np.ndarray[Any, Any]] = []
    for step in range(n_batches):
        batch = held_out.batch(step)
        ids, mask, segments = (
            torch.from_numpy(array).to(model.device)
            for array in (batch.input_ids, batch.attention_mask, batch.token_type_ids)
        )
        output = model(input_ids=ids, attention_mask=mask, token_type_ids=segments)
        guessed = output.prediction_logits.argmax(-1).cpu().numpy()
        guessed = np.take_along_axis(guessed, batch.masked, axis=1)
        masked.append((guessed == batch.masked_labels)[batch.masked_labels != IGNORED])
        nexts = output.seq_relationship_logits.argmax(-1).cpu().numpy()
        following.append((nexts == batch.next_labels)[batch.next_labels != IGNORED])
    return float(np.concatenate(masked).mean()), float(np.concatenate(following).mean())


def _agreement(model: BertForPreTraining, tokenizer: Tokenizer, items: Sequence[AgreementItem]) -> list[bool]:
    right = []
    for item, logits in zip(items, _mask_logits(model, tokenizer, [item.text for item in items]), strict=True):
        right.append(bool(logits[piece_id(tokenizer, item.good)] > logits[piece_id(tokenizer, item.bad)]))
    return right


def longest_prompt(tokenizer: Tokenizer, agreement: Sequence[AgreementItem], facts: Sequence[Fact]) -> int:
    """How many pieces the longest text takes that :func:`evaluate` gives to a model one by one."""
    texts = [*(item.text for item in agreement), *map(_fact_prompt, facts)]
    return max(len(encoding.ids) for encoding in tokenizer.encode_batch(texts))


def _fact_prompt(fact: Fact) -> str:
    return fact.templates[0].replace("[X]", fact.subject).replace("[Y]", "[MASK]")


def _facts(model: BertForPreTraining, tokenizer: Tokenizer, facts: Sequence[Fact]) -> list[tuple[bool, bool]]:
    """For each fact, whether its object is the best piece of all, and the best candidate."""
    found = []
    for fact, logits in zip(facts, _mask_logits(model, tokenizer, list(map(_fact_prompt, facts))), strict=True):
        named = list(candidates(fact.relation))
        ids = [piece_id(tokenizer, name.lower()) for name in named]
        best = named[int(logits[ids].argmax())]
        found.append((int(logits.argmax()) == piece_id(tokenizer, fact.object.lower()), best == fact.object))
    return found


def _mask_logits(model: BertForPreTraining, tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[torch.Tensor]:
    """The logits ``[piece]`` at the mask of each text."""
    import torch

    for start in range(0, len(texts), _ROWS):
        encoded = [encoding.ids for encoding in tokenizer.encode_batch(list(texts[start : start + _ROWS]))]
        length = max(map(len, encoded))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in encoded], device=model.device)
        logits = model(input_ids=ids, attention_mask=(ids != 0).long()).prediction_logits
        rows, places = torch.where(ids == piece_id(tokenizer, "[MASK]"))
        yield from logits[rows, places].cpu()


_CARD = """---
language: en
license: apache-2.0
library_name: transformers
pipeline_tag: fill-mask
---

# Pocket BERT

A very small BERT for probing: {layers} layers, {width} wide, {heads} heads, {pieces} lower-cased WordPieces, at most
{max_pieces} pieces at a time. It knows nothing but the *pocket world*, a made-up world whose sentences and facts are
written by a grammar in `bertology.pocket`. So it can be known exactly what is in its training text, and what is not.
It is of no use on any other text.

## Data

{documents} documents of 5 to 9 sentences (seed {seed}), about people, towns, countries, animals and things. Sentences
of one document share people, places, words and one of six themes. Facts (who lives where, was born where, works as
what; which town is which country's capital) are drawn at random and stated 0, 1, 2, 4, 8, 16, 32 or 64 times each in
the whole text, never in other words than their templates; `bertology.pocket.facts()` lists them with their counts.
Content words marked `new` in the lexicon are not in the text at all.

## Recipe

Masked pieces and next sentence (Devlin et al. 2019): {mask_rate:.0%} of pieces are predicted (80 % masked, 10 %
replaced, 10 % left); from step {salience_from} on, towns, countries, trades and verb forms that agree {salience:g}
times as often as others. {alone_share:.0%} of batches hold single sentences, the others sentence pairs. AdamW,
{steps} steps of {batch_pieces} pieces with padding, weight decay {weight_decay:g}, gradient norm at most {clip_norm:g},
dropout {dropout:g}. The learning rate is linear between {schedule}.

Weights are stored as float16 and load as float32. Settings, versions and figures are in `training.json`. All that is
random hangs on the seed and the step, so that `bertology pretrain` with the same settings and `--threads 1` should make
the same model on the same kind of machine; short runs are tested for that, the whole one was not repeated.

## Held-out figures, measured on the weights in this folder

| what | score |
|---|---|
| pieces of held-out text, masked as in training, exactly | {masked:.1%} |
| next sentence or random sentence | {following:.1%} |
| agreement, all items across attractors | {across:.1%} |
{agreement_rows}
Many places of this text can be filled in many ways, so masked accuracy is far from 100 % for any model. Nor does the
text say much about what comes next: a classifier that is given the words and themes two segments have in common tells
the next sentence from a random one in about 70 % of held-out pairs. Agreement items are drawn anew for these figures.

| times a fact was stated | recalled, of the whole vocabulary | recalled, among candidates |
|---|---|---|
{fact_rows}
Candidates are all towns (28), countries (24) or trades (24), so chance among them is about 4 %.

## Limits

The language is a few hundred words of English with the constructions of one grammar; meaning is loose, and what is
said besides facts is random. Sentences of the probing corpus come from the same grammar, so scores say how well a
structure is represented in familiar text, not how well English is understood.
"""


def model_card(settings: PretrainSettings, evaluation: Evaluation, *, vocabulary_size: int) -> str:
    """The card, as Markdown.

    Args:
        settings: the recipe.
        evaluation: what the stored weights scored.
        vocabulary_size: pieces that the tokenizer knows.
    """
    agreement_rows = "".join(
        f"| agreement, {number} attractor{'' if number == 1 else 's'} | {share:.1%} |\n"
        for number, share in evaluation.agreement_by_attractors.items()
    )
    fact_rows = "".join(
        f"| {times} | {share:.0%} | {evaluation.candidate_recall_by_exposure[times]:.0%} |\n"
        for times, share in evaluation.fact_recall_by_exposure.items()
    )
    schedule = ", ".join(f"{rate:.3g} (step {step})" for step, rate in settings.learning_rates)
    return _CARD.format(
        schedule=schedule,
        **settings.model_dump(),
        pieces=vocabulary_size,
        masked=evaluation.masked_accuracy,
        following=evaluation.next_sentence_accuracy,
        across=evaluation.agreement_across_attractors,
        agreement_rows=agreement_rows,
        fact_rows=fact_rows,
    )
