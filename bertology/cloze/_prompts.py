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
    candidates: tuple[str, ...] = ()
    """Words to be scored at the mask, of which there is one then."""

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The text around the masks, one more than they are."""
        return tuple(_SPELLINGS.split(self.text))

    @property
    def n_masks(self) -> int:
        """How many masks there are."""
        return len(self.segments) - 1

    def written(self, mask: str) -> str:
        """The text with every mask spelled as given, such as an encoder's ``mask_token``."""
        return mask.join(self.segments)
