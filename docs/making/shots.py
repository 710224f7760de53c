"""Take the pictures of the gallery's pages by the commands that it shows: ``python docs/making/shots.py [FOLDER]``.

Each block under ``<!-- page: NAME -->`` is run in a folder of its own; the page that it writes, or serves, is opened in
Chromium, and what a reader sees first is saved as ``page-NAME.png``.
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from blocks import marked

DOCS = Path(__file__).resolve().parents[1]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT, COLORS = 1100, 760, 128


def take(folder: Path) -> None:
    """Save a picture of every page, in few colours."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    path = next(found for name in CHROMIUM if (found := shutil.which(name)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, text in marked(DOCS / "gallery.md", "page").items():
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            with tempfile.TemporaryDirectory() as here:
                seen = _seen(page, text, Path(here))
            picture = Image.open(io.BytesIO(seen)).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
            picture.save(folder / f"page-{name}.png", optimize=True)
            print(f"{name}: {(folder / f'page-{name}.png').stat().st_size // 1000} kB", flush=True)
            page.close()
        browser.close()


def _seen(page: Any, text: str, here: Path) -> bytes:
    lines = text.strip().replace("\\\n", "").splitlines()
    if "explore" not in lines[-1]:
        for line in lines:
            subprocess.run(shlex.split(line), cwd=here, check=True, capture_output=True)
        page.goto(next(iter(sorted(here.rglob("*.html")))).as_uri())
        page.wait_for_timeout(1500)
        return _cut(page)
    server = subprocess.Popen(shlex.split(lines[-1]), cwd=here, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
        page.goto(address)
        page.locator("#panel-attention").click()
        page.locator("#examples button").first.click()
        page.locator("#stop").wait_for(state="hidden", timeout=60_000)
        page.wait_for_timeout(1500)
        return _cut(page)
    finally:
        server.terminate()
        server.wait()


def _cut(page: Any) -> bytes:
    """The top of the page, not lower than its content."""
    height = min(HEIGHT, page.evaluate("Math.ceil(document.documentElement.getBoundingClientRect().height)"))
    picture: bytes = page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": max(height, 200)})
    return picture


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures")
