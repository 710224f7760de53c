"""What a choice between two words at a mask becomes when other words of the text are masked too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.causal._pairs import AlignedPair
from bertology.causal._passes import LogitDifference
from bertology.encoders.batching import pieces_in_batch

if TYPE_CHECKING:
    from bertology.encoders import Encoder

Floats = NDArray[np.float64]


def differences(encoder: Encoder, one: AlignedPair, texts: Sequence[NDArray[np.int64]]) -> Floats:
    """``[text]`` the logit of the good word minus that of the bad one, in texts as long as that of the question."""
    size = max(1, pieces_in_batch(encoder.device) // len(one.ids[0]))
    found = []
    for start in range(0, len(texts), size):
        some = texts[start : start + size]
        score = LogitDifference(
            encoder, torch.full((len(some),), one.mask), torch.tensor([one.candidates]).expand(len(some), -1)
        )
        last = encoder.hidden_states(torch.from_numpy(np.stack(some)), layers=(encoder.n_layers,))[encoder.n_layers]
        found.append(score(last, torch.arange(len(some))).numpy())
    return np.concatenate(found)


def masked_differences(encoder: Encoder, one: AlignedPair, masked: Mapping[Any, NDArray[np.int64]]) -> dict[Any, float]:
    """By key the difference in the text with some of its subwords masked; equal texts are read once."""
    versions: dict[Any, NDArray[np.int64]] = {}
    for key, subwords in masked.items():
        ids = one.ids[0].copy()
        ids[subwords] = encoder.mask_id
        versions[key] = ids
    distinct = {ids.tobytes(): ids for ids in versions.values()}
    scores = dict(zip(distinct, differences(encoder, one, list(distinct.values())).tolist(), strict=True))
    return {key: scores[ids.tobytes()] for key, ids in versions.items()}
