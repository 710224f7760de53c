"""House rules that can be checked cheaply: who imports whom, how large the whole is, what belongs together."""

import ast
import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bertology

ROOT = Path(__file__).resolve().parents[1]
ORDER = (
    "measures",
    "corpora",
    "pocket",
    "encoders",
    "activations",
    "readouts",
    "results",
    "probing",
    "families",
    "cloze",
    "attention",
    "compression",
    "geometry",
    "causal",
    "finetuning",
    "landscapes",
    "comparison",
    "runner",
    "primer",
    "explore",
    "cli",
)
"""Packages of ``bertology``: each imports only from those before it, and from the leaf modules."""
ABOVE_ALL = ("__init__", "__main__", "_api", "_compare", "_explain", "parsing")
"""Modules of ``bertology/`` itself that may import any package; all others there are leaves, which import none."""
LIMITS = {"lines": 52_000, "files": 300, "exported names": 320, "lines of tests": 45_000}
"""Of ``bertology/`` and ``probes/`` together."""
REACHED = {"lines": 66_025}
"""What is reached on the way to the limit that is not met; this number only ever becomes smaller."""
ADDED = {"lines": 12_690, "lines of tests": 7_183}
"""What may be added to these numbers: by the primer with its tasks and trainings 3,700 lines and 1,550 of tests, by
explanations of any decision 2,500 and 1,600, by speed 500, by what people type, name and print 2,500 and
1,500, by further questions 3,500 and 2,533."""
HEAVY = ("torch", "transformers", "spacy", "pandas", "matplotlib", "sklearn")


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Full names of all that a file imports: in functions, by string and for type checkers (lazy names) as well."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level and path.parent == ROOT / "probes":
                continue  # modules that several probes share: the folder is installed under another name
            assert not node.level, f"{path}: write imports in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            texts = (one.value for part in node.args for one in ast.walk(part) if isinstance(one, ast.Constant))
            yield from (text for text in texts if isinstance(text, str) and text.partition(".")[0] == "bertology")


@cache
def module_names() -> dict[str, Path]:
    """Every module and package under ``bertology`` by its full name."""
    names = {}
    for path in modules("bertology"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def module_of(name: str) -> str:
    """``bertology.errors`` for ``bertology.errors.quoted``, itself for a module; empty for what is not ours."""
    while name and name not in module_names():
        name = name.rpartition(".")[0]
    return name


@cache
def import_graph() -> nx.DiGraph:
    """Module → module that it imports; ``bertology`` itself is left out, which every import of ours runs first."""
    edges = {(name, module_of(target)) for name, path in module_names().items() for target in imported(path)}
    return nx.DiGraph((name, target) for name, target in edges if {name, target}.isdisjoint({"", "bertology"}))


def package_of(name: str) -> str | None:
    """``encoders`` for ``bertology.encoders.load_encoder``; None for what is in no package of ours."""
    parts = name.split(".")
    return parts[1] if parts[0] == "bertology" and len(parts) > 1 and parts[1] in ORDER else None


def holder(name: str) -> str:
    """The package whose folder a module lies in; a package lies in its own."""
    return name if module_names()[name].name == "__init__.py" else name.rpartition(".")[0]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def fenced(page: str, language: str) -> list[str]:
    """The blocks of a language in a Markdown page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_every_package_has_its_place_in_the_order() -> None:
    packages = {path.parent.name for path in (ROOT / "bertology").glob("*/__init__.py")}
    assert packages == set(ORDER)


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in modules("bertology")}
    assert not {str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").is_file()}


@pytest.mark.parametrize("package", ORDER)
def test_packages_import_only_leftwards(package: str) -> None:
    allowed = ORDER[: ORDER.index(package) + 1]
    for path in modules(f"bertology/{package}"):
        wrong = {name for name in imported(path) if package_of(name) not in (None, *allowed)}
        assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


def test_leaf_modules_import_no_package() -> None:
    for path in (ROOT / "bertology").glob("*.py"):
        if path.stem not in ABOVE_ALL:
            assert not {package_of(name) for name in imported(path)} - {None}, path.name


def test_nothing_private_is_imported_across_packages() -> None:
    """What starts with an underscore serves the package that holds it: its own modules, those above and those below.

    Two sub-packages of one package do not see each other's private modules; what both need is public in one of them,
    or a module of the package that holds both.
    """
    wrong = set()
    for name, path in module_names().items():
        for target in imported(path):
            parts = target.split(".")
            private = [place for place, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")]
            if parts[0] == "bertology" and private:
                owner, importer = holder(module_of(".".join(parts[: private[0]]))), holder(name)
                inside = f"{importer}.".startswith(f"{owner}.")
                above = package_of(name) == package_of(target) and f"{owner}.".startswith(f"{importer}.")
                if not (inside or above):
                    wrong.add(f"{name} imports {target}")
    assert not wrong, "\n".join(sorted(wrong))


def test_no_modules_import_each_other() -> None:
    circles = [sorted(circle) for circle in nx.strongly_connected_components(import_graph()) if len(circle) > 1]
    assert not circles


def test_no_sub_packages_of_one_package_import_each_other() -> None:
    edges = set()
    for name, target in import_graph().edges:
        ours, theirs = holder(name).split("."), holder(target).split(".")
        if len(ours) > 2 and len(theirs) > 2 and ours[1] == theirs[1] and ours[2] != theirs[2]:
            edges.add((".".join(ours[:3]), ".".join(theirs[:3])))
    circles = [sorted(circle) for circle in nx.strongly_connected_components(nx.DiGraph(edges)) if len(circle) > 1]
    assert not circles


def test_the_core_never_imports_probes() -> None:
    names = {"probes", "bertology_probes"}
    assert not [path for path in modules("bertology") if any(name.split(".")[0] in names for name in imported(path))]


def test_probes_are_imported_by_the_name_under_which_they_are_installed() -> None:
    assert project()["tool"]["setuptools"]["package-dir"] == {"bertology_probes": "probes"}
    other = re.compile(r"^\s*(from|import) probes\b", re.MULTILINE)
    assert not [path for path in modules("probes", "tests") if other.search(path.read_text(encoding="utf-8"))]


def test_the_runner_knows_no_family_by_name() -> None:
    group = project()["project"]["entry-points"]["bertology.families"]
    families = {target.partition(":")[0] for target in group.values()}
    assert len(families) >= 4
    for path in modules("bertology/runner", "bertology/results", "bertology/probing"):
        assert not [name for name in imported(path) if name.startswith(tuple(families))], path
        text = path.read_text(encoding="utf-8")
        assert path.parts[-2] == "probing" or not re.search(r"isinstance\([^)]*Probe\b", text), path


def test_every_package_is_installed() -> None:
    there = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "bertology").rglob("__init__.py")}
    assert set(project()["tool"]["setuptools"]["packages"]) == there | {"bertology_probes"}


def test_probes_import_only_what_a_third_party_may() -> None:
    for path in modules("probes"):
        private = [name for name in imported(path) if name.startswith("bertology.") and "._" in name]
        assert not private, f"{path.name} imports {private}"


def n_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def exported(path: Path) -> Iterator[str]:
    """The names in a module's ``__all__``."""
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            yield from ast.literal_eval(node.value)


@pytest.mark.parametrize("what", LIMITS)
def test_the_whole_stays_small(what: str) -> None:
    paths = modules("bertology", "probes")
    size = {
        "lines": sum(map(n_lines, paths)),
        "files": len(paths),
        "exported names": sum(len(list(exported(path))) for path in paths),
        "lines of tests": sum(map(n_lines, modules("tests"))),
    }
    assert size[what] <= REACHED.get(what, LIMITS[what]) + ADDED.get(what, 0)


AMBIGUOUS = {"mean", "first", "last", "length", "none", "rule", "nearest", "comparison", "sentence", "identity"}
"""Names of controls and tasks that are also those of poolings, columns and parts of a record."""
AMBIGUOUS |= {"agreement", "next_sentence", "reference", "effect"}
"""The same of kinds of counts, of a readout, of a model's setting and of a column of the effects of patching."""


def names_of_questions() -> set[str]:
    """Names of all tasks, their metrics and controls."""
    from bertology.measures.metrics import CONTROLS
    from bertology.probing import ProbeFamily, registered_probes

    entries = registered_probes().values()
    probes = [known.example if isinstance(known := entry.load(), ProbeFamily) else known for entry in entries]
    metrics = {score.name for probe in probes for score in probe.scores}
    return ({entry.stem for entry in entries} | metrics | set(CONTROLS)) - AMBIGUOUS


def keyed_strings(path: Path) -> Iterator[str]:
    """Strings of a file that are compared with, matched, or keys and members of mappings and sets."""
    for node in ast.walk(parsed(path)):
        keys: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            keys = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            keys = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Set):
            keys = node.elts
        elif isinstance(node, ast.MatchValue):
            keys = [node.value]
        elif isinstance(node, ast.Subscript):
            keys = [node.slice]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("set", "frozenset"):
            keys = node.args
        for key in keys:
            for one in ast.walk(key):
                value = one.value if isinstance(one, ast.Constant) else constant(path, one)
                several = value if isinstance(value, (tuple, list, set, frozenset)) else [value]
                yield from (text for text in several if isinstance(text, str))


def constant(path: Path, node: ast.AST) -> object:
    """The value that a name or an attribute of a module has where it is used; None for a local one."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    found: Any = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for name in ast.unparse(node).split("."):
        found = getattr(found, name, None)
    return found


def test_tables_runs_and_commands_know_no_question_by_name() -> None:
    """Neither as a string nor by a constant, wherever that is defined."""
    names = names_of_questions()
    assert {"pos", "uuas", "word_majority"} <= names
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules("bertology/results", "bertology/runner", "bertology/activations", "bertology/cli")
        for name in keyed_strings(path)
        if name in names
    }
    assert not found, "\n".join(sorted(found))


def probe_files() -> list[str]:
    return [path.stem for path in modules("probes") if not path.stem.startswith("_")]


@pytest.mark.parametrize("name", probe_files())
def test_every_probe_has_a_test_file_and_an_entry_point(name: str) -> None:
    assert (ROOT / f"tests/probes/test_{name}.py").is_file()
    points = project()["project"]["entry-points"]["bertology.probes"]
    assert any(value.split(":")[0] == f"bertology_probes.{name}" for value in points.values())


def test_every_entry_point_has_a_probe_file() -> None:
    points = project()["project"]["entry-points"]["bertology.probes"]
    assert {value.split(":")[0] for value in points.values()} == {f"bertology_probes.{name}" for name in probe_files()}


@pytest.mark.parametrize("group", sorted(project()["project"]["entry-points"]))
def test_every_entry_point_leads_to_a_component_of_its_name(group: str) -> None:
    for name, target in project()["project"]["entry-points"][group].items():
        module, _, attribute = target.partition(":")
        component = getattr(importlib.import_module(module), attribute)
        own = component.name if group == "bertology.readouts" else name
        assert own == name, f"{group}: {name} = {target} calls itself {own}"


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


PAGES = ["README.md", "CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("command", sorted({command for page in PAGES for command in commands(page)}))
def test_commands_of_the_pages_parse(command: str) -> None:
    import typer

    from bertology.cli._app import app

    found, words = typer.main.get_command(app), shlex.split(command)[1:]
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    # Takes the options apart and complains of any it does not know; runs nothing.
    assert not found.make_context(command, words).args
