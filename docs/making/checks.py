"""What must hold of the built pages: nothing is fetched, links and anchors lead somewhere, every name has a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pages

_FETCHING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
_LINK_KINDS = {"stylesheet", "preload", "prefetch", "preconnect", "dns-prefetch", "icon", "modulepreload", "manifest"}
_CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class _Page(HTMLParser):
    """The addresses that a page fetches, those that it links to, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
            return
        address = values.get(_FETCHING.get(tag, ""))
        if address and (tag != "link" or _LINK_KINDS & set(values.get("rel", "").split())):
            self.fetched.append(address)


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _is_elsewhere(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in ("http", "https", "ftp", "ws", "wss")


def fetched_from_elsewhere(site: Path) -> Iterator[str]:
    """Scripts, styles, fonts, images and frames that a page or style sheet takes from another host."""
    for path in sorted(site.rglob("*.html")):
        wrong = [address for address in _read(path).fetched if _is_elsewhere(address)]
        yield from (f"{path.relative_to(site)} fetches {address}" for address in wrong)
    for path in sorted(site.rglob("*.css")):
        found = _CSS_URL.findall(path.read_text(encoding="utf-8"))
        wrong = [one for pair in found for one in pair if _is_elsewhere(one)]
        yield from (f"{path.relative_to(site)} fetches {address}" for address in wrong)


def broken_links(site: Path) -> Iterator[str]:
    """Links between pages that lead to no file, or to no anchor of one."""
    for path in sorted(site.rglob("*.html")):
        for link in sorted(set(_read(path).links)):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.is_file():
                yield f"{path.relative_to(site)} links to {link}, which is not there"
            elif parts.fragment and target.suffix == ".html":
                fragment = unquote(parts.fragment)
                if fragment not in _read(target).anchors and not fragment.startswith("__"):
                    yield f"{path.relative_to(site)} links to {link}, which has no such anchor"


def undocumented(site: Path) -> Iterator[str]:
    """Exported names without a page, or without a docstring on it."""
    for one in pages.exported_names():
        path = site / Path(one.page).with_suffix(".html")
        if not path.is_file():
            yield f"{one.package}.{one.name} has no page"
        elif one.home == one.package and f"{one.package}.{one.name}" not in _read(path).anchors:
            yield f"the page of {one.package}.{one.name} does not document it"
