"""Pairs of texts that differ in a few words, and where their words are among the pieces of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertology.cloze import Prompt
from bertology.corpora import Sentence, Sentences, as_sentences
from bertology.errors import ClozeError, quoted

if TYPE_CHECKING:
    from bertology.encoders import Encoder, Pieces

SPECIAL = "special"
"""The place of special tokens, all together."""


@dataclass(frozen=True)
class PatchPair:
    """Two texts with one mask each, and one or two words for it.

    The texts have the same number of words, such as *The keys to the cabinet [MASK]* and *The key to the cabinet
    [MASK]*; the score at the mask is the logit of the first word minus that of the second, or the log-probability of
    the first where there is no second.
    """

    text: str
    """The mask is written ``{mask}``, ``[MASK]`` or ``<mask>``."""
    other: str
    """The text that differs."""
    good: str
    """The word that ``text`` calls for."""
    bad: str = ""
    """The word that ``other`` calls for; all pairs that are patched together have one, or none has."""
    cluster: str = ""
    """Pairs of one cluster are resampled together; each pair by itself where it is left out."""
    places: tuple[str, ...] = ()
    """``[word]`` names of words in tables, such as ``subject``; words of one name are patched together. When left
    out: ``changed`` where the texts differ, ``mask``, ``other word``."""
    values: tuple[str, str] = ("", "")
    """Values of ``text`` and ``other`` that decide the prediction, such as ``singular`` and ``plural``."""
    language: str | None = None
    """Language of both texts, by whose rules words are found (:func:`bertology.corpora.sentence_of_text`)."""
    split_at_spaces: bool = False
    """Whether words are separated by white space alone."""

    def sentences(self, mask: str = "[MASK]") -> list[Sentence]:
        """Both texts with their words."""
        texts = [Prompt(text).written(mask) for text in (self.text, self.other)]
        return list(as_sentences(texts, language=self.language, split_at_spaces=self.split_at_spaces))


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """A pair in the pieces of a model."""

    ids: tuple[NDArray[np.int64], NDArray[np.int64]]
    """``[piece]`` of the text and of the other text, special tokens included; equally many."""
    mask: int  # the piece that is masked, in both
    candidates: tuple[int, ...]  # vocabulary numbers of the one or two words
    places: dict[str, NDArray[np.int64]]  # pieces of each place by name; the special tokens come last


def align_pairs(encoder: Encoder, pairs: Sequence[PatchPair], *, by_word: bool) -> list[AlignedPair | str]:
    """Align pairs with the pieces of a model, or give the reason why one cannot be patched.

    With ``by_word`` each word is a place of its own, named by its number and form.
    """
    texts = Sentences(text for pair in pairs for text in pair.sentences(encoder.mask_token))
    pieces = encoder.tokenize(texts)
    return [_aligned(encoder, pair, texts, pieces, 2 * number, by_word) for number, pair in enumerate(pairs)]


def _aligned(
    encoder: Encoder, pair: PatchPair, texts: Sentences, pieces: Pieces, number: int, by_word: bool
) -> AlignedPair | str:
    words = [tuple(texts[side].words) for side in (number, number + 1)]
    starts = texts.starts[number : number + 2].tolist()
    for text in (pair.text, pair.other):
        if (n_masks := Prompt(text).n_masks) != 1:
            return f"{quoted(text)} has {n_masks} masks: write {encoder.mask_token} once, where a word is left out"
    n_words = len(words[0])
    if len(words[1]) != n_words:
        return f"the texts have {n_words} and {len(words[1])} words: give two of the same number"
    of_text = [slice(start, start + n_words) for start in starts]
    windows = [np.unique(pieces.word_window[chosen]) for chosen in of_text]
    if any(len(window) != 1 or window[0] < 0 for window in windows):
        return "a text is longer than the model takes, or a word has no piece"
    ids = [pieces.window(int(window[0])).astype(np.int64) for window in windows]
    spans = [np.stack([pieces.word_first[chosen], pieces.word_last[chosen]]) for chosen in of_text]
    if differ := np.flatnonzero((spans[0] != spans[1]).any(axis=0)).tolist():
        place = differ[0]
        counts = [int(np.diff(span[:, place])[0]) for span in spans]
        forms = " and ".join(quoted(of_side[place]) for of_side in words)
        return (
            f"{forms} have {counts[0]} and {counts[1]} pieces: states are exchanged piece by piece, so "
            "give words of as many"
        )
    masked = [np.flatnonzero(one == encoder.mask_id).tolist() for one in ids]
    if masked[0] != masked[1] or len(masked[0]) != 1:
        return "the mask stands in different places of the two texts"
    candidates = []
    for word in (pair.good, pair.bad) if pair.bad else (pair.good,):
        piece = _piece_of(encoder, word)
        if piece is None:
            return f"{quoted(word)} is no single piece of the model's vocabulary: give a word that is"
        candidates.append(piece)
    if by_word or pair.places:
        names = word_names(words) if by_word else pair.places
    else:
        is_mask = (spans[0][0] <= masked[0][0]) & (masked[0][0] < spans[0][1])
        named = zip(is_mask.tolist(), *words, strict=True)
        names = tuple("mask" if masks else "changed" if a != b else "other word" for masks, a, b in named)
    if len(names) != n_words:
        return f"{len(names)} places are named for {n_words} words: name one for each word"
    places: dict[str, list[int]] = {}
    for name, first, last in zip(names, *spans[0].tolist(), strict=True):
        places.setdefault(name, []).extend(range(first, last))
    of_words = {piece for some in places.values() for piece in some}
    places[SPECIAL] = [piece for piece in range(len(ids[0])) if piece not in of_words]
    as_arrays = {name: np.array(some, dtype=np.int64) for name, some in places.items() if some}
    return AlignedPair((ids[0], ids[1]), int(masked[0][0]), tuple(candidates), as_arrays)


def word_names(words: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """``[word]`` its number and form, or both forms where the two texts differ."""
    forms = zip(*words, strict=True)
    return tuple(f"{n} {a}" if a == b else f"{n} {a}/{b}" for n, (a, b) in enumerate(forms, 1))


def _piece_of(encoder: Encoder, word: str) -> int | None:
    """The vocabulary number of a word that follows a space; None of a word of several pieces."""
    backend = encoder.tokenizer
    before = backend("a", add_special_tokens=False)["input_ids"]
    both = backend(f"a {word}", add_special_tokens=False)["input_ids"]
    rest = both[len(before) :] if both[: len(before)] == before else []
    return int(rest[0]) if len(rest) == 1 and rest[0] != backend.unk_token_id else None


def check_choices(pairs: Sequence[PatchPair]) -> None:
    """Check that each pair has two words to choose between; a :class:`ClozeError` names one that has not."""
    for pair in pairs:
        if not pair.bad:
            raise ClozeError(f"{quoted(pair.text)}: a choice is between two words, and the pair has one: give it bad")


def refused(pair: PatchPair, reason: str) -> ClozeError:
    """The error for a pair that was given by itself."""
    return ClozeError(f"{quoted(pair.text)} with {quoted(pair.other)}: {reason}")
