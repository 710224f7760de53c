"""The maps of a bounded number of sentences, kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertology.attention._batch import MapBatch, Scope
from bertology.attention._statistic import HeadStatistic
from bertology.attention.arcs._places import Places, check_level


@dataclass(frozen=True, eq=False)
class SentenceMaps:
    """What a parser is given of one sentence."""

    sentence: int
    """Its number in the text."""
    maps: Tensor
    """``[map, word, word]`` float16, the heads of the first layer first."""
    heads: Tensor
    """``[word]`` place of the head of each, −1 for words that are not asked about."""
    vectors: Tensor | None
    """``[word, dim]``"""


class KeptMaps(HeadStatistic):
    """Keeps the word-level maps of all sentences that one window shows whole, as float16: for a few thousand at most.

    ``finish`` gives, by number of the sentence, ``[map, word, word]``.
    """

    def __init__(self, scope: Scope) -> None:
        check_level(scope)
        self._kept: dict[int, list[Tensor]] = {}

    def update(self, batch: MapBatch) -> None:
        """Keep the maps of one layer."""
        places = Places(batch.units)
        starts = np.searchsorted(places.windows, np.arange(len(batch.units) + 1))
        for window, sentence in enumerate(batch.units.sentences.tolist()):
            own = slice(starts[window], starts[window + 1])
            units = torch.from_numpy(places.units[own]).to(batch.maps.device)
            if places.counts[own].all():
                maps = batch.maps[window][:, units[:, None], units]
                self._kept.setdefault(sentence, []).append(maps.to("cpu", torch.float16))

    def merge(self, other: KeptMaps) -> None:
        """Add what another thread has kept."""
        self._kept |= other._kept

    def finish(self) -> dict[int, Tensor]:
        """The maps."""
        return {sentence: torch.cat(maps) for sentence, maps in self._kept.items()}
