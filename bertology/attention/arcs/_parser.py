"""A dependency parser made of attention maps: how well all heads together say which word hangs from which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertology.activations import Progress, read_words, silent
from bertology.attention._pass import stream_maps
from bertology.attention._ratios import Floats, HeadRatios
from bertology.attention.arcs._kept_maps import KeptMaps, SentenceMaps
from bertology.attention.arcs._sums import text_ratios
from bertology.attention.arcs._trees import TextTrees
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from bertology.errors import CorpusError, FitError

ParsedText = tuple[Sentences, TextTrees]
"""A text, and the trees of those of its sentences that are asked about."""
_Answers = tuple[Floats, Floats, NDArray[np.int64]]
_FEWEST = 10


@dataclass(frozen=True, kw_only=True)
class ParserSettings:
    """How a parser is fitted."""

    with_words: bool = False
    """Whether the weight of a head depends on the two words, by their vectors in layer 0, or is the same for all."""
    most_sentences: int = 1000
    """Sentences of each text whose maps are held in memory; of more so many are drawn by lot."""
    learning_rate: float = 0.03
    """Of Adam; a tenth of it where weights depend on words."""
    batch_sentences: int = 32
    max_epochs: int = 60
    patience: int = 4
    """Epochs without a lower loss on dev after which the best weights so far are taken."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class AttentionParser:
    """A fitted parser and its score."""

    uas: HeadRatios
    """Share of words whose head it names, roots and punctuation not asked: of the whole model, by cluster of sentences
    of the text it was tried on, called ``attention_uas``."""
    up: Floats
    """``[layer, head]`` weight of attention from a word to its head; the part that is the same for all words."""
    down: Floats
    """``[layer, head]`` weight of attention from a head to the word."""
    dev_uas: float
    n_train: int
    """Sentences it was fitted to."""
    n_epochs: int
    """Passes over them up to the weights that were taken."""


def fit_attention_parser(
    encoder: Encoder,
    train: ParsedText,
    dev: ParsedText,
    test: ParsedText,
    *,
    settings: ParserSettings | None = None,
    on_long: str = "skip",
) -> AttentionParser:
    """Which word is the head of each, from the maps of all heads together (Clark et al. 2019, section 5).

    The probability that word i is the head of word j is proportional to exp Σ_k (w_k α^k_ji + u_k α^k_ij), k running
    over all heads, α^k_ji the attention from j to i. With words, w_k is w_k + a_k·v_i + b_k·v_j, u_k likewise; v are
    the model's own vectors of layer 0 where the paper has GloVe. Every other word of the sentence is a candidate. The
    root has no head among them and is not asked about, nor is punctuation.

    Args:
        encoder: whose maps.
        train: what weights are fitted to.
        dev: by whose loss fitting ends.
        test: what is scored.
        settings: how it is fitted.
        on_long: what to do with sentences longer than the model takes; those read in windows are not asked about.

    Raises:
        CorpusError: a text has no tree that could be read.
        FitError: a setting is out of range.
        ModelError: the model gives no maps.
    """
    chosen = _checked(settings)
    texts = {"train": train, "dev": dev, "test": test}
    read = [_read(encoder, text, chosen, on_long, name) for name, text in texts.items()]
    parser, n_epochs = _fitted(read[0], read[1], chosen)
    uas = _ratios("all", test[0], [_answers(parser, read[2])])
    on_dev, dev_asked, _ = _answers(parser, read[1])
    up, down = parser.plain.detach().double().numpy().reshape(2, encoder.n_layers, encoder.n_heads)
    return AttentionParser(uas, up, down, float(on_dev.sum() / dev_asked.sum()), len(read[0]), n_epochs)


def crossfit_attention_parser(
    encoder: Encoder,
    text: ParsedText,
    *,
    name: str,
    settings: ParserSettings | None = None,
    layers: Sequence[int] | None = None,
    on_long: str = "skip",
    progress: Progress = silent,
) -> HeadRatios:
    """The score of :func:`fit_attention_parser` where there is but one text.

    Each half of it is parsed by weights that were fitted to the other half, of which a fifth says when to stop.

    Args:
        encoder: whose maps.
        text: what is fitted to and scored.
        name: what the ratio is called.
        settings: how parsers are fitted.
        layers: whose maps, from 1; all when left out.
        on_long: as in :func:`fit_attention_parser`.
        progress: told how much is read.

    Returns:
        ``attention_uas`` of the whole model.

    Raises:
        CorpusError: there are fewer than ten sentences that can be read.
        FitError: a setting is out of range.
        ModelError: the model gives no maps.
    """
    chosen = _checked(settings)
    kept = _read(encoder, text, chosen, on_long, "given", layers=layers, progress=progress)
    if len(kept) < _FEWEST:
        raise CorpusError(f"{len(kept)} sentences with a tree to parse: give at least {_FEWEST}")
    answers = []
    for own, other in ((kept[::2], kept[1::2]), (kept[1::2], kept[::2])):
        stop_by = own[::5]
        parser, _ = _fitted([one for place, one in enumerate(own) if place % 5], stop_by, chosen)
        answers.append(_answers(parser, other))
    return _ratios(name, text[0], answers)


def _checked(settings: ParserSettings | None) -> ParserSettings:
    chosen = settings or ParserSettings()
    if min(chosen.most_sentences, chosen.batch_sentences, chosen.max_epochs, chosen.patience) < 1:
        raise FitError("most_sentences, batch_sentences, max_epochs and patience should be at least 1")
    return chosen


def _ratios(name: str, sentences: Sentences, answers: Sequence[_Answers]) -> HeadRatios:
    right, asked, of_sentence = (np.concatenate(parts) for parts in zip(*answers, strict=True))
    groups = np.zeros(len(right), dtype=np.int64)
    return text_ratios((name,), sentences, of_sentence, groups, right, asked, metric="attention_uas")


def _fitted(train: list[SentenceMaps], dev: list[SentenceMaps], settings: ParserSettings) -> tuple[_Parser, int]:
    parser = _Parser(train[0].maps.shape[0], train[0].vectors, settings)
    return parser, _fit(parser, train, dev, settings)


def _read(
    encoder: Encoder,
    text: ParsedText,
    settings: ParserSettings,
    on_long: str,
    name: str,
    *,
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> list[SentenceMaps]:
    """The maps of the sentences that are asked about, those of like length together."""
    sentences, trees = text
    some = trees.some(settings.most_sentences, seed=settings.seed)
    if not len(some.sentences):
        raise CorpusError(f"no tree to parse in the {name} text")
    own = Sentences(sentences[number] for number in some.sentences.tolist())
    (found,) = stream_maps(
        encoder,
        own,
        [KeptMaps],
        layers=layers,
        on_long=on_long,  # type: ignore[arg-type]
        progress=progress,
    ).results
    # A word of no piece is in no map.
    lengths = np.diff(own.starts)
    whole = [number for number, maps in sorted(found.items()) if maps.shape[-1] == lengths[number]]
    if not whole:
        raise CorpusError(f"no sentence of the {name} text can be read whole: it is too long for the model")
    read = Sentences(own[number] for number in whole)
    vectors = read_words(encoder, read, layers=[0])[0] if settings.with_words else None
    kept = []
    for place, number in enumerate(whole):
        sentence = int(some.sentences[number])
        heads = trees.heads[trees.starts[sentence] : trees.starts[sentence + 1]]
        asked = trees.scored[trees.starts[sentence] : trees.starts[sentence + 1]] & (heads > 0)
        of_words = None if vectors is None else vectors[int(read.starts[place]) : int(read.starts[place + 1])].float()
        answers = torch.from_numpy(np.where(asked, heads - 1, -1))
        kept.append(SentenceMaps(sentence, found[number], answers, of_words))
    return sorted(kept, key=lambda one: (len(one.heads), one.sentence))


class _Parser(nn.Module):
    """Weights of heads, the same for all words or not."""

    def __init__(self, n_heads: int, vectors: Tensor | None, settings: ParserSettings) -> None:
        super().__init__()
        self.plain = nn.Parameter(torch.zeros(2, n_heads))
        shape = None if vectors is None else (2, 2, vectors.shape[-1], n_heads)
        # Of the head word and the dependent, for attention upwards and downwards.
        self.of_words = None if shape is None else nn.Parameter(torch.zeros(shape))
        self.rate = settings.learning_rate

    def parameter_groups(self) -> list[dict[str, object]]:
        """Parameters with their learning rates."""
        groups: list[dict[str, object]] = [{"params": [self.plain], "lr": self.rate}]
        return groups if self.of_words is None else [*groups, {"params": [self.of_words], "lr": self.rate / 10}]

    def forward(self, maps: Tensor, vectors: Tensor | None) -> Tensor:
        """Scores ``[sentence, dependent, head]`` of maps ``[sentence, map, word, word]``."""
        scores = torch.einsum("skde,k->sde", maps, self.plain[0]) + torch.einsum("sked,k->sde", maps, self.plain[1])
        if self.of_words is None or vectors is None:
            return scores
        weights = torch.einsum("swv,pqvk->pqskw", vectors, self.of_words)
        for way, own in enumerate((maps, maps.transpose(2, 3))):
            scores = scores + (own * (weights[way, 0][:, :, None] + weights[way, 1][:, :, :, None])).sum(1)
        return scores


def _fit(parser: _Parser, train: list[SentenceMaps], dev: list[SentenceMaps], settings: ParserSettings) -> int:
    """Fit by Adam until the loss on dev no longer falls; how many epochs the best weights took."""
    optimizer = torch.optim.Adam(parser.parameter_groups())
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
            losses = [(float(loss) * n, n) for loss, n in (_loss(parser, b) for b in _batches(dev))]
        on_dev = sum(loss for loss, _ in losses) / max(1, sum(n for _, n in losses))
        if on_dev < best - 1e-5:
            best, best_epoch = on_dev, epoch
            state = {name: value.clone() for name, value in parser.state_dict().items()}
        elif epoch - best_epoch >= settings.patience:
            break
    parser.load_state_dict(state)
    return best_epoch


def _batches(sentences: list[SentenceMaps], size: int = 32) -> Iterator[list[SentenceMaps]]:
    """Neighbours, which are of like length."""
    return (sentences[start : start + size] for start in range(0, len(sentences), size))


def _scores(parser: _Parser, batch: list[SentenceMaps]) -> tuple[Tensor, Tensor]:
    """``[sentence, dependent, head]`` scores, −∞ where there is no other word, and ``[sentence, word]`` true heads."""
    longest = max(len(one.heads) for one in batch)
    maps = torch.zeros(len(batch), batch[0].maps.shape[0], longest, longest)
    heads = torch.full((len(batch), longest), -1, dtype=torch.long)
    first = batch[0].vectors
    vectors = None if first is None else torch.zeros(len(batch), longest, first.shape[-1])
    for row, one in enumerate(batch):
        n = len(one.heads)
        maps[row, :, :n, :n], heads[row, :n] = one.maps.float(), one.heads
        if vectors is not None and one.vectors is not None:
            vectors[row, :n] = one.vectors
    real = torch.arange(longest) < torch.tensor([len(one.heads) for one in batch])[:, None]
    apart = ~real[:, None] | torch.eye(longest, dtype=torch.bool)
    return parser(maps, vectors).masked_fill(apart, -torch.inf), heads


def _loss(parser: _Parser, batch: list[SentenceMaps]) -> tuple[Tensor, int]:
    """Mean of −ln p of the true heads, and of how many words."""
    scores, heads = _scores(parser, batch)
    asked = heads >= 0
    chosen = scores[asked]
    if not len(chosen):
        return parser.plain.sum() * 0.0, 0
    return nn.functional.cross_entropy(chosen, heads[asked]), len(chosen)


@torch.no_grad()
def _answers(parser: _Parser, sentences: list[SentenceMaps]) -> _Answers:
    """``[sentence]`` right heads, words asked about, and the number of the sentence."""
    right, asked = [], []
    for batch in _batches(sentences):
        scores, heads = _scores(parser, batch)
        right += (((scores.argmax(-1) == heads) & (heads >= 0)).sum(-1)).tolist()
        asked += (heads >= 0).sum(-1).tolist()
    numbers = np.array([one.sentence for one in sentences], dtype=np.int64)
    return np.array(right, dtype=np.float64), np.array(asked, dtype=np.float64), numbers
