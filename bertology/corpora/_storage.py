"""Columns of many values in little memory: strings as one, repeated values as small integer codes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class WordLayer:
    """One word-level annotation layer of many sentences: ``values[codes[i]]`` for word ``i``, −1 for none."""

    packed: NDArray[np.signedinteger[Any]]
    """``[word]`` the codes, in no more bytes than they need."""
    values: tuple[str, ...]
    """Distinct values in order of first appearance."""

    @cached_property
    def codes(self) -> Codes:
        """``[word]`` the codes, in a type one can reckon with; made when first asked for, then kept."""
        return self.packed.astype(np.int32, copy=False)

    @cached_property
    def _value_of(self) -> tuple[str | None, ...]:
        """Values by code; −1 counts from the end, where none is."""
        return (*self.values, None)

    def decoded(self, first: int, last: int) -> tuple[str | None, ...]:
        """The values of the words from ``first`` up to, not including, ``last``."""
        return tuple(map(self._value_of.__getitem__, self.packed[first:last].tolist()))


class StringColumn:
    """An append-only column of strings, kept as UTF-8 (one emoji must not widen all of them) and its boundaries."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("q", [0])

    def append(self, value: str) -> None:
        """Add one string at the end."""
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


class CodeColumn:
    """An append-only column of repeated values as codes into a vocabulary, widened as that grows."""

    def __init__(self) -> None:
        self._code_of = _CodeOf()
        self._codes = array("b")
        self._wider = [("h", 1 << 15), ("i", 1 << 31)]
        self._limit = 1 << 7

    def extend(self, values: Iterable[str | None], before: int) -> None:
        """Append ``values``, filling up to ``before`` words that earlier sentences left out."""
        if len(self._codes) < before:
            self._codes.extend([-1] * (before - len(self._codes)))
        codes = list(map(self._code_of.__getitem__, values))
        while len(self._code_of) > self._limit:
            typecode, self._limit = self._wider.pop(0)
            self._codes = array(typecode, self._codes)
        self._codes.fromlist(codes)

    def freeze(self, length: int) -> WordLayer:
        """The whole column, filled up to ``length`` words."""
        self.extend((), length)
        values = tuple(value for value in self._code_of if value is not None)
        return WordLayer(as_array(self._codes), values)


def as_array(column: array[int]) -> NDArray[np.signedinteger[Any]]:
    """The column's own memory as an array."""
    return np.frombuffer(column, dtype=column.typecode) if column else np.zeros(0, column.typecode)
