"""Pretraining of Pocket BERT: models, resumable training, evaluation and model card."""

from __future__ import annotations

import json
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology._files import sweep, write_atomically
from bertology._folder import CARD, own_folder, versions
from bertology._languages_apart import OWN_SPECIALS, read_languages_apart
from bertology._machine import choose_device
from bertology.errors import BertologyError
from bertology.pocket._bilingual import bilingual_documents
from bertology.pocket._examples import (
    IGNORED,
    INPUTS,
    Batch,
    Examples,
    encode,
    first_of_second,
    piece_id,
    save_tokenizer,
    train_tokenizer,
)
from bertology.pocket._items import AgreementItem, agreement_items
from bertology.pocket._recipe import PretrainSettings
from bertology.pocket._texts import pretraining_documents
from bertology.pocket._words import (
    Fact,
    candidates,
    facts,
)

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import BertForPreTraining


def new_model(
    settings: PretrainSettings, vocabulary_size: int, *, second_from: int | None = None
) -> BertForPreTraining:
    """A BERT with random weights, drawn by the seed; ``second_from`` is the first piece of the second language."""
    import torch
    from transformers import BertConfig, BertForPreTraining

    config = BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=settings.inner_width,
        max_position_embeddings=settings.max_pieces,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=settings.dropout,
        initializer_range=settings.initializer_range,
        pad_token_id=0,
    )
    second = settings.second_language
    if second is not None and second_from is not None:
        # Noted in the configuration is what is apart for the second language; its embeddings come last.
        declared = {"first_piece": second_from}
        if not second.shared_specials:
            declared["specials_from"] = config.vocab_size
            config.vocab_size += len(OWN_SPECIALS)
        if not second.shared_positions:
            declared["positions_from"] = config.max_position_embeddings
            config.max_position_embeddings *= 2
        if len(declared) > 1:
            config.second_language = declared
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = BertForPreTraining(config)
    read_languages_apart(model.bert)
    return model


def save_model(model: BertForPreTraining, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a model folder: weights as float16, to be loaded as float32."""
    import torch
    from safetensors.torch import save

    weights = {}
    for name, tensor in model.state_dict().items():
        tied = name in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
        if not tied and tensor.is_floating_point():
            weights[name] = tensor.detach().to("cpu", torch.float16).contiguous()
            if not torch.isfinite(weights[name]).all():
                reason = f"a weight of {name} is not finite in float16: lower learning_rates or initializer_range"
                raise BertologyError(f"{folder}: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "model.safetensors", save(weights, metadata={"format": "pt"}))
    config: dict[str, Any] = model.config.to_dict()
    config |= {"architectures": ["BertForPreTraining"], "dtype": "float32", "use_cache": True}
    write_atomically(folder / "config.json", (json.dumps(config, indent=2, sort_keys=True) + "\n").encode())
    positions_from = getattr(model.config, "second_language", {}).get("positions_from")
    save_tokenizer(tokenizer, folder, max_pieces=positions_from or model.config.max_position_embeddings)


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

    def __str__(self) -> str:
        def table(shares: dict[int, float]) -> str:
            return " ".join(f"{key}:{share:.0%}" for key, share in shares.items())

        masked = [f"{one:.1%}" for one in (self.masked_accuracy, self.second_masked_accuracy) if one is not None]
        following = self.next_sentence_accuracy
        return (
            f"masked {' and '.join(masked)}, next sentence {'not asked' if following is None else f'{following:.1%}'}, "
            f"agreement by attractors {table(self.agreement_by_attractors)}, "
            f"facts by exposure {table(self.fact_recall_by_exposure)} "
            f"(among candidates {table(self.candidate_recall_by_exposure)})"
        )


def evaluate(
    model: BertForPreTraining,
    tokenizer: Tokenizer,
    *,
    held_out: Sequence[Examples],
    agreement: Sequence[AgreementItem],
    facts: Sequence[Fact],
) -> Evaluation:
    """Evaluate a model on held-out text of each of its languages; its training mode is restored."""
    import torch

    def best(fact: Fact, logits: torch.Tensor) -> tuple[bool, bool]:
        """Whether the object of a fact is the best piece of all, and whether it is the best candidate."""
        names = candidates(fact.relation)
        chosen = names[int(logits[[piece_id(tokenizer, name.lower()) for name in names]].argmax())]
        return int(logits.argmax()) == piece_id(tokenizer, fact.object.lower()), chosen == fact.object

    was_training = model.training
    model.train(False)
    with torch.inference_mode():
        accuracies = [_held_out_accuracy(model, examples) for examples in held_out]
        scored = zip(agreement, _mask_logits(model, tokenizer, [item.text for item in agreement]), strict=True)
        right = [
            bool(logits[piece_id(tokenizer, item.good)] > logits[piece_id(tokenizer, item.bad)])
            for item, logits in scored
        ]
        prompts = [fact.sentence().replace(fact.object, "[MASK]") for fact in facts]
        recalled = [
            best(fact, logits) for fact, logits in zip(facts, _mask_logits(model, tokenizer, prompts), strict=True)
        ]
    model.train(was_training)
    exposures = [fact.n_stated for fact in facts]
    return Evaluation(
        masked_accuracy=accuracies[0][0],
        next_sentence_accuracy=accuracies[0][1],
        agreement_by_attractors=_shares([item.n_attractors for item in agreement], right),
        agreement_across_attractors=_shares([item.n_attractors > 0 for item in agreement], right)[True],
        fact_recall_by_exposure=_shares(exposures, [top for top, _ in recalled]),
        candidate_recall_by_exposure=_shares(exposures, [among for _, among in recalled]),
        second_masked_accuracy=accuracies[1][0] if len(accuracies) > 1 else None,
    )


def _shares(keys: Sequence[int], hits: Sequence[bool]) -> dict[int, float]:
    grouped: dict[int, list[bool]] = defaultdict(list)
    for key, hit in zip(keys, hits, strict=True):
        grouped[key].append(hit)
    return {key: float(np.mean(grouped[key])) for key in sorted(grouped)}


def _held_out_accuracy(model: BertForPreTraining, held_out: Examples) -> tuple[float, float | None]:
    masked, following = [], []
    for step in range(min(_MOST_BATCHES, held_out.settings.held_out_documents)):
        batch = held_out.batch(step)
        output = model(**{name: value for name, value in _tensors(batch, model.device).items() if name in INPUTS})
        guessed = np.take_along_axis(output.prediction_logits.argmax(-1).cpu().numpy(), batch["masked"], axis=1)
        masked.append((guessed == batch["masked_labels"])[batch["masked_labels"] != IGNORED])
        nexts = output.seq_relationship_logits.argmax(-1).cpu().numpy()
        following.append((nexts == batch["next_labels"])[batch["next_labels"] != IGNORED])
    followed = np.concatenate(following)
    return float(np.concatenate(masked).mean()), float(followed.mean()) if len(followed) else None


def _mask_logits(model: BertForPreTraining, tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[torch.Tensor]:
    """The logits ``[piece]`` at the mask of each text."""
    import torch

    for start in range(0, len(texts), 64):
        encoded = [encoding.ids for encoding in tokenizer.encode_batch(list(texts[start : start + 64]))]
        length = max(map(len, encoded))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in encoded], device=model.device)
        logits = model(input_ids=ids, attention_mask=(ids != 0).long()).prediction_logits
        rows, places = torch.where(ids == piece_id(tokenizer, "[MASK]"))
        yield from logits[rows, places].cpu()


def model_card(settings: PretrainSettings, evaluation: Evaluation, *, vocabulary_size: int) -> str:
    """The card of a recipe and the scores of its stored weights, as Markdown."""
    from jinja2 import Environment, StrictUndefined

    templates = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    templates.filters["percent"] = lambda share, digits=0: f"{share:.{digits}%}"
    templates.filters["fill"] = lambda text: fill(" ".join(text.split()), width=120)
    held_out = [
        ("pieces of held-out text, masked as in training, exactly", evaluation.masked_accuracy),
        ("the same of the second language", evaluation.second_masked_accuracy),
        ("next sentence or random sentence", evaluation.next_sentence_accuracy),
    ]
    template = templates.from_string(Path(__file__).with_name("card.md").read_text(encoding="utf-8"))
    values = {**settings.model_dump(), **asdict(evaluation), "second": settings.second_language}
    return template.render(values, held_out=held_out, pieces=vocabulary_size)


Echo = Callable[[str], None]
_HELD_OUT_SEED = 1_000_003
"""Added to the seed for text that is only evaluated on."""
_MOST_BATCHES = 100
"""Batches of held-out text that are evaluated on; of few documents as many as documents."""
_TOKENIZER_DOCUMENTS = 5000
_REPORT_SECONDS = 20.0


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

    A run that was killed resumes from its last checkpoint in ``out/training`` and ends with the same weights as an
    uninterrupted one.

    Args:
        settings: the recipe.
        out: folder for the model.
        device: ``auto`` takes a GPU where there is one.
        threads: processor threads for torch; its own choice when left out.
        echo: called with each line on progress.

    Raises:
        ModelError: there is no such device.
        BertologyError: ``out`` holds the state of a run with other settings, another process writes it, or it cannot
            be written; ``max_pieces`` is too few for what is evaluated; or the loss or a weight is not finite, and
            then no model is written.
    """
    import torch
    from safetensors.torch import load_file

    if threads is not None:
        torch.set_num_threads(threads)
    # Of itself it takes a CUDA GPU or the processor alone: recipes were tried on these.
    device = str(choose_device(device)) if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    with own_folder(out / "training", "trains here", {"settings": settings.model_dump(mode="json")}):
        sweep(out, *(out / "checkpoints").glob("*"))
        tokenizer, examples, held_out = _text(settings, echo)
        # The last figures are of items that no one has looked at while the recipe was made.
        agreement = {last: agreement_items(seed=settings.seed + last * _HELD_OUT_SEED) for last in (False, True)}
        prompts = [
            *(item.text for items in agreement.values() for item in items),
            *(fact.sentence() for fact in facts()),
        ]
        longest = max(len(encoding.ids) for encoding in tokenizer.encode_batch(prompts))
        if longest > settings.max_pieces:
            raise BertologyError(
                f"max_pieces is {settings.max_pieces}, but evaluation has prompts of {longest} pieces: "
                f"give {longest} or more, or a larger vocabulary_size"
            )
        model = new_model(settings, tokenizer.get_vocab_size(), second_from=first_of_second(tokenizer))
        torch.nn.Module.to(model, device)  # its own ``to`` is not typed for device names

        def measured(step: int, *, at_last: bool = False) -> Evaluation:
            evaluation = evaluate(model, tokenizer, held_out=held_out, agreement=agreement[at_last], facts=facts())
            echo(f"step {step}: {evaluation}")
            return evaluation

        _train(settings, model, examples, tokenizer, out, measured, echo)
        save_model(model, tokenizer, out)
        # The figures are those of the weights after their rounding to float16.
        model.load_state_dict(load_file(out / "model.safetensors"), strict=False)
        evaluation = measured(settings.steps, at_last=True)
        card = model_card(settings, evaluation, vocabulary_size=tokenizer.get_vocab_size())
        write_atomically(out / CARD, card.encode())
        made_with = versions("torch", "transformers", "tokenizers")
        record = {
            "settings": settings.model_dump(mode="json"),
            "evaluation": evaluation.to_dict(),
            "device": device,
            "versions": {"bertology": made_with.pop("bertology"), "python": platform.python_version(), **made_with},
        }
        write_atomically(out / "training.json", (json.dumps(record, indent=2) + "\n").encode())
    return Pretrained(out, evaluation)


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
    pairs = bilingual_documents(n_documents, second, seed=seed, stated=stated)
    return [list(documents) for documents in zip(*pairs, strict=True)]


def _tensors(batch: Batch, device: Any = None) -> dict[str, torch.Tensor]:
    import torch

    return {name: torch.from_numpy(values).to(device) for name, values in batch.items()}


def pretraining_loss(model: BertForPreTraining, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy of the masked pieces plus that of the next sentence (Devlin et al. 2019, section 3.1).

    Only masked places go through the projection onto the vocabulary.
    """
    from torch.nn.functional import cross_entropy

    hidden = model.bert(**{name: batch[name] for name in INPUTS})
    places = batch["masked"].unsqueeze(-1).expand(-1, -1, hidden.last_hidden_state.shape[-1])
    masked, following = model.cls(hidden.last_hidden_state.gather(1, places), hidden.pooler_output)
    loss = cross_entropy(masked.flatten(0, 1), batch["masked_labels"].flatten())
    if (batch["next_labels"] >= 0).any():
        loss = loss + cross_entropy(following, batch["next_labels"])
    return loss


def _train(
    settings: PretrainSettings,
    model: BertForPreTraining,
    examples: Examples,
    tokenizer: Tokenizer,
    out: Path,
    measured: Callable[[int], Evaluation],
    echo: Echo,
) -> None:
    import torch

    from bertology._training import train, weight_groups

    steps, rates = zip(*settings.learning_rates, strict=True)
    losses: list[float] = []
    first = step_now = 0
    begun = reported = time.monotonic()

    def keep(step: int) -> None:
        if step in settings.keep_checkpoints:
            save_model(model, tokenizer, out / "checkpoints" / f"step-{step:06d}")

    def began(step: int, n_steps: int) -> None:
        nonlocal first, step_now
        first = step_now = step
        if step:
            echo(f"going on from step {step}")
        keep(step)

    def loss(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if settings.dropout:
            torch.manual_seed(settings.seed + step_now)  # so that a resumed run drops the same units
        return pretraining_loss(model, batch)

    def stepped(step: int, loss: float) -> None:
        nonlocal reported, step_now
        step_now = step
        losses.append(loss)
        keep(step)
        if step % settings.evaluate_every == 0 and step < settings.steps:
            measured(step)
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            rate = (step - first) / (reported - begun)
            left, mean = (settings.steps - step) / rate / 60, sum(losses) / len(losses)
            echo(f"step {step}/{settings.steps}, loss {mean:.3f}, {rate:.1f} steps/s, {left:.0f} min left")
            losses.clear()

    train(
        model,
        range(settings.steps),
        lambda steps: _tensors(examples.batch(steps[0])),
        torch.optim.AdamW(weight_groups(model, settings.weight_decay), betas=(0.9, 0.98), fused=True),
        folder=out / "training",
        device=model.device,
        clip_norm=settings.clip_norm,
        checkpoint_every=settings.checkpoint_every,
        remedy="lower learning_rates, clip_norm or initializer_range",
        loss=loss,
        rate=lambda step: float(np.interp(step + 1, steps, rates)),
        began=began,
        stepped=stepped,
        max_steps=settings.steps,
        save_total_limit=1,
    )
