"""Silence of the model libraries: progress bars, warnings and log lines, of loading, downloading and training."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from logging import CRITICAL
from typing import Any


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence progress bars, warnings and log lines of the model libraries inside the block.

    What matters (missing weights, a vocabulary that does not fit) is checked and raised by the caller.
    """
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        # Before the import below, which may warn as well (in a notebook, of missing widgets).
        warnings.simplefilter("ignore")
        from transformers.utils import logging as library

        logging: Any = library
        stack.callback(logging.set_verbosity, logging.get_verbosity())
        logging.set_verbosity(CRITICAL)
        if logging.is_progress_bar_enabled():
            stack.callback(logging.enable_progress_bar)
            logging.disable_progress_bar()
        stack.enter_context(quiet_download())
        yield


@contextlib.contextmanager
def quiet_download() -> Iterator[None]:
    """Silence the hub's progress bars inside the block."""
    import huggingface_hub.utils as hub_utils

    hub: Any = hub_utils
    with contextlib.ExitStack() as stack:
        if not hub.are_progress_bars_disabled():
            stack.callback(hub.enable_progress_bars)
            hub.disable_progress_bars()
        yield
