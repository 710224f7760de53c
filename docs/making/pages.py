"""Pages that are made from the package itself: its reference, its tasks, its commands, its experiments."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import drawn
import yaml

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "experiments"
_REFERENCE = (
    "Every public name, by the package that exports it; the tasks, the commands, and what an experiment file may hold. "
    "What starts with an underscore is private to its package."
)
RESULTS = ROOT / "docs" / "experiments" / "results"


@dataclass(frozen=True)
class Exported:
    """A name in the ``__all__`` of a package, or of a public module."""

    package: str
    name: str
    home: str
    """The package that documents it: the first that exports the same thing."""

    @property
    def page(self) -> str:
        """The address of its page within the site."""
        return f"reference/{self.package}/{self.name}.md"


@cache
def exported_names() -> tuple[Exported, ...]:
    """All names in the ``__all__`` of a package or module, one after the other; each has its home where it is first."""
    homes: dict[str, str] = {}
    found = []
    names = map(_module, (ROOT / "bertology").rglob("*.py"))
    for package in sorted(names, key=lambda name: (name.count("."), name)):
        tree = ast.parse(_file_of(package).read_text(encoding="utf-8"))
        sources = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for name in _all_of(tree):
            thing = _first_source(sources.get(name, f"{package}.{name}"))
            found.append(Exported(package, name, homes.setdefault(thing, package)))
    return tuple(found)


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _file_of(module: str) -> Path:
    path = ROOT / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _all_of(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield from ast.literal_eval(node.value)


def _first_source(name: str) -> str:
    """The module and name that an import through packages ends at."""
    module, _, last = name.rpartition(".")
    path = ROOT / Path(*module.split(".")) / "__init__.py"
    if path.is_file():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and any((one.asname or one.name) == last for one in node.names):
                return _first_source(f"{node.module}.{last}")
    return name


def reference_pages() -> dict[str, str]:
    """A page for every exported name, and one for each package that lists them, by address."""
    pages = {}
    by_package: dict[str, list[Exported]] = {}
    for one in exported_names():
        by_package.setdefault(one.package, []).append(one)
        pages[one.page] = _page_of(one)
    for package, names in by_package.items():
        lines = [f"# {package}", "", f"::: {package}", "    options:", "      members: false"]
        lines += ["      show_root_heading: false", "      show_root_toc_entry: false", ""]
        lines += ["| name | what it is |", "|---|---|"]
        lines += [f"| [`{one.name}`]({one.name}.md) | {_summary(one)} |" for one in names]
        pages[f"reference/{package}/index.md"] = "\n".join(lines) + "\n"
    lines = ["# Reference", "", _REFERENCE, ""]
    lines += ["- [Tasks](tasks.md)", "- [Commands](commands.md)", "- [Fields of an experiment](experiment-file.md)", ""]
    lines += ["| package | names | what it does |", "|---|---|---|"]
    for package, names in by_package.items():
        about = _first_sentence(ast.get_docstring(ast.parse(_file_of(package).read_text(encoding="utf-8"))) or "")
        lines.append(f"| [`{package}`]({package}/index.md) | {len(names)} | {about} |")
    pages["reference/index.md"] = "\n".join(lines) + "\n"
    return pages


def _page_of(one: Exported) -> str:
    if one.home != one.package:
        return f"# {one.name}\n\nThe same as [`{one.home}.{one.name}`](../{one.home}/{one.name}.md).\n"
    return f"---\ntitle: {one.name}\n---\n\n`from {one.package} import {one.name}`\n\n::: {one.package}.{one.name}\n"


def _summary(one: Exported) -> str:
    module, _, name = _first_source(f"{one.package}.{one.name}").rpartition(".")
    body = ast.parse(_file_of(module).read_text(encoding="utf-8")).body
    for place, node in enumerate(body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return _first_sentence(ast.get_docstring(node) or "")
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if name in [one.id for one in targets if isinstance(one, ast.Name)]:
            after = body[place + 1] if place + 1 < len(body) else None
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return _first_sentence(str(after.value.value))
    return ""


def _first_sentence(docstring: str) -> str:
    """The first sentence of a docstring, its roles and double backticks as code."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", paragraph).replace("``", "`").replace("|", "\\|")
    return re.sub(r"(?<=[a-z)`\]]\.) [A-Z].*", "", text)


def tasks_page() -> str:
    """Every task that is installed here: what is asked, how it is answered, by which metric, after which paper."""
    from bertology.probing import Probe, registered_probes

    lines = ["# Tasks", "", "As `bertology tasks` lists them. Names with a colon take an argument after it.", ""]
    for name, entry in sorted(registered_probes().items()):
        probe = entry.load()
        single = isinstance(probe, Probe)
        named = entry.stem if single else entry.stem + ("[:…]" if probe.default is not None else ":…")
        lines += [f"## {named} {{ #{entry.stem} }}", "", f"{probe.question} *{probe.reference}*; `{name}`.", ""]
        if not single:
            lines += ["After the colon: " + ", ".join(f"`{one}`" for one in probe.instances) + ".", ""]
        if readout := getattr(probe, "readout", None):
            metrics = ", ".join(f"`{metric if isinstance(metric, str) else metric.name}`" for metric in probe.metrics)
            lines += [f"Fitted by `{readout}`, scored by {metrics}.", ""]
    return "\n".join(lines)


def commands_page() -> str:
    """Every command with its arguments and options, from the command line itself."""
    import typer

    from bertology.cli._app import app

    lines = ["---", 'tags: ["command line", "CLI", "options"]', "search: {boost: 4}", "---", ""]
    lines += ["# Commands", "", "What `bertology COMMAND --help` prints.", ""]

    def add(command: Any, words: list[str], level: int) -> None:
        lines.extend([f"{'#' * level} bertology {' '.join(words)}", "", _first_paragraphs(command.help or ""), ""])
        for name, inner in getattr(command, "commands", {}).items():
            add(inner, [*words, name], level + 1)
        rows = [_option(param) for param in command.params if param.name != "help" and not getattr(param, "hidden", 0)]
        if rows and not hasattr(command, "commands"):
            lines.extend(["| argument or option | | default |", "|---|---|---|", *rows, ""])

    for name, command in typer.main.get_command(app).commands.items():
        add(command, [name], 2)
    return "\n".join(lines)


def _first_paragraphs(text: str) -> str:
    return re.sub(r"[ \t]*\n[ \t]*", "\n", text.replace("\f", "")).strip()


def _option(param: Any) -> str:
    is_argument = param.param_type_name == "argument"
    name = param.name.upper() if is_argument else ", ".join((*param.opts, *param.secondary_opts))
    default = param.default if not callable(param.default) else None
    shown = "" if default in (None, False) or is_argument else f"`{default}`"
    about = " ".join((getattr(param, "help", "") or "").split()).replace("|", "\\|")
    return f"| `{name}` | {_escaped(about)} | {shown} |"


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


def experiment_file_page() -> str:
    """Every field of the files of commands, from the schemas that editors complete and check by."""
    files = "Of the files that `bertology run`, `finetune`, `landscape` and `pretrain` read"
    source = f"{files}, from `experiments/*.schema.json`, which `bertology schema COMMAND` prints."
    lines = ["# Fields of an experiment", "", source, ""]
    for path in sorted(EXPERIMENTS.glob("*.schema.json")):
        lines += _fields_of(json.loads(path.read_text(encoding="utf-8")))
    return "\n".join(lines)


def _fields_of(schema: dict[str, Any]) -> list[str]:
    """A section for what a file holds, and one for each kind of its parts."""
    title = schema["title"].removeprefix("bertology ")
    lines = []
    for name, section in {f"{title[0].upper()}{title[1:]}": schema, **schema.get("$defs", {})}.items():
        kinds = [one for one in (section, *section.get("anyOf", ())) if "properties" in one]
        for kind in kinds:
            lines += [f"## {name}", "", _inline(kind.get("description", "")), ""]
            lines += ["| field | | default |", "|---|---|---|"]
            for field, about in kind["properties"].items():
                default = "required" if field in kind.get("required", ()) else f"`{json.dumps(about.get('default'))}`"
                lines.append(f"| `{field}` | {_inline(about.get('description', ''))} | {default} |")
            lines.append("")
    return lines


def _inline(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("``", "`").replace("|", "\\|")


@dataclass(frozen=True)
class Figure:
    """A figure that is drawn while the site is built, from the table of a page."""

    address: str
    svg: bytes
    alt: str


@cache
def figure_of(name: str, text: str) -> Figure | None:
    """The figure of a table of this text, at ``drawn/NAME.svg``; None where no table has numbers."""
    found = drawn.drawn(text, name)
    return None if found is None else Figure(f"drawn/{name}.svg", found.svg, found.alt)


def drawn_figures() -> dict[str, bytes]:
    """All figures drawn from tables, by address: of results, and of pages that show one of their own tables."""
    found = [one.figure for one in experiment_files()]
    for path in sorted((ROOT / "docs").glob("*/*.md")) + sorted((ROOT / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if f"drawn/{path.stem}.svg)" in text:
            found.append(figure_of(path.stem, text))
    return {one.address: one.svg for one in found if one is not None}


@dataclass(frozen=True)
class ExperimentFile:
    """An experiment of ``experiments/``: what its header says and what it holds."""

    path: Path

    @property
    def name(self) -> str:
        """The name of its file, and of its page."""
        return self.path.stem

    @property
    def parts(self) -> tuple[list[str], str]:
        """The paragraphs of the comment at its head, and the settings below."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        size = next(place for place, line in enumerate(lines) if not line.startswith("#"))
        comment = [line.lstrip("#").removeprefix(" ") for line in lines[:size] if "$schema=" not in line]
        return "\n".join(comment).split("\n\n"), "\n".join(lines[size:]).strip() + "\n"

    @property
    def command(self) -> str:
        """The command that reads it, which its key ``command`` names: ``run`` where it has none."""
        found = re.search(r"(?m)^command: (\w+)$", self.parts[1])
        return "run" if found is None else found[1]

    @property
    def question(self) -> str:
        """The first sentence of the comment."""
        return re.split(r"(?<=[a-z\d)”\"][.?:]) (?=[A-Z])", " ".join(self.parts[0][0].split()))[0].rstrip(":")

    @property
    def title(self) -> str:
        """Its question, and the paper that asked it: ``What do attention heads look at? (Clark et al. 2019)``."""
        about = " ".join(self.parts[0][0].split())
        found = re.search(r"[Aa]fter (?:the figure of )?([A-Z][^()]*?) \((\d{4})|\(([A-Z][^()\d]*?) (\d{4})", about)
        paper = " ".join(filter(None, found.groups())) if found else ""
        return self.question + f" ({paper})" * bool(paper)

    @property
    def results(self) -> str:
        """What it printed, where that is kept with the documentation; else nothing."""
        path = RESULTS / f"{self.name}.md"
        return path.read_text(encoding="utf-8").strip() if path.is_file() else ""

    @property
    def results_of(self) -> str:
        """Whether the results kept are of a real encoder or of the embedded world; nothing where there are none."""
        return "" if not self.results else "real encoder" if "MiniLM" in self.results else "embedded world"

    @property
    def figure(self) -> Figure | None:
        """The figure of a table of its results; None where they show one of their own, or have no numbers."""
        return None if "](../drawn/" in self.results else figure_of(self.name, self.results)

    def page(self) -> str:
        """What it asks, what it printed where that is kept, and the file itself."""
        paragraphs, settings = self.parts
        # The question is the title.
        about = " ".join(paragraphs[0].split()).removeprefix(self.question).lstrip(": ")
        paragraphs = [*filter(None, [about]), *paragraphs[1:]]
        tasks = yaml.safe_load(settings).get("tasks") or []
        names = {one if isinstance(one, str) else one.get("name", "") for one in tasks}
        lines = ["---", f"tags: {json.dumps(sorted({self.name, *names} - {''}))}", "---", "", f"# {self.title}", ""]
        for paragraph in paragraphs:
            if paragraph.lstrip().startswith("bertology "):
                lines += ["```console", *(line.strip() for line in paragraph.splitlines()), "```", ""]
            else:
                lines += [_escaped_text(paragraph), ""]
        lines += ["## Results", ""]
        if (figure := self.figure) is not None:
            lines += [f"![{figure.alt}](../{figure.address})", ""]
        if self.results:
            lines += [re.sub(r"(?m)^#+ ", "### ", self.results), ""]
        else:
            lines += ["No run of this experiment on a real encoder is kept with the documentation.", ""]
        return "\n".join([*lines, f"## The file {self.name}.yaml", "", "```yaml", settings.rstrip(), "```", ""])


def _escaped_text(text: str) -> str:
    return text.replace("<", "&lt;")


def experiment_files() -> list[ExperimentFile]:
    """All experiments of ``experiments/``."""
    return [ExperimentFile(path) for path in sorted(EXPERIMENTS.glob("*.yaml"))]


def experiments_index() -> str:
    """The list of experiments, with what the results on their pages are of."""
    lines = (ROOT / "docs" / "experiments" / "introduction.md").read_text(encoding="utf-8").splitlines()
    lines += ["", "| question | file | command | results of |", "|---|---|---|---|"]
    for one in sorted(experiment_files(), key=lambda one: one.title):
        cells = f"[{_escaped_text(one.title)}]({one.name}.md)", f"`{one.name}`", f"`{one.command}`", one.results_of
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
