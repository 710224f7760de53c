"""A loaded encoder: from text or piece numbers to hidden states, attention maps and masked-LM logits."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from bertology.corpora import Texts
from bertology.encoders import _heads
from bertology.encoders._faster import can_pack, pack, states_at
from bertology.encoders._labelled import LabelledSignals
from bertology.encoders._modules import LoadedModel, check_finite, check_layers, run_to_layers
from bertology.encoders._positions import EncodedInputs
from bertology.encoders.alignment.pieces import OnLong, PieceReader, Pieces
from bertology.encoders.interventions import Gates, check_gates, gating, head_projection
from bertology.encoders.loading.description import Init, ModelShape, ModelSource, model_fingerprint
from bertology.errors import ModelError


class Encoder(LabelledSignals, EncodedInputs):
    """A loaded encoder, made by :func:`load_encoder`.

    Layer 0 is the embedding output, layers 1…``n_layers`` are the blocks; heads and the layers of attention maps count
    from 1. Results are on the model's device in its dtype, and carry no gradients unless gates require them.
    """

    def __init__(
        self,
        source: ModelSource,
        shape: ModelShape,
        model: LoadedModel,
        *,
        tokenizer: Any,
        reader: PieceReader,
        init: Init,
        seed: int,
        dtype: str,
        eager: bool,
    ) -> None:
        self.name, self.source = source.name, source
        self.family, self.n_layers, self.dim, self.n_heads = shape.family, shape.n_layers, shape.dim, shape.n_heads
        self.init: Init = init
        self.seed, self.dtype = seed, dtype
        self.tokenizer = tokenizer
        """The transformers tokenizer, for what is not offered here."""
        self.model, self._reader, self._eager = model, reader, eager
        self.lens: _heads.Lens | None = None
        self._gates: Gates = {}

    def __repr__(self) -> str:
        shape = f"{self.n_layers} layers of {self.dim}, {self.n_heads} heads"
        return f"<Encoder {self.name} ({self.family}, {self.init}): {shape}, {self.dtype} on {self.device}>"

    @classmethod
    def from_model(cls, model: Any, tokenizer: Any, *, name: str | None = None, adapter: Any = None) -> Encoder:
        """A model in memory as it is now, of transformers or any module; see :func:`bertology.encoders.in_memory`."""
        loading = import_module("bertology.encoders")  # by name: what loads encoders imports this class
        encoder: Encoder = loading.load_encoder(loading.in_memory(model, tokenizer, name=name, adapter=adapter))
        return encoder

    def twin(self) -> Encoder:
        """Another encoder with the same weights, for another thread: one encoder serves one thread at a time.

        Raises:
            ModelError: heads are gated.
        """
        if self.is_gated:
            raise ModelError("heads are gated: make twins before gated_heads, and gate each")
        twin = copy.copy(self)
        twin.model = self.model.twin()
        twin.__dict__.pop("masked_head", None)
        return twin

    def through(self, lens: _heads.Lens) -> Encoder:
        """A twin whose masked-LM head reads each layer through a lens: :meth:`masked_features` and what rests on it."""
        twin = self.twin()
        twin.lens = lens
        return twin

    def fast_twin(self) -> Encoder:
        """A twin for passes without gradients, on packed weights where those are faster.

        Its hidden states differ from this encoder's in the last digits of float32. Its own twins share its weights.

        Raises:
            ModelError: heads are gated.
        """
        twin, weight = self.twin(), next(self.model.body.parameters())
        if self.model.is_stock and can_pack(weight.device, weight.dtype):
            pack(twin.model.body)
        return twin

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the model's content; see :func:`model_fingerprint`."""
        return model_fingerprint(self.source, init=self.init, seed=self.seed)

    @property
    def max_pieces(self) -> int:
        """Pieces in one window, special tokens included."""
        return self._reader.max_pieces

    @property
    def n_prefix(self) -> int:
        """Special tokens before the text in every window."""
        return len(self._reader.prefix)

    @property
    def n_suffix(self) -> int:
        """Special tokens after the text in every window."""
        return len(self._reader.suffix)

    @property
    def pad_id(self) -> int:
        """The vocabulary number that pads shorter rows of a batch, under an attention mask of 0."""
        return self._reader.pad_id

    @property
    def has_masked_lm_head(self) -> bool:
        """Whether :meth:`masked_logits` is available."""
        return self.model.with_head is not None

    @cached_property
    def masked_head(self) -> _heads.MaskedHead:
        """The masked-LM head in two steps.

        Raises:
            ModelError: the model has none.
        """
        if self.model.with_head is None:
            raise _heads.no_masked_lm(self.name, self.model.body, "no masked-LM head in its weights")
        return _heads.MaskedHead(self.model.with_head)

    @cached_property
    def next_sentence_head(self) -> _heads.NextSentenceHead:
        """The head that predicts whether one sentence follows another, read from the model's files at first use.

        Raises:
            ModelError: the model has none.
        """
        if self.model.whole is not None:
            return _heads.next_sentence_head_of(self.model.whole, self.name)
        facts: dict[str, Any] = {"dtype": getattr(torch, self.dtype), "device": self.device}
        return _heads.load_next_sentence_head(self.source, self.model.body.config, self.init, self.seed, **facts)

    @cached_property
    def causal_head(self) -> _heads.CausalHead | None:
        """The head that predicts the next piece, read from the model's files at first use; None of other models."""
        if self.model.whole is not None:
            return _heads.causal_head_of(self.model.whole, self.name)
        dtype = getattr(torch, self.dtype)
        return _heads.load_causal_head(self.source, self.model.body, self.init, self.seed, dtype=dtype)

    @cached_property
    def mask_id(self) -> int:
        """Vocabulary number of the mask.

        Raises:
            ModelError: the tokenizer has none.
        """
        if self.tokenizer.mask_token_id is None:
            raise _heads.no_masked_lm(self.name, self.model.body, "its tokenizer has no mask token")
        return int(self.tokenizer.mask_token_id)

    @property
    def mask_token(self) -> str:
        """The mask token."""
        return str(self.tokenizer.convert_ids_to_tokens(self.mask_id))

    def tokenize(self, sentences: Texts, *, on_long: OnLong = "window", max_pieces: int | None = None) -> Pieces:
        """Tokenise sentences as natural text, and align words to pieces by character offsets.

        A piece that straddles two words belongs to both, one of white space alone (or a mere word-boundary mark) to
        the word that follows. Text that spells a special token (``[MASK]``) is read as that token.

        Args:
            sentences: the text: sentences, or plain texts, each of which is one.
            on_long: treatment of a sentence longer than ``max_pieces``: overlapping windows, each word read from the
                one where it has most context; an error; or its words are skipped.
            max_pieces: pieces in one window, special tokens included; as many as the model takes when left out.

        Raises:
            ModelError: a sentence is too long and ``on_long`` is ``"error"``.
            CorpusError: a text cannot be encoded.
        """
        reader = self._reader if max_pieces is None else replace(self._reader, max_pieces=max_pieces)
        return reader.tokenize(sentences, on_long=on_long)

    def first_tokens(self, sentences: Texts, *, on_long: OnLong = "window") -> Pieces:
        """The first special token of each sentence (``[CLS]`` of BERT), which takes the place of words in the pieces.

        Only the first window of a sentence is kept. A sentence without pieces, or left out as too long, is skipped.
        Arguments and errors are those of :meth:`tokenize`; a ModelError, too, where there is no such token.
        """
        return self._reader.first_tokens(sentences, on_long=on_long)

    def hidden_states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        layers: Sequence[int],
        token_type_ids: Tensor | None = None,
        position_shift: Tensor | int = 0,
    ) -> dict[int, Tensor]:
        """Hidden states of some layers; no block beyond the deepest of them runs.

        Args:
            input_ids: ``[batch, piece]``
            attention_mask: ``[batch, piece]`` 1 for pieces, 0 for padding; leave it out where nothing is padded,
                which is faster.
            layers: 0 for the embeddings, 1…``n_layers`` for the blocks.
            token_type_ids: ``[batch, piece]`` segment of each piece, all 0 when left out.
            position_shift: added to the positions of all pieces, or ``[piece]`` to that of each; T5 has none.

        Returns:
            ``[batch, piece, dim]`` by layer.

        Raises:
            ModelError: a layer, or positions, that the model does not have or take.
            SignalError: hidden states that are not finite.
        """
        checked = check_layers(layers, lowest=0, n_layers=self.n_layers)
        inputs = self._inputs(input_ids, attention_mask, token_type_ids, position_shift)
        with self._forward():
            states = run_to_layers(self.model.body, self.model.blocks, inputs, checked)
        self.check_finite("hidden states", states)
        return states

    def attentions(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        layers: Sequence[int],
        token_type_ids: Tensor | None = None,
    ) -> dict[int, Tensor]:
        """``[batch, head, piece, piece]`` attention maps by layer, computed by the plain ("eager") attention.

        They are from (rows) each piece to (columns) each piece. Inputs are those of :meth:`hidden_states`; ``layers``
        count from 1.

        Raises:
            ModelError: a layer that the model does not have, or a model that gives no maps.
            SignalError: maps that are not finite.
        """
        checked = check_layers(layers, lowest=1, n_layers=self.n_layers)
        inputs = self._inputs(input_ids, attention_mask, token_type_ids)
        with self._forward(), self.plain_attention():
            maps = self.model.body(**inputs, return_dict=True, output_attentions=True).attentions
        if maps is None or len(maps) != self.n_layers or any(part is None for part in maps):
            raise ModelError(f"model {self.name}: {type(self.model.body).__name__} gives no attention maps")
        chosen = {layer: maps[layer - 1] for layer in sorted(checked)}
        self.check_finite("attention maps", chosen, by_head=True)
        return chosen

    def masked_logits(
        self,
        input_ids: Tensor,
        positions: Tensor,
        *,
        attention_mask: Tensor | None = None,
        layers: Sequence[int] | None = None,
        candidates: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> dict[int, Tensor]:
        """Logits of the masked-LM head at some places; from earlier layers through the same head (the logit lens).

        Only these places pass through the head, and only the candidates' rows of its projection. Where the model has a
        final norm before its head (ModernBERT), earlier layers pass it too. Further inputs are those of
        :meth:`hidden_states`.

        Args:
            input_ids: ``[batch, piece]`` with :attr:`mask_id` where a piece is to be predicted.
            positions: ``[place, 2]`` row in the batch and piece in the row.
            layers: the last one when left out.
            candidates: ``[candidate]`` vocabulary numbers to score; all when left out.

        Returns:
            ``[place, vocabulary]`` or ``[place, candidate]`` logits by layer.

        Raises:
            ModelError: the model has no such head, or no such layer.
            SignalError: hidden states or logits that are not finite.
        """
        features = self.masked_features(
            input_ids, positions, attention_mask=attention_mask, layers=layers, token_type_ids=token_type_ids
        )
        chosen = None if candidates is None else candidates.to(self.device)
        return {layer: self.vocabulary_logits(vectors, chosen, layer=layer) for layer, vectors in features.items()}

    def vocabulary_logits(self, features: Tensor, candidates: Tensor | None = None, *, layer: int) -> Tensor:
        """The logits of :meth:`masked_logits`, from some ``[place, feature]`` of :meth:`masked_features`."""
        with self._forward():
            logits = self.masked_head.logits(features, candidates)
        self.check_finite("masked-LM logits", {layer: logits})
        return logits

    def masked_features(
        self,
        input_ids: Tensor,
        positions: Tensor,
        *,
        attention_mask: Tensor | None = None,
        layers: Sequence[int] | None = None,
        token_type_ids: Tensor | None = None,
    ) -> dict[int, Tensor]:
        """``[place, feature]`` input, by layer, of the masked-LM head's projection (``masked_head.logits``).

        Arguments and errors are those of :meth:`masked_logits`.
        """
        self.masked_head  # noqa: B018 - raises where there is none
        checked = check_layers((self.n_layers,) if layers is None else layers, lowest=0, n_layers=self.n_layers)
        inputs = self._inputs(input_ids, attention_mask, token_type_ids)
        with self._forward():
            places = positions.to(self.device)
            states = states_at(self.model, inputs, checked, places, family=self.family, n_heads=self.n_heads)
            self.check_finite("hidden states", states)
            return {layer: self.head_features(state, layer=layer) for layer, state in states.items()}

    def head_features(self, states: Tensor, *, layer: int) -> Tensor:
        """``[place, feature]`` of ``[place, dim]`` hidden states of a layer, seen through the lens where there is one.

        Gradients pass where they are recorded.

        Raises:
            ModelError: the model has no masked-LM head, or it is not known how its head reads lower layers.
        """
        seen = states if self.lens is None else self.lens(layer, states)
        return self.masked_head.features(_heads.for_head(self.model, seen, layer=layer, family=self.family))

    def class_logits(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, *, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """Logits ``[batch, class]`` of the sequence classifier of an encoder from :func:`load_classifier`.

        Raises:
            ModelError: the encoder has no classifier.
            SignalError: logits that are not finite.
        """
        if self.model.classifier is None:
            raise ModelError(f"model {self.name} has no classifier of texts: load one with load_classifier")
        with self._forward():
            inputs = self._inputs(input_ids, attention_mask, token_type_ids)
            logits: Tensor = self.model.classifier(**inputs, return_dict=True).logits
        self.check_finite("class logits", {self.n_layers: logits})
        return logits

    def check_finite(self, what: str, signals: Mapping[int, Tensor], *, by_head: bool = False) -> None:
        """Raise a ``SignalError`` for a signal of this model, by layer, that holds NaN or infinity."""
        check_finite(what, signals, name=self.name, model=self.model.outermost, by_head=by_head)

    @property
    def is_gated(self) -> bool:
        """Whether heads are scaled by :meth:`gated_heads`."""
        return bool(self._gates)

    @contextlib.contextmanager
    def gated_heads(self, gates: Gates) -> Iterator[None]:
        """Scale heads in every pass inside the context: 0 silences a head, 1 leaves it as it is.

        Gates may be tensors that require gradients; passes inside the context then record gradients of these alone.

        Args:
            gates: by (layer, head), both from 1: one number, or ``[batch]`` one for each row of the batch.

        Raises:
            ModelError: a head that the model does not have, or gates inside gates.
        """
        if self.is_gated:
            raise ModelError("heads are gated already: give all gates to one gated_heads")
        check_gates(gates, n_layers=self.n_layers, n_heads=self.n_heads)
        head_projection(self.model.blocks[0], self.family)
        self._gates = dict(gates)
        try:
            with gating(self.model.body, self.model.blocks, gates, n_heads=self.n_heads, family=self.family):
                yield
        finally:
            self._gates = {}

    def plain_attention(self) -> contextlib.AbstractContextManager[None]:
        """The plain ("eager") attention, which gives maps, in every pass inside the context.

        Raises:
            ModelError: the model has none.
        """
        return contextlib.nullcontext() if self._eager else self.model.plain_attention(self.name)

    def _forward(self) -> contextlib.AbstractContextManager[Any]:
        """Gradients are recorded for gates that require them alone."""
        need_gradients = any(isinstance(gate, Tensor) and gate.requires_grad for gate in self._gates.values())
        return torch.enable_grad() if need_gradients else torch.inference_mode()
