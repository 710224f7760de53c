"""Schemas of YAML files: those of ``experiments/`` are the present ones, and take every file there."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bertology._settings import read_yaml
from bertology.finetuning import grid_schema
from bertology.landscapes import landscape_schema
from bertology.pocket import recipe_schema
from bertology.primer import claims_schema
from bertology.runner.experiment import experiment_schema

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
SCHEMAS: Mapping[str, tuple[str, Callable[[], Mapping[str, Any]]]] = {
    "run": ("experiment", experiment_schema),
    "finetune": ("finetune", grid_schema),
    "landscape": ("landscape", landscape_schema),
    "pretrain": ("pretrain", recipe_schema),
    "primer": ("primer", claims_schema),
}
"""By command the name of the file in ``experiments/``, and what makes it."""


def mistakes(command: str, plain: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMAS[command][1]()).iter_errors(plain)]


@pytest.mark.parametrize("command", SCHEMAS)
def test_the_schema_beside_the_files_is_the_present_one(command: str) -> None:
    name, make = SCHEMAS[command]
    path = EXPERIMENTS / f"{name}.schema.json"
    assert json.loads(path.read_text()) == make(), f"bertology schema {command} > {path}"
    Draft202012Validator.check_schema(make())


@pytest.mark.parametrize("command", SCHEMAS)
def test_a_schema_documents_every_field_and_allows_no_other(command: str) -> None:
    schema = SCHEMAS[command][1]()
    parts = [schema, *(part["anyOf"][1] if "anyOf" in part else part for part in schema.get("$defs", {}).values())]
    assert not [name for part in parts for name, about in part["properties"].items() if not about.get("description")]
    assert all(part["additionalProperties"] is False for part in parts)
    assert schema["properties"]["command"]["const"] == command


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_names_the_schema_that_takes_it(path: Path) -> None:
    plain = read_yaml(path, what="an experiment", example="")
    command = plain.get("command", "run")
    first, *_ = path.read_text().splitlines()
    assert first == f"# yaml-language-server: $schema={SCHEMAS[command][0]}.schema.json"
    assert mistakes(command, plain) == []
    (other,) = mistakes(command, {**plain, "modles": ["pocket"]})
    assert "modles" in other


@pytest.mark.parametrize(
    ("command", "changes", "message"),
    [
        ("finetune", {"tasks": [{"corpus": "pocket"}]}, r"is not valid under any of the given schemas"),
        ("finetune", {"runs": [{"layers": "all"}]}, r"'id' is a required property"),
        ("finetune", {"epochs": 0}, r"0 is less than the minimum of 1"),
        ("finetune", {"corpus": 3}, r"3 is not of type 'string'"),
        ("landscape", {"models": ["a", "b", "c", "d"]}, r"is too long"),
        ("landscape", {"dtype": "float16"}, r"'float16' is not one of"),
        ("pretrain", {"learning_rates": [[0, 0, 0]]}, r"is too long|Expected at most 2"),
    ],
)
def test_a_mistake_is_found(command: str, changes: Mapping[str, Any], message: str) -> None:
    least: Mapping[str, Mapping[str, Any]] = {
        "finetune": {"name": "trial", "tasks": ["pos", {"name": "ner"}], "runs": [{"id": "tuned"}]},
        "landscape": {"name": "trial", "models": ["pocket"]},
        "pretrain": {},
    }
    assert mistakes(command, least[command]) == []
    (found,) = mistakes(command, {**least[command], **changes})
    assert re.search(message, found)
