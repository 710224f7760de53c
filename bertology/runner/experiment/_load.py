"""From a file to an experiment: what it includes, what the command line changes, and what is wrong with it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bertology._files import real_path
from bertology.errors import BertologyError
from bertology.runner.experiment._settings import (
    CorpusSettings,
    Experiment,
    ModelSettings,
    OutputSettings,
    StatisticsSettings,
    TaskSettings,
)
from bertology.runner.experiment._yaml import Place, Written, parse_yaml, read_yaml

_INCLUDE = "include"
_STEP = re.compile(r"(?P<key>[A-Za-z_]\w*)(?P<places>(?:\[\d+\])*)")
_PARTS: dict[str, type[BaseModel]] = {
    "models": ModelSettings,
    "corpora": CorpusSettings,
    "tasks": TaskSettings,
    "statistics": StatisticsSettings,
    "outputs": OutputSettings,
}
_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list, such as [a, b]",
    "model_type": "a mapping of keys to values",
    "dict_type": "a mapping of keys to values",
}


def load_experiment(path: str | Path, *, changes: Sequence[str] = ()) -> Experiment:
    """The experiment that a YAML file describes.

    Args:
        path: the file.
        changes: settings to replace, each as ``key=value``: ``seeds=3``, ``models[0].dtype=bfloat16``.

    Raises:
        BertologyError: no such file, or something in it is not as it should be; names file, line and key.
    """
    written = _with_includes(Path(path), ())
    for change in changes:
        written = _changed(written, change)
    try:
        return Experiment.model_validate(written.plain())
    except ValidationError as error:
        raise explained(error.errors(), written, _nearest) from None


def _with_includes(path: Path, above: tuple[Path, ...]) -> Written:
    """A file over what it includes: mappings are put together key by key, all else is replaced."""
    here = real_path(path)
    if here in above:
        circle = " → ".join(str(found) for found in (*above[above.index(here) :], here))
        raise BertologyError(f"{path}: includes itself ({circle})")
    written = read_yaml(path)
    if written.value is None:
        raise BertologyError(f"{path}: empty; an experiment has name, models, corpora and tasks")
    if not isinstance(written.value, dict):
        raise BertologyError(f"{written.place}: an experiment is a mapping of keys to values, such as 'name: trial'")
    included = written.value.pop(_INCLUDE, None)
    if included is None:
        return written
    names = included.value if isinstance(included.value, list) else [included]
    base: Written | None = None
    for name in names:
        if not isinstance(name.value, str) or not name.value:
            raise BertologyError(f"{name.place}: include: should be the path of a file, or a list of some")
        file = path.parent / name.value
        if not file.is_file():
            raise BertologyError(f"{name.place}: include: no file {file}; paths start from the folder of {path.name}")
        found = _with_includes(file, (*above, here))
        base = found if base is None else _over(found, base)
    return written if base is None else _over(written, base)


def _over(upper: Written, lower: Written) -> Written:
    if not isinstance(upper.value, dict) or not isinstance(lower.value, dict):
        return upper
    values = dict(lower.value)
    for key, found in upper.value.items():
        values[key] = _over(found, values[key]) if key in values else found
    return Written(upper.place, values, {**lower.key_places, **upper.key_places})


def _changed(written: Written, change: str) -> Written:
    key, separator, text = change.partition("=")
    place = Place(f"--set {change}")
    if not separator:
        raise BertologyError(f"{place}: write key=value, such as seeds=3 or models[0].dtype=bfloat16")
    steps: list[str | int] = []
    for part in key.strip().split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            raise BertologyError(f"{place}: {key.strip()!r} is no key; write it as models[0].dtype")
        steps += [match["key"], *(int(number) for number in re.findall(r"\d+", match["places"]))]
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
        raise BertologyError(f"{place}: {step!r} is a key, but there is {_called(into.plain())} in its place")
    below = _put(found.get(step, Written(place, None)), rest, value, place)
    return Written(into.place, {**found, step: below}, {**into.key_places, step: place if not rest else below.place})


def explained(
    errors: Sequence[ErrorDetails], written: Written, nearest: Callable[[tuple[str | int, ...]], str]
) -> BertologyError:
    """One line on the first of the problems, unknown keys before all else: they may be why others are there.

    Args:
        errors: what pydantic found.
        written: what it found it in.
        nearest: says of the path to an unknown key what may have been meant.
    """
    first = min(errors, key=lambda found: found["type"] != "extra_forbidden")
    # Where a value may be of several kinds, the kind that it fits furthest is the one that was meant.
    same = [found for found in errors if found["loc"][:1] == first["loc"][:1] and found["type"] != "missing"]
    deepest = max(same, key=lambda found: len(_path_of(found, written)), default=first)
    problem = first if first["type"] in ("extra_forbidden", "missing") else deepest
    path = _path_of(problem, written)
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    kind, given = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        where = f" in {_name_of(path[:-1])}" if path[:-1] else ""
        return BertologyError(f"{written.place_of(path)}: unknown key {path[-1]!r}{where}: {nearest(path)}")
    if kind == "missing":
        return BertologyError(f"{written.place_of(path[:-1])}: key {key!r} is missing")
    message = _message(problem, given, in_list=bool(path) and isinstance(path[-1], int))
    return BertologyError(f"{written.place_of(path)}: {key + ': ' if key else ''}{message}")


def _message(problem: ErrorDetails, given: Any, *, in_list: bool) -> str:
    kind = problem["type"]
    if kind == "value_error":
        return str(problem["msg"]).removeprefix("Value error, ")
    if kind in _WANTED:
        quoted = f"; in quotes it is text: '{given}'" if kind == "string_type" and _is_number(given) else ""
        wanted = "a name, or a mapping of keys to values" if kind == "model_type" and in_list else _WANTED[kind]
        return f"should be {wanted}, not {_called(given)}{quoted}"
    if kind == "literal_error":
        expected = str(problem.get("ctx", {}).get("expected", "")).replace("'", "")
        near = difflib.get_close_matches(str(given), re.split(r", | or ", expected), n=1, cutoff=0.5)
        return f"should be {expected}, not {_called(given)}{f': did you mean {near[0]}?' if near else ''}"
    if kind == "string_pattern_mismatch":
        return f"{given!r} should be letters, digits, '-', '_' and '.', as the folder of the run is called so"
    text = str(problem["msg"])
    return f"{text[0].lower()}{text[1:]} (it is {_called(given)})"


def _path_of(problem: ErrorDetails, written: Written) -> tuple[str | int, ...]:
    """Where a problem is, without the parts by which pydantic tells the members of a union apart."""
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


def _nearest(path: tuple[str | int, ...]) -> str:
    part = _PARTS.get(str(path[0])) if len(path) > 1 else Experiment
    return nearest_key(str(path[-1]), [*(part or Experiment).model_fields, *([_INCLUDE] if len(path) == 1 else [])])


def nearest_key(key: str, known: Sequence[str]) -> str:
    """Which of the known keys an unknown one may have been meant to be."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _name_of(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float)


def _called(given: Any) -> str:
    """A value as a person calls it."""
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
    text = str(given)
    return repr(text if len(text) <= 40 else text[:37] + "…")
