"""Loading without chatter: progress bars and library notes off, and back on afterwards."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence progress bars, warnings and log lines of the model libraries inside the block.

    What matters about a load (missing weights, a vocabulary that does not fit) is checked and raised by the caller;
    nothing is left to a log line.
    """
    with warnings.catch_warnings():
        # First of all: importing what the others need may warn as well, in a notebook of missing widgets.
        warnings.simplefilter("ignore")
        with quiet_download(), _transformers_quiet():
            yield


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


@contextlib.contextmanager
def _transformers_quiet() -> Iterator[None]:
    import logging as levels

    from transformers.utils import logging as library

    logging: Any = library
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(levels.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
