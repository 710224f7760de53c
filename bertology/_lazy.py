"""Packages whose names are imported when first used, so that importing a package is quick."""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

PROVIDED: dict[str, Callable[..., Any]] = {}
"""Functions of later packages behind methods of earlier ones; ``bertology/__init__.py`` puts them here."""


class LazyModule(ModuleType):
    """A module that is imported when something of it is first used, and so are its own modules."""

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(import_module(self.__name__), name)
        except AttributeError as error:
            return _module_of(self.__name__, name, error)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return import_module, (self.__name__,)


def _module_of(package: str, name: str, absent: AttributeError) -> ModuleType:
    """A module of a package; the error ``absent`` where there is none of that name."""
    try:
        return import_module(own := f"{package}.{name}")
    except ModuleNotFoundError as missing:
        raise (absent if missing.name == own else missing) from None


if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq
    import safetensors.torch
    import scipy
    import sklearn
    import spacy.lang
    import spacy.tokens
    import tokenizers
    import torch
    import transformers

    from bertology import _figures as figures
else:
    pd, pa, pq = map(LazyModule, ("pandas", "pyarrow", "pyarrow.parquet"))
    safetensors, scipy, sklearn = map(LazyModule, ("safetensors", "scipy", "sklearn"))
    spacy, tokenizers = map(LazyModule, ("spacy", "tokenizers"))
    torch, transformers = map(LazyModule, ("torch", "transformers"))
    figures = LazyModule("bertology._figures")  # imports matplotlib


def lazy_attributes(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that imports a name only when the name is first used.

    The names are those that the package's ``__init__`` imports from this project under ``if TYPE_CHECKING:``, so that
    each is written once, where type checkers look for it too; and those of the package's own modules.

    >>> __getattr__, __dir__ = lazy_attributes("bertology.readouts")
    >>> __getattr__("FitReport").__module__.startswith("bertology.readouts")
    True
    """

    def get(name: str) -> Any:
        homes = _homes(package)
        if name not in homes:
            return _module_of(package, name, AttributeError(f"module {package!r} has no attribute {name!r}"))
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *_homes(package)})

    return get, listed


@cache
def _homes(package: str) -> dict[str, str]:
    """The module that a package imports each name from under ``if TYPE_CHECKING:``."""
    spec = sys.modules[package].__spec__
    source = getattr(spec and spec.loader, "get_source", lambda _: None)(package)
    if source is None:
        raise ImportError(f"the source of {package} cannot be read: install bertology with its .py files")
    root = package.partition(".")[0]
    return {
        alias.name: statement.module
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module and statement.module.partition(".")[0] == root
        for alias in statement.names
    }
