"""Silence of the model libraries: progress bars, warnings and log lines, of loading, downloading and training."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence progress bars, warnings and log lines of the model libraries inside the block.

    What matters (missing weights, a vocabulary that does not fit) is checked and raised by the caller.
    """
    import logging as levels

    with warnings.catch_warnings():
        # Before the import below, which may warn as well (in a notebook, of missing widgets).
        warnings.simplefilter("ignore")
        from transformers.utils import logging as library

        logging: Any = library
        level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity(levels.CRITICAL)
        logging.disable_progress_bar()
        try:
            with quiet_download():
                yield
        finally:
            logging.set_verbosity(level)
            if bars:
                logging.enable_progress_bar()


@contextlib.contextmanager
def quiet_download() -> Iterator[None]:
    """Silence the hub's progress bars inside the block."""
    import huggingface_hub.utils as hub_utils

    hub: Any = hub_utils
    if hub.are_progress_bars_disabled():
        yield
        return
    hub.disable_progress_bars()
    try:
        yield
    finally:
        hub.enable_progress_bars()
