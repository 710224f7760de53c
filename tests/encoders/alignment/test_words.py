"""Attention between words, against loops over words and pieces."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bertology.encoders import word_attentions


def by_loops(attention: Tensor, groups: list[list[int]]) -> Tensor:
    out = torch.zeros(len(groups), len(groups))
    of = [sum(piece in group for group in groups) for piece in range(attention.shape[-1])]
    for i, source in enumerate(groups):
        for j, target in enumerate(groups):
            out[i, j] = sum(attention[p, q] / of[q] for p in source for q in target) / len(source)
    return out


def test_sum_to_and_mean_from() -> None:
    maps = torch.rand(2, 3, 9, 9, generator=torch.Generator().manual_seed(0)).softmax(-1)
    first, last = [1, 2, 4, 4, 7], [2, 5, 5, 7, 8]  # words 1 and 2 share piece 4, so do 2 and 3
    groups = [list(range(a, b)) for a, b in zip(first, last, strict=True)]
    cropped = word_attentions(maps, first, last)
    kept = word_attentions(maps, first, last, specials=(0, 8))
    assert cropped.shape == (2, 3, 5, 5)
    assert kept.shape == (2, 3, 7, 7)
    for layer in range(2):
        for head in range(3):
            torch.testing.assert_close(cropped[layer, head], by_loops(maps[layer, head], groups))
            torch.testing.assert_close(kept[layer, head], by_loops(maps[layer, head], [*groups, [0], [8]]))


def test_rows_sum_to_one_when_every_piece_has_an_owner() -> None:
    maps = torch.rand(4, 6, 6, generator=torch.Generator().manual_seed(1)).softmax(-1)
    words = word_attentions(maps, [1, 2, 4], [2, 4, 5], specials=(0, 5))
    torch.testing.assert_close(words.sum(-1), torch.ones(4, 5))
    shared = word_attentions(maps, [1, 1, 3], [3, 4, 5], specials=(0, 5))
    torch.testing.assert_close(shared.sum(-1), torch.ones(4, 5))


@pytest.mark.parametrize(("first", "last"), [([1, 3], [2, 3]), ([-1], [1]), ([2], [5])])
def test_words_outside_the_map(first: list[int], last: list[int]) -> None:
    with pytest.raises(ValueError, match="at least one piece"):
        word_attentions(torch.rand(4, 4), first, last)
