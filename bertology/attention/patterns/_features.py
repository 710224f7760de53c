"""What a classifier is told of a map: numbers of a fixed size, whatever the map's length.

All are measured on rows of words; special tokens are columns only. Shares of rows with a column or a line count what an
eye sees: a weight is *shaded* by the map's brightest weights, as in the pictures that were labelled (labels/README.md).
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from bertology.attention.patterns._kinds import CLS, PUNCTUATION, SEP
from bertology.attention.patterns._layout import Layout

COLUMN_CONTRASTS: Final = (0.08, 0.16, 0.3, 0.5)
LINE_RATIOS: Final = (0.7, 1.1, 1.6)
LINE_CONTRASTS: Final = (0.1, 0.2, 0.4)
FARTHEST: Final = 4
"""Lines this far from the diagonal, in pieces, count as diagonal."""
_SIDE = 3
"""Columns on each side that a column is held against."""
_BRIGHTEST, _GAMMA, _DIMMEST_TOP = 0.005, 0.7, 0.3
_FAINTEST = 0.12
"""Shade below which nothing is a line."""
_NEAR = 2
"""Pieces around a line that belong to it."""
_FLOOR = 0.1
"""Of the attention of a uniform map."""
_TINY = 1e-9

FEATURES: Final[tuple[str, ...]] = (
    *(f"column_rows_{contrast}" for contrast in COLUMN_CONTRASTS),
    "column_rows_whole_text",
    "column_mass_1",
    "column_mass_2",
    "column_mass_3",
    "column_density_log",
    "cls_mass",
    "sep_mass",
    "punctuation_mass",
    *(f"line_rows_ratio_{ratio}" for ratio in LINE_RATIOS),
    *(f"line_rows_contrast_{contrast}" for contrast in LINE_CONTRASTS),
    "line_mass",
    "line_offset",
    "mass_within_1",
    "mass_within_2",
    "mass_within_4",
    "entropy",
    "entropy_spread",
    "confidence",
    "column_entropy",
    "row_information",
    "block_log_ratio",
    "block_log_ratio_far",
    "own_sentence_excess",
    "is_pair",
    "length_log",
)
"""Names of the features, in order."""


def features(maps: Tensor, layout: Layout) -> Tensor:
    """Measure maps.

    Args:
        maps: ``[text, head, piece, piece]`` from (rows) to (columns), 0 in columns of padding.
        layout: of the same texts.

    Returns:
        ``[text, head, feature]`` in the order of :data:`FEATURES`.
    """
    maps = torch.where(layout.inside[:, None, :, None], maps.float(), 0)
    shades = shaded(maps, layout)
    n_heads = maps.shape[1]
    of_text = torch.stack([layout.is_pair.float(), layout.lengths.log()], dim=-1)[:, None].expand(-1, n_heads, -1)
    parts = [_columns(maps, shades, layout), _lines(maps, shades, layout), _spread(maps, layout), _blocks(maps, layout)]
    return torch.cat([*parts, of_text], dim=-1)


def shaded(maps: Tensor, layout: Layout) -> Tensor:
    """Brightness of each weight in a picture of its map, 0 to 1: the brightest 0.5 % of weights are 1."""
    flat = maps.flatten(2)
    ranks = (layout.lengths.square() * _BRIGHTEST).ceil().long().clamp_min(1)
    top = flat.topk(int(ranks.max()), dim=-1).values  # [text, head, rank]
    brightest = top.gather(-1, (ranks - 1)[:, None, None].expand(-1, maps.shape[1], 1))
    return (maps / brightest[..., None].clamp(_DIMMEST_TOP, 1)).clamp_max(1).pow(_GAMMA)


def _row_means(values: Tensor, layout: Layout) -> Tensor:
    """``[text, head, row]`` averaged over rows of words."""
    rows = layout.rows[:, None]
    return torch.where(rows, values, 0).sum(-1) / rows.sum(-1).clamp_min(1)


def _columns(maps: Tensor, shades: Tensor, layout: Layout) -> Tensor:
    contrast = shades - _beside(shades, layout)
    in_sentence = layout.in_sentence.float()
    n_rows = in_sentence.sum(-1)  # [text, sentence]
    found, whole = [], contrast
    for least in COLUMN_CONTRASTS:
        counts = torch.einsum("tsi,thij->thsj", in_sentence, (contrast >= least).float())
        shares = (counts / n_rows[:, None, :, None].clamp_min(1)).amax(-1)  # [text, head, sentence]
        found.append(torch.where(n_rows[:, None] > 0, shares, 1).amin(-1))
        if least == COLUMN_CONTRASTS[1]:
            whole = (counts.sum(2) / n_rows.sum(-1)[:, None, None].clamp_min(1)).amax(-1)
    mass = torch.einsum("ti,thij->thj", layout.rows.float(), maps) / n_rows.sum(-1)[:, None, None].clamp_min(1)
    best = torch.nn.functional.pad(mass, (0, 3)).topk(3, dim=-1).values
    density = (best[..., 0] * layout.lengths[:, None]).clamp_min(_TINY).log()
    kinds = [torch.where((layout.kinds == kind)[:, None], mass, 0).sum(-1) for kind in (CLS, SEP, PUNCTUATION)]
    return torch.stack([*found, whole, *best.unbind(-1), density, *kinds], dim=-1)


def _beside(shades: Tensor, layout: Layout) -> Tensor:
    """The darker of both sides of each piece, as means over a few columns: a bright neighbour hides no column."""
    n = shades.shape[-1]
    sums = torch.nn.functional.pad(shades.cumsum(-1), (1, 0))  # [..., n + 1]
    place = torch.arange(n, device=shades.device)
    low, high = (place - _SIDE).clamp_min(0), (place + 1 + _SIDE).clamp_max(n)
    left = (sums[..., place] - sums[..., low]) / (place - low).clamp_min(1)
    # The last columns of a padded text have fewer beside them than the widest text's.
    end = torch.minimum(high[None], layout.lengths.long()[:, None])  # [text, piece]
    right = sums.gather(-1, end[:, None, None].expand(*shades.shape[:3], n)) - sums[..., place + 1]
    n_right = (end - place - 1)[:, None, None]
    right = torch.where(n_right > 0, right / n_right.clamp_min(1), torch.inf)
    return torch.minimum(torch.where(place > 0, left, torch.inf), right)


def _lines(maps: Tensor, shades: Tensor, layout: Layout) -> Tensor:
    margin = FARTHEST + _NEAR + 1
    words = torch.where(layout.rows[:, None, None], shades, 0)
    left = _padded(words.cummax(-1).values, margin, after=True)
    right = _padded(words.flip(-1).cummax(-1).values.flip(-1), margin, after=False)
    words, weights = _padded(words, margin), _padded(maps, margin)
    is_word = _padded(layout.rows[:, None, None].expand(-1, 1, maps.shape[2], -1).float(), margin)
    n_words = layout.rows.sum(-1)[:, None]
    mean = torch.where(layout.rows[:, None, None], shades, 0).sum(-1) / n_words[..., None].clamp_min(1)

    def along(padded: Tensor, offset: int) -> Tensor:
        return padded.diagonal(offset + margin, -2, -1)[..., : maps.shape[2]]

    shares, masses = [], []
    for offset in range(-FARTHEST, FARTHEST + 1):
        band = torch.stack([along(words, offset + step) for step in (-1, 0, 1)]).amax(0)
        outside = torch.maximum(along(left, offset - _NEAR - 1), along(right, offset + _NEAR + 1))
        counted = layout.rows[:, None] & (along(is_word, offset) > 0)  # [text, 1, row]
        seen = [(band >= ratio * outside) & (band >= _FAINTEST) for ratio in LINE_RATIOS]
        seen += [band - mean >= contrast for contrast in LINE_CONTRASTS]
        n_counted = counted.sum(-1)
        share = torch.stack([(hit & counted).sum(-1) for hit in seen], dim=-1) / n_counted[..., None].clamp_min(1)
        enough = (2 * n_counted >= n_words)[..., None]
        shares.append(torch.where(enough, share, 0))
        masses.append(torch.where(counted, along(weights, offset), 0).sum(-1) / n_words.clamp_min(1))
    share, mass = torch.stack(shares), torch.stack(masses)  # [offset, text, head, …]
    line_mass, best = mass.max(0)
    within = [mass[FARTHEST - near : FARTHEST + near + 1].sum(0) for near in (1, 2, FARTHEST)]
    rest = [line_mass, (best - FARTHEST).abs().float(), *within]
    return torch.cat([share.amax(0), torch.stack(rest, dim=-1)], dim=-1)


def _padded(maps: Tensor, margin: int, *, after: bool | None = None) -> Tensor:
    """More columns on both sides: of zeros, or going on with the last (``after``) or the first one's values."""
    wider = torch.nn.functional.pad(maps, (margin, margin))
    if after is True:
        wider[..., -margin:] = maps[..., -1:]
    elif after is False:
        wider[..., :margin] = maps[..., :1]
    return wider


def _spread(maps: Tensor, layout: Layout) -> Tensor:
    top = layout.lengths.log().clamp_min(_TINY)[:, None]
    total = maps.sum(-1, keepdim=True).clamp_min(_TINY)
    shares = maps / total
    entropy = -(shares * shares.clamp_min(1e-30).log()).sum(-1)  # [text, head, row]
    mean = _row_means(entropy, layout)
    spread = _row_means((entropy - mean[..., None]).square(), layout).sqrt()
    column = torch.einsum("ti,thij->thj", layout.rows.float(), shares)
    column = column / layout.rows.sum(-1)[:, None, None].clamp_min(1)
    column_entropy = -(column * column.clamp_min(1e-30).log()).sum(-1)
    confidence = _row_means(maps.amax(-1), layout)
    information = column_entropy - mean
    return torch.stack([mean / top, spread / top, confidence, column_entropy / top, information / top], dim=-1)


def _blocks(maps: Tensor, layout: Layout) -> Tensor:
    words = layout.rows[:, :, None] & layout.rows[:, None]  # [text, row, column]
    place = torch.arange(maps.shape[-1], device=maps.device)
    far = (place[:, None] - place).abs() > _NEAR
    own, other = layout.same_sentence, words & ~layout.same_sentence & layout.is_pair[:, None, None]
    # Where both are next to nothing, as beside a column that takes all, their ratio says nothing.
    floor = _FLOOR / layout.lengths[:, None]
    ratios = []
    for cells in (words, words & far):
        by_sentence = []
        for number in (0, 1):
            rows = layout.in_sentence[:, number, :, None]
            inside, outside = (_mean_over(maps, side & cells & rows) for side in (own, other))
            by_sentence.append(((inside + floor) / (outside + floor)).log())
        ratios.append(torch.where(layout.is_pair[:, None], torch.minimum(*by_sentence), 0))
    expected = (own.sum((-1, -2)) / words.sum((-1, -2)).clamp_min(1))[:, None]
    within = torch.einsum("thij,tij->th", maps, own.float())
    share = within / torch.einsum("thij,tij->th", maps, words.float()).clamp_min(_TINY)
    excess = torch.where(layout.is_pair[:, None], share - expected, 0)
    return torch.stack([*ratios, excess], dim=-1)


def _mean_over(maps: Tensor, cells: Tensor) -> Tensor:
    return torch.einsum("thij,tij->th", maps, cells.float()) / cells.sum((-1, -2)).clamp_min(1)[:, None]
