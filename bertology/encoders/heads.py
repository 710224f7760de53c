"""Further parts of a model: its masked-LM head applied to any layer, heads of other kinds, its decoder."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bertology._lazy import transformers
from bertology._products import product
from bertology.encoders._modules import check_finite
from bertology.encoders.interventions import StopForward, forward_replaced, is_plain_linear
from bertology.encoders.sources import MemorySource, check_complete, drawn, load_config, pretrained, read_config
from bertology.errors import ModelError

# The norm between the last block and the head, in families whose other hidden states come before it; none elsewhere.
FINAL_NORM: dict[str, str | None] = {
    **dict.fromkeys(("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "mpnet")),
    **dict.fromkeys(("roberta", "xlm-roberta")),
    "modernbert": "final_norm",
    "xlm-roberta-xl": "encoder.LayerNorm",
}

Lens = Callable[[int, Tensor], Tensor]
"""Function from a layer and its ``[place, dim]`` hidden states to the states that the masked-LM head reads."""


class LanguageHead:
    """A model's language-model head in two steps: features of hidden states, and their projection to the vocabulary.

    So a few vocabulary entries are scored by their own rows of the projection, and many layers and places without
    holding all their logits. A head whose last step is no linear map onto the vocabulary stays whole: its features are
    the hidden states themselves.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        last = model.get_output_embeddings()
        self._last: nn.Linear | None = last if is_plain_linear(last) and self._is_apart(last) else None

    @property
    def n_entries(self) -> int:
        """Number of vocabulary entries that it scores, padding of the vocabulary included."""
        return int(self._model.config.vocab_size) if self._last is None else self._last.out_features

    def features(self, hidden: Tensor) -> Tensor:
        """Input of the head's last step ``[place, dim]``, from hidden states of the last layer ``[place, dim]``."""
        return hidden if self._last is None else self._before(self._last, hidden)

    def logits(self, features: Tensor, candidates: Tensor | None = None) -> Tensor:
        """``[place, vocabulary]``, or ``[place, candidate]`` for some vocabulary numbers, from :meth:`features`."""
        if self._last is None:
            whole = head_logits(self._model, features)
            return whole if candidates is None else whole[:, candidates]
        chosen, bias = slice(None) if candidates is None else candidates, self._last.bias
        return product(features, self._last.weight[chosen], None if bias is None else bias[chosen])

    def _before(self, last: nn.Linear, hidden: Tensor) -> Tensor:
        inputs: list[Tensor] = []

        def keep(module: nn.Module, args: tuple[Tensor]) -> None:
            inputs.append(args[0])
            raise StopForward

        with last.register_forward_pre_hook(keep), contextlib.suppress(StopForward):
            head_logits(self._model, hidden)
        return inputs[0][0]

    def _is_apart(self, last: nn.Linear) -> bool:
        """Whether ``last`` alone comes between the features and the logits, found by trial since heads differ."""
        hidden = torch.randn(2, self._model.config.hidden_size, generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            hidden = hidden.to(last.weight)
            whole = head_logits(self._model, hidden)
            try:
                parts = nn.functional.linear(self._before(last, hidden), last.weight, last.bias)
            except (IndexError, RuntimeError):
                # The head never runs its last step as a module, or adds to what it gives.
                return False
            return whole.shape == parts.shape and torch.allclose(whole, parts, rtol=1e-2, atol=1e-2)


def head_logits(model: Any, hidden: Tensor) -> Tensor:
    """``[place, vocabulary]`` logits of a language-model head for ``[place, dim]`` states of the last layer."""
    from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions as Output

    # The model's own forward, with a body that returns ``hidden``: the head is exactly the model's in every family.
    output: Any = Output(last_hidden_state=hidden[None])
    output.global_attentions = None  # which Longformer's head hands on
    body = lambda *_, **__: output  # noqa: E731
    with forward_replaced(model.base_model, body, hooks=False):
        logits: Tensor = model(input_ids=hidden.new_zeros((1, len(hidden))).long(), return_dict=True).logits
    return logits[0]


@dataclass(frozen=True)
class NextSentenceHead:
    """Prediction whether the second sentence of a pair follows the first, from the first piece (Devlin et al. 2019)."""

    name: str
    modules: nn.ModuleDict  # the ``pooler`` and the ``classifier``

    @torch.inference_mode()
    def log_probs(self, hidden: Tensor, *, layer: int) -> Tensor:
        """``[text, 2]`` ln of the probabilities that it follows, that it does not, of ``[text, piece, dim]`` states."""
        logits: Tensor = self.modules["classifier"](self.modules["pooler"](hidden))
        check_finite("next-sentence logits", {layer: logits}, name=self.name, model=self.modules)
        return logits.float().log_softmax(-1)


def read_again(
    encoder: Any, kind: Any, *, counts: Callable[[str], bool] = bool, config: Any = None, **options: Any
) -> Any:
    """The encoder's model loaded with another head class ``kind`` of transformers; random if the encoder is random.

    It is evaluated on the encoder's device, and its weights do not learn. A missing weight for which ``counts`` is true
    raises a ModelError.
    """
    body = encoder.model.body
    config, dtype = config or body.config, next(body.parameters()).dtype
    if encoder.init == "pretrained":
        model, missing = pretrained(kind, encoder.source, config=config, dtype=dtype, **options)
        check_complete(encoder.source, {name for name in missing if counts(name)}, all_count=True)
    else:
        model = drawn(kind, config, encoder.seed, dtype, **options)
    return model.eval().requires_grad_(False).to(encoder.device)


def _read_around(encoder: Any, kind: Any) -> Any:
    """A model with a head around the body of the encoder, whose weights, tied ones too, are held once."""
    body = encoder.model.body
    in_body = {name for name, _ in body.named_parameters()}  # without the name of the body, with which others begin
    counts = lambda name: name.partition(".")[2] not in in_body or "pooler." in name  # noqa: E731
    whole = read_again(encoder, kind, counts=counts)
    setattr(whole, whole.base_model_prefix, body)
    whole.tie_weights()
    return whole


def next_sentence_head(encoder: Any) -> NextSentenceHead:
    """The next-sentence head of a model: of one in memory its own, else that of its files, which must hold it."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING as KNOWN

    name, whole, config = encoder.name, encoder.model.whole, encoder.model.body.config
    if whole is None and type(config) not in KNOWN:
        reason = f"{config.model_type} models were not trained to tell whether a sentence follows"
        raise ModelError(f"model {name}: {reason}; choose one like BERT")
    if whole is None:
        counts = lambda key: "pooler." in key or key[:4] == "cls."  # noqa: E731
        whole = read_again(encoder, transformers.AutoModelForNextSentencePrediction, counts=counts)
    head: Any = getattr(whole, "cls", None)
    ranks = getattr(head, "seq_relationship", None)
    if ranks is None:
        raise ModelError(f"model {name}: a {type(whole).__name__} has no next-sentence head; give a model that has one")
    last = ranks if hasattr(head, "predictions") else head
    return NextSentenceHead(name, nn.ModuleDict({"pooler": whole.base_model.pooler, "classifier": last}))


@dataclass(frozen=True)
class ReplacedTokenHead:
    """Prediction whether each piece of a text was put in the place of another (Clark et al. 2020, section 2)."""

    name: str
    module: nn.Module

    @torch.inference_mode()
    def log_probs(self, hidden: Tensor, *, layer: int) -> Tensor:
        """``[text, piece]`` ln of the probability that a piece is original, of ``[text, piece, dim]`` states."""
        logits: Tensor = self.module(hidden)
        check_finite("replaced-token logits", {layer: logits}, name=self.name, model=self.module)
        return nn.functional.logsigmoid(-logits.float())


def replaced_token_head(encoder: Any) -> ReplacedTokenHead:
    """The head of an ELECTRA discriminator: of one in memory its own, else that of its files, which must hold it."""
    whole, family, name = encoder.model.whole, encoder.family, "discriminator_predictions"
    if whole is None and family == "electra":
        whole = read_again(encoder, transformers.ElectraForPreTraining, counts=lambda key: key.startswith(name))
    head = getattr(whole, name, None)
    if head is None:
        what = f"a model of {family} does not tell replaced tokens" if whole is None else "no replaced-token head"
        raise ModelError(f"model {encoder.name}: {what}; choose an ELECTRA discriminator")
    return ReplacedTokenHead(encoder.name, head)


HeadKind = Literal["sentence", "words", "answers", "choices"]
"""A label or number of a text or a pair, a label of each word, the first and last piece of an answer, or a choice among
several continuations of a text."""
TASK_HEADS: dict[HeadKind, str] = {
    "sentence": "SequenceClassification",
    "words": "TokenClassification",
    "answers": "QuestionAnswering",
    "choices": "MultipleChoice",
}
"""How classes of transformers with such a head are called: ``BertForTokenClassification``."""


def task_head(names: Iterable[str]) -> HeadKind | None:
    """The head for a task that a model has, by the name of its class; None where it has none of :data:`TASK_HEADS`."""
    ends = {f"For{ending}": kind for kind, ending in TASK_HEADS.items()}
    return next((kind for name in names for end, kind in ends.items() if name.endswith(end)), None)


def read_task_model(encoder: Any) -> Any:
    """The model of an encoder with the head of its task, from the files that hold its body; the body is the encoder's.

    A ModelError is raised where no such head is named in ``config.json``, or the weights lack it.
    """
    kind = task_head(getattr(encoder.model.body.config, "architectures", None) or ())
    if kind is None or encoder.model.whole is not None:
        raise ModelError(f"model {encoder.name}: it has no head for a task: give a model that was fine-tuned for one")
    return _read_around(encoder, getattr(transformers, f"AutoModelFor{TASK_HEADS[kind]}"))


def _is_causal(body: Any) -> bool:
    """Whether a model predicts each piece from those before it, by its configuration of transformers, if it has one."""
    from transformers.models.auto import modeling_auto

    config = getattr(body, "config", None)
    is_apart = config is None or getattr(config, "is_encoder_decoder", False)
    if is_apart or type(config) not in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING:
        return False
    # Families of both kinds, such as BERT, are causal where they are configured as decoders.
    return type(config) not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING or bool(getattr(config, "is_decoder", False))


def no_masked_lm(name: str, body: Any, problem: str) -> ModelError:
    """The error where a masked language model is needed."""
    causal = ", or have sentences scored from left to right (--readout left_to_right, cloze --surprisal)"
    other = causal if _is_causal(body) else ""
    if getattr(getattr(body, "config", None), "model_type", "") == "electra":
        other = ", or have a discriminator score sentences (--readout replaced_tokens)"
    return ModelError(f"model {name}: {problem}; choose a masked language model{other}")


def has_causal_head(whole: Any) -> bool:
    """Whether a model of transformers predicts the next piece, and has the head for it."""
    return _is_causal(whole) and whole.get_output_embeddings() is not None


def causal_head(encoder: Any) -> LanguageHead | None:
    """The head of a left-to-right model: of one in memory its own, else that of its files; None of other models."""
    whole, body = encoder.model.whole, encoder.model.body
    if not _is_causal(body if whole is None else whole):
        return None
    if whole is not None and not has_causal_head(whole):
        kind = type(whole).__name__
        raise ModelError(f"model {encoder.name}: a {kind} has no language-model head; give a model that has one")
    return LanguageHead(_read_around(encoder, transformers.AutoModelForCausalLM) if whole is None else whole)


DecoderKind = Literal["cross", "decoder"]
"""Attention from the decoder to the encoder's output (cross), or from the decoder to itself."""


@dataclass(frozen=True, eq=False)
class SequenceModel:
    """A whole encoder-decoder, made by :func:`load_sequence_model`; layers and heads of its decoder count from 1."""

    name: str
    model: Any
    n_layers: int  # blocks of the decoder
    n_heads: int  # heads in each of them
    start_id: int  # vocabulary number of what the decoder reads before the target

    def attentions(self, source: Sequence[int], target: Sequence[int]) -> dict[DecoderKind, dict[int, Tensor]]:
        """Attention maps of the decoder by layer, on the processor in float32, for vocabulary numbers that are read.

        ``cross``: ``[head, target piece, source piece]`` attention to the encoder's output; ``decoder``: ``[head,
        target piece, target piece]``, of each piece to those up to itself. A target has :attr:`start_id` first.
        """
        device = next(self.model.parameters()).device
        ids, labels = (torch.tensor([list(numbers)], device=device) for numbers in (source, target))
        with torch.inference_mode():
            output = self.model(input_ids=ids, decoder_input_ids=labels, output_attentions=True, return_dict=True)
        found: dict[DecoderKind, dict[int, Tensor]] = {}
        read: dict[DecoderKind, Any] = {"cross": output.cross_attentions, "decoder": output.decoder_attentions}
        for kind, maps in read.items():
            by_layer = dict(enumerate(maps, start=1))
            check_finite(f"{kind} attention maps", by_layer, name=self.name, model=self.model, by_head=True)
            found[kind] = {layer: one[0].float().cpu() for layer, one in by_layer.items()}
        return found


def load_sequence_model(encoder: Any) -> SequenceModel:
    """Read the whole encoder-decoder that an encoder is part of, with the plain ("eager") attention, from its files."""
    source, name = encoder.source, encoder.name
    if isinstance(source, MemorySource) or not read_config(source.folder).get("is_encoder_decoder"):
        remedy = "leave the target out, or choose an encoder-decoder such as T5 or BART"
        raise ModelError(f"model {name}: a {encoder.family} model has no decoder to read a target: {remedy}")
    if encoder.init == "random_blocks":
        raise ModelError(f"model {name}: a decoder over random_blocks is not defined: take init random")
    model = read_again(encoder, transformers.AutoModel, config=load_config(source, False), attn_implementation="eager")

    def field(*names: str) -> int:
        """The value of the configuration under the first name that a family has for it."""
        return next(int(value) for name in names if (value := getattr(model.config, name, None)) is not None)

    n_layers = field("decoder_layers", "num_decoder_layers")
    n_heads = field("decoder_attention_heads", "num_decoder_attention_heads", "num_heads")
    return SequenceModel(name, model, n_layers, n_heads, field("decoder_start_token_id", "pad_token_id"))
