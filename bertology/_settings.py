"""Settings from a strict subset of YAML or the command line, checked against their types; errors are one line.

In this YAML every value has its file and line, and text is text: of the words that YAML 1.1 takes for something else,
only ``true``, ``false`` and ``null`` are left, so that ``no`` is a word, ``2019-06-02`` a text, and ``1e-3`` the number
it looks like. Tags are refused, whatever they would make; so are keys written twice, numbers that are not finite or
beyond 64 bits, and aliases that unfold into more than a person would write.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

import yaml
from pydantic import BaseModel, Field, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, to_json

from bertology._files import opened
from bertology._names import name_not_found
from bertology.errors import BertologyError, FitError, cut, quoted

Text = Annotated[str, Field(strict=True, min_length=1)]
Whole = Annotated[int, Field(strict=True)]
Count = Annotated[Whole, Field(ge=1)]
Natural = Annotated[Whole, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Truth = Annotated[bool, Field(strict=True)]
Model = TypeVar("Model", bound=BaseModel)
Keys = tuple[str | int, ...]  # the keys and numbers that lead to a setting

_STEP = re.compile(r"(?P<key>[A-Za-z_]\w*)(?P<places>(?:\[[0-9]{1,9}\])*)")
_MOST_STEPS = 20
_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list, such as [a, b]",
    "model_type": "a mapping of keys to values",
    "dict_type": "a mapping of keys to values",
}
_OF_NUMBERS = ("int_type", "greater_than_equal", "less_than_equal", "greater_than")
_IN_WORDS = {"less than or equal to": "at most", "greater than or equal to": "at least", "greater than": "over"}
_MOST_BYTES = 1 << 20
_MOST_VALUES = 20_000
_MOST_DEPTH = 50
_MOST_WHOLE = 2.0**63
_COMMAND = "command"
_PLAIN = "tag:yaml.org,2002:"
_SCALARS = {
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
        return True


for _kind, (_pattern, _first) in _SCALARS.items():
    for _tool in (_Loader, _Dumper):
        _tool.add_implicit_resolver(_PLAIN + _kind, re.compile(rf"^(?:{_pattern})$"), ["", *_first])


@dataclass(frozen=True)
class Place:
    """The place of a value: a file and line, or an option."""

    source: str  # the file, or the option of the command line
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Written:
    """A value with its place: a mapping or list of further ones, or a string, number, truth value or None."""

    place: Place
    value: Any  # `dict[str, Written]`, `list[Written]` or a scalar
    key_places: Mapping[str, Place] = field(default_factory=dict)  # the place of each key of a mapping

    def plain(self) -> Any:
        """The value as plain Python objects, without places."""
        if isinstance(self.value, dict):
            return {key: value.plain() for key, value in self.value.items()}
        return [value.plain() for value in self.value] if isinstance(self.value, list) else self.value

    def place_of(self, path: tuple[str | int, ...]) -> Place:
        """The place of the value at ``path``, or of its deepest ancestor that exists."""
        if not path or not _has(self.value, path[0]):
            return self.place
        below: Written = self.value[path[0]]
        return below.place_of(path[1:]) if path[1:] else self.key_places.get(str(path[0]), below.place)


def written_at(place: Place, plain: Any) -> Written:
    """A value made of plain Python objects, all with the same place in the source file."""
    if isinstance(plain, Mapping):
        return Written(place, {key: written_at(place, value) for key, value in plain.items()})
    if isinstance(plain, list | tuple):
        return Written(place, [written_at(place, value) for value in plain])
    return Written(place, plain)


def _has(value: Any, step: str | int) -> bool:
    """Whether a mapping has a key, or a list a place."""
    is_in_list = isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)
    return is_in_list or (isinstance(value, dict) and step in value)


def read_yaml(path: Path, *, what: str) -> Written:
    """The mapping that a YAML file holds, which should be ``what``, for messages."""
    with opened(path, missing=f"it should be {what} in YAML") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise BertologyError(f"{path}: over {_MOST_BYTES:,} bytes, which are too many for {what}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BertologyError(f"{path}: not UTF-8 text ({error}); it should be {what} in YAML") from None
    return parse_yaml(text, Place(str(path), 1))


def read_file_of(command: str, path: Path, *, what: str, example: str) -> Written:
    """The mapping of a YAML file for ``bertology COMMAND``, without its key ``command``, which is checked."""
    written = read_yaml(path, what=what)
    if written.value is None:
        return Written(written.place, {})
    if not isinstance(written.value, dict):
        raise BertologyError(f"{written.place}: {what} is a mapping of keys to values, such as '{example}'")
    stated = written.value.pop(_COMMAND, None)
    if stated is not None and stated.value != command:
        raise BertologyError(
            f"{written.key_places[_COMMAND]}: this is a file for `bertology {cut(str(stated.plain()))}`, and was given "
            f"to `bertology {command}`"
        )
    return written


def parse_yaml(text: str, place: Place) -> Written:
    """The value of a YAML text; ``place`` is its place in messages."""
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
    return Written(place, None) if node is None else _unfolded(node, place, itertools.count(1), 0)


def to_yaml(plain: Any) -> str:
    """YAML that :func:`parse_yaml` reads back as ``plain``."""
    return str(yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def _unfolded(node: yaml.Node, source: Place, counter: Iterator[int], depth: int) -> Written:
    """The value of a node, within limits on their number and depth."""
    place = source if source.line is None else Place(source.source, node.start_mark.line + 1)
    if next(counter) > _MOST_VALUES or depth > _MOST_DEPTH:
        problem = f"unfolds into over {_MOST_VALUES:,} values or {_MOST_DEPTH} levels"
        raise BertologyError(f"{place}: {problem}; write it without aliases")
    if not node.tag.startswith(_PLAIN) or node.tag.removeprefix(_PLAIN) not in (*_SCALARS, "str", "map", "seq"):
        remedy = "write plain text, numbers, lists and mappings"
        raise BertologyError(f"{place}: tag {cut(node.tag.replace(_PLAIN, '!!'))} is not allowed here; {remedy}")
    if isinstance(node, yaml.SequenceNode):
        return Written(place, [_unfolded(child, source, counter, depth + 1) for child in node.value])
    if not isinstance(node, yaml.MappingNode):
        return Written(place, _scalar(node.tag.removeprefix(_PLAIN), str(node.value), place))
    values: dict[str, Written] = {}
    places: dict[str, Place] = {}
    for key_node, value_node in node.value:
        at = source if source.line is None else Place(source.source, key_node.start_mark.line + 1)
        if not isinstance(key_node, yaml.ScalarNode):
            raise BertologyError(f"{at}: a key should be a plain word")
        key = _scalar("str", str(key_node.value), at)
        if key in values:
            raise BertologyError(f"{at}: key {quoted(key)} is written twice (first in line {places[key].line})")
        places[key] = at
        values[key] = _unfolded(value_node, source, counter, depth + 1)
    return Written(place, values, places)


def _scalar(kind: str, text: str, place: Place) -> Any:
    if kind == "str":
        if any("\ud800" <= letter <= "\udfff" for letter in text) or "\0" in text:
            problem = "holds what is no character of a text (\\0, or half of a pair)"
            raise BertologyError(f"{place}: {quoted(text)} {problem}")
        return text
    # A tag such as !!int may stand before any text.
    if kind not in _SCALARS or not re.fullmatch(_SCALARS[kind][0], text):
        raise BertologyError(f"{place}: {quoted(text)} is not what its tag !!{kind} says")
    if kind in ("null", "bool"):
        return None if kind == "null" else text.lower() == "true"
    number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(number) or (kind == "int" and abs(number) >= _MOST_WHOLE):
        raise BertologyError(f"{place}: {quoted(text)} is not a finite number, or beyond what 64 bits hold")
    return int(text) if kind == "int" else number


def checked(model: type[Model], written: Written, *, known: Callable[[Keys], Sequence[str]] | None = None) -> Model:
    """Settings as a pydantic model, or an error with file, line and key; ``known`` are the keys valid at a path."""
    plain = written.plain()
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        path, message = problem_of(error.errors(), plain, known or (lambda _: list(model.model_fields)))
    key = "" if message.startswith(("unknown key ", "key ")) else _name_of(path)
    raise BertologyError(f"{written.place_of(path)}: {key + ': ' if key else ''}{message}")


def changed(written: Written, changes: Sequence[str]) -> Written:
    """Settings with some values replaced, each as ``key=value``: ``seeds=3``, ``models[0].dtype=bfloat16``."""
    for change in changes:
        key, separator, text = change.partition("=")
        place = Place(f"--set {cut(change)}")
        if not separator:
            raise BertologyError(f"{place}: write key=value, such as seeds=3 or models[0].dtype=bfloat16")
        steps: list[str | int] = []
        for part in key.strip().split("."):
            match = _STEP.fullmatch(part)
            if match is None or len(steps) > _MOST_STEPS:
                raise BertologyError(f"{place}: {quoted(key.strip())} is no key; write it as models[0].dtype")
            steps += [match["key"], *map(int, re.findall(r"[0-9]+", match["places"]))]
        written = _put(written, steps, parse_yaml(text, place), place)
    return written


def merged(upper: Written, lower: Written) -> Written:
    """``upper`` over ``lower``: mappings are put together key by key, all else is replaced."""
    if not isinstance(upper.value, dict) or not isinstance(lower.value, dict):
        return upper
    values = dict(lower.value)
    for key, value in upper.value.items():
        values[key] = merged(value, values[key]) if key in values else value
    return Written(upper.place, values, {**lower.key_places, **upper.key_places})


def _put(into: Written, steps: Sequence[str | int], value: Written, place: Place) -> Written:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        values = list(into.value) if isinstance(into.value, list) else []
        if step >= len(values):
            raise BertologyError(f"{place}: there is no [{step}]; the list has {len(values)}, numbered from 0")
        values[step] = _put(values[step], rest, value, place)
        return Written(into.place, values)
    # A bare name stands for a mapping with nothing but the name.
    mapping = {"name": into} if isinstance(into.value, str) else {} if into.value is None else into.value
    if not isinstance(mapping, dict):
        raise BertologyError(f"{place}: {quoted(step)} is a key, but there is {_called(into.plain())} in its place")
    below = _put(mapping.get(step, Written(place, None)), rest, value, place)
    return Written(into.place, {**mapping, step: below}, {**into.key_places, step: place if not rest else below.place})


def problem_of(errors: Sequence[ErrorDetails], plain: Any, known: Callable[[Keys], Sequence[str]]) -> tuple[Keys, str]:
    """The path of the first problem in ``plain`` settings, and its description; unknown keys come first."""
    problem = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    if problem["type"] not in ("extra_forbidden", "missing"):
        # Of a union of types, the type that a value fits furthest is the one that was meant.
        same = [error for error in errors if error["loc"][:1] == problem["loc"][:1] and error["type"] != "missing"]
        problem = max(same, key=lambda error: (len(_path_of(error, plain)), error["type"] not in _WANTED))
    path = _path_of(problem, plain)
    if problem["type"] == "extra_forbidden":
        where = f" in {_name_of(path[:-1])}" if path[:-1] else ""
        near = difflib.get_close_matches(str(path[-1])[:80], known(path), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known(path))}"
        return path, f"unknown key {quoted(path[-1])}{where}: {hint}"
    if problem["type"] == "missing":
        return path[:-1], f"key {quoted(_name_of(path))} is missing"
    message = _message(problem, in_list=bool(path) and isinstance(path[-1], int))
    if problem["type"] == "literal_error":  # what is a whole number or a word may be wrong in two ways
        for other in errors:
            if other is not problem and _path_of(other, plain) == path and other["type"] in _OF_NUMBERS:
                message = message.replace(", not", f" or {_wanted(other)}, not", 1)
    return path, message


def _wanted(problem: ErrorDetails) -> str:
    """Description of the expected value, that of pydantic if no plainer one exists."""
    text = str(problem["msg"]).removeprefix("Input should be ").replace("'", "")
    for words, plain in _IN_WORDS.items():
        text = text.replace(words, plain)
    return _WANTED.get(problem["type"], text)


def _message(problem: ErrorDetails, *, in_list: bool) -> str:
    kind, given, hint = problem["type"], problem["input"], ""
    if kind == "value_error":
        return str(problem["msg"]).removeprefix("Value error, ")
    if kind == "string_too_short":
        return "should not be empty"
    if kind == "string_pattern_mismatch":
        return f"{quoted(given)} should be letters, digits, '-', '_' and '.', as the folder of the run is called so"
    wanted = _wanted(problem)
    if kind == "model_type" and in_list:
        wanted = f"a name, or {wanted}"
    elif kind == "string_type" and isinstance(given, int | float) and not isinstance(given, bool):
        hint = f"; in quotes it is text: '{given}'"
    elif kind == "literal_error":
        near = difflib.get_close_matches(str(given)[:80], re.split(r", | or ", wanted), n=1, cutoff=0.5)
        hint = f": did you mean {near[0]}?" if near else ""
    elif wanted[:1].isupper():
        return f"{wanted[0].lower()}{wanted[1:]} (it is {_called(given)})"
    return f"should be {wanted}, not {_called(given)}{hint}"


def _path_of(problem: ErrorDetails, plain: Any) -> Keys:
    """The path of a problem, without the parts by which pydantic names the members of a union."""
    path: list[str | int] = []
    at = plain
    *parts, last = problem["loc"] or (None,)
    for part in parts:
        if _has(at, part):
            path.append(part)
            at = at[part]
    if last is not None and (_has(at, last) or problem["type"] == "missing"):
        path.append(last)
    return tuple(path)


def _name_of(path: Keys) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{cut(part)}" for part in path).lstrip(".")


def _called(given: Any) -> str:
    """A value in words, for messages."""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, int | float):
        return f"the number {given}" if abs(given) < _MOST_WHOLE else quoted(given)
    containers = {type(None): "nothing", dict: "a mapping", list: "a list", tuple: "a list"}
    return containers.get(type(given)) or quoted(str(given))


def checked_settings(
    settings: Mapping[str, Any], kind: Any, *, owner: str, fixed: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Settings validated by the types of a dataclass, ``kind``; lists become tuples where it has tuples.

    Messages call it by its ``owner``: ``readout linear.v1``. Its fields in ``fixed`` are no settings.
    """
    known = sorted({*map(attrgetter("name"), fields(kind))} - fixed) if is_dataclass(kind) else []
    for name in settings:
        if name not in known:
            raise name_not_found(f"setting of {owner}", name, known)
    kinds, found = get_type_hints(kind, include_extras=True) if settings else {}, {}
    for name, value in settings.items():
        try:
            found[name] = TypeAdapter(kinds[name]).validate_json(to_json(value), strict=True)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            reason = f"{reason[0].lower()}{reason[1:]}"
            raise FitError(f"setting {name} of {owner} is {quoted(value)}: {reason}") from None
    return found


class Checked:
    """Base of frozen dataclasses whose fields are settings: each must be as its type demands, or FitError is raised."""

    name: ClassVar[str]
    kind: ClassVar[str] = "readout"

    def __post_init__(self) -> None:
        checked_settings(vars(self), type(self), owner=f"{self.kind} {self.name}")


def check_trust(written: Written, *, granted: bool) -> None:
    """Refuse a file that asks to run Python code of a model, unless that is granted."""
    if granted or not isinstance(written.value, dict | list):
        return
    for key, value in written.value.items() if isinstance(written.value, dict) else enumerate(written.value):
        if key == "trust_remote_code" and value.value is True:
            raise BertologyError(
                f"{written.place_of((key,))}: asks to run Python code that comes with a model: give "
                "--trust-remote-code (trust_remote_code=True) as well if you trust it, or delete this line"
            )
        check_trust(value, granted=granted)


def file_schema(
    model: type[BaseModel], command: str, *, title: str, further: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The schema of a file for ``bertology COMMAND``."""
    schema = model.model_json_schema()
    named = {"const": command, "description": f"The command that the file is for, `bertology {command}`."}
    schema["properties"] = {"command": named, **schema["properties"], **(further or {})}
    # Further paragraphs are about Python.
    schema["description"] = schema["description"].partition("\n")[0]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": f"bertology {title}"}


def or_a_name(schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """The schema of settings that may be written as a bare name, for ``__get_pydantic_json_schema__``."""
    reference = handler(schema)
    full = handler.resolve_ref_schema(reference)
    whole = dict(full)
    full.clear()
    full["anyOf"] = [{"type": "string", "minLength": 1}, whole]
    return reference
