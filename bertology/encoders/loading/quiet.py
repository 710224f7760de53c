"""Model libraries kept quiet while they load, and their errors turned into one line."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from bertology._memory import is_out_of_memory
from bertology.errors import BertologyError, ModelError


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence progress bars, warnings and log lines of the model libraries inside the block.

    What matters (missing weights, a vocabulary that does not fit) is checked and raised by the caller.
    """
    with warnings.catch_warnings():
        # Before the imports below, which may warn as well (in a notebook, of missing widgets).
        warnings.simplefilter("ignore")
        with quiet_download(), _transformers_quiet():
            yield


@contextlib.contextmanager
def one_line(what: str, *, remedy: str) -> Iterator[None]:
    """Turn the errors that a library raises for a model's files into a ModelError of one line, but not lack of memory.

    Each architecture validates in its own way, broken files show as errors of every kind, and the tokenizers library
    raises bare exceptions and panics. ``what`` names the file or folder, and what cannot be done with it.
    """
    try:
        yield
    except BaseException as error:
        is_librarys = isinstance(error, Exception) or type(error).__name__ == "PanicException"
        if not is_librarys or isinstance(error, BertologyError) or is_out_of_memory(error):
            raise
        if "weights_only" in str(error):
            # torch then advises to load the file in a way that runs whatever code is in it.
            raise ModelError(
                f"{what} (it is a pickle that holds more than tensors, which can run code); ask its author for "
                "safetensors, or for a pickle of the weights alone"
            ) from None
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = (lines[0] if lines else type(error).__name__)[:200]
        raise ModelError(f"{what} ({reason}); {remedy}") from None


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
