"""Attention maps of one sentence, or of a pair, as they are shown: between words or pieces, raw or norm-weighted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology.attention._norms import check_norms
from bertology.attention._pass import LayerMaps
from bertology.attention._ratios import Level
from bertology.attention._texts import takes_types
from bertology.encoders import word_attentions
from bertology.errors import BertologyError, ModelError

if TYPE_CHECKING:
    from bertology.corpora import Sentence
    from bertology.encoders import Encoder

Maps = NDArray[np.float32]
Weights = Literal["raw", "norm"]


@dataclass(frozen=True)
class ShownUnits:
    """Words or pieces, special ones in their places, as they are shown."""

    labels: tuple[str, ...]
    """How each is written."""
    special: tuple[bool, ...]
    """Whether each is a special piece."""
    segment: tuple[int, ...]
    """0 or 1: the first sentence or the second; special pieces go with the model's own token types."""
    first: tuple[int, ...]
    """First piece of each."""
    last: tuple[int, ...]
    """End of its pieces, exclusive."""
    word: tuple[int, ...]
    """Number of the word, through the sentences, that each is or belongs to; −1 for special pieces."""


@dataclass(frozen=True)
class Input:
    """One input to the model."""

    ids: tuple[int, ...]
    types: tuple[int, ...] | None
    """Token types, where the model takes them and they are not all 0."""
    words: ShownUnits
    pieces: ShownUnits
    left_out: tuple[str, ...]
    """Words for which the tokenizer makes no piece."""
    gaps: tuple[int, ...]
    """Pieces between those of one word that belong to none: white space."""


@dataclass(frozen=True, eq=False)
class AttentionReading:
    """The attention maps of some layers in one sentence, or in a pair of sentences."""

    sentences: tuple[Sentence, ...]
    model: str
    family: str
    init: str
    heads: Mapping[int, tuple[int, ...]]
    """Heads by layer, both from 1."""
    given: Input
    weights: tuple[Weights, ...]
    """Kinds of weights that were read: raw, or raw and norm-weighted."""
    _maps: Mapping[int, Tensor]
    """``[head, piece, piece]`` raw weights by layer."""
    _norms: Mapping[int, Tensor]
    """``[head, piece]`` ‖f(x)‖ by layer; empty unless norms were read."""

    @property
    def layers(self) -> tuple[int, ...]:
        """From 1, ascending."""
        return tuple(self.heads)

    def units(self, level: Level) -> ShownUnits:
        """The rows and columns of maps."""
        return self.given.words if level == "word" else self.given.pieces

    def maps(self, layer: int, *, level: Level = "word", weights: Weights = "raw") -> Maps:
        """Maps of the heads of a layer, special tokens in their places.

        Word maps sum over a target word's pieces and average over a source word's (Clark et al. 2019, section 4.1).
        Norm-weighted maps hold ‖α f(x)‖ (Kobayashi et al. 2020); between words it is such norms that are summed.

        Args:
            layer: from 1.
            level: between words or between pieces.
            weights: ``raw`` or ``norm``.

        Returns:
            ``[head, unit, unit]`` from (rows) to (columns).

        Raises:
            BertologyError: the layer or these weights were not read.
        """
        if layer not in self.heads:
            raise BertologyError(f"layer {layer} was not read; there are {', '.join(map(str, self.layers))}")
        if weights not in self.weights:
            raise BertologyError("norm-weighted maps were not read: ask for weights='norm'")
        maps = self._maps[layer]
        if weights == "norm":
            maps = maps * self._norms[layer][:, None]
        if level == "word":
            maps = self._between_words(maps)
        return maps.numpy()

    def _between_words(self, maps: Tensor) -> Tensor:
        units = self.given.words
        own = [place for place, special in enumerate(units.special) if not special]
        specials = [units.first[place] for place, special in enumerate(units.special) if special]
        first, last = ([edge[place] for place in own] for edge in (units.first, units.last))
        return word_attentions(maps, first, last, specials=specials, gaps=self.given.gaps)[
            :, self._order[:, None], self._order
        ]

    @cached_property
    def _order(self) -> Tensor:
        """``[unit]`` where each stands where specials come after the words."""
        special = np.array(self.given.words.special)
        places = np.concatenate([np.flatnonzero(~special), np.flatnonzero(special)])
        return torch.from_numpy(np.argsort(places))


def read_attention(
    encoder: Encoder,
    sentences: Sequence[Sentence],
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[tuple[int, int]] | None = None,
    norms: bool = False,
) -> AttentionReading:
    """Read one sentence, or two as the pair that the model takes.

    Args:
        encoder: any that gives attention maps.
        sentences: one or two.
        layers: from 1; all, or those of ``heads``, when left out.
        heads: (layer, head), both from 1; all when left out.
        norms: also read what norm-weighted maps need (Kobayashi et al. 2020).

    Raises:
        ModelError: a layer or head that the model does not have, a text longer than it takes, a model that gives no
            maps or, with ``norms``, of a family whose values are not known.
        BertologyError: there is no word in a sentence.
    """
    if not 1 <= len(sentences) <= 2:
        raise BertologyError(f"{len(sentences)} sentences: give one, or two as a pair")
    chosen = choose_heads(layers, heads, n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    given = lay_out(encoder, sentences)
    if norms:
        check_norms(encoder)
    rows = {layer: [head - 1 for head in own] for layer, own in chosen.items()}
    maps: dict[int, Tensor] = {}
    lengths: dict[int, Tensor] = {}

    def keep(layer: int, weights: Tensor, value_norms: Tensor | None) -> None:
        maps[layer] = weights[0, rows[layer]].float().cpu()
        if value_norms is not None:
            lengths[layer] = value_norms[0, rows[layer]].cpu()

    reader = LayerMaps(encoder, layers=frozenset(chosen), norms=norms)
    with reader.hooked():
        types = None if given.types is None else torch.tensor([given.types])
        reader.run(torch.tensor([given.ids]), None, keep, types=types)
    return AttentionReading(
        sentences=tuple(sentences),
        model=encoder.name,
        family=encoder.family,
        init=encoder.init,
        heads=chosen,
        given=given,
        weights=("raw", "norm") if norms else ("raw",),
        _maps=maps,
        _norms=lengths,
    )


def choose_heads(
    layers: Sequence[int] | None, heads: Sequence[tuple[int, int]] | None, *, n_layers: int, n_heads: int
) -> Mapping[int, tuple[int, ...]]:
    """The heads of each layer that is shown, in order.

    Args:
        layers: from 1; all of the model, or all that ``heads`` name, when left out.
        heads: (layer, head), both from 1; all of ``layers`` when left out.
        n_layers: how many the model has.
        n_heads: how many each of its layers has.

    Raises:
        ModelError: a layer or head that the model does not have, or a head that is in none of ``layers``.
    """
    for layer, head in heads or ():
        name = f"L{layer}H{head}"
        if not 1 <= layer <= n_layers:
            raise ModelError(f"head {name}: the model has {n_layers} layers, so heads are L1… to L{n_layers}…")
        if not 1 <= head <= n_heads:
            raise ModelError(f"head {name}: each layer has {n_heads} heads, so heads are 1…{n_heads}")
        if layers is not None and layer not in layers:
            raise ModelError(f"head {name}: layer {layer} is not among the layers asked for; add it or leave them out")
    if layers is None:
        layers = sorted({layer for layer, _ in heads}) if heads else range(1, n_layers + 1)
    for layer in layers:
        if not 1 <= layer <= n_layers:
            why = ": the embeddings have no attention" if layer == 0 else ""
            raise ModelError(f"layer {layer}{why}; the model has maps of layers 1…{n_layers}")
    if not layers:
        raise ModelError(f"no layers asked for: the model has maps of layers 1…{n_layers}")
    shown = {}
    for layer in sorted(set(layers)):
        own = range(1, n_heads + 1) if heads is None else sorted({head for of, head in heads if of == layer})
        if own:
            shown[layer] = tuple(own)
    return shown


def lay_out(encoder: Encoder, sentences: Sequence[Sentence]) -> Input:
    """Pieces of one sentence or two with the model's special tokens around them, and the words among them.

    Raises:
        ModelError: they are longer than the model takes, or it takes no pairs.
        BertologyError: there is no word in a sentence.
    """
    for sentence in sentences:
        if not sentence.text.strip() or not sentence.words:
            raise BertologyError("there is no word in the sentence: give some text")
    pieces = encoder.tokenize(sentences)
    backend: Any = encoder.tokenizer.backend_tokenizer
    encoding = backend.encode(*(sentence.text for sentence in sentences))
    _check_length(encoder, encoding, len(sentences))
    starts = [encoding.sequence_ids.index(number) for number in range(len(sentences))]
    n_words = np.cumsum([0, *(len(sentence) for sentence in sentences)])
    spans: list[tuple[int, int] | None] = []
    gaps: list[int] = []
    for number, start in enumerate(starts):
        shift = start - encoder.n_prefix
        gaps += [int(place) + shift for place in np.flatnonzero(pieces.window_gaps(number))]
        for word in range(n_words[number], n_words[number + 1]):
            has = pieces.word_window[word] >= 0
            spans.append((int(pieces.word_first[word]) + shift, int(pieces.word_last[word]) + shift) if has else None)
    forms = [form for sentence in sentences for form in sentence.words]
    highest = max(encoding.type_ids)
    return Input(
        ids=tuple(encoding.ids),
        types=tuple(encoding.type_ids) if highest > 0 and takes_types(encoder, highest) else None,
        words=_words(encoding, forms, spans),
        pieces=_pieces(encoder, encoding, sentences, spans, gaps),
        left_out=tuple(form for form, span in zip(forms, spans, strict=True) if span is None),
        gaps=tuple(gaps),
    )


def _check_length(encoder: Encoder, encoding: Any, n_sentences: int) -> None:
    if len(encoding.ids) > encoder.max_pieces:
        both = "the pair has" if n_sentences > 1 else "the sentence has"
        raise ModelError(
            f"{both} {len(encoding.ids)} pieces with special tokens, model {encoder.name} takes {encoder.max_pieces}: "
            "shorten it"
        )
    for number in range(n_sentences):
        if number not in encoding.sequence_ids:
            raise BertologyError("the tokenizer makes no piece of the sentence: give some other text")


def _words(encoding: Any, forms: Sequence[str], spans: Sequence[tuple[int, int] | None]) -> ShownUnits:
    """Words and special pieces in the order of their first piece."""
    segments = encoding.sequence_ids
    entries = [(span, form, number) for number, (form, span) in enumerate(zip(forms, spans, strict=True)) if span]
    own = [((place, place + 1), encoding.tokens[place], -1) for place, of in enumerate(segments) if of is None]
    ordered = sorted([*entries, *own], key=lambda entry: (entry[0][0], entry[2]))
    return ShownUnits(
        labels=tuple(label for _, label, _ in ordered),
        special=tuple(number < 0 for _, _, number in ordered),
        segment=tuple(_segment(encoding, span[0]) for span, _, _ in ordered),
        first=tuple(span[0] for span, _, _ in ordered),
        last=tuple(span[1] for span, _, _ in ordered),
        word=tuple(number for _, _, number in ordered),
    )


def _pieces(
    encoder: Encoder,
    encoding: Any,
    sentences: Sequence[Sentence],
    spans: Sequence[tuple[int, int] | None],
    gaps: Sequence[int],
) -> ShownUnits:
    n_pieces = len(encoding.ids)
    word = [-1] * n_pieces
    for number, span in reversed(list(enumerate(spans))):
        for place in range(*(span or (0, 0))):
            word[place] = -1 if place in gaps else number
    special = tuple(of is None for of in encoding.sequence_ids)
    return ShownUnits(
        labels=tuple(_label(encoder, encoding, sentences, place) for place in range(n_pieces)),
        special=special,
        segment=tuple(_segment(encoding, place) for place in range(n_pieces)),
        first=tuple(range(n_pieces)),
        last=tuple(range(1, n_pieces + 1)),
        word=tuple(word),
    )


def _segment(encoding: Any, place: int) -> int:
    """The sentence a piece stands in; special ones close the sentence before them."""
    before = [of for of in encoding.sequence_ids[: place + 1] if of is not None]
    return int(before[-1]) if before else 0


def _label(encoder: Encoder, encoding: Any, sentences: Sequence[Sentence], place: int) -> str:
    """A piece as a person reads it: byte-level and SentencePiece vocabularies spell white space in their own ways."""
    token, number = str(encoding.tokens[place]), encoding.sequence_ids[place]
    # A mere word-boundary mark is given the character after it as its own.
    if number is None or token.startswith("##") or token in (encoder.tokenizer.unk_token, "▁"):
        return token
    low, high = encoding.offsets[place]
    text = str(sentences[number].text)
    surface: str = text[low:high]
    if not surface.strip():
        return token
    continues = low > 0 and not surface[0].isspace() and text[low - 1].isalnum() and surface[0].isalnum()
    return ("##" if continues else "") + surface.strip()
