"""Self-contained HTML pages: results that have one, filled templates, policies by hash, embedded data, files."""

import base64
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bertology import __version__
from bertology._files import write_derived
from bertology._names import signed
from bertology.errors import StoreError, quoted

if TYPE_CHECKING:
    from jinja2 import Environment

    from bertology._figures import ShownFigure

_HEAD, _STYLE, _THEME = "assets/head.html", "assets/page.css", "assets/theme.js"
_COMMON = {"top": "assets/top.html", "charts": "assets/charts.html", "end": "assets/end.html"}
_IN_SCRIPT = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


class ShownPage(ABC):
    """A result with an HTML page, which a notebook displays."""

    page_title: ClassVar[str]
    """Title of the frame in a notebook."""
    page_height: ClassVar[int]
    """Height of the frame in a notebook, in pixels."""

    @property
    @abstractmethod
    def html(self) -> str:
        """The page as text; it makes no request."""

    def save(self, path: str | Path) -> Path:
        """Write the page as one HTML file that needs no other file and no network.

        Raises:
            StoreError: the file cannot be written.
        """
        return write_page(path, self.html)

    def _repr_html_(self) -> str:
        return framed(self.html, title=self.page_title, height=self.page_height)


class PageAndFigure(ShownPage):
    """A result with an HTML page and a figure; a notebook displays the page."""

    @property
    def html(self) -> str:
        """The page as text."""
        return self.to_html()

    @abstractmethod
    def to_html(self) -> str:
        """The page as text; it makes no request."""

    @abstractmethod
    def plot(self) -> "ShownFigure":
        """The figure."""

    def save(self, path: str | Path) -> Path:
        """Write the page (``.html``) or the figure (``.svg``, ``.pdf`` or ``.png``).

        Raises:
            StoreError: the name ends otherwise, or the file cannot be written.
        """
        return super().save(path) if is_page(path) else self.plot().save(path)


def is_page(path: str | Path | None) -> bool:
    """Whether a path is that of a page, by its ending; False where there is none.

    Raises:
        StoreError: it is that of neither a page nor a figure.
    """
    ending = Path(path).suffix.lower() if path is not None else None
    if path is not None and ending not in (".html", ".svg", ".pdf", ".png"):
        raise StoreError(f"cannot write {quoted(Path(path).name)}: name a file that ends in .html, .svg, .pdf or .png")
    return ending == ".html"


def asset(name: str) -> str:
    """The text of a file of the package, by its path from the package root."""
    return files("bertology").joinpath(name).read_text(encoding="utf-8")


def full_page(
    body: str,
    *,
    title: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: Any,
    values: Mapping[str, str] | None = None,
    policy: str = "",
    **context: Any,
) -> str:
    """A whole page, in the style of all pages; it makes no request, unless its ``policy`` allows one.

    Its content security policy allows its own style and scripts, by the hash of each, and images inside the page.

    Args:
        body: path of a Jinja template from ``<body>`` on, with a place for ``version``, ``data`` and ``script``. Its
            places ``top``, ``charts`` and ``end`` are taken by what pages have in common there, the end with data and
            script; ``charts`` are macros that draw a table by layer, which use ``chart_of`` of the context.
        title: plain text.
        styles: paths of style sheets that follow the common one.
        scripts: paths of scripts, each before those that use it.
        data: what the script reads, as JSON.
        values: HTML by the name of its place in ``body``.
        policy: further directives of the content security policy, of a page that a server answers.
        context: what else the template uses; text in it is escaped.
    """
    from markupsafe import Markup

    style = "\n".join(asset(name) for name in (_STYLE, *styles))
    # In the head, so that a dark page is never drawn white first.
    theme, script = asset(_THEME), "\n".join(asset(name) for name in scripts)
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, theme, script))
    of_style, of_theme, of_script = (f"'sha256-{hash_of}'" for hash_of in hashes)
    # Nothing in it ends the script element that it stands in, or starts another.
    embedded = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_IN_SCRIPT)
    everywhere = {
        "policy": f"default-src 'none'; style-src {of_style}; script-src {of_theme} {of_script}; base-uri 'none'; "
        f"img-src data:{policy and '; '}{policy}",
        "title": escape(title),
        "version": escape(__version__),
        "style": style,
        "theme": theme,
        "data": embedded,
        "script": script,
    }
    template = asset(_HEAD) + asset(body)
    for place, name in _COMMON.items():
        template = template.replace(f"{{{{{place}}}}}", asset(name))
    html = {name: Markup(value) for name, value in {**(values or {}), **everywhere}.items()}
    return _templates().from_string(template).render({**context, **html})


def filled(template: str, **context: Any) -> str:
    """A template of the package, by its path from the package root, filled in; text is escaped."""
    return _templates().from_string(asset(template)).render(context).rstrip("\n")


@cache
def _templates() -> "Environment":
    """Jinja's environment, which escapes text as :func:`html.escape` does and refuses names that have no value."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def escaped(value: Any) -> Any:
        return value if hasattr(value, "__html__") else Markup(escape(str(value)))

    return Environment(autoescape=True, finalize=escaped, undefined=StrictUndefined, keep_trailing_newline=True)


def number_cell(value: float, low: float, high: float) -> dict[str, Any] | None:
    """A cell of a table of ``cells.js``: a number with its interval, if it has one; None for NaN."""
    interval = "" if math.isnan(low) else f"[{signed(low)}, {signed(high)}]"
    return None if math.isnan(value) else {"text": signed(value), "more": interval}


def write_page(path: str | Path, html: str) -> Path:
    """Write a page as one file.

    Raises:
        StoreError: the file cannot be written.
    """
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"cannot write {path}: it is a folder; name a file")
    write_derived(path.parent, {path.name: html.encode()}, remedy="name another file")
    return path


def framed(html: str, *, title: str, height: int) -> str:
    """The page in a frame of its own, ``height`` pixels high, where its style and script do not meet a notebook's."""
    return (
        f'<iframe srcdoc="{escape(html)}" sandbox="allow-scripts allow-downloads" title="{escape(title)}" '
        f'style="width:100%;height:{height}px;border:0;border-radius:8px"></iframe>'
    )
