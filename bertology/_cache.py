"""Where what is costly to make again is kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder of everything cached: ``BERTOLOGY_CACHE``, else the user's cache folder of this system.

    The folder may not exist yet; whoever writes into it makes it.
    """
    chosen = os.environ.get("BERTOLOGY_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("bertology", appauthor=False))
