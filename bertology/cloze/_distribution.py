"""The whole distribution at the masks of one prompt, and vocabularies that distributions are over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.cloze._answers import AnswerReader, Excluded
from bertology.cloze._encode import encode, mask_places, too_long
from bertology.cloze._prompts import MASK, Prompt
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder


@dataclass(frozen=True, eq=False)
class Distribution:
    """What a masked language model expects at the masks of one prompt, by layer."""

    layers: tuple[int, ...]
    log_probs: NDArray[np.float32]
    """``[layer, mask, entry]`` natural logarithms over the whole vocabulary."""

    def top(self, k: int) -> NDArray[np.int64]:
        """``[layer, mask, k]`` vocabulary numbers of the most probable entries, the first one first."""
        best: NDArray[np.int64] = np.argsort(-self.log_probs, axis=-1, kind="stable")[..., :k]
        return best


def distribution(encoder: Encoder, prompt: Prompt, *, layers: Sequence[int] | None = None) -> Distribution:
    """The distribution at each mask of a prompt, all masks masked at once, by layer through the masked-LM head.

    For one prompt; :func:`ask` takes many and keeps less.

    Args:
        encoder: a masked language model.
        prompt: its candidates are not looked at.
        layers: 0 for the embeddings, 1…L for the blocks; the last one when left out.

    Raises:
        ModelError: no masked-LM head, no mask, or a layer that the model does not have.
        ClozeError: a prompt without a mask, or too long.
    """
    if not prompt.n_masks:
        raise ClozeError(f"prompt {quoted(prompt.text)}: no mask in it; write {MASK} where a word is left out")
    encoding = encode(encoder, [prompt.written(encoder.mask_token)])[0]
    reason = too_long(encoder, len(encoding.ids))
    if reason:
        raise ClozeError(f"prompt {quoted(prompt.text)} is {reason}; shorten it")
    masks = mask_places(encoder, prompt, encoding.ids)
    logits = encoder.masked_logits(
        torch.tensor([encoding.ids]), torch.tensor([[0, piece] for piece in masks]), layers=layers
    )
    log_probs = torch.stack([part.float().log_softmax(-1) for part in logits.values()])
    return Distribution(tuple(logits), log_probs.cpu().numpy())


def vocabulary_ids(
    encoder: Encoder, words: Sequence[str], *, before: str = "a "
) -> tuple[NDArray[np.int64], tuple[Excluded, ...]]:
    """The entries of a vocabulary given in words, for :func:`ask`.

    Args:
        encoder: whose vocabulary it is.
        words: of several pieces they have no entry.
        before: the text that they follow: at the start of a text, after a space or a bracket a word may be another
            entry.

    Returns:
        ``[entry]`` vocabulary numbers, ascending, each once; and the words that are no single piece, with the reason.
    """
    reader = AnswerReader(encoder)
    entries, excluded = set(), []
    for number, (word, answer) in enumerate(zip(words, reader.read(before, words), strict=True)):
        reason = answer.reason or (reader.several_pieces(answer) if len(answer.pieces) > 1 else "")
        if reason:
            excluded.append(Excluded(number, word, reason))
        else:
            entries.add(answer.pieces[0])
    return np.array(sorted(entries), dtype=np.int64), tuple(excluded)
