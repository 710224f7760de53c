"""Progress of a long job, as a bar or not shown."""

import sys
import warnings
from threading import Lock
from typing import Any

_MOST_WRITTEN_OUT = 9999  # larger totals are written as 12.3k
_DRAWING = Lock()
"""Held while a bar is made and while a line is written: a line is put above all bars, and one of a notebook that
another thread has only half made cannot be drawn."""


class Progress:
    """Reports of a long job, which calls these methods. This class prints notes and shows nothing else."""

    def start(self, total: int, *, unit: str) -> None:
        """Begin a job of ``total`` units."""

    def advance(self, amount: int) -> None:
        """Count ``amount`` more units as done; called from any thread."""

    def skip(self, amount: int) -> None:
        """Count ``amount`` units as done by an earlier run, which does not change the rate."""

    def finish(self) -> None:
        """End the job."""

    def say(self, text: str) -> None:
        """Show what is being done, for a job of unknown length."""

    def note(self, text: str) -> None:
        """Show a note to the user, on standard error."""
        self.line(f"note: {text}")

    def line(self, text: str) -> None:
        """Print a line on standard error, above any bar."""
        with _DRAWING:
            _tqdm().write(text, file=sys.stderr)


silent = Progress()


def can_show() -> bool:
    """Whether bars can be drawn: standard error is a terminal, or this is a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or "IPKernelApp" in getattr(shell, "config", ())


def _tqdm() -> Any:
    """The bars of a terminal, or of a notebook."""
    with warnings.catch_warnings():
        # A notebook without ipywidgets shows them as text.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    return tqdm


class BarProgress(Progress):
    """A bar with what is done of how much, rate and remaining time, on standard error or in a notebook."""

    def __init__(self, label: str) -> None:
        self._label, self._lock = label, Lock()
        self._bar: Any = None

    def start(self, total: int, *, unit: str) -> None:
        """Draw the bar."""
        self._draw(total=total, unit=f" {unit}", unit_scale=total > _MOST_WRITTEN_OUT, smoothing=0.05)

    def _draw(self, **settings: Any) -> None:
        with _DRAWING:
            self._bar = _tqdm()(desc=self._label, leave=False, **settings)

    def advance(self, amount: int) -> None:
        """Move the bar."""
        with self._lock:
            self._bar.update(amount)

    def skip(self, amount: int) -> None:
        """Move the start of the bar."""
        self._bar.initial += amount
        self._bar.update(amount)

    def say(self, text: str) -> None:
        """Show the text instead of a bar, with the time it has taken."""
        if self._bar is None:
            self._draw(total=1, bar_format="{desc} [{elapsed}]")
        self._bar.set_description_str(f"{self._label}: {text}")

    def finish(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
