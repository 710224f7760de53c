"""The statistics of all heads: how much attention goes where, how sharp it is, where its maximum lies, and which heads
are alike; :func:`head_statistics` has all of them in one table. And maps that are kept: of the same sentences in two
models; and attention through several layers."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from bertology._lazy import pd, scipy
from bertology._machine import Workers
from bertology.activations.progress import Progress, silent
from bertology.attention import maps as streaming
from bertology.attention.maps import MapBatch, SumsStatistic, Units
from bertology.corpora import Corpus, Sentences, load_corpus
from bertology.encoders import Encoder, open_encoder
from bertology.encoders.alignment import OnLong
from bertology.errors import CorpusError, ModelError, ResultsError
from bertology.measures.sums import Floats, Integers, Level, Scope

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FARTHEST = 3
"""Offsets up to this many words to either side are distinguished."""
_CHUNK_VALUES = 1 << 16
"""Number of attention weights that are compared together: as many as stay in the processor's caches."""
_TINY = 1e-30  # keeps the logarithm of 0 finite


def head_measures(*, norms: bool = False, effective: bool = False) -> list[streaming.MakeStatistic]:
    """The statistics of single heads, without distances between heads; with ``norms`` also shares of ‖αf(x)‖, and with
    ``effective`` those of effective attention."""
    return [Masses, Sharpness, Offsets, *([NormShares] if norms else []), *([EffectiveMasses] if effective else [])]


class Masses(SumsStatistic):
    """Mean attention of words to kinds of units (Clark et al. 2019, sections 3.1 and 3.2), and its mean distance.

    Rows are words (at piece level, pieces of words); special tokens are columns only, for what they look at is a
    matter of its own. Each mass is a mean over the rows that have such a unit: ``previous`` leaves out the first word,
    ``same_word`` words that occur once in their sentence; ``punctuation`` is over all rows, for punctuation there may
    be none.

    - ``cls``, ``sep``: to the special tokens that open and close the text; NaN for a model without them.
    - ``punctuation``: to words of nothing but punctuation, the row's own word among them.
    - ``self``, ``previous``, ``next``: to the unit itself and the words (pieces of words) next to it.
    - ``same_word``: to other words of the same form, whatever their case.
    - ``distance``: Σ α·|offset| ÷ Σ α over attention to words, in words (pieces) (Vig & Belinkov 2019, section 4.3).
    """

    names = ("cls", "sep", "punctuation", "self", "previous", "next", "same_word", "distance")

    def sums(self, batch: MapBatch) -> Iterator[streaming.BatchSums]:
        """Masses of each kind, then the distance."""
        weights, n_rows = batch.units.once("masses", _cells)
        over = weighted_sums(batch.maps, weights)
        yield streaming.BatchSums(self.names[:-1], over[..., :-2], n_rows, "attention_mass")
        yield streaming.BatchSums(self.names[-1:], over[..., -2:-1], over[..., -1:])


class NormShares(SumsStatistic):
    """Shares of what heads add to words, by the kind of unit that it comes from (Kobayashi et al. 2020, section 4).

    The measure is ‖αf(x)‖: a large weight on a vector that a head maps to nearly nothing has no effect. A share is
    Σ ‖αf(x)‖ over units of a kind, divided by the same sum over all units. Rows are words. ``norm_cls``, ``norm_sep``,
    ``norm_punctuation`` and ``norm_self`` correspond to ``cls``, ``sep``, ``punctuation`` and ``self`` of
    :class:`Masses`. Norms of a word's pieces are summed, as its weights are.
    """

    names = ("norm_cls", "norm_sep", "norm_punctuation", "norm_self")

    def sums(self, batch: MapBatch) -> Iterator[streaming.BatchSums]:
        """Sums of ‖αf(x)‖ of each kind, and of all."""
        units, norms = batch.units, _norms_of(batch)
        given = norms.given
        kinds = torch.stack([units.is_cls, units.is_sep, units.is_punctuation], dim=-1)
        over = torch.cat([given @ kinds.to(given), norms.kept[..., None]], dim=-1)
        # Without such a token in the model there is no share of it.
        present = kinds.any(1)  # [sentence, kind]
        present[:, 2] = True
        under = given.sum(-1, keepdim=True).expand_as(over).clone()
        under[..., :3] *= present[:, None]
        yield streaming.BatchSums(self.names, over, under, "norm_share")


def _norms_of(batch: MapBatch) -> streaming.MapNorms:
    if batch.norms is None:
        raise ValueError("norms were not asked for: stream_maps(…, norms=True)")
    return batch.norms


class EffectiveMasses(SumsStatistic):
    """Effective attention: the part of a map that reaches the output of its head (Brunner et al. 2020, section 3.2).

    - ``effective_cls`` … ``effective_same_word``: as the masses of :class:`Masses`, of effective attention, whose
      weights may be below 0 and need not sum to 1.
    - ``effective_share``: squared weights of effective attention ÷ those of attention, over the rows of words: 1 where
      a text has no more pieces than values have dimensions.
    """

    names = (*(f"effective_{name}" for name in Masses.names[:-1]), "effective_share")

    def sums(self, batch: MapBatch) -> Iterator[streaming.BatchSums]:
        """Masses of each kind, then the squared weights."""
        weights, n_rows = batch.units.once("masses", _cells)
        norms = _norms_of(batch)
        merged = norms.inputs.merged(norms.effective)
        yield streaming.BatchSums(self.names[:-1], weighted_sums(merged, weights)[..., :-2], n_rows, "effective_mass")
        effective, raw = norms.effective_squares
        yield streaming.BatchSums(self.names[-1:], effective[..., None], raw[..., None])


class Sharpness(SumsStatistic):
    """Entropy and confidence of heads.

    - ``entropy_nats``: mean entropy of the attention of words, in nats (Clark et al. 2019, section 3.3).
    - ``cls_entropy_nats``: the same of the token that opens the text; NaN for a model without one.
    - ``confidence``: mean over words of the largest attention weight to a word (Voita et al. 2019, section 4:
      special tokens do not compete).
    """

    names = ("entropy_nats", "cls_entropy_nats", "confidence")

    def sums(self, batch: MapBatch) -> Iterator[streaming.BatchSums]:
        """Sums of entropies and of largest weights over attending words, and the numbers of these words."""
        units = batch.units
        entropy = row_entropy(batch.maps)
        opening = units.is_cls & units.counts
        largest, _ = batch.most_attended
        over = [
            streaming.row_sums(entropy, units.word_rows),
            streaming.row_sums(entropy, opening),
            streaming.row_sums(largest, units.word_rows),
        ]
        n_words = units.word_rows.sum(-1)
        under = torch.stack([n_words, opening.sum(-1), n_words], dim=-1)
        yield streaming.BatchSums(self.names, torch.stack(over, dim=-1), under)


class Offsets(SumsStatistic):
    """Shares of words whose most attended word stands at each offset (Voita et al. 2019, section 5.1: a head is
    positional if one offset has 90 % of them).

    ``argmax_-1`` is the previous word, ``argmax_+1`` the next, ``argmax_0`` the word itself, ``argmax_before`` and
    ``argmax_after`` all that is farther than three words; special tokens do not compete. They sum to 1.
    """

    names = ("argmax_before", *(f"argmax_{d:+d}" if d else "argmax_0" for d in range(-3, 4)), "argmax_after")

    def sums(self, batch: MapBatch) -> Iterator[streaming.BatchSums]:
        """Numbers of rows with their maximum at each offset, and of all rows."""
        units = batch.units
        _, best = batch.most_attended  # [sentence, head, unit]
        positions = units.position[:, None].expand_as(best)
        offsets = positions.gather(2, best) - positions
        bins = offsets.clamp(-FARTHEST - 1, FARTHEST + 1) + FARTHEST + 1
        counted = units.word_rows[:, None].expand_as(bins)
        over = torch.zeros(*bins.shape[:2], len(self.names), device=best.device)
        over.scatter_add_(2, bins, counted.float())
        under = units.word_rows.sum(-1, keepdim=True).expand(-1, len(self.names))
        yield streaming.BatchSums(self.names, over, under, "argmax_share")


def weighted_sums(maps: Tensor, weights: Tensor) -> Tensor:
    """``Σ_ij maps_ij · weights_ij``: ``[sentence, head, kind]`` of ``[sentence, kind, unit, unit]`` weights, in one
    product, which reads the maps once."""
    return torch.bmm(maps.flatten(2), weights.flatten(2).transpose(1, 2))


def row_entropy(maps: Tensor) -> Tensor:
    """Entropy in nats of each row ``[..., unit]``, scaled to a sum of 1; 0 for a row of zeros."""
    total = maps.sum(-1)
    # Of p = a / s, with s the row's sum, the entropy is ln s − (Σ a ln a) / s: no copy of the maps is divided by s.
    inside = maps.clamp_min(torch.finfo(maps.dtype).tiny).log_().mul_(maps).sum(-1)
    return torch.where(total == 0, 0, total.log() - inside / total)


def _cells(units: Units) -> tuple[Tensor, Tensor]:
    """Weights of map cells in each kind of mass, ``[sentence, kind, unit, unit]``, and, for kinds that are means over
    rows, the number of rows, ``[sentence, kind]``."""
    rows, words = units.word_rows[:, :, None], units.is_word[:, None]  # [sentence, unit, 1], [sentence, 1, unit]
    offset = units.position[:, None] - units.position[:, :, None]
    same = (units.form[:, None] == units.form[:, :, None]) & (units.word[:, None] != units.word[:, :, None])
    kinds = [units.is_cls[:, None], units.is_sep[:, None], units.is_punctuation[:, None]]
    kinds += [words & (offset == 0), words & (offset == -1), words & (offset == 1), words & same]
    cells = torch.stack([kind & rows for kind in kinds], dim=1)
    n_rows = cells.any(-1).sum(-1)
    n_rows[:, 2] = units.word_rows.sum(-1)
    between = rows & words
    distance = torch.where(between, offset.abs(), 0)
    return torch.cat([cells.float(), distance[:, None].float(), between[:, None].float()], dim=1), n_rows


@dataclass(frozen=True, eq=False)
class HeadDistances:
    """Jensen–Shannon divergences between heads, averaged over words."""

    matrix: Floats
    """``[head, head]`` in nats, 0 (the same attention) to ln 2 (no unit in common); heads of the first layer first."""
    layers: tuple[int, ...]
    n_heads: int
    n_rows: int  # number of words whose attention was compared

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the heads, ``L1H1`` and so on, in the order of the matrix."""
        return tuple(f"L{layer}H{head}" for layer in self.layers for head in range(1, self.n_heads + 1))

    def clusters(self, n_clusters: int) -> NDArray[np.int64]:
        """``[head]`` cluster of each, from 1 in order of their first heads, by average linkage.

        Raises:
            ResultsError: fewer than one cluster is asked for, or more than there are heads.
        """
        if not 1 <= n_clusters <= len(self.matrix):
            raise ResultsError(f"{n_clusters} clusters of {len(self.matrix)} heads: ask for 1 to {len(self.matrix)}")
        hierarchy, pairs = scipy.cluster.hierarchy, scipy.spatial.distance.squareform(self.matrix, checks=False)
        numbers = hierarchy.fcluster(hierarchy.linkage(pairs, method="average"), n_clusters, criterion="maxclust")
        return np.asarray(pd.factorize(numbers)[0] + 1)


class Divergences(streaming.HeadStatistic):
    """Jensen–Shannon divergence of the attention of every two heads, averaged over words (Clark et al. 2019, §6).

    All pairs of 144 heads make 10,296 distributions a word, so words are drawn at random: up to ``rows`` of each
    sentence (or window), all where it is None, the same ones whatever it is batched with; each is weighted for the
    words that were not drawn.
    """

    def __init__(self, scope: Scope, *, rows: int | None = 8, seed: int = 0) -> None:
        self._scope, self._rows, self._seed = scope, rows, seed
        n = len(scope.layers) * scope.n_heads
        self._sums = torch.zeros(n, n, dtype=torch.float64)
        self._weight, self._n_rows = 0.0, 0
        self._held: list[Tensor] = []

    def update(self, batch: MapBatch) -> None:
        """Hold the drawn rows of one layer; with the last layer, compare them."""
        sentences, rows, weights = batch.units.once(self, self._draw)
        self._held.append(batch.maps.transpose(0, 1)[:, sentences, rows])  # [head, row, unit]
        if batch.layer == self._scope.layers[-1]:
            self._sums += divergences(torch.cat(self._held), weights)
            self._weight += float(weights.sum())
            self._n_rows += len(rows)
            self._held = []

    def merge(self, other: "Divergences") -> None:
        """Add the sums of another thread."""
        self._sums += other._sums
        self._weight += other._weight
        self._n_rows += other._n_rows

    def finish(self) -> HeadDistances:
        """The result, frozen."""
        mean = self._sums.numpy() / self._weight
        # Rounding must not make a divergence of nothing negative.
        return HeadDistances(np.maximum(mean, 0), self._scope.layers, self._scope.n_heads, self._n_rows)

    def _draw(self, units: Units) -> tuple[Tensor, Tensor, Tensor]:
        """``[row]`` the sentence and unit of each word that is compared, and how much it counts."""
        parts: list[tuple[Any, ...]] = []
        for place, is_row in enumerate(units.word_rows.cpu().numpy()):
            chosen = np.flatnonzero(is_row)
            n = len(chosen)
            if self._rows is not None and n > self._rows:
                generator = np.random.default_rng([self._seed, int(units.windows[place])])
                chosen = np.sort(generator.choice(chosen, self._rows, replace=False))
            weights = np.full(len(chosen), n / max(1, len(chosen)), dtype=np.float32)
            parts.append((np.full(len(chosen), place), chosen, weights))
        whole = (torch.from_numpy(np.concatenate(part)) for part in zip(*parts, strict=True))
        places, drawn, shares = (part.to(units.word.device) for part in whole)
        return places, drawn, shares


def divergences(rows: Tensor, weights: Tensor) -> Tensor:
    """``[head, head]`` Jensen–Shannon divergences in nats of ``[head, row, unit]`` attention, whatever its sum, summed
    over rows, each of which counts ``[row]`` its weight; on the processor."""
    n_heads, n_rows, n_units = rows.shape
    far = n_heads // 2
    alone = torch.zeros(n_heads, dtype=torch.float64)
    # Of head h and the one d after it, the last being followed by the first: so every step is of equal size.
    both = torch.zeros(far, n_heads, dtype=torch.float64)
    step = max(1, _CHUNK_VALUES // (n_heads * n_units))
    for start in range(0, n_rows, step):
        part = rows[:, start : start + step]
        # Half of each distribution, so that two add up to their mean, times the row's weight, so that one sum serves
        # all rows: Σ w·m·ln(w·m) differs from w·Σ m·ln m by w·ln w, which is the same for all heads and cancels.
        shares = (weights[start : start + step].to(part) / 2)[:, None] / part.sum(-1, keepdim=True).clamp_min(_TINY)
        # Cells that no head attends to, such as padding, are left out.
        halves = (part * shares).add_(_TINY).flatten(1)[:, part.any(0).flatten()]
        whole, twice, totals = 2 * halves, torch.cat([halves, halves[:far]]), halves.new_empty(far, n_heads)
        alone += whole.log().mul_(whole).sum(-1).cpu()
        mean, logs = torch.empty_like(halves), torch.empty_like(halves)
        for number, sums in enumerate(totals.unbind(), start=1):  # Σ m·ln m of each head and the one so far behind it
            torch.add(halves, twice[number : number + n_heads], out=mean)
            torch.log(mean, out=logs)
            torch.sum(logs.mul_(mean), dim=-1, out=sums)
        both += totals.cpu()
    first = torch.arange(n_heads).expand(far, -1)
    second = (first + torch.arange(1, far + 1)[:, None]) % n_heads
    whole = torch.zeros(n_heads, n_heads, dtype=torch.float64)
    whole[first, second] = whole[second, first] = (alone[first] + alone[second]) / 2 - both
    return whole


@dataclass(frozen=True, eq=False)
class HeadStatistics:
    """Statistics of every head with intervals, and distances between heads."""

    model: str
    names: tuple[str, ...]
    """Names of the statistics; see :class:`Masses`, :class:`Sharpness`, :class:`Offsets` and :class:`NormShares`."""
    frame: "pd.DataFrame"  # a row a head, see to_pandas
    distances: HeadDistances | None  # none unless distances were requested
    read: streaming.MapPass  # what was read: layers and units, numbers of sentences and words, and why others were not

    def of(self, name: str) -> Floats:
        """``[layer, head]`` values of one statistic; NaN where there was nothing to count.

        Raises:
            ResultsError: there is none of that name.
        """
        if name not in self.names:
            raise ResultsError(f"no statistic {name!r}: there are {', '.join(self.names)}")
        return np.asarray(self.frame[name].to_numpy().reshape(len(self.read.scope.layers), -1))

    def to_pandas(self) -> "pd.DataFrame":
        """One row a head: ``layer``, ``head`` (``L3H5``), and of each statistic its value, ``_low`` and ``_high``, the
        ends of its 95 % interval by bootstrap over sentences; of more than a thousand, neighbours are drawn together.
        """
        return self.frame.copy()

    def plot(self, names: Sequence[str] | None = None) -> "Figure":
        """Layers by heads as shades, a panel for each of ``names``, all that have values when left out."""
        from bertology.results.figures import plot_heads

        if names is None:
            names = [name for name in self.names if np.isfinite(self.of(name)).any()]
        return plot_heads([(name, self.of(name)) for name in names], self.read.scope.layers)


def head_statistics(
    model: str | Path | Encoder | tuple[Any, Any] = "pocket",
    corpus: str | Path | Corpus | Sentences = "pocket",
    *,
    split: str = "test",
    layers: Sequence[int] | None = None,
    level: Level = "word",
    norms: bool = False,
    distances: bool = True,
    on_long: OnLong = "window",
    device: str = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> HeadStatistics:
    """Statistics of all heads in one pass over a text: what each attends to, how sharply, how far away, and distances.

    >>> from bertology.attention import head_statistics
    >>> table = head_statistics("pocket", "pocket")  # doctest: +SKIP
    >>> table.to_pandas().nlargest(5, "previous")  # doctest: +SKIP

    Args:
        model: an encoder, or the name or path of one, which computes on ``device``.
        corpus: sentences, a corpus, or the name or path of one, of which a ``split`` is read.
        split: name of the split.
        layers: from 1; all when left out.
        level: units of the maps, words or pieces.
        norms: also the shares of what heads add by ‖αf(x)‖, for models built as BERT is.
        distances: also Jensen–Shannon divergences between heads, over eight words of each sentence.
        on_long: what to do with a sentence longer than the model takes.
        device: where a model given by name computes.
        seed: of the bootstrap and of the words drawn for distances.
        progress: counts the pieces that are read.

    Raises:
        BertologyError: the model or corpus cannot be read, the model gives no maps, or nothing can be read.
    """
    encoder = open_encoder(model, device=device, attention="eager")
    if not isinstance(corpus, Corpus | Sentences):
        corpus = load_corpus(corpus)
    sentences = corpus[split] if isinstance(corpus, Corpus) else corpus
    makers = head_measures(norms=norms) + [partial(Divergences, seed=seed)] * distances
    read = streaming.stream_maps(
        encoder, sentences, makers, layers=layers, level=level, norms=norms, on_long=on_long, progress=progress
    )
    ratios = [part for result in read.results if isinstance(result, tuple) for part in result]
    names = [(part, name) for part in ratios for name in part.names]
    # Each on one core: products as small as these take twice as long on several.
    with threadpool_limits(1, user_api="blas"), Workers(torch.device("cpu")) as workers:
        intervals = workers.map(lambda number: names[number][0].intervals(names[number][1], seed=seed), len(names))
    heads = list(itertools.product(read.scope.layers, range(1, read.scope.n_heads + 1)))
    columns: dict[str, Any] = {"layer": [layer for layer, _ in heads], "head": [f"L{a}H{b}" for a, b in heads]}
    for (_, name), of_name in zip(names, intervals, strict=True):
        columns |= {name: of_name.values, f"{name}_low": of_name.ci_low, f"{name}_high": of_name.ci_high}
    return HeadStatistics(
        model=encoder.name,
        names=tuple(name for _, name in names),
        frame=pd.DataFrame(columns),
        distances=read.results[-1] if distances else None,
        read=read,
    )


_CAPACITY = 10**9  # the integer for an attention weight of 1 in scipy's flow; twice that still fits 32 bits
_AT_ONCE = 1 << 24  # attention weights of one model that are in memory at a time, roughly
KeptMap = tuple[Integers, Tensor]
"""``[unit]`` numbers of words in the text that was read, −1 for special tokens; maps ``[layer, head, unit, unit]``."""


class KeptMaps(streaming.HeadStatistic):
    """The maps themselves, of sentences that one window shows whole: for a few thousand at most, by number of the
    sentence."""

    def __init__(self, scope: Scope, *, dtype: torch.dtype = torch.float64) -> None:
        self._dtype = dtype
        self._kept: dict[int, tuple[Integers, list[Tensor]]] = {}

    def update(self, batch: MapBatch) -> None:
        """Keep the maps of one layer."""
        units = batch.units
        words, counts = units.word.cpu().numpy(), units.counts.cpu().numpy()
        for row, (sentence, n) in enumerate(zip(units.sentences.tolist(), units.lengths.tolist(), strict=True)):
            own = words[row, :n]
            if counts[row, :n][own >= 0].all():
                _, maps = self._kept.setdefault(sentence, (own, []))
                maps.append(batch.maps[row, :, :n, :n].to("cpu", self._dtype))

    def merge(self, other: Self) -> None:
        """Add the maps of another thread."""
        self._kept |= other._kept

    def finish(self) -> dict[int, KeptMap]:
        """The maps by number of the sentence."""
        return {sentence: (words, torch.stack(maps)) for sentence, (words, maps) in self._kept.items()}


@dataclass(frozen=True, eq=False)
class PairedMaps:
    """The maps of one sentence in two models."""

    sentence: int  # number of the sentence in the text
    model: Floats
    """``[layer, head, word, column]`` of the layers that are compared: from each word to all words and to special
    tokens, each of which is a column where both models have as many of them, else all of them together are one."""
    reference: Floats  # the same of the reference, whose layers are those that the former are compared with


def paired_maps(
    model: Encoder,
    reference: Encoder,
    sentences: Sentences,
    *,
    layers: Sequence[tuple[int, int]],
    on_long: OnLong = "window",
    progress: Progress = silent,
) -> Iterator[PairedMaps]:
    """Word-level attention maps (Clark et al. 2019) of two models, sentence by sentence; tokenizers may differ.

    Args:
        model: one of them.
        reference: the other one, with as many heads in a layer.
        sentences: the text.
        layers: from 1, each layer of the model with that of the reference.
        on_long: ``error``: sentences longer than a model takes are not accepted. They have no map of the whole, and are
            left out otherwise.
        progress: counts sentences.

    Raises:
        ModelError: the models have other numbers of heads, or one gives no maps.
        CorpusError: there is no sentence that both read whole.
    """
    if model.n_heads != reference.n_heads:
        heads = f"{model.name} has {model.n_heads} heads in a layer, {reference.name} {reference.n_heads}"
        raise ModelError(f"{heads}: heads are compared in pairs, so both models need the same number of them")
    lengths = np.diff(sentences.starts)
    is_whole = lengths > 0  # with words that are all encoded in one window of both models
    for encoder in (model, reference):
        pieces = encoder.tokenize(sentences, on_long=on_long)
        is_whole &= np.bincount(pieces.window_sentence, minlength=len(sentences)) == 1
        is_whole[sentences.sentence_of_word[[word.word for word in pieces.skipped]]] = False
    chosen = np.flatnonzero(is_whole)
    if not len(chosen):
        raise CorpusError("no sentence is read whole by both models: give a text with shorter sentences")
    read = [(encoder, [pair[side] for pair in layers]) for side, encoder in enumerate((model, reference))]
    progress.start(len(chosen), unit="sentences")
    # Sentences whose maps are in memory together.
    portions = (len(layers) * model.n_heads * (lengths[chosen] + 2) ** 2).cumsum() // _AT_ONCE
    for some in (chosen[portions == portion] for portion in np.unique(portions)):
        part = Sentences(sentences[number] for number in some.tolist())
        both: list[dict[int, KeptMap]] = [
            streaming.stream_maps(encoder, part, [KeptMaps], layers=own).results[0] for encoder, own in read
        ]
        for place, number in enumerate(some.tolist()):
            kept = [of_model[place] for of_model in both]
            together = len({int((words < 0).sum()) for words, _ in kept}) > 1
            maps = (_columns(one, own, together=together) for one, (_, own) in zip(kept, read, strict=True))
            yield PairedMaps(number, *maps)
        progress.advance(len(part))
    progress.finish()


def _columns(kept: KeptMap, layers: Sequence[int], *, together: bool) -> Floats:
    """``[layer, head, word, column]``, special tokens last, as one column if ``together``; each row sums to 1."""
    is_word, read = kept[0] >= 0, sorted(set(layers))
    maps = kept[1].numpy()[[read.index(layer) for layer in layers]][:, :, is_word]
    special = maps[..., ~is_word]
    if together:
        special = special.sum(axis=-1, keepdims=True)
    whole = np.concatenate([maps[..., is_word], special], axis=-1)
    return np.asarray(whole / whole.sum(axis=-1, keepdims=True))


def attention_rollout(maps: ArrayLike, *, residual: float = 0.5) -> Floats:
    """The share of each input unit in each unit of each layer, if attention mixed them linearly (attention rollout).

    Heads are averaged, the residual connection is a share of identity, and layers are multiplied (Abnar & Zuidema
    2020, section 3.2).

    Args:
        maps: ``[layer, head, unit, unit]``, or ``[layer, unit, unit]`` averaged already; from layer 1 on. Of pieces,
            as the model mixes them.
        residual: the share of the residual connection.

    Returns:
        ``[layer, unit, unit]`` from (rows) each unit of a layer to (columns) the input units.

    Raises:
        ModelError: maps of another shape, or a share outside 0…1.
    """
    return np.stack([*itertools.accumulate(_mixing(maps, residual), lambda below, step: step @ below)])


def attention_flow(maps: ArrayLike, *, residual: float = 0.5) -> Floats:
    """The most that can flow from each unit of the last layer to each input unit, attention weights being capacities.

    Edges lead from each unit to those that it attends to, one layer lower (Abnar & Zuidema 2020, section 3.3). Every
    pair is a maximum flow of its own: seconds for a sentence, not for a corpus. Right to about 1e-8.

    Args:
        maps: as of :func:`attention_rollout`; give the first layers only for the flow from an earlier layer.
        residual: the share of the residual connection.

    Returns:
        ``[unit, unit]`` from (rows) units of the last layer of ``maps`` to (columns) the input units.

    Raises:
        ModelError: maps of another shape, or a share outside 0…1.
    """
    mixing = _mixing(maps, residual)
    n_layers, n = mixing.shape[:2]
    layer, source, target = np.indices(mixing.shape, dtype=np.int32)
    capacity = np.rint(mixing * _CAPACITY).astype(np.int32).ravel()
    edges = ((layer + 1) * n + source).ravel(), (layer * n + target).ravel()
    n_nodes = (n_layers + 1) * n
    graph = scipy.sparse.csr_array(scipy.sparse.coo_array((capacity, edges), shape=(n_nodes, n_nodes)))
    most = scipy.sparse.csgraph.maximum_flow
    flow = [[most(graph, n_layers * n + top, bottom).flow_value for bottom in range(n)] for top in range(n)]
    return np.array(flow, dtype=np.float64) / _CAPACITY


def _mixing(maps: ArrayLike, residual: float) -> Floats:
    """``[layer, unit, unit]`` what each layer takes from the one below, the residual connection included."""
    mean = np.asarray(maps, dtype=np.float64)
    if mean.ndim == 4:
        mean = mean.mean(1)
    if mean.ndim != 3 or mean.shape[1] != mean.shape[2] or not mean.size:
        raise ModelError(f"maps of shape {np.shape(maps)}: give [layer, head, unit, unit] or [layer, unit, unit]")
    if not 0 <= residual <= 1:
        raise ModelError(f"residual {residual}: the share of the residual connection is from 0 to 1")
    return np.asarray(residual * np.eye(mean.shape[1]) + (1 - residual) * mean)
