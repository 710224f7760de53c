"""Attention maps of a sentence, a pair, or a source and its target: between words or pieces, raw or norm-weighted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology._names import layer_number
from bertology.attention._norms import check_norms
from bertology.attention._pass import LayerMaps
from bertology.attention._ratios import Level
from bertology.corpora import as_sentences
from bertology.encoders import LabelledArray, layers_from_end
from bertology.encoders.alignment import column_weights, row_weights
from bertology.encoders.decoder import DecoderKind, load_sequence_model
from bertology.errors import BertologyError, ModelError

if TYPE_CHECKING:
    from bertology.corpora import Sentence
    from bertology.encoders import Encoder

Maps = NDArray[np.float32]
Weights = Literal["raw", "norm"]
Kind = Literal["encoder"] | DecoderKind
"""Attention of the encoder to itself, or of a decoder."""


@dataclass(frozen=True)
class ShownUnits:
    """Words or pieces, special ones in their places, as they are shown."""

    labels: tuple[str, ...]
    special: tuple[bool, ...]
    segment: tuple[int, ...]  # 0 or 1: the sentence of each; special pieces close the one before them
    word: tuple[int, ...]  # number of its word through the sentences; −1 for special pieces
    spans: tuple[tuple[int, int], ...]  # first piece of each, and the end of its pieces

    @classmethod
    def of(cls, units: Iterable[tuple[tuple[int, int], int, str]], encoding: Any) -> ShownUnits:
        """From the pieces, the word and the label of each."""
        spans, word, labels = zip(*units, strict=True)
        sentences = [*accumulate(encoding.sequence_ids, lambda before, of: before if of is None else of, initial=0)]
        return cls(
            labels=labels,
            special=tuple(encoding.sequence_ids[first] is None for first, _ in spans),
            segment=tuple(sentences[first + 1] for first, _ in spans),
            word=word,
            spans=spans,
        )

    @property
    def breaks(self) -> tuple[int, ...]:
        """Places where another sentence begins."""
        return tuple(place for place in range(1, len(self.segment)) if self.segment[place] != self.segment[place - 1])


@dataclass(frozen=True)
class Input:
    """One input to the model."""

    ids: tuple[int, ...]
    types: tuple[int, ...] | None  # None where the model takes none, or all are 0
    words: ShownUnits
    pieces: ShownUnits
    left_out: tuple[str, ...]  # words for which the tokenizer makes no piece

    def units(self, level: Level) -> ShownUnits:
        """Words or pieces."""
        return self.words if level == "word" else self.pieces

    def members(self, level: Level) -> Tensor:
        """``[unit, piece]`` 1 where a piece belongs to a unit."""
        first, last = torch.tensor(self.units(level).spans).T[:, :, None]
        places = torch.arange(len(self.ids))
        member: Tensor = ((places >= first) & (places < last)).float()
        return member


@dataclass(frozen=True, eq=False)
class AttentionReading:
    """The attention maps of some layers in one sentence, in a pair of sentences, or between a source and its target."""

    sentences: tuple[Sentence, ...]
    """Of cross-attention the source and the target."""
    model: str
    init: str
    heads: Mapping[int, tuple[int, ...]]
    """Heads by layer, both from 1."""
    given: Input
    """What the model is given, whose units are the rows of maps."""
    weights: tuple[Weights, ...]
    """Kinds of weights that were read: raw, or raw and norm-weighted."""
    _maps: Mapping[int, Tensor]
    """``[head, piece, piece]`` raw weights by layer."""
    _norms: Mapping[int, Tensor]
    """``[head, piece]`` ‖f(x)‖ by layer; empty unless norms were read."""
    kind: Kind = "encoder"
    source: Input | None = None
    """Of cross-attention, what the encoder is given, whose units are the columns of maps."""

    @property
    def layers(self) -> tuple[int, ...]:
        """From 1, ascending."""
        return tuple(self.heads)

    def units(self, level: Level) -> ShownUnits:
        """The rows of maps, and the columns unless they are another text's."""
        return self.given.units(level)

    def columns(self, level: Level) -> ShownUnits:
        """The columns of maps."""
        return (self.source or self.given).units(level)

    def maps(self, layer: int, *, level: Level = "word", weights: Weights = "raw") -> Maps:
        """``[head, unit, unit]`` from (rows) to (columns), special tokens in their places.

        Word maps sum over a target word's pieces and average over a source word's (Clark et al. 2019, section 4.1).
        Norm-weighted maps hold ‖α f(x)‖ (Kobayashi et al. 2020); between words it is such norms that are summed.

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
            rows, columns = self.given.members(level), (self.source or self.given).members(level)
            maps = row_weights(rows) @ maps @ column_weights(columns).T
        return maps.numpy()

    def labelled(self, *, level: Level = "word", weights: Weights = "raw") -> LabelledArray:
        """All maps as one array; every layer has the heads of the first.

        Raises:
            BertologyError: these weights were not read.
        """
        rows, columns = self.units(level), self.columns(level)
        labels = {"layer": self.layers, "head": self.heads[self.layers[0]], "from": rows.labels, "to": columns.labels}
        breaks = {"from": rows.breaks, "to": columns.breaks}
        values = np.stack([self.maps(layer, level=level, weights=weights) for layer in self.layers])
        return LabelledArray(values, labels, {}, breaks)


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
    rows = {layer: [head - 1 for head in heads_of] for layer, heads_of in chosen.items()}
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
        init=encoder.init,
        heads=chosen,
        given=given,
        weights=("raw", "norm") if norms else ("raw",),
        _maps=maps,
        _norms=lengths,
    )


def read_decoder_attention(
    encoder: Encoder,
    source: Sentence,
    target: Sentence,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[tuple[int, int]] | None = None,
) -> tuple[AttentionReading, AttentionReading]:
    """Read the cross-attention from a target to its source, and the decoder's attention within the target.

    The decoder is given the target as in training: one piece later than it predicts it, a start token first.

    Args:
        encoder: of an encoder-decoder.
        source: what the encoder reads.
        target: what the decoder reads.
        layers: of the decoder, from 1; all, or those of ``heads``, when left out.
        heads: (layer, head), both from 1; all when left out.

    Raises:
        ModelError: the model has no decoder, or none with such a layer or head, or a text is longer than it takes.
        BertologyError: there is no word in a sentence.
    """
    model = load_sequence_model(encoder)
    chosen = choose_heads(layers, heads, n_layers=model.n_layers, n_heads=model.n_heads)
    given = lay_out(encoder, [source])
    start = str(encoder.tokenizer.convert_ids_to_tokens(model.start_id))
    shifted = _one_later(lay_out(encoder, [target]), model.start_id, start)
    maps = model.attentions(given.ids, shifted.ids)

    def reading(kind: DecoderKind, sentences: tuple[Sentence, ...], columns: Input | None) -> AttentionReading:
        own = {layer: maps[kind][layer][[head - 1 for head in of_layer]] for layer, of_layer in chosen.items()}
        return AttentionReading(
            sentences, encoder.name, encoder.init, chosen, shifted, ("raw",), own, {}, kind=kind, source=columns
        )

    return reading("cross", (source, target), given), reading("decoder", (target,), None)


def _one_later(given: Input, start_id: int, start: str) -> Input:
    """A text as a decoder reads it: a start token first, and without the last piece."""
    n_pieces = len(given.ids)

    def moved(units: ShownUnits) -> ShownUnits:
        kept = [place for place, (first, _) in enumerate(units.spans) if first + 1 < n_pieces]
        spans = [(units.spans[place][0] + 1, min(units.spans[place][1] + 1, n_pieces)) for place in kept]
        return ShownUnits(
            labels=(start, *(units.labels[place] for place in kept)),
            special=(True, *(units.special[place] for place in kept)),
            segment=(0,) * (1 + len(kept)),
            word=(-1, *(units.word[place] for place in kept)),
            spans=((0, 1), *spans),
        )

    return replace(
        given,
        ids=(start_id, *given.ids[:-1]),
        types=None,
        words=moved(given.words),
        pieces=moved(given.pieces),
    )


def labelled_attention(
    encoder: Encoder,
    text: Any,
    second: Any = None,
    *,
    target: Any = None,
    layers: int | Sequence[int] | Literal["all"] = "all",
    level: Level = "word",
) -> LabelledArray:
    """The attention maps of a text, a pair, or a target and its source: see :meth:`bertology.Encoder.attention`."""
    sentences = [as_sentences([one])[0] for one in (text, second, target) if one is not None]
    if target is None:
        n_layers = encoder.n_layers
        chosen = layers_from_end(layers, lowest=1, n_layers=n_layers)
        reading = read_attention(encoder, sentences, layers=chosen)
    elif second is not None:
        raise ModelError("a target belongs to one text: leave the second out")
    else:
        reading, _ = read_decoder_attention(encoder, *sentences)
        n_layers = len(reading.layers)
        chosen = layers_from_end(layers, lowest=1, n_layers=n_layers)
    some = replace(reading, heads={layer: reading.heads[layer] for layer in chosen})
    return replace(some.labelled(level=level), n_layers=n_layers)


def choose_heads(
    layers: Sequence[int] | None, heads: Sequence[tuple[int, int]] | None, *, n_layers: int, n_heads: int
) -> Mapping[int, tuple[int, ...]]:
    """The heads of each layer that is shown, in order; arguments as those of :func:`read_attention`."""
    layers = None if layers is None else [layer_number(layer, n_layers) for layer in layers]
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
    named = product(layers, range(1, n_heads + 1)) if heads is None else heads
    by_layer = groupby(sorted(set(named)), key=itemgetter(0))
    return {layer: tuple(head for _, head in of_layer) for layer, of_layer in by_layer}


def lay_out(encoder: Encoder, sentences: Sequence[Sentence]) -> Input:
    """Pieces of one sentence or two with the model's special tokens around them, and the words among them."""
    for sentence in sentences:
        if not sentence.text.strip() or not sentence.words:
            raise BertologyError("there is no word in the sentence: give some text")
    pieces = encoder.tokenize(sentences)
    backend: Any = encoder.tokenizer.backend_tokenizer
    encoding = backend.encode(*(sentence.text for sentence in sentences))
    _check_length(encoder, encoding, len(sentences))
    spans: list[tuple[int, int] | None] = []
    for number, sentence in enumerate(sentences):
        shift = encoding.sequence_ids.index(number) - encoder.n_prefix
        for word in range(len(spans), len(spans) + len(sentence)):
            span = int(pieces.word_first[word]) + shift, int(pieces.word_last[word]) + shift
            spans.append(span if pieces.word_window[word] >= 0 else None)
    forms = [form for sentence in sentences for form in sentence.words]
    words = [(span, number, forms[number]) for number, span in enumerate(spans) if span]
    of_piece = [-1] * len(encoding.ids)
    # Where two words share a piece, it belongs to the first of them.
    for (first, last), number, _ in reversed(words):
        of_piece[first:last] = [number] * (last - first)
    labels = (_label(encoder, encoding, sentences, place) for place in range(len(of_piece)))
    single = [((place, place + 1), *unit) for place, unit in enumerate(zip(of_piece, labels, strict=True))]
    specials = [unit for unit, of in zip(single, encoding.sequence_ids, strict=True) if of is None]
    highest = max(encoding.type_ids)
    return Input(
        ids=tuple(encoding.ids),
        types=tuple(encoding.type_ids) if 0 < highest < encoder.n_segments else None,
        words=ShownUnits.of(sorted(words + specials, key=lambda unit: (unit[0][0], unit[1])), encoding),
        pieces=ShownUnits.of(single, encoding),
        left_out=tuple(form for form, span in zip(forms, spans, strict=True) if span is None),
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


def _label(encoder: Encoder, encoding: Any, sentences: Sequence[Sentence], place: int) -> str:
    """A piece as a person reads it: byte-level and SentencePiece vocabularies spell white space in their own ways."""
    token, number = str(encoding.tokens[place]), encoding.sequence_ids[place]
    # A mere word-boundary mark is given the character after it as its own.
    if number is None or token.startswith("##") or token in (encoder.tokenizer.unk_token, "▁"):
        return token
    (low, high), text = encoding.offsets[place], sentences[number].text
    surface: str = text[low:high]
    if not surface.strip():
        return token
    continues = low > 0 and not surface[0].isspace() and text[low - 1].isalnum() and surface[0].isalnum()
    return ("##" if continues else "") + surface.strip()
