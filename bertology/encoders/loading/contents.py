"""Content of a model in memory: all that decides what it computes, its weights, attributes, hooks and functions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from bertology._files import digest
from bertology.encoders._copying import is_of_library
from bertology.encoders.loading.description import config_content

_NOT_CONTENT = frozenset(
    {"_modules", "_parameters", "_buffers", "_non_persistent_buffers_set", "training", "config", "generation_config"}
    | {"name_or_path", "warnings_issued", "_output_capturing_hooks_installed", "_is_hf_initialized"}
)
"""Attributes that are described on their own, or that change nothing: passes are made in evaluation mode."""
_NOT_CONFIG = frozenset({"use_cache", "architectures", "dtype", "torch_dtype"})
_STANDARD_ATTENTION = frozenset({None, "eager", "sdpa"})
"""Implementations of attention with the same result up to rounding."""
_DEEPEST = 8


@dataclass(frozen=True)
class Description:
    """Describes modules by plain values, which are equal for modules that compute the same."""

    is_strict: bool = True
    """Describe what is of no library (a hook, a function in place of a method, a class) by a number that is drawn anew
    each time, so that a module with it is equal to no other; otherwise by its name."""
    foreign: list[str] = field(default_factory=list)
    """Names of what was of no library in modules that were described."""

    def of_module(self, model: nn.Module, *, without: Collection[str] = ()) -> list[Any]:
        """All that decides what a module computes, but for the parameters ``without``."""
        hooks = torch.nn.modules.module.__dict__
        found: list[Any] = [self._of(hooks.get(f"_global_forward{kind}_hooks"), 0) for kind in ("", "_pre")]
        for name, module in model.named_modules(remove_duplicate=False):
            held = {**module._parameters, **module._buffers}
            weights = {
                key: None if value is None else tensor_content(value)
                for key, value in held.items()
                if (f"{name}.{key}" if name else key) not in without
            }
            facts = sorted((key, self._of_attribute(key, value)) for key, value in vars(module).items())
            # A model that was loaded has private attributes that one which was built has not.
            kept = [(key, fact) for key, fact in facts if fact and not (key[0] == "_" and fact in ("None", "False"))]
            found.append([name, self._of_class(type(module)), kept, sorted(weights.items())])
        config: Any = getattr(model, "config", None)
        if hasattr(config, "to_dict"):
            plain = {key: value for key, value in config.to_dict().items() if key not in _NOT_CONFIG}
            attention = getattr(config, "_attn_implementation", None)
            found += [config_content(plain), "" if attention in _STANDARD_ATTENTION else self._foreign(attention)]
        return found

    def _of_attribute(self, key: str, value: Any) -> Any:
        if key in _NOT_CONTENT:
            return []
        if "_hooks" in key and isinstance(value, dict):
            # By what they do, since their numbers only grow. Those by which transformers gathers what it returns stay.
            return [self._of(one, 0) for one in value.values() if not _is_of_transformers(one)]
        return self._of(value, 0)

    def _of(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | torch.dtype | torch.device):
            return repr(value)
        if depth > _DEEPEST:
            return self._foreign(type(value).__qualname__)
        if isinstance(value, Tensor):
            return tensor_content(value)
        if isinstance(value, Mapping):
            return sorted([repr(key), self._of(one, depth + 1)] for key, one in value.items())
        if isinstance(value, set | frozenset):
            return sorted(repr(self._of(one, depth + 1)) for one in value)
        if isinstance(value, tuple | list):
            return [self._of(one, depth + 1) for one in value]
        if isinstance(value, type):
            return self._of_class(value)
        if isinstance(value, MethodType):
            return [self._of(value.__func__, depth + 1), self._of(value.__self__, depth + 1)]
        if isinstance(value, partial):
            return [self._of(part, depth + 1) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, FunctionType | BuiltinFunctionType):
            name = f"{value.__module__}.{value.__qualname__}"
            is_named = _is_of_transformers(value) or "<" not in name
            return name if is_named and is_of_library(value.__module__) else self._foreign(name)
        if isinstance(value, nn.Module):
            return self._of_class(type(value))  # described where it stands in the model
        if hasattr(value, "to_dict"):
            return self._of(value.to_dict(), depth + 1)
        held = vars(value) if hasattr(value, "__dict__") else None
        kind = self._of_class(type(value))
        return [kind, self._foreign(type(value).__qualname__) if held is None else self._of(held, depth + 1)]

    def _of_class(self, kind: type) -> str:
        """The name of a class of a library, none of whose methods was replaced."""
        name = f"{kind.__module__}.{kind.__qualname__}"
        functions = [value for base in kind.__mro__ for value in vars(base).values() if isinstance(value, FunctionType)]
        are_librarys = all(
            is_of_library(module) for module in (kind.__module__, *(one.__module__ for one in functions))
        )
        return name if are_librarys else self._foreign(name)

    def _foreign(self, name: object) -> str:
        self.foreign.append(str(name))
        return uuid.uuid4().hex if self.is_strict else str(name)


def tensor_content(values: Tensor) -> list[Any]:
    """Type, shape and a hash of the values of a tensor."""
    plain = values.detach().cpu()
    if plain.is_quantized:
        return [str(plain.dtype), *tensor_content(plain.dequantize())]
    flat = plain.contiguous().flatten()
    return [str(plain.dtype), list(plain.shape), digest([flat.view(torch.uint8).numpy().data if len(flat) else b""])]


def tokenizer_content(tokenizer: Any) -> list[Any]:
    """All that decides how a tokenizer reads texts; how they are cut and filled up is decided by who reads them."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    left = {key: value for key, value in content.items() if key not in ("truncation", "padding")}
    return [left, dict(tokenizer.special_tokens_map), tokenizer.model_max_length]


def content_digest(content: list[Any]) -> str:
    """Hash of a description."""
    return digest([repr(content).encode()])


def _is_of_transformers(function: Any) -> bool:
    return isinstance(function, FunctionType) and function.__module__.startswith("transformers.")
