"""A text once for each piece that is asked for, that piece masked: what pseudo-log-likelihoods are summed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bertology.cloze._answers import Answer, AnswerForm

Copy = tuple[list[int], int, int]
"""Vocabulary numbers of an input, the piece that is asked for, and the entry that belongs there."""


def masked_copies(ids: Sequence[int], mask: int, answer: Answer, mask_id: int, form: AnswerForm) -> Iterator[Copy]:
    """An answer put where a mask is: an input for each of its pieces.

    Args:
        ids: ``[piece]`` of the prompt, special tokens included.
        mask: the piece that is the mask.
        answer: what to put there.
        mask_id: the mask's vocabulary number.
        form: what else is masked; of an answer of one piece, nothing is.
    """
    whole = [*ids[:mask], *answer.pieces, *ids[mask + 1 :]]
    yield from piece_copies(whole, range(mask, mask + len(answer.pieces)), answer.words, mask_id, form)


def piece_copies(
    ids: Sequence[int], pieces: range, words: Sequence[int | None], mask_id: int, form: AnswerForm
) -> Iterator[Copy]:
    """An input for each of some pieces in a row.

    Args:
        ids: ``[piece]`` special tokens included.
        pieces: which of them are asked for.
        words: of each piece asked for, the number of its word.
        mask_id: the mask's vocabulary number.
        form: ``within_word_l2r`` masks the later pieces of the same word too.
    """
    for place, piece in enumerate(pieces):
        copy = list(ids)
        copy[piece] = mask_id
        if form == "within_word_l2r":
            for later in range(place + 1, len(pieces)):
                if words[later] != words[place]:
                    break
                copy[pieces[later]] = mask_id
        yield copy, piece, ids[piece]
