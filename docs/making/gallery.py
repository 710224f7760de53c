"""Draw the figures of the gallery by the lines that it shows: ``python docs/making/gallery.py [FOLDER]``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from blocks import marked

DOCS = Path(__file__).resolve().parents[1]


def draw(folder: Path) -> None:
    """Run the blocks of the page in its order and save each ``figure`` as an SVG of the block's name."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    import matplotlib

    # Identifiers in the files do not change from one run to the next.
    matplotlib.rcParams["svg.hashsalt"] = "bertology"
    folder.mkdir(parents=True, exist_ok=True)
    space: dict[str, Any] = {"__name__": "gallery"}
    for name, text in marked(DOCS / "gallery.md", "figure").items():
        began = time.perf_counter()
        space.pop("figure", None)
        exec(compile(text, f"gallery.md, {name}", "exec"), space)
        if "figure" in space:
            space["figure"].savefig(folder / f"{name}.svg", metadata={"Date": None})
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures")
