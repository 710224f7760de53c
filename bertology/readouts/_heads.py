"""The model's own heads as readouts: nothing is fitted, but how texts are put to them can be chosen."""

from __future__ import annotations

from dataclasses import dataclass

from bertology.cloze import AnswerForm
from bertology.readouts._base import Settings


@dataclass(frozen=True)
class MaskedLmReadout(Settings):
    """The masked-LM head, through which every layer is read (the logit lens)."""

    form: AnswerForm | None = None
    """How words of several pieces and sentences are scored; ``one_piece`` for words and ``original`` for sentences when
    left out. See :data:`bertology.cloze.AnswerForm`."""
    vocabulary: str | None = None
    """A file of words, one a line, among which answers have their places, such as those that several models share
    (Petroni et al. 2019, section 4.1.2); the model's own vocabulary when left out."""

    @property
    def name(self) -> str:
        """Registered name, with its version."""
        return "masked_lm.v1"


@dataclass(frozen=True)
class NextSentenceReadout(Settings):
    """The head that says whether one sentence follows another, given every layer's first piece."""

    @property
    def name(self) -> str:
        """Registered name, with its version."""
        return "next_sentence.v1"
