"""Prompts, forms in which candidates are scored, and the scores of prompts. Needs no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertology._names import name_not_found

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MASK = "{mask}"
"""Stands in a prompt for whatever the model's own mask is."""
_SPELLINGS = re.compile(r"\{mask\}|\[MASK\]|<mask>")

AnswerForm = Literal["one_piece", "original", "within_word_l2r"]
"""How candidates are scored.

``one_piece``: by the distribution at the mask; a candidate of several pieces is excluded. ``original``: by the sum
over its pieces of the log-probability of each with all others in sight (the pseudo-log-likelihood of Salazar et al.
2020, section 2). ``within_word_l2r``: the same with the later pieces of the same word masked too, so that a word does
not give itself away (Kauf & Ivanova 2023, section 2). A candidate of one piece scores the same in all three.
"""


def check_form(form: str) -> None:
    """Raise :class:`NameNotFoundError` for a name that is no :data:`AnswerForm`."""
    if form not in get_args(AnswerForm):
        raise name_not_found("form of answers", form, get_args(AnswerForm))


@dataclass(frozen=True)
class Prompt:
    """A text with masks, and candidates for one of them; independent of any model."""

    text: str
    """Each mask written ``{mask}``, ``[MASK]`` or ``<mask>``, which mean the same to every model."""
    candidates: tuple[str | int, ...] = ()
    """Words to be scored at the mask, or at one of several; or the model's own numbers of vocabulary entries."""
    at: int | None = None
    """Which of several masks the candidates are for, −1 for the last; the others stay masked."""

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The text around the masks, one more than there are masks."""
        return tuple(_SPELLINGS.split(self.text))

    @property
    def n_masks(self) -> int:
        """Number of masks."""
        return len(self.segments) - 1

    @property
    def asked(self) -> int | None:
        """The mask that candidates are for, counted from 0; None where several are possible, or there is none."""
        at = 0 if self.at is None and self.n_masks == 1 else self.at
        if at is None or not -self.n_masks <= at < self.n_masks:
            return None
        return at % self.n_masks

    def written(self, mask: str) -> str:
        """The text with every mask spelled as given, such as an encoder's ``mask_token``."""
        return mask.join(self.segments)


@dataclass(frozen=True)
class Excluded:
    """A prompt, candidate or sentence that has no score, and why."""

    item: int
    """Number of the prompt or sentence, in the order given."""
    candidate: str | int | None
    """The candidate; ``None`` where the whole prompt or sentence is excluded."""
    reason: str


@dataclass(frozen=True, eq=False)
class ClozeScores:
    """Scores of the candidates of prompts, and the best entries at their masks, by layer."""

    prompts: tuple[Prompt, ...]
    layers: tuple[int, ...]
    form: AnswerForm
    """How candidates are scored: part of what a score means."""
    normalized: bool
    """Whether values are natural logarithms of probabilities; logits if not, which compare only within a prompt."""
    candidate_starts: Integers
    """``[prompt + 1]`` where each prompt's candidates begin in ``values``, and their end."""
    values: Floats
    """``[layer, candidate]`` of all prompts one after the other; NaN where one is excluded."""
    ranks: Integers | None
    """``[layer, candidate]`` rank of a candidate at its mask, 1 for the first: one more than the number of entries
    above it; 0 where it is excluded. None unless ranks were requested."""
    mask_starts: Integers
    """``[prompt + 1]`` where each prompt's masks begin in the arrays below, and their end."""
    top_ids: Integers
    """``[layer, mask, k]`` vocabulary numbers, the best first; −1 where the prompt is excluded."""
    top_values: Floats
    """``[layer, mask, k]``"""
    excluded: tuple[Excluded, ...]
    """Candidates and prompts without a score, whose values are NaN."""
    n_inputs: int
    """Number of different inputs that the model read."""

    def of(self, prompt: int) -> Floats:
        """``[layer, candidate]`` the values of one prompt's candidates, in its order."""
        return self.values[:, self.candidate_starts[prompt] : self.candidate_starts[prompt + 1]]

    def ranks_of(self, prompt: int) -> Integers:
        """``[layer, candidate]`` the ranks of one prompt's candidates.

        Raises:
            ValueError: no ranks were requested.
        """
        if self.ranks is None:
            raise ValueError("no ranks here: ask for them with ranks=True")
        return self.ranks[:, self.candidate_starts[prompt] : self.candidate_starts[prompt + 1]]

    def top_of(self, prompt: int) -> tuple[Integers, Floats]:
        """``[layer, mask, k]`` vocabulary numbers and values of the best at one prompt's masks."""
        masks = slice(int(self.mask_starts[prompt]), int(self.mask_starts[prompt + 1]))
        return self.top_ids[:, masks], self.top_values[:, masks]
