"""Pretraining of Pocket BERT: models, resumable training, evaluation and model card."""

from __future__ import annotations

import inspect
import json
import math
import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from pathlib import Path
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np

from bertology._files import digest, read_json, sweep, write_atomically
from bertology._folder import CARD, own_folder, versions
from bertology._languages_apart import OWN_SPECIALS, read_as_declared
from bertology._lazy import safetensors, tokenizers, torch, transformers
from bertology._machine import choose_device, quiet_loading
from bertology._names import by_key
from bertology.corpora import Sentences, load_corpus
from bertology.corpora.formats.columns import BY_SPACES
from bertology.corpora.prompts import ClozeItem, with_masks
from bertology.errors import BertologyError, cut, cut_path
from bertology.pocket import _examples
from bertology.pocket._bilingual import bilingual_documents
from bertology.pocket._examples import IGNORED, Batch, Examples
from bertology.pocket._items import agreement_items
from bertology.pocket._recipe import PretrainSettings
from bertology.pocket._texts import MODELS, model_folder, pretraining_documents
from bertology.pocket._world import Fact, candidates, facts

_OF_BLOCK = re.compile(r"(\.layer\.)(\d+)\.")


def new_model(settings: PretrainSettings, vocabulary_size: int, *, second_from: int | None = None) -> Any:
    """A model with random weights, drawn by the seed; ``second_from`` is the first piece of the second language.

    It is a BERT with the heads that are trained; an ALBERT where layers are shared; and for replaced tokens a
    ``ModuleDict`` of an ELECTRA ``discriminator`` and its ``generator``, which have their embeddings in common.
    """
    family = "Albert" if settings.share_layers else "Electra" if settings.objective == "replaced_tokens" else "Bert"
    config = getattr(transformers, f"{family}Config")(**_shape(settings, vocabulary_size, family))
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
    if settings.objective == "left_to_right":
        config.is_decoder, config.use_cache = True, False
    elif settings.objective == "right_to_left":
        config.right_to_left = True
    ending = "ForMaskedLM" if settings.next_sentence == "none" and family != "Electra" else "ForPreTraining"
    kind = "BertLMHeadModel" if settings.objective == "left_to_right" else f"{family}{ending}"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = getattr(transformers, kind)(config)
        if family == "Electra":
            shape = _shape(settings.generator, vocabulary_size, family) | {"embedding_size": settings.width}
            generator = transformers.ElectraForMaskedLM(transformers.ElectraConfig(**shape))
            return _with_generator(model, generator)
    read_as_declared(model.base_model)
    return model


def _shape(settings: PretrainSettings, vocabulary_size: int, family: str) -> dict[str, Any]:
    """The configuration of a model, as keywords of its class in transformers."""
    shape = {
        "vocab_size": vocabulary_size,
        "hidden_size": settings.width,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "intermediate_size": settings.inner_width,
        "max_position_embeddings": settings.max_pieces,
        "hidden_dropout_prob": settings.dropout,
        "attention_probs_dropout_prob": settings.dropout,
        "initializer_range": settings.initializer_range,
        "pad_token_id": 0,
    }
    of_others = {"embedding_size": settings.width, "hidden_act": "gelu", "classifier_dropout_prob": settings.dropout}
    return shape | (of_others if family != "Bert" else {})


def _with_generator(discriminator: Any, generator: Any) -> Any:
    """Both models, with the embeddings of the discriminator alone, which are saved once."""
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.tie_weights()
    both: Any = torch.nn.ModuleDict({"discriminator": discriminator, "generator": generator})
    shared = ("generator.electra.embeddings.", "generator.generator_lm_head.weight")

    def once(module: Any, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        for name in [name for name in state if name.startswith(shared)]:
            del state[name]

    both.register_state_dict_post_hook(once)
    both.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    return both


def _stacked(settings: PretrainSettings) -> tuple[Any, tokenizers.Tokenizer]:
    """A model with the weights of a shallower one, whose blocks are repeated from below, and its tokenizer."""
    source = _folder(str(settings.stack_from))
    asked = f"stack_from: {cut_path(source)}"
    remedy = "name one made by pretrain"
    config = read_json(source / "config.json", what="of a model", form=dict[str, Any], remedy=remedy)
    n_layers = config.get("num_hidden_layers")
    if config.get("model_type") != "bert" or not n_layers or settings.layers % n_layers:
        remedy = "give a BERT whose number of layers divides that of the recipe"
        raise BertologyError(f"{asked} is a {config.get('model_type')} of {n_layers} layers; {remedy}")
    tokenizer = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    model = new_model(settings, tokenizer.get_vocab_size(), second_from=_examples.first_of_second(tokenizer))
    for name in ("hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings"):
        if (there := config.get(name)) != (here := getattr(model.config, name)):
            raise BertologyError(f"{asked} has {name} {there}, the recipe {here}; make them equal")
    stored = safetensors.torch.load_file(source / "model.safetensors")
    below = {name: _OF_BLOCK.sub(lambda at: f"{at[1]}{int(at[2]) % n_layers}.", name) for name in model.state_dict()}
    model.load_state_dict({name: stored[key] for name, key in below.items() if key in stored}, strict=False)
    return model, tokenizer


def _freeze(model: Any, n_known: int | None) -> None:
    """Let nothing but the embeddings of subwords and the output bias learn; of ``n_known`` first entries not these."""
    model.requires_grad_(False)
    for weight in _of_vocabulary(model):
        weight.requires_grad_(True)
        if n_known is not None:
            is_new = torch.arange(len(weight)) >= n_known
            weight.register_hook(
                lambda grad, is_new=is_new: grad * is_new.to(grad.device).view(-1, *[1] * (grad.ndim - 1))
            )


def save_model(model: Any, tokenizer: tokenizers.Tokenizer, folder: Path) -> None:
    """Write a model folder: weights as float16, to be loaded as float32; with that of a generator inside."""
    if isinstance(model, torch.nn.ModuleDict):
        save_model(model["generator"], tokenizer, folder / "generator")
        model = model["discriminator"]
    weights = {}
    for name, tensor in model.state_dict().items():
        if name not in (model._tied_weights_keys or ()) and tensor.is_floating_point():
            weights[name] = tensor.detach().to("cpu", torch.float16).contiguous()
            if not torch.isfinite(weights[name]).all():
                reason = f"a weight of {name} is not finite in float16: lower learning_rates or initializer_range"
                raise BertologyError(f"{folder}: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "model.safetensors", safetensors.torch.save(weights, metadata={"format": "pt"}))
    config: dict[str, Any] = model.config.to_dict()
    # A model that reads from the right has no mask to predict, so that it is not called a masked language model.
    kind = "BertLMHeadModel" if getattr(model.config, "right_to_left", False) else type(model).__name__
    config |= {"architectures": [kind], "dtype": "float32", "use_cache": True}
    write_atomically(folder / "config.json", (json.dumps(config, indent=2, sort_keys=True) + "\n").encode())
    positions_from = getattr(model.config, "second_language", {}).get("positions_from")
    _examples.save_tokenizer(tokenizer, folder, max_pieces=positions_from or model.config.max_position_embeddings)


@dataclass(frozen=True)
class Evaluation:
    """Held-out figures, all but ``bits`` shares of 1; of a text of one's own there are no items of the pocket world."""

    masked_accuracy: float
    """Masked pieces of held-out text predicted exactly, by a generator where there is one; of models that read from one
    side, all next (or previous) pieces."""
    next_sentence_accuracy: float | None
    """Held-out sentence pairs distinguished from random pairs, or from pairs in the other order; None where sentences
    are read alone."""
    agreement_by_attractors: dict[int, float]
    """Agreement items where the right form is preferred, by nouns of the other number between subject and verb."""
    agreement_across_attractors: float | None
    """The same, over all items with at least one such noun."""
    fact_recall_by_exposure: dict[int, float]
    """Facts whose object is the best piece of the whole vocabulary, by how often the text states them."""
    candidate_recall_by_exposure: dict[int, float]
    """Facts whose object is the best among all that it could be: chance is one in 24 to 28."""
    second_masked_accuracy: float | None = None
    """Masked pieces of held-out text in the second language predicted exactly; None where there is none."""
    bits: float | None = None
    """Loss on the same places as ``masked_accuracy``, mean −log2 of the probability of the right piece."""
    replaced_accuracy: float | None = None
    """Balanced accuracy of a discriminator: mean of the shares of replaced and of other pieces told right, by chance a
    half; None of other models."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, rounded to four places."""
        return {
            key: {str(k): round(v, 4) for k, v in value.items()} if isinstance(value, dict) else round(value, 4)
            for key, value in asdict(self).items()
            if value not in (None, {})
        }

    def __str__(self) -> str:
        def table(shares: dict[int, float]) -> str:
            return " ".join(f"{key}:{share:.0%}" for key, share in shares.items())

        masked = [f"{one:.1%}" for one in (self.masked_accuracy, self.second_masked_accuracy) if one is not None]
        following, bits = self.next_sentence_accuracy, "" if self.bits is None else f" ({self.bits:.3f} bits)"
        parts = [f"masked {' and '.join(masked)}{bits}"]
        parts.append(f"next sentence {'not asked' if following is None else f'{following:.1%}'}")
        if self.replaced_accuracy is not None:
            parts.append(f"replaced {self.replaced_accuracy:.1%} (chance 50%)")
        if self.agreement_by_attractors:
            parts.append(f"agreement by attractors {table(self.agreement_by_attractors)}")
            among = f"(among candidates {table(self.candidate_recall_by_exposure)})"
            parts.append(f"facts by exposure {table(self.fact_recall_by_exposure)} {among}")
        return ", ".join(parts)


def evaluate(
    model: Any,
    tokenizer: tokenizers.Tokenizer,
    *,
    held_out: Sequence[Examples],
    agreement: Sequence[ClozeItem],
    facts: Sequence[Fact],
) -> Evaluation:
    """Evaluate a model on held-out text of each of its languages; its training mode is restored."""
    reader = model["generator"] if isinstance(model, torch.nn.ModuleDict) else model
    shift = _PREDICTS_AT.get(held_out[0].settings.objective, 0)

    def number(word: str) -> int:
        return _examples.piece_id(tokenizer, word.lower())

    recalled, among, was_training = list[bool](), list[bool](), model.training
    model.train(False)
    with torch.inference_mode():
        on_text = [_on_held_out(model, examples) for examples in held_out]
        asked = _mask_logits(reader, tokenizer, [item.text for item in agreement], shift=shift)
        forms = ((number(item.answer), number(item.rivals[0])) for item in agreement)
        right = [bool(at[good] > at[bad]) for (good, bad), at in zip(forms, asked, strict=True)]
        prompts = [fact.sentence().replace(fact.object, "[MASK]") for fact in facts]
        for fact, at in zip(facts, _mask_logits(reader, tokenizer, prompts, shift=shift), strict=True):
            recalled.append(int(at.argmax()) == number(fact.object))
            names = candidates(fact.relation)
            among.append(names[int(at[list(map(number, names))].argmax())] == fact.object)
    model.train(was_training)
    exposures, attractors = [fact.n_stated for fact in facts], [item.n_attractors or 0 for item in agreement]
    return Evaluation(
        **on_text[0],
        agreement_by_attractors=_shares(attractors, right),
        agreement_across_attractors=_shares([number > 0 for number in attractors], right).get(True),
        fact_recall_by_exposure=_shares(exposures, recalled),
        candidate_recall_by_exposure=_shares(exposures, among),
        second_masked_accuracy=on_text[1]["masked_accuracy"] if len(on_text) > 1 else None,
    )


def _shares(keys: Sequence[int], hits: Sequence[bool]) -> dict[int, float]:
    return {key: float(np.mean(of_key)) for key, of_key in sorted(by_key(zip(keys, hits, strict=True)).items())}


def _on_held_out(model: Any, held_out: Examples) -> dict[str, Any]:
    """The figures of held-out text, by the names of :class:`Evaluation`."""
    right, nats, follows, replaced, told = (list[Any]() for _ in range(5))
    for step in range(min(_MOST_BATCHES, held_out.settings.held_out_documents)):
        batch = _tensors(held_out.batch(step), next(model.parameters()).device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(step)  # of samples of a generator
            predicted, others, is_replaced = predictions(model, batch)
        is_asked, is_piece = batch["masked_labels"] != IGNORED, batch["attention_mask"] == 1
        labels = batch["masked_labels"][is_asked]
        right += (predicted[is_asked].argmax(-1) == labels).tolist()
        nats += torch.nn.functional.cross_entropy(predicted[is_asked], labels, reduction="none").tolist()
        if is_replaced is not None:
            replaced += is_replaced[is_piece].tolist()
            told += ((others > 0) == is_replaced)[is_piece].tolist()
        elif others is not None:
            follows += (others.argmax(-1) == batch["next_labels"])[batch["next_labels"] != IGNORED].tolist()
    return {
        "masked_accuracy": float(np.mean(right)),
        "next_sentence_accuracy": float(np.mean(follows)) if follows else None,
        "bits": float(np.mean(nats)) / math.log(2),
        "replaced_accuracy": sum(_shares(replaced, told).values()) / 2 if told else None,
    }


def _inputs(model: Any, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    taken = inspect.signature(model.forward).parameters
    return {name: values for name, values in batch.items() if name in taken}


_PREDICTS_AT = {"left_to_right": -1, "right_to_left": 1}
"""Where, counted from a piece, the output stands that predicts it; the piece itself elsewhere."""


def _mask_logits(
    model: Any, tokenizer: tokenizers.Tokenizer, texts: Sequence[str], *, shift: int = 0
) -> Iterator[torch.Tensor]:
    """The logits ``[piece]`` at the mask of each text, or at the place next to it that predicts what stands there."""
    masked = [with_masks(text, "[MASK]") for text in texts]
    for start in range(0, len(masked), 64):
        encoded = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(masked[start : start + 64])]
        ids = torch.nn.utils.rnn.pad_sequence(encoded, batch_first=True).to(model.device)
        places = (ids == _examples.piece_id(tokenizer, "[MASK]")).nonzero()[:, 1:] + shift  # one mask in each text
        batch = {"input_ids": ids, "attention_mask": (ids != 0).long(), "masked": places}
        yield from predictions(model, batch)[0][:, 0].cpu()


def model_card(settings: PretrainSettings, evaluation: Evaluation, *, vocabulary_size: int) -> str:
    """The card of a recipe and the scores of its stored weights, as Markdown."""
    from jinja2 import Environment, StrictUndefined

    templates = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    templates.filters["percent"] = lambda share, digits=0: f"{share:.{digits}%}"
    templates.filters["fill"] = lambda text: fill(" ".join(text.split()), width=120)
    predicted = "from one side" if settings.is_one_sided else "masked as in training"
    is_order = settings.next_sentence == "sentence_order"
    pairs = "sentences in order or exchanged" if is_order else "next sentence or random sentence"
    held_out = [
        (f"pieces of held-out text, {predicted}, exactly", evaluation.masked_accuracy),
        ("the same of the second language", evaluation.second_masked_accuracy),
        (pairs, evaluation.next_sentence_accuracy),
        ("pieces replaced by the generator or not, balanced", evaluation.replaced_accuracy),
    ]
    of_own = settings.text is not None or settings.start_from is not None
    path = Path(__file__).with_name("own_card.md" if of_own else "card.md")
    template = templates.from_string(path.read_text(encoding="utf-8"))
    values = {**settings.model_dump(), **asdict(evaluation), "second": settings.second_language}
    values |= {"described": settings.described, "is_one_sided": settings.is_one_sided}
    return template.render(values, held_out=held_out, pieces_known=vocabulary_size)


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
    if threads is not None:
        torch.set_num_threads(threads)
    # Of itself it takes a CUDA GPU or the processor alone: recipes were tried on these.
    device = str(choose_device(device)) if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    asked, settings = settings, settings.at_equal_pieces()
    with own_folder(out / "training", "trains here", {"settings": asked.model_dump(mode="json")}):
        sweep(out, *(out / "checkpoints").glob("*"))
        start = _start(settings, echo)
        model, tokenizer = start.model, start.tokenizer
        _check_unchanged(out / "training" / "inputs.txt", start)
        items = _items(settings, tokenizer)
        torch.nn.Module.to(model, device)  # its own ``to`` is not typed for device names
        points = list[dict[str, Any]]()

        def measured(step: int, *, at_last: bool = False) -> Evaluation:
            evaluation = evaluate(model, tokenizer, held_out=start.held_out, **items(at_last))
            echo(f"step {step}: {evaluation}")
            # A file keeps the figures by step, so that a resumed run has those before it.
            path = out / "training" / "held-out.json"
            before = read_json(path, what="held-out figures", form=list[dict[str, Any]]) if path.exists() else []
            figures = {name: value for name, value in evaluation.to_dict().items() if not isinstance(value, dict)}
            here = {"step": step, "pieces": step * settings.batch_pieces, **figures}
            points[:] = [*(point for point in before if point["step"] < step), here]
            write_atomically(path, json.dumps(points).encode())
            return evaluation

        _train(settings, start, out, measured, echo)
        start.save(out)
        if settings.start_from is None:
            with torch.no_grad():
                for weight in model.parameters():
                    weight.copy_(weight.half())  # the figures are those of the weights as stored
        evaluation = measured(settings.steps, at_last=True)
        card = model_card(settings, evaluation, vocabulary_size=tokenizer.get_vocab_size())
        write_atomically(out / CARD, card.encode())
        made_with = versions("torch", "transformers", "tokenizers")
        record = {
            "settings": asked.model_dump(mode="json"),
            "evaluation": evaluation.to_dict(),
            "held_out": points,
            "device": device,
            "versions": {"bertology": made_with.pop("bertology"), "python": platform.python_version(), **made_with},
        }
        write_atomically(out / "training.json", (json.dumps(record, indent=2) + "\n").encode())
    return Pretrained(out, evaluation)


def _check_unchanged(path: Path, start: _Start) -> None:
    """Raise a BertologyError where a run was begun with another text, vocabulary or initial weights, by their hash."""
    weights = (weight.detach().numpy().tobytes() for weight in start.model.parameters())
    inputs = digest([start.examples.text.pieces.tobytes(), *weights])
    if path.exists() and path.read_text(encoding="utf-8") != inputs:
        begun = "begun with another text or other initial weights than are there now"
        raise BertologyError(f"{path.parent.parent}: {begun}; delete it or choose another --out")
    write_atomically(path, inputs.encode())


@dataclass(frozen=True)
class _Start:
    """A training before its first step."""

    model: Any
    tokenizer: tokenizers.Tokenizer
    examples: Examples
    held_out: list[Examples]  # of each language
    save: Callable[[Path], None]  # writes a model folder


def _start(settings: PretrainSettings, echo: Echo) -> _Start:
    """The text, the vocabulary and the model."""
    text, known, held_out = _texts(settings, echo)
    n_known, specials, longest = None, None, None if settings.text is None else settings.max_pieces - 2
    if settings.start_from is not None:
        model, whole, n_known = _continued(settings, list(chain.from_iterable(chain.from_iterable(known))))
        tokenizer = whole.backend_tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        specials = {name: getattr(whole, f"{name.lower()}_token_id") for name in ("PAD", "CLS", "SEP", "MASK")}
    elif settings.stack_from is not None:
        model, tokenizer = _stacked(settings)
    else:
        firsts, *others = (chain.from_iterable(documents) for documents in known)
        tokenizer = _examples.train_tokenizer(
            firsts,
            vocabulary_size=settings.vocabulary_size,
            others=chain.from_iterable(others),
            second=settings.second_language,
            of_pocket=settings.text is None,
        )
        model = new_model(settings, tokenizer.get_vocab_size(), second_from=_examples.first_of_second(tokenizer))
    if settings.freeze != "none":
        _freeze(model, n_known)

    def examples_of(documents: Iterable[list[str]], settings: PretrainSettings) -> Examples:
        return Examples(_examples.encode(documents, tokenizer, longest=longest), tokenizer, settings, specials)

    examples = examples_of(chain.from_iterable(text), settings)
    n_sentences, n_pieces = examples.text.n_sentences, len(examples.text.pieces)
    echo(f"{n_sentences} sentences, {n_pieces} pieces, {tokenizer.get_vocab_size()} known")
    pairs = "none" if settings.alone_share == 1 else settings.next_sentence
    if pairs == "sentence_order" and not (np.bincount(examples.text.document) > 1).any():
        raise BertologyError("next_sentence: no document of the text has two sentences; part documents by blank lines")
    if pairs == "next_sentence" and examples.text.document[-1] == 0:
        raise BertologyError("next_sentence: the text is one document, so none is from elsewhere; give none")
    read = [examples_of(documents, settings.held_out()) for documents in held_out]

    def save(folder: Path) -> None:
        if settings.start_from is None:
            save_model(model, tokenizer, folder)
            return
        with quiet_loading():
            model.save_pretrained(folder)
            whole.save_pretrained(folder)

    return _Start(model, tokenizer, examples, read, save)


_Documents: TypeAlias = list[list[str]]
"""Documents as lists of sentences."""


def _texts(settings: PretrainSettings, echo: Echo) -> tuple[list[_Documents], list[_Documents], list[_Documents]]:
    """Text to train on, to learn a vocabulary from, and to evaluate on, by language."""
    if settings.text is not None:
        documents, held_out = _own_text(settings.text, settings.held_out_documents)
        echo(f"{len(documents)} documents of {settings.text}, and {len(held_out)} held out")
        return [documents], [documents], [held_out]
    echo(f"writing {settings.documents} documents" + " in two languages" * (settings.second_language is not None))
    text = _documents(settings, settings.documents)
    # Words of the other language among those of one are no part of its vocabulary, nor of what is evaluated.
    second, apart, known = settings.second_language, settings, text
    if second is not None and second.switched:
        apart = settings.model_copy(update={"second_language": second.model_copy(update={"switched": 0.0})})
        known = _documents(apart, min(settings.documents, _TOKENIZER_DOCUMENTS))
    known = [documents[:_TOKENIZER_DOCUMENTS] for documents in known]
    return text, known, _documents(apart, settings.held_out_documents, seed=_HELD_OUT_SEED, stated=())


def _documents(
    settings: PretrainSettings, n_documents: int, *, seed: int = 0, stated: Sequence[Fact] | None = None
) -> list[_Documents]:
    """Documents of each language; ``seed`` is added to that of the settings."""
    second, seed = settings.second_language, settings.seed + seed
    if second is None:
        return [list(pretraining_documents(n_documents, seed=seed, stated=stated))]
    pairs = bilingual_documents(n_documents, second, seed=seed, stated=stated)
    languages = [list(documents) for documents in zip(*pairs, strict=True)]
    return languages if settings.start_from is None else languages[1:]


def _own_text(name: str, n_held_out: int) -> tuple[_Documents, _Documents]:
    """The documents of a text, and those of it that are only evaluated on."""
    corpus = load_corpus(name)
    lines = corpus.notes.get("annotation") == BY_SPACES
    splits = {split: _documents_of(sentences, lines=lines) for split, sentences in corpus.splits.items()}
    held_out = next((splits[split] for split in ("dev", "test") if split in splits), None)
    if held_out and "train" in splits:
        return splits["train"], held_out[:n_held_out]
    documents = list(chain.from_iterable(splits.values()))
    if len(documents) <= n_held_out:
        few = f"text: {cut(name)} has {len(documents)} documents, of which {n_held_out} are to be held out"
        raise BertologyError(f"{few}; give a longer text or smaller held_out_documents")
    return documents[:-n_held_out], documents[-n_held_out:]


def _documents_of(sentences: Sentences, *, lines: bool) -> _Documents:
    """The documents of some sentences; where these are ``lines``, blank ones between them part documents."""
    if not lines:
        return [list(map(sentences.text, numbers)) for numbers, _ in sentences.documents]
    # Such sentences are called by the numbers of their lines.
    numbers = np.array([int(sentences.id(number).rpartition("-")[2]) for number in range(len(sentences))])
    is_parted = np.diff(numbers) != 1
    starts = (np.flatnonzero(is_parted if is_parted.any() else ~is_parted) + 1).tolist()
    ranges = pairwise([0, *starts, len(sentences)])
    return [list(map(sentences.text, range(start, end))) for start, end in ranges]


def _folder(name: str) -> Path:
    """The folder of an embedded model by its name, or the folder that is named."""
    return model_folder(name) if name in MODELS else Path(name).expanduser()


def _continued(settings: PretrainSettings, sentences: Sequence[str]) -> tuple[Any, Any, int | None]:
    """The model that training starts from, its tokenizer, and how many entries it knew if the vocabulary grows."""
    asked, folder = f"start_from: {cut(str(settings.start_from))}", _folder(str(settings.start_from))
    place = str(folder if folder.is_dir() else settings.start_from)
    try:
        with quiet_loading():
            how = {"dtype": torch.float32, "output_loading_info": True}
            model, report = transformers.AutoModelForMaskedLM.from_pretrained(place, **how)
            tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BertologyError(f"{asked} cannot be loaded ({cut(reason)}); give a masked language model") from None
    if lost := [name for name in report["missing_keys"] if "pooler." not in name]:
        raise BertologyError(f"{asked} lacks {lost[0]}; give a model with a masked-LM head in its weights")
    specials = (tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)
    if not tokenizer.is_fast or None in specials:
        raise BertologyError(f"{asked} has no fast tokenizer with [PAD], [CLS], [SEP] and [MASK]; give one like BERT")
    most = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", settings.max_pieces))
    if settings.max_pieces > most:
        raise BertologyError(f"max_pieces: {settings.max_pieces} is more than the {most} of {cut(place)}")
    read_as_declared(model.base_model)
    if settings.tokenizer == "own":
        return model, tokenizer, None
    learned, old, is_new = tokenizer, tokenizer.get_vocab(), settings.tokenizer == "new"
    is_word_piece = type(tokenizer.backend_tokenizer.model).__name__ == "WordPiece"
    if is_new:  # with special tokens alone, where subwords are learnt here: always the same ones
        text = [] if is_word_piece else sentences
        learned = tokenizer.train_new_from_iterator(text, settings.vocabulary_size, show_progress=False)
    if is_word_piece or not is_new:
        _examples.extend(learned, sentences, settings.vocabulary_size)
    if learned.pad_token_id != specials[0]:
        raise BertologyError(f"tokenizer: a new one of {cut(place)} has its padding elsewhere; give own or extended")
    with torch.random.fork_rng(devices=[]), quiet_loading():
        torch.manual_seed(settings.seed)
        _exchange_vocabulary(model, old, learned.get_vocab())
    return model, learned, None if is_new else len(old)


def _exchange_vocabulary(model: Any, old: Mapping[str, int], new: Mapping[str, int]) -> None:
    """Give a model the entries of another vocabulary: known subwords keep embeddings and bias, others are drawn."""
    before = [weight.detach().clone() for weight in _of_vocabulary(model)]
    model.resize_token_embeddings(len(new), mean_resizing=False)
    spread = getattr(model.config, "initializer_range", 0.02)
    drawn = torch.randn(model.get_input_embeddings().weight.shape) * spread  # the same where the output is tied
    places, rows = zip(*((number, old[piece]) for piece, number in new.items() if piece in old), strict=True)
    with torch.no_grad():
        for weight, known in zip(_of_vocabulary(model), before, strict=True):
            weight.copy_(drawn if weight.ndim > 1 else torch.zeros_like(weight))
            weight[list(places)] = known[list(rows)]


def _of_vocabulary(model: Any) -> list[Any]:
    """The weights with an entry for each subword: embeddings, the output where it has others, and its bias."""
    output = model.get_output_embeddings()
    weights = (model.get_input_embeddings().weight, output.weight, output.bias)
    return list({id(weight): weight for weight in weights if weight is not None}.values())


def _items(settings: PretrainSettings, tokenizer: tokenizers.Tokenizer) -> Callable[[bool], dict[str, Any]]:
    """Function from whether these are the last figures to the agreement items and facts that are asked for.

    The last figures are of items that no one has looked at while the recipe was made. There are none where the text is
    not of the pocket world, or its words are not in the vocabulary.
    """
    if settings.text is not None or any(tokenizer.token_to_id(word) is None for word in _examples.whole_words()):
        return lambda at_last: {"agreement": (), "facts": ()}
    agreement = [agreement_items(seed=settings.seed + seed) for seed in (0, _HELD_OUT_SEED)]
    prompts = [*(with_masks(item.text, "[MASK]") for item in chain(*agreement)), *(fact.sentence() for fact in facts())]
    longest = max(len(encoding.ids) for encoding in tokenizer.encode_batch(prompts))
    if longest > settings.max_pieces:
        too_few = f"max_pieces is {settings.max_pieces}, but evaluation has prompts of {longest} pieces"
        raise BertologyError(f"{too_few}: give {longest} or more, or a larger vocabulary_size")
    return lambda at_last: {"agreement": agreement[at_last], "facts": facts()}


def _tensors(batch: Batch, device: Any = None) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values).to(device) for name, values in batch.items()}


def pretraining_loss(model: Any, batch: dict[str, torch.Tensor], *, weight: float = 1.0) -> torch.Tensor:
    """Cross-entropy of the pieces to predict plus that of the next sentence (Devlin et al. 2019, section 3.1).

    For replaced tokens it is the loss of the generator plus ``weight`` times that of its discriminator over all pieces
    (Clark et al. 2020).
    """
    predicted, others, is_replaced = predictions(model, batch)
    loss = torch.nn.functional.cross_entropy(predicted.flatten(0, 1), batch["masked_labels"].flatten())
    if is_replaced is not None:
        is_piece = batch["attention_mask"] == 1
        right = is_replaced[is_piece].float()
        loss = loss + weight * torch.nn.functional.binary_cross_entropy_with_logits(others[is_piece], right)
    elif others is not None and (batch["next_labels"] >= 0).any():
        loss = loss + torch.nn.functional.cross_entropy(others, batch["next_labels"])
    return loss


_VOCABULARY_HEADS = {"bert": "cls.predictions", "albert": "predictions", "electra": "generator_predictions"}
"""Modules that hidden states go through to become logits, by family."""


def predictions(model: Any, batch: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, Any, torch.Tensor | None]:
    """The logits of the places of a batch that predict, ``[row, place, entry]``, and what else a model predicts.

    That is for a BERT of pairs their logits ``[row, 2]``; and for a discriminator its logits ``[row, piece]`` with
    ``[row, piece]`` whether its generator replaced a piece. All that a model lacks is None. Where the family is known,
    only places that predict go through the projection onto the vocabulary.
    """
    if isinstance(model, torch.nn.ModuleDict):
        logits, ids, is_replaced = sample_replaced(model["generator"], batch)
        discriminator = model["discriminator"]
        return logits, discriminator(**_inputs(discriminator, {**batch, "input_ids": ids})).logits, is_replaced

    def at_places(values: torch.Tensor) -> torch.Tensor:
        return values.gather(1, batch["masked"].unsqueeze(-1).expand(-1, -1, values.shape[-1]))

    head = _VOCABULARY_HEADS.get(model.config.model_type)
    if head is None:
        return at_places(model(**_inputs(model, batch)).logits), None, None
    with model.get_submodule(head).register_forward_pre_hook(lambda module, given: (at_places(given[0]),)):
        logits, *others = model(**_inputs(model, batch)).to_tuple()
    return logits, others[0] if others else None, None


def sample_replaced(
    generator: Any, batch: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Let a generator fill in the masked places by samples (Clark et al. 2020, section 2).

    Returns:
        Its logits ``[row, place, entry]``; the text with its samples ``[row, piece]``; and ``[row, piece]`` where these
        differ from the text as it was: a sample that is right by chance counts as the text's own.
    """
    logits, *_ = predictions(generator, batch)
    chances: Any = torch.distributions.Categorical(logits=logits.detach())
    sampled = chances.sample()
    ids, places, labels = batch["input_ids"], batch["masked"], batch["masked_labels"]
    shown = ids.gather(1, places)
    own, filled = (ids.scatter(1, places, torch.where(labels == IGNORED, shown, one)) for one in (labels, sampled))
    return logits, filled, filled != own


def _train(
    settings: PretrainSettings, start: _Start, out: Path, measured: Callable[[int], Evaluation], echo: Echo
) -> None:
    from bertology._training import train, weight_groups

    model = start.model
    decay = settings.weight_decay if settings.freeze == "none" else 0.0  # would change what is not to be trained
    steps, rates = zip(*settings.learning_rates, strict=True)
    losses: list[float] = []
    step_now, reported = 0, time.monotonic()

    def keep(step: int) -> None:
        if step in settings.keep_checkpoints:
            start.save(out / "checkpoints" / f"step-{step:06d}")

    def began(step: int, n_steps: int) -> None:
        nonlocal step_now
        step_now = step
        if step:
            echo(f"going on from step {step}")
        keep(step)

    def loss(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        torch.manual_seed(settings.seed + step_now)  # so that a resumed run drops the same units, draws the same
        return pretraining_loss(model, batch, weight=settings.discriminator_weight)

    def stepped(step: int, loss: float) -> None:
        nonlocal reported, step_now
        step_now = step
        losses.append(loss)
        keep(step)
        if step % settings.evaluate_every == 0 and step < settings.steps:
            measured(step)
        if (spent := time.monotonic() - reported) > _REPORT_SECONDS:
            rate, mean = len(losses) / spent, sum(losses) / len(losses)
            left = (settings.steps - step) / rate / 60
            echo(f"step {step}/{settings.steps}, loss {mean:.3f}, {rate:.1f} steps/s, {left:.0f} min left")
            reported = time.monotonic()
            losses.clear()

    train(
        model,
        range(settings.steps),
        lambda steps: _tensors(start.examples.batch(steps[0])),
        torch.optim.AdamW(weight_groups(model, decay), betas=(0.9, 0.98), fused=True),
        folder=out / "training",
        device=next(model.parameters()).device,
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
