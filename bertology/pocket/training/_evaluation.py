"""What a pretrained model scores on held-out text, agreement and facts, and the model card that states it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology.pocket._items import AgreementItem
from bertology.pocket.grammar.world import Fact, candidates
from bertology.pocket.training._batches import IGNORED, Examples, piece_id
from bertology.pocket.training._model import PretrainSettings

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import BertForPreTraining

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
    """Evaluate a model; its training mode is restored."""
    import torch

    was_training = model.training
    model.train(False)
    with torch.inference_mode():
        masked, following = _held_out_accuracy(model, held_out, n_batches)
        scored = zip(agreement, _mask_logits(model, tokenizer, [item.text for item in agreement]), strict=True)
        forms = ((logits, piece_id(tokenizer, item.good), piece_id(tokenizer, item.bad)) for item, logits in scored)
        right = [bool(logits[good] > logits[bad]) for logits, good, bad in forms]
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
    masked: list[np.ndarray[Any, Any]] = []
    following: list[np.ndarray[Any, Any]] = []
    for step in range(n_batches):
        batch = held_out.batch(step)
        output = model(**batch.inputs(model.device))
        guessed = output.prediction_logits.argmax(-1).cpu().numpy()
        guessed = np.take_along_axis(guessed, batch.masked, axis=1)
        masked.append((guessed == batch.masked_labels)[batch.masked_labels != IGNORED])
        nexts = output.seq_relationship_logits.argmax(-1).cpu().numpy()
        following.append((nexts == batch.next_labels)[batch.next_labels != IGNORED])
    return float(np.concatenate(masked).mean()), float(np.concatenate(following).mean())


def longest_prompt(tokenizer: Tokenizer, agreement: Sequence[AgreementItem], facts: Sequence[Fact]) -> int:
    """Number of pieces of the longest prompt of :func:`evaluate`."""
    texts = [*(item.text for item in agreement), *map(_fact_prompt, facts)]
    return max(len(encoding.ids) for encoding in tokenizer.encode_batch(texts))


def _fact_prompt(fact: Fact) -> str:
    return fact.templates[0].replace("[X]", fact.subject).replace("[Y]", "[MASK]")


def _facts(model: BertForPreTraining, tokenizer: Tokenizer, facts: Sequence[Fact]) -> list[tuple[bool, bool]]:
    """For each fact, whether its object is the best piece of all, and the best candidate."""
    recalled = []
    for fact, logits in zip(facts, _mask_logits(model, tokenizer, list(map(_fact_prompt, facts))), strict=True):
        names = candidates(fact.relation)
        best = names[int(logits[[piece_id(tokenizer, name.lower()) for name in names]].argmax())]
        recalled.append((int(logits.argmax()) == piece_id(tokenizer, fact.object.lower()), best == fact.object))
    return recalled


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


def model_card(settings: PretrainSettings, evaluation: Evaluation, *, vocabulary_size: int) -> str:
    """The card of a recipe and the scores of its stored weights, as Markdown."""
    agreement_rows = "".join(
        f"| agreement, {number} attractor{'' if number == 1 else 's'} | {share:.1%} |\n"
        for number, share in evaluation.agreement_by_attractors.items()
    )
    fact_rows = "".join(
        f"| {times} | {share:.0%} | {evaluation.candidate_recall_by_exposure[times]:.0%} |\n"
        for times, share in evaluation.fact_recall_by_exposure.items()
    )
    template = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    return template.format(
        schedule=", ".join(f"{rate:.3g} (step {step})" for step, rate in settings.learning_rates),
        **settings.model_dump(),
        **asdict(evaluation),
        pieces=vocabulary_size,
        agreement_rows=agreement_rows,
        fact_rows=fact_rows,
    )
