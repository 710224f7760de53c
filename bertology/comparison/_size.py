"""Size of models on disk and in memory, and how fast they read the same text here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bertology.compression import Compressed, read_compressed, timed_passes
from bertology.corpora import Texts, as_sentences
from bertology.encoders import ModelSource, model_name, open_encoder, resolve_model
from bertology.encoders.weights import StoredWeights
from bertology.errors import ModelError

if TYPE_CHECKING:
    import pandas as pd

_COMPRESSED = "compress.json"


@dataclass(frozen=True)
class SizeAndSpeed:
    """One model; made by :func:`size_and_speed`."""

    model: str
    bytes_on_disk: int
    """Of the files of weights."""
    bytes_estimated: int | None
    """Of a model of :func:`bertology.compress`, what its weights could be stored in."""
    parameters: int
    """Weights in these files, tied ones once."""
    nonzero: int
    """Weights that are not zero."""
    pieces_per_second: float
    """Special tokens counted and padding not; the median of the passes."""
    words_per_second: float
    """The same in words, which models with different tokenizers share."""
    speedup: float
    """Times as fast as the first model: the median over turns of the quotients of seconds."""
    speedup_low: float
    """The least over turns."""
    speedup_high: float
    """The largest over turns."""


def size_and_speed(models: Sequence[Any], sentences: Texts, *, repeats: int = 5, device: str = "cpu") -> pd.DataFrame:
    """Size of models, and how fast they read the same text through all layers, on this machine.

    Passes of the models take turns, so that other load on the machine slows them down alike. Weights that are zero cost
    as much time as others. Heads are among the weights, and no part of what is timed.

    >>> size_and_speed(["pocket"], ["The dogs chased a cat ."], repeats=1)["speedup"].tolist()
    [1.0]

    Args:
        models: each as of :func:`bertology.probe`; the reference comes first.
        sentences: the text.
        repeats: passes that are measured, after one that is not.
        device: to compute on.

    Returns:
        A row for each model, with the fields of :class:`SizeAndSpeed`.

    Raises:
        ModelError: there is no model, no repeat or no text.
    """
    import pandas as pd

    if not models or repeats < 1:
        raise ModelError("speed is measured of one model or more, in one repeat or more")
    text = as_sentences(sentences)
    encoders = [open_encoder(given, device=device) for given in models]
    n_pieces, seconds = timed_passes(encoders, text, repeats=repeats)
    rates, turns = 1 / np.median(seconds, axis=1), seconds[0] / seconds
    rows = [
        SizeAndSpeed(
            encoder.source.title,
            *_size(resolve_model(model_name(given))),
            pieces_per_second=float(n_pieces[place] * rates[place]),
            words_per_second=float(text.n_words * rates[place]),
            speedup=float(np.median(turns[place])),
            speedup_low=float(turns[place].min()),
            speedup_high=float(turns[place].max()),
        )
        for place, (given, encoder) in enumerate(zip(models, encoders, strict=True))
    ]
    return pd.DataFrame([asdict(row) for row in rows]).astype({"bytes_estimated": "Int64"})


def _size(source: ModelSource) -> tuple[int, int | None, int, int]:
    """Bytes on disk, bytes estimated, weights, and those that are not zero."""
    made: Compressed | None = read_compressed(source.folder) if (source.folder / _COMPRESSED).is_file() else None
    with StoredWeights(source) as stored:
        counts = [(values.numel(), int(torch.count_nonzero(values))) for values in map(stored.read, stored.places)]
        estimated = None if made is None else made.record.bytes_estimated
        return stored.n_bytes, estimated, sum(n for n, _ in counts), sum(n for _, n in counts)
