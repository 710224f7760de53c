"""Sentences read with the one after them: what a tokenizer puts between two, and which two go together."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bertology.attention._batch import Integers
from bertology.errors import ModelError

if TYPE_CHECKING:
    from bertology.encoders import Encoder, Pieces


@dataclass(frozen=True, eq=False)
class PairForm:
    """How a model takes two sentences: what opens and closes one, and the separator between."""

    middle: Integers
    """``[piece]`` vocabulary numbers of what stands between: ``[SEP]``, ``</s></s>``."""
    segments: tuple[int, int, int] | None
    """Token types of the first sentence with what opens it, of the separator, and of the second with what closes it;
    None where the model has none, or all are 0."""

    @classmethod
    def of(cls, encoder: Encoder) -> PairForm:
        """As the model's tokenizer has it.

        Raises:
            ModelError: it puts nothing between two sentences.
        """
        encoding: Any = encoder.tokenizer("a", "a").encodings[0]
        of_sentence = encoding.sequence_ids
        end, start = len(of_sentence) - of_sentence[::-1].index(0), of_sentence.index(1)
        if end == start:
            raise ModelError(
                f"model {encoder.name} puts no separator between two sentences, so takes no pairs: read sentences one "
                "by one (setting texts: sentences)"
            )
        types = (encoding.type_ids[0], encoding.type_ids[end], encoding.type_ids[-1])
        middle = np.array(encoding.ids[end:start], dtype=np.int64)
        return cls(middle, types if any(types) and _takes_types(encoder, max(types)) else None)


def _takes_types(encoder: Encoder, highest: int) -> bool:
    body: Any = encoder.model.body
    n_types = getattr(body.config, "type_vocab_size", 0) or 0
    return highest < n_types and "token_type_ids" in inspect.signature(body.forward).parameters


def neighbours(pieces: Pieces, read: Integers, n_sentences: int, *, most: int) -> tuple[dict[int, int], int]:
    """The first sentence and the second, the third and the fourth, and so on, so that none is read twice.

    Where one is not read, the other is alone; where the two are too long, both are.

    Args:
        pieces: the sentences, each in windows of its own.
        read: windows of which something is read.
        n_sentences: how many there are.
        most: pieces that two windows may have together.

    Returns:
        By the window of each first sentence that of the second; and how many pairs were too long.
    """
    of_window = pieces.window_sentence[read]
    window, n_windows = np.full(n_sentences, -1), np.bincount(of_window, minlength=n_sentences)
    window[of_window] = read
    couples = np.arange(n_sentences // 2 * 2).reshape(-1, 2)  # [pair, 2]
    couples = couples[(n_windows[couples] > 0).all(1)]
    together = pieces.window_lengths[window[couples]].sum(1) <= most
    fits = (n_windows[couples] == 1).all(1) & together
    return dict(window[couples[fits]].tolist()), int((~fits).sum())
