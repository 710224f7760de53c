"""Patterns of attention maps: vertical, diagonal, vertical + diagonal, block, heterogeneous (Kovaleva et al. 2019).

:class:`PatternShares` counts how often each head makes each pattern. Maps are classified by logistic regression on
measured features or by a small network, both trained on synthetic maps; how they were made, and how well they do on
labelled real maps, is in ``benchmarks/head_patterns``.

Features are numbers of a fixed size, whatever the map's length. All are measured on rows of words; special tokens are
columns only. Shares of rows with a column or a line count what an eye sees: a weight is *shaded* by the map's brightest
weights, as in the pictures that were labelled (``benchmarks/head_patterns/labels/README.md``).
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bertology._lazy import safetensors
from bertology.attention.maps import BatchSums, MapBatch, SumsStatistic, Units
from bertology.attention.measured import row_entropy, weighted_sums
from bertology.errors import BertologyError, ModelError
from bertology.measures.sums import Scope

Pattern = Literal["vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous"]
PATTERNS: Final[tuple[Pattern, ...]] = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
"""The classes of Kovaleva et al. (2019, section 4.1), in the order of all tables and probabilities."""

ClassifierKind = Literal["features", "cnn"]
KINDS: Final[tuple[ClassifierKind, ...]] = ("features", "cnn")
"""Classifiers: logistic regression on measured features, or a convolutional network on pictures of maps."""
CONFIDENCE: Final = 0.5
"""The least probability at which a map is put into a class other than ``heterogeneous``."""

PADDING, PIECE, CLS, SEP, PUNCTUATION = range(-1, 4)
"""Kinds of rows and columns of a map."""

WEIGHTS: Final = Path(__file__).with_name("weights")
RECORD: Final = "training.json"
SIDE: Final = 32
"""Rows and columns of the pictures that the network sees."""
_CHANNELS = 5
_BLOCK = PATTERNS.index("block")
_CELLS_TOGETHER = 1 << 18
_PICTURES_TOGETHER = 256

SHORTEST_MAP: Final = 5
"""Least number of pieces, special ones counted, of a map that is classified."""

COLUMN_CONTRASTS: Final = (0.16, 0.3)
LINE_RATIOS: Final = (0.7, 1.1, 1.6)
LINE_CONTRASTS: Final = (0.1, 0.2, 0.4)
FARTHEST: Final = 4
"""Lines this far from the diagonal, in pieces, count as diagonal."""
_SIDE = 3  # columns on each side that a column is held against
_BRIGHTEST, _GAMMA, _DIMMEST_TOP = 0.005, 0.7, 0.3
_FAINTEST = 0.12  # shade below which nothing is a line
_NEAR = 2  # pieces around a line that belong to it
_FLOOR = 0.1  # added to ratios, as a share of the attention of a uniform map
_LEAST = 0.05  # least weight that counts, as a share of an even weight; fainter ones count as this faint
_FLAT = 1e-4  # variance of logarithms next to which what is left of an even map by rounding is nothing
_TINY = 1e-9
_NOT_COUNTED = 9.0  # more than any shade

_COLUMN_NAMES = (
    "column_rows_whole_text column_mass_1 column_mass_2 column_mass_3 column_density_log column_shade_excess "
    "cls_mass sep_mass punctuation_mass"
)
_OTHER_NAMES = (
    "line_shade_excess line_mass line_offset mass_within_1 mass_within_2 mass_within_4 "
    "entropy entropy_spread confidence column_entropy row_information "
    "block_log_ratio block_log_ratio_far own_sentence_excess "
    "column_height column_part log_spread line_height block_height is_pair length_log"
)
FEATURES: Final[tuple[str, ...]] = (
    *(f"column_rows_{contrast}" for contrast in COLUMN_CONTRASTS),
    *_COLUMN_NAMES.split(),
    *(f"line_rows_ratio_{ratio}" for ratio in LINE_RATIOS),
    *(f"line_rows_contrast_{contrast}" for contrast in LINE_CONTRASTS),
    *_OTHER_NAMES.split(),
)
"""Names of the features, in order."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The pieces of some texts, or pairs of texts."""

    kinds: Tensor
    """``[text, piece]`` :data:`PIECE`, :data:`CLS`, :data:`SEP`, :data:`PUNCTUATION`; :data:`PADDING` at the end."""

    @classmethod
    def of_units(cls, units: Units) -> "Layout":
        """The layout of a batch at piece level."""
        lengths = torch.from_numpy(np.asarray(units.lengths)).to(units.word.device)
        inside = torch.arange(units.word.shape[1], device=units.word.device) < lengths[:, None]
        kinds = torch.where(inside, PIECE, PADDING)
        kinds = torch.where(units.is_punctuation, PUNCTUATION, kinds)
        return cls(torch.where(units.is_cls, CLS, torch.where(units.is_sep, SEP, kinds)))

    @cached_property
    def inside(self) -> Tensor:
        """``[text, piece]`` all but padding."""
        return self.kinds != PADDING

    @cached_property
    def lengths(self) -> Tensor:
        """``[text]`` as floating-point numbers."""
        return self.inside.sum(-1).float()

    @cached_property
    def rows(self) -> Tensor:
        """``[text, piece]`` pieces of words; special ones do not decide on a class."""
        return (self.kinds == PIECE) | (self.kinds == PUNCTUATION)

    @cached_property
    def in_sentence(self) -> Tensor:
        """``[text, sentence, piece]`` rows of the first and of the second sentence; no row where there is none."""
        is_sep = self.kinds == SEP
        is_second = is_sep.cumsum(-1) > is_sep.long()  # after a [SEP]
        return torch.stack([self.rows & ~is_second, self.rows & is_second], dim=1)

    @cached_property
    def is_pair(self) -> Tensor:
        """``[text]`` whether a second sentence follows a ``[SEP]``."""
        return self.in_sentence[:, 1].any(-1)


@dataclass(frozen=True, eq=False)
class PatternClassifier:
    """Puts attention maps between pieces into the classes of Kovaleva et al. (2019, section 4.1).

    Trained on synthetic maps; the model card (``benchmarks/head_patterns/README.md``) has its scores on real maps.
    """

    temperature: float  # divides the logits, so that probabilities are calibrated on real maps
    bias: tuple[float, ...]
    """``[class]`` added to the logits, since classes are not as frequent in real maps as in synthetic ones. Fitted
    together with the temperature."""
    confidence: float  # a map whose likeliest class is less probable than this is heterogeneous
    _logits: Callable[[Tensor, Layout], Tensor]

    def probabilities(self, maps: Tensor, layout: Layout) -> Tensor:
        """``[text, head, class]`` the probability of each class, in the order of :data:`PATTERNS`, of maps ``[text,
        head, piece, piece]`` from (rows) to (columns), 0 in columns of padding."""
        step = max(1, _CELLS_TOGETHER // (maps.shape[1] * maps.shape[2] ** 2))
        parts = (slice(start, start + step) for start in range(0, len(maps), step))
        with torch.no_grad():
            every = torch.cat([self._logits(maps[part], Layout(layout.kinds[part])) for part in parts])
        logits = every / self.temperature + torch.tensor(self.bias, device=maps.device)
        # A single sentence has no squares of two sentences.
        impossible = ~layout.is_pair[:, None, None] & (torch.arange(len(PATTERNS), device=maps.device) == _BLOCK)
        return logits.masked_fill(impossible, -torch.inf).softmax(-1)

    def classes(self, maps: Tensor, layout: Layout) -> Tensor:
        """``[text, head]`` the class of each map, as a number in :data:`PATTERNS`."""
        return assigned(self.probabilities(maps, layout), confidence=self.confidence)


def assigned(probabilities: Tensor, *, confidence: float = CONFIDENCE) -> Tensor:
    """The likeliest of ``[..., class]``; ``heterogeneous`` where even that is less probable than ``confidence``."""
    best, classes = probabilities.max(-1)
    return torch.where(best >= confidence, classes, PATTERNS.index("heterogeneous"))


@lru_cache(maxsize=4)
def load_classifier(kind: ClassifierKind = "features", *, folder: Path = WEIGHTS) -> PatternClassifier:
    """A trained classifier; a :class:`ModelError` where its files are missing or of another version."""
    if kind not in KINDS:
        raise ModelError(f"no classifier of maps {kind!r}: there are {', '.join(KINDS)}")
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        weights: dict[str, Tensor] = safetensors.torch.load_file(folder / f"{kind}.safetensors")
    except FileNotFoundError as error:
        raise ModelError(f"{error.filename or folder} is missing: train the classifiers, or install again") from None
    if record["features"] != list(FEATURES) or record["patterns"] != list(PATTERNS):
        raise ModelError(f"{folder / RECORD}: trained on other features than this version measures: train again")
    network = PatternNetwork().eval() if kind == "cnn" else nn.Identity()
    network.load_state_dict(weights if kind == "cnn" else {})

    def of_features(maps: Tensor, layout: Layout) -> Tensor:
        moved = {name: values.to(maps.device) for name, values in weights.items()}
        scaled = (features(maps, layout) - moved["mean"]) / moved["scale"]
        return scaled @ moved["weight"].T + moved["bias"]

    def of_pictures(maps: Tensor, layout: Layout) -> Tensor:
        network.to(maps.device)
        step, logits = max(1, _PICTURES_TOGETHER // maps.shape[1]), []
        for part in (slice(start, start + step) for start in range(0, len(maps), step)):
            shown = pictures(maps[part], Layout(layout.kinds[part]))
            logits.append(network(shown.flatten(0, 1)).view(*shown.shape[:2], -1))
        return torch.cat(logits)

    return PatternClassifier(
        temperature=float(record["temperature"][kind]),
        bias=tuple(record["bias"][kind]),
        confidence=float(record["confidence"]),
        _logits=of_features if kind == "features" else of_pictures,
    )


def pictures(maps: Tensor, layout: Layout) -> Tensor:
    """Maps ``[text, head, piece, piece]`` resampled by area to ``[text, head, channel, SIDE, SIDE]``.

    The channels: attention relative to a uniform map, as a logarithm of means; how far the logarithms of weights are
    above their row's, as means of logarithms, in which faint columns and lines are seen; whether row and column are of
    one sentence of a pair; special columns; the text's length.
    """
    lengths, device = layout.lengths, layout.kinds.device
    # [text, side, piece] the share of each piece in each row of the picture; shares of a row sum to 1.
    step = (lengths / SIDE)[:, None, None]
    low, piece = torch.arange(SIDE, device=device)[:, None] * step, torch.arange(maps.shape[-1], device=device)
    overlap = torch.minimum(low + step, piece + 1.0) - torch.maximum(low, piece.float())
    pool = overlap.clamp_min(0) / step
    rows = torch.where(layout.rows[:, None, :, None], maps.float(), 0)
    density = pool[:, None] @ rows @ pool[:, None].transpose(-1, -2) * lengths[:, None, None, None]
    # Logarithms of weights over even ones, minus their row's mean; halved, to be of the size of others. Pieces that are
    # not there, and rows that do not count, are zeros and stay so.
    logs = (rows * (lengths / _LEAST)[:, None, None, None]).log1p_()
    mean = logs.sum(-1, keepdim=True) / lengths[:, None, None, None]
    relief = (pool[:, None] @ logs @ pool[:, None].transpose(-1, -2) - pool[:, None] @ mean) / 2
    sentences = torch.einsum("tkp,tsp->tsk", pool, layout.in_sentence.float())
    same = torch.einsum("tsk,tsl->tkl", sentences, sentences) * layout.is_pair[:, None, None]
    special = ((layout.kinds == CLS) | (layout.kinds == SEP)).float()
    columns = torch.einsum("tkp,tp->tk", pool, special)[:, None].expand(-1, SIDE, -1)
    length = (lengths.log() / 5)[:, None, None].expand(-1, SIDE, SIDE)
    of_text = torch.stack([same, columns, length], dim=1)[:, None].expand(-1, maps.shape[1], -1, -1, -1)
    return torch.cat([torch.stack([torch.log1p(density) / math.log(1 + SIDE), relief], dim=2), of_text], dim=2)


class PatternNetwork(nn.Module):
    """Three convolutions and two linear layers: some 36,000 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(_CHANNELS, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(24, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * (SIDE // 8) ** 2, 48), nn.ReLU(), nn.Linear(48, len(PATTERNS))),
        )

    def forward(self, shown: Tensor) -> Tensor:
        """``[picture, class]`` logits of ``[picture, channel, SIDE, SIDE]``."""
        return self.layers(shown)  # type: ignore[no-any-return]


class PatternShares(SumsStatistic):
    """Shares of each head's maps that are of each class of Kovaleva et al. (2019, section 4.1).

    Each map between the pieces of a text (or of a window of one) is put into one class: the likeliest, or
    ``heterogeneous`` where none is likely enough. The shares of a head sum to 1. Maps of fewer than
    :data:`SHORTEST_MAP` pieces are not counted. Without sentence pairs no map is ``block``. The least probability of a
    class is the classifier's own (0.5) when left out.
    """

    level = "piece"

    def __init__(
        self, scope: Scope, *, classifier: ClassifierKind = "features", confidence: float | None = None
    ) -> None:
        super().__init__(scope)
        trained = load_classifier(classifier)
        self._classifier = trained if confidence is None else replace(trained, confidence=confidence)
        if not 0 <= self._classifier.confidence <= 1:
            raise BertologyError(f"confidence {self._classifier.confidence:g}: give a probability, 0 to 1")

    def sums(self, batch: MapBatch) -> Iterator[BatchSums]:
        """Numbers of maps of each class, and of all."""
        layout = batch.units.once("layout", Layout.of_units)
        counted = (layout.lengths >= SHORTEST_MAP) & layout.rows.any(-1)  # [text]
        classes = self._classifier.classes(batch.maps, layout)
        over = nn.functional.one_hot(classes, len(PATTERNS)) * counted[:, None, None]
        yield BatchSums(PATTERNS, over, counted[:, None].expand(-1, len(PATTERNS)), "pattern_share")


def features(maps: Tensor, layout: Layout) -> Tensor:
    """``[text, head, feature]`` in the order of :data:`FEATURES`, of maps ``[text, head, piece, piece]`` from (rows) to
    (columns), 0 in columns of padding."""
    maps = torch.where(layout.inside[:, None, :, None], maps.float(), 0)
    shades = shaded(maps, layout)
    of_text = torch.stack([layout.is_pair.float(), layout.lengths.log()], dim=-1)[:, None]
    seen = [_columns(maps, shades, layout), _lines(maps, shades, layout)]
    measured = [_spread(maps, layout), _blocks(maps, layout), _heights(maps, layout)]
    return torch.cat([*seen, *measured, of_text.expand(-1, maps.shape[1], -1)], dim=-1)


def shaded(maps: Tensor, layout: Layout) -> Tensor:
    """Brightness of each weight in a picture of its map, 0 to 1: the brightest 0.5 % of weights are 1."""
    flat = maps.flatten(2)
    ranks = (layout.lengths.square() * _BRIGHTEST).ceil().long().clamp_min(1)
    top = flat.topk(int(ranks.max()), dim=-1).values  # [text, head, rank]
    brightest = top.gather(-1, (ranks - 1)[:, None, None].expand(-1, maps.shape[1], 1))
    return (maps / brightest[..., None].clamp(_DIMMEST_TOP, 1)).clamp_max_(1).pow_(_GAMMA)


def _row_means(values: Tensor, layout: Layout) -> Tensor:
    """``[text, head]`` of ``[text, head, row]``, averaged over rows of words."""
    rows = layout.rows[:, None]
    return torch.where(rows, values, 0).sum(-1) / rows.sum(-1).clamp_min(1)


def _row_sums(rows: Tensor, maps: Tensor) -> Tensor:
    """Sums of map rows with weights ``[text, kind, row]``: ``[text, head, kind, column]``."""
    return rows[:, None].to(maps.dtype) @ maps


def _columns(maps: Tensor, shades: Tensor, layout: Layout) -> Tensor:
    n, n_rows = shades.shape[-1], layout.in_sentence.sum(-1)  # [text, sentence]
    # The darker of both sides of each piece, as means over a few columns: a bright neighbour hides no column. Nothing
    # is added by columns of padding, so that the last sum goes on for all that would lie behind the text.
    sums = nn.functional.pad(shades.cumsum(-1), (_SIDE + 1, 0))
    sums = torch.cat([sums, sums[..., -1:].expand(*sums.shape[:-1], _SIDE)], dim=-1)  # sums[_SIDE + j]: before column j
    place = torch.arange(n, device=shades.device)
    n_left = place.clamp_max(_SIDE)
    n_right = (layout.lengths.long()[:, None] - place - 1).clamp(0, _SIDE)[:, None, None]
    left = (sums[..., _SIDE : _SIDE + n] - sums[..., :n]).mul_(n_left.clamp_min(1).reciprocal())
    right = (sums[..., 2 * _SIDE + 1 :] - sums[..., _SIDE + 1 : _SIDE + 1 + n]).mul_(n_right.clamp_min(1).reciprocal())
    # A side without columns does not count.
    sides = torch.minimum(left.add_((n_left == 0) * _NOT_COUNTED), right.add_((n_right == 0) * _NOT_COUNTED))
    contrast = sides.neg_().add_(shades)
    shares_of, whole = [], contrast
    for least in COLUMN_CONTRASTS:
        counts = _row_sums(layout.in_sentence, (contrast >= least).to(maps.dtype))  # [text, head, sentence, column]
        shares = (counts / n_rows[:, None, :, None].clamp_min(1)).amax(-1)
        shares_of.append(torch.where(n_rows[:, None] > 0, shares, 1).amin(-1))
        if least == COLUMN_CONTRASTS[0]:
            whole = (counts.sum(2) / n_rows.sum(-1)[:, None, None].clamp_min(1)).amax(-1)
    mass = _row_sums(layout.rows[:, None], maps)[:, :, 0] / n_rows.sum(-1)[:, None, None].clamp_min(1)
    best = nn.functional.pad(mass, (0, 3)).topk(3, dim=-1).values
    density = (best[..., 0] * layout.lengths[:, None]).clamp_min(_TINY).log()
    kinds = [torch.where((layout.kinds == kind)[:, None], mass, 0).sum(-1) for kind in (CLS, SEP, PUNCTUATION)]
    means = _row_sums(layout.in_sentence, shades) / n_rows[:, None, :, None].clamp_min(1)
    over = means - means.sum(-1, keepdim=True) / layout.lengths[:, None, None, None]
    # Each sentence's best column, and of a pair the weaker.
    of_sentence = over.masked_fill(~layout.inside[:, None, None], -torch.inf).amax(-1)
    weaker = of_sentence.masked_fill(~layout.in_sentence.any(-1)[:, None], torch.inf).amin(-1)
    excess = weaker.clamp(-_NOT_COUNTED, _NOT_COUNTED)
    return torch.stack([*shares_of, whole, *best.unbind(-1), density, excess, *kinds], dim=-1)


def _lines(maps: Tensor, shades: Tensor, layout: Layout) -> Tensor:
    n_words = layout.rows.sum(-1)[:, None]  # [text, 1]
    words = shades * layout.rows[:, None, None]
    strip = _diagonals(words)  # [text, head, row, offset], offsets as far as a line's surroundings
    place = torch.arange(maps.shape[-1], device=maps.device)
    is_far = (place[:, None] - place).abs() > FARTHEST + _NEAR
    far = words.masked_fill(~is_far, 0).amax(-1, keepdim=True)
    # The most looked at on either side of a line: what is far, and what is near but not of the line.
    before = torch.cat([far, far, strip], dim=-1).cummax(-1).values
    after = torch.cat([strip, far, far], dim=-1).flip(-1).cummax(-1).values.flip(-1)
    n_lines = 2 * FARTHEST + 1
    band = torch.stack([strip[..., _NEAR + step : _NEAR + step + n_lines] for step in (-1, 0, 1)]).amax(0)
    outside = torch.maximum(before[..., 1 : 1 + n_lines], after[..., 2 * _NEAR + 1 : 2 * _NEAR + 1 + n_lines])
    mean = words.sum(-1, keepdim=True) / n_words[..., None, None].clamp_min(1)

    inner = slice(_NEAR, _NEAR + n_lines)
    counted = _diagonals(layout.rows[:, None, None].expand(-1, 1, maps.shape[-1], -1).float())[..., inner]
    counted = counted * layout.rows[:, None, :, None]  # [text, 1, row, line]
    n_counted = counted.sum(-2)
    is_counted = counted > 0
    seen, over = is_counted & (band >= _FAINTEST), band - mean
    hits = [seen & (band >= ratio * outside) for ratio in LINE_RATIOS]
    hits += [is_counted & (over >= contrast) for contrast in LINE_CONTRASTS]
    enough = 2 * n_counted >= n_words[..., None]
    shares = [(hit.sum(-2) / n_counted.clamp_min(1) * enough).amax(-1) for hit in hits]
    mass = (_diagonals(maps)[..., inner] * counted).sum(-2) / n_words[..., None].clamp_min(1)  # [text, head, line]
    line_mass, best = mass.max(-1)
    within = [mass[..., FARTHEST - near : FARTHEST + near + 1].sum(-1) for near in (1, 2, FARTHEST)]
    bright = (strip[..., inner] * counted).sum(-2) / n_counted.clamp_min(1)
    excess = torch.where(enough, bright, 0).amax(-1) - mean[..., 0].sum(-1) / n_words
    return torch.stack([*shares, excess, line_mass, (best - FARTHEST).abs().float(), *within], dim=-1)


def _diagonals(maps: Tensor) -> Tensor:
    """``[text, head, row, offset]`` what each row gives to the columns around its own; 0 outside of the text."""
    margin = FARTHEST + _NEAR
    padded = nn.functional.pad(maps, (margin, margin))
    *outer, of_row, of_column = padded.stride()
    # Each row begins one column further, so that the same offsets of all rows stand below each other.
    shape = (*maps.shape[:3], 2 * margin + 1)
    return padded.as_strided(shape, (*outer, of_row + of_column, of_column)).contiguous()


def _spread(maps: Tensor, layout: Layout) -> Tensor:
    top = layout.lengths.log().clamp_min(_TINY)[:, None]
    total = maps.sum(-1)
    entropy = row_entropy(maps)  # [text, head, row]
    mean = _row_means(entropy, layout)
    spread = _row_means((entropy - mean[..., None]).square(), layout).sqrt()
    # Rows are weighed so that each counts as one.
    weights = layout.rows[:, None] / total.clamp_min(_TINY) / layout.rows.sum(-1)[:, None, None].clamp_min(1)
    column = (weights[:, :, None] @ maps)[:, :, 0]
    column_entropy = -(column * column.clamp_min(1e-30).log()).sum(-1)
    confidence = _row_means(maps.amax(-1), layout)
    information = column_entropy - mean
    return torch.stack([mean / top, spread / top, confidence, column_entropy / top, information / top], dim=-1)


def _blocks(maps: Tensor, layout: Layout) -> Tensor:
    if not layout.is_pair.any():
        return maps.new_zeros(*maps.shape[:2], 3)
    words = layout.rows[:, :, None] & layout.rows[:, None]  # [text, row, column]
    place = torch.arange(maps.shape[-1], device=maps.device)
    far = (place[:, None] - place).abs() > _NEAR
    own = (layout.in_sentence[:, :, :, None] & layout.in_sentence[:, :, None, :]).any(1)
    own = own & layout.is_pair[:, None, None]
    across = words & ~own & layout.is_pair[:, None, None]
    first, second = layout.in_sentence[:, 0, :, None], layout.in_sentence[:, 1, :, None]
    cells = torch.stack([side & rows for rows in (first, second) for side in (own, across, own & far, across & far)], 1)
    sums = weighted_sums(maps, cells.to(maps.dtype))  # [text, head, cell kind]
    # Where both are next to nothing, as beside a column that takes all, their ratio says nothing.
    means = sums / cells.sum((-1, -2))[:, None].clamp_min(1) + _FLOOR / layout.lengths[:, None, None]
    by_sentence = means.log().view(*maps.shape[:2], 2, 2, 2)  # [text, head, sentence, everywhere or far, own or across]
    ratios = (by_sentence[..., 0] - by_sentence[..., 1]).amin(2)
    within, between = sums[..., 0] + sums[..., 4], sums[..., 1] + sums[..., 5]
    expected = (own.sum((-1, -2)) / words.sum((-1, -2)).clamp_min(1))[:, None]
    excess = within / (within + between).clamp_min(_TINY) - expected
    heights = torch.cat([ratios, excess[..., None]], dim=-1)
    return torch.where(layout.is_pair[:, None, None], heights, 0)


def _heights(maps: Tensor, layout: Layout) -> Tensor:
    """Heights of columns, lines and squares in the logarithm, in which a faint one seen in all rows counts: logarithms
    of weights relative to even ones, each row's mean taken off."""
    # A constant in the logarithm changes no height; this one makes padding count as nothing.
    logs = (maps * (layout.lengths / _LEAST)[:, None, None, None]).log1p_()
    n_rows, n_columns = layout.rows.sum(-1)[:, None].clamp_min(1), layout.lengths[:, None]
    column_sums = _row_sums(layout.in_sentence, logs)  # [text, head, sentence, column]
    counted = torch.stack([layout.inside, layout.rows], dim=-1).to(logs.dtype)
    row_mean, word_mean = (logs @ counted[:, None]).unbind(-1)  # [text, head, row]
    row_mean, word_mean = row_mean / n_columns[..., None], word_mean / n_rows[..., None]

    mean = (row_mean * layout.rows[:, None]).sum(-1) / n_rows
    columns = torch.where(layout.inside[:, None], column_sums.sum(2) / n_rows[..., None] - mean[..., None], 0)
    # How much of what differs from place to place in a row is the same in all rows, over what chance would give.
    squares = torch.linalg.vector_norm(logs, dim=-1).square()
    total = ((squares - n_columns[..., None] * row_mean.square()) * layout.rows[:, None]).sum(-1)
    part = columns.square().sum(-1) * n_rows / (total + _FLAT * n_rows * n_columns)
    part = (part - 1 / n_rows) / (1 - 1 / n_rows).clamp_min(0.1)
    spread = (total / (n_rows * n_columns)).clamp_min(0).sqrt()
    # The best line, of words in rows and columns, over what both have elsewhere.
    inner, words = slice(_NEAR, _NEAR + 2 * FARTHEST + 1), layout.rows[:, None].to(logs.dtype)
    of_words = (word_mean * layout.rows[:, None]).sum(-1) / n_rows
    column_mean = column_sums.sum(2) / n_rows[..., None] - of_words[..., None]
    counted = _diagonals(words[:, :, None].expand(-1, -1, logs.shape[-1], -1))[..., inner] * words[..., None]
    # The offsets of a vector of columns are the same for each row but for where they begin.
    of_column = nn.functional.pad(column_mean, (FARTHEST, FARTHEST)).unfold(-1, 2 * FARTHEST + 1, 1)
    along = (_diagonals(logs)[..., inner] - word_mean[..., None] - of_column) * counted
    n_counted = counted.sum(-2)
    height = along.sum(-2) / n_counted.clamp_min(1)
    line = torch.where(2 * n_counted >= n_rows[..., None], height, -_NOT_COUNTED).amax(-1)

    sentences = layout.in_sentence.to(logs.dtype)
    n_own = sentences.sum(-1)  # [text, sentence]
    sums = column_sums @ sentences[:, None].transpose(-1, -2)  # [text, head, sentence, sentence]
    # A piece's attention to itself is no part of a square.
    itself = (logs.diagonal(dim1=-2, dim2=-1) * layout.rows[:, None]).sum(-1)
    own = (sums.diagonal(dim1=-2, dim2=-1).sum(-1) - itself) / (n_own * (n_own - 1)).sum(-1).clamp_min(1)[:, None]
    across = (sums[..., 0, 1] + sums[..., 1, 0]) / (2 * n_own.prod(-1)).clamp_min(1)[:, None]
    square = torch.where(layout.is_pair[:, None], own - across, 0)
    return torch.stack([columns.amax(-1), part, spread, line, square], dim=-1)
