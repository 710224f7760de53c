"""Edge probing's own format: one JSON object a line with a text and its labelled spans (Tenney et al. 2019)."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertology._files import parse_json
from bertology.corpora._corpus import Corpus, Format
from bertology.corpora._files import Oddities, numbered_lines, wrong
from bertology.corpora._sentences import IGNORED, Sentence, Target
from bertology.corpora._words import JOINED, spacing_in
from bertology.errors import BertologyError, CorpusError

_LAYER_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_GAPS = re.compile(r"[ \t\r\n]+")
"""White space that separates words; other white space, such as a no-break space, may stand in one."""
_REMEDY = "write an object with text and targets, each with span1 [start, end] and label, a string or list of strings"


@dataclass(frozen=True)
class _Target:
    span1: tuple[int, int]
    label: str | int | float | tuple[str, ...]
    span2: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Example:
    text: str
    targets: list[_Target]
    info: Any = None


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
        self._layer = layer
        self._kind = ""  # spans and label of the first target

    def load(self, path: Path) -> Corpus:
        """The corpus in a folder of such files, one a split, or in one file."""
        if self._layer is None or not _LAYER_NAME.fullmatch(self._layer):
            raise wrong(f"{path}: name of the targets", self._layer, f"small letters, as in {path}#layer")
        return super().load(path)

    def read(self, file: Path, oddities: Oddities) -> Iterator[Sentence]:
        """One sentence an example; errors name file, line and field."""
        for number, line in numbered_lines(file):
            where, targets = f"{file}:{number}", list[Target]()
            try:
                example: _Example = parse_json(line, where=where, what="edge JSONL", form=_Example, remedy=_REMEDY)
            except BertologyError as error:
                raise CorpusError(str(error)) from None
            words = [word for word in _GAPS.split(example.text) if word]
            if not example.text.strip():
                raise wrong(f"{where}: text", example.text, "words, parted by spaces")
            for place, plain in ((f"{where}: targets[{n}]", one) for n, one in enumerate(example.targets)):
                label = str(plain.label) if isinstance(plain.label, int | float) else plain.label
                if label == "" or not all(label) or (label is not plain.label and label not in IGNORED):
                    raise wrong(f"{place}.label", plain.label, "a string, or a list of strings")
                for name, span in (("span1", plain.span1), ("span2", plain.span2)):
                    if span is not None and not 0 <= span[0] < span[1] <= len(words):
                        due = f"[start, end] in words of the text, 0 to {len(words)}, end exclusive"
                        raise wrong(f"{place}.{name}", list(span), due)
                form = "a string" if isinstance(label, str) else "a list"
                kind = f"{'one span' if plain.span2 is None else 'two spans'} and {form}"
                self._kind = self._kind or kind
                if kind != self._kind:
                    raise wrong(place, kind, f"{self._kind}, as in the first target")
                targets.append(Target(plain.span1, label, plain.span2))
            stated: dict[str, Any] = example.info if isinstance(example.info, dict) else {}
            natural, sent_id = stated.get("text"), stated.get("sent_id")
            spacing = spacing_in(natural, words) if isinstance(natural, str) else None
            if spacing is None:
                oddities.note(JOINED, f"{file.name}:{number}")
            info = json.dumps(example.info, ensure_ascii=False, sort_keys=True)
            yield Sentence.from_words(
                words,
                id=sent_id if isinstance(sent_id, str) else str(number),
                space_after=spacing,
                targets={str(self._layer): targets},
                comments=(f" info = {info}",) if example.info else (),
            )
