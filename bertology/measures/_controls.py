"""Control tasks: what a readout can learn by heart."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MANTISSA_BITS = 53


def control_labels(
    word_codes: ArrayLike, vocabulary: Sequence[str], label_distribution: ArrayLike, *, seed: int
) -> NDArray[np.int64]:
    """Give each word *type* a random label, the same wherever it occurs (Hewitt & Liang 2019, §2.1).

    A readout can do well on such labels only by memorising them. A type's label is drawn from
    ``label_distribution``; it depends on the seed and the word's spelling alone, so that splits with different
    vocabularies, in any order, agree on it.

    Args:
        word_codes: ``int [item]`` place of each item's form in ``vocabulary``.
        vocabulary: the word forms, as spelled (case counts).
        label_distribution: ``[label]`` how often the task's own labels occur among its training items (counts or
            shares).
        seed: of the whole assignment.

    Returns:
        ``int64 [item]``

    Raises:
        ValueError: the distribution is empty, negative or all zero.
    """
    cumulative = np.cumsum(np.asarray(label_distribution, dtype=np.float64))
    if not cumulative.size or cumulative[-1] <= 0 or np.any(np.diff(cumulative, prepend=0.0) < 0):
        raise ValueError("label_distribution needs at least one positive share and no negative one")
    of_type: NDArray[np.int64] = np.searchsorted(cumulative, _uniform(vocabulary, seed) * cumulative[-1], side="right")
    labels: NDArray[np.int64] = of_type[np.asarray(word_codes, dtype=np.int64)]
    return labels


def _uniform(words: Sequence[str], seed: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each word, from a hash of seed and spelling."""
    key = seed.to_bytes(8, "little", signed=True)
    digests = b"".join(
        blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8, key=key, person=b"control task").digest()
        for word in words
    )
    bits = np.frombuffer(digests, dtype="<u8") >> np.uint64(64 - _MANTISSA_BITS)
    return bits.astype(np.float64) / 2.0**_MANTISSA_BITS
