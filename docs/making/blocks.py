"""The fenced blocks of pages: those that carry a mark, as CI and tests run them."""

from __future__ import annotations

import re
from pathlib import Path

_MARKED = re.compile(r"^<!-- (?P<mark>[^\n]*?) -->\n```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)


def marked(page: Path, kind: str) -> dict[str, str]:
    """By name the blocks under ``<!-- KIND: NAME -->``, in the order of the page."""
    found = _MARKED.finditer(page.read_text(encoding="utf-8"))
    return {one["mark"].removeprefix(f"{kind}: "): one["text"] for one in found if one["mark"].startswith(f"{kind}: ")}
