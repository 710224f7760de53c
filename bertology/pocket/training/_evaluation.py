"""What a pretrained model scores on held-out text, agreement and facts, and the model card that states it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology.pocket._items import AgreementItem
from bertology.pocket.bilingual.settings import SecondLanguage
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
    next_sentence_accuracy: float | None
    """Held-out sentence pairs told apart from random pairs; None where sentences are read alone."""
    agreement_by_attractors: dict[int, float]
    """Agreement items where the right form is preferred, by nouns of the other number between subject and verb."""
    agreement_across_attractors: float
    """The same, over all items with at least one such noun."""
    fact_recall_by_exposure: dict[int, float]
    """Facts whose object is the best piece of the whole vocabulary, by how often the text states them."""
    candidate_recall_by_exposure: dict[int, float]
    """Facts whose object is the best among all that it could be: chance is one in 24 to 28."""
    second_masked_accuracy: float | None = None
    """Masked pieces of held-out text in the second language predicted exactly; None where there is none."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, rounded to four places."""
        return {
            key: {str(k): round(v, 4) for k, v in value.items()} if isinstance(value, dict) else round(value, 4)
            for key, value in asdict(self).items()
            if value is not None
        }


def evaluate(
    model: BertForPreTraining,
    tokenizer: Tokenizer,
    *,
    held_out: Sequence[Examples],
    agreement: Sequence[AgreementItem],
    facts: Sequence[Fact],
    n_batches: int = 100,
) -> Evaluation:
    """Evaluate a model on held-out text of each of its languages; its training mode is restored."""
    import torch

    was_training = model.training
    model.train(False)
    with torch.inference_mode():
        accuracies = [_held_out_accuracy(model, examples, n_batches) for examples in held_out]
        scored = zip(agreement, _mask_logits(model, tokenizer, [item.text for item in agreement]), strict=True)
        forms = ((logits, piece_id(tokenizer, item.good), piece_id(tokenizer, item.bad)) for item, logits in scored)
        right = [bool(logits[good] > logits[bad]) for logits, good, bad in forms]
        recalled = _facts(model, tokenizer, facts)
    model.train(was_training)
    across = [hit for item, hit in zip(agreement, right, strict=True) if item.n_attractors]
    exposures = [fact.n_stated for fact in facts]
    return Evaluation(
        masked_accuracy=accuracies[0][0],
        next_sentence_accuracy=accuracies[0][1],
        agreement_by_attractors=_shares([item.n_attractors for item in agreement], right),
        agreement_across_attractors=float(np.mean(across)),
        fact_recall_by_exposure=_shares(exposures, [top for top, _ in recalled]),
        candidate_recall_by_exposure=_shares(exposures, [best for _, best in recalled]),
        second_masked_accuracy=accuracies[1][0] if len(accuracies) > 1 else None,
    )


def _shares(keys: Sequence[int], hits: Sequence[bool]) -> dict[int, float]:
    grouped: dict[int, list[bool]] = defaultdict(list)
    for key, hit in zip(keys, hits, strict=True):
        grouped[key].append(hit)
    return {key: float(np.mean(grouped[key])) for key in sorted(grouped)}


def _held_out_accuracy(model: BertForPreTraining, held_out: Examples, n_batches: int) -> tuple[float, float | None]:
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
    followed = np.concatenate(following)
    return float(np.concatenate(masked).mean()), float(followed.mean()) if len(followed) else None


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
    second = settings.second_language
    held_out = {
        "pieces of held-out text, masked as in training, exactly": evaluation.masked_accuracy,
        "the same of the second language": evaluation.second_masked_accuracy,
        "next sentence or random sentence": evaluation.next_sentence_accuracy,
    }
    template = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    return template.format(
        title="Pocket BERT" + " in two languages" * (second is not None),
        languages="en" if second is None else f"[en, {second.code}]",
        second="" if second is None else f"\n{_second_language(second)}",
        disguises="80 % masked, 10 % replaced, 10 % left" if settings.random_replacement else "90 % masked, 10 % left",
        held_out_rows="".join(f"| {what} | {share:.1%} |\n" for what, share in held_out.items() if share is not None),
        next_sentence="" if evaluation.next_sentence_accuracy is None else _NEXT_SENTENCE,
        schedule=", ".join(f"{rate:.3g} (step {step})" for step, rate in settings.learning_rates),
        **settings.model_dump(),
        **asdict(evaluation),
        pieces=vocabulary_size,
        agreement_rows=agreement_rows,
        fact_rows=fact_rows,
    )


_NEXT_SENTENCE = """ Nor does the
text say much about what comes next: a classifier that is given the words and themes two segments have in common tells
the next sentence from a random one in about 70 % of held-out pairs."""


def _second_language(second: SecondLanguage) -> str:
    """What the second language is like, and how the model reads it."""
    if second.fake:
        made = "It is the first once more, each word in other letters, so that no piece is shared."
    else:
        made = (
            "It is made by the grammar from the same trees, with words, suffixes and letters of its own; its order of "
            f"words is {_ORDERS[second.order]}."
        )
    text = "the translation of the first half" if second.parallel else "of other documents than the first half"
    lines = [
        f"Half of the text is in a second language, {second.code}, and is {text}. {made} Of names of people, towns and "
        f"countries {second.anchors:.0%} are spelled alike."
    ]
    if second.switched:
        lines.append(
            f"Of the words with one word as their translation {second.switched:.0%}, drawn at random, are replaced by "
            "it in the text of both languages, so that words and their translations occur in the same contexts."
        )
    if second.paired:
        lines.append(
            f"In {second.paired:.0%} of the batches, instead of single sentences, each sentence is read together with "
            "its translation, as two segments (*translation language modelling*, Conneau & Lample 2019)."
        )
    apart = [
        name
        for name, shared in (("special tokens", second.shared_specials), ("positions", second.shared_positions))
        if not shared
    ]
    if apart:
        lines.append(
            f"The languages have {' and '.join(apart)} of their own. A model loaded by `bertology` exchanges them by "
            "the pieces of a text (`second_language` in `config.json`); other programs do not."
        )
    return "## The second language\n\n" + fill(" ".join(lines), width=120) + "\n"


_ORDERS = {"own": "its own (verbs last, postpositions)", "same": "the same", "reversed": "that of the first reversed"}
