"""JSON Schemas of the YAML files that commands read, by which editors complete and check them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


def file_schema(
    model: type[BaseModel], command: str, *, title: str, further: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The schema of a file for ``bertology COMMAND``.

    Args:
        model: what the file holds.
        command: that reads it.
        title: what such a file is, without the name of the program.
        further: by key the schemas of what a file may have besides the fields of the model.
    """
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
