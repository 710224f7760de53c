"""Texts with masks, as a person writes them and as a model reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

MASK = "{mask}"
"""Stands in a prompt for whatever the model's own mask is."""
_SPELLINGS = re.compile(r"\{mask\}|\[MASK\]|<mask>")


@dataclass(frozen=True)
class Prompt:
    """A text with something left out, and what might stand there. Knows no model."""

    text: str
    """Each mask written ``{mask}``, ``[MASK]`` or ``<mask>``, which mean the same to every model."""
    candidates: tuple[str | int, ...] = ()
    """Words to be scored at the mask, or at one of several; or the model's own numbers of vocabulary entries."""
    at: int | None = None
    """Which of several masks the candidates are for, −1 for the last; the others stay masked beside it."""

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The text around the masks, one more than they are."""
        return tuple(_SPELLINGS.split(self.text))

    @property
    def n_masks(self) -> int:
        """How many masks there are."""
        return len(self.segments) - 1

    @property
    def asked(self) -> int | None:
        """The mask that candidates are for, counted from 0; None where it is not said, or not there."""
        at = 0 if self.at is None and self.n_masks == 1 else self.at
        if at is None or not -self.n_masks <= at < self.n_masks:
            return None
        return at % self.n_masks

    def written(self, mask: str) -> str:
        """The text with every mask spelled as given, such as an encoder's ``mask_token``."""
        return mask.join(self.segments)
