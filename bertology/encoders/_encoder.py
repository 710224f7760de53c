"""A loaded encoder: what goes in is text or piece numbers, what comes out are the three kinds of signal."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from bertology.corpora import Sentence, Sentences
from bertology.encoders._blocks import gradients_if, run_to_layers
from bertology.encoders._fingerprint import model_fingerprint
from bertology.encoders._finite import check_finite
from bertology.encoders._last_block import states_at
from bertology.encoders._loaded import LoadedModel
from bertology.encoders._mlm import MaskedHead, for_head
from bertology.encoders._next_sentence import NextSentenceHead, load_next_sentence_head
from bertology.encoders._packed import pack_if_faster
from bertology.encoders._pieces import OnLong, Pieces
from bertology.encoders._source import Init, ModelShape, ModelSource
from bertology.encoders._tokenize import PieceReader
from bertology.encoders.interventions import Gates, check_gates, gating, head_projection, need_gradients
from bertology.errors import ModelError


class Encoder:
    """An encoder ready to read. Made by :func:`load_encoder`.

    Layer 0 is the embedding output, layers 1…``n_layers`` are the blocks; heads and the layers of attention maps count
    from 1. Results are on the model's device in its dtype, and carry no gradients unless gates ask for them.
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
        self.name = source.name
        """As the person wrote it."""
        self.source = source
        self.family = shape.family
        self.n_layers = shape.n_layers
        self.dim = shape.dim
        self.n_heads = shape.n_heads
        self.init: Init = init
        self.seed = seed
        self.dtype = dtype
        self.tokenizer = tokenizer
        """The transformers tokenizer, for what is not offered here."""
        self.model = model
        self._reader = reader
        self._eager = eager
        self._gates: dict[tuple[int, int], float | Tensor] = {}

    def __repr__(self) -> str:
        shape = f"{self.n_layers} layers of {self.dim}, {self.n_heads} heads"
        return f"<Encoder {self.name} ({self.family}, {self.init}): {shape}, {self.dtype} on {self.device}>"

    def twin(self) -> Encoder:
        """Another encoder around the same weights, for another thread.

        An encoder is for one thread at a time; make its twins before it runs.

        Raises:
            ModelError: heads are gated. What gates them knows of one pass only, and two threads would disturb it.
        """
        if self.is_gated:
            raise ModelError("heads are gated: make twins before gated_heads, and gate each")
        twin = copy.copy(self)
        twin.model = self.model.twin()
        twin.__dict__.pop("masked_head", None)
        return twin

    def fast_twin(self) -> Encoder:
        """A twin for passes without gradients, on packed weights where those are faster.

        Its hidden states differ from this encoder's in the last digits of float32. Its own twins share those weights.

        Raises:
            ModelError: heads are gated.
        """
        twin = self.twin()
        pack_if_faster(twin.model.body)
        return twin

    @property
    def device(self) -> str:
        """Where the model computes."""
        return str(next(self.model.body.parameters()).device)

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
        """What to fill shorter rows of a batch with, under an attention mask of 0."""
        return self._reader.pad_id

    @property
    def has_masked_lm_head(self) -> bool:
        """Whether :meth:`masked_logits` can be asked."""
        return self.model.with_head is not None

    @cached_property
    def masked_head(self) -> MaskedHead:
        """The masked-LM head in two steps.

        Raises:
            ModelError: the model has none.
        """
        if self.model.with_head is None:
            raise ModelError(f"model {self.name}: no masked-LM head in its weights; choose a masked language model")
        return MaskedHead(self.model.with_head)

    @cached_property
    def next_sentence_head(self) -> NextSentenceHead:
        """The head that says whether one sentence follows another; read from the model's files when first asked for.

        Raises:
            ModelError: the model has none.
        """
        config: Any = self.model.body.config
        return load_next_sentence_head(
            self.source,
            config,
            init=self.init,
            seed=self.seed,
            dtype=getattr(torch, self.dtype),
            device=self.device,
        )

    @cached_property
    def mask_id(self) -> int:
        """Vocabulary number of the mask.

        Raises:
            ModelError: the tokenizer has none.
        """
        if self.tokenizer.mask_token_id is None:
            raise ModelError(f"model {self.name}: its tokenizer has no mask token; choose a masked language model")
        return int(self.tokenizer.mask_token_id)

    @property
    def mask_token(self) -> str:
        """The mask as it stands in text."""
        return str(self.tokenizer.convert_ids_to_tokens(self.mask_id))

    def tokenize(
        self,
        sentences: Sequence[Sentence] | Sentences,
        *,
        on_long: OnLong = "window",
        max_pieces: int | None = None,
    ) -> Pieces:
        """Cut sentences into pieces, as natural text, and align words to them by character offsets.

        A piece that straddles two words belongs to both, one that stands for white space alone (or is a mere
        word-boundary mark) to none. Text that spells a special token (``[MASK]``) is read as that token.

        Args:
            sentences: what to read.
            on_long: what to do with a sentence longer than ``max_pieces``: read it in overlapping windows, each
                word from the one where it has most context; raise; or skip its words.
            max_pieces: pieces in one window, special tokens included, where it is not the model that will read them.

        Raises:
            ModelError: a sentence is too long and ``on_long`` is ``"error"``.
            CorpusError: a text cannot be encoded.
        """
        reader = self._reader if max_pieces is None else replace(self._reader, max_pieces=max_pieces)
        return reader.tokenize(sentences, on_long=on_long)

    def hidden_states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        layers: Sequence[int],
        token_type_ids: Tensor | None = None,
    ) -> dict[int, Tensor]:
        """Hidden states of exactly the layers asked; no block beyond the deepest of them runs.

        Args:
            input_ids: ``[batch, piece]``
            attention_mask: ``[batch, piece]`` 1 for pieces, 0 for padding; leave it out where nothing is padded,
                which is faster.
            layers: 0 for the embeddings, 1…``n_layers`` for the blocks.
            token_type_ids: ``[batch, piece]`` segment of each piece, all 0 when left out.

        Returns:
            ``[batch, piece, dim]`` by layer.

        Raises:
            ModelError: a layer that the model does not have.
            SignalError: hidden states that are not finite.
        """
        wanted = self._check_layers(layers, lowest=0)
        inputs = self._inputs(input_ids, attention_mask, token_type_ids)
        with self._forward():
            states = run_to_layers(self.model.body, self.model.blocks, inputs, wanted)
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
        """Attention maps, from (rows) each piece to (columns) each piece.

        The plain ("eager") attention computes them; a model loaded with the fast one is switched over for the call.

        Args:
            input_ids: ``[batch, piece]``
            attention_mask: ``[batch, piece]``
            layers: from 1, the block that computes the map.
            token_type_ids: ``[batch, piece]``

        Returns:
            ``[batch, head, piece, piece]`` by layer.

        Raises:
            ModelError: a layer that the model does not have, or a model that gives no maps.
            SignalError: maps that are not finite.
        """
        wanted = self._check_layers(layers, lowest=1)
        inputs = self._inputs(input_ids, attention_mask, token_type_ids)
        with self._forward(), self.plain_attention():
            maps = self.model.body(**inputs, return_dict=True, output_attentions=True).attentions
        if maps is None or len(maps) != self.n_layers or any(part is None for part in maps):
            raise ModelError(f"model {self.name}: {type(self.model.body).__name__} gives no attention maps")
        chosen = {layer: maps[layer - 1] for layer in sorted(wanted)}
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
        """What the masked-LM head says at some places; from earlier layers through the same head (the logit lens).

        Only the places asked pass through the head, and only the candidates' rows of its projection. Where the model
        has a final norm before its head (ModernBERT), earlier layers pass it too.

        Args:
            input_ids: ``[batch, piece]``, the mask's number where something is to be predicted.
            positions: ``[place, 2]`` row in the batch and piece in the row.
            attention_mask: ``[batch, piece]``
            layers: the last one when left out.
            candidates: ``[candidate]`` vocabulary numbers to score; all when left out.
            token_type_ids: ``[batch, piece]``

        Returns:
            ``[place, vocabulary]`` or ``[place, candidate]`` logits by layer.

        Raises:
            ModelError: the model has no such head, or a layer is not one of its.
            SignalError: hidden states or logits that are not finite.
        """
        features = self.masked_features(
            input_ids, positions, attention_mask=attention_mask, layers=layers, token_type_ids=token_type_ids
        )
        chosen = None if candidates is None else candidates.to(self.device)
        return {layer: self.vocabulary_logits(given, chosen, layer=layer) for layer, given in features.items()}

    def vocabulary_logits(self, features: Tensor, candidates: Tensor | None = None, *, layer: int) -> Tensor:
        """Logits as of :meth:`masked_logits`, from some of the ``[place, feature]`` of :meth:`masked_features`."""
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
        """What the masked-LM head gives to its projection onto the vocabulary (``masked_head.logits``) at some places.

        Takes and raises what :meth:`masked_logits` does.

        Returns:
            ``[place, feature]`` by layer.
        """
        head = self.masked_head
        wanted = self._check_layers((self.n_layers,) if layers is None else layers, lowest=0)
        inputs = self._inputs(input_ids, attention_mask, token_type_ids)
        body, features = self.model.body, {}
        with self._forward():
            places = positions.to(self.device)
            states = states_at(
                body, self.model.blocks, inputs, wanted, positions=places, family=self.family, n_heads=self.n_heads
            )
            self.check_finite("hidden states", states)
            for layer, state in states.items():
                hidden = for_head(body, state, layer=layer, n_layers=self.n_layers, family=self.family)
                features[layer] = head.features(hidden)
        return features

    def check_finite(self, what: str, signals: Mapping[int, Tensor], *, by_head: bool = False) -> None:
        """Refuse a signal of this model that holds NaN or infinity; see :func:`check_finite`."""
        check_finite(what, signals, name=self.name, model=self.model.outermost, by_head=by_head)

    @property
    def is_gated(self) -> bool:
        """Whether this is inside :meth:`gated_heads`, where one thread reads."""
        return bool(self._gates)

    @contextlib.contextmanager
    def gated_heads(self, gates: Gates) -> Iterator[None]:
        """Scale heads in every pass inside the block: 0 silences a head, 1 leaves it alone.

        Gates may be tensors that require gradients; passes inside the block then record them, and only them (the
        model's own weights never ask for gradients).

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
        """The plain ("eager") attention in every pass inside the block: the one that gives maps.

        Raises:
            ModelError: the model has none.
        """
        return contextlib.nullcontext() if self._eager else self.model.plain_attention(self.name)

    def _forward(self) -> contextlib.AbstractContextManager[Any]:
        return gradients_if(need_gradients(self._gates))

    def _inputs(self, ids: Tensor, mask: Tensor | None, types: Tensor | None) -> dict[str, Tensor]:
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        return {name: value.to(self.device) for name, value in given.items() if value is not None}

    def _check_layers(self, layers: Sequence[int], *, lowest: int) -> frozenset[int]:
        if not layers:
            raise ModelError(f"no layers asked for: the model has {lowest}…{self.n_layers}")
        for layer in layers:
            if not lowest <= layer <= self.n_layers:
                have = f"the model has {self.n_layers}, so layers are {lowest}…{self.n_layers}"
                raise ModelError(f"layer {layer}: {have}")
        return frozenset(int(layer) for layer in layers)
