"""One prompt read layer by layer: how candidates, or what the model ends up with, come up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.cloze._answers import AnswerForm, Excluded
from bertology.cloze._ask import ask
from bertology.cloze._distribution import Distribution, distribution
from bertology.cloze._encode import spell_pieces
from bertology.cloze._prompts import Prompt
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder


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
    log_probs: NDArray[np.float64]
    """``[layer, word]`` natural logarithms, over the whole vocabulary."""
    ranks: NDArray[np.int64] | None
    """``[layer, word]`` 1 for the most probable entry; None where candidates may have several pieces."""
    first: tuple[str, ...]
    """``[layer]`` what each layer puts first, of the whole vocabulary."""
    first_log_probs: NDArray[np.float64]
    """``[layer]``"""
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
        top: how many are followed where there are no candidates.
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
    found = distribution(encoder, prompt, layers=chosen)
    log_probs = found.log_probs[:, 0].astype(np.float64)
    if not 1 <= top <= log_probs.shape[1]:
        raise ClozeError(f"the best {top} are asked for: give a number from 1 to {log_probs.shape[1]}")
    best = found.top(1)[:, 0, 0]
    followed = _candidates(encoder, prompt, chosen, form) if prompt.candidates else _best(encoder, found, top)
    return ClozeReading(
        text=prompt.written(encoder.mask_token),
        model=encoder.name,
        layers=chosen,
        form=form,
        words=followed.words,
        log_probs=followed.log_probs,
        ranks=followed.ranks,
        first=tuple(spell_pieces(encoder, best.tolist())),
        first_log_probs=log_probs[np.arange(len(chosen)), best],
        excluded=followed.excluded,
    )


@dataclass(frozen=True, eq=False)
class _Followed:
    words: tuple[str, ...]
    log_probs: NDArray[np.float64]
    ranks: NDArray[np.int64] | None
    excluded: tuple[Excluded, ...] = ()


def _best(encoder: Encoder, found: Distribution, top: int) -> _Followed:
    """The best of the deepest layer."""
    entries = found.top(top)[-1, 0]
    log_probs = found.log_probs[:, 0]
    own = log_probs[:, entries]
    ranks = np.stack([1 + (log_probs > column[:, None]).sum(1) for column in own.T], axis=1)
    return _Followed(tuple(spell_pieces(encoder, entries.tolist())), own.astype(np.float64), ranks)


def _candidates(encoder: Encoder, prompt: Prompt, layers: Sequence[int], form: AnswerForm) -> _Followed:
    """The candidates that can be scored."""
    words = tuple(dict.fromkeys(word.strip() if isinstance(word, str) else word for word in prompt.candidates))
    once = Prompt(prompt.text, words)
    scores = ask(encoder, [once], layers=layers, form=form, ranks=form == "one_piece")
    unscored = {excluded.candidate for excluded in scores.excluded}
    kept = [number for number, word in enumerate(words) if word not in unscored]
    if not kept:
        reasons = "; ".join(f"{quoted(excluded.candidate)} {excluded.reason}" for excluded in scores.excluded)
        raise ClozeError(f"no candidate is left: {reasons}")
    return _Followed(
        tuple(_spelled(encoder, words[number]) for number in kept),
        scores.of(0)[:, kept],
        None if scores.ranks is None else scores.ranks_of(0)[:, kept],
        scores.excluded,
    )


def _spelled(encoder: Encoder, word: str | int) -> str:
    return word if isinstance(word, str) else spell_pieces(encoder, [word])[0]
