"""Settings from a strict subset of YAML or the command line, checked against their types; errors are one line.

In this YAML text is text: of the words that YAML 1.1 takes for something else, only ``true``, ``false`` and ``null``
are left, so that ``no`` is a word, ``2019-06-02`` a text, and ``1e-3`` the number it looks like. Tags are refused, and
so are keys written twice, numbers that are not finite or beyond 64 bits, and aliases that unfold into more than a
person would write. Mappings know the places of their keys (:class:`Placed`).
"""

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, to_json

from bertology._files import opened
from bertology._names import check_name
from bertology.errors import BertologyError, FitError, cut, quoted

Text = Annotated[str, Field(strict=True, min_length=1)]
Whole = Annotated[int, Field(strict=True)]
Count = Annotated[Whole, Field(ge=1)]
Natural = Annotated[Whole, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Truth = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(strict=True, pattern=r"^[\w][\w.-]*$", max_length=100)]
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
    "string_too_short": "a text that is not empty",
    "string_pattern_mismatch": "letters, digits, '-', '_' and '.', as a folder is called so",
}
"""Descriptions of expected values, by pydantic's type of the error, where its own are not plain."""
_WORDS = {"less than or equal to": "at most", "greater than or equal to": "at least", "greater than": "over", "'": ""}
_MOST_BYTES = 1 << 20
_MOST_VALUES = 100_000
_MOST_WHOLE = 2.0**63
_COMMAND = "command"
_OF_VALIDATOR = "Value error, "  # before the messages of validators of our own
_PLAIN = "tag:yaml.org,2002:"
_SCALARS = {
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "float": (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", "-+.0123456789"),
}


@dataclass(frozen=True)
class Place:
    """The place of a value: a file and line, or an option."""

    source: str  # the file, or the option of the command line
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


class Placed(dict[str, Any]):
    """A mapping that knows its place and those of its keys; the values are plain, further mappings placed."""

    def __init__(self, values: Mapping[str, Any], place: Place, places: Mapping[str, Place]) -> None:
        super().__init__(values)
        self.place, self.places = place, dict(places)

    def place_of(self, path: Keys) -> Place:
        """The place of the value at ``path``, or of its deepest ancestor that has one."""
        place: Place = self.place
        at: Any = self
        for step in path:
            place = getattr(at, "places", {}).get(step, getattr(at, "place", place))
            at = at[step] if _has(at, step) else None
        return place


class _PlacedList(list[Any]):
    """A list with the places of its values."""

    places: Mapping[int, Place]


class _Loader(yaml.SafeLoader):
    """Makes plain values and :class:`Placed` mappings; the patterns above decide the types of scalars."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as in the base class
    yaml_constructors: ClassVar[dict[str | None, Any]] = {None: yaml.SafeLoader.construct_undefined}
    place = Place("")

    def place_at(self, node: yaml.Node) -> Place:
        """The place of a node."""
        return self.place if self.place.line is None else Place(self.place.source, node.start_mark.line + 1)


class _Dumper(yaml.SafeDumper):
    """Writes what :class:`_Loader` reads back as it was: texts that look like numbers in quotes."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as in the base class

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Refused(yaml.MarkedYAMLError):
    """What is YAML, but not of the strict subset."""


def _refusal(at: Any, problem: str) -> _Refused:
    return _Refused(problem=problem, problem_mark=at.start_mark)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Placed:
    found = Placed({}, loader.place_at(node), {})
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise _refusal(key_node, "a key should be a plain word")
        key = _text(loader, key_node)
        if key in found:
            first = found.places[key].line
            raise _refusal(key_node, f"key {quoted(key)} is written twice (first in line {first})")
        found[key], found.places[key] = loader.construct_object(value_node, deep=True), loader.place_at(key_node)
    return found


def _sequence(loader: _Loader, node: yaml.SequenceNode) -> _PlacedList:
    found = _PlacedList(loader.construct_object(one, deep=True) for one in node.value)
    found.places = dict(enumerate(map(loader.place_at, node.value)))
    return found


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    text = str(node.value)
    if any("\ud800" <= letter <= "\udfff" for letter in text) or "\0" in text:
        raise _refusal(node, f"{quoted(text)} holds what is no character of a text (\\0, or half of a pair)")
    return text


def _scalar(loader: _Loader, node: yaml.ScalarNode) -> Any:
    kind, text = node.tag.removeprefix(_PLAIN), str(node.value)
    if not re.fullmatch(_SCALARS[kind][0], text):  # a tag such as !!int may stand before any text
        raise _refusal(node, f"{quoted(text)} is not what its tag !!{kind} says")
    if kind in ("null", "bool"):
        return None if kind == "null" else text.lower() == "true"
    number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(number) or (kind == "int" and abs(number) >= _MOST_WHOLE):
        raise _refusal(node, f"{quoted(text)} is not a finite number, or beyond what 64 bits hold")
    return int(text) if kind == "int" else number


for _kind, (_pattern, _first) in _SCALARS.items():
    _Loader.add_constructor(_PLAIN + _kind, _scalar)
    for _tool in (_Loader, _Dumper):
        _tool.add_implicit_resolver(_PLAIN + _kind, re.compile(rf"^(?:{_pattern})$"), ["", *_first])
_Loader.add_constructor(_PLAIN + "map", _mapping)
_Loader.add_constructor(_PLAIN + "seq", _sequence)
_Loader.add_constructor(_PLAIN + "str", _text)


def _n_values(node: yaml.Node, counts: dict[int, float]) -> float:
    """Number of values that a node unfolds into; infinite where an alias stands in what it names."""
    if id(node) not in counts:
        counts[id(node)] = math.inf
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        below = (one for part in parts for one in (part if isinstance(part, tuple) else (part,)))
        counts[id(node)] = 1 + sum(_n_values(one, counts) for one in below)
    return counts[id(node)]


def parse_yaml(text: str, place: Place) -> Any:
    """The value of a YAML text; ``place`` is its place in messages, with line 1 where lines are to be named."""
    loader = None
    try:
        loader = _Loader(text)
        loader.place = place
        if (node := loader.get_single_node()) is None:
            return None
        if _n_values(node, {}) > _MOST_VALUES:
            raise _refusal(node, f"aliases make over {_MOST_VALUES:,} values of it: write out what is meant")
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(place.source, mark.line + 1) if mark and place.line else place
        problem = cut(str(error.problem or error.context), most=300)
        if isinstance(error, _Refused):
            raise BertologyError(f"{place}: {problem}") from None
    except RecursionError:
        problem = "nested too deeply"
    except (yaml.YAMLError, ValueError) as error:  # a ValueError of an escape such as "\U00110000"
        problem = " ".join(str(error).split())
    finally:
        if loader is not None:
            loader.dispose()
    raise BertologyError(f"{place}: not valid YAML ({problem})")


def to_yaml(plain: Any) -> str:
    """YAML that :func:`parse_yaml` reads back as ``plain``."""
    return str(yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def read_yaml(path: Path, *, what: str, example: str, command: str | None = None) -> Placed:
    """The mapping that a YAML file holds, without its key ``command``, which is checked; empty where the file is.

    Errors call it ``what`` and give an ``example`` of a setting.
    """
    with opened(path, missing=f"it should be {what} in YAML") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise BertologyError(f"{path}: over {_MOST_BYTES:,} bytes, which are too many for {what}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BertologyError(f"{path}: not UTF-8 text ({error}); it should be {what} in YAML") from None
    place = Place(str(path), 1)
    found = parse_yaml(text, place)
    found = Placed({}, place, {}) if found is None else found
    if not isinstance(found, Placed):
        raise BertologyError(f"{place}: {what} is a mapping of keys to values, such as '{example}'")
    stated = command if command is None else found.pop(_COMMAND, command)
    if stated != command:
        problem = f"this is a file for `bertology {cut(str(stated))}`, and was given to `bertology {command}`"
        raise BertologyError(f"{found.places[_COMMAND]}: {problem}")
    return found


def checked(model: type[Model], settings: Mapping[str, Any], *, more: Sequence[str] = (), where: str = "") -> Model:
    """Settings as a pydantic model, or an error with file, line and key, or else ``where`` they were given.

    Files may have ``more`` keys at their top, which messages name as well.
    """
    try:
        return model.model_validate(plain(settings))
    except ValidationError as error:
        path, message = problem_of(error.errors(), settings, model, more)
    key = "" if message.startswith(("unknown key ", "key ")) else _name_of(path)
    place = settings.place_of(path) if isinstance(settings, Placed) else where
    raise BertologyError(f"{place}: {key + ': ' if key else ''}{message}")


def plain(value: Any) -> Any:
    """Settings without their places."""
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return list(map(plain, value)) if isinstance(value, list) else value


def changed(settings: Mapping[str, Any], changes: Sequence[str]) -> Placed:
    """Settings with some values replaced, each as ``key=value``: ``seeds=3``, ``models[0].dtype=bfloat16``."""
    found = merged(settings, {})
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
        found = _put(found, steps, parse_yaml(text, place), place)
    return found


def _put(into: Any, steps: Sequence[str | int], value: Any, place: Place) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        values = list(into) if isinstance(into, list) else []
        if step >= len(values):
            raise BertologyError(f"{place}: there is no [{step}]; the list has {len(values)}, numbered from 0")
        values[step] = _put(values[step], rest, value, place)
        return values
    # A bare name stands for a mapping with nothing but the name.
    mapping = {"name": into} if isinstance(into, str) else {} if into is None else into
    if not isinstance(mapping, dict):
        raise BertologyError(f"{place}: {quoted(step)} is a key, but there is {_called(into)} in its place")
    put = Placed({step: _put(mapping.get(step), rest, value, place)}, place, {step: place})
    return merged(put, mapping, deep=False)


def merged(upper: Mapping[str, Any], lower: Mapping[str, Any], *, deep: bool = True) -> Placed:
    """``upper`` over ``lower``: mappings are put together key by key, if ``deep`` at every level."""
    values = dict(lower)
    for key, value in upper.items():
        are_both = deep and isinstance(value, Mapping) and isinstance(values.get(key), Mapping)
        values[key] = merged(value, values[key]) if are_both else value
    places = {**getattr(lower, "places", {}), **getattr(upper, "places", {})}
    return Placed(values, getattr(upper, "place", getattr(lower, "place", Place("settings"))), places)


def _has(value: Any, step: str | int) -> bool:
    """Whether a mapping has a key, or a list a place."""
    is_in_list = isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)
    return is_in_list or (isinstance(value, Mapping) and step in value)


def problem_of(
    errors: Sequence[ErrorDetails], given: Any, model: type[BaseModel], more: Sequence[str] = ()
) -> tuple[Keys, str]:
    """The path of the first problem in ``given`` settings, and its description; unknown keys come first."""
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    path = _path_of(first, given)
    if first["type"] == "extra_forbidden":
        where = f" in {_name_of(path[:-1])}" if path[:-1] else ""
        for step in (step for step in path[:-1] if isinstance(step, str)):
            model = next(_models_in(model.model_fields[step].annotation), model)
        known = [*model.model_fields, *(() if path[1:] else more)]
        near = difflib.get_close_matches(str(path[-1])[:80], known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        return path, f"unknown key {quoted(path[-1])}{where}: {hint}"
    if first["type"] == "missing":
        return path[:-1], f"key {quoted(_name_of(path))} is missing"
    # Of a union of types those that a value fits furthest are meant.
    paths = {_path_of(one, given): None for one in errors if one["loc"][:1] == first["loc"][:1]}
    path = max(paths, key=len)
    same = [one for one in errors if _path_of(one, given) == path and one["type"] != "missing"] or [first]
    wanted = dict.fromkeys(_wanted(one) for one in same)
    own = [text for text in wanted if not text[:1].isupper()]
    if not own:  # a message that is a sentence
        text, *_ = wanted
        if not text.startswith(_OF_VALIDATOR):
            text = f"{text[0].lower()}{text[1:]} (it is {_called(same[0]['input'])})"
        return path, text.removeprefix(_OF_VALIDATOR)
    return path, f"should be {' or '.join(own)}, not {_called(same[0]['input'])}"


def _wanted(problem: ErrorDetails) -> str:
    """The expected value in words, or a whole sentence."""
    text = str(problem["msg"])
    if text.startswith("Input should be "):
        text = text.removeprefix("Input should be ")
        for words, plain_words in _WORDS.items():
            text = text.replace(words, plain_words)
    return _WANTED.get(problem["type"], text)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models of settings in a type, such as a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _path_of(problem: ErrorDetails, given: Any) -> Keys:
    """The path of a problem, without the parts by which pydantic names the members of a union."""
    path, at = list[str | int](), given
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
    containers = {type(None): "nothing", bool: str(given).lower(), list: "a list", tuple: "a list"}
    return "a mapping" if isinstance(given, Mapping) else containers.get(type(given)) or quoted(given)


def checked_settings(
    settings: Mapping[str, Any], kind: Any, *, owner: str, fixed: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Settings validated by the types of a dataclass, ``kind``; lists become tuples where it has tuples.

    Messages call it by its ``owner``: ``readout linear.v1``. Its fields in ``fixed`` are no settings.
    """
    known = sorted({*map(attrgetter("name"), fields(kind))} - fixed) if is_dataclass(kind) else []
    for name in settings:
        check_name(f"setting of {owner}", name, known)
    kinds, found = get_type_hints(kind, include_extras=True) if settings else {}, {}
    for name, value in settings.items():
        try:
            found[name] = TypeAdapter(kinds[name]).validate_json(to_json(value), strict=True)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            reason = f"{reason[0].lower()}{reason[1:]}"
            raise FitError(f"setting {name} of {owner} is {quoted(value)}: {reason}") from None
    return found


class Settings(BaseModel):
    """Base of settings of a file, which are described where they stand."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class OrName(Settings):
    """Settings that may be written as a bare name."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = handler(schema)
        full = handler.resolve_ref_schema(reference)
        whole = dict(full)
        full.clear()
        full["anyOf"] = [{"type": "string", "minLength": 1}, whole]
        return reference


class Checked:
    """Base of frozen dataclasses whose fields are settings: each must be as its type demands, or FitError is raised."""

    name: ClassVar[str]
    kind: ClassVar[str] = "readout"

    def __post_init__(self) -> None:
        checked_settings(vars(self), type(self), owner=f"{self.kind} {self.name}")


def check_trust(settings: Any, *, granted: bool, place: Place | None = None) -> None:
    """Refuse a file that asks to run Python code of a model, unless that is granted."""
    if granted or not isinstance(settings, Mapping | list):
        return
    for key, value in settings.items() if isinstance(settings, Mapping) else enumerate(settings):
        at = getattr(settings, "places", {}).get(key, place)
        if key == "trust_remote_code" and value is True:
            raise BertologyError(
                f"{at}: asks to run Python code that comes with a model: give "
                "--trust-remote-code (trust_remote_code=True) as well if you trust it, or delete this line"
            )
        check_trust(value, granted=granted, place=at)


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
