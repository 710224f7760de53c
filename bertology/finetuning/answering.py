"""Answers to one question from one passage, by any model with a head for answers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bertology.causal.targets import answer_sums
from bertology.encoders import open_encoder
from bertology.errors import BertologyError, ModelError


@dataclass(frozen=True)
class Answer:
    """A part of a passage."""

    text: str
    """Empty for no answer: the first special token as first and last place (Devlin et al. 2019, section 4.3)."""
    start: int
    """First character in the passage, 0 of no answer."""
    end: int
    """Character after the last."""
    probability: float
    """exp(first logit + last logit), normalised over all parts of at most 30 subwords and no answer."""


def answer(question: str, passage: str, *, model: Any, top: int = 5, **loading: Any) -> tuple[Answer, ...]:
    """The most probable answers to a question, as parts of a passage.

    >>> from bertology.finetuning.answering import answer
    >>> answer("Who sees the dog?", "The king sees the dog.", model="tuned/seed-1")  # doctest: +SKIP

    Args:
        question: the question.
        passage: the text that the answer is a part of.
        model: a folder, a hub id, a loaded encoder, or a transformers model and its tokenizer; with a head for answers.
        top: how many answers to return.
        loading: arguments of :func:`bertology.load_encoder`, such as ``device``.

    Raises:
        ModelError: the model has no head for answers, or takes no texts of this length.
        BertologyError: question or passage are empty.
    """
    if not question.strip() or not passage.strip():
        raise BertologyError("give a question, and the passage that answers it")
    encoder = open_encoder(model, **loading)
    if encoder.task_head != "answers":
        problem = f"model {encoder.name} has no head for answers"
        raise ModelError(f"{problem}: give one fine-tuned on questions (`bertology finetune --task span`)")
    encoding: Any = encoder.tokenizer.backend_tokenizer.encode(question, passage)
    if (n_pieces := len(encoding.ids)) > encoder.max_pieces:
        reason = f"question and passage are {n_pieces} subwords, model {encoder.name} takes {encoder.max_pieces}"
        raise ModelError(f"{reason}: shorten the passage")
    given: dict[str, Any] = {"attention_mask": torch.ones(1, n_pieces, dtype=torch.int64)}
    if "token_type_ids" in encoder.tokenizer.model_input_names:
        given["token_type_ids"] = torch.tensor([encoding.type_ids])
    with torch.inference_mode():
        output = encoder.task_output(torch.tensor([encoding.ids]), **given)
    logits = np.stack([one[0].double().cpu().numpy() for one in (output.start_logits, output.end_logits)])
    inside = np.flatnonzero(np.array([part == 1 for part in encoding.sequence_ids]))
    sums = answer_sums(logits.T, inside, inside)
    scores = np.append(sums.ravel(), logits[:, 0].sum())  # of no answer last
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    found = []
    for number in np.argsort(-shares, kind="stable")[:top].tolist():
        if number == len(scores) - 1:
            found.append(Answer("", 0, 0, float(shares[number])))
        elif np.isfinite(scores[number]):
            first, last = inside[list(divmod(number, len(inside)))].tolist()
            start, end = encoding.offsets[first][0], encoding.offsets[last][1]
            start = end - len(passage[start:end].lstrip())  # some tokenizers count the space before a word in
            found.append(Answer(passage[start:end], start, end, float(shares[number])))
    return tuple(found)
