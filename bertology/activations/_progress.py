"""Progress of a long job, as a bar or not shown."""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any


class Progress:
    """Reports of a long job, which calls these methods. This class prints notes and shows nothing else."""

    def start(self, total: int, *, unit: str) -> None:
        """Begin a job of ``total`` units."""

    def advance(self, amount: int) -> None:
        """Count ``amount`` more units as done; called from any thread."""

    def skip(self, amount: int) -> None:
        """Count ``amount`` units as done by an earlier run."""

    def finish(self) -> None:
        """End the job."""

    def say(self, text: str) -> None:
        """Show what is being done, for a job of unknown length."""

    def note(self, text: str) -> None:
        """Show a note to the user, on standard error."""
        print(f"note: {text}", file=sys.stderr)


silent = Progress()


class BarProgress(Progress):
    """A bar on standard error with rate and remaining time."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None
        self._lock = Lock()

    def start(self, total: int, *, unit: str) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=total, desc=self._label, unit=f" {unit}", unit_scale=True, leave=False, smoothing=0.05)

    def advance(self, amount: int) -> None:
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
        if self._bar is not None:
            self._bar.close()

    def note(self, text: str) -> None:
        """Print the note without breaking the bar."""
        from tqdm import tqdm

        tqdm.write(f"note: {text}", file=sys.stderr)
