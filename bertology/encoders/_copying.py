"""Copies of modules that compute what the modules themselves do, replaced forwards and hooks included."""

from __future__ import annotations

import copy
from collections.abc import Iterable, MutableMapping
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, TypeVar

from torch import Tensor, nn

T = TypeVar("T")
_LIBRARIES = frozenset(
    {
        "accelerate",
        "bertology",
        "builtins",
        "collections",
        "functools",
        "math",
        "numpy",
        "peft",
        "torch",
        "transformers",
    }
)


def copied(value: T, modules: Iterable[nn.Module], *, share: bool) -> T:
    """A deep copy of ``value``, whose ``modules`` call each other, and none of the modules that were copied.

    ``copy.deepcopy`` keeps functions as they are: a ``forward`` that was replaced by a function which calls the old one
    would go on calling it in the module that was copied. Functions in attributes and hooks are therefore made anew
    around the copies of what they refer to, by closure, default, ``partial`` or global name.

    Args:
        value: an object with modules.
        modules: all of them.
        share: whether the copies have the same tensors, and not tensors of the same values.
    """
    memo: dict[int, Any] = {}
    for module in modules:
        held = [*module._parameters.values(), *module._buffers.values(), *vars(module).values()]
        for tensor in (one for one in held if isinstance(one, Tensor)):
            if share:
                memo[id(tensor)] = tensor
            elif not tensor.is_leaf:  # such as a pruned weight, which deepcopy refuses
                memo[id(tensor)] = tensor.detach().clone()
    made = copy.deepcopy(value, memo)
    for module in modules:
        _rebind(vars(memo[id(module)]), memo)
    return made


def is_of_library(module: str | None) -> bool:
    """Whether a module, by its name, is of a library that models are made of, and knows no model of a person's own."""
    return module is None or module.partition(".")[0].removeprefix("_") in _LIBRARIES


def _rebind(held: MutableMapping[Any, Any], memo: dict[int, Any]) -> None:
    """Replace the functions among some values, and in dictionaries of hooks among them."""
    for key, value in list(held.items()):
        if isinstance(value, FunctionType | MethodType | partial):
            held[key] = _rebound(value, memo, {})
        elif isinstance(key, str) and key.endswith("_hooks") and isinstance(value, dict):
            _rebind(value, memo)


def _rebound(value: Any, memo: dict[int, Any], done: dict[int, Any]) -> Any:
    """A value that a function may refer to, with copies in the place of modules and tensors that were copied."""
    if isinstance(value, nn.Module | Tensor):
        return memo.get(id(value), value)
    if id(value) in done:
        return done[id(value)]
    done[id(value)] = value  # met again before it is done, as a function that calls itself
    made = value
    if isinstance(value, FunctionType) and not is_of_library(value.__module__):
        made = _rebound_function(value, memo, done)
    elif isinstance(value, MethodType):
        owner, function = _rebound(value.__self__, memo, done), _rebound(value.__func__, memo, done)
        made = value if owner is value.__self__ and function is value.__func__ else MethodType(function, owner)
    elif isinstance(value, partial):
        function, parts, named = (_rebound(part, memo, done) for part in (value.func, value.args, value.keywords))
        made = partial(function, *parts, **named)
    elif type(value) in (tuple, list, dict):
        old = list(value.values() if isinstance(value, dict) else value)
        new = [_rebound(one, memo, done) for one in old]
        if any(a is not b for a, b in zip(old, new, strict=True)):
            made = dict(zip(value, new, strict=True)) if isinstance(value, dict) else type(value)(new)
    done[id(value)] = made
    return made


def _rebound_function(function: FunctionType, memo: dict[int, Any], done: dict[int, Any]) -> FunctionType:
    cells = [
        CellType(new)
        if _is_filled(cell) and (new := _rebound(cell.cell_contents, memo, done)) is not cell.cell_contents
        else cell
        for cell in function.__closure__ or ()
    ]
    known = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    named = {name: new for name, old in known.items() if (new := _rebound(old, memo, done)) is not old}
    defaults, keywords = (_rebound(one, memo, done) for one in (function.__defaults__, function.__kwdefaults__))
    parts = zip(
        (*cells, defaults, keywords),
        (*(function.__closure__ or ()), function.__defaults__, function.__kwdefaults__),
        strict=True,
    )
    if not named and all(new is old for new, old in parts):
        return function
    where = {**function.__globals__, **named} if named else function.__globals__
    made = FunctionType(function.__code__, where, function.__name__, defaults, tuple(cells) or None)
    made.__kwdefaults__, made.__module__, made.__qualname__ = keywords, function.__module__, function.__qualname__
    return made


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises where nothing was put in yet
    except ValueError:
        return False
    return True
