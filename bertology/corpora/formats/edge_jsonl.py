"""Edge probing's own format: one JSON object a line with a text and its labelled spans (Tenney et al. 2019)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertology._inputs import described
from bertology.corpora._corpus import Corpus, Format
from bertology.corpora._files import Oddities, json_objects
from bertology.corpora._sentences import IGNORED, Sentence, Target
from bertology.corpora._words import JOINED, Span, spacing_in
from bertology.errors import CorpusError, quoted

_LAYER_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_GAPS = re.compile(r"[ \t\r\n]+")
"""White space that separates words; other white space, such as a no-break space, may stand in one."""


@dataclass
class _Shape:
    """The kind of the first target of a file, and its place; all others must have as many spans and labels."""

    spans: Literal["one span", "two spans", ""] = ""
    label: Literal["a string", "a list", ""] = ""
    where: str = ""


class EdgeJsonl(Format):
    """Examples of edge probing.

    A line is a JSON object with ``text``, its words separated by spaces, and ``targets``: each with ``span1``, in
    two-span tasks ``span2`` (``[start, end]`` of words, 0-based, end exclusive), and ``label``, a string, or a list of
    strings where a span may have several labels. ``info`` is kept as a comment. Where it states the natural ``text``
    that the words spell, that is the sentence's; else words are joined by single spaces.
    """

    title, suffixes, described = "edge JSONL", (".jsonl",), "edge JSONL (.jsonl, as PATH#layer)"

    def __init__(self, layer: str | None = None) -> None:
        """A reader whose targets are called ``layer``: ``srl``, ``coref``, ``proto_roles`` … or any other name."""
        self._layer, self._shape = layer, _Shape()

    def load(self, path: Path) -> Corpus:
        """The corpus in a folder of such files, one a split, or in one file."""
        if self._layer is None:
            file = self.files(path)[0]
            raise CorpusError(f"{file}: files of edge JSONL do not say what their targets are; write {path}#layer")
        return super().load(path)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence an example; errors name file, line and field."""
        layer = self._layer or ""
        if not _LAYER_NAME.fullmatch(layer):
            raise CorpusError(f"layer {quoted(layer)} is no name for targets; write small letters, digits and _")
        for number, example in json_objects(file, due="an object with text and targets", empty="no example in it"):
            yield self._sentence(example, file, number, layer, oddities)

    def _sentence(
        self, example: Mapping[str, Any], path: Path, number: int, layer: str, oddities: Oddities
    ) -> Sentence:
        where = f"{path}:{number}"
        text, targets, info = example.get("text"), example.get("targets"), example.get("info")
        words = [word for word in _GAPS.split(text) if word] if isinstance(text, str) else []
        if not isinstance(text, str) or not text.strip():
            raise CorpusError(f"{where}: text is {described(text)}; write the words, parted by spaces")
        if not isinstance(targets, list):
            raise CorpusError(f"{where}: targets is {described(targets)}; write a list, [] for none")
        places = (f"{where}: targets[{index}]" for index in range(len(targets)))
        read = tuple(self._target(target, place, len(words)) for target, place in zip(targets, places, strict=True))
        stated: Mapping[str, Any] = info if isinstance(info, dict) else {}
        natural, name = stated.get("text"), stated.get("sent_id")
        spacing = spacing_in(natural, words) if isinstance(natural, str) else None
        if spacing is None:
            oddities.note(JOINED, f"{path.name}:{number}")
        return Sentence.from_words(
            words,
            id=name if isinstance(name, str) else str(number),
            space_after=spacing,
            targets={layer: read} if read else {},
            comments=(f" info = {json.dumps(info, ensure_ascii=False, sort_keys=True)}",) if info else (),
        )

    def _target(self, plain: Any, where: str, n_words: int) -> Target:
        if not isinstance(plain, dict):
            raise CorpusError(f"{where} is {described(plain)}; write an object with span1 and label")
        span1 = _span(plain.get("span1"), f"{where}.span1", n_words)
        span2 = None if plain.get("span2") is None else _span(plain["span2"], f"{where}.span2", n_words)
        if plain.get("label") is None:
            raise CorpusError(f"{where} has no label; write a string, or a list of strings where many may hold")
        label = _label(plain["label"], f"{where}.label")
        own = _Shape("two spans" if span2 else "one span", "a string" if isinstance(label, str) else "a list", where)
        if not self._shape.spans:
            self._shape = own
        first = self._shape
        if own.spans != first.spans:
            what = f"has {own.spans} where that of {first.where} has {first.spans}"
            raise CorpusError(f"{where} {what}; give the targets of one task a file")
        if own.label != first.label:
            raise CorpusError(
                f"{where}.label is {own.label} where that of {first.where} is {first.label}; write all alike"
            )
        return Target(span1, label, span2)


def _span(plain: Any, where: str, n_words: int) -> Span:
    if not (isinstance(plain, list) and len(plain) == 2 and all(type(end) is int for end in plain)):
        raise CorpusError(f"{where} is {described(plain)}; write [start, end] in words, from 0, end exclusive")
    start, end = plain
    if min(plain) < 0 or max(plain) > n_words:
        raise CorpusError(f"{where} {quoted(plain)} is outside the text, which has {n_words} words")
    if start == end:
        raise CorpusError(f"{where} {quoted(plain)} is empty; the end is exclusive, [{start}, {end + 1}] is one word")
    if start > end:
        raise CorpusError(f"{where} [{start}, {end}] is reversed; write the start first")
    return start, end


def _label(plain: Any, where: str) -> str | tuple[str, ...]:
    if isinstance(plain, str) and plain:
        return plain
    if type(plain) is not bool and str(plain) in IGNORED:
        return str(plain)
    if isinstance(plain, list):
        if all(isinstance(part, str) and part for part in plain):
            return tuple(plain)
        if any(isinstance(part, str) for part in plain):
            raise CorpusError(f"{where} is a list of mixed types; write strings only")
    raise CorpusError(f"{where} is {described(plain)}; write a string, or a list of strings")
