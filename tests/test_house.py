"""House rules that can be checked cheaply: who imports whom, how long modules are, what belongs together."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bertology

ROOT = Path(__file__).resolve().parents[1]
ORDER = (
    "corpora",
    "encoders",
    "pocket",
    "activations",
    "cloze",
    "readouts",
    "measures",
    "attention",
    "probing",
    "results",
    "runner",
    "cli",
)
# The embedded corpus is found by its name, so this one arrow points the other way, inside a function.
BY_NAME = {("corpora", "pocket")}
MOST_LINES = 400
HEAVY = ("torch", "transformers", "spacy", "pandas", "matplotlib", "sklearn")


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Full names of all modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write imports in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def fenced(page: str, language: str) -> list[str]:
    """The blocks of a language in a Markdown page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_every_package_has_its_place_in_the_order() -> None:
    packages = {path.parent.name for path in (ROOT / "bertology").glob("*/__init__.py")}
    assert packages == set(ORDER)


@pytest.mark.parametrize("package", ORDER)
def test_packages_import_only_leftwards(package: str) -> None:
    allowed = {*ORDER[: ORDER.index(package) + 1], *(right for left, right in BY_NAME if left == package)}
    for path in modules(f"bertology/{package}"):
        wrong = {name for name in imported(path) if _package_of(name) not in {None, *allowed}}
        assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


def test_foundations_import_no_package() -> None:
    leaves = (
        "errors _names _files _inputs _cache _nested _page _parent _sealed _settings _temporary _units _yaml "
        "_yaml_settings"
    )
    for name in leaves.split():
        assert not {_package_of(found) for found in imported(ROOT / f"bertology/{name}.py")} - {None}, name


def _package_of(name: str) -> str | None:
    """``encoders`` for ``bertology.encoders.load_encoder``; None for what is in no package of ours."""
    parts = name.split(".")
    return parts[1] if parts[0] == "bertology" and len(parts) > 1 and parts[1] in ORDER else None


def test_the_core_never_imports_probes() -> None:
    wrong = [path for path in modules("bertology") if any(name.split(".")[0] == "probes" for name in imported(path))]
    assert not wrong


def test_probes_import_only_what_a_third_party_may() -> None:
    for path in modules("probes"):
        private = [name for name in imported(path) if name.startswith("bertology.") and "._" in name]
        assert not private, f"{path.name} imports {private}"


def test_modules_are_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules("bertology", "probes")}
    assert lengths
    too_long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MOST_LINES}
    assert not too_long


def probe_files() -> list[str]:
    return [path.stem for path in modules("probes") if not path.stem.startswith("_")]


@pytest.mark.parametrize("name", probe_files())
def test_every_probe_has_a_test_file_and_an_entry_point(name: str) -> None:
    assert (ROOT / f"tests/probes/test_{name}.py").is_file()
    points = project()["project"]["entry-points"]["bertology.probes"]
    assert any(value.split(":")[0] == f"probes.{name}" for value in points.values())


def test_every_entry_point_has_a_probe_file() -> None:
    points = project()["project"]["entry-points"]["bertology.probes"]
    assert {value.split(":")[0] for value in points.values()} == {f"probes.{name}" for name in probe_files()}


@pytest.mark.parametrize(
    "module",
    [
        "bertology",
        *(f"bertology.{name}" for name in ("attention", "cloze", "corpora", "measures", "probing", "results")),
    ],
)
def test_importing_is_light(module: str) -> None:
    code = f"import sys, {module}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


def test_one_version_everywhere() -> None:
    version = project()["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert bertology.__version__ == version == citation["version"]
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_constraints_pin_every_dependency_within_its_range() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pinned[canonicalize_name(name)] = version
    for written in project()["project"]["dependencies"]:
        requirement = Requirement(written)
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} but {version} in constraints.txt"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text) + re.findall(r'src="([^"]+)"', text)
    local = [link for link in links if not link.startswith("http")]
    assert local
    for link in local:
        assert (ROOT / link).exists(), f"{page} links to {link}"


def commands(page: str) -> list[str]:
    """Every ``bertology …`` command line of a page, continued lines joined."""
    lines = [line for block in fenced(page, "bash") for line in block.replace("\\\n", " ").splitlines()]
    parts = [part.strip() for line in lines for part in line.partition("#")[0].split("&&")]
    return [part for part in parts if part.startswith("bertology ")]


@pytest.mark.parametrize("command", sorted({*commands("README.md"), *commands("CONTRIBUTING.md")}))
def test_commands_of_the_pages_parse(command: str) -> None:
    import typer

    from bertology.cli._app import app

    found, words = typer.main.get_command(app), shlex.split(command)[1:]
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    # Takes the options apart and complains of any it does not know; runs nothing.
    assert not found.make_context(command, words).args
