"""How a tokenizer arrives at the pieces of a text, step by step: WordPiece, BPE and Unigram."""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bertology.errors import ModelError, quoted

_UNKNOWN_PENALTY = 10.0
"""By how much the logarithm of an unknown character's probability is below that of the least probable piece: the
constant of SentencePiece."""


@dataclass(frozen=True)
class TokenStep:
    """One step: the pieces after it, and what was done."""

    pieces: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class WordTrace:
    """A stretch of text that the tokenizer cuts by itself, mostly a word, and how it cuts it."""

    text: str
    """As normalised and marked: ``▁unhappy``, ``Ġunhappy``."""
    span: tuple[int, int]
    """Where it stands in the normalised text, characters from 0, the end exclusive."""
    steps: tuple[TokenStep, ...]

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces in the end."""
        return self.steps[-1].pieces


@dataclass(frozen=True)
class TokenTrace:
    """The pieces of a text and how they were arrived at."""

    text: str
    kind: str
    """``WordPiece``, ``BPE`` or ``Unigram``."""
    words: tuple[WordTrace, ...]

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces of the text, without special tokens."""
        return tuple(itertools.chain.from_iterable(word.pieces for word in self.words))


def trace_tokens(tokenizer: Any, text: str, *, n_best: int = 3) -> TokenTrace:
    """How a tokenizer cuts a text.

    WordPiece takes the longest piece of its vocabulary that the rest of a word begins with, again and again; if none
    fits, the whole word is unknown (Devlin et al. 2019). BPE begins with characters or bytes and merges the pair that
    was merged first in training (Sennrich et al. 2016). Unigram takes the most probable of all ways to cut (Kudo 2018).

    Args:
        tokenizer: of transformers, with a fast implementation, or a ``tokenizers.Tokenizer``.
        text: what to cut; special tokens inside it are cut like any text.
        n_best: ways to cut that are shown of Unigram, the best first.

    Raises:
        ModelError: the tokenizer has no fast implementation, or is of another kind.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        raise ModelError(f"{type(tokenizer).__name__} has no fast implementation, whose rules could be followed")
    model = json.loads(backend.to_str())["model"]
    tracers: dict[str, Callable[[Mapping[str, Any]], Callable[[str], Iterator[TokenStep]]]] = {
        "WordPiece": _WordPiece,
        "BPE": _Bpe,
        "Unigram": lambda of: _Unigram(of, n_best),
    }
    if model["type"] not in tracers:
        raise ModelError(f"a tokenizer of kind {model['type']} cannot be followed: {', '.join(tracers)} can")
    trace = tracers[model["type"]](model)
    normalised = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
    cut = backend.pre_tokenizer
    parts = [(normalised, (0, len(normalised)))] if cut is None else cut.pre_tokenize_str(normalised)
    words = (WordTrace(part, span, tuple(trace(part))) for part, span in parts if part)
    return TokenTrace(text, model["type"], tuple(words))


class _WordPiece:
    def __init__(self, model: Mapping[str, Any]) -> None:
        self._vocabulary = model["vocab"].keys()
        self._prefix, self._unknown = model["continuing_subword_prefix"], model["unk_token"]
        self._most = model["max_input_chars_per_word"]

    def __call__(self, word: str) -> Iterator[TokenStep]:
        yield TokenStep((word,), "the word")
        if len(word) > self._most:
            yield TokenStep((self._unknown,), f"longer than {self._most} characters: unknown")
            return
        found: list[str] = []
        start = 0
        while start < len(word):
            candidates = ((end, self._marked(word[start:end], start)) for end in range(len(word), start, -1))
            taken = next(((end, piece) for end, piece in candidates if piece in self._vocabulary), None)
            if taken is None:
                rest = self._marked(word[start:], start)
                yield TokenStep((self._unknown,), f"no piece begins {quoted(rest)}: the whole word is unknown")
                return
            start, piece = taken
            found.append(piece)
            left = [self._marked(word[start:], start)] if start < len(word) else []
            yield TokenStep((*found, *left), f"{piece} is the longest piece that the rest begins with")

    def _marked(self, part: str, start: int) -> str:
        return self._prefix + part if start else part


class _Bpe:
    def __init__(self, model: Mapping[str, Any]) -> None:
        self._model, self._vocabulary = model, model["vocab"].keys()
        pairs = (tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"])
        self._rank = {pair: rank for rank, pair in enumerate(pairs, 1)}

    def __call__(self, word: str) -> Iterator[TokenStep]:
        prefix, suffix = self._model.get("continuing_subword_prefix") or "", self._model.get("end_of_word_suffix") or ""
        if self._model.get("ignore_merges") and word in self._vocabulary:
            yield TokenStep((word,), "the word is in the vocabulary")
            return
        letters = [letter if place == 0 else prefix + letter for place, letter in enumerate(word)]
        letters[-1] += suffix
        pieces = list(itertools.chain.from_iterable(map(self._known, letters)))
        yield TokenStep(tuple(pieces), "characters" if len("".join(pieces)) == len(word) else "characters and bytes")
        while pairs := [
            (self._rank[p], place) for place, p in enumerate(itertools.pairwise(pieces)) if p in self._rank
        ]:
            rank, place = min(pairs)
            left, right = pieces[place : place + 2]
            pieces[place : place + 2] = [left + right.removeprefix(prefix)]
            yield TokenStep(tuple(pieces), f"{left} + {right}: merge {rank:,} of {len(self._rank):,}")

    def _known(self, letter: str) -> list[str]:
        """A character as the vocabulary has it: itself, its bytes, or the unknown piece."""
        if letter in self._vocabulary:
            return [letter]
        as_bytes = [f"<0x{byte:02X}>" for byte in letter.encode()]
        if self._model.get("byte_fallback") and all(piece in self._vocabulary for piece in as_bytes):
            return as_bytes
        return [self._model["unk_token"]] if self._model.get("unk_token") else []


class _Unigram:
    def __init__(self, model: Mapping[str, Any], n_best: int) -> None:
        self._scores = dict(model["vocab"])
        self._longest = max(map(len, self._scores))
        self._unknown = model["vocab"][model["unk_id"]][0] if model.get("unk_id") is not None else None
        self._byte_fallback, self._n_best = bool(model.get("byte_fallback")), n_best

    @cached_property
    def _unknown_score(self) -> float:
        return float(min(self._scores.values())) - _UNKNOWN_PENALTY

    def __call__(self, word: str) -> Iterator[TokenStep]:
        best = self._ways(word)
        for number, (score, pieces) in reversed(list(enumerate(best, 1))):
            margin = "" if number == 1 else f", {best[0][0] - score:.2f} below the best"
            what = "the most probable way to cut" if number == 1 else f"number {number}"
            yield TokenStep(self._shown(pieces), f"{what}: log probability {score:.2f}{margin}")

    def _ways(self, word: str) -> list[tuple[float, tuple[str, ...]]]:
        """The most probable ways to cut a word, best first."""
        ways: list[list[tuple[float, tuple[str, ...]]]] = [[(0.0, ())]]
        for end in range(1, len(word) + 1):
            found = []
            for start in range(max(0, end - self._longest), end):
                piece = word[start:end]
                if piece in self._scores and piece != self._unknown:
                    score = self._scores[piece]
                elif end - start == 1:
                    score = self._unknown_score
                else:
                    continue
                found += [(before + score, (*pieces, piece)) for before, pieces in ways[start]]
            ways.append(heapq.nlargest(self._n_best, found, key=lambda way: way[0]))
        return ways[-1]

    def _shown(self, pieces: tuple[str, ...]) -> tuple[str, ...]:
        """With unknown characters as the tokenizer gives them: as bytes, or a run of them as one piece."""
        shown: list[str] = []
        for known, run in itertools.groupby(pieces, key=self._scores.__contains__):
            if known:
                shown += run
                continue
            text = "".join(run)
            as_bytes = [f"<0x{byte:02X}>" for byte in text.encode()]
            if self._byte_fallback and all(piece in self._scores for piece in as_bytes):
                shown += as_bytes
            else:
                shown.append(text)
        return tuple(shown)
