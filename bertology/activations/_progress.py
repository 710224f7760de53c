"""How a long job tells a person where it is."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from threading import Lock
from typing import Any


class Progress(ABC):
    """Told by a long job how far it is."""

    @abstractmethod
    def start(self, total: int, *, unit: str) -> None:
        """A job of ``total`` units begins."""

    @abstractmethod
    def advance(self, amount: int) -> None:
        """So many more units are done; told from any thread."""

    @abstractmethod
    def skip(self, amount: int) -> None:
        """So many units were done by an earlier run."""

    @abstractmethod
    def finish(self) -> None:
        """The job is done."""

    @abstractmethod
    def say(self, text: str) -> None:
        """What is being done now, by a job that cannot know its length."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Something a person should know."""


class SilentProgress(Progress):
    """Shows nothing but notes, which go to standard error."""

    def start(self, total: int, *, unit: str) -> None:
        """Nothing to show."""

    def advance(self, amount: int) -> None:
        """Nothing to show."""

    def skip(self, amount: int) -> None:
        """Nothing to show."""

    def finish(self) -> None:
        """Nothing to show."""

    def say(self, text: str) -> None:
        """Nothing to show."""

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
