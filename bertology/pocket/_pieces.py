"""Learning WordPieces from word counts, the same way every time: ties go to the alphabetically first pair."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise

Pair = tuple[str, str]
_CONTINUES = "##"
_FEWEST = 2
"""A pair seen less often is not merged."""


def learn_pieces(counts: Mapping[str, int], size: int) -> set[str]:
    """Merge the most frequent pair of neighbouring pieces until there are ``size`` of them (Sennrich et al. 2016).

    Args:
        counts: how often each word occurs.
        size: pieces wanted, single characters included.

    Returns:
        The pieces; those that continue a word begin with ``##``.
    """
    spelled = [([word[0], *(_CONTINUES + letter for letter in word[1:])], n) for word, n in sorted(counts.items())]
    pieces = {piece for parts, _ in spelled for piece in parts}
    pairs: Counter[Pair] = Counter()
    words_with: dict[Pair, set[int]] = defaultdict(set)
    for number, (parts, n) in enumerate(spelled):
        for pair in pairwise(parts):
            pairs[pair] += n
            words_with[pair].add(number)
    while len(pieces) < size and pairs:
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < _FEWEST:
            break
        pieces.add(_joined(best))
        for number in words_with.pop(best):
            parts, n = spelled[number]
            for pair in pairwise(parts):
                pairs[pair] -= n
            parts[:] = _merged(parts, best)
            for pair in pairwise(parts):
                pairs[pair] += n
                words_with[pair].add(number)
        del pairs[best]
    return pieces


def _joined(pair: Pair) -> str:
    return pair[0] + pair[1].removeprefix(_CONTINUES)


def _merged(parts: list[str], pair: Pair) -> list[str]:
    merged: list[str] = []
    for part in parts:
        if merged and (merged[-1], part) == pair:
            merged[-1] = _joined(pair)
        else:
            merged.append(part)
    return merged
