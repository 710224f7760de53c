"""Pretraining of Pocket BERT, resumable and reproducible: examples, training, evaluation and the model card."""

from __future__ import annotations

import io
import json
import math
import pickle
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bertology._files import canonical_json, digest, write_atomically
from bertology._temporary import sweep
from bertology._workers import choose_device
from bertology.errors import BertologyError
from bertology.pocket._bilingual import SecondLanguage, bilingual_documents
from bertology.pocket._items import AgreementItem, agreement_items
from bertology.pocket._recipe import (
    PretrainSettings,
    first_of_second,
    new_model,
    salient_words,
    save_model,
    train_tokenizer,
)
from bertology.pocket._texts import pretraining_documents
from bertology.pocket._world import Fact, candidates, facts

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import BertForPreTraining

Integers = NDArray[np.int64]
IGNORED = -100
"""The label of what is not predicted."""
IS_NEXT, IS_RANDOM = 0, 1
_LENGTHS = (12, 16, 22)
"""Lengths of rows that hold one sentence alone; longer sentences take half the longest row."""
Segments: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32] | None, int]
"""Pieces of one segment or two, and the label of whether the second follows the first."""


@dataclass(frozen=True)
class EncodedText:
    """Documents as pieces."""

    pieces: NDArray[np.int32]
    """``[piece]``"""
    starts: Integers
    """``[sentence + 1]`` first piece of each sentence, and the number of pieces."""
    document: Integers
    """``[sentence]`` document that each sentence stands in."""
    document_end: Integers
    """``[sentence]`` one past the last sentence of its document."""

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.document)


def encode(documents: Iterable[list[str]], tokenizer: Tokenizer) -> EncodedText:
    """Turn text into pieces, without special tokens."""
    texts = list(documents)
    lengths = list(map(len, texts))
    encoded = tokenizer.encode_batch_fast(list(chain.from_iterable(texts)), add_special_tokens=False)
    starts = np.cumsum([0, *(len(encoding.ids) for encoding in encoded)])
    pieces = np.concatenate([np.asarray(encoding.ids, dtype=np.int32) for encoding in encoded])
    ends = np.cumsum(lengths)
    return EncodedText(pieces, starts, np.repeat(np.arange(len(lengths)), lengths), np.repeat(ends, lengths))


@dataclass(frozen=True)
class Batch:
    """One step's examples."""

    input_ids: Integers
    """``[row, piece]``"""
    attention_mask: Integers
    """``[row, piece]``"""
    token_type_ids: Integers
    """``[row, piece]`` 0 in the first segment, 1 in the second."""
    masked: Integers
    """``[row, mask]`` places to predict."""
    masked_labels: Integers
    """``[row, mask]`` what stood there, or −100."""
    next_labels: Integers
    """``[row]`` 0 where the second segment follows the first, 1 where it is from elsewhere, −100 without one."""

    def inputs(self, device: torch.device) -> dict[str, torch.Tensor]:
        """The model's arguments, on its device."""
        import torch

        names = ("input_ids", "attention_mask", "token_type_ids")
        return {name: torch.from_numpy(getattr(self, name)).to(device) for name in names}


@dataclass(frozen=True)
class Examples:
    """Makes batches of one text."""

    text: EncodedText
    tokenizer: Tokenizer
    settings: PretrainSettings

    def batch(self, step: int) -> Batch:
        """The batch of a step, drawn at random from all the text by seed and step, and so always the same."""
        settings = self.settings
        chance = np.random.default_rng([settings.seed, step])
        kind = chance.random()
        if kind < settings.alone_share:
            length, segments = self._alone(chance)
        else:
            is_short = kind < settings.alone_share + settings.short_share
            length = settings.max_pieces // 2 if is_short else settings.max_pieces
            segments = [self._pair(chance, length) for _ in range(max(1, settings.batch_pieces // length))]
        input_ids = np.full((len(segments), length), self._id("[PAD]"), dtype=np.int64)
        token_type_ids = np.zeros_like(input_ids)
        lengths = [
            self._write(ids, types, first, second)
            for ids, types, (first, second, _) in zip(input_ids, token_type_ids, segments, strict=True)
        ]
        attention_mask = (np.arange(length) < np.array(lengths)[:, None]).astype(np.int64)
        masked, labels = self._mask(chance, step, input_ids, attention_mask)
        next_labels = np.array([label for _, _, label in segments])
        return Batch(input_ids, attention_mask, token_type_ids, masked, labels, next_labels)

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """``[vocabulary]`` relative probability that a piece is masked."""
        weights = np.ones(self.tokenizer.get_vocab_size())
        pieces = map(self.tokenizer.token_to_id, salient_words())
        weights[[piece for piece in pieces if piece is not None]] = self.settings.salience
        return weights

    def _alone(self, chance: np.random.Generator) -> tuple[int, list[Segments]]:
        """Sentences of about one length, one in each row, so that hardly any padding is read."""
        lengths = np.diff(self.text.starts)
        size = lengths[chance.integers(self.text.n_sentences)]
        half = self.settings.max_pieces // 2
        bounds = [bound for bound in _LENGTHS if bound < half]
        bound = next((bound for bound in bounds if size <= bound - 2), half)
        shorter = max((other for other in bounds if other < bound), default=2)
        alike = np.flatnonzero((lengths > shorter - 2) & ((lengths <= bound - 2) | (bound == half)))
        second = self.settings.second_language
        if second is not None and chance.random() < second.paired:
            return self._with_translations(alike[alike < self.text.n_sentences // 2], chance)
        chosen = chance.choice(alike, max(1, self.settings.batch_pieces // bound))
        return bound, [(self._pieces(start, start + 1)[: bound - 2], None, IGNORED) for start in chosen]

    def _with_translations(self, firsts: Integers, chance: np.random.Generator) -> tuple[int, list[Segments]]:
        """Sentences of the first language and their translations, in either order, in rows of one length.

        Translations are the second half of the text, in the same order.
        """
        shift = self.text.n_sentences // 2
        chosen = chance.choice(firsts, max(1, self.settings.batch_pieces // self.settings.max_pieces * 2))
        pairs = [(self._pieces(one, one + 1), self._pieces(one + shift, one + shift + 1)) for one in chosen]
        fitting = [pair for pair in pairs if len(pair[0]) + len(pair[1]) <= self.settings.max_pieces - 3]
        length = 3 + max(len(first) + len(other) for first, other in fitting)
        turned = chance.random(len(fitting)) < 0.5
        return length, [
            (*(reversed(pair) if turn else pair), IGNORED) for pair, turn in zip(fitting, turned, strict=True)
        ]

    def _pair(self, chance: np.random.Generator, length: int) -> Segments:
        """Two segments that fill a row, and whether the second follows the first."""
        text, room = self.text, length - 3
        start = self._drawn_back(int(chance.integers(text.n_sentences)), room)
        wanted = chance.integers(room // 4, 3 * room // 4)
        end = start + 1
        while end < text.document_end[start] - 1 and text.starts[end] - text.starts[start] < wanted:
            end += 1
        first = self._pieces(start, end)[room // 4 - room :]  # cut at its beginning, so that what follows still does
        left = room - len(first)
        follows = end < text.document_end[start] and chance.random() < 0.5
        other = end if follows else self._drawn_back(self._elsewhere(chance, start), left)
        second = self._pieces(other, int(text.document_end[other]))[:left]
        return first, second, IS_NEXT if follows else IS_RANDOM

    def _drawn_back(self, start: int, room: int) -> int:
        """An earlier sentence of the same document, if that is needed to fill the room."""
        text = self.text
        end = text.starts[text.document_end[start]]
        while start > 0 and text.document[start - 1] == text.document[start] and end - text.starts[start] < room:
            start -= 1
        return start

    def _elsewhere(self, chance: np.random.Generator, start: int) -> int:
        while True:
            other = int(chance.integers(self.text.n_sentences))
            if self.text.document[other] != self.text.document[start]:
                return other

    def _pieces(self, first: int, end: int) -> NDArray[np.int32]:
        return self.text.pieces[self.text.starts[first] : self.text.starts[end]]

    def _write(
        self, ids: Integers, segments: Integers, first: NDArray[np.int32], second: NDArray[np.int32] | None
    ) -> int:
        end = len(first) + 1
        ids[0], ids[1:end], ids[end] = self._id("[CLS]"), first, self._id("[SEP]")
        if second is None:
            return end + 1
        last = end + 1 + len(second)
        ids[end + 1 : last], ids[last] = second, self._id("[SEP]")
        segments[end + 1 : last + 1] = 1
        return last + 1

    def _mask(
        self, chance: np.random.Generator, step: int, input_ids: Integers, attention_mask: Integers
    ) -> tuple[Integers, Integers]:
        """Choose places to predict and disguise them, in place: 80 % [MASK], 10 % any piece, 10 % as they are.

        Without random replacement, 90 % are [MASK].
        """
        special = np.isin(input_ids, [self._id(token) for token in ("[CLS]", "[SEP]", "[PAD]")])
        n_rows, length = input_ids.shape
        mask_rate = self.settings.mask_rate
        n_masks = max(1, round(mask_rate * length))
        # The smallest of exponential times, each at its own rate: a draw without replacement by weight.
        rates = self._weights[input_ids] if step >= self.settings.salience_from else 1.0
        times = -np.log1p(-chance.random(input_ids.shape)) / rates
        masked = np.argsort(np.where(special, np.inf, times), axis=1)[:, :n_masks]
        rows = np.arange(n_rows)[:, None]
        wanted = np.maximum(1, np.round(mask_rate * attention_mask.sum(axis=1, keepdims=True)))
        labels = np.where(np.arange(n_masks) < wanted, input_ids[rows, masked], IGNORED)
        labels = np.where(special[rows, masked], IGNORED, labels)
        disguise = chance.random(masked.shape)
        random_pieces = chance.integers(5, self.tokenizer.get_vocab_size(), masked.shape)
        n_masked = 0.8 if self.settings.random_replacement else 0.9
        shown = np.where(disguise < n_masked, self._id("[MASK]"), random_pieces)
        input_ids[rows, masked] = np.where((disguise >= 0.9) | (labels == IGNORED), input_ids[rows, masked], shown)
        return masked, labels

    def _id(self, token: str) -> int:
        return piece_id(self.tokenizer, token)


def piece_id(tokenizer: Tokenizer, piece: str) -> int:
    """The number of a piece that the vocabulary must hold."""
    number = tokenizer.token_to_id(piece)
    if number is None:
        raise KeyError(f"{piece!r} is no piece of the vocabulary")
    return number


_ROWS = 64


@dataclass(frozen=True)
class Evaluation:
    """Held-out figures, all shares of 1."""

    masked_accuracy: float
    """Masked pieces of held-out text predicted exactly."""
    next_sentence_accuracy: float | None
    """Held-out sentence pairs distinguished from random pairs; None where sentences are read alone."""
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
    """Whether the object of each fact is the best piece of all, and whether it is the best candidate."""
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
    """Description of the second language and of how the model reads it."""
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


Echo = Callable[[str], None]
_HELD_OUT_SEED = 1_000_003
"""Added to the seed for text that is only evaluated on."""
_TOKENIZER_DOCUMENTS = 5000
_REPORT_SECONDS = 20.0
_STATE = "state.pt"
_CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Pretrained:
    """The result of a run of pretraining."""

    folder: Path
    """A model folder in Hugging Face layout."""
    evaluation: Evaluation
    """Held-out figures of the weights as stored."""


def pretrain(
    settings: PretrainSettings, out: Path, *, device: str = "auto", threads: int | None = None, echo: Echo = print
) -> Pretrained:
    """Generate the text, learn the vocabulary, train the model, and write its folder.

    A run that was killed resumes from its last state in ``out/training`` and ends with the same weights as an
    uninterrupted one.

    Args:
        settings: the recipe.
        out: folder for the model.
        device: ``auto`` takes a GPU where there is one.
        threads: processor threads for torch; its own choice when left out.
        echo: called with each line on progress.

    Raises:
        ModelError: there is no such device.
        BertologyError: ``out`` holds the state of a run with other settings, or cannot be written; ``max_pieces`` is
            too few for what is evaluated; or the loss or a weight is not finite, and then no model is written.
    """
    import torch
    from safetensors.torch import load_file

    if threads is not None:
        torch.set_num_threads(threads)
    # Of itself it takes a CUDA GPU or the processor alone: recipes were tried on these.
    device = str(choose_device(device)) if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    work = out / "training"
    sweep(out, work, *(out / _CHECKPOINTS).glob("*"))
    state = saved_state(work / _STATE, settings, device=device)
    tokenizer, examples, held_out = _text(settings, echo)
    _check_length(settings, tokenizer)
    model = new_model(settings, tokenizer.get_vocab_size(), second_from=first_of_second(tokenizer))
    torch.nn.Module.to(model, device)  # its own ``to`` is not typed for device names
    trainer = Trainer(settings, model, examples)
    if state is not None:
        trainer.resume(state)
        echo(f"going on from step {trainer.step}")

    def measured(*, at_last: bool = False) -> Evaluation:
        items = _agreement_items(settings, at_last=at_last)
        evaluation = evaluate(trainer.model, tokenizer, held_out=held_out, agreement=items, facts=facts())
        echo(f"step {trainer.step}: {_in_words(evaluation)}")
        return evaluation

    _train(trainer, tokenizer, out, measured, echo)
    save_model(trainer.model, tokenizer, out)
    # The figures are those of the weights after their rounding to float16.
    trainer.model.load_state_dict(load_file(out / "model.safetensors"), strict=False)
    evaluation = measured(at_last=True)
    card = model_card(settings, evaluation, vocabulary_size=tokenizer.get_vocab_size())
    write_atomically(out / "README.md", card.encode())
    _write_provenance(settings, out, evaluation, device=device)
    return Pretrained(out, evaluation)


def _agreement_items(settings: PretrainSettings, *, at_last: bool) -> tuple[AgreementItem, ...]:
    # The last figures are of items that no one has looked at while the recipe was made.
    return agreement_items(seed=settings.seed + at_last * _HELD_OUT_SEED)


def _check_length(settings: PretrainSettings, tokenizer: Tokenizer) -> None:
    """Refuse settings with which the model could not read what it is evaluated on."""
    items = (_agreement_items(settings, at_last=last) for last in (False, True))
    longest = max(longest_prompt(tokenizer, chosen, facts()) for chosen in items)
    if longest > settings.max_pieces:
        raise BertologyError(
            f"max_pieces is {settings.max_pieces}, but evaluation has prompts of {longest} pieces: "
            f"give {longest} or more, or a larger vocabulary_size"
        )


def _text(settings: PretrainSettings, echo: Echo) -> tuple[Tokenizer, Examples, list[Examples]]:
    """The tokenizer, examples to train on, and for each language examples to evaluate on."""
    echo(f"writing {settings.documents} documents" + " in two languages" * (settings.second_language is not None))
    text = _documents(settings, settings.documents)
    # Words of the other language among those of one are no part of its vocabulary, nor of what is evaluated.
    apart = settings.apart()
    known = text if apart == settings else _documents(apart, min(settings.documents, _TOKENIZER_DOCUMENTS))
    firsts, *others = (chain.from_iterable(documents[:_TOKENIZER_DOCUMENTS]) for documents in known)
    tokenizer = train_tokenizer(
        firsts,
        vocabulary_size=settings.vocabulary_size,
        others=chain.from_iterable(others),
        second=settings.second_language,
    )
    held_out = _documents(apart, settings.held_out_documents, seed=_HELD_OUT_SEED, stated=())
    encoded = encode(chain.from_iterable(text), tokenizer)
    echo(f"{encoded.n_sentences} sentences, {len(encoded.pieces)} pieces, {tokenizer.get_vocab_size()} known")
    examples = [Examples(encode(documents, tokenizer), tokenizer, settings) for documents in held_out]
    return tokenizer, Examples(encoded, tokenizer, settings), examples


def _documents(
    settings: PretrainSettings, n_documents: int, *, seed: int = 0, stated: Sequence[Fact] | None = None
) -> list[list[list[str]]]:
    """Documents of each language, as lists of sentences; ``seed`` is added to that of the settings."""
    second, seed = settings.second_language, settings.seed + seed
    if second is None:
        return [list(pretraining_documents(n_documents, seed=seed, stated=stated))]
    first_documents, second_documents = zip(
        *bilingual_documents(n_documents, second, seed=seed, stated=stated), strict=True
    )
    return [[*first_documents], [*second_documents]]


class Trainer:
    """A model, its optimizer, and the step they have reached."""

    def __init__(self, settings: PretrainSettings, model: BertForPreTraining, examples: Examples) -> None:
        import torch

        self.settings = settings
        self.model = model.train()
        self.examples = examples
        self.step = 0
        matrices, vectors = ([p for p in model.parameters() if (p.ndim > 1) == matrix] for matrix in (True, False))
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=0.0,  # set before each step
            betas=(0.9, 0.98),
            fused=True,
        )

    def advance(self) -> float:
        """Take one step; returns the loss, which must be finite."""
        import torch

        steps, rates = zip(*self.settings.learning_rates, strict=True)
        for group in self.optimizer.param_groups:
            group["lr"] = float(np.interp(self.step + 1, steps, rates))
        if self.settings.dropout:
            torch.manual_seed(self.settings.seed + self.step)  # so that a resumed run drops the same units
        loss = pretraining_loss(self.model, self.examples.batch(self.step))
        value = float(loss.detach())
        if not math.isfinite(value):
            raise BertologyError(
                f"the loss is {value} at step {self.step}: lower learning_rates, clip_norm or initializer_range"
            )
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return value

    def save(self, path: Path) -> None:
        """Write the state for resuming; the order of examples and their masks depend on the step only."""
        import torch

        buffer = io.BytesIO()
        state = {
            "settings": _settings_digest(self.settings),
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        torch.save(state, buffer)
        write_atomically(path, buffer.getvalue())

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = int(state["step"])


def saved_state(path: Path, settings: PretrainSettings, *, device: str) -> dict[str, Any] | None:
    """The state of an earlier run, which must be whole and of the same settings; ``None`` if there is none."""
    import torch

    if not path.exists():
        return None
    try:
        state: Any = torch.load(path, map_location=device, weights_only=True)
        if not isinstance(state, dict) or not {"settings", "step", "model", "optimizer"} <= state.keys():
            raise ValueError
    except (RuntimeError, EOFError, OSError, ValueError, pickle.UnpicklingError):
        raise BertologyError(f"{path}: not a whole training state; delete it to start over") from None
    if state["settings"] != _settings_digest(settings):
        raise BertologyError(f"{path}: from a run with other settings; delete it or choose another --out")
    return state


def pretraining_loss(model: BertForPreTraining, batch: Batch) -> torch.Tensor:
    """Cross-entropy of the masked pieces plus that of the next sentence (Devlin et al. 2019, section 3.1).

    Only masked places go through the projection onto the vocabulary.
    """
    import torch
    from torch.nn.functional import cross_entropy

    def on_device(array: Any) -> torch.Tensor:
        return torch.from_numpy(array).to(model.device)

    hidden = model.bert(**batch.inputs(model.device))
    places = on_device(batch.masked).unsqueeze(-1).expand(-1, -1, hidden.last_hidden_state.shape[-1])
    masked, following = model.cls(hidden.last_hidden_state.gather(1, places), hidden.pooler_output)
    loss = cross_entropy(masked.flatten(0, 1), on_device(batch.masked_labels).flatten())
    if (batch.next_labels >= 0).any():
        loss = loss + cross_entropy(following, on_device(batch.next_labels))
    return loss


def _train(trainer: Trainer, tokenizer: Tokenizer, out: Path, measured: Callable[[], Evaluation], echo: Echo) -> None:
    settings, work = trainer.settings, out / "training"
    first, began, reported = trainer.step, time.monotonic(), time.monotonic()
    losses: list[float] = []
    while True:
        if trainer.step in settings.keep_checkpoints:
            save_model(trainer.model, tokenizer, out / _CHECKPOINTS / f"step-{trainer.step:06d}")
        if trainer.step >= settings.steps:
            return
        losses.append(trainer.advance())
        if trainer.step % settings.checkpoint_every == 0 or trainer.step == settings.steps:
            trainer.save(work / _STATE)
        if trainer.step % settings.evaluate_every == 0 and trainer.step < settings.steps:
            measured()
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            rate = (trainer.step - first) / (reported - began)
            left = (settings.steps - trainer.step) / rate / 60
            loss = sum(losses) / len(losses)
            echo(f"step {trainer.step}/{settings.steps}, loss {loss:.3f}, {rate:.1f} steps/s, {left:.0f} min left")
            losses.clear()


def _settings_digest(settings: PretrainSettings) -> str:
    return digest([canonical_json(settings.model_dump(mode="json"))])


def _in_words(evaluation: Evaluation) -> str:
    def table(shares: dict[int, float]) -> str:
        return " ".join(f"{key}:{share:.0%}" for key, share in shares.items())

    return (
        f"masked {_shares_in_words(evaluation.masked_accuracy, evaluation.second_masked_accuracy)}, "
        f"next sentence {_shares_in_words(evaluation.next_sentence_accuracy)}, "
        f"agreement by attractors {table(evaluation.agreement_by_attractors)}, "
        f"facts by exposure {table(evaluation.fact_recall_by_exposure)} "
        f"(among candidates {table(evaluation.candidate_recall_by_exposure)})"
    )


def _shares_in_words(*shares: float | None) -> str:
    return " and ".join(f"{share:.1%}" for share in shares if share is not None) or "not asked"


def _write_provenance(settings: PretrainSettings, out: Path, evaluation: Evaluation, *, device: str) -> None:
    versions = {"bertology": import_module("bertology").__version__, "python": platform.python_version()}
    versions |= {name: import_module(name).__version__ for name in ("torch", "transformers", "tokenizers")}
    record = {
        "settings": settings.model_dump(mode="json"),
        "evaluation": evaluation.to_dict(),
        "device": device,
        "versions": versions,
    }
    write_atomically(out / "training.json", (json.dumps(record, indent=2) + "\n").encode())
