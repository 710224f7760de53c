"""Prompts: how masks are written."""

from __future__ import annotations

import pytest

from bertology.cloze import Prompt


@pytest.mark.parametrize("mask", ["{mask}", "[MASK]", "<mask>"])
def test_every_spelling_is_the_models_own_mask(mask: str) -> None:
    prompt = Prompt(f"Paris is the {mask} of {{mask}}.")
    assert prompt.segments == ("Paris is the ", " of ", ".")
    assert prompt.n_masks == 2
    assert prompt.written("<m>") == "Paris is the <m> of <m>."


def test_braces_and_brackets_of_other_kinds_are_text() -> None:
    prompt = Prompt("{Mask} [mask] {} % {0}")
    assert prompt.n_masks == 0
    assert prompt.written("<m>") == prompt.text
