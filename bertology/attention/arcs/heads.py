"""Statistics of heads that answer questions about arcs, candidates and trees; and a parser made of all heads."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bertology.activations import read_words
from bertology.attention.arcs.questions import WAYS, Arcs, TextTrees
from bertology.attention.maps import BatchSums, MapBatch, SumsStatistic, Units, stream_maps
from bertology.attention.measured import KeptMaps
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.encoders.alignment import numbers_in
from bertology.encoders.batching import padded
from bertology.errors import CorpusError, FitError
from bertology.measures.sums import HeadRatios, Integers, Scope, text_ratios
from bertology.measures.trees import spanning_arborescences

_LEAST = 1e-9  # added to attention, so that a word which attends to no candidate is as confused as chance
_FEWEST = 10  # sentences that a parser is fitted to and scored on, at least
_BATCH = 32  # sentences of which a parser is fitted to at a time
_PATIENCE = 4  # epochs without a lower loss on dev after which the best weights so far are taken
_APART = 4.0
"""Subtracted from weights, none of which is above 1, where a word may not be the answer. Words of several pieces that
are shared with another may sum to a little more than 1, never to this."""
_MOST_WORDS = 1 << 40  # more than a text has: keys of a window and a word do not run into one another
_MOST_SCORES = 1 << 19  # number of weights in one call that makes trees, so that they stay in the cache


class _Places:
    """Places of the words of a batch in its maps, in order of windows and words."""

    def __init__(self, units: Units) -> None:
        words = units.word.cpu().numpy()
        self.windows, self.units = np.nonzero(words >= 0)
        """``[place]`` of each word that a window shows, the window and the unit."""
        self.words: Integers = words[self.windows, self.units]
        self.counts: NDArray[np.bool_] = units.counts.cpu().numpy()[self.windows, self.units]
        """``[place]`` whether this is the window that the word is read from."""
        self._keys = self.windows * _MOST_WORDS + self.words

    def find(self, windows: Integers, words: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """The unit of each word in a window, and whether the window shows it."""
        keys = windows * _MOST_WORDS + words
        at = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        shown = self._keys[at] == keys if len(self._keys) else np.zeros(len(keys), dtype=bool)
        return self.units[at], shown


class _Asked(NamedTuple):
    """The questions about words that are read from the windows of a batch; answers that these windows show."""

    rows: Tensor
    """``[4, answer]`` window, unit of the asked word, unit of the answer, and place of the question in the batch, for
    questions that are answered by rows of maps."""
    columns: Tensor  # the same for those that are answered by columns
    is_right: Tensor  # [answer] of rows, whether it is correct
    slots: Tensor  # [question] window and group as one number
    n_questions: Tensor  # [window, group]

    @classmethod
    def of(cls, arcs: Arcs, units: Units) -> "_Asked":
        """The questions of some arcs in a batch."""
        arcs, places, n_groups = arcs.told_apart(units.left_out), _Places(units), len(arcs.names)
        read, by_word = np.flatnonzero(places.counts), arcs.by_word
        asked = arcs.asked[by_word]
        first, last = (np.searchsorted(asked, places.words[read], side=side) for side in ("left", "right"))
        of_word, numbers = numbers_in(first, last)
        numbers, windows, units_asked = by_word[numbers], *(of[read[of_word]] for of in (places.windows, places.units))
        slots = windows * n_groups + arcs.groups[numbers]
        question, of_answer = numbers_in(arcs.starts[numbers], arcs.starts[numbers + 1])
        answers, shown = places.find(windows[question], arcs.answers[of_answer])
        column = np.isin(arcs.names, list(arcs.looked_at))[arcs.groups[numbers]][question]
        whole = np.stack([windows[question], units_asked[question], answers, question])
        counts = np.bincount(slots, minlength=len(units) * n_groups).reshape(len(units), n_groups)
        right = arcs.is_right[of_answer][shown & ~column]
        parts = whole[:, shown & ~column], whole[:, shown & column], right, slots, counts
        return cls(*(torch.from_numpy(np.ascontiguousarray(part)).to(units.word.device) for part in parts))

    def summed(self, values: Tensor) -> Tensor:
        """``[window, head, group]`` sums over the questions of ``[question, head]`` values."""
        sums = torch.zeros(self.n_questions.numel(), values.shape[1], device=values.device)
        return sums.index_add_(0, self.slots, values).view(*self.n_questions.shape, -1).transpose(1, 2)


class ArcHits(SumsStatistic):
    """Shares of words that attend most to a correct answer (Clark et al. 2019, sections 4.2 and 4.3; Voita et al. 2019,
    section 5.2).

    Either the word that the asked one attends to most (row), or the word that attends to it most (column): see
    :class:`Arcs`, whose groups are the names of the ratios. Special tokens do not compete, nor does the word itself
    unless ``self_competes``; where questions have candidates these alone do, and a tie is a miss. Where a sentence is
    read in windows a word is asked about in the window that it is read from: the words which that window shows compete,
    and an answer which it does not show counts as a miss.
    """

    level = "word"

    def __init__(self, scope: Scope, arcs: Arcs, *, metric: str, self_competes: bool = False) -> None:
        super().__init__(scope)
        self._arcs, self._metric, self._self_competes = arcs, metric, self_competes

    def sums(self, batch: MapBatch) -> Iterator[BatchSums]:
        """Numbers of questions that each head answers, and of all."""
        asked = batch.units.once(self, partial(_Asked.of, self._arcs))
        shape = len(asked.slots), batch.maps.shape[1]
        if self._arcs.is_open:
            hits = torch.zeros(shape, device=batch.maps.device)
            weights = batch.maps - batch.units.once((self, "apart"), self._apart)
            for is_turned, (windows, rows, answers, questions) in enumerate((asked.rows, asked.columns)):
                if len(windows):
                    turned = weights.transpose(2, 3).contiguous() if is_turned else weights
                    best = turned.max(-1).indices[windows, :, rows]  # [answer, head]
                    hits.index_add_(0, questions, (best == answers[:, None]).float())
        else:
            windows, rows, answers, questions = asked.rows
            weights = batch.maps[windows, :, rows, answers]
            best = torch.full((2, *shape), -1.0, device=batch.maps.device)
            for largest, which in zip(best, (~asked.is_right, asked.is_right), strict=True):
                into = questions[which][:, None].expand(-1, shape[1])
                largest.scatter_reduce_(0, into, weights[which], "amax")
            hits = (best[1] > best[0]).float()
        yield BatchSums(self._arcs.names, asked.summed(hits), asked.n_questions, self._metric)

    def _apart(self, units: Units) -> Tensor:
        """``[sentence, 1, unit, unit]`` subtracted from weights, so that a maximum lies on another word."""
        apart = ~(units.is_word[:, None] & units.is_word[:, :, None])
        if not self._self_competes:
            apart |= torch.eye(apart.shape[1], dtype=torch.bool, device=apart.device)
        return (apart.float() * _APART)[:, None]


class CandidateConfusion(SumsStatistic):
    """Mean confusion of attention about candidates, in bits, and how far it is above chance (Lin, Tan & Frank 2019).

    Of the attention from a word to all candidates of its question a share p goes to the correct ones; confusion is
    −log₂ p, and by chance −log₂ of the share that the correct ones are of all candidates. Ratios of every head, and of
    every layer with the attention of its heads averaged first, as in the paper. The names of the ratios are the groups
    of questions. Where a sentence is read in windows, candidates that the asked word's window does not show are left
    out, and so are questions of which it shows no correct one. ``metrics`` are names of the confusion, and of the same
    less that of chance.
    """

    level = "word"

    def __init__(self, scope: Scope, arcs: Arcs, *, metrics: tuple[str, str]) -> None:
        super().__init__(scope)
        self._arcs, self._metrics = arcs, metrics

    def sums(self, batch: MapBatch) -> Iterator[BatchSums]:
        """Confusion of heads and how much it is above chance, then both of the layer."""
        asked = batch.units.once(self, partial(_Asked.of, self._arcs))
        windows, rows, answers, questions = asked.rows
        by_head = batch.maps[windows, :, rows, answers] + _LEAST  # [answer, head]
        counted = torch.zeros(len(asked.slots), 2, device=by_head.device)
        both = torch.stack([torch.ones_like(asked.is_right), asked.is_right], dim=1)
        counted.index_add_(0, questions, both.float())
        is_shown = counted[:, 1:] > 0
        chance = torch.where(is_shown, torch.log2(counted[:, :1] / counted[:, 1:].clamp(min=1)), 0.0)
        n_shown = asked.summed(is_shown.float())[:, 0]
        units: tuple[Literal["head", "layer"], ...] = ("head", "layer")
        for unit, weights in zip(units, (by_head, by_head.mean(1, keepdim=True)), strict=True):
            sums = torch.zeros(2, len(asked.slots), weights.shape[1], device=weights.device)
            sums[0].index_add_(0, questions, weights)
            sums[1].index_add_(0, questions[asked.is_right], weights[asked.is_right])
            bits = torch.where(is_shown, torch.log2(sums[0] / sums[1].clamp(min=_LEAST)), 0.0)
            for metric, values in zip(self._metrics, (bits, bits - chance), strict=True):
                yield BatchSums(self._arcs.names, asked.summed(values), n_shown, metric, unit)


class TreeHits(SumsStatistic):
    """Shares of undirected edges of trees that heads find, UUAS (Htut et al. 2019, sections 3.1 and 3.2).

    - ``maximum attention``: an edge is found if the maximum of either of its words lies on the other.
    - ``spanning tree``: it is found if it is in the tree of highest total weight that leads from the true root to all
      words, an edge weighing what the upper word gives to the lower.

    Words that do not count, such as punctuation, do not compete, nor do special tokens or the word itself. A sentence
    that is read in windows is left out, for no map shows the whole of it.
    """

    level = "word"

    def __init__(self, scope: Scope, trees: TextTrees, *, metric: str) -> None:
        super().__init__(scope)
        self._trees, self._metric = trees, metric

    def sums(self, batch: MapBatch) -> Iterator[BatchSums]:
        """Numbers of edges that each head finds in each way, and of all."""
        shown, device = batch.units.once(self, partial(_trees_shown, self._trees)), batch.maps.device
        over = torch.zeros(len(batch.units), batch.maps.shape[1], 2)
        under = torch.zeros(len(batch.units), 2)
        if len(shown.windows):
            windows, units = shown.windows.to(device), shown.units.to(device)
            chosen = batch.maps[windows[:, None, None], :, units[:, :, None], units[:, None]]
            apart = ~(shown.is_real[:, :, None] & shown.is_real[:, None]) | np.eye(units.shape[1], dtype=bool)
            # [tree, head, word, word] between the words that count, −∞ where there are none.
            weights = np.where(apart[:, None], np.float32(-np.inf), chosen.permute(0, 3, 1, 2).cpu().numpy())
            parents, edges = shown.parents[:, None], []
            for heads in (weights.argmax(-1), _heads_of_trees(weights, shown)):
                back = np.take_along_axis(heads, np.broadcast_to(np.maximum(parents, 0), heads.shape), -1)
                is_edge = (heads == parents) | (back == np.arange(heads.shape[-1]))
                edges.append(((parents >= 0) & is_edge).sum(-1))
            over[shown.windows] = torch.from_numpy(np.stack(edges, axis=-1)).float()
            under[shown.windows] = torch.from_numpy((shown.parents >= 0).sum(1)[:, None].repeat(2, 1)).float()
        yield BatchSums(WAYS, over, under, self._metric)


class _Trees(NamedTuple):
    """The trees of a batch; words are numbered among those that count, padded to the largest tree."""

    windows: Tensor  # [tree]
    units: Tensor  # [tree, word]; 0 in padding
    parents: Integers  # [tree, word] −1 where a word has none, and in padding
    roots: Integers  # [tree]
    is_real: NDArray[np.bool_]  # [tree, word] all but padding


def _trees_shown(trees: TextTrees, units: Units) -> _Trees:
    trees, places = trees.told_apart(units.left_out), _Places(units)
    is_read, asked = places.counts | np.isin(places.words, units.left_out), frozenset(trees.sentences.tolist())
    firsts = np.searchsorted(places.windows, np.arange(len(units) + 1))
    shown = []
    for window, sentence in enumerate(units.sentences.tolist()):
        of_window = slice(firsts[window], firsts[window + 1])
        if sentence not in asked:
            continue
        words, root = trees.tree(sentence)
        at, is_shown = places.find(np.full(len(words), window), words)
        if is_shown.all() and is_read[of_window].all():
            shown.append((window, at, trees.parents[words], root))
    n_words = max((len(at) for _, at, _, _ in shown), default=0)
    windows, roots = (torch.tensor([tree[part] for tree in shown], dtype=torch.long) for part in (0, 3))
    columns = torch.from_numpy(padded([at for _, at, _, _ in shown], n_words, 0))
    parents = padded([of_tree for _, _, of_tree, _ in shown], n_words, -1)
    return _Trees(windows, columns, parents, roots.numpy(), padded([at >= 0 for _, at, _, _ in shown], n_words, False))


def _heads_of_trees(weights: NDArray[np.float32], trees: _Trees) -> Integers:
    """``[tree, head, word]`` the head of each word in the tree of highest weight from the true root."""
    n_trees, n_heads, n_words = weights.shape[:3]
    scores = weights.astype(np.float64)
    # Padding hangs from the root, where it takes part in nothing.
    tree, word = np.nonzero(~trees.is_real)
    scores[tree, :, trees.roots[tree], word] = 0.0
    flat, roots = scores.reshape(-1, n_words, n_words), np.repeat(trees.roots, n_heads)
    step = max(1, _MOST_SCORES // n_words**2)
    parts = [spanning_arborescences(flat[i : i + step], roots[i : i + step]) for i in range(0, len(flat), step)]
    return np.concatenate(parts).reshape(n_trees, n_heads, n_words)


def crossfit_attention_parser(
    encoder: Encoder,
    sentences: Sentences,
    trees: TextTrees,
    *,
    name: str,
    with_words: bool = False,
    learning_rate: float = 0.03,
    max_epochs: int = 60,
    **reading: Any,
) -> HeadRatios:
    """The score of a dependency parser made of the maps of all heads together (Clark et al. 2019, section 5).

    The probability that word i is the head of word j is proportional to exp Σ_k (w_k α^k_ji + u_k α^k_ij), k running
    over all heads, α^k_ji the attention from j to i. With words, w_k is w_k + a_k·v_i + b_k·v_j, u_k likewise; v are
    the model's own vectors of layer 0 where the paper has GloVe. Every other word of the sentence is a candidate. The
    root has no head among them and is not scored, nor is punctuation.

    Each half of the text is parsed by weights that were fitted to the other half, a fifth of which decides when to
    stop. The ratio ``attention_uas`` of the whole model is the share of words whose head is named; sentences that are
    read in windows are not scored. A :class:`CorpusError` where fewer than ten sentences can be read.
    """
    if max_epochs < 1:
        raise FitError(f"max_epochs {max_epochs}: give at least 1")
    examples = _read(encoder, sentences, trees, with_words=with_words, **reading)
    if len(examples) < _FEWEST:
        raise CorpusError(f"{len(examples)} sentences with a tree are read whole: give at least {_FEWEST}")
    halves, scores = (examples[::2], examples[1::2]), []
    for fitted_to, scored in (halves, halves[::-1]):
        train = [one for place, one in enumerate(fitted_to) if place % 5]
        parser = _fit(train, fitted_to[::5], learning_rate=learning_rate, max_epochs=max_epochs)
        scores.append(_score(parser, scored))
    right, n_words, of_sentence = (np.concatenate(parts) for parts in zip(*scores, strict=True))
    return text_ratios((name,), sentences, of_sentence, np.zeros_like(right), right, n_words, metric="attention_uas")


class _Example(NamedTuple):
    """One sentence, as a parser takes it."""

    sentence: int  # its number in the text
    maps: Tensor  # [map, word, word] float16, the heads of the first layer first
    heads: Tensor  # [word] place of the head of each, −1 for words that are not scored
    vectors: Tensor | None  # [word, dim]


def _read(
    encoder: Encoder, sentences: Sentences, trees: TextTrees, *, with_words: bool = False, **reading: Any
) -> list[_Example]:
    """The sentences that are scored, those of like length together; ``reading`` is how :func:`stream_maps` reads."""
    drawn = Sentences(sentences[number] for number in trees.sentences.tolist())
    (kept,) = stream_maps(encoder, drawn, [partial(KeptMaps, dtype=torch.float16)], **reading).results
    # A word of no piece is in no map.
    lengths = np.diff(drawn.starts)
    whole = [number for number, (words, _) in sorted(kept.items()) if (words >= 0).sum() == lengths[number]]
    if not whole:
        return []
    read = Sentences(drawn[number] for number in whole)
    vectors = read_words(encoder, read, layers=[0])[0] if with_words else None
    examples = []
    for place, number in enumerate(whole):
        sentence = int(trees.sentences[number])
        words = slice(trees.starts[sentence], trees.starts[sentence + 1])
        heads = np.where(trees.scored[words] & (trees.heads[words] > 0), trees.heads[words] - 1, -1)
        of_units, maps = kept[number]
        is_word = torch.from_numpy(of_units >= 0)
        maps = maps.flatten(0, 1)[:, is_word][:, :, is_word]
        of_words = None if vectors is None else vectors[int(read.starts[place]) : int(read.starts[place + 1])].float()
        examples.append(_Example(sentence, maps, torch.from_numpy(heads), of_words))
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

    def forward(self, batch: list[_Example]) -> tuple[Tensor, Tensor]:
        """``[sentence, dependent, head]`` scores, −∞ where there is no other word, and ``[sentence, word]`` true heads,
        −1 where there is none."""
        heads = pad_sequence([one.heads for one in batch], batch_first=True, padding_value=-1)
        lengths, longest = torch.tensor([len(one.heads) for one in batch]), heads.shape[1]
        maps = torch.zeros(len(batch), batch[0].maps.shape[0], longest, longest)
        for into, one in zip(maps, batch, strict=True):
            into[:, : len(one.heads), : len(one.heads)] = one.maps.float()
        scores = torch.einsum("skde,k->sde", maps, self.plain[0]) + torch.einsum("sked,k->sde", maps, self.plain[1])
        if self.of_words is not None:
            vectors = pad_sequence([one.vectors for one in batch if one.vectors is not None], batch_first=True)
            weights = torch.einsum("swv,pqvk->pqskw", vectors, self.of_words)
            for way, directed in enumerate((maps, maps.transpose(2, 3))):
                scores = scores + (directed * (weights[way, 0][:, :, None] + weights[way, 1][:, :, :, None])).sum(1)
        apart = ~(torch.arange(longest) < lengths[:, None])[:, None] | torch.eye(longest, dtype=torch.bool)
        return scores.masked_fill(apart, -torch.inf), heads

    def loss(self, batch: list[_Example]) -> tuple[Tensor, int]:
        """Mean of −ln p of the true heads, and the number of words."""
        scores, heads = self(batch)
        chosen = scores[heads >= 0]
        if not len(chosen):
            return self.plain.sum() * 0.0, 0
        return nn.functional.cross_entropy(chosen, heads[heads >= 0]), len(chosen)


def _batches(examples: list[_Example]) -> list[list[_Example]]:
    return [examples[start : start + _BATCH] for start in range(0, len(examples), _BATCH)]


def _fit(train: list[_Example], dev: list[_Example], *, learning_rate: float, max_epochs: int) -> _Parser:
    """Fit by Adam until the loss on dev no longer falls."""
    parser = _Parser(train[0].maps.shape[0], train[0].vectors)
    rates = {"plain": learning_rate, "of_words": learning_rate / 10}
    groups = [{"params": [weights], "lr": rates[name]} for name, weights in parser.named_parameters()]
    optimizer, order = torch.optim.Adam(groups), np.random.default_rng(0)
    best, best_epoch, state, batches = float("inf"), 0, {}, _batches(train)
    for epoch in range(1, max_epochs + 1):
        for number in order.permutation(len(batches)).tolist():
            loss, _ = parser.loss(batches[number])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            losses = [(float(loss) * n, n) for loss, n in map(parser.loss, _batches(dev))]
        on_dev = sum(loss for loss, _ in losses) / max(1, sum(n for _, n in losses))
        if on_dev < best - 1e-5:
            best, best_epoch = on_dev, epoch
            state = {name: value.clone() for name, value in parser.state_dict().items()}
        elif epoch - best_epoch >= _PATIENCE:
            break
    parser.load_state_dict(state)
    return parser


@torch.no_grad()
def _score(parser: _Parser, examples: list[_Example]) -> tuple[Integers, Integers, Integers]:
    """``[sentence]`` words whose head is named, words with a head to name, and the number of the sentence."""
    right, n_words = [], []
    for scores, heads in map(parser, _batches(examples)):
        right += ((scores.argmax(-1) == heads) & (heads >= 0)).sum(-1).tolist()
        n_words += (heads >= 0).sum(-1).tolist()
    return np.array(right), np.array(n_words), np.array([one.sentence for one in examples])
