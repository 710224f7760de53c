"""Progress of a long job, as a bar or not shown."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from threading import Lock
from typing import Any


class Progress(ABC):
    """Reports of a long job, which calls these methods."""

    @abstractmethod
    def start(self, total: int, *, unit: str) -> None:
        """Begin a job of ``total`` units."""

    @abstractmethod
    def advance(self, amount: int) -> None:
        """Count ``amount`` more units as done; called from any thread."""

    @abstractmethod
    def skip(self, amount: int) -> None:
        """Count ``amount`` units as done by an earlier run."""

    @abstractmethod
    def finish(self) -> None:
        """End the job."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Show what is being done, for a job of unknown length."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Show a note to the user."""


class SilentProgress(Progress):
    """Shows only notes, on standard error."""

    def start(self, total: int, *, unit: str) -> None:
        """Show nothing."""

    def advance(self, amount: int) -> None:
        """Show nothing."""

    def skip(self, amount: int) -> None:
        """Show nothing."""

    def finish(self) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Print the note."""
        print(f"note: {text}", file=sys.stderr)


class BarProgress(Progress):
    """A bar on standard error with rate and remaining time."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None
        self._lock = Lock()

    def start(self, total: int, *, unit: str) -> None:
        """Draw the bar."""
        from tqdm import tqdm

        self._bar = tqdm(total=total, desc=self._label, unit=f" {unit}", unit_scale=True, leave=False, smoothing=0.05)

    def advance(self, amount: int) -> None:
        """Move the bar on."""
        with self._lock:
            self._bar.update(amount)

    def skip(self, amount: int) -> None:
        """Move the start of the bar, so that its rate is that of this run."""
        self._bar.initial += amount
        self._bar.update(amount)

    def say(self, text: str) -> None:
        """Show the text instead of a bar, with the time it has taken."""
        from tqdm import tqdm

        if self._bar is None:
            self._bar = tqdm(total=1, bar_format="{desc} [{elapsed}]", leave=False)
        self._bar.set_description_str(f"{self._label}: {text}")

    def finish(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def note(self, text: str) -> None:
        """Print the note without breaking the bar."""
        from tqdm import tqdm

        tqdm.write(f"note: {text}", file=sys.stderr)


silent: Progress = SilentProgress()
