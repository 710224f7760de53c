"""The viewer: a sentence, a pair, or a source and its target in; one HTML page out, as a file or in a notebook.

Maps are read between pieces and shown between words or pieces, raw, norm-weighted, or by their effect on a prediction;
in the page they are packed into bytes.
"""

import base64
import gzip
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from html import escape
from itertools import accumulate, compress, pairwise, product
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology._lazy import figures
from bertology._names import check_name, folder_name
from bertology._page import ShownPage, asset, full_page
from bertology.attention import maps as streaming
from bertology.corpora import Sentence, Sentences, Text, as_sentence, as_sentences
from bertology.encoders import Encoder, LabelledArray, open_encoder
from bertology.encoders.alignment import column_weights, row_weights
from bertology.encoders.heads import DecoderKind, load_sequence_model
from bertology.encoders.sources import layers_from_end
from bertology.errors import BertologyError, ModelError, NameNotFoundError, ResultsError, quoted
from bertology.measures.sums import Level

Maps = NDArray[np.float32]
Weights = Literal["raw", "norm", "effect"]
Kind = Literal["encoder"] | DecoderKind
"""Attention of the encoder to itself, or of a decoder."""

_HEIGHT = 760
_HEAD = re.compile(r"L([0-9]{1,9})H([0-9]{1,9})", re.IGNORECASE)
_LABELS: dict[Weights, str] = {
    "raw": "attention weight",
    "norm": "norm of what is added, ‖α f(x)‖",
    "effect": "effect on the prediction, α ∂/∂α where it is positive",
}
LEVELS: tuple[Level, ...] = ("word", "piece")
MOST_CELLS = 4_000_000
"""Weights that one page holds: a few megabytes once they are packed."""
_LEVEL = 6
_HERE = "attention/assets/"
# In this order, for each uses those before it.
_PARTS = "start maps pens pictures strokes tiles model heads matrix word panels stage search controls export outside"
_SCRIPTS = ("assets/drawn.js", *(f"{_HERE}{name}.js" for name in _PARTS.split()))


class Prediction(Protocol):
    """What weights have an effect on: a :class:`bertology.causal.Target`."""

    def scored(
        self, encoder: Encoder, sentences: Sequence[Sentence]
    ) -> tuple[str, NDArray[np.int64], Callable[[], Tensor]]:
        """The name of the score of a text, or of a pair; its subwords; and the score, from which gradients flow."""


@dataclass(frozen=True, eq=False)
class AttentionView(ShownPage):
    """The page of one reading or several; shows itself in a notebook."""

    panels: "tuple[tuple[AttentionReading, ...], ...]"
    """Panels side by side, each with its readings of one or several kinds of attention; the first is shown first."""
    level: Level = "word"  # shown first
    weights: Weights = "raw"  # shown first
    threshold: float = 0.0  # weights below it are not drawn at first
    page_title, page_height = "Attention", _HEIGHT

    @property
    def reading(self) -> "AttentionReading":
        """The reading that is shown first."""
        return self.panels[0][0]

    @cached_property
    def html(self) -> str:
        """The page as text; it makes no request, and its content security policy allows none."""
        values, maps = payload(self.panels, level=self.level, weights=self.weights, threshold=self.threshold)
        panels = values["panels"]
        text, between = " ".join(panels[0]["texts"]), {"pair": " ", "target": " → "}
        # Each text once: of cross-attention a source and its target.
        said = (between[one["between"]].join(f"<q>{escape(text)}</q>" for text in one["texts"]) for one in panels)
        # Last in the page, after the script: what is seen first is drawn while they are still being read.
        parts = (f'<script type="text/plain" id="map-{name}">{content}</script>' for name, content in maps.items())
        return full_page(
            _HERE + "page.html",
            title=f"Attention: {text[:60]}{'…' if len(text) > 60 else ''}",
            styles=[_HERE + "viewer.css"],
            scripts=_SCRIPTS,
            values={
                "texts": " · ".join(dict.fromkeys(said)) + " ",
                "model": escape(" and ".join(dict.fromkeys(panel["model"] for panel in panels))),
                "predictions": escape(" · ".join(reading.prediction for reading, *_ in self.panels)),
                "maps": "\n".join(parts),
            },
            data=values,
        )

    def plot(self) -> "figures.ShownFigure":
        """The one head that was chosen as a labelled heatmap, of two panels side by side; see :func:`plot_head`.

        Raises:
            ResultsError: there are several heads, or a text is too long for a figure.
        """
        from bertology.results.figures import plot_head

        maps, titles = [], []
        for reading, *_ in self.panels:
            if reading.n_maps != 1:
                raise ResultsError(f"{reading.n_maps} heads: a figure shows one head, chosen as in heads='L2H1'")
            ((layer, (head,)),) = reading.heads.items()
            maps.append(reading.labelled(level=self.level, weights=self.weights).at(layer=layer, head=head))
            titles.append(f"L{layer}H{head} of {folder_name(reading.model)}")
        return plot_head(maps, title=titles, label=_LABELS[self.weights])

    def widget(self, **state: Any) -> Any:
        """The page as a widget for notebooks, whose ``state`` is what is shown and can be set.

        Args:
            state: what to show first: ``view`` (``model``, ``heads``, ``matrix``, ``word``), ``kind`` (``encoder``,
                ``cross``, ``decoder``), ``layer``, ``heads`` (numbers), ``word`` (its place), ``panel`` (in which of
                two, from 0), ``head``, ``side``, ``level``, ``weights``, ``specials``, ``part`` of a pair (``all``,
                ``aa``, ``ab``, ``ba``, ``bb``), ``threshold``, ``search``, ``gold``.

        Raises:
            BertologyError: anywidget is not installed.
        """
        try:
            import anywidget
            import traitlets
        except ImportError:
            raise BertologyError("a widget needs anywidget: pip install 'bertology[notebook]'") from None

        class AttentionWidget(anywidget.AnyWidget):
            """The attention of a sentence; :attr:`state` is what is looked at, on both sides."""

            _esm = asset("attention/assets/widget.js")
            page = traitlets.Unicode().tag(sync=True)
            state = traitlets.Dict().tag(sync=True)
            height = traitlets.Int(_HEIGHT).tag(sync=True)

        return AttentionWidget(page=self.html, state=state)


def view(
    sentence: str | Sentence | Sequence[Text],
    second: Text | None = None,
    *,
    target: Text | None = None,
    model: str | Path | Encoder | tuple[Any, Any] | list[Any] = "pocket",
    layers: Sequence[int] | None = None,
    heads: str | Sequence[str] | None = None,
    level: Level = "word",
    weights: Weights = "raw",
    prediction: Prediction | None = None,
    threshold: float = 0.0,
    language: str | None = None,
    split_at_spaces: bool = False,
) -> AttentionView:
    """Draw the attention maps of a sentence as a page.

    >>> from bertology.attention import view
    >>> view("The farmers near the river see the dog.")  # doctest: +SKIP
    >>> from bertology.causal import Target
    >>> view("a film to remember", model="tuned/seed-1", prediction=Target("label"))  # doctest: +SKIP

    Args:
        sentence: a text, or an annotated sentence: if it has heads, its dependencies are drawn as well. Several in a
            list, at most two, are shown side by side; there a list of words is a text as well.
        second: a second text, read with the first as the pair that the model takes.
        target: text that the decoder of an encoder-decoder (T5, BART) reads: the page then shows cross-attention, from
            the target to the sentence, and both texts' own.
        model: ``pocket``, a folder, a hub id, a loaded encoder, or a transformers model and its tokenizer. Two in a
            list are shown side by side.
        layers: from 1; all, or those of ``heads``, when left out.
        heads: names with commas, ``L8H10,L3H2``, or in a sequence; all when left out.
        level: ``word`` or ``piece``, whichever is shown first; the page switches between them.
        weights: ``raw``, ``norm`` (‖α f(x)‖, Kobayashi et al. 2020) or ``effect``, whichever are shown first; the page
            switches between them where the model's family is known. For long sentences a page holds only the level and
            weights given here.
        prediction: what ``effect`` is on, such as the label that a classifier predicts: each weight × the gradient of
            its score, where that is positive (Chefer et al. 2021, equation 5, by head). The page gives the score.
        threshold: weights below it are not drawn at first, a share of 1; by norm or effect, of the strongest.
        language: language of the texts, such as ``en``, whose rules find their words.
        split_at_spaces: whether words are separated by spaces instead.

    Returns:
        The page: shows itself in a notebook, and has ``.save(path)``.

    Raises:
        BertologyError: there is no word in a sentence, it is longer than the model takes, or the model has no such
            layer or head, gives no maps, has no decoder for a target, or is of a family whose norms are not known.
    """
    for what, name, known in (("level", level, LEVELS), ("weights", weights, get_args(Weights))):
        check_name(what, name, known)
    if not 0 <= threshold <= 1:
        raise BertologyError(f"threshold {threshold}: give a share from 0 to 1, such as 0.1")
    sentence_of = partial(as_sentence, language=language, split_at_spaces=split_at_spaces)
    several: Sequence[Any] = sentence if isinstance(sentence, list | tuple) else [sentence]
    texts, models = list(map(sentence_of, several)), model if isinstance(model, list) else [model]
    if not 1 <= len(texts) * len(models) <= 2:
        raise BertologyError(f"{len(texts)} texts and {len(models)} models: give one of each, or two of one of them")
    if (len(texts) > 1) + (second is not None) + (target is not None) > 1:
        raise BertologyError("two texts side by side, a second one and a target exclude one another: give one of them")
    if prediction is None and weights == "effect":
        raise BertologyError("weights effect: name the prediction that they are on, such as label=negative")
    if prediction is not None and target is not None:
        raise BertologyError("a prediction is one of the encoder: leave out the target, which the decoder reads")
    named = None if heads is None else parse_heads(heads)
    encoders = [open_encoder(one) for one in models]
    norms = weights == "norm" or (target is None and all(map(streaming.knows_norms, encoders)))
    panels: list[tuple[AttentionReading, ...]] = []
    for encoder, text in product(encoders, texts):
        if target is None:
            both = [text] if second is None else [text, sentence_of(second)]
            how: dict[str, Any] = {"layers": layers, "heads": named, "norms": norms, "prediction": prediction}
            panels.append((read_attention(encoder, both, **how),))
            continue
        if norms:
            streaming.check_norms(encoder)
        of_decoder = read_decoder_attention(encoder, text, sentence_of(target), layers=layers, heads=named)
        # Layers and heads are those of the decoder, and of the encoder those that it has.
        n_layers, n_heads = encoder.n_layers, encoder.n_heads
        own = None if layers is None else [layer for layer in layers if layer <= n_layers]
        own_heads = named and [(layer, head) for layer, head in named if layer <= n_layers and head <= n_heads]
        has_none = own == [] or own_heads == []
        of_encoder = () if has_none else (read_attention(encoder, [text], layers=own, heads=own_heads),)
        panels.append((*of_decoder, *of_encoder))
    return AttentionView(tuple(panels), level, weights, threshold)


def parse_heads(spec: str | Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Heads by name, such as ``L8H10``, in a sequence or with commas, as (layer, head), both from 1."""
    names = [name.strip() for name in (spec.split(",") if isinstance(spec, str) else spec) if name.strip()]
    if not names:
        raise NameNotFoundError("no heads: name them by layer and head, both from 1, such as L8H10,L3H2")
    heads = set()
    for name in names:
        match = _HEAD.fullmatch(name)
        if match is None:
            raise NameNotFoundError(f"head {quoted(name)}: write its layer and number, both from 1, such as L8H10")
        heads.add((int(match[1]), int(match[2])))
    return tuple(sorted(heads))


@dataclass(frozen=True, eq=False)
class ShownUnits:
    """Words or pieces, special ones in their places, as they are shown."""

    labels: tuple[str, ...]
    special: tuple[bool, ...]
    segment: tuple[int, ...]  # 0 or 1: the sentence of each; special pieces close the one before them
    word: tuple[int, ...]  # number of its word through the sentences; −1 for special pieces
    member: Tensor  # [unit, piece] 1 where a piece belongs to a unit

    def serialised(self) -> dict[str, list[Any]]:
        """The units as the page's script takes them."""
        numbers = {"special": list(map(int, self.special)), "segment": list(self.segment), "word": list(self.word)}
        return {"labels": list(self.labels), **numbers}


@dataclass(frozen=True, eq=False)
class Input:
    """One input to the model."""

    ids: tuple[int, ...]
    types: tuple[int, ...] | None  # none where the model takes none, or all are 0
    units: Mapping[Level, ShownUnits]
    left_out: tuple[str, ...]  # words for which the tokenizer makes no piece

    def shifted(self, start_id: int, start: str) -> "Input":
        """What a decoder reads: a start token first, and no last piece."""
        units: dict[Level, ShownUnits] = {}
        for level, own in self.units.items():
            member = nn.functional.pad(own.member[:, :-1], (1, 0))
            kept, first = member.any(1).tolist(), torch.eye(1, len(self.ids))
            whole = torch.cat([first, member[kept]])
            labels, special = (start, *compress(own.labels, kept)), (True, *compress(own.special, kept))
            word = (-1, *compress(own.word, kept))
            units[level] = ShownUnits(labels, special, (0,) * len(whole), word, whole)
        return replace(self, ids=(start_id, *self.ids[:-1]), types=None, units=units)


@dataclass(frozen=True, eq=False)
class AttentionReading:
    """The attention maps of some layers in one sentence, in a pair of sentences, or between a source and its target."""

    sentences: tuple[Sentence, ...]  # for cross-attention the source and the target
    model: str
    init: str
    heads: Mapping[int, tuple[int, ...]]  # by layer, both from 1
    given: Input  # of the model; its units are the rows of maps
    _maps: Mapping[int, Tensor]  # [head, piece, piece] raw weights by layer
    _norms: Mapping[int, Tensor]  # [head, piece] ‖f(x)‖ by layer; empty unless norms were read
    _slopes: Mapping[int, Tensor] = field(default_factory=dict)  # [head, piece, piece] of the score; empty without one
    prediction: str = ""  # the score and its name
    kind: Kind = "encoder"
    source: Input | None = None  # for cross-attention, the input of the encoder; its units are the columns of maps

    @property
    def weights(self) -> tuple[Weights, ...]:
        """Kinds of weights that were read."""
        found: tuple[Weights, ...] = ("raw", "norm") if self._norms else ("raw",)
        return (*found, "effect") if self._slopes else found

    def size(self, level: Level) -> tuple[int, int]:
        """Numbers of rows and columns of a map."""
        return len(self.units(level).labels), len(self.columns(level).labels)

    @property
    def n_maps(self) -> int:
        """Number of heads of all layers."""
        return sum(map(len, self.heads.values()))

    def units(self, level: Level) -> ShownUnits:
        """The rows of maps, and the columns unless they are another text's."""
        return self.given.units[level]

    def columns(self, level: Level) -> ShownUnits:
        """The columns of maps."""
        return (self.source or self.given).units[level]

    def maps(self, layer: int, *, level: Level = "word", weights: Weights = "raw") -> Maps:
        """``[head, unit, unit]`` from (rows) to (columns), special tokens in their places.

        Word maps sum over a target word's pieces and average over a source word's (Clark et al. 2019, section 4.1).
        Norm-weighted maps hold ‖α f(x)‖ (Kobayashi et al. 2020); between words it is such norms that are summed.
        Effects on the prediction are summed over all pieces of both words, then taken where they are positive.
        """
        maps = self._maps[layer]
        if weights == "effect":
            effects = maps * self._slopes[layer]
            if level == "word":
                effects = self.units(level).member @ effects @ self.columns(level).member.T
            return effects.clamp_min(0).numpy()
        if weights == "norm":
            maps = maps * self._norms[layer][:, None]
        if level == "word":
            maps = row_weights(self.units(level).member) @ maps @ column_weights(self.columns(level).member).T
        return maps.numpy()

    def labelled(self, *, level: Level = "word", weights: Weights = "raw") -> LabelledArray:
        """All maps as one array; every layer has the heads of the first."""
        sides = {"from": self.units(level), "to": self.columns(level)}
        labels: dict[str, Any] = {"layer": tuple(self.heads), "head": next(iter(self.heads.values()))}
        labels |= {side: units.labels for side, units in sides.items()}
        pairs = {side: enumerate(pairwise(units.segment), start=1) for side, units in sides.items()}
        breaks = {side: tuple(place for place, (a, b) in of_side if a != b) for side, of_side in pairs.items()}
        values = np.stack([self.maps(layer, level=level, weights=weights) for layer in self.heads])
        return LabelledArray(values, labels, {}, breaks)


def read_attention(
    encoder: Encoder,
    sentences: Sequence[Sentence],
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[tuple[int, int]] | None = None,
    norms: bool = False,
    prediction: Prediction | None = None,
) -> AttentionReading:
    """Read some layers and heads, both from 1, in one sentence, or in two as the pair that the model takes.

    With ``norms`` also what norm-weighted maps need (Kobayashi et al. 2020), and with a ``prediction`` the gradients of
    its score. All layers, or those of ``heads``, and all heads are read when left out.

    Raises:
        ModelError: a layer or head that the model does not have, a text longer than it takes, a model that gives no
            maps or, with ``norms``, of a family whose values are not known.
        BertologyError: there is no word in a sentence.
    """
    chosen = choose_heads(layers, heads, n_layers=encoder.n_layers, n_heads=encoder.n_heads)
    given = lay_out(encoder, sentences)
    if norms:
        streaming.check_norms(encoder)
    rows = {layer: [head - 1 for head in heads_of] for layer, heads_of in chosen.items()}
    maps: dict[int, Tensor] = {}
    lengths: dict[int, Tensor] = {}

    def keep(layer: int, weights: Tensor, values: streaming.HeadValues | None) -> None:
        maps[layer] = weights[0, rows[layer]].float().cpu()
        if values is not None:
            lengths[layer] = values.lengths[0, rows[layer]].cpu()

    with streaming.reading_maps(encoder, list(chosen), norms=norms) as run:
        types = None if given.types is None else torch.tensor([given.types])
        run(torch.tensor([given.ids]), None, keep, types=types)
    told, slopes = "", dict[int, Tensor]()
    if prediction is not None:
        told, found = _gradients(encoder, sentences, given, prediction)
        slopes = {layer: found[layer][of_layer] for layer, of_layer in rows.items()}
    return AttentionReading(
        sentences=tuple(sentences),
        model=encoder.name,
        init=encoder.init,
        heads=chosen,
        given=given,
        _maps=maps,
        _norms=lengths,
        _slopes=slopes,
        prediction=told,
    )


def _gradients(
    encoder: Encoder, sentences: Sequence[Sentence], given: Input, prediction: Prediction
) -> tuple[str, dict[int, Tensor]]:
    """The score of a prediction in words, and ``[head, piece, piece]`` its gradients with respect to maps, by layer."""
    name, ids, score = prediction.scored(encoder, sentences)
    if tuple(ids.tolist()) != given.ids:
        raise ModelError(f"model {encoder.name}: the prediction is of other pieces than those of the maps")
    value, maps, slopes = streaming.maps_with_gradients(encoder, score)
    if all(one is None for one in slopes.values()):
        raise ModelError(f"model {encoder.name}: its maps are not what the prediction is computed from")
    found = {layer: torch.zeros_like(maps[layer]) if one is None else one for layer, one in slopes.items()}
    encoder.check_finite("gradients of attention maps", found, by_head=True)
    return f"{name} = {value:.2f}", {layer: one[0].float().cpu() for layer, one in found.items()}


def read_decoder_attention(
    encoder: Encoder,
    source: Sentence,
    target: Sentence,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[tuple[int, int]] | None = None,
) -> tuple[AttentionReading, AttentionReading]:
    """Read the cross-attention from a target to its source, and the decoder's attention within the target.

    The decoder is given the target as in training: one piece later than it predicts it, a start token first. Layers
    and heads are those of the decoder; the errors are those of :func:`read_attention`, or the model has no decoder.
    """
    model = load_sequence_model(encoder)
    chosen = choose_heads(layers, heads, n_layers=model.n_layers, n_heads=model.n_heads)
    given, unshifted = lay_out(encoder, [source]), lay_out(encoder, [target])
    shifted = unshifted.shifted(model.start_id, str(encoder.tokenizer.convert_ids_to_tokens(model.start_id)))
    maps = model.attentions(given.ids, shifted.ids)

    def reading(kind: DecoderKind, sentences: tuple[Sentence, ...], columns: Input | None) -> AttentionReading:
        own = {layer: maps[kind][layer][[head - 1 for head in of_layer]] for layer, of_layer in chosen.items()}
        return AttentionReading(
            sentences, encoder.name, encoder.init, chosen, shifted, own, {}, kind=kind, source=columns
        )

    return reading("cross", (source, target), given), reading("decoder", (target,), None)


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
    if target is not None and second is not None:
        raise ModelError("a target belongs to one text: leave the second out")
    reading = None if target is None else read_decoder_attention(encoder, *sentences)[0]
    n_layers = encoder.n_layers if reading is None else len(reading.heads)
    chosen = layers_from_end(layers, lowest=1, n_layers=n_layers)
    some = reading or read_attention(encoder, sentences, layers=chosen)
    some = replace(some, heads={layer: some.heads[layer] for layer in chosen})
    return replace(some.labelled(level=level), n_layers=n_layers)


def choose_heads(
    layers: Sequence[int] | None, heads: Sequence[tuple[int, int]] | None, *, n_layers: int, n_heads: int
) -> Mapping[int, tuple[int, ...]]:
    """The heads of each layer that is shown, in order; arguments as those of :func:`read_attention`."""
    of_heads = sorted({layer for layer, _ in heads}) if heads else None
    chosen = streaming.checked_layers(n_layers, of_heads if layers is None else layers)
    for layer, head in heads or ():
        if layer not in chosen or not 1 <= head <= n_heads:
            there = f"layers {', '.join(map(str, chosen))} of {n_heads} heads"
            raise ModelError(f"head L{layer}H{head}: there are {there}, both numbered from 1")
    named = sorted(set(product(chosen, range(1, n_heads + 1)) if heads is None else heads))
    return {layer: tuple(head for of, head in named if of == layer) for layer in sorted({layer for layer, _ in named})}


def lay_out(encoder: Encoder, sentences: Sequence[Sentence]) -> Input:
    """Pieces of one sentence or two with the model's special tokens around them, and the words among them."""
    backend: Any = encoder.tokenizer.backend_tokenizer
    encoding = backend.encode(*(sentence.text for sentence in sentences))
    if len(encoding.ids) > encoder.max_pieces:
        problem = f"{len(encoding.ids)} pieces with special tokens, model {encoder.name} takes {encoder.max_pieces}"
        raise ModelError(f"{problem}: shorten it")
    forms, n_first = [form for sentence in sentences for form in sentence.words], len(sentences[0])
    pieces = [_label(encoder, encoding, sentences, place) for place in range(len(encoding.ids))]
    units: dict[Level, ShownUnits] = {}
    for level in LEVELS:
        text = streaming.MapText(encoder, Sentences(sentences), level=level, on_long="error", pairs=len(sentences) > 1)
        if text.n_pairs < len(sentences) - 1:
            raise BertologyError("there is no word in one sentence of the pair: give some text")
        (batch,) = text.batches()
        inputs = text.inputs(batch)
        member = torch.eye(len(pieces)) if inputs.member is None else inputs.member[0].cpu()
        word, special = inputs.units.word[0].tolist(), (inputs.units.is_cls | inputs.units.is_sep)[0].tolist()
        firsts = zip(word, member.argmax(1).tolist(), strict=True)
        labels = [pieces[first] if level == "piece" or number < 0 else forms[number] for number, first in firsts]
        segments = accumulate(word, lambda before, number: before if number < 0 else int(number >= n_first), initial=0)
        units[level] = ShownUnits(tuple(labels), tuple(special), tuple(segments)[1:], tuple(word), member)
    left_out = tuple(forms[skipped.word] for skipped in text.pieces.skipped)
    types = None if inputs.types is None else tuple(inputs.types[0].tolist())
    return Input(tuple(encoding.ids), types, units, left_out)


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


def payload(
    panels: Sequence[Sequence[AttentionReading]], *, level: Level, weights: Weights, threshold: float = 0.0
) -> tuple[dict[str, Any], dict[str, str]]:
    """Everything of a page but its looks, ``level``, ``weights`` and ``threshold`` as shown first: values, and base64
    of packed maps (:func:`pack`) by ``panel-kind-level-weights-layer``.

    Panels stand side by side; each has readings of one or several kinds, the first of which is shown first. A page
    holds both levels and all weights that were read where nothing has to be left out of them; for longer sentences only
    the given level and weights, with the strongest weights of every row.
    """
    readings = [reading for panel in panels for reading in panel]
    every: list[tuple[Level, Weights]] = [(one, other) for one in LEVELS for other in readings[0].weights]
    is_part = sum(one.n_maps * math.prod(one.size(of)) for one, (of, _) in product(readings, every)) > MOST_CELLS
    cells = MOST_CELLS // len(readings) if is_part else MOST_CELLS
    maps: dict[str, str] = {}
    sheets = []
    for number, panel in enumerate(panels):
        kinds: dict[str, Any] = {}
        for reading in panel:
            sets: dict[str, Any] = {}
            for of_level, of_weights in [(level, weights)] if is_part else every:
                n_rows, n_columns = reading.size(of_level)
                kept, covered = min(n_columns, max(1, cells // (reading.n_maps * n_rows))), []
                for layer in reading.heads:
                    content, share = pack(reading.maps(layer, level=of_level, weights=of_weights), kept=kept)
                    name = f"{number}-{reading.kind}-{of_level}-{of_weights}-{layer}"
                    maps[name] = base64.b64encode(content).decode()
                    covered.append(share)
                sets[f"{of_level}-{of_weights}"] = {"kept": kept, "covered": round(float(np.mean(covered)), 4)}
            source, given = reading.source, reading.given
            kinds[reading.kind] = {
                "layers": [{"layer": layer, "heads": list(heads)} for layer, heads in reading.heads.items()],
                "levels": {one: of.serialised() | {"arcs": _arcs(reading, one)} for one, of in given.units.items()},
                "columns": {one: of.serialised() for one, of in source.units.items()} if source else None,
                "leftOut": [*given.left_out, *(source.left_out if source else ())],
                "sets": sets,
            }
        first = panel[0]  # which has all texts
        sheet = {
            "texts": [sentence.text for sentence in first.sentences],
            "between": "pair" if first.kind == "encoder" else "target",
            "model": folder_name(first.model),
            "init": first.init,
        }
        sheets.append({**sheet, "kinds": kinds})
    start = {"level": level, "weights": weights, "threshold": threshold, "kind": readings[0].kind}
    return {"panels": sheets, "start": start, "isPart": is_part}, maps


def _arcs(reading: AttentionReading, level: Level) -> list[list[Any]]:
    """Gold dependencies as places of the dependent and its head, and the relation; a root has no arc."""
    if reading.source is not None:
        return []
    place = {word: number for number, word in reversed(list(enumerate(reading.units(level).word)))}
    arcs: list[list[Any]] = []
    before = 0
    for sentence in reading.sentences:
        relations = sentence.layers.get("deprel", (None,) * len(sentence))
        for word, head in enumerate(sentence.heads or ()):
            ends = place.get(before + word), place.get(before + head - 1)
            if head > 0 and None not in ends:
                arcs.append([*ends, relations[word] or ""])
        before += len(sentence)
    return arcs


def pack(maps: Maps, *, kept: int) -> tuple[bytes, float]:
    """Pack the maps of the heads of one layer: eight bits a weight with a scale a row.

    The bytes, once unzipped, are: a scale a row (float32), the largest weight of it; where weights are left out, the
    sum of each row (float32), then the column of each kept weight as its distance from the one before (low bytes,
    then high bytes); and the weights (8 bits, 255 is the scale).

    Of ``[head, unit, unit]`` so many of the largest weights of each row are ``kept``. Returned with the bytes is the
    share of the rows' mass that these have, on average.
    """
    n_units = maps.shape[2]
    rows = maps.reshape(-1, n_units)
    scale = rows.max(1)
    total = rows.sum(1, dtype=np.float64).astype(np.float32)
    parts = [scale.astype("<f4").tobytes()]
    if kept < n_units:
        columns = np.sort(np.argpartition(-rows, kept - 1, axis=1)[:, :kept], axis=1)
        rows = np.take_along_axis(rows, columns, axis=1)
        gaps = np.diff(columns, axis=1, prepend=0).astype("<u2")
        parts += [total.astype("<f4").tobytes(), (gaps & 255).astype(np.uint8).tobytes()]
        parts.append((gaps >> 8).astype(np.uint8).tobytes())
    safe = np.where(scale > 0, scale, 1)[:, None]
    parts.append(np.rint(rows / safe * 255).astype(np.uint8).tobytes())
    covered = float(np.mean(rows.sum(1) / np.where(total > 0, total, 1)))
    # The same maps are the same bytes: no time is written into them.
    return gzip.compress(b"".join(parts), _LEVEL, mtime=0), covered
