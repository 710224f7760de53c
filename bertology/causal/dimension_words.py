"""The dimensions of a layer that tell most of a label, and the words that are high or low in each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from bertology._lazy import pd
from bertology._names import folder_name, layer_label
from bertology._page import ShownPage, full_page
from bertology.causal.dimensions import LabelledStates, word_states
from bertology.causal.erasing import WordLabels
from bertology.corpora import Corpus, Sentences
from bertology.encoders import Encoder
from bertology.encoders.interventions import Site
from bertology.errors import CorpusError, ModelError
from bertology.probing.items import Integers, sampled_splits
from bertology.readouts.ranking import Ranking, overlap

_WIDTH = 40  # characters of the text on each side of a word


class MovedWord(NamedTuple):
    """A word form that is high or low in a dimension."""

    word: str
    z: float  # mean over its occurrences, in standard deviations from the mean of all words
    n: int  # number of its occurrences
    before: str  # text before its most extreme occurrence
    written: str  # that occurrence, as it is written
    after: str


@dataclass(frozen=True, eq=False)
class RankedDimension:
    """One of the best dimensions of a layer."""

    layer: int
    rank: int  # from 1
    dimension: int
    labels: tuple[tuple[str, float], ...]  # labels and the mean z of their words in train, the highest first
    high: tuple[MovedWord, ...]
    low: tuple[MovedWord, ...]


@dataclass(frozen=True, eq=False)
class RankedDimensions(ShownPage):
    """The best dimensions of some layers for a task, with the words that they move most; shows as a page."""

    model: str
    corpus: str
    task: str
    ranking: str
    site: str
    layers: tuple[int, ...]
    order: Integers
    """``[layer, dim]`` all dimensions of each layer, those that tell most of the label first."""
    best: tuple[RankedDimension, ...]
    """The best of each layer, in order."""
    page_title, page_height = "Dimensions", 700

    def to_pandas(self) -> "pd.DataFrame":
        """A row for each word, with its layer, dimension, end (``high`` or ``low``) and context."""
        rows = [
            {"layer": one.layer, "rank": one.rank, "dimension": one.dimension, "end": end, **word._asdict()}
            for one in self.best
            for end in ("high", "low")
            for word in getattr(one, end)
        ]
        return pd.DataFrame(rows)

    def overlaps(self, other: "RankedDimensions | None" = None, *, k: int = 10) -> "pd.DataFrame":
        """How many of the best ``k`` each two layers share, here or with another task or ranking of the same model.

        Columns are ``layer``, ``other_layer``, ``shared``, ``expected`` by chance, and ``p``, the probability that two
        random sets share as many. A ModelError for vectors of other widths.
        """
        other, dim = other or self, self.order.shape[1]
        if other.order.shape[1] != dim:
            raise ModelError(f"rankings of {dim} and {other.order.shape[1]} dimensions: give two of one model and site")
        rows = [
            {"layer": a, "other_layer": b, **overlap(own[:k], its[:k], dim)._asdict()}
            for a, own in zip(self.layers, self.order, strict=True)
            for b, its in zip(other.layers, other.order, strict=True)
        ]
        return pd.DataFrame(rows)

    @property
    def html(self) -> str:
        """A page with a table of the dimensions of each layer; it makes no request."""
        return full_page(
            "causal/assets/dimensions.html",
            title=f"Dimensions for {self.task}",
            styles=[],
            scripts=[],
            data={},
            about=f"{folder_name(self.model)}, {self.site.replace('_', ' ')}, {self.corpus}, {self.ranking} ranking",
            task=self.task,
            layers=[(layer_label(one), [best for best in self.best if best.layer == one]) for one in self.layers],
        )


def find_dimensions(
    encoder: Encoder,
    corpus: Corpus | Mapping[str, Sentences],
    task: str,
    *,
    layers: Sequence[int],
    ranking: Ranking = "linear",
    k: int = 10,
    site: Site = "hidden_state",
    n_words: int = 5,
    least: int = 2,
    most_words: int = 8_000,
) -> RankedDimensions:
    """Rank the dimensions of each layer for a task, and find the words that move the best of them most.

    Args:
        encoder: the model.
        corpus: with the splits train and dev.
        task: a task that gives labels to single words, such as ``pos``.
        layers: from 0, or of neurons from 1.
        ranking: ``linear``, ``probeless`` or ``gaussian``.
        k: number of dimensions of each layer that are shown.
        site: ``hidden_state``, or ``neurons`` of the feed-forward part.
        n_words: number of words at each end of a dimension.
        least: number of occurrences in train that a word form has at least, so that a mean is of more than one.
        most_words: words of train that are read at most, in random sentences; half as many of dev.

    Raises:
        BertologyError: the task has no labels of single words, ``k`` does not fit, or no word is frequent enough.
    """
    texts = sampled_splits({name: corpus[name] for name in ("train", "dev")}, most_words)
    labels = WordLabels.of_task(task, texts, asked_by="dimensions")
    if site != "hidden_state" and 0 in layers:
        raise ModelError(f"site {site}: the embeddings have none: give layers from 1")
    read = {name: word_states(encoder, of, layers=layers, site=site, on_long="window") for name, of in texts.items()}
    states = LabelledStates.of(read, labels)
    order = states.rank(ranking, k)
    text = _ReadText(texts["train"], states.codes("train"), labels.values, least)
    best = [
        RankedDimension(layer, rank, int(dim), *text.ends(read["train"][place, :, int(dim)], n_words))
        for place, layer in enumerate(layers)
        for rank, dim in enumerate(order[place, :k], 1)
    ]
    corpus_name = str(getattr(corpus, "name", "corpus"))
    return RankedDimensions(encoder.name, corpus_name, task, ranking, site, tuple(layers), order, tuple(best))


class _ReadText:
    """A text whose word forms are compared in one dimension."""

    def __init__(self, sentences: Sentences, codes: Integers, values: tuple[str, ...], least: int) -> None:
        self._sentences, self._least = sentences, least
        forms = np.array([form.lower() for form in sentences.forms.values], dtype=object)
        labels = np.array([*values, None], dtype=object)  # the last for −1
        self._words = pd.DataFrame({"form": forms[sentences.forms.codes], "label": labels[codes]})
        if self._words.form.value_counts().max() < least:
            raise CorpusError(f"no word form occurs {least} times in train: give more text, or a smaller least")

    def ends(self, values: Tensor, n: int) -> tuple[Any, Any, Any]:
        """Labels by their mean, the highest words and the lowest, from the values ``[word]`` of a dimension."""
        found = values.double().numpy()
        words = self._words.assign(z=(found - np.nanmean(found)) / (np.nanstd(found) or 1.0)).dropna(subset="z")
        labels = words.groupby("label").z.mean().sort_values(ascending=False)
        forms = words.groupby("form").z.agg(["mean", "size", "idxmax", "idxmin"])
        forms = forms[forms["size"] >= self._least].sort_values("mean", ascending=False, kind="stable")
        high = tuple(self._word(one, one.idxmax) for one in forms[:n].itertuples())
        low = tuple(self._word(one, one.idxmin) for one in forms[::-1][:n].itertuples())
        return tuple(labels.items()), high, low

    def _word(self, form: Any, word: Any) -> MovedWord:
        number = int(self._sentences.sentence_of_word[word])
        sentence = self._sentences[number]
        start, end = sentence.spans[word - int(self._sentences.starts[number])]
        before, after = sentence.text[max(0, start - _WIDTH) : start], sentence.text[end : end + _WIDTH]
        return MovedWord(form.Index, form.mean, form.size, before, sentence.text[start:end], after)


def lines_of(found: RankedDimensions) -> Iterator[list[str]]:
    """Rows of a table: dimension, labels at both ends, and words at both ends with their means."""
    yield ["layer", "dimension", "high in", "low in", "high words", "low words"]
    for one in found.best:
        ends = [", ".join(f"{word.word} {word.z:+.1f}" for word in end) for end in (one.high, one.low)]
        labels = [f"{label} {z:+.1f}" for label, z in (one.labels[0], one.labels[-1])]
        yield [layer_label(one.layer), str(one.dimension), *labels, *ends]
