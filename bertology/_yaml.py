"""A strict subset of YAML in which every value has its file and line.

Text is text: of the words that YAML 1.1 takes for something else, only ``true``, ``false`` and ``null`` are left, so
that ``no`` is a word, ``2019-06-02`` a text, and ``1e-3`` the number it looks like. Tags are refused, whatever they
would make; so are keys written twice, numbers that are not finite or beyond 64 bits, and aliases that unfold into more
than a person would write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bertology._inputs import opened
from bertology.errors import BertologyError, cut, quoted

_MOST_BYTES = 1 << 20
_MOST_VALUES = 20_000
_MOST_DEPTH = 50
_MOST_WHOLE = 2.0**63
_PLAIN = "tag:yaml.org,2002:"
_NUMBERS = {
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "float": (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", "-+.0123456789"),
}


class _Loader(yaml.SafeLoader):
    """Composes nodes; the patterns above decide the types of scalars."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as in the base class


class _Dumper(yaml.SafeDumper):
    """Writes what :class:`_Loader` reads back as it was: texts that look like numbers in quotes."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as in the base class

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out."""
        return True


for _kind, (_pattern, _first) in _NUMBERS.items():
    for _tool in (_Loader, _Dumper):
        _tool.add_implicit_resolver(_PLAIN + _kind, re.compile(rf"^(?:{_pattern})$"), ["", *_first])


@dataclass(frozen=True)
class Place:
    """The place of a value: a file and line, or an option."""

    source: str
    """The file, or the option of the command line."""
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Written:
    """A value with its place: a mapping or list of further ones, or a string, number, truth value or None."""

    place: Place
    value: Any
    """``dict[str, Written]``, ``list[Written]`` or a scalar."""
    key_places: Mapping[str, Place] = field(default_factory=dict)
    """Of a mapping, the place of each key."""

    def plain(self) -> Any:
        """The value as plain Python objects, without places."""
        if isinstance(self.value, dict):
            return {key: found.plain() for key, found in self.value.items()}
        if isinstance(self.value, list):
            return [found.plain() for found in self.value]
        return self.value

    def place_of(self, path: tuple[str | int, ...]) -> Place:
        """The place of the value at ``path``, or of its deepest ancestor that exists."""
        if not path:
            return self.place
        if isinstance(self.value, dict) and path[0] in self.value:
            found = self.value[path[0]]
            return found.place_of(path[1:]) if path[1:] else self.key_places.get(str(path[0]), found.place)
        if isinstance(self.value, list) and isinstance(path[0], int) and path[0] < len(self.value):
            found = self.value[path[0]]
            assert isinstance(found, Written)
            return found.place_of(path[1:])
        return self.place


def read_yaml(path: Path, *, what: str) -> Written:
    """The mapping that a YAML file holds.

    Args:
        path: the file.
        what: what the file should be, for messages.

    Raises:
        BertologyError: there is no such file, or it is not plain YAML.
    """
    with opened(path, missing=f"it should be {what} in YAML") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise BertologyError(f"{path}: over {_MOST_BYTES:,} bytes, which are too many for {what}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BertologyError(f"{path}: not UTF-8 text ({error}); it should be {what} in YAML") from None
    return parse_yaml(text, Place(str(path), 1))


def parse_yaml(text: str, place: Place) -> Written:
    """The value of a YAML text; ``place`` is its place in messages.

    Raises:
        BertologyError: it is not plain YAML.
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = Place(place.source, mark.line + 1) if mark and place.line else place
        raise BertologyError(f"{at}: not valid YAML ({error.problem or error.context})") from None
    except yaml.YAMLError as error:
        raise BertologyError(f"{place}: not valid YAML ({' '.join(str(error).split())})") from None
    except RecursionError:
        raise BertologyError(f"{place}: nested too deeply") from None
    except ValueError:  # of chr(), from an escape such as "\U00110000"
        raise BertologyError(f"{place}: not valid YAML (an escape \\U of no character)") from None
    if node is None:
        return Written(place, None)
    return _Unfolding(place).value_of(node, 0)


def to_yaml(plain: Any) -> str:
    """YAML that :func:`parse_yaml` reads back as ``plain``."""
    return str(yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


class _Unfolding:
    """Converts nodes to values, within limits on their number and depth."""

    def __init__(self, place: Place) -> None:
        self._source = place
        self._left = _MOST_VALUES

    def value_of(self, node: yaml.Node, depth: int) -> Written:
        place = self._place(node)
        self._left -= 1
        if self._left < 0 or depth > _MOST_DEPTH:
            raise BertologyError(
                f"{place}: unfolds into over {_MOST_VALUES:,} values or {_MOST_DEPTH} levels; write it without aliases"
            )
        if not node.tag.startswith(_PLAIN) or node.tag.removeprefix(_PLAIN) not in (*_NUMBERS, "str", "map", "seq"):
            tag = cut(node.tag.replace(_PLAIN, "!!"))
            raise BertologyError(
                f"{place}: tag {tag} is not allowed here; write plain text, numbers, lists and mappings"
            )
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place, depth)
        if isinstance(node, yaml.SequenceNode):
            return Written(place, [self.value_of(child, depth + 1) for child in node.value])
        return Written(place, _scalar(node, place))

    def _mapping(self, node: yaml.MappingNode, place: Place, depth: int) -> Written:
        values: dict[str, Written] = {}
        places: dict[str, Place] = {}
        for key_node, value_node in node.value:
            at = self._place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                raise BertologyError(f"{at}: a key should be a plain word")
            key = _text(str(key_node.value), at)
            if key in values:
                raise BertologyError(f"{at}: key {quoted(key)} is written twice (first in line {places[key].line})")
            places[key] = at
            values[key] = self.value_of(value_node, depth + 1)
        return Written(place, values, places)

    def _place(self, node: yaml.Node) -> Place:
        if self._source.line is None:
            return self._source
        return Place(self._source.source, node.start_mark.line + 1)


def _scalar(node: yaml.Node, place: Place) -> Any:
    kind, text = node.tag.removeprefix(_PLAIN), str(node.value)
    if kind == "str":
        return _text(text, place)
    # A tag such as !!int may stand before any text.
    if kind not in _NUMBERS or not re.fullmatch(_NUMBERS[kind][0], text):
        raise BertologyError(f"{place}: {quoted(text)} is not what its tag !!{kind} says")
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(number) or (kind == "int" and abs(number) >= _MOST_WHOLE):
        raise BertologyError(f"{place}: {quoted(text)} is not a finite number, or beyond what 64 bits hold")
    return int(text) if kind == "int" else number


def _text(text: str, place: Place) -> str:
    """The text, refused where its escapes give no valid characters."""
    if any("\ud800" <= letter <= "\udfff" for letter in text) or "\0" in text:
        raise BertologyError(f"{place}: {quoted(text)} holds what is no character of a text (\\0, or half of a pair)")
    return text
