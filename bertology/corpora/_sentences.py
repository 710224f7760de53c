"""Many sentences in little memory: text as one string, annotation as integer codes, sentences made when asked for."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from bertology._files import canonical_json, digest
from bertology.corpora._sentence import MultiwordToken, Sentence, Target

Integers = NDArray[np.int64]
Codes = NDArray[np.int32]
_Integer = TypeVar("_Integer", np.int32, np.int64)


@dataclass(frozen=True)
class WordLayer:
    """One word-level annotation layer of many sentences: ``values[codes[i]]`` for word ``i``, −1 for none."""

    codes: Codes
    """``[word]``"""
    values: tuple[str, ...]
    """Distinct values in order of first appearance."""


_Extras = tuple[Mapping[str, tuple[Target, ...]], tuple[MultiwordToken, ...], tuple[str, ...]]
"""What few sentences have: span-level annotation, multiword tokens, empty nodes."""

_NO_EXTRAS: _Extras = ({}, (), ())
_NOT_ANALYSIS = frozenset({"misc", "deps"})
"""Layers that are kept but name nothing a probe reads, and so do not enter the fingerprint."""


class _Strings:
    """An append-only column of strings, kept as UTF-8 (one emoji must not widen all of them) and its boundaries."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("q", [0])

    def append(self, value: str) -> None:
        self._bytes += value.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._bytes))

    def __getitem__(self, index: int) -> str:
        return self._bytes[self._ends[index] : self._ends[index + 1]].decode("utf-8", "surrogatepass")

    def parts(self) -> tuple[memoryview, memoryview]:
        """All of the text and its boundaries, for hashing."""
        return memoryview(self._bytes), memoryview(self._ends)


class _CodeOf(dict[str | None, int]):
    """A vocabulary that grows by what it is asked for: codes in order of first appearance, −1 for ``None``."""

    def __init__(self) -> None:
        super().__init__({None: -1})

    def __missing__(self, value: str) -> int:
        code = self[value] = len(self) - 1
        return code


class _Column:
    """An append-only column of repeated values as codes into a vocabulary."""

    def __init__(self) -> None:
        self._codes = array("i")
        self._code_of = _CodeOf()

    def extend(self, values: Iterable[str | None], before: int) -> None:
        """Append ``values``, filling up to ``before`` words that earlier sentences left out."""
        if len(self._codes) < before:
            self._codes.extend([-1] * (before - len(self._codes)))
        self._codes.extend(map(self._code_of.__getitem__, values))

    def freeze(self, length: int) -> WordLayer:
        self.extend((), length)
        values = tuple(value for value in self._code_of if value is not None)
        return WordLayer(_as_array(self._codes, np.int32), values)


class Sentences(Sequence[Sentence]):
    """An immutable sequence of :class:`Sentence`, held by column.

    Words of all sentences are numbered through: word ``w`` of sentence ``s`` is ``starts[s] + w``. A million words
    with the layers of a treebank take some 50 MB.
    """

    def __init__(self, sentences: Iterable[Sentence] = ()) -> None:
        self._ids, self._texts, self._comments = _Strings(), _Strings(), _Strings()
        forms = _Column()
        columns: dict[str, _Column] = {}
        starts, spans, heads = array("q", [0]), array("i"), array("i")
        extras: dict[int, _Extras] = {}
        any_heads = False
        for number, sentence in enumerate(sentences):
            before = starts[-1]
            _check_lengths(sentence)
            self._ids.append(sentence.id)
            self._texts.append(sentence.text)
            self._comments.append("".join(comment + "\n" for comment in sentence.comments))
            forms.extend(sentence.words, before)
            for name, values in sentence.layers.items():
                if name not in columns:
                    columns[name] = _Column()
                columns[name].extend(values, before)
            spans.extend(chain.from_iterable(sentence.spans))
            any_heads = any_heads or sentence.heads is not None
            heads.extend(sentence.heads if sentence.heads is not None else [-1] * len(sentence))
            if sentence.targets or sentence.multiword or sentence.empty_nodes:
                extras[number] = (sentence.targets, sentence.multiword, sentence.empty_nodes)
            starts.append(before + len(sentence))
        n_words = starts[-1]
        self.starts: Integers = _as_array(starts, np.int64)
        """``[sentence + 1]`` number of the first word of each sentence, and the number of words."""
        self.char_spans: Codes = _as_array(spans, np.int32).reshape(-1, 2)
        """``[word, 2]`` place of each word in its sentence's text."""
        self.forms: WordLayer = forms.freeze(n_words)
        """The word forms themselves."""
        frozen = {name: column.freeze(n_words) for name, column in columns.items()}
        self.layers: Mapping[str, WordLayer] = {name: layer for name, layer in frozen.items() if layer.values}
        """Word-level annotation by name; a layer without a single value is not there."""
        self.heads: Codes | None = _as_array(heads, np.int32) if any_heads else None
        """``[word]`` heads, 1-based inside the sentence, 0 for the root, −1 where a sentence has none."""
        self._extras = extras

    @property
    def n_words(self) -> int:
        """How many words there are in all."""
        return int(self.starts[-1])

    @cached_property
    def sentence_of_word(self) -> Codes:
        """``[word]`` number of the sentence each word stands in."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.starts))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> Sentences: ...
    def __getitem__(self, index: int | slice) -> Sentence | Sentences:
        if isinstance(index, slice):
            return Sentences(self[i] for i in range(*index.indices(len(self))))
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(index)
        first, last = self.starts[number], self.starts[number + 1]
        targets, multiword, empty_nodes = self._extras.get(number, _NO_EXTRAS)
        comments = self._comments[number]
        heads = self.heads[first:last].tolist() if self.heads is not None else None
        layers = {
            name: tuple(None if c < 0 else layer.values[c] for c in layer.codes[first:last].tolist())
            for name, layer in self.layers.items()
        }
        return Sentence(
            id=self._ids[number],
            text=self._texts[number],
            words=tuple(self.forms.values[c] for c in self.forms.codes[first:last].tolist()),
            spans=tuple((int(a), int(b)) for a, b in self.char_spans[first:last].tolist()),
            layers={name: values for name, values in layers.items() if any(v is not None for v in values)},
            heads=tuple(heads) if heads and heads[0] >= 0 else None,
            targets=targets,
            multiword=multiword,
            comments=tuple(comments[:-1].split("\n")) if comments else (),
            empty_nodes=empty_nodes,
        )

    def __repr__(self) -> str:
        return f"Sentences({len(self)} sentences, {self.n_words} words, layers {', '.join(self.layers) or 'none'})"

    def with_layers(self, layers: Mapping[str, WordLayer]) -> Sentences:
        """The same sentences with ``layers`` added, or put in place of those of the same name.

        Args:
            layers: annotation of all words by name, ``codes`` as ``[word]``.

        Raises:
            ValueError: a layer is not as long as there are words.
        """
        for name, layer in layers.items():
            if layer.codes.shape != (self.n_words,):
                raise ValueError(f"layer {name} has {len(layer.codes)} values for {self.n_words} words")
        other = copy.copy(self)
        other.layers = {**self.layers, **layers}
        other.__dict__.pop("fingerprint", None)
        return other

    def text(self, number: int) -> str:
        """The natural text of sentence ``number``."""
        return self._texts[number]

    def id(self, number: int) -> str:
        """The name of sentence ``number`` in its corpus."""
        return self._ids[number]

    def word(self, number: int) -> str:
        """The form of word ``number``, counted through the whole sequence."""
        return self.forms.values[int(self.forms.codes[number])]

    @cached_property
    def text_fingerprint(self) -> str:
        """Hash of what a model reads and where words are in it, whatever is annotated."""
        return digest([*self._texts.parts(), self.starts.data, self.char_spans.tobytes()])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of text and annotation (identifiers, comments, MISC and DEPS left out)."""
        parts: list[bytes | memoryview] = [self.text_fingerprint.encode(), *_layer_parts("form", self.forms)]
        for name in sorted(self.layers):
            if name not in _NOT_ANALYSIS:
                parts += _layer_parts(name, self.layers[name])
        if self.heads is not None:
            parts.append(self.heads.data)
        targets = {number: _plain_targets(extra[0]) for number, extra in self._extras.items() if extra[0]}
        return digest([*parts, canonical_json(targets)])


def _check_lengths(sentence: Sentence) -> None:
    """A column that is too short or too long would shift the annotation of every later sentence."""
    n_words = len(sentence.words)
    lengths = {len(sentence.spans), *map(len, sentence.layers.values())}
    if sentence.heads is not None:
        lengths.add(len(sentence.heads))
    if lengths != {n_words}:
        raise ValueError(f"sentence {sentence.id!r}: {n_words} words, but spans, heads or a layer of another length")


def _as_array(column: array[int], dtype: type[_Integer]) -> NDArray[_Integer]:
    """The column's own memory as an array."""
    return np.frombuffer(column, dtype=dtype) if column else np.zeros(0, dtype)


def _layer_parts(name: str, layer: WordLayer) -> list[bytes | memoryview]:
    return [name.encode(), layer.codes.data, "\0".join(layer.values).encode("utf-8", "surrogatepass")]


def _plain_targets(targets: Mapping[str, tuple[Target, ...]]) -> dict[str, list[list[Any]]]:
    return {name: [[t.span1, t.label, t.span2] for t in found] for name, found in targets.items()}
