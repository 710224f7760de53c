"""Edge probing's own format: one JSON object a line with a text and its labelled spans (Tenney et al. 2019)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertology._files import write_atomically
from bertology._inputs import described
from bertology.corpora._corpus import Corpus, corpus_from_files
from bertology.corpora._files import Oddities, json_objects
from bertology.corpora._sentences import IGNORED, Sentence, Target
from bertology.corpora._words import JOINED, Span, spacing_in
from bertology.errors import CorpusError, quoted

EDGE_SUFFIXES = (".jsonl",)
_LAYER_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_INFO = " info = "
_GAPS = re.compile(r"[ \t\r\n]+")
"""What parts words; other white space, such as a no-break space, may stand in one."""


@dataclass
class _Shape:
    """What the first target of a file looks like, and where it is; all others must have as many spans and labels."""

    spans: Literal["one span", "two spans", ""] = ""
    label: Literal["a string", "a list", ""] = ""
    where: str = ""


def _read(path: Path, layer: str, shape: _Shape, oddities: Oddities) -> Iterator[Sentence]:
    if not _LAYER_NAME.fullmatch(layer):
        raise CorpusError(f"layer {quoted(layer)} is no name for targets; write small letters, digits and _")
    for number, example in json_objects(path, due="an object with text and targets", empty="no example in it"):
        yield _sentence(example, path, number, layer, shape, oddities)


def _sentence(
    example: Mapping[str, Any], path: Path, number: int, layer: str, shape: _Shape, oddities: Oddities
) -> Sentence:
    where = f"{path}:{number}"
    text, targets, info = example.get("text"), example.get("targets"), example.get("info")
    words = [word for word in _GAPS.split(text) if word] if isinstance(text, str) else []
    if not isinstance(text, str) or not text.strip():
        raise CorpusError(f"{where}: text is {described(text)}; write the words, parted by spaces")
    if not isinstance(targets, list):
        raise CorpusError(f"{where}: targets is {described(targets)}; write a list, [] for none")
    read = tuple(
        _target(target, f"{where}: targets[{index}]", len(words), shape) for index, target in enumerate(targets)
    )
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
        comments=(_INFO + json.dumps(info, ensure_ascii=False, sort_keys=True),) if info else (),
    )


def _target(plain: Any, where: str, n_words: int, shape: _Shape) -> Target:
    if not isinstance(plain, dict):
        raise CorpusError(f"{where} is {described(plain)}; write an object with span1 and label")
    span1 = _span(plain.get("span1"), f"{where}.span1", n_words)
    span2 = None if plain.get("span2") is None else _span(plain["span2"], f"{where}.span2", n_words)
    if plain.get("label") is None:
        raise CorpusError(f"{where} has no label; write a string, or a list of strings where many may hold")
    label = _label(plain["label"], f"{where}.label")
    own = _Shape("two spans" if span2 else "one span", "a string" if isinstance(label, str) else "a list", where)
    if not shape.spans:
        shape.spans, shape.label, shape.where = own.spans, own.label, where
    if own.spans != shape.spans:
        raise CorpusError(
            f"{where} has {own.spans} where that of {shape.where} has {shape.spans}; "
            "give the targets of one task a file"
        )
    if own.label != shape.label:
        raise CorpusError(f"{where}.label is {own.label} where that of {shape.where} is {shape.label}; write all alike")
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


def write_edge_jsonl(path: str | Path, sentences: Iterable[Sentence], *, layer: str) -> None:
    """Write the targets of one layer as edge-probing examples, one JSON object a line.

    :func:`load_edge_jsonl` gives back words, natural text, identifiers, ``info`` and targets; word-level annotation
    and other targets have no place in this format and are left out. Sentences without a target are written too.

    Raises:
        CorpusError: no sentence has such targets, or a word holds a space, which parts words in this format.
        StoreError: the file cannot be written; it is whole or absent, never half written.
    """
    path, lines = Path(path), []
    layers: set[str] = set()
    for sentence in sentences:
        layers.update(sentence.targets)
        for word in sentence.words:
            if _GAPS.search(word):
                reason = f"sentence {quoted(sentence.id)} has the word {quoted(word)}; spaces part words there"
                raise CorpusError(f"{path}: {reason}")
        kept = next((comment.removeprefix(_INFO) for comment in sentence.comments if comment.startswith(_INFO)), "{}")
        example = {
            "text": " ".join(sentence.words),
            "targets": [_plain(target) for target in sentence.targets.get(layer, ())],
            "info": {**json.loads(kept), "sent_id": sentence.id, "text": sentence.text},
        }
        lines.append(json.dumps(example, ensure_ascii=False) + "\n")
    if layer not in layers:
        reason = f"no sentence has targets {quoted(layer)}; there are {', '.join(sorted(layers)) or 'none'}"
        raise CorpusError(f"{path}: {reason}")
    write_atomically(path, "".join(lines).encode("utf-8"))


def _plain(target: Target) -> dict[str, Any]:
    spans = {"span1": list(target.span1)}
    if target.span2 is not None:
        spans["span2"] = list(target.span2)
    return {**spans, "label": target.label if isinstance(target.label, str) else list(target.label)}


def load_edge_jsonl(path: Path, *, layer: str) -> Corpus:
    """The corpus in a folder of files of edge-probing examples, one a split, or in one file.

    A line is a JSON object with ``text``, its words parted by spaces, and ``targets``: each with ``span1``, in two-span
    tasks ``span2`` (``[start, end]`` of words, 0-based, end exclusive), and ``label``, a string, or a list of strings
    where many labels may hold of a span. ``info`` is kept as a comment. Where it states the natural ``text`` that the
    words spell, as :func:`write_edge_jsonl` writes it, that is the sentence's; else words are joined by single spaces.

    Args:
        path: the folder or file.
        layer: what to call the targets: ``constituents``, ``entities``, ``srl``, ``proto_roles``, ``coref``,
            ``winograd``, ``relations`` or a name of one's own.

    Raises:
        CorpusError: a file or a line of it is not as it should be; the message names file, line and field.
    """
    shape = _Shape()

    def read(file: Path, oddities: Oddities) -> Iterator[Sentence]:
        return _read(file, layer, shape, oddities)

    return corpus_from_files(path, read, EDGE_SUFFIXES, what="edge JSONL", language=lambda _: None)
