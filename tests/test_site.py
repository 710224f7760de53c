"""The site: it builds without a warning and fetches nothing, every public name has a page, its snippets run."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.test_house import ROOT, exported, module_names, modules

DOCS = ROOT / "docs"
BUILD = DOCS / "making"


@pytest.fixture(scope="module")
def helpers() -> dict[str, ModuleType]:
    """The modules that mkdocs runs, which import each other by their bare names."""
    sys.path.insert(0, str(BUILD))
    try:
        return {name: importlib.import_module(name) for name in ("blocks", "checks", "five_lines", "pages")}
    finally:
        sys.path.remove(str(BUILD))


def page(site: Path, name: str, body: str) -> None:
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<html><head></head><body>{body}</body></html>")


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="the extra docs is not installed")
def test_the_sitemakings_without_a_warning_and_documents_every_name(tmp_path: Path) -> None:
    """``--strict`` fails on each warning: broken links and anchors, names without a page, addresses of other hosts."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    # No connection leaves this machine: a build that asked for one would fail.
    nowhere = {f"{name}_proxy": "http://127.0.0.1:9" for name in ("http", "https", "HTTP", "HTTPS")}
    environment = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr
    from mkdocstrings import Inventory

    with (tmp_path / "site" / "objects.inv").open("rb") as file:
        inventory = Inventory.parse_sphinx(file)
    names = {f"{module}.{name}" for module, path in module_names().items() for name in exported(path)}
    undocumented = {name for name in names if name not in inventory}
    for name in undocumented:  # exported twice: its page leads to the one where it is documented
        package, _, bare = name.rpartition(".")
        assert "The same as" in (tmp_path / "site" / "reference" / package / f"{bare}.html").read_text(), name
    assert len(undocumented) < len(names) / 10


def test_what_the_checks_find(tmp_path: Path, helpers: dict[str, ModuleType]) -> None:
    checks = helpers["checks"]
    page(
        tmp_path,
        "index.html",
        '<h1 id="top">a</h1><a href="other.html#there">b</a><a href="#top">c</a><a href="https://example.org">d</a>'
        '<img src="picture.png"><link rel="canonical" href="https://example.org/">',
    )
    page(tmp_path, "other.html", '<h1 id="there">a</h1>')
    (tmp_path / "site.css").write_text("a { background: url('data:image/png;base64,AA') } b { src: url(font.woff2) }")
    assert not [*checks.fetched_from_elsewhere(tmp_path), *checks.broken_links(tmp_path)]

    page(tmp_path, "wrong.html", '<script src="//cdn.example.org/a.js"></script><a href="gone.html">a</a>')
    page(tmp_path, "in/anchor.html", '<a href="../other.html#gone">a</a><a href="#nothing">b</a>')
    (tmp_path / "wrong.css").write_text(
        "@import 'https://example.org/a.css'; b { src: url(https://example.org/f.woff2) }"
    )
    assert sorted(checks.fetched_from_elsewhere(tmp_path)) == [
        "wrong.css fetches https://example.org/a.css",
        "wrong.css fetches https://example.org/f.woff2",
        "wrong.html fetches //cdn.example.org/a.js",
    ]
    assert sorted(checks.broken_links(tmp_path)) == [
        "in/anchor.html links to #nothing, which has no such anchor",
        "in/anchor.html links to ../other.html#gone, which has no such anchor",
        "wrong.html links to gone.html, which is not there",
    ]
    assert f"{checks.pages.exported_names()[0].package}.BertologyError has no page" in checks.undocumented(tmp_path)


def test_exported_names_are_counted_as_the_house_counts_them(helpers: dict[str, ModuleType]) -> None:
    found = {(one.package, one.name) for one in helpers["pages"].exported_names()}
    assert found == {
        (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), name)
        for path in modules("bertology")
        for name in exported(path)
    }
    homes = {(one.package, one.name): one.home for one in helpers["pages"].exported_names()}
    assert homes["bertology.encoders", "Encoder"] == "bertology"
    assert homes["bertology.readouts", "FitReport"] == "bertology.readouts"


def test_every_page_is_in_the_navigation() -> None:
    def places(nav: object) -> set[str]:
        if isinstance(nav, str):
            return {nav}
        parts = nav.values() if isinstance(nav, dict) else nav
        return set().union(*map(places, parts))  # type: ignore[arg-type]

    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = places(yaml.safe_load(text)["nav"])
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert {name for name in written if not name.startswith("experiments/")} == {n for n in nav if n.endswith(".md")}


def test_snippets_are_of_five_lines_at_most_and_ten(helpers: dict[str, ModuleType]) -> None:
    five_lines = helpers["five_lines"]
    found = helpers["blocks"].marked(DOCS / "five-lines.md", "five lines")
    snippets = {name: text for name, text in found.items() if name not in five_lines.SETUP}
    assert len(snippets) == 10
    written = {name: [line for line in text.splitlines() if line] for name, text in snippets.items()}
    assert {name for name, lines in written.items() if len(lines) > five_lines.MOST_LINES} == set()


def test_snippets_of_five_lines_run() -> None:
    """All of them, in the order of the page, in a process of their own."""
    done = subprocess.run([sys.executable, str(BUILD / "five_lines.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(" s\n") == 13


def test_every_figure_of_the_gallery_is_kept(helpers: dict[str, ModuleType]) -> None:
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    drawn = {
        name for name, code in helpers["blocks"].marked(DOCS / "gallery.md", "figure").items() if "figure =" in code
    }
    assert drawn == {path.stem for path in (DOCS / "figures").iterdir()}
    assert all(f"](figures/{name}.svg)" in text for name in drawn)
    assert sum(path.stat().st_size for path in (DOCS / "figures").iterdir()) < 1_500_000


def test_every_experiment_has_a_question(helpers: dict[str, ModuleType]) -> None:
    files = helpers["pages"].experiment_files()
    assert len(files) >= 20
    for one in files:
        assert one.question.endswith(("?", ".")) or len(one.question) > 20, one.name
        assert f"# {one.name}" in one.page()
        called = rf"bertology {one.command} (--claims )?experiments/{one.name}.yaml"
        assert re.search(called, " ".join(one.page().split())), one.name
        assert one.command != "run" or "```yaml\nname:" in one.page(), one.name
