"""The model card of a pretrained pocket model: what it is, and what it scored."""

from __future__ import annotations

from bertology.pocket._evaluation import Evaluation
from bertology.pocket._settings import PretrainSettings

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
