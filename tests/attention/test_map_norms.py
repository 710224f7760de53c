from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from bertology.attention import MapBatch, stream_maps
from bertology.corpora import Sentences
from bertology.encoders import Encoder
from tests.attention.recorder import Recorder


@pytest.mark.parametrize("level", ["word", "piece"])
@pytest.mark.parametrize("reading", [{"pairs": True}, {"on_long": "window"}])
def test_sums_are_those_of_the_whole_table(
    level: str, reading: dict[str, Any], encoder: Callable[..., Encoder], sentences: Sentences
) -> None:
    loaded = encoder("bert") if "pairs" in reading else encoder("bert", max_pieces=16)
    read = stream_maps(loaded, sentences, [Recorder], level=level, norms=True, **reading)  # type: ignore[arg-type]
    assert read.n_pairs > 0 or read.n_windows > len(sentences)
    for batch in read.results[0]:
        given, kept = _by_hand(batch)
        torch.testing.assert_close(batch.norms.given, given, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(batch.norms.kept, kept, rtol=1e-5, atol=1e-6)


def _by_hand(batch: MapBatch) -> tuple[torch.Tensor, torch.Tensor]:
    assert batch.norms is not None
    between = batch.norms.between
    given, kept = torch.zeros(between.shape[:3]), torch.zeros(between.shape[:2])
    for text, counts in enumerate(batch.units.word_rows.tolist()):
        for unit in (unit for unit, counted in enumerate(counts) if counted):
            given[text] += between[text, :, unit]
            kept[text] += between[text, :, unit, unit]
    return given, kept
