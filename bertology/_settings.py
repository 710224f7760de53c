"""Settings as a file gives them, checked against the types that they should be of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from bertology._names import name_not_found
from bertology.errors import FitError, quoted


def checked_settings(settings: Mapping[str, Any], kind: Any, *, owner: str, fixed: frozenset[str]) -> dict[str, Any]:
    """Settings as a dataclass has them: what a file writes as a list may be a tuple there.

    Args:
        settings: by name.
        kind: the dataclass.
        owner: what people call it: ``readout linear.v1``.
        fixed: those of its fields that are no settings.

    Raises:
        NameNotFoundError: it has no such setting.
        FitError: a setting is of another kind than it should be.
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
