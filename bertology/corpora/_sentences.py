"""Many sentences in little memory: text as one string, annotation as integer codes, sentences made when asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bertology._files import canonical_json, digest
from bertology.corpora._sentence import MultiwordToken, Sentence, Target

Integers = NDArray[np.int64]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class WordLayer:
    """One word-level annotation layer of many sentences: ``values[codes[i]]`` for word ``i``, −1 for none."""

    codes: Codes
    """``[word]``"""
    values: tuple[str, ...]
    """Distinct values in order of first appearance."""


class _Strings:
    """An append-only column of strings, kept as one string and its boundaries."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._ends = array("q", [0])

    def append(self, value: str) -> None:
        self._parts.append(value)
        self._ends.append(self._ends[-1] + len(value))
        if len(self._parts) > 4096:
            self._parts = ["".join(self._parts)]

    def __getitem__(self, index: int) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        whole = self._parts[0] if self._parts else ""
        return whole[self._ends[index] : self._ends[index + 1]]

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self._ends) - 1))


class _Column:
    """An append-only column of repeated values as codes into a vocabulary."""

    def __init__(self, length: int) -> None:
        self.codes = array("i", [-1]) * length
        self._code_of: dict[str, int] = {}

    def extend(self, values: Iterable[str | None], length: int) -> None:
        """Append ``values``, filling up to ``length`` words that earlier sentences left out."""
        if len(self.codes) < length:
            self.codes.extend([-1] * (length - len(self.codes)))
        code_of = self._code_of
        self.codes.extend(-1 if v is None else code_of.setdefault(v, len(code_of)) for v in values)

    def freeze(self, length: int) -> WordLayer:
        self.extend((), length)
        return WordLayer(np.frombuffer(self.codes, dtype=np.int32), tuple(self._code_of))


class Sentences(Sequence[Sentence]):
    """An immutable sequence of :class:`Sentence`, held by column.

    Words of all sentences are numbered through: word ``w`` of sentence ``s`` is ``starts[s] + w``. A million words
    with the layers of a treebank take some 50 MB.
    """

    def __init__(self, sentences: Iterable[Sentence] = ()) -> None:
        self._ids, self._texts, self._comments = _Strings(), _Strings(), _Strings()
        forms = _Column(0)
        columns: dict[str, _Column] = {}
        starts, spans, heads = array("q", [0]), array("i"), array("i")
        extras: dict[int, tuple[Mapping[str, tuple[Target, ...]], tuple[MultiwordToken, ...], tuple[str, ...]]] = {}
        any_heads = False
        for number, sentence in enumerate(sentences):
            before = starts[-1]
            self._ids.append(sentence.id)
            self._texts.append(sentence.text)
            self._comments.append("\n".join(sentence.comments))
            forms.extend(sentence.words, before)
            for name, values in sentence.layers.items():
                columns.setdefault(name, _Column(before)).extend(values, before)
            for span in sentence.spans:
                spans.extend(span)
            any_heads = any_heads or sentence.heads is not None
            heads.extend(sentence.heads if sentence.heads is not None else [-1] * len(sentence))
            if sentence.targets or sentence.multiword or sentence.empty_nodes:
                extras[number] = (sentence.targets, sentence.multiword, sentence.empty_nodes)
            starts.append(before + len(sentence))
        n_words = starts[-1]
        self.starts: Integers = np.frombuffer(starts, dtype=np.int64)
        """``[sentence + 1]`` number of the first word of each sentence, and the number of words."""
        self.char_spans: Codes = np.frombuffer(spans, dtype=np.int32).reshape(-1, 2)
        """``[word, 2]`` place of each word in its sentence's text."""
        self.forms: WordLayer = forms.freeze(n_words)
        """The word forms themselves."""
        self.layers: Mapping[str, WordLayer] = {name: column.freeze(n_words) for name, column in columns.items()}
        """Word-level annotation by name."""
        self.heads: Codes | None = np.frombuffer(heads, dtype=np.int32) if any_heads else None
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
        targets, multiword, empty_nodes = self._extras.get(number, ({}, (), ()))
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
            comments=tuple(comments.split("\n")) if comments else (),
            empty_nodes=empty_nodes,
        )

    def text(self, number: int) -> str:
        """The natural text of sentence ``number``."""
        return self._texts[number]

    def id(self, number: int) -> str:
        """The name of sentence ``number`` in its corpus."""
        return self._ids[number]

    def word(self, number: int) -> str:
        """The form of word ``number``, counted through the whole sequence."""
        return self.forms.values[self.forms.codes[number]]

    @cached_property
    def text_fingerprint(self) -> str:
        """Hash of what a model reads and where words are in it, whatever is annotated."""
        texts = "\0".join(self._texts).encode("utf-8", "surrogatepass")
        return digest([texts, self.starts.tobytes(), self.char_spans.tobytes()])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of text and annotation (identifiers, comments and MISC left out)."""
        parts = [self.text_fingerprint.encode(), *_layer_parts("form", self.forms)]
        for name in sorted(self.layers):
            if name != "misc":
                parts += _layer_parts(name, self.layers[name])
        if self.heads is not None:
            parts.append(self.heads.tobytes())
        targets = {number: _plain_targets(extra[0]) for number, extra in self._extras.items() if extra[0]}
        return digest([*parts, canonical_json(targets)])


def _layer_parts(name: str, layer: WordLayer) -> list[bytes]:
    return [name.encode(), layer.codes.tobytes(), "\0".join(layer.values).encode("utf-8", "surrogatepass")]


def _plain_targets(targets: Mapping[str, tuple[Target, ...]]) -> dict[str, list[list[Any]]]:
    return {name: [[t.span1, t.label, t.span2] for t in found] for name, found in targets.items()}
