"""Pairs of sentences put to the head that says whether the second follows the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.activations import Progress, silent
from bertology.cloze._answers import Excluded
from bertology.cloze._encode import too_long
from bertology.encoders.batching import pieces_in_batch, plan_batches
from bertology.errors import ClozeError

if TYPE_CHECKING:
    from bertology.encoders import Encoder


@dataclass(frozen=True, eq=False)
class NextSentenceScores:
    """What a model says of pairs of sentences, by layer."""

    layers: tuple[int, ...]
    log_probs: NDArray[np.float64]
    """``[layer, pair, 2]`` natural logarithms: the second follows, it does not; NaN where a pair is excluded."""
    excluded: tuple[Excluded, ...]


def next_sentence(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str]],
    *,
    layers: Sequence[int] | None = None,
    progress: Progress = silent,
) -> NextSentenceScores:
    """Whether the second sentence of each pair follows the first, as the model's own head has it (Devlin et al. 2019).

    Args:
        encoder: a model that was trained for next-sentence prediction.
        pairs: natural text.
        layers: whose first piece is given to the head; the last one, for which it was trained, when left out.
        progress: told of pairs read.

    Raises:
        ModelError: the model has no such head, or not such a layer.
        ClozeError: no pair.
    """
    if not pairs:
        raise ClozeError("no pair of sentences: give at least one")
    wanted = (encoder.n_layers,) if layers is None else tuple(sorted(set(layers)))
    head = encoder.next_sentence_head
    backend: Any = encoder.tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    encodings = backend.encode_batch(list(pairs))
    reasons = [too_long(encoder, len(encoding.ids)) for encoding in encodings]
    kept = np.array([number for number, reason in enumerate(reasons) if not reason], dtype=np.int64)
    found = np.full((len(wanted), len(pairs), 2), np.nan)
    progress.start(len(pairs), unit="pairs")
    lengths = np.array([len(encodings[number].ids) for number in kept], dtype=np.int64)
    for batch in plan_batches(lengths, pieces=pieces_in_batch(encoder.device)) if len(kept) else ():
        here = kept[batch.windows]
        ids, types, mask = (torch.zeros(len(here), batch.length, dtype=torch.long) for _ in range(3))
        ids.fill_(encoder.pad_id)
        for row, number in enumerate(here.tolist()):
            n = len(encodings[number].ids)
            ids[row, :n] = torch.tensor(encodings[number].ids)
            types[row, :n] = torch.tensor(encodings[number].type_ids)
            mask[row, :n] = 1
        states = encoder.hidden_states(ids, mask if batch.is_padded else None, layers=wanted, token_type_ids=types)
        for place, layer in enumerate(wanted):
            found[place, here] = head.log_probs(states[layer], layer=layer).double().cpu().numpy()
        progress.advance(len(here))
    progress.finish()
    return NextSentenceScores(
        wanted, found, tuple(Excluded(number, None, reason) for number, reason in enumerate(reasons) if reason)
    )
