"""Numbers and rows of cells as text."""

from __future__ import annotations

from collections.abc import Sequence


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
