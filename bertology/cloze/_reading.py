"""One prompt read layer by layer: the whole distribution at its masks, and how words come up in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bertology.cloze._ask import ask
from bertology.cloze._pieces import encode, mask_places, spell_pieces, too_long
from bertology.cloze._prompts import MASK, AnswerForm, Excluded, Floats, Integers, Prompt
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distributions of a masked language model at the masks of one prompt, by layer."""

    layers: tuple[int, ...]
    log_probs: NDArray[np.float32]
    """``[layer, mask, entry]`` natural logarithms over the whole vocabulary."""

    def top(self, k: int) -> Integers:
        """``[layer, mask, k]`` vocabulary numbers of the most probable entries, the first one first."""
        best: Integers = np.argsort(-self.log_probs, axis=-1, kind="stable")[..., :k]
        return best


def distribution(encoder: Encoder, prompt: Prompt, *, layers: Sequence[int] | None = None) -> Distribution:
    """The distribution at each mask of a prompt, all masks masked at once, by layer through the masked-LM head.

    For one prompt, whose candidates are ignored; :func:`ask` takes many and keeps less. Layers are 0 for the
    embeddings, 1…L for the blocks; the last one when left out.

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


@dataclass(frozen=True, eq=False)
class ClozeReading:
    """Words at the mask of one prompt, in every layer."""

    text: str
    """The prompt as the model reads it."""
    model: str
    layers: tuple[int, ...]
    form: AnswerForm
    words: tuple[str, ...]
    """The candidates that could be scored; without candidates, the best of the deepest layer, the first one first."""
    log_probs: Floats
    """``[layer, word]`` natural logarithms, over the whole vocabulary."""
    ranks: Integers | None
    """``[layer, word]`` 1 for the most probable entry; None where candidates may have several pieces."""
    first: tuple[str, ...]
    """``[layer]`` the most probable entry of each layer, of the whole vocabulary."""
    first_log_probs: Floats
    """``[layer]`` its natural logarithm."""
    excluded: tuple[Excluded, ...]
    """Candidates without a score."""


def read_cloze(
    encoder: Encoder,
    prompt: Prompt,
    *,
    layers: Sequence[int] | None = None,
    top: int = 5,
    form: AnswerForm = "one_piece",
) -> ClozeReading:
    """Follow words at the mask of a prompt through the layers, each read by the masked-LM head (the logit lens).

    Args:
        encoder: a masked language model.
        prompt: with one mask. Its candidates are followed; without any, the best of the deepest layer asked for.
        layers: 0 for the embeddings, 1…L for the blocks; all when left out.
        top: number of entries that are followed where there are no candidates.
        form: how candidates are scored, above all those of several pieces.

    Raises:
        ModelError: no masked-LM head, no mask, or a layer that the model does not have.
        ClozeError: no mask, more than one, a text that is too long, or none of the candidates can be scored.
    """
    if prompt.n_masks > 1:
        raise ClozeError(
            f"{prompt.n_masks} masks in {quoted(prompt.text)}: one is read at a time, write out the others"
        )
    chosen = tuple(range(encoder.n_layers + 1)) if layers is None else tuple(sorted(set(layers)))
    expected = distribution(encoder, prompt, layers=chosen)
    log_probs = expected.log_probs[:, 0].astype(np.float64)
    if not 1 <= top <= log_probs.shape[1]:
        raise ClozeError(f"the best {top} are asked for: give a number from 1 to {log_probs.shape[1]}")
    best = expected.top(1)[:, 0, 0]
    ranks: Integers | None
    if prompt.candidates:
        words, word_log_probs, ranks, excluded = _candidates(encoder, prompt, chosen, form)
    else:
        entries = expected.top(top)[-1, 0]
        words, excluded = tuple(spell_pieces(encoder, entries.tolist())), ()
        word_log_probs = log_probs[:, entries]
        ranks = np.stack([1 + (log_probs > column[:, None]).sum(1) for column in word_log_probs.T], axis=1)
    return ClozeReading(
        text=prompt.written(encoder.mask_token),
        model=encoder.name,
        layers=chosen,
        form=form,
        words=words,
        log_probs=word_log_probs,
        ranks=ranks,
        first=tuple(spell_pieces(encoder, best.tolist())),
        first_log_probs=log_probs[np.arange(len(chosen)), best],
        excluded=excluded,
    )


def _candidates(
    encoder: Encoder, prompt: Prompt, layers: Sequence[int], form: AnswerForm
) -> tuple[tuple[str, ...], Floats, Integers | None, tuple[Excluded, ...]]:
    """The candidates that can be scored, ``[layer, word]`` log-probabilities and ranks, and those without a score."""
    words = tuple(dict.fromkeys(word.strip() if isinstance(word, str) else word for word in prompt.candidates))
    scores = ask(encoder, [Prompt(prompt.text, words)], layers=layers, form=form, ranks=form == "one_piece")
    unscored = {excluded.candidate for excluded in scores.excluded}
    kept = [number for number, word in enumerate(words) if word not in unscored]
    if not kept:
        reasons = "; ".join(f"{quoted(excluded.candidate)} {excluded.reason}" for excluded in scores.excluded)
        raise ClozeError(f"no candidate is left: {reasons}")
    scored = [words[number] for number in kept]
    spelled = (word if isinstance(word, str) else spell_pieces(encoder, [word])[0] for word in scored)
    ranks = None if scores.ranks is None else scores.ranks_of(0)[:, kept]
    return tuple(spelled), scores.of(0)[:, kept], ranks, scores.excluded
