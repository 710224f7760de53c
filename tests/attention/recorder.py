"""A statistic that keeps every map, for tests of what statistics are shown."""

from __future__ import annotations

from bertology.attention.maps import HeadStatistic, MapBatch
from bertology.measures.sums import Scope


class Recorder(HeadStatistic):
    """Keeps everything it is shown."""

    def __init__(self, scope: Scope) -> None:
        self.batches: list[MapBatch] = []

    def update(self, batch: MapBatch) -> None:
        self.batches.append(batch)

    def merge(self, other: Recorder) -> None:
        self.batches += other.batches

    def finish(self) -> list[MapBatch]:
        return self.batches
