"""How results are shown: as text in columns, CSV or JSON, and as a page or a figure."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bertology.errors import StoreError, quoted

if TYPE_CHECKING:
    import pandas as pd

    from bertology._figures import ShownFigure

_PAGE = ".html"
_FIGURES = (".svg", ".pdf", ".png")


class PageAndFigure(ABC):
    """A result with an HTML page and a figure; a notebook displays the page."""

    page_title: ClassVar[str]
    """Of the frame in a notebook."""
    page_height: ClassVar[int]
    """Of the frame in a notebook, in pixels."""

    @abstractmethod
    def to_html(self) -> str:
        """The page as text; it makes no request."""

    @abstractmethod
    def plot(self) -> ShownFigure:
        """The figure."""

    def save(self, path: str | Path) -> Path:
        """Write the page (``.html``) or the figure (``.svg``, ``.pdf`` or ``.png``).

        Raises:
            StoreError: the name ends otherwise, or the file cannot be written.
        """
        if check_ending(path) != _PAGE:
            return self.plot().save(path)
        from bertology._page import write_page

        return write_page(path, self.to_html())

    def _repr_html_(self) -> str:
        from bertology._page import framed

        return framed(self.to_html(), title=self.page_title, height=self.page_height)


def check_ending(path: str | Path) -> str:
    """The ending of the name of a page or figure, in lower case.

    Raises:
        StoreError: it is that of neither.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in (_PAGE, *_FIGURES):
        raise StoreError(f"cannot write {quoted(path.name)}: name a file that ends in .html, .svg, .pdf or .png")
    return ending


def decimals(value: float, n: int = 2) -> str:
    """A number with so many decimals; what rounds to zero has no sign."""
    return f"{round(value, n) + 0.0:.{n}f}"


def signed(value: float) -> str:
    """A number of a page, with two decimals and a true minus sign."""
    return decimals(value).replace("-", "−")


def aligned(rows: Sequence[Sequence[str]], *, right: int | None = None) -> list[str]:
    """Rows of cells as lines, the columns as wide as their widest cell; those from number ``right`` on end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<" if right is None or column < right else ">" for column in range(len(widths))]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]


def csv_text(frame: pd.DataFrame) -> str:
    """A table as CSV, without the numbers of its rows."""
    return str(frame.to_csv(index=False, lineterminator="\n"))


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as values of JSON; a number that is not finite is None."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return rows


def json_text(value: Any) -> str:
    """JSON to be read by people too."""
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
