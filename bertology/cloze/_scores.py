"""What comes out: scores of candidates by prompt, and of sentences by piece, for every layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertology.cloze._answers import AnswerForm, Excluded
from bertology.cloze._prompts import Prompt

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClozeScores:
    """What a masked language model says of prompts and their candidates, by layer."""

    prompts: tuple[Prompt, ...]
    layers: tuple[int, ...]
    form: AnswerForm
    """How candidates are scored: part of what a score means."""
    normalized: bool
    """Whether values are natural logarithms of probabilities; logits if not, which compare only within a prompt."""
    candidate_starts: Integers
    """``[prompt + 1]`` where each prompt's candidates begin in ``values``, and their end."""
    values: Floats
    """``[layer, candidate]`` those of all prompts one after the other; NaN where one is excluded."""
    ranks: Integers | None
    """``[layer, candidate]`` place of a candidate at its mask, 1 for the first: one more than the entries above it;
    0 where it is excluded. None unless asked for."""
    mask_starts: Integers
    """``[prompt + 1]`` where each prompt's masks begin in the arrays below, and their end."""
    top_ids: Integers
    """``[layer, mask, k]`` vocabulary numbers, the best first; −1 where the prompt is excluded."""
    top_values: Floats
    """``[layer, mask, k]``"""
    excluded: tuple[Excluded, ...]
    """Candidates and prompts without a score; values are NaN there, never left out."""
    n_inputs: int
    """How many different inputs the model read."""

    def of(self, prompt: int) -> Floats:
        """``[layer, candidate]`` the values of one prompt's candidates, in its order."""
        return self.values[:, self.candidate_starts[prompt] : self.candidate_starts[prompt + 1]]

    def ranks_of(self, prompt: int) -> Integers:
        """``[layer, candidate]`` the ranks of one prompt's candidates.

        Raises:
            ValueError: no ranks were asked for.
        """
        if self.ranks is None:
            raise ValueError("no ranks here: ask for them with ranks=True")
        return self.ranks[:, self.candidate_starts[prompt] : self.candidate_starts[prompt + 1]]

    def top_of(self, prompt: int) -> tuple[Integers, Floats]:
        """``[layer, mask, k]`` vocabulary numbers and values of the best at one prompt's masks."""
        masks = slice(int(self.mask_starts[prompt]), int(self.mask_starts[prompt + 1]))
        return self.top_ids[:, masks], self.top_values[:, masks]


@dataclass(frozen=True, eq=False)
class SentenceScores:
    """Pseudo-log-likelihoods of sentences, by layer."""

    layers: tuple[int, ...]
    form: AnswerForm
    """``original`` or ``within_word_l2r``: part of what a score means."""
    piece_starts: Integers
    """``[sentence + 1]`` where each sentence's pieces begin, and their end; an excluded one has none."""
    piece_ids: Integers
    """``[piece]`` vocabulary numbers, special tokens left out."""
    piece_log_probs: Floats
    """``[layer, piece]`` natural logarithms."""
    n_unknown: Integers
    """``[sentence]`` how many pieces are the unknown one, scored like any other."""
    excluded: tuple[Excluded, ...]
    n_inputs: int
    """How many different inputs the model read."""

    @property
    def n_pieces(self) -> Integers:
        """``[sentence]`` pieces, special tokens left out."""
        return np.diff(self.piece_starts)

    @property
    def totals(self) -> Floats:
        """``[layer, sentence]`` the pseudo-log-likelihood: the sum over pieces; NaN where a sentence is excluded."""
        sums = np.concatenate([np.zeros((len(self.layers), 1)), np.cumsum(self.piece_log_probs, axis=1)], axis=1)
        totals: Floats = sums[:, self.piece_starts[1:]] - sums[:, self.piece_starts[:-1]]
        totals[:, self.n_pieces == 0] = np.nan
        return totals
