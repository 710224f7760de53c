"""A local page on which one sentence is looked at from all sides, live: ``bertology explore``.

``panels`` is to be read first: each panel is a view that a command and a function make as well, with the lines that
give the same. ``worker`` keeps models loaded and computes one view after the other, in one thread; ``server`` is what
the browser talks to. Only the server imports starlette and uvicorn.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from bertology.errors import BertologyError


def serve(
    models: Sequence[str],
    corpora: Sequence[str] = ("pocket",),
    *,
    lenses: Sequence[Path] = (),
    port: int = 0,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the page on this machine alone, until the process is interrupted.

    Args:
        models: names, folders or hub ids of the models that can be chosen on the page.
        corpora: names or paths of the corpora that can be chosen there.
        lenses: files of tuned lenses, each of one of the models.
        port: of 127.0.0.1; a free one for 0.
        ready: takes the address, once the page can be opened.

    Raises:
        BertologyError: there is no such model, corpus or lens, the port is taken, or the extra is not installed.
    """
    try:
        from bertology.explore import server
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise BertologyError(
            "bertology explore needs starlette and uvicorn: pip install 'bertology[explore]'"
        ) from error
    server.serve(models, corpora, lenses=lenses, port=port, ready=ready)
