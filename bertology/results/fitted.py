"""A fitted probe of labels, as it is kept with a run: what puts new text to it, word by word or as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from bertology.corpora import Sentence, Sentences, as_sentences
from bertology.errors import FitError, ResultsError, quoted
from bertology.results.predictions import SET_MARK

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from bertology.encoders import Encoder
    from bertology.readouts.kept import KeptFit

BETWEEN_SPANS = " | "
Items = Literal["words", "sentences", "pairs", "spans"]
"""The kind of item that gets a label: a word; a whole text; two texts in a row; spans of words that are named."""


@dataclass(frozen=True, kw_only=True)
class FitOrigin:
    """The data and vectors that a probe was fitted to, which decide what it applies to."""

    task: str
    corpus: str
    train_fingerprint: str
    """Fingerprint of the sentences it was fitted on."""
    model: str
    """Name by which the model is loaded again."""
    revision: str | None
    init: str
    init_seed: int
    model_fingerprint: str
    layer: int | None
    """None of a fit to several layers together."""
    pooling: str
    dtype: str
    stored_dtype: str
    max_pieces: int | None
    readout: str
    items: Items
    labels: tuple[str, ...]
    """None of a number."""
    kind: str = "softmax"
    """Kind of the scores, as :attr:`bertology.readouts.kept.KeptFit.kind`."""
    layers: tuple[int, ...] = ()
    """Layers that are read, where they are not the one."""
    design: Mapping[str, Any] = field(default_factory=dict)
    """Design of the readout, as :attr:`bertology.readouts.kept.KeptFit.design`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    are_compared: bool = False
    """Whether difference and product of the vectors of two texts follow them."""


@dataclass(frozen=True, eq=False)
class FittedProbe:
    """A probe of labels as it was fitted to one layer; :meth:`Results.fitted` finds it."""

    origin: FitOrigin
    tensors: Mapping[str, Tensor]
    """``coefficients [class, dim]`` and ``intercepts [class]``, for raw vectors; of a perceptron they follow ``hidden
    [unit, dim]`` and ``hidden_bias [unit]`` with ReLUs; of an edge probe its parameters."""

    def __repr__(self) -> str:
        at = self.origin
        where = "all layers" if at.layer is None else f"layer {at.layer}"
        what = "numbers" if at.kind == "number" else f"{len(at.labels)} labels"
        return f"<FittedProbe {at.task} at {where} of {at.model}: {what} of {at.items}>"

    def predict(self, texts: Any, *, places: Sequence[Sequence[str]] | None = None, model: Any = None) -> pd.DataFrame:
        """The most probable label of each item of new texts, or its number.

        Args:
            texts: one or several, each a string, or a list of its words; of tasks about two texts pairs of them.
            places: of tasks about spans, by text those that are asked about, such as ``["2-3", "1,4-5"]``: words
                counted from 1, with a comma between two spans.
            model: the encoder, if it is not to be loaded by the name it was probed by.

        Returns:
            A line an item: ``text``, of words and spans ``place`` and ``word``; then ``label`` (several are joined by
            ``|``) and ``probability`` (NaN where the readout gives none), or of numbers ``value``.

        Raises:
            FitError: the encoder is another one, or places are missing or outside a text.
            ModelError: a word has no vector.
        """
        import pandas as pd

        about, scores = self._read(texts, places, model)
        if self.origin.kind == "number":
            return pd.DataFrame({**about, "value": scores[:, 0].double().numpy()})
        best, probability = self._fit.best(scores)
        known = np.array(self.origin.labels, dtype=object)
        # A set of labels is written as in the predictions of the run.
        labels = known[best] if best.ndim == 1 else [SET_MARK.join(known[row]) for row in best.numpy()]
        return pd.DataFrame({**about, "label": labels, "probability": probability.numpy()})

    def predict_proba(
        self, texts: Any, *, places: Sequence[Sequence[str]] | None = None, model: Any = None
    ) -> pd.DataFrame:
        """The probability of every label, a column each, of each item of new texts; arguments as in :meth:`predict`.

        Raises:
            FitError: the readout gives no probabilities; or as in :meth:`predict`.
        """
        import pandas as pd

        if self.origin.kind in ("scores", "number"):
            raise FitError(f"{self.origin.readout} gives no probabilities: ask predict for what it predicts")
        about, scores = self._read(texts, places, model)
        index = pd.MultiIndex.from_frame(pd.DataFrame(about))
        probabilities = self._fit.probabilities(scores)
        assert probabilities is not None
        return pd.DataFrame(probabilities.numpy(), columns=list(self.origin.labels), index=index)

    @property
    def _fit(self) -> KeptFit:
        from bertology.readouts.kept import KeptFit

        return KeptFit(self.tensors, self.origin.design, cast(Any, self.origin.kind))

    def _read(self, texts: Any, places: Any, model: Any) -> tuple[dict[str, list[str]], Tensor]:
        """The columns that tell items apart, and their scores ``[item, class]``."""
        from bertology.activations import read_words
        from bertology.readouts import ArrayFeatures, ArraySpans, pooled

        sentences, of_items = self._items(texts, places)
        encoder, origin = self._encoder(model), self.origin
        pool = origin.settings.get("pool", "mean")
        pooling = pool if pool == "cls" else origin.pooling
        layers = origin.layers or (cast(int, origin.layer),)
        vectors = read_words(encoder, Sentences(sentences), layers=layers, pooling=pooling)
        if origin.stored_dtype == "float16":  # as the vectors were that it was fitted to
            vectors = vectors.half().float()
        starts = np.cumsum([0, *map(len, sentences)])
        spans = [[(first + starts[n], last + starts[n]) for first, last in item] for n, item in of_items]
        source: Any = ArrayFeatures(vectors) if pool == "cls" else ArraySpans(vectors, np.array(spans, dtype=np.int64))
        if pool != "cls" and not origin.design:
            source = pooled(source, pooling=pool, compare=origin.are_compared)
        scores = self._fit.scores(source)
        about = {"text": [sentences[number].text for number, _ in of_items]}
        if origin.items in ("words", "spans"):
            about["place"] = [written_place(item) for _, item in of_items]
            about["word"] = [words_at(sentences[number], item) for number, item in of_items]
        return about, scores

    def _items(self, texts: Any, places: Any) -> tuple[list[Sentence], list[tuple[int, list[tuple[int, int]]]]]:
        """The sentences, and of each item the number of its sentence and its spans there."""
        kind = self.origin.items
        if (places is None) == (kind == "spans"):
            remedy = "give places" if kind == "spans" else "leave places out"
            raise FitError(f"task {self.origin.task} is about {kind}: {remedy}")
        if kind == "pairs":
            firsts, seconds = map(as_sentences, zip(*texts, strict=True))
            joined = [_joined(*both) for both in zip(firsts, seconds, strict=True)]
            return joined, [(n, [(0, len(one)), (len(one), len(joined[n]))]) for n, one in enumerate(firsts)]
        sentences = list(as_sentences(texts))
        if kind == "words":
            return sentences, [(n, [(k, k + 1)]) for n, sentence in enumerate(sentences) for k in range(len(sentence))]
        if kind == "sentences":
            return sentences, [(n, [(0, len(sentence))]) for n, sentence in enumerate(sentences)]
        by_text = [places] if all(isinstance(place, str) for place in places) else places
        spans = [(n, spans_of(place)) for n, of_text in enumerate(by_text) for place in of_text]
        for n, item in spans:
            if n >= len(sentences) or not all(0 <= first < last <= len(sentences[n]) for first, last in item):
                raise FitError(f"place {quoted(written_place(item))} of text {n + 1}: not among its words")
        return sentences, spans

    def _encoder(self, model: Any) -> Encoder:
        """The encoder it was fitted on, loaded by its name unless it is given."""
        from bertology.encoders import Encoder, load_encoder, model_name

        at = self.origin
        if isinstance(model, Encoder):
            encoder: Encoder = model
        else:
            source, revision = (at.model, at.revision) if model is None else (model_name(model), None)
            weights: dict[str, Any] = {"init": at.init, "seed": at.init_seed}
            encoder = load_encoder(source, revision=revision, dtype=at.dtype, max_pieces=at.max_pieces, **weights)
        if encoder.fingerprint != at.model_fingerprint:
            raise FitError(
                f"the probe was fitted on {at.model}: it cannot read the vectors of {encoder.name}; give model="
            )
        return encoder

    def save(self, path: Path) -> None:
        """Write ``path.safetensors``, then ``path.json``, which makes the probe whole."""
        from bertology.readouts.kept import save_fit

        save_fit(path, self.tensors, asdict(self.origin))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote.

        Raises:
            ResultsError: a file is missing, broken or of another format.
        """
        from bertology.readouts.kept import load_fit

        tensors, plain = load_fit(path)
        try:
            plain |= {name: tuple(plain[name]) for name in ("labels", "layers")}
            return cls(FitOrigin(**plain), tensors)
        except (KeyError, TypeError) as error:
            raise ResultsError(f"{path}.json: no whole probe there ({error}); fit it anew") from error


def spans_of(place: str) -> list[tuple[int, int]]:
    """The spans of a place such as ``3-5,7``, counted from 0, end exclusive: ``[(2, 5), (6, 7)]``."""
    try:
        ends = [span.partition("-") for span in place.split(",")]
        return [(int(first) - 1, int(last or first)) for first, _, last in ends]
    except ValueError:
        raise FitError(f"place {quoted(place)}: write words counted from 1, such as 3, 3-5 or 3-5,7") from None


def written_place(spans: Sequence[Sequence[int]]) -> str:
    """The place of spans that are counted from 0, end exclusive: ``3-5,7`` for ``[(2, 5), (6, 7)]``."""
    return ",".join(str(last) if last == first + 1 else f"{first + 1}-{last}" for first, last in spans)


def words_at(sentence: Sentence, spans: Sequence[tuple[int, int]]) -> str:
    """The text of some spans of words."""
    return BETWEEN_SPANS.join(sentence.text[sentence.spans[a][0] : sentence.spans[b - 1][1]] for a, b in spans)


def _joined(one: Sentence, other: Sentence) -> Sentence:
    """Two texts in a row as one sentence."""
    offset = len(one.text) + 1
    spans = (*one.spans, *((begin + offset, end + offset) for begin, end in other.spans))
    return Sentence("", f"{one.text} {other.text}", (*one.words, *other.words), spans)
