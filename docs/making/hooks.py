"""What mkdocs runs while it builds the site: generated pages are put in, and the finished pages are looked over."""

from __future__ import annotations

import gc
import json
import logging
import re
from pathlib import Path
from typing import Any

import checks
import pages
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

LOG = logging.getLogger("mkdocs.hooks.bertology")
NOTEBOOKS = pages.ROOT / "notebooks"
# A build makes millions of objects that live until its end: garbage collections would traverse them again and again.
gc.set_threshold(100_000, 50, 1_000)


def on_config(config: Any) -> Any:
    """Put the generated pages into the navigation, and date nothing."""
    generated = {
        "notebooks/": ["notebooks/index.md", *(f"notebooks/{path.name}" for path in _notebooks())],
        "experiments/": [
            "experiments/index.md",
            *({one.title: f"experiments/{one.name}.md"} for one in pages.experiment_files()),
        ],
        "reference/": _reference_nav(),
    }
    config.nav = [
        {title: generated.get(place, place) if isinstance(place, str) else place for title, place in entry.items()}
        for entry in config.nav
    ]
    config.watch += [str(pages.ROOT / folder) for folder in ("bertology", "notebooks", "experiments")]
    return config


def _reference_nav() -> list[Any]:
    nav: list[Any] = ["reference/index.md"]
    nav += [{"Tasks": "reference/tasks.md"}, {"Commands": "reference/commands.md"}]
    nav.append({"Fields of an experiment": "reference/experiment-file.md"})
    by_package: dict[str, list[Any]] = {}
    for one in pages.exported_names():
        by_package.setdefault(one.package, [f"reference/{one.package}/index.md"]).append({one.name: one.page})
    return nav + [{package: names} for package, names in by_package.items()]


def _notebooks() -> list[Path]:
    return sorted(NOTEBOOKS.glob("*.ipynb"))


@event_priority(100)  # before mkdocs-jupyter looks for notebooks
def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages and the notebooks, with what these link to."""
    texts = {
        **pages.reference_pages(),
        "reference/tasks.md": pages.tasks_page(),
        "reference/commands.md": pages.commands_page(),
        "reference/experiment-file.md": pages.experiment_file_page(),
        "experiments/index.md": pages.experiments_index(),
        **{f"experiments/{one.name}.md": one.page() for one in pages.experiment_files()},
        "notebooks/index.md": _notebook_index(),
        **pages.drawn_figures(),
    }
    for address, text in texts.items():
        files.append(File.generated(config, address, content=text))
    for path in _notebooks():
        files.append(File(f"notebooks/{path.name}", str(pages.ROOT), config.site_dir, config.use_directory_urls))
    return files


def _notebook_index() -> str:
    about = "Each asks one question, and is kept as it ran. They lie in `notebooks/` of the repository."
    lines = ["# Notebooks", "", about, ""]
    for path in _notebooks():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        first = "".join(cells[0]["source"])
        title = re.search(r"^# (.*)$", first, flags=re.MULTILINE)
        about = first.partition("\n\n")[2].split("\n\n")[0]
        about = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(about.split()))
        lines += [f"**[{title[1] if title else path.stem}]({path.name})**", "", about, ""]
    return "\n".join(lines)


_BOOSTS = {"how-to": 4, "concepts": 4, "experiments": 0.25, "notebooks": 0.25, "reference": 0.25}
"""How much a page counts in the search, by folder: what explains comes before what is an example."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let the search find tags by each of their words, and answer with guides and concepts first.

    The search takes a tag of several words as one word, which nobody can type.
    """
    if tags := page.meta.get("tags"):
        words = (word for tag in tags for word in re.findall(r"[^\s-]{3,}", tag))
        page.meta["tags"] = [*dict.fromkeys([*tags, *words])]
    page.meta.setdefault("search", {"boost": _BOOSTS.get(page.file.src_uri.partition("/")[0], 1)})
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Lead the links of notebooks to the pages of the site; other files of the repository are named, not linked."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    # The search runs cells of tables together, and lunr answers nothing at all to the beginning of some such words.
    html = re.sub("(?=</t[dh]>)", " ", html)
    html = re.sub(r'href="\.\./experiments/([\w.-]+)\.yaml"', r'href="../experiments/\1.html"', html)
    html = re.sub(r'href="([\w.-]+)\.ipynb"', r'href="\1.html"', html)
    return re.sub(r'<a [^>]*href="\.\./(?!experiments/)[^"]*"[^>]*>(.*?)</a>', r"\1", html, flags=re.DOTALL)


def on_post_build(config: Any) -> None:
    """Look over the finished pages; under ``--strict`` each thing found fails the build."""
    site = Path(config.site_dir)
    for problem in (*checks.fetched_from_elsewhere(site), *checks.broken_links(site), *checks.undocumented(site)):
        LOG.warning(problem)
