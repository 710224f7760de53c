"""A sentence in, a page out: as a file, or in a notebook."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, get_args

from bertology._files import write_derived
from bertology._names import name_not_found
from bertology._page import asset
from bertology.attention._norms import knows_norms
from bertology.attention._ratios import Level
from bertology.attention.viewer._page import LEVELS, payload, render_page
from bertology.attention.viewer._read import AttentionReading, Weights, read_attention
from bertology.corpora import Sentence, english_sentence
from bertology.encoders import Encoder, load_encoder, model_name
from bertology.errors import BertologyError, NameNotFoundError, StoreError, quoted

_HEIGHT = 760
_HEAD = re.compile(r"L([0-9]{1,9})H([0-9]{1,9})", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class AttentionView:
    """The page of one reading; shows itself in a notebook."""

    reading: AttentionReading
    level: Level = "word"
    """Shown first."""
    weights: Weights = "raw"
    """Shown first."""

    @cached_property
    def html(self) -> str:
        """The page as text."""
        return render_page(*payload(self.reading, level=self.level, weights=self.weights))

    def save(self, path: str | Path) -> Path:
        """Write the page as one HTML file that needs no other file and no network.

        Raises:
            StoreError: the file cannot be written.
        """
        path = Path(path)
        if path.is_dir():
            raise StoreError(f"cannot write {path}: it is a folder; name a file")
        write_derived(path.parent, {path.name: self.html.encode()}, remedy="name another file")
        return path

    def widget(self, **state: Any) -> Any:
        """The page as a widget for notebooks, whose ``state`` is what is shown and can be set.

        Args:
            state: what to show first: ``view`` (``model``, ``heads``, ``word``), ``layer``, ``heads`` (numbers),
                ``word`` (its place), ``head``, ``side``, ``level``, ``weights``, ``specials``, ``gold``.

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
        """The page in a frame of its own, where its style and script do not meet the notebook's."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts allow-downloads" title="Attention" '
            f'style="width:100%;height:{_HEIGHT}px;border:0;border-radius:8px"></iframe>'
        )

    def __repr__(self) -> str:
        reading = self.reading
        n_heads = sum(len(heads) for heads in reading.heads.values())
        return f"<AttentionView of {reading.model}: {n_heads} heads over {len(reading.given.pieces.labels)} pieces>"


def view(
    sentence: str | Sentence,
    second: str | Sentence | None = None,
    *,
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    layers: Sequence[int] | None = None,
    heads: str | Sequence[str] | None = None,
    level: Level = "word",
    weights: Weights = "raw",
) -> AttentionView:
    """Draw the attention maps of a sentence as a page.

    >>> from bertology.attention import view
    >>> view("The farmers near the river see the dog.")  # doctest: +SKIP

    Args:
        sentence: text, whose words are found by the rules of English, or an annotated sentence: if it has heads, its
            dependencies are drawn as well.
        second: one that follows, read with the first as the pair that the model takes.
        model: ``pocket``, a folder, a hub id, a loaded encoder, or a transformers model and its tokenizer.
        layers: from 1; all, or those of ``heads``, when left out.
        heads: names such as ``L8H10``, in a sequence or with commas; all when left out.
        level: shown first, ``word`` or ``piece``; the page switches between them.
        weights: shown first, ``raw`` or ``norm`` (‖α f(x)‖, Kobayashi et al. 2020); the page switches between them
            where the model's family is known. For long sentences a page holds only the level and weights given here.

    Returns:
        The page: shows itself in a notebook, and has ``.save(path)``.

    Raises:
        BertologyError: there is no word in a sentence, it is longer than the model takes, or the model has no such
            layer or head, gives no maps, or is of a family whose norms are not known.
    """
    for what, name, known in (("level", level, LEVELS), ("weights", weights, get_args(Weights))):
        if name not in known:
            raise name_not_found(what, name, list(known))
    named = None if heads is None else parse_heads(heads)
    sentences = [_sentence(one) for one in (sentence, second) if one is not None]
    encoder = model if isinstance(model, Encoder) else load_encoder(model_name(model))
    norms = weights == "norm" or knows_norms(encoder.family)
    reading = read_attention(encoder, sentences, layers=layers, heads=named, norms=norms)
    return AttentionView(reading, level, weights)


def _sentence(text: str | Sentence) -> Sentence:
    if isinstance(text, Sentence):
        return text
    if not text.strip():
        raise BertologyError("there is no word in the sentence: give some text")
    return english_sentence(text.strip())


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
