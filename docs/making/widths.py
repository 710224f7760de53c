"""What does not fit a window: pages wider than it, code that is cut, tables that neither fit nor scroll, bare images.

``python docs/making/widths.py SITE`` opens the pages of a built site in Chromium at the widths of a screen and a phone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WIDTHS = (1280, 390)
FOLDERS = ("", "concepts", "how-to", "experiments", "notebooks")
"""Pages that are looked at; of the reference, which is made by one template, its first pages alone."""
_LOOK = """() => {
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  const scrolls = (one) => one && one.scrollWidth > one.clientWidth + 1;
  const cut = [...document.querySelectorAll('article pre > code')].filter(
    (one) => scrolls(one) && getComputedStyle(one).whiteSpace !== 'pre').length;
  const tables = [...document.querySelectorAll('article table:not(.highlighttable)')].filter((one) => {
    const box = one.closest('.md-typeset__scrollwrap, .jp-OutputArea-output, .jp-RenderedHTMLCommon');
    const right = one.getBoundingClientRect().right - window.innerWidth;
    return right > 1 && !(box && ['auto', 'scroll'].includes(getComputedStyle(box).overflowX));
  }).length;
  const images = [...document.querySelectorAll('article img')];
  const bare = images.filter((one) => !one.alt.trim()).length;
  const broken = images.filter((one) => one.complete && !one.naturalWidth).length;
  return {wide, cut, tables, bare, broken};
}"""
_FOUND = {
    "wide": "is {} px wider than its window",
    "cut": "cuts {} blocks of code",
    "tables": "has {} tables that neither fit nor scroll",
    "bare": "has {} images without a text",
    "broken": "has {} images that do not load",
}


def misfits(browser: Any, site: Path, folders: tuple[str, ...] = FOLDERS) -> Iterator[str]:
    """What is wrong with the pages of a site, one line each."""
    paths = [path for folder in folders for path in sorted((site / folder).glob("*.html"))]
    paths += sorted((site / "reference").glob("*.html"))
    page = browser.new_page()
    for path in paths:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if width == WIDTHS[0]:
                page.goto(path.as_uri(), wait_until="load")
            found = page.evaluate(_LOOK)
            yield from (
                f"{path.relative_to(site)} at {width} px {text.format(found[name])}"
                for name, text in _FOUND.items()
                if found[name] > 0
            )
    page.close()


if __name__ == "__main__":
    import shutil

    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        problems = list(misfits(chromium, Path(sys.argv[1])))
        chromium.close()
    sys.exit("\n".join(problems))
