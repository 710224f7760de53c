"""The site: it builds without a warning and fetches nothing, every public name has a page, its snippets run."""

import importlib.util
import os
import re
import string
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

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
        return {
            name: importlib.import_module(name)
            for name in ("blocks", "checks", "drawn", "five_lines", "pages", "widths")
        }
    finally:
        sys.path.remove(str(BUILD))


def page(site: Path, name: str, body: str) -> None:
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<html><head></head><body>{body}</body></html>")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once. No connection leaves this machine: a build that asked for one would fail."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("the extra docs is not installed")
    site = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    nowhere = {f"{name}_proxy": "http://127.0.0.1:9" for name in ("http", "https", "HTTP", "HTTPS")}
    environment = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr
    return site


def test_the_sitemakings_without_a_warning_and_documents_every_name(built: Path) -> None:
    """``--strict`` fails on each warning: broken links and anchors, names without a page, addresses of other hosts."""
    from mkdocstrings import Inventory

    with (built / "objects.inv").open("rb") as file:
        inventory = Inventory.parse_sphinx(file)
    names = {f"{module}.{name}" for module, path in module_names().items() for name in exported(path)}
    undocumented = {name for name in names if name not in inventory}
    for name in undocumented:  # exported twice: its page leads to the one where it is documented
        package, _, bare = name.rpartition(".")
        assert "The same as" in (built / "reference" / package / f"{bare}.html").read_text(), name
    assert len(undocumented) < len(names) / 10


def test_the_search_knows_what_people_type(built: Path, browser: Any) -> None:
    searched = yaml.safe_load((BUILD / "searched.yaml").read_text(encoding="utf-8"))
    wanted = [(typed.strip(), f"{page}.html") for page, some in searched.items() for typed in some.split(",")]
    handler, search = partial(SimpleHTTPRequestHandler, directory=str(built)), (BUILD / "search.js").read_text()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, browser.new_context() as context:
        Thread(target=server.serve_forever, daemon=True).start()
        (page := context.new_page()).goto(f"http://127.0.0.1:{server.server_port}/index.html")
        # Letters too: to what the index cannot complete it has no answer at all.
        found = page.evaluate(search, [*string.ascii_lowercase, *(typed for typed, _ in wanted)])
        server.shutdown()
    assert [typed for typed, pages in found.items() if not pages] == []
    assert [f"{typed}: {found[typed]}" for typed, page in wanted if page not in found[typed][:3]] == []
    assert found["agreement"][0] == "how-to/cloze.html"
    assert found["activation patching"][0] == "how-to/patching.html"


def test_every_page_shows_something_and_says_what(built: Path) -> None:
    for folder in ("concepts", "how-to", "experiments"):
        for path in (built / folder).glob("*.html"):
            article = path.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
            texts = [re.search(r'alt="([^"]*)"', image) for image in re.findall(r"<img[^>]*>", article)]
            assert all(text and text[1].strip() for text in texts), path
            scheme = 'class="flow"' in article and "<figcaption>Schematic: " in article
            assert texts or scheme or path.name == "index.html", f"{path.relative_to(built)} has no figure"


def test_no_page_is_wider_than_its_window(built: Path, browser: Any, helpers: dict[str, ModuleType]) -> None:
    widths = helpers["widths"]
    page(
        built,
        "wide/index.html",
        '<style>body { margin: 0 }</style><article><img src="gone.png"><div style="width: 2000px">a</div></article>',
    )
    found = [one.partition(" px ")[2] for one in widths.misfits(browser, built, ("wide",))]
    bare = ["has 1 images without a text", "has 1 images that do not load"]
    assert found == ["is 720 px wider than its window", *bare, "is 1610 px wider than its window", *bare]
    (built / "wide" / "index.html").unlink()
    assert list(widths.misfits(browser, built)) == []


def test_a_figure_of_a_table_holds_its_numbers(helpers: dict[str, ModuleType]) -> None:
    """Cells by place: bold ones, those with a mark and those without a number; baselines are no layers."""
    drawn = helpers["drawn"]
    text = "In percent.\n\n| layer | pos | n |\n|---|---|---|\n| 0 · embeddings | 87.3 [86.4, 88.2] | 1 |\n"
    text += "| 1 | **−90.6 [−91.4, 89.8]** ★ | 2 |\n| 2 | – | 3 |\n| 3 | 5 | 4 |\n| majority | 13 | 5 |\n"
    found = drawn._drawing(*drawn._tables(text)[0], [])
    assert (found.places, found.over) == (["0", "1", "2", "3"], "layer")
    assert found.lines == {"pos": {0: (87.3, 86.4, 88.2), 1: (-90.6, -91.4, 89.8), 3: (5, 5, 5)}}
    assert drawn.drawn(text, "trial").alt == "trial: pos, by layer"
    assert drawn.drawn("| a | b |\n|---|---|\n| c | d |\n", "words") is None


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
    text, marked = (DOCS / "gallery.md").read_text(encoding="utf-8"), helpers["blocks"].marked
    drawn = {name for name, code in marked(DOCS / "gallery.md", "figure").items() if "figure =" in code}
    pages = {f"page-{name}" for name in marked(DOCS / "gallery.md", "page")}
    assert len(pages) >= 8
    assert drawn | pages == {path.stem for path in (DOCS / "figures").iterdir()}
    assert all(f"](figures/{path.name})" in text for path in (DOCS / "figures").iterdir())
    assert sum(path.stat().st_size for path in (DOCS / "figures").iterdir()) < 2_500_000


def test_every_experiment_has_a_question(helpers: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers["pages"], "figure_of", lambda *_: None)  # the site draws them
    files = helpers["pages"].experiment_files()
    assert len(files) >= 20
    for one in files:
        assert one.question.endswith("?"), one.name
        assert f"\n# {one.title}\n" in one.page()
        assert one.title.endswith(("?", ")")), one.title
        called = rf"bertology {one.command} (--claims )?experiments/{one.name}.yaml"
        assert re.search(called, " ".join(one.page().split())), one.name
        assert one.command != "run" or "```yaml\nname:" in one.page(), one.name
