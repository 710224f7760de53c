"""The attention of one word by one head, as products of its query with all keys, dimension by dimension."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertology import _figures as figures
from bertology._names import folder_name
from bertology.attention.viewer import parse_heads, read_attention
from bertology.corpora import Text, as_sentence, words_at
from bertology.encoders import Encoder, open_encoder
from bertology.errors import BertologyError, ModelError, quoted

_NAME = "bertology_query_key"  # of the attention function, where transformers keeps them
_SAME = 1e-3  # largest difference between the softmax of products and the model's own weights


@dataclass(frozen=True, eq=False)
class QueryKey:
    """Query of one word's first subword and keys of all subwords in one head; draws itself in a notebook.

    The attention weight of a subword is the softmax over subwords of its score, and the score is the sum of
    :attr:`products`: Vig (2019, section 4) draws them as the neuron view.
    """

    model: str
    head: str
    """Such as ``L2H1``."""
    labels: tuple[str, ...]
    """``[piece]`` subwords with special ones, as a person reads them."""
    place: int
    """The subword whose query it is."""
    query: NDArray[np.float32]
    """``[dim]``"""
    keys: NDArray[np.float32]
    """``[piece, dim]``"""
    weights: NDArray[np.float32]
    """``[piece]`` attention weights, which sum to 1."""
    scaling: float
    """Factor of the products, 1 / √dim in most models."""
    visible: NDArray[np.bool_]
    """``[piece]`` whether the model lets the query attend there: not outside a local window, or to later subwords."""

    @cached_property
    def products(self) -> NDArray[np.float32]:
        """``[piece, dim]`` query × key × scaling, whose sum over dimensions is the score of a subword."""
        return np.asarray(self.query * self.keys * np.float32(self.scaling))

    @property
    def scores(self) -> NDArray[np.float32]:
        """``[piece]`` sums of products, whose softmax are the weights; minus infinity where nothing is visible."""
        return np.where(self.visible, self.products.sum(1), np.float32(-np.inf))

    def rows(self, *, n_dimensions: int = 3) -> list[tuple[str, ...]]:
        """A head, and for each subword its weight, its score, and the dimensions whose products are largest."""
        found: list[tuple[str, ...]] = [("subword", "weight", "score", "dimensions (from 1) with the largest products")]
        for label, weight, score, products in zip(self.labels, self.weights, self.scores, self.products, strict=True):
            strongest = np.argsort(-np.abs(products), kind="stable")[:n_dimensions]
            named = ", ".join(f"{number + 1}: {products[number]:+.2f}" for number in strongest.tolist())
            found.append((label, f"{100 * weight:.1f} %", f"{score:+.2f}" if np.isfinite(score) else "masked", named))
        return found

    def plot(self) -> "figures.ShownFigure":
        """Query, keys and products in shades, blue below 0 and red above, next to the weights."""
        n, dim = self.keys.shape
        fonts = figures.Fonts.of(self.labels)
        names = [fonts.drawable(figures.clipped(label, 24)) for label in self.labels]
        width = max(2.6, 0.062 * dim)
        figure = figures.new_figure(2 * width + 3.2, 1.6 + 0.24 * (n + 1))
        shares = {"width_ratios": [width, width, 1.3], "height_ratios": [1, max(2, n)]}
        axes: Any = figure.subplots(2, 3, gridspec_kw=shares)
        for unused in axes[0, 1:]:
            unused.remove()
        panels = {
            "query": (axes[0, 0], self.query[None], [names[self.place]]),
            "keys": (axes[1, 0], self.keys, names),
            "query × key": (axes[1, 1], self.products, [""] * n),
        }
        for title, (ax, values, rows) in panels.items():
            most = float(np.abs(values).max()) or 1.0
            ax.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
            ax.set_yticks(range(len(rows)), rows, fontsize=8, color=figures.TEXT, fontfamily=list(fonts.families))
            ax.set_xticks([0, dim - 1], ["1", str(dim)] if title != "query" else ["", ""], fontsize=7)
            ax.tick_params(length=0)
            ax.spines[:].set_visible(False)
            figures.write_title(ax, f"{title} (up to ±{most:.1f})", size=8.5)
        bars = axes[1, 2]
        bars.barh(range(n), self.weights, color=figures.BLUE)
        bars.set(ylim=(n - 0.5, -0.5), yticks=[], xlim=(0, 1), xticks=[0, 1])
        bars.tick_params(labelsize=7)
        figures.style_axes(bars)
        figures.write_title(bars, "attention weight", size=8.5)
        about = f"{self.head} of {folder_name(self.model)}: attention from {quoted(self.labels[self.place])}."
        sums = "Products of a row add up to its score, scores to weights by the softmax."
        figures.write_caption(figure, " ".join(filter(None, [about, sums, fonts.note()])))
        return figure

    def _repr_png_(self) -> bytes:
        return figures.figure_bytes(self.plot(), "png")


def query_key(
    text: Text,
    word: str,
    *,
    head: str,
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    second: Text | None = None,
    occurrence: int | None = None,
    language: str | None = None,
    split_at_spaces: bool = False,
) -> QueryKey:
    """Query of a word, keys of all subwords and their products by dimension, in one head.

    >>> from bertology.attention import query_key
    >>> query_key("The farmers near the river see the dog.", "see", head="L2H1")  # doctest: +SKIP

    Args:
        text: the text, or an annotated sentence.
        word: a word of it, whose first subword attends.
        head: such as ``L2H1``.
        model: ``pocket``, a folder, a hub id, a loaded encoder, or a transformers model and its tokenizer.
        second: a second text, read with the first as the pair that the model takes.
        occurrence: which one of several occurrences of the word, from 1.
        language: language of the texts, such as ``en``, whose rules find their words.
        split_at_spaces: whether words are separated by spaces instead.

    Raises:
        BertologyError: the word is not in the text, the model has no such head, or its scores are not the products of
            queries and keys alone, as with relative positions (DeBERTa, MPNet).
    """
    heads = parse_heads(head)
    if len(heads) != 1:
        raise BertologyError(f"{len(heads)} heads: a query is that of one head, such as L2H1")
    ((layer, number),) = heads
    encoder = open_encoder(model)
    sentences = [
        as_sentence(one, language=language, split_at_spaces=split_at_spaces)
        for one in (text, second)
        if one is not None
    ]
    reading = read_attention(encoder, sentences, heads=heads)
    given, pieces, words = reading.given, reading.units("piece"), reading.units("word")
    at, *others = words_at(sentences[0], word, occurrence=occurrence)
    if others:
        raise BertologyError(f"{quoted(word)} is several words: a query is that of one; name one of them")
    if at not in words.word:
        raise ModelError(f"word {quoted(word)}: the tokenizer of {encoder.name} makes no subword of it")
    place = int(words.member[words.word.index(at)].argmax())
    kept: list[tuple[Tensor, Tensor, Tensor, float]] = []
    with _keeping(encoder, kept), torch.inference_mode():
        types: dict[str, Any] = {} if given.types is None else {"token_type_ids": torch.tensor([given.types])}
        encoder.hidden_states(torch.tensor([given.ids]), **types, layers=[encoder.n_layers])
    weights = reading.maps(layer, level="piece")[0, place]
    if len(kept) == encoder.n_layers:
        queries, keys, visible, scaling = kept[layer - 1]
        kept.clear()  # or they would be held as long as the function that keeps them is registered
        own = (number - 1) * len(keys) // len(queries)  # several queries may share their keys
        found = QueryKey(
            model=encoder.name,
            head=f"L{layer}H{number}",
            labels=pieces.labels,
            place=place,
            query=queries[number - 1, place].float().cpu().numpy(),
            keys=keys[own].float().cpu().numpy(),
            weights=weights,
            scaling=scaling,
            visible=visible[min(number, len(visible)) - 1, place].cpu().numpy(),
        )
        shares = np.exp(found.scores - found.scores.max())
        if np.abs(shares / shares.sum() - weights).max() <= _SAME:
            return found
    family = f"a {encoder.family} model's scores are more than products of queries and keys"
    raise ModelError(f"model {encoder.name}: {family}; `bertology attention --head {head}` draws its weights")


@contextlib.contextmanager
def _keeping(encoder: Encoder, kept: list[tuple[Tensor, Tensor, Tensor, float]]) -> Iterator[None]:
    """Keep queries and keys ``[head, piece, dim]``, what is not masked ``[1 or head, piece, piece]`` and the scaling of
    every block that a text passes inside the context.

    An attention function of our own is registered with transformers, to which each block hands its queries and keys
    as they are multiplied, after rotation; a model whose blocks compute attention themselves hands it nothing.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    def attention(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scaling: float | None = None,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        factor = query.shape[-1] ** -0.5 if scaling is None else scaling
        keys, values = (part.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for part in (key, value))
        scores = query @ keys.mT * factor
        added = scores.new_zeros(scores.shape[-2:])[None, None] if mask is None else mask
        kept.append((query[0], key[0], added[0] > torch.finfo(added.dtype).min / 2, factor))
        weights = (scores + added).softmax(-1)
        return (weights @ values).transpose(1, 2).contiguous(), weights

    AttentionInterface.register(_NAME, attention)
    AttentionMaskInterface.register(_NAME, eager_mask)
    body: Any = encoder.model.body
    before = body.config._attn_implementation
    try:
        body.set_attn_implementation(_NAME)
    except (ValueError, NotImplementedError):
        yield  # what computes attention itself keeps nothing
        return
    try:
        yield
    finally:
        body.set_attn_implementation(before)
