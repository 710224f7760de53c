"""Settings from YAML or the command line, checked against the types that they should have; errors are one line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, to_json

from bertology._names import name_not_found
from bertology._yaml import Place, Written, parse_yaml
from bertology.errors import BertologyError, FitError, cut, quoted

Text = Annotated[str, Field(strict=True, min_length=1)]
Whole = Annotated[int, Field(strict=True)]
Truth = Annotated[bool, Field(strict=True)]
Model = TypeVar("Model", bound=BaseModel)
Path = tuple[str | int, ...]
"""The keys and numbers that lead to a setting."""

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


def checked(model: type[Model], written: Written, *, known: Callable[[Path], Sequence[str]] | None = None) -> Model:
    """Settings from a file as a pydantic model.

    Args:
        model: the model that validates them.
        written: the content of the file.
        known: returns the valid keys next to an unknown one from its path; those of the model when left out.

    Raises:
        BertologyError: one is missing, unknown or not as it should be; names file, line and key.
    """
    try:
        return model.model_validate(written.plain())
    except ValidationError as error:
        raise _explained(error.errors(), written, known or (lambda _: list(model.model_fields))) from None


def changed(written: Written, changes: Sequence[str]) -> Written:
    """Settings with some values replaced, each as ``key=value``: ``seeds=3``, ``models[0].dtype=bfloat16``.

    Raises:
        BertologyError: a change is not of that form, or its key does not exist.
    """
    for change in changes:
        written = _changed(written, change)
    return written


def _changed(written: Written, change: str) -> Written:
    key, separator, text = change.partition("=")
    place = Place(f"--set {cut(change)}")
    if not separator:
        raise BertologyError(f"{place}: write key=value, such as seeds=3 or models[0].dtype=bfloat16")
    steps: list[str | int] = []
    for part in key.strip().split("."):
        match = _STEP.fullmatch(part)
        if match is None or len(steps) > _MOST_STEPS:
            raise BertologyError(f"{place}: {quoted(key.strip())} is no key; write it as models[0].dtype")
        steps += [match["key"], *(int(number) for number in re.findall(r"[0-9]+", match["places"]))]
    return _put(written, steps, parse_yaml(text, place), place)


def _put(into: Written, steps: Sequence[str | int], value: Written, place: Place) -> Written:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        if not isinstance(into.value, list) or step >= len(into.value):
            size = len(into.value) if isinstance(into.value, list) else 0
            raise BertologyError(f"{place}: there is no [{step}]; the list has {size}, numbered from 0")
        values = list(into.value)
        values[step] = _put(values[step], rest, value, place)
        return Written(into.place, values)
    found = into.value
    if isinstance(found, str):
        # A bare name stands for a mapping with nothing but the name.
        found = {"name": into}
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise BertologyError(f"{place}: {quoted(step)} is a key, but there is {_called(into.plain())} in its place")
    below = _put(found.get(step, Written(place, None)), rest, value, place)
    return Written(into.place, {**found, step: below}, {**into.key_places, step: place if not rest else below.place})


def _explained(
    errors: Sequence[ErrorDetails], written: Written, known: Callable[[Path], Sequence[str]]
) -> BertologyError:
    """One line on the first problem; unknown keys come first, since they may cause the others."""
    first = min(errors, key=lambda found: found["type"] != "extra_forbidden")
    # Of a union of types, the type that a value fits furthest is the one that was meant.
    same = [found for found in errors if found["loc"][:1] == first["loc"][:1] and found["type"] != "missing"]
    deepest = max(same, key=lambda found: len(_path_of(found, written)), default=first)
    problem = first if first["type"] in ("extra_forbidden", "missing") else deepest
    path = _path_of(problem, written)
    key = _name_of(path)
    kind, given = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        where = f" in {_name_of(path[:-1])}" if path[:-1] else ""
        return BertologyError(
            f"{written.place_of(path)}: unknown key {quoted(path[-1])}{where}: {_nearest(str(path[-1]), known(path))}"
        )
    if kind == "missing":
        return BertologyError(f"{written.place_of(path[:-1])}: key {quoted(key)} is missing")
    message = _message(problem, given, in_list=bool(path) and isinstance(path[-1], int))
    return BertologyError(f"{written.place_of(path)}: {key + ': ' if key else ''}{message}")


def _message(problem: ErrorDetails, given: Any, *, in_list: bool) -> str:
    kind = problem["type"]
    if kind == "value_error":
        return str(problem["msg"]).removeprefix("Value error, ")
    if kind in _WANTED:
        number = isinstance(given, int | float) and not isinstance(given, bool)
        hint = f"; in quotes it is text: '{given}'" if kind == "string_type" and number else ""
        wanted = "a name, or a mapping of keys to values" if kind == "model_type" and in_list else _WANTED[kind]
        return f"should be {wanted}, not {_called(given)}{hint}"
    if kind == "literal_error":
        expected = str(problem.get("ctx", {}).get("expected", "")).replace("'", "")
        near = difflib.get_close_matches(str(given)[:80], re.split(r", | or ", expected), n=1, cutoff=0.5)
        return f"should be {expected}, not {_called(given)}{f': did you mean {near[0]}?' if near else ''}"
    if kind == "string_pattern_mismatch":
        return f"{quoted(given)} should be letters, digits, '-', '_' and '.', as the folder of the run is called so"
    text = str(problem["msg"])
    return f"{text[0].lower()}{text[1:]} (it is {_called(given)})"


def _path_of(problem: ErrorDetails, written: Written) -> Path:
    """The path of a problem, without the parts by which pydantic names the members of a union."""
    path: list[str | int] = []
    at: Any = written.plain()
    parts = list(problem["loc"])
    for number, part in enumerate(parts):
        inside = isinstance(at, dict) and part in at
        inside = inside or (isinstance(at, list) and isinstance(part, int) and part < len(at))
        names_missing = problem["type"] == "missing" and number == len(parts) - 1
        if inside or names_missing:
            path.append(part)
            at = at[part] if inside else None
    return tuple(path)


def _nearest(key: str, known: Sequence[str]) -> str:
    """A hint at the known key most similar to an unknown one."""
    near = difflib.get_close_matches(key[:80], known, n=1, cutoff=0.4)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _name_of(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{cut(part)}" for part in path).lstrip(".")


def _called(given: Any) -> str:
    """A value in words, for messages."""
    if given is None:
        return "nothing"
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, int | float):
        return f"the number {given}"
    if isinstance(given, dict):
        return "a mapping"
    if isinstance(given, list | tuple):
        return "a list"
    return quoted(str(given))


def checked_settings(settings: Mapping[str, Any], kind: Any, *, owner: str, fixed: frozenset[str]) -> dict[str, Any]:
    """Settings validated by the types of a dataclass; lists become tuples where it has tuples.

    Args:
        settings: by name.
        kind: the dataclass.
        owner: its name in messages: ``readout linear.v1``.
        fixed: its fields that are no settings.

    Raises:
        NameNotFoundError: it has no such setting.
        FitError: a setting has the wrong type.
    """
    known = [field.name for field in fields(kind) if field.name not in fixed] if is_dataclass(kind) else []
    for name in settings:
        if name not in known:
            raise name_not_found(f"setting of {owner}", name, known)
    kinds = get_type_hints(kind) if settings else {}
    return {name: _checked(owner, name, value, kinds[name]) for name, value in settings.items()}


def _checked(owner: str, name: str, value: Any, kind: Any) -> Any:
    try:
        return TypeAdapter(kind).validate_json(to_json(value), strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise FitError(f"setting {name} of {owner} is {quoted(value)}: {reason[0].lower()}{reason[1:]}") from None
