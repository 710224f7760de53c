"""A sentence in, a page out: as a file, or in a notebook."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from bertology._names import folder_name, name_not_found
from bertology._page import asset, framed, write_page
from bertology.attention._norms import check_norms, knows_norms
from bertology.attention._ratios import Level
from bertology.attention.viewer._page import LEVELS, payload, render_page
from bertology.attention.viewer._read import AttentionReading, Weights, read_attention, read_decoder_attention
from bertology.corpora import Sentence, Text, as_sentence
from bertology.encoders import Encoder, open_encoder
from bertology.errors import BertologyError, NameNotFoundError, ResultsError, quoted

if TYPE_CHECKING:
    from bertology._figures import ShownFigure

_HEIGHT = 760
_HEAD = re.compile(r"L([0-9]{1,9})H([0-9]{1,9})", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class AttentionView:
    """The page of one reading or several; shows itself in a notebook."""

    panels: tuple[tuple[AttentionReading, ...], ...]
    """What stands side by side: of each the readings of one kind of attention or several, shown first the first."""
    level: Level = "word"
    """Shown first."""
    weights: Weights = "raw"
    """Shown first."""
    threshold: float = 0.0
    """Weights below it are not drawn at first."""

    @property
    def reading(self) -> AttentionReading:
        """What is shown first."""
        return self.panels[0][0]

    @cached_property
    def html(self) -> str:
        """The page as text."""
        return render_page(*payload(self.panels, level=self.level, weights=self.weights, threshold=self.threshold))

    def save(self, path: str | Path) -> Path:
        """Write the page as one HTML file that needs no other file and no network.

        Raises:
            StoreError: the file cannot be written.
        """
        return write_page(path, self.html)

    def plot(self) -> ShownFigure:
        """The one head that was chosen as a labelled heatmap, of two panels side by side; see :func:`plot_head`.

        Raises:
            ResultsError: there are several heads, or a text is too long for a figure.
        """
        from bertology.attention._plot import plot_head

        maps, titles = [], []
        for reading, *_ in self.panels:
            heads = [(layer, head) for layer, of_layer in reading.heads.items() for head in of_layer]
            if len(heads) > 1:
                raise ResultsError(f"a figure shows one head: there are {len(heads)}; choose one, such as heads='L2H1'")
            layer, head = heads[0]
            maps.append(reading.labelled(level=self.level, weights=self.weights).at(layer=layer, head=head))
            titles.append(f"L{layer}H{head} of {folder_name(reading.model)}")
        label = "attention weight" if self.weights == "raw" else "norm of what is added, ‖α f(x)‖"
        return plot_head(maps, title=titles, label=label)

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
            raise BertologyError(
                "a widget needs anywidget: pip install 'bertology[notebook]'; the view itself shows without it"
            ) from None

        class AttentionWidget(anywidget.AnyWidget):
            """The attention of a sentence; :attr:`state` is what is looked at, on both sides."""

            _esm = asset("attention/viewer/assets/widget.js")
            page = traitlets.Unicode().tag(sync=True)
            state = traitlets.Dict().tag(sync=True)
            height = traitlets.Int(_HEIGHT).tag(sync=True)

        return AttentionWidget(page=self.html, state=state)

    def _repr_html_(self) -> str:
        return framed(self.html, title="Attention", height=_HEIGHT)

    def __repr__(self) -> str:
        reading = self.reading
        n_heads = sum(len(heads) for heads in reading.heads.values())
        several = f"{len(self.panels)} panels, first " if len(self.panels) > 1 else ""
        n_pieces = len(reading.given.pieces.labels)
        return f"<AttentionView of {reading.model}: {several}{n_heads} heads over {n_pieces} pieces>"


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
    threshold: float = 0.0,
    language: str | None = None,
    split_at_spaces: bool = False,
) -> AttentionView:
    """Draw the attention maps of a sentence as a page.

    >>> from bertology.attention import view
    >>> view("The farmers near the river see the dog.")  # doctest: +SKIP

    Args:
        sentence: a text, or an annotated sentence: if it has heads, its dependencies are drawn as well. Several in a
            list, at most two, are shown side by side; there a list of words is a text as well.
        second: one that follows, read with the first as the pair that the model takes.
        target: of an encoder-decoder (T5, BART), the text that its decoder reads: the page then shows cross-attention,
            from the target to the sentence, and both texts' own.
        model: ``pocket``, a folder, a hub id, a loaded encoder, or a transformers model and its tokenizer. Two in a
            list are shown side by side.
        layers: from 1; all, or those of ``heads``, when left out.
        heads: names such as ``L8H10``, in a sequence or with commas; all when left out.
        level: shown first, ``word`` or ``piece``; the page switches between them.
        weights: shown first, ``raw`` or ``norm`` (‖α f(x)‖, Kobayashi et al. 2020); the page switches between them
            where the model's family is known. For long sentences a page holds only the level and weights given here.
        threshold: weights below it are not drawn at first, a share of 1; by norm, of the strongest.
        language: of texts, by whose rules words are found (:func:`bertology.corpora.sentence_of_text`).
        split_at_spaces: words of texts are what white space parts.

    Returns:
        The page: shows itself in a notebook, and has ``.save(path)``.

    Raises:
        BertologyError: there is no word in a sentence, it is longer than the model takes, or the model has no such
            layer or head, gives no maps, has no decoder for a target, or is of a family whose norms are not known.
    """
    for what, name, known in (("level", level, LEVELS), ("weights", weights, get_args(Weights))):
        if name not in known:
            raise name_not_found(what, name, list(known))
    if not 0 <= threshold <= 1:
        raise BertologyError(f"threshold {threshold}: give a share from 0 to 1, such as 0.1")
    sentence_of = partial(as_sentence, language=language, split_at_spaces=split_at_spaces)
    several: Sequence[Any] = sentence if isinstance(sentence, list | tuple) else [sentence]
    texts = list(map(sentence_of, several))
    models = _side_by_side(texts, model, second=second, target=target)
    named = None if heads is None else parse_heads(heads)
    encoders = [open_encoder(one) for one in models]
    norms = weights == "norm" or (target is None and all(map(knows_norms, encoders)))
    chosen: dict[str, Any] = {"layers": layers, "heads": named}
    panels: list[tuple[AttentionReading, ...]] = []
    for encoder in encoders:
        for text in texts:
            if target is not None:
                panels.append(_with_target(encoder, text, sentence_of(target), norms=norms, **chosen))
                continue
            both = [text] if second is None else [text, sentence_of(second)]
            panels.append((read_attention(encoder, both, norms=norms, **chosen),))
    return AttentionView(tuple(panels), level, weights, threshold)


def _side_by_side(texts: list[Sentence], model: Any, *, second: Text | None, target: Text | None) -> list[Any]:
    """One model or two, after a check that no more than one of texts and models is two."""
    models = model if isinstance(model, list) else [model]
    for what, several in (("texts", texts), ("models", models)):
        if not 1 <= len(several) <= 2:
            raise BertologyError(f"{len(several)} {what}: give one, or two to see them side by side")
    if len(texts) > 1 and len(models) > 1:
        raise BertologyError("two texts and two models: give two of one and one of the other")
    if len(texts) > 1 and not (second is None and target is None):
        raise BertologyError("two texts side by side are each read alone: leave the second or the target out")
    if second is not None and target is not None:
        raise BertologyError("a target belongs to one text: leave the second out")
    return models


def _with_target(
    encoder: Encoder,
    source: Sentence,
    target: Sentence,
    *,
    layers: Sequence[int] | None,
    heads: Sequence[tuple[int, int]] | None,
    norms: bool,
) -> tuple[AttentionReading, ...]:
    """Cross-attention, the decoder's own and the encoder's; layers and heads are those of the decoder, and of the
    encoder those that it has."""
    if norms:
        check_norms(encoder)
    cross, decoder = read_decoder_attention(encoder, source, target, layers=layers, heads=heads)
    n_layers, n_heads = encoder.n_layers, encoder.n_heads
    if layers is not None:
        layers = [layer for layer in layers if layer <= n_layers]
    if heads is not None:
        heads = [(layer, head) for layer, head in heads if layer <= n_layers and head <= n_heads]
    if (layers is not None and not layers) or (heads is not None and not heads):
        return cross, decoder
    return cross, decoder, read_attention(encoder, [source], layers=layers, heads=heads)


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
