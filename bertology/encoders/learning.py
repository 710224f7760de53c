"""How a tokenizer learns its pieces from a text, step by step, by the trainers of the library ``tokenizers``."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from bertology.errors import ModelError

Kind = Literal["bpe", "wordpiece", "unigram"]
_LARGEST = 1 << 15
_UNKNOWN = "[UNK]"


class LearntStep(NamedTuple):
    """A vocabulary on the way, and how it cuts the text."""

    size: int
    """Number of its pieces, the one for unknown characters left out."""
    learnt: tuple[str, ...]
    """Pieces that the smaller vocabulary before it lacks."""
    lost: tuple[str, ...]
    """Pieces of that one which it lacks, as Unigram estimates every vocabulary anew."""
    pieces: tuple[str, ...]
    """The text, cut by it."""


def learn_pieces(texts: Sequence[str], kind: Kind, *, size: int | None = None, most: int = 20) -> list[LearntStep]:
    """Train a tokenizer on texts with larger and larger vocabularies, and cut the first of the texts by each.

    ``bpe`` merges the most frequent pair of neighbouring pieces (Gage 1994; Sennrich et al. 2016), and ``wordpiece``
    does so with a mark for what continues a word, in the library that is used, whatever the original scored pairs by;
    both end where no pair occurs twice. ``unigram`` keeps the pieces without which the text would be least probable
    (Kudo 2018). Words are parted at spaces and punctuation. Of pairs that are equally frequent the library chooses one.

    Args:
        texts: what is learnt from.
        kind: the method.
        size: pieces of the largest vocabulary; all that can be learnt, up to 32,768, when left out.
        most: steps; of more only some are made, evenly spread by the logarithm of the size.

    Raises:
        ModelError: the texts have no character, or ``size`` is smaller than the number of characters.
    """
    if not "".join(texts).strip():
        raise ModelError("nothing to learn from: the text is empty")
    least = len(_pieces(_trained(texts, "bpe" if kind == "unigram" else kind, 1)))
    if size is not None and size < least:
        raise ModelError(f"size {size}: the characters of the text alone are {least} pieces")
    whole = _pieces(_trained(texts, kind, size or _LARGEST))
    largest = len(whole)
    sizes: Any = range(least, largest + 1)
    if len(sizes) > most:
        sizes = np.unique(np.geomspace(least, largest, most).round().astype(int)).tolist()
    steps, before = list[LearntStep](), frozenset[str]()
    for one in sizes:
        # Trained anew, WordPiece may choose another of several pairs that are equally frequent.
        tokenizer = _cut_by(whole[:one]) if kind == "wordpiece" else _trained(texts, kind, one)
        pieces = _pieces(tokenizer)
        if not before or before != frozenset(pieces):
            learnt, lost = [piece for piece in pieces if piece not in before], sorted(before.difference(pieces))
            steps.append(LearntStep(len(pieces), tuple(learnt), tuple(lost), tuple(tokenizer.encode(texts[0]).tokens)))
            before = frozenset(pieces)
    return steps


def _cut_by(pieces: Sequence[str]) -> Any:
    """WordPiece with these pieces."""
    from tokenizers import models

    vocabulary = {piece: number for number, piece in enumerate((_UNKNOWN, *pieces))}
    return _tokenizer(models.WordPiece(vocabulary, unk_token=_UNKNOWN))


def _tokenizer(model: Any) -> Any:
    """A tokenizer that parts words at spaces and punctuation, then cuts them by a model."""
    from tokenizers import Tokenizer, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def _trained(texts: Sequence[str], kind: Kind, size: int) -> Any:
    """A tokenizer with at most so many pieces, or as many as there are characters."""
    from tokenizers import models, trainers

    quiet: dict[str, Any] = {"show_progress": False, "special_tokens": [_UNKNOWN]}
    model: Any
    trainer: Any
    if kind == "bpe":
        model, trainer = models.BPE(), trainers.BpeTrainer(vocab_size=size + 1, min_frequency=2, **quiet)
    elif kind == "wordpiece":
        model = models.WordPiece(unk_token=_UNKNOWN)
        trainer = trainers.WordPieceTrainer(vocab_size=size + 1, min_frequency=2, **quiet)
    else:
        model, trainer = models.Unigram(), trainers.UnigramTrainer(vocab_size=size + 1, unk_token=_UNKNOWN, **quiet)
    tokenizer = _tokenizer(model)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _pieces(tokenizer: Any) -> list[str]:
    """The pieces of a vocabulary in the order of their numbers."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return sorted(vocabulary.keys() - {_UNKNOWN}, key=vocabulary.__getitem__)
