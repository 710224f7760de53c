"""The words of a text that is searched: their forms, tags and senses by number, and where each of them stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertology.activations.layers import Floats32, LayerVectors
from bertology.corpora import Sentence, Sentences
from bertology.measures.sums import Bools

Integers = NDArray[np.int64]
Kind = Literal["word", "tag", "sense"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TAG_LAYERS = ("upos", "xpos")
"""Layers of tags, of which the first that a text has is taken."""
SENSE = "sense"
"""Name of the targets, or of the layer of words, that hold senses."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One word where it stands."""

    split: str
    sentence: str
    """Id of its sentence."""
    text: str
    span: tuple[int, int]
    """Place of the word in the text (code points, end exclusive)."""
    word: str
    tag: str | None
    sense: str | None

    def context(self, width: int) -> tuple[str, str]:
        """The text before and after the word, at most so many characters of each, cut ends marked by ``…``."""
        before, after = self.text[: self.span[0]], self.text[self.span[1] :]
        if len(before) > width:
            before = "…" + before[len(before) - width + 1 :]
        if len(after) > width:
            after = after[: width - 1] + "…"
        return before, after


@dataclass(frozen=True, eq=False)
class Codes:
    """One value or none for each word: ``values[codes[word]]``, −1 for none."""

    codes: NDArray[np.int32]
    values: tuple[str, ...]

    @classmethod
    def joined(cls, parts: Sequence[Codes]) -> Codes:
        """The codes of several texts, one after the other."""
        place = {value: number for number, value in enumerate(dict.fromkeys(v for part in parts for v in part.values))}
        to_joined = [np.array([*(place[value] for value in part.values), -1], dtype=np.int32) for part in parts]
        return cls(np.concatenate([new[part.codes] for new, part in zip(to_joined, parts, strict=True)]), tuple(place))

    def of(self, word: int) -> str | None:
        """The value of a word."""
        code = int(self.codes[word])
        return None if code < 0 else self.values[code]

    def same(self, value: str | None) -> Bools:
        """``[word]`` which words have the value; none has None."""
        code = self.values.index(value) if value in self.values else None
        return np.zeros(len(self.codes), dtype=np.bool_) if code is None else self.codes == code


class SearchedText:
    """The words of some splits, numbered through, with their vectors.

    Args:
        splits: the sentences by the name of their split.
        read: for each split gives the vectors of chosen words, by their numbers ``[word]`` in the split; words that
            have none are left out. Layers are the same in all splits.
        shared: for each split the words that share all their subwords with another word, as both of French *du*. Their
            vectors are those of what is written, not of the words, and they are not searched.
    """

    def __init__(
        self,
        splits: Mapping[str, Sentences],
        read: Mapping[str, Callable[[Integers], LayerVectors]],
        shared: Mapping[str, Collection[int]] = MappingProxyType({}),
    ) -> None:
        self.splits, self._read = MappingProxyType(dict(splits)), dict(read)
        self._names = tuple(splits)
        self._whole, self.n_shared = {}, sum(map(len, shared.values()))
        for name in self._names:
            left_out = np.array(sorted(shared.get(name, ())), dtype=np.int64)
            self._whole[name] = read[name](np.setdiff1d(np.arange(splits[name].n_words), left_out))
        self.starts = np.cumsum([0, *(sentences.n_words for sentences in splits.values())])
        """``[split + 1]`` number of the first word of each split, and the number of words."""

    @property
    def n_words(self) -> int:
        """Number of words, those without a vector included."""
        return int(self.starts[-1])

    @cached_property
    def n_skipped(self) -> int:
        """Number of words without a vector."""
        return self.n_words - self.n_shared - sum(map(len, self._whole.values()))

    @cached_property
    def words(self) -> Integers:
        """Numbers of the words that are searched: those with a vector of their own."""
        parts = [start + self._whole[name].words for name, start in zip(self._names, self.starts, strict=False)]
        return np.concatenate(parts)

    def chunks(self, words: Integers | None = None) -> Iterator[tuple[Integers, Floats32]]:
        """Words with a vector once, in chunks: their numbers ``[m]``, and their vectors ``[layer, m, dim]``.

        Args:
            words: chosen ones, in whose place their places among these are given instead of numbers; else all.
        """
        for part, (name, start) in enumerate(zip(self._names, self.starts, strict=False)):
            if words is None:
                vectors = self._whole[name]
                for items, values in vectors.chunks():
                    yield start + vectors.words[items], values
                continue
            here = np.flatnonzero((words >= start) & (words < self.starts[part + 1]))
            if len(here):
                for items, values in self._read[name](words[here] - start).chunks():
                    yield here[items], values

    @cached_property
    def codes(self) -> Mapping[Kind, Codes]:
        """Word forms in lower case, tags and senses of all words.

        Tags are those of the first of the layers ``upos`` and ``xpos`` that there is; senses those of the targets
        ``sense`` or the layer of that name.
        """
        texts = self.splits.values()
        tags = next((name for name in TAG_LAYERS if any(name in one.layers for one in texts)), "")
        return {
            "word": Codes.joined([_lowered(sentences) for sentences in texts]),
            "tag": Codes.joined([_of_layer(sentences, tags) for sentences in texts]),
            "sense": Codes.joined([_of_senses(sentences) for sentences in texts]),
        }

    def sentence_of(self, words: Integers) -> tuple[Integers, Integers]:
        """``[word]`` the place of the split of each word, and the number of its sentence there."""
        parts = np.searchsorted(self.starts, words, side="right") - 1
        numbers = np.empty(len(words), dtype=np.int64)
        for part, sentences in enumerate(self.splits.values()):
            here = parts == part
            numbers[here] = sentences.sentence_of_word[words[here] - self.starts[part]]
        return parts, numbers

    def occurrence(self, word: int) -> Occurrence:
        """A word where it stands."""
        (part,), (number,) = self.sentence_of(np.array([word]))
        name = self._names[part]
        sentences, place = self.splits[name], int(word - self.starts[part])
        first, last = sentences.char_spans[place].tolist()
        text = sentences.text(int(number))
        return Occurrence(
            name, sentences.id(int(number)), text, (first, last), sentences.word(place),
            self.codes["tag"].of(word), self.codes["sense"].of(word),
        )  # fmt: skip

    def places_of(self, sentence: Sentence, place: int) -> list[int]:
        """Numbers of words that stand where the word at ``place`` of ``sentence`` does, in sentences of that text."""
        found = []
        for sentences, start in zip(self.splits.values(), self.starts.tolist(), strict=False):
            for number in range(len(sentences)):
                if sentences.text(number) == sentence.text:
                    first, last = sentences.starts[number : number + 2].tolist()
                    is_same = (sentences.char_spans[first:last] == sentence.spans[place]).all(axis=1)
                    found += (start + first + np.flatnonzero(is_same)).tolist()
        return found


def tag_of(sentence: Sentence, place: int) -> str | None:
    """The tag of a word of a sentence."""
    return next((sentence.layers[name][place] for name in TAG_LAYERS if name in sentence.layers), None)


def sense_of(sentence: Sentence, place: int) -> str | None:
    """The sense of a word of a sentence."""
    for target in sentence.targets.get(SENSE, ()):
        if target.span1[0] <= place < target.span1[1]:
            return target.labels[0] if target.labels else None
    return sentence.layers[SENSE][place] if SENSE in sentence.layers else None


def _lowered(sentences: Sentences) -> Codes:
    place: dict[str, int] = {}
    codes = [place.setdefault(form.lower(), len(place)) for form in sentences.forms.values]
    return Codes(np.array(codes, dtype=np.int32)[sentences.forms.codes], tuple(place))


def _of_layer(sentences: Sentences, name: str) -> Codes:
    if name not in sentences.layers:
        return Codes(np.full(sentences.n_words, -1, dtype=np.int32), ())
    return Codes(sentences.layers[name].codes, sentences.layers[name].values)


def _of_senses(sentences: Sentences) -> Codes:
    codes, place = np.full(sentences.n_words, -1, dtype=np.int32), dict[str, int]()
    for number, targets in sentences.targets(SENSE):
        for target in targets:
            if target.labels:
                first, last = (int(sentences.starts[number]) + at for at in target.span1)
                codes[first:last] = place.setdefault(target.labels[0], len(place))
    return Codes(codes, tuple(place)) if place else _of_layer(sentences, SENSE)
