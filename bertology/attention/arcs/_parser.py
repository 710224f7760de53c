"""A dependency parser made of attention maps: how well all heads together name the head of each word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bertology.activations import Progress, read_words, silent
from bertology.attention._pass import stream_maps
from bertology.attention._ratios import HeadRatios, Integers, Scope, text_ratios
from bertology.attention._statistic import HeadStatistic, MapBatch
from bertology.attention.arcs._hits import Places, check_level
from bertology.attention.arcs._questions import TextTrees
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.errors import CorpusError, FitError

_FEWEST = 10


@dataclass(frozen=True, kw_only=True)
class ParserSettings:
    """How a parser is fitted."""

    with_words: bool = False
    """Whether the weight of a head depends on the two words, by their vectors in layer 0, or is the same for all."""
    most_sentences: int = 1000
    """Sentences whose maps are held in memory; of more so many are drawn at random."""
    learning_rate: float = 0.03
    """Of Adam; a tenth of it where weights depend on words."""
    batch_sentences: int = 32
    max_epochs: int = 60
    patience: int = 4
    """Epochs without a lower loss on dev after which the best weights so far are taken."""
    seed: int = 0


def crossfit_attention_parser(
    encoder: Encoder,
    sentences: Sentences,
    trees: TextTrees,
    *,
    name: str,
    settings: ParserSettings | None = None,
    layers: Sequence[int] | None = None,
    on_long: str = "skip",
    progress: Progress = silent,
) -> HeadRatios:
    """The score of a dependency parser made of the maps of all heads together (Clark et al. 2019, section 5).

    The probability that word i is the head of word j is proportional to exp Σ_k (w_k α^k_ji + u_k α^k_ij), k running
    over all heads, α^k_ji the attention from j to i. With words, w_k is w_k + a_k·v_i + b_k·v_j, u_k likewise; v are
    the model's own vectors of layer 0 where the paper has GloVe. Every other word of the sentence is a candidate. The
    root has no head among them and is not scored, nor is punctuation.

    Each half of the text is parsed by weights that were fitted to the other half, a fifth of which decides when to
    stop.

    Args:
        encoder: whose maps.
        sentences: what is fitted to and scored.
        trees: the trees of those sentences that are scored.
        name: of the ratio.
        settings: how parsers are fitted.
        layers: whose maps, from 1; all when left out.
        on_long: what to do with sentences longer than the model takes; those read in windows are not scored.
        progress: counts what is read.

    Returns:
        ``attention_uas`` of the whole model: the share of words whose head is named.

    Raises:
        CorpusError: there are fewer than ten sentences that can be read.
        FitError: a setting is out of range.
        ModelError: the model gives no maps.
    """
    settings = settings or ParserSettings()
    if min(settings.most_sentences, settings.batch_sentences, settings.max_epochs, settings.patience) < 1:
        raise FitError("most_sentences, batch_sentences, max_epochs and patience should be at least 1")
    examples = _read(encoder, sentences, trees, settings, layers=layers, on_long=on_long, progress=progress)
    if len(examples) < _FEWEST:
        raise CorpusError(f"{len(examples)} sentences with a tree to parse: give at least {_FEWEST}")
    scores = []
    for fitted_to, scored in ((examples[::2], examples[1::2]), (examples[1::2], examples[::2])):
        train = [one for place, one in enumerate(fitted_to) if place % 5]
        scores.append(_score(_fit(train, fitted_to[::5], settings), scored))
    right, n_words, of_sentence = (np.concatenate(parts) for parts in zip(*scores, strict=True))
    return text_ratios((name,), sentences, of_sentence, np.zeros_like(right), right, n_words, metric="attention_uas")


class _KeptMaps(HeadStatistic):
    """The word-level maps ``[map, word, word]`` of all sentences that one window shows whole, as float16, by number of
    the sentence: for a few thousand at most."""

    def __init__(self, scope: Scope) -> None:
        check_level(scope)
        self._kept: dict[int, list[Tensor]] = {}

    def update(self, batch: MapBatch) -> None:
        places = Places(batch.units)
        starts = np.searchsorted(places.windows, np.arange(len(batch.units) + 1))
        for window, sentence in enumerate(batch.units.sentences.tolist()):
            of_window = slice(starts[window], starts[window + 1])
            units = torch.from_numpy(places.units[of_window]).to(batch.maps.device)
            if places.counts[of_window].all():
                maps = batch.maps[window][:, units[:, None], units]
                self._kept.setdefault(sentence, []).append(maps.to("cpu", torch.float16))

    def merge(self, other: _KeptMaps) -> None:
        self._kept |= other._kept

    def finish(self) -> dict[int, Tensor]:
        return {sentence: torch.cat(maps) for sentence, maps in self._kept.items()}


@dataclass(frozen=True, eq=False)
class _Example:
    """One sentence, as a parser takes it."""

    sentence: int  # its number in the text
    maps: Tensor  # [map, word, word] float16, the heads of the first layer first
    heads: Tensor  # [word] place of the head of each, −1 for words that are not scored
    vectors: Tensor | None  # [word, dim]


def _read(
    encoder: Encoder,
    sentences: Sentences,
    trees: TextTrees,
    settings: ParserSettings,
    **reading: Any,
) -> list[_Example]:
    """The sentences that are scored, those of like length together; ``reading`` is how :func:`stream_maps` reads."""
    some = trees.some(settings.most_sentences, seed=settings.seed)
    if not len(some.sentences):
        raise CorpusError("no tree to parse in the given text")
    drawn = Sentences(sentences[number] for number in some.sentences.tolist())
    (maps_of,) = stream_maps(encoder, drawn, [_KeptMaps], **reading).results
    # A word of no piece is in no map.
    lengths = np.diff(drawn.starts)
    whole = [number for number, maps in sorted(maps_of.items()) if maps.shape[-1] == lengths[number]]
    if not whole:
        raise CorpusError("no sentence of the given text can be read whole: it is too long for the model")
    read = Sentences(drawn[number] for number in whole)
    vectors = read_words(encoder, read, layers=[0])[0] if settings.with_words else None
    examples = []
    for place, number in enumerate(whole):
        sentence = int(some.sentences[number])
        words = slice(trees.starts[sentence], trees.starts[sentence + 1])
        heads = np.where(trees.scored[words] & (trees.heads[words] > 0), trees.heads[words] - 1, -1)
        of_words = None if vectors is None else vectors[int(read.starts[place]) : int(read.starts[place + 1])].float()
        examples.append(_Example(sentence, maps_of[number], torch.from_numpy(heads), of_words))
    return sorted(examples, key=lambda one: (len(one.heads), one.sentence))


class _Parser(nn.Module):
    """Weights of heads, the same for all words or not."""

    def __init__(self, n_heads: int, vectors: Tensor | None) -> None:
        super().__init__()
        # Of attention from a word to its head, and from the head to the word.
        self.plain = nn.Parameter(torch.zeros(2, n_heads))
        # Of the head word and the dependent, for attention upwards and downwards.
        shape = None if vectors is None else (2, 2, vectors.shape[-1], n_heads)
        self.of_words = None if shape is None else nn.Parameter(torch.zeros(shape))

    def forward(self, maps: Tensor, vectors: Tensor | None) -> Tensor:
        """Scores ``[sentence, dependent, head]`` of maps ``[sentence, map, word, word]``."""
        scores = torch.einsum("skde,k->sde", maps, self.plain[0]) + torch.einsum("sked,k->sde", maps, self.plain[1])
        if self.of_words is None or vectors is None:
            return scores
        weights = torch.einsum("swv,pqvk->pqskw", vectors, self.of_words)
        for way, directed in enumerate((maps, maps.transpose(2, 3))):
            scores = scores + (directed * (weights[way, 0][:, :, None] + weights[way, 1][:, :, :, None])).sum(1)
        return scores


def _fit(train: list[_Example], dev: list[_Example], settings: ParserSettings) -> _Parser:
    """Fit by Adam until the loss on dev no longer falls."""
    parser = _Parser(train[0].maps.shape[0], train[0].vectors)
    rates = {"plain": settings.learning_rate, "of_words": settings.learning_rate / 10}
    groups = [{"params": [weights], "lr": rates[name]} for name, weights in parser.named_parameters()]
    optimizer = torch.optim.Adam(groups)
    order = np.random.default_rng(settings.seed)
    best, best_epoch, state = float("inf"), 0, {}
    for epoch in range(1, settings.max_epochs + 1):
        batches = list(_batches(train, settings.batch_sentences))
        for number in order.permutation(len(batches)).tolist():
            loss, _ = _loss(parser, batches[number])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            losses = [(float(loss) * n, n) for loss, n in (_loss(parser, batch) for batch in _batches(dev))]
        on_dev = sum(loss for loss, _ in losses) / max(1, sum(n for _, n in losses))
        if on_dev < best - 1e-5:
            best, best_epoch = on_dev, epoch
            state = {name: value.clone() for name, value in parser.state_dict().items()}
        elif epoch - best_epoch >= settings.patience:
            break
    parser.load_state_dict(state)
    return parser


def _batches(examples: list[_Example], size: int = 32) -> Iterator[list[_Example]]:
    return (examples[start : start + size] for start in range(0, len(examples), size))


def _forward(parser: _Parser, batch: list[_Example]) -> tuple[Tensor, Tensor]:
    """``[sentence, dependent, head]`` scores, −∞ where there is no other word, and ``[sentence, word]`` true heads."""
    lengths = torch.tensor([len(one.heads) for one in batch])
    longest = int(lengths.max())
    maps = torch.zeros(len(batch), batch[0].maps.shape[0], longest, longest)
    for into, one in zip(maps, batch, strict=True):
        into[:, : len(one.heads), : len(one.heads)] = one.maps.float()
    heads = pad_sequence([one.heads for one in batch], batch_first=True, padding_value=-1)
    of_words = [one.vectors for one in batch if one.vectors is not None]
    vectors = pad_sequence(of_words, batch_first=True) if of_words else None
    apart = ~(torch.arange(longest) < lengths[:, None])[:, None] | torch.eye(longest, dtype=torch.bool)
    return parser(maps, vectors).masked_fill(apart, -torch.inf), heads


def _loss(parser: _Parser, batch: list[_Example]) -> tuple[Tensor, int]:
    """Mean of −ln p of the true heads, and the number of words."""
    scores, heads = _forward(parser, batch)
    has_head = heads >= 0
    chosen = scores[has_head]
    if not len(chosen):
        return parser.plain.sum() * 0.0, 0
    return nn.functional.cross_entropy(chosen, heads[has_head]), len(chosen)


@torch.no_grad()
def _score(parser: _Parser, examples: list[_Example]) -> tuple[Integers, Integers, Integers]:
    """``[sentence]`` words whose head is named, words with a head to name, and the number of the sentence."""
    right, n_words = [], []
    for batch in _batches(examples):
        scores, heads = _forward(parser, batch)
        right += ((scores.argmax(-1) == heads) & (heads >= 0)).sum(-1).tolist()
        n_words += (heads >= 0).sum(-1).tolist()
    return np.array(right), np.array(n_words), np.array([one.sentence for one in examples])
